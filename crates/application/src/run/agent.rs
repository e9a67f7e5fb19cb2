//! Asking a model for a node: a turn in a conversation of its own, the id of which follows from the run
//! and the step. So whoever goes on with the run finds it, and goes on with the turn.

use cleveragents_actors::graph::ResponseFormat;
use cleveragents_actors::ports::{
    AgentCall, Allowance, Answer, Failure, FailureKind, StepPath, Taken,
};
use cleveragents_domain::{
    EventKind, Metadata, NewMessage, Role, SessionId, TokenUsage, TurnState,
};
use cleveragents_models::{
    CancellationToken, Model, ReasoningEffort, ResponseSchema, Retry, ToolCall, drop_optional_nulls,
};
use cleveragents_store::messages::{Announce, Appended};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{messages, runs, sessions, turns};
use cleveragents_tools::{CallOutcome, check_value};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

use super::context::RunWatcher;
use super::usage::{self, answered};
use super::work::{Work, broken, failure, refused};
use crate::answer_json::json_values;
use crate::turn::{
    TurnAllowance, TurnError, TurnObserver, TurnRequest, TurnSettings, TurnTools, Waiting,
};
use crate::unknown_outcome::Settled;

/// How often an answer that does not fit its schema may be given again.
const CORRECTIONS: usize = 2;

/// Nobody else takes turns in a conversation of a run, except one that dies.
const PATIENCE: Duration = Duration::from_secs(30);

/// How far the conversation of a step is.
enum Standing {
    /// It has not begun.
    Absent,
    /// It waits for a question.
    Open,
    /// Its turn was interrupted.
    Interrupted,
    /// It has an answer, after so many turns.
    Answered { text: String, turns: usize },
    /// Its turn failed: what was said in it is not gone on with.
    Failed,
}

