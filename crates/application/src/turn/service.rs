//! [`TurnService::tell`]: the loop of a turn.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cleveragents_domain::{
    Diagnose as _, LeaseSubject, LeaseToken, Message, NewMessage, Role, Sequence, SessionId,
    TokenUsage, ToolInvocationId, Turn, TurnId,
};
use cleveragents_models::{AssistantMessage, ChatMessage, ToolCall};
use cleveragents_store::messages::{Announce, Appended};
use cleveragents_store::{Engine, UnitOfWork, leases, messages, sessions, turns};
use cleveragents_tools::{CallOutcome, LoopGuard, ToolName, Verdict};
use serde_json::Value;
use tokio::runtime::Runtime;
use tracing::field::Empty;

use super::ask::Standing;
use super::calls::CallRunner;
use super::error::TurnError;
use super::history;
use super::request::{Ending, TurnReport, TurnRequest};
use super::take::TakenSession;
use super::tool_limit::LimitedTools;
use crate::lease::LeaseService;
use crate::log_fields::milliseconds;
use crate::session::{SessionError, SessionService};
use crate::tool::{Ahead, Settlement, StoreBudget, StoreLedger};

/// Answers questions in sessions.
#[derive(Clone)]
pub struct TurnService {
    pub(super) engine: Arc<Engine>,
    pub(super) sessions: SessionService,
    pub(super) leases: LeaseService,
    /// What listens to models. Kept, since connections that are kept belong to it.
    runtime: Arc<OnceLock<Runtime>>,
}

/// A turn that is running.
pub(super) struct Running {
    pub(super) turn: Turn,
    pub(super) steps: Vec<Arc<ChatMessage>>,
    /// How many of the steps are stored, or are with the next call. The results of the last calls may not be: the
    /// rows of those calls hold them, so they are stored together with what follows, in one commit less.
    pub(super) stored: usize,
    /// Of calls that were made: what the model calls them, and their rows.
    pub(super) rows: Vec<(String, ToolInvocationId)>,
    /// Arguments as the model wrote them, of calls that held a secret: never stored.
    pub(super) written: HashMap<String, String>,
    /// Whether its calls come from the store, where arguments have no secrets.
    pub(super) is_loaded: bool,
    /// What was noted when the question was asked that waits for an answer, by a process that is gone.
    pub(super) noted: Option<Value>,
    pub(super) fence: (LeaseSubject, LeaseToken),
}

impl Running {
    /// The steps that are not stored yet, with their numbers.
    fn open_steps(&self) -> Vec<(u64, String)> {
        (0_u64..)
            .zip(&self.steps)
            .skip(self.stored)
            .map(|(number, step)| (number, chat_text(step)))
            .collect()
    }
}

/// What an answer of the model cost.
pub(super) struct StepCost {
    pub(super) usage: TokenUsage,
    pub(super) settlement: Settlement,
    /// Whether the price of the model is known.
    pub(super) is_known: bool,
}

