//! Test support for runs: an executor with predictable answers, a log in memory, and functions that run an actor with
//! both.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_actors::ports::{
    AgentCall, Answer, Failure, FailureKind, LogError, RunObserver, Step, StepUsage, ToolStep,
};
use cleveragents_actors::{Actor, Executor, Outcome, Run, RunError, State, StepLog};
use cleveragents_domain::{MicroUsd, TokenUsage, Tokens};
use cleveragents_process::Cancel;
use serde_json::{Map, Value, json};

/// Answers every prompt with the prompt in brackets, and every tool call with the arguments of the call.
#[derive(Default)]
pub(crate) struct Echo {
    /// Received calls: path, number and attempt.
    pub(crate) calls: Mutex<Vec<(String, usize, u32)>>,
    /// Failures to return, by path, or by path and number of the call as in `a#0!1`; each is returned once.
    pub(crate) failures: Mutex<HashMap<String, Vec<Failure>>>,
    /// Number of the call, from 0, that fails as [`FailureKind::Broken`].
    pub(crate) breaks_at: Option<usize>,
    pub(crate) begun: AtomicUsize,
    /// Called with the path before each answer.
    pub(crate) before: Option<CallHook>,
    pub(crate) asked: Mutex<Vec<ReceivedPrompt>>,
}

type CallHook = Box<dyn Fn(&str) + Sync + Send>;

/// A prompt that an agent received.
pub(crate) struct ReceivedPrompt {
    pub(crate) path: String,
    pub(crate) is_streamed: bool,
    pub(crate) messages: usize,
    pub(crate) system: Option<String>,
}

impl Echo {
    pub(crate) fn failing(path: &str, failures: Vec<Failure>) -> Self {
        let echo = Self::default();
        echo.failures
            .lock()
            .expect("not poisoned")
            .insert(path.to_owned(), failures);
        echo
    }

    fn begin(&self, path: &str, number: usize, attempt: u32) -> Result<(), Failure> {
        if let Some(before) = &self.before {
            before(path);
        }
        let call_number = self.begun.fetch_add(1, Ordering::SeqCst);
        if self.breaks_at == Some(call_number) {
            return Err(failure(FailureKind::Broken, "the machine broke"));
        }
        let mut failures = self.failures.lock().expect("not poisoned");
        for name in [path, &format!("{path}!{number}")] {
            if let Some(queued) = failures.get_mut(name)
                && !queued.is_empty()
            {
                return Err(queued.remove(0));
            }
        }
        let call = (path.to_owned(), number, attempt);
        self.calls.lock().expect("not poisoned").push(call);
        Ok(())
    }

    /// Paths of the received calls, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = self
            .calls
            .lock()
            .expect("not poisoned")
            .iter()
            .map(|(path, ..)| path.clone())
            .collect();
        paths.sort();
        paths
    }
}

impl Executor for Echo {
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        self.asked
            .lock()
            .expect("not poisoned")
            .push(ReceivedPrompt {
                path: call.path.to_owned(),
                is_streamed: call.is_streamed,
                messages: call.messages.len(),
                system: call.system.clone(),
            });
        self.begin(call.path, 0, call.attempt)?;
        Ok(Answer {
            value: Value::String(format!("[{}]", call.prompt)),
            usage: model_call(),
        })
    }

    fn tool(&self, step: &ToolStep<'_>) -> Result<Answer, Failure> {
        self.begin(step.path, step.number, step.attempt)?;
        Ok(Answer {
            value: json!({"tool": step.tool, "arguments": step.arguments}),
            usage: StepUsage {
                tool_calls: 1,
                ..StepUsage::default()
            },
        })
    }
}

pub(crate) fn model_call() -> StepUsage {
    StepUsage {
        usage: TokenUsage {
            input_tokens: Tokens(10),
            output_tokens: Tokens(2),
            cost_micro_usd: MicroUsd(7),
        },
        model_calls: 1,
        tool_calls: 0,
    }
}

pub(crate) fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure {
        kind,
        message: message.to_owned(),
        usage: StepUsage::default(),
    }
}

/// Stores steps in memory. No path may be written twice.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) known: HashMap<String, Step>,
    pub(crate) written: Mutex<Vec<Step>>,
    /// Number of records after which the disk is full.
    pub(crate) full_at: Option<usize>,
}

impl Memory {
    pub(crate) fn from_steps(steps: &[Step]) -> Self {
        Self {
            known: steps
                .iter()
                .map(|step| (step.path.clone(), step.clone()))
                .collect(),
            ..Self::default()
        }
    }

    pub(crate) fn into_steps(self) -> Vec<Step> {
        self.written.into_inner().expect("not poisoned")
    }
}

impl StepLog for Memory {
    fn recall(&self, path: &str) -> Option<Step> {
        self.known.get(path).cloned()
    }

    fn record(&self, step: &Step) -> Result<(), LogError> {
        let mut written = self.written.lock().expect("not poisoned");
        if self.full_at.is_some_and(|full| written.len() >= full) {
            return Err(LogError("the disk is full".to_owned()));
        }
        let is_new = !self.known.contains_key(&step.path)
            && written.iter().all(|other| other.path != step.path);
        assert!(is_new, "{} is written twice", step.path);
        written.push(step.clone());
        Ok(())
    }
}

/// Counts the observed events.
#[derive(Default)]
pub(crate) struct CountingObserver {
    pub(crate) started: Mutex<Vec<String>>,
    pub(crate) recalled: Mutex<Vec<String>>,
    pub(crate) finished: Mutex<Vec<String>>,
}

impl RunObserver for CountingObserver {
    fn started(&self, path: &str, _kind: &str) {
        self.started
            .lock()
            .expect("not poisoned")
            .push(path.to_owned());
    }

    fn finished(&self, step: &Step, is_recalled: bool) {
        let list = if is_recalled {
            &self.recalled
        } else {
            &self.finished
        };
        list.lock().expect("not poisoned").push(step.path.clone());
    }
}

pub(crate) fn state(values: Value) -> State {
    match values {
        Value::Object(values) => State::new(values),
        _ => panic!("the values of a state must be a map"),
    }
}

/// Runs an actor without additional limits or context.
pub(crate) fn run(
    actor: &Actor,
    input: &State,
    executor: &dyn Executor,
    log: &dyn StepLog,
) -> Result<Outcome, RunError> {
    Run {
        actor,
        input: input.clone(),
        context: Map::new(),
        limits: None,
        executor,
        log,
        observer: &CountingObserver::default(),
        cancel: &Cancel::new(),
    }
    .execute()
}

/// Runs an actor with an empty log, and returns its outcome and the stored steps in order.
pub(crate) fn run_new(actor: &Actor, input: Value) -> (Outcome, Vec<Step>) {
    let log = Memory::default();
    let outcome = run(actor, &state(input), &Echo::default(), &log).expect("the run succeeds");
    (outcome, log.into_steps())
}

/// Runs an actor that fails, with an empty log.
pub(crate) fn run_failing(actor: &Actor, input: Value, executor: &Echo) -> RunError {
    run(actor, &state(input), executor, &Memory::default()).expect_err("the run fails")
}

pub(crate) fn paths(steps: &[Step]) -> Vec<&str> {
    steps.iter().map(|step| step.path.as_str()).collect()
}