impl Work<'_> {
    /// Asks, or takes what an earlier attempt at the run got.
    pub(super) fn ask(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        let agent = call.agent;
        let models = self.means.models;
        let model = match &agent.remote {
            Some(remote) => models.agent(&agent.name, remote),
            None => models.open(agent.model.as_deref()),
        };
        let model = model.map_err(refused)?;
        let gate = self.gate(&agent.tools, &agent.skills, &agent.mcp_servers)?;
        let mut number = 0_u32;
        let mut prompt = Some(call.prompt.clone());
        // What conversations took that earlier attempts at the run left failed.
        let mut lost = Taken::default();
        let (mut is_known, mut has_told) = (false, false);
        loop {
            let key = format!("{}~{}~{number}", call.path, call.attempt);
            let session = self.run.session(&key);
            let standing = self.standing(session).map_err(broken)?;
            if !is_known {
                call.allowance.count(self.taken(session).map_err(broken)?);
                is_known = true;
            }
            match standing {
                Standing::Failed => {
                    lost = lost.plus(self.taken(session).map_err(broken)?);
                    number += 1;
                    is_known = false;
                    continue;
                }
                Standing::Absent => self.begin(session, call)?,
                Standing::Open => {}
                Standing::Interrupted => prompt = None,
                Standing::Answered { text, turns } => {
                    let taken = lost.plus(self.taken(session).map_err(broken)?);
                    match answer(agent.response_format.as_ref(), &text) {
                        Ok(value) => return Ok(Answer { value, taken }),
                        // An earlier attempt at the run gave up on it: this one asks anew.
                        Err(_) if turns > CORRECTIONS && !has_told => {
                            lost = taken;
                            number += 1;
                            is_known = false;
                            continue;
                        }
                        Err(why) if turns > CORRECTIONS => {
                            return Err(Failure {
                                kind: FailureKind::Misfit,
                                message: format!(
                                    "the answer does not fit the response format: {why}"
                                ),
                                taken,
                            });
                        }
                        Err(why) => prompt = Some(correction(&why)),
                    }
                }
            }
            self.tell(call, &gate, &model, session, prompt.clone())
                .map_err(|failure| Failure {
                    taken: lost.plus(failure.taken),
                    ..failure
                })?;
            has_told = true;
        }
    }

    fn standing(&self, session: SessionId) -> Result<Standing, cleveragents_store::Error> {
        self.engine.read(|reader| {
            if sessions::get(reader, session)?.is_none() {
                return Ok(Standing::Absent);
            }
            let all = turns::of_session(reader, session)?;
            let Some(last) = all.last() else {
                return Ok(Standing::Open);
            };
            Ok(match last.state {
                TurnState::Running => Standing::Interrupted,
                TurnState::Failed => Standing::Failed,
                TurnState::Complete => Standing::Answered {
                    text: said(turns::steps(reader, last.id)?),
                    turns: all.len(),
                },
            })
        })
    }

    /// Makes the conversation with all that was said before, in one step.
    fn begin(&self, session: SessionId, call: &AgentCall<'_>) -> Result<(), Failure> {
        let mut earlier = Vec::new();
        for message in call.messages {
            let text = match &message["content"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if text.trim().is_empty() {
                continue;
            }
            let role = match message["role"].as_str() {
                Some("assistant") => Role::Assistant,
                Some("system") => Role::System,
                _ => Role::User,
            };
            let text = self.means.redactor.text(&text).into_owned();
            let message: NewMessage = self
                .sessions
                .message(role, text, Metadata::new())
                .map_err(|error| refused(error.to_string()))?;
            earlier.push(Appended::from(message));
        }
        let new = NewSession {
            owner: Some(runs::owner(self.run)),
            name: None,
            actor: None,
            namespace: "local".to_owned(),
            automation: "supervised".to_owned(),
            usage: TokenUsage::default(),
            forked_from: None,
            created_at: None,
        };
        self.engine
            .write(move |unit| {
                sessions::insert(unit, session, &new, EventKind::SessionCreated)?;
                if !earlier.is_empty() {
                    messages::append(unit, session, &earlier, Announce::Each)?;
                }
                Ok::<(), cleveragents_store::Error>(())
            })
            .map_err(broken)
    }

    fn tell(
        &self,
        call: &AgentCall<'_>,
        gate: &cleveragents_tools::Gate,
        model: &Arc<dyn Model>,
        session: SessionId,
        prompt: Option<String>,
    ) -> Result<(), Failure> {
        let means = self.means;
        let observer = Observer {
            path: call.path,
            watcher: means.watcher,
            is_streamed: call.is_streamed,
        };
        let waiting = Waiting {
            patience: PATIENCE,
            observer: &observer,
            cancel: call.cancel,
        };
        let mut taken = self
            .turns
            .take(session, &waiting)
            .map_err(|error| self.failed(&error, session))?;
        let approver = Settled {
            unknown_outcome: means.unknown_outcome,
            other: means.approver,
        };
        let request = TurnRequest {
            prompt,
            model: Arc::clone(model),
            plan: means.plan,
            actor: call.actor.name.parse().ok(),
            system: self.system(call, model.as_ref()),
            tools: TurnTools {
                gate,
                mode: means.mode,
                profile: means.profile,
                guards: means.guards,
                rules: means.rules,
                workspace: means.workspace,
                approver: &approver,
                deferred: means.deferred,
            },
            scopes: means.scopes.clone(),
            redactor: means.redactor.clone(),
            settings: settings(call, means.temperature)?,
            allowance: &Granted(call.allowance),
            observer: &observer,
            cancel: call.cancel,
            stop: CancellationToken::new(),
        };
        let told = self.turns.tell(&mut taken, &request);
        means.watcher.answered(call.path);
        let report = told.map_err(|error| self.failed(&error, session))?;
        for caveat in report.caveats() {
            means.watcher.caveat(call.path, caveat);
        }
        Ok(())
    }

    /// Everything the model must keep in mind.
    fn system(&self, call: &AgentCall<'_>, model: &dyn Model) -> Vec<String> {
        let mut system = self.means.instructions.clone();
        system.extend(call.system.clone());
        system.extend(self.means.sources.disclosure(&call.agent.skills));
        // Shown to every model: not every provider can be bound to a schema while tools are offered.
        if let Some(format) = &call.agent.response_format {
            let first = if model.capabilities().tools {
                "Call the tools you need first. Then give"
            } else {
                "Give"
            };
            system.push(format!(
                "{first} your final answer as one JSON value and nothing else. It must fit this JSON schema:\n{}",
                format.schema
            ));
        }
        system
    }

    /// A turn that came to no end, with what it took all the same.
    fn failed(&self, error: &TurnError, session: SessionId) -> Failure {
        let kind = match error {
            TurnError::Cancelled => FailureKind::Cancelled,
            TurnError::HumanNeeded(_) => FailureKind::HumanNeeded,
            TurnError::Budget { .. } => FailureKind::Refused,
            TurnError::Model(error) if error.is_retryable() => FailureKind::Timeout,
            TurnError::Store(_)
            | TurnError::Lease(_)
            | TurnError::Sandbox(_)
            | TurnError::Gate(_)
            | TurnError::Busy(_) => FailureKind::Broken,
            _ => FailureKind::Failed,
        };
        Failure {
            taken: self.taken(session).unwrap_or_default(),
            ..failure(kind, error.to_string())
        }
    }

    /// What a conversation took.
    fn taken(&self, session: SessionId) -> Result<Taken, cleveragents_store::Error> {
        self.engine
            .read(|reader| usage::of_session(reader, session))
    }
}