impl TurnService {
    /// A service over a store.
    pub fn new(engine: Arc<Engine>, sessions: SessionService) -> Self {
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            engine,
            sessions,
            runtime: Arc::default(),
        }
    }

    pub(super) fn runtime(&self) -> std::io::Result<&Runtime> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let made = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(self.runtime.get_or_init(|| made))
    }

    /// Answers a question in a session that was taken, or goes on with the turn that was interrupted
    /// in it.
    pub fn tell(
        &self,
        taken: &mut TakenSession,
        request: &TurnRequest<'_>,
    ) -> Result<TurnReport, TurnError> {
        let actor: &dyn Display = match &request.actor {
            Some(actor) => actor,
            None => request.model.name(),
        };
        let span = tracing::error_span!(
            "invoke_agent", otel.kind = "internal", %actor, session = %taken.session,
            input_tokens = Empty, output_tokens = Empty, code = Empty,
        );
        let _entered = span.enter();
        let begun = Instant::now();
        let cancel = request.cancel.child();
        let _guard = taken.lease.guard(&cancel);
        let request = TurnRequest {
            cancel: &cancel,
            ..request.clone()
        };
        let limited = LimitedTools::new(&request);
        let request = match &limited {
            Some(limited) => limited.apply(&request),
            None => request,
        };
        let told = self.take_turn(taken, &request);
        match &told {
            Ok(report) => {
                span.record("input_tokens", report.usage.input_tokens.0);
                span.record("output_tokens", report.usage.output_tokens.0);
                tracing::info!(
                    turn = %report.turn, steps = report.steps, calls = report.calls.len(),
                    cost_micro_usd = report.usage.cost_micro_usd.0, duration_ms = milliseconds(begun), "turn finished"
                );
            }
            Err(error) => {
                span.record("code", error.code().as_str());
                tracing::info!(%error, duration_ms = milliseconds(begun), "turn failed");
            }
        }
        told
    }

    fn take_turn(
        &self,
        taken: &mut TakenSession,
        request: &TurnRequest<'_>,
    ) -> Result<TurnReport, TurnError> {
        let (session, left) = (taken.session, taken.interrupted.take());
        let question = request
            .prompt
            .as_ref()
            .map(|prompt| {
                // A key that was pasted goes neither to the model nor into the store.
                let prompt = request.redactor.text(prompt).into_owned();
                self.sessions
                    .message(Role::User, prompt, cleveragents_domain::Metadata::new())
            })
            .transpose()?;
        let fence = (taken.lease.subject().clone(), taken.lease.token());
        let (mut running, interrupted) = match (left, question) {
            (Some(turn), None) => {
                let (running, interrupted) = self.resume(request, turn, fence)?;
                (running, Some(interrupted))
            }
            (Some(turn), Some(question)) => {
                let interrupted = self.close(request, turn, fence.clone())?;
                let running = self.begin(request, session, &question, fence)?;
                (running, Some(interrupted))
            }
            (None, Some(question)) => (self.begin(request, session, &question, fence)?, None),
            (None, None) => return Err(TurnError::NothingToResume(session)),
        };
        match self.work(request, &mut running) {
            Ok(mut report) => {
                report.sequences = self.end(&running, None)?;
                report.interrupted = interrupted;
                Ok(report)
            }
            Err(error @ (TurnError::Cancelled | TurnError::HumanNeeded(_)))
                if request.settings.keeps_unfinished =>
            {
                Err(error)
            }
            Err(error) => {
                self.end(&running, Some(&error.to_string()))?;
                Err(error)
            }
        }
    }

    fn begin(
        &self,
        request: &TurnRequest<'_>,
        session: SessionId,
        question: &NewMessage,
        fence: (LeaseSubject, LeaseToken),
    ) -> Result<Running, TurnError> {
        let id = TurnId::generate();
        let first = ChatMessage::user(question.content());
        let model = request.model.name().to_string();
        let sandbox = request
            .tools
            .workspace
            .map(|workspace| workspace.name().to_owned());
        let (stored, held) = (chat_text(&first), fence.clone());
        let turn = self.engine.write(move |unit| {
            leases::require(unit, &held.0, held.1)?;
            turns::begin(unit, id, session, &model, &stored)?;
            if let Some(sandbox) = &sandbox {
                turns::set_sandbox(unit, id, sandbox)?;
            }
            turns::running(unit, session)?
                .ok_or_else(|| cleveragents_store::Error::stored("a turn", "is missing"))
        })?;
        Ok(Running {
            turn,
            steps: vec![first.into()],
            stored: 1,
            rows: Vec::new(),
            written: HashMap::new(),
            is_loaded: false,
            noted: None,
            fence,
        })
    }

    /// The loop.
    fn work(
        &self,
        request: &TurnRequest<'_>,
        running: &mut Running,
    ) -> Result<TurnReport, TurnError> {
        let budget = StoreBudget::new(Arc::clone(&self.engine), request.scopes.clone());
        let ledger = StoreLedger::new(Arc::clone(&self.engine), Some(running.turn.id))
            .under(running.fence.clone());
        let runner = CallRunner {
            request,
            session: running.turn.session,
            budget: &budget,
            ledger: &ledger,
        };
        let mut report = TurnReport {
            turn: running.turn.id,
            answer: String::new(),
            ending: Ending::Whole,
            model: request.model.name().to_string(),
            usage: TokenUsage::default(),
            is_cost_partial: false,
            is_beyond_limits: false,
            steps: 0,
            calls: Vec::new(),
            sequences: Vec::new(),
            interrupted: None,
            left_out: 0,
        };
        // It died between its last answer and its end: that answer is the one.
        if let Some(ChatMessage::Assistant(answer)) = running.steps.last().map(Arc::as_ref)
            && answer.calls.is_empty()
        {
            report.answer.clone_from(&answer.text);
            return Ok(report);
        }
        let outcome = self.go(&runner, running, &mut report);
        // An answer whose calls did not even begin.
        ledger.settle()?;
        outcome.map(|()| report)
    }

    /// Asks and answers in turn, until there is an answer without calls.
    fn go(
        &self,
        runner: &CallRunner<'_>,
        running: &mut Running,
        report: &mut TurnReport,
    ) -> Result<(), TurnError> {
        let (request, budget) = (runner.request, runner.budget);
        let mut repetition = LoopGuard::new(3, 6);
        let standing = Standing::new(request, self.earlier(running.turn.session)?);
        loop {
            // After a crash the last answer may still wait for results.
            let waiting = match running.steps.last().map(Arc::as_ref) {
                Some(ChatMessage::Assistant(answer)) if !answer.calls.is_empty() => {
                    Some(answer.calls.clone())
                }
                _ => None,
            };
            if let Some(calls) = waiting {
                // A step is what follows one answer; that of a plan is all of its turn.
                if request.plan.is_some() {
                    budget.go_on_with_step(made(&running.steps));
                } else {
                    budget.begin_step();
                }
                let verdict =
                    self.answer_calls(runner, running, &calls, report, &mut repetition)?;
                if let Verdict::Stuck { times } = verdict {
                    return Err(TurnError::Stuck(times));
                }
                continue;
            }
            if request.cancel.is_cancelled() {
                return Err(TurnError::Cancelled);
            }
            if report.steps >= request.settings.max_steps {
                return Err(TurnError::TooManySteps(report.steps));
            }
            if !request.allowance.ask() {
                return Err(TurnError::Exhausted);
            }
            report.steps += 1;
            request.observer.step(report.steps);
            let completion = self.ask(runner, running, &standing, report)?;
            if completion.message.calls.is_empty() {
                report.ending = Ending::from(&completion.stop);
                report.answer = completion.message.text;
                report.model = completion.model.to_string();
                return Ok(());
            }
            if !request
                .allowance
                .call(completion.message.calls.len() as u64)
            {
                return Err(TurnError::Exhausted);
            }
        }
    }

    fn earlier(&self, session: SessionId) -> Result<Vec<Message>, TurnError> {
        Ok(self
            .sessions
            .messages(session, Sequence(0), i64::MAX.unsigned_abs())?)
    }

    fn answer_calls(
        &self,
        runner: &CallRunner<'_>,
        running: &mut Running,
        calls: &[ToolCall],
        report: &mut TurnReport,
        repetition: &mut LoopGuard,
    ) -> Result<Verdict, TurnError> {
        let known = self.known_results(runner.request, running, calls)?;
        let done = runner.run(calls, known, &running.written)?;
        runner.ledger.settle()?;
        let mut worst = Verdict::Fine;
        let mut results = Vec::with_capacity(calls.len());
        let mut human = None;
        for (call, answered) in calls.iter().zip(done) {
            let mut result = answered.result;
            if let Some(outcome) = answered.outcome {
                let verdict =
                    repetition.answered(&call.name, &call.arguments, &outcome.fingerprint());
                if let Verdict::Repeating { times } | Verdict::Stuck { times } = verdict {
                    let _never_fails = write!(
                        result.content,
                        "\n(You made this very call {times} times and got the same answer. Do something else.)"
                    );
                }
                if matches!(verdict, Verdict::Stuck { .. }) {
                    worst = verdict;
                }
                if outcome.needs_human() {
                    human = Some(for_person(call, &outcome));
                }
                running.rows.push((call.id.clone(), outcome.invocation()));
                report.calls.push((call.clone(), outcome));
            }
            results.push(result);
        }
        if let Some(reason) = human {
            // Whoever goes on finds the calls unanswered, and makes those again that had no effect.
            if !runner.request.settings.keeps_unfinished {
                self.add_step(running, ChatMessage::Tool { results }, None)?;
            }
            return Err(TurnError::HumanNeeded(reason));
        }
        running.steps.push(ChatMessage::Tool { results }.into());
        Ok(worst)
    }

    /// Stores a step of the turn, with what it cost.
    pub(super) fn add_step(
        &self,
        running: &mut Running,
        step: ChatMessage,
        cost: Option<StepCost>,
    ) -> Result<(), TurnError> {
        running.steps.push(step.into());
        let store = storing(running, cost);
        let outcome = self.engine.write(move |unit| store(unit));
        match outcome {
            Ok(()) => running.stored = running.steps.len(),
            // What is not stored was not said.
            Err(_) => running
                .steps
                .truncate(running.steps.len().saturating_sub(1)),
        }
        Ok(outcome?)
    }

    /// Has an answer stored with the first of the calls that it asks for, in one commit less. What is lost when the
    /// program dies before that is an answer that had no effect and cost nothing: it is asked for again.
    pub(super) fn add_answer(
        &self,
        runner: &CallRunner<'_>,
        running: &mut Running,
        answer: AssistantMessage,
        cost: StepCost,
    ) -> Result<(), TurnError> {
        let is_urgent = answer.calls.is_empty() || !cost.settlement.is_empty();
        let step = ChatMessage::Assistant(answer);
        if is_urgent {
            return self.add_step(running, step, Some(cost));
        }
        running.steps.push(step.into());
        runner.ledger.put_ahead(storing(running, Some(cost)));
        running.stored = running.steps.len();
        Ok(())
    }

    /// Stores what is to be kept of the question that is being asked, with the steps that lead to it.
    pub(super) fn note(&self, running: &mut Running, note: &Value) -> Result<(), TurnError> {
        let (id, fence, open) = (running.turn.id, running.fence.clone(), running.open_steps());
        let number = (running.steps.len() as u64).saturating_sub(1);
        let note = note.clone();
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            for (number, step) in &open {
                turns::add_step(unit, id, *number, step)?;
            }
            turns::note(unit, id, number, &note)
        })?;
        running.stored = running.steps.len();
        Ok(())
    }

    /// Ends a turn: all of its messages join the session, or it failed and they join it marked so.
    pub(super) fn end(
        &self,
        running: &Running,
        failure: Option<&str>,
    ) -> Result<Vec<Sequence>, TurnError> {
        let batch = history::stored(running.turn.id, &running.steps, &running.rows, failure)?;
        let batch: Vec<Appended> = batch.into_iter().map(Appended::from).collect();
        let (turn, fence) = (running.turn.clone(), running.fence.clone());
        let open = running.open_steps();
        let failure = failure.map(crate::tool::storable);
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            for (number, step) in &open {
                turns::add_step(unit, turn.id, *number, step)?;
            }
            let sequences = messages::append(unit, turn.session, &batch, Announce::Each)?;
            // Somebody deleted it while the turn was running.
            let sequences =
                sequences.ok_or_else(|| SessionError::NotFound(turn.session.to_string()))?;
            turns::end(unit, &turn, failure.as_deref())?;
            Ok(sequences)
        })
    }
}

/// What stores the steps that are not stored yet, with what the last one cost.
fn storing(running: &Running, cost: Option<StepCost>) -> Ahead {
    let (id, session) = (running.turn.id, running.turn.session);
    let (open, fence) = (running.open_steps(), running.fence.clone());
    Arc::new(move |unit: &mut UnitOfWork<'_>| {
        leases::require(unit, &fence.0, fence.1)?;
        for (number, step) in &open {
            turns::add_step(unit, id, *number, step)?;
        }
        if let Some(cost) = &cost {
            sessions::add_usage(unit, session, cost.usage)?;
            cost.settlement.write(unit)?;
            if !cost.is_known {
                turns::mark_unpriced(unit, id)?;
            }
        }
        Ok(())
    })
}

/// A message as it is stored: JSON.
pub(super) fn chat_text(message: &ChatMessage) -> String {
    let text = serde_json::to_string(message).unwrap_or_else(|_| Value::Null.to_string());
    if !text.contains(NULL_CHARACTER) {
        return text;
    }
    let value = serde_json::to_value(message).unwrap_or_default();
    crate::tool::storable_json(&value).to_string()
}

/// How JSON writes the one character that PostgreSQL cannot store.
const NULL_CHARACTER: &str = r"\u0000";

/// What a person is told of a call that waits for one: without the advice that a model is given.
fn for_person(call: &ToolCall, outcome: &CallOutcome) -> String {
    let CallOutcome::Refused(refusal) = outcome else {
        let arguments = serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
        return match arguments["question"].as_str() {
            Some(question) => format!("nobody is there to answer: {question}"),
            None => outcome.for_model(),
        };
    };
    let tool =
        ToolName::from_wire(&call.name).map_or_else(|_| call.name.clone(), |name| name.to_string());
    format!(
        "the call of `{tool}` was refused and did not run: {}",
        refusal.reason
    )
}

/// How many calls of a turn were made and not refused.
fn made(steps: &[Arc<ChatMessage>]) -> u64 {
    let results = steps.iter().filter_map(|message| match message.as_ref() {
        ChatMessage::Tool { results } => Some(results),
        _ => None,
    });
    results.flatten().filter(|result| !result.is_error).count() as u64
}