/// What the last answer of a turn said.
fn said(steps: Vec<Value>) -> String {
    steps
        .into_iter()
        .rev()
        .find_map(|step| answered(&step))
        .unwrap_or_default()
}

/// The answer as a value: text, or JSON when it has a form.
fn answer(format: Option<&ResponseFormat>, text: &str) -> Result<Value, String> {
    let Some(format) = format else {
        return Ok(Value::String(text.to_owned()));
    };
    let mut misfit = None;
    for mut value in json_values(text) {
        drop_optional_nulls(&format.schema, &mut value);
        match check_value(&format.schema, &value) {
            Ok(()) => return Ok(value),
            Err(why) => misfit = misfit.or(Some(why)),
        }
    }
    Err(misfit.unwrap_or_else(|| "it holds no JSON value".to_owned()))
}

fn correction(why: &str) -> String {
    format!(
        "Your answer does not have the form that was asked for: {why}. Give the whole answer again, as one \
         JSON value and nothing else."
    )
}

fn settings(call: &AgentCall<'_>, temperature: Option<f64>) -> Result<TurnSettings, Failure> {
    let agent = call.agent;
    let standard = TurnSettings::default();
    // An actor that says how often it may ask is bound by that: the run counts, and refuses one more.
    let asks = call.actor.graph.limits.max_model_calls;
    let reasoning_effort = agent
        .reasoning_effort
        .as_ref()
        .map(|word| {
            serde_json::from_value::<ReasoningEffort>(Value::String(word.clone()))
                .map_err(|_| refused(format!("`{word}` is no reasoning effort")))
        })
        .transpose()?;
    Ok(TurnSettings {
        max_steps: asks.map_or(standard.max_steps, |_| u32::MAX),
        max_output_tokens: agent.max_output_tokens,
        context_tokens: agent.memory.max_tokens,
        temperature: temperature.or(agent.temperature),
        reasoning_effort,
        options: agent.options.clone(),
        response_schema: agent.response_format.as_ref().map(|format| ResponseSchema {
            name: format.name.clone(),
            schema: format.schema.clone(),
            strict: format.strict,
        }),
        stream: call.is_streamed,
        keeps_unfinished: true,
        ..standard
    })
}

/// Grants a turn what the limits of the run leave.
struct Granted<'a>(&'a dyn Allowance);

impl TurnAllowance for Granted<'_> {
    fn ask(&self) -> bool {
        self.0.ask()
    }

    fn call(&self, calls: u64) -> bool {
        self.0.call(calls)
    }
}

/// Tells whoever watches the run what goes on in a turn of it.
struct Observer<'a> {
    path: &'a StepPath,
    watcher: &'a dyn RunWatcher,
    is_streamed: bool,
}

impl TurnObserver for Observer<'_> {
    fn text(&self, piece: &str) {
        if self.is_streamed {
            self.watcher.text(self.path, piece);
        }
    }

    fn retrying(&self, retry: &Retry, shown: bool) {
        let shown = shown && self.is_streamed;
        self.watcher.retrying(self.path, retry, shown);
    }

    fn calling(&self, call: &ToolCall) {
        self.watcher.calling(self.path, call);
    }

    fn called(&self, call: &ToolCall, outcome: &CallOutcome) {
        self.watcher.called(self.path, call, outcome);
    }
}
