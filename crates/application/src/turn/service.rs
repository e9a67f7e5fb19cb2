//! [`TurnService::run`]: the loop of a turn.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cleveragents_domain::{
    Diagnose as _, LeaseSubject, LeaseToken, Message, NewMessage, Role, Sequence, SessionId,
    TokenUsage, ToolInvocationId, Turn, TurnId,
};
use cleveragents_models::{AssistantMessage, ChatMessage, StopReason, ToolCall, Usage, UserPart};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::{
    Engine, UnitOfWork, context_summaries, leases, messages, sessions, turns,
};
use cleveragents_tools::{CallOutcome, LoopGuard, RefusalReason, Verdict, called_tool};
use serde_json::Value;
use tokio::runtime::Runtime;
use tracing::field::Empty;

use super::ask::RequestBase;
use super::background::BackgroundEnd;
use super::calls::CallRunner;
use super::error::TurnError;
use super::history;
use super::report::{self, has_report};
use super::request::{Ending, TurnReport, TurnRequest};
use super::session_lock::LockedSession;
use super::tool_limit::LimitedTools;
use crate::lease::LeaseService;
use crate::log_fields::milliseconds;
use crate::observer::AgentEvent;
use crate::session::{SessionError, SessionService};
use crate::tool::{PrecedingWrite, Settlement, StoreBudget, StoreLedger};

/// Answers questions in sessions.
#[derive(Clone)]
pub struct TurnService {
    pub(super) engine: Arc<Engine>,
    pub(super) sessions: SessionService,
    pub(super) leases: LeaseService,
    /// The event loop of model requests. Reused by all turns, because pooled connections belong to it.
    runtime: Arc<OnceLock<Runtime>>,
}

pub(super) struct RunningTurn {
    pub(super) turn: Turn,
    pub(super) steps: Vec<Arc<ChatMessage>>,
    /// Number of steps that are stored, or will be stored with the next call. The results of the last
    /// calls are stored together with the next step, which saves a commit: until then, only the rows
    /// of the calls contain these results.
    pub(super) stored: usize,
    /// The call id that the model chose and the row of each call.
    pub(super) rows: Vec<(String, ToolInvocationId)>,
    /// Original arguments, by call id, of calls that contained a secret. Never stored.
    pub(super) written: HashMap<String, String>,
    /// Whether the steps come from the store, where secrets in arguments are redacted.
    pub(super) is_loaded: bool,
    /// Notes that an earlier process stored for the request that has no answer yet.
    pub(super) noted: Option<Value>,
    pub(super) fence: (LeaseSubject, LeaseToken),
}

impl RunningTurn {
    /// The steps that are not stored yet, as number and JSON.
    fn open_steps(&self) -> Vec<(u64, String)> {
        (0_u64..)
            .zip(&self.steps)
            .skip(self.stored)
            .map(|(number, step)| (number, chat_text(step)))
            .collect()
    }
}

/// The cost of an answer of the model.
pub(super) struct StepCost {
    pub(super) usage: TokenUsage,
    pub(super) settlement: Settlement,
    /// Whether the price of the model is known.
    pub(super) is_known: bool,
}

impl TurnService {
    /// Creates a service on a store.
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
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(self.runtime.get_or_init(|| runtime))
    }

    /// Answers a question in a locked session, or resumes its interrupted turn.
    pub fn run(
        &self,
        locked_session: &mut LockedSession,
        request: &TurnRequest<'_>,
    ) -> Result<TurnReport, TurnError> {
        let actor: &dyn Display = match &request.actor {
            Some(actor) => actor,
            None => request.model.name(),
        };
        let span = tracing::error_span!(
            "invoke_agent", otel.kind = "internal", %actor, session = %locked_session.session,
            input_tokens = Empty, output_tokens = Empty, code = Empty,
        );
        let _entered = span.enter();
        let started = Instant::now();
        let cancel = request.cancel.child();
        let _guard = locked_session.lease.guard(&cancel);
        let request = TurnRequest {
            cancel: &cancel,
            ..request.clone()
        };
        let limited = LimitedTools::new(&request);
        let request = match &limited {
            Some(limited) => limited.apply(&request),
            None => request,
        };
        let background = BackgroundEnd {
            workspace: request.tools.workspace,
            session: locked_session.session,
        };
        let result = self.take_turn(locked_session, &request);
        drop(background);
        match &result {
            Ok(report) => {
                span.record("input_tokens", report.usage.input_tokens.0);
                span.record("output_tokens", report.usage.output_tokens.0);
                tracing::info!(
                    turn = %report.turn, steps = report.steps, calls = report.calls.len(),
                    cost_micro_usd = report.usage.cost_micro_usd.0, duration_ms = milliseconds(started), "turn finished"
                );
            }
            Err(error) => {
                span.record("code", error.code().as_str());
                tracing::info!(%error, duration_ms = milliseconds(started), "turn failed");
            }
        }
        result
    }

    fn take_turn(
        &self,
        locked_session: &mut LockedSession,
        request: &TurnRequest<'_>,
    ) -> Result<TurnReport, TurnError> {
        let (session, interrupted_turn) =
            (locked_session.session, locked_session.interrupted.take());
        let question = request
            .prompt
            .as_ref()
            .map(|prompt| {
                // Remove pasted secrets: they go neither to the model nor into the store.
                let prompt = request.redactor.text(prompt).into_owned();
                self.sessions
                    .message(Role::User, prompt, cleveragents_domain::Metadata::new())
            })
            .transpose()?;
        let fence = (
            locked_session.lease.subject().clone(),
            locked_session.lease.token(),
        );
        let (mut running, interrupted) = match (interrupted_turn, question) {
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
        match self.run_steps(request, &mut running) {
            Ok(mut report) => {
                report.sequences = self.end(&running, None)?;
                report.interrupted = interrupted;
                Ok(report)
            }
            Err(error @ (TurnError::Cancelled | TurnError::HumanNeeded { .. }))
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
    ) -> Result<RunningTurn, TurnError> {
        let id = TurnId::generate();
        let mut parts = vec![UserPart::Text(question.content().to_owned())];
        parts.extend(request.images.iter().map(UserPart::from));
        let first = ChatMessage::User { parts };
        let model = request.model.name().to_string();
        let sandbox = request
            .tools
            .workspace
            .map(|workspace| workspace.name().to_owned());
        let (first_step, lease) = (chat_text(&first), fence.clone());
        let turn = self.engine.write(move |unit| {
            leases::require(unit, &lease.0, lease.1)?;
            turns::begin(unit, id, session, &model, &first_step)?;
            if let Some(sandbox) = &sandbox {
                turns::set_sandbox(unit, id, sandbox)?;
            }
            turns::running(unit, session)?
                .ok_or_else(|| cleveragents_store::Error::stored("a turn", "is missing"))
        })?;
        Ok(RunningTurn {
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

    /// Runs the loop, unless the turn was interrupted after its last answer.
    fn run_steps(
        &self,
        request: &TurnRequest<'_>,
        running: &mut RunningTurn,
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
        let mut report = TurnReport::new(running.turn.id, request.model.name());
        // The process died between the last answer and the end of the turn: the last answer is the
        // result.
        if let Some(ChatMessage::Assistant(answer)) = running.steps.last().map(Arc::as_ref)
            && answer.calls.is_empty()
        {
            report.answer.clone_from(&answer.text);
            return Ok(report);
        }
        // The process died between a report and the end of the turn.
        if has_report(&request.reports, &running.steps) {
            report.answer = last_answer(&running.steps);
            return Ok(report);
        }
        let outcome = self.run_loop(&runner, running, &mut report);
        // Stores an answer whose calls have not started.
        ledger.flush()?;
        outcome.map(|()| report)
    }

    /// Sends requests to the model and runs the calls, until an answer has no calls.
    fn run_loop(
        &self,
        runner: &CallRunner<'_>,
        running: &mut RunningTurn,
        report: &mut TurnReport,
    ) -> Result<(), TurnError> {
        let (request, budget) = (runner.request, runner.budget);
        let mut repetition = LoopGuard::new(3, 6);
        let session = running.turn.session;
        let mut base = self.request_base(request, session)?;
        // The usage of the last answer, if the answer was cut at the token limit.
        let mut cut = None;
        loop {
            // After a crash the last answer may have calls without results.
            let waiting = match running.steps.last().map(Arc::as_ref) {
                Some(ChatMessage::Assistant(answer)) if !answer.calls.is_empty() => {
                    Some(answer.calls.clone())
                }
                _ => None,
            };
            if let Some(calls) = waiting {
                // For call limits, each answer of a session starts a new step; in a plan, the whole turn is one
                // step.
                if request.plan.is_some() {
                    budget.go_on_with_step(successful_calls(&running.steps));
                } else {
                    budget.begin_step();
                }
                let verdict = self.answer_calls(
                    runner,
                    running,
                    &base,
                    &calls,
                    report,
                    &mut repetition,
                    cut,
                )?;
                if has_report(&request.reports, &running.steps) {
                    report.answer = last_answer(&running.steps);
                    return Ok(());
                }
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
            request.observer.event(&AgentEvent::ModelCall {
                path: None,
                number: report.steps,
            });
            self.compact(runner, running, &mut base, report)?;
            let completion = self.ask(runner, running, &base, report)?;
            cut = (completion.stop == StopReason::MaxTokens).then_some(completion.usage);
            report.model = completion.model.to_string();
            if completion.message.calls.is_empty() {
                report.ending = Ending::from(&completion.stop);
                report.answer = completion.message.text;
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

    pub(super) fn request_base(
        &self,
        request: &TurnRequest<'_>,
        session: SessionId,
    ) -> Result<RequestBase, TurnError> {
        let summary = self
            .engine
            .read(|reader| context_summaries::newest(reader, session))?;
        Ok(RequestBase::new(
            request,
            self.earlier_messages(session)?,
            summary,
        ))
    }

    fn earlier_messages(&self, session: SessionId) -> Result<Vec<Message>, TurnError> {
        Ok(self
            .sessions
            .messages(session, Sequence(0), i64::MAX.unsigned_abs())?)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the state of the loop is passed in parts"
    )]
    fn answer_calls(
        &self,
        runner: &CallRunner<'_>,
        running: &mut RunningTurn,
        base: &RequestBase,
        calls: &[ToolCall],
        report: &mut TurnReport,
        repetition: &mut LoopGuard,
        cut: Option<Usage>,
    ) -> Result<Verdict, TurnError> {
        let mut known = self.known_results(runner.request, running, calls)?;
        let reports = &runner.request.reports;
        for (call, known) in calls.iter().zip(&mut known) {
            if let Some(result) = reports.answer(call) {
                *known = Some(result);
            }
        }
        let is_shown = |text: &str| base.remaining_messages(running).shows(text);
        let answers = runner.run(calls, known, &running.written, &is_shown)?;
        runner.ledger.flush()?;
        let mut worst = Verdict::Fine;
        let mut results = Vec::with_capacity(calls.len());
        let mut human = None;
        for (call, answered) in calls.iter().zip(answers) {
            let mut result = answered.result;
            if let Some(outcome) = answered.outcome {
                let verdict =
                    repetition.answered(&call.name, &call.arguments, &outcome.fingerprint());
                if let Verdict::Repeating { times } | Verdict::Stuck { times } = verdict {
                    let _never_fails = write!(
                        result.content,
                        "\n(You made this same call {times} times and got the same result. Do something else.)"
                    );
                }
                if matches!(verdict, Verdict::Stuck { .. }) {
                    worst = verdict;
                }
                if let Some(usage) = cut {
                    explain_cut(&mut result.content, &outcome, usage);
                }
                if outcome.needs_human() {
                    let rules = outcome.allowing_rules().to_vec();
                    human = Some((reason_for_user(call, &outcome), rules));
                }
                running.rows.push((call.id.clone(), outcome.invocation()));
                report.calls.push((call.clone(), outcome));
            } else if result.is_error {
                // The model may repeat an invalid report unchanged.
                let verdict = repetition.answered(&call.name, &call.arguments, &result.content);
                if matches!(verdict, Verdict::Stuck { .. }) {
                    worst = verdict;
                }
            }
            results.push(result);
        }
        if let Some((reason, rules)) = human {
            // Without stored results, a resumed turn repeats the calls that had no effect.
            if !runner.request.settings.keeps_unfinished {
                self.add_step(running, ChatMessage::Tool { results }, None)?;
            }
            return Err(TurnError::HumanNeeded { reason, rules });
        }
        if !reports.end_turn(calls, &mut results)
            && let Some(limit) = runner.request.settings.answer_limit
            && let Some(warning) = report::limit_warning(report::answers(&running.steps), limit)
            && let Some(last) = results.last_mut()
        {
            last.content.push('\n');
            last.content.push_str(&warning);
        }
        running.steps.push(ChatMessage::Tool { results }.into());
        Ok(worst)
    }

    /// Stores a step of the turn with its cost.
    pub(super) fn add_step(
        &self,
        running: &mut RunningTurn,
        step: ChatMessage,
        cost: Option<StepCost>,
    ) -> Result<(), TurnError> {
        running.steps.push(step.into());
        let store = storing(running, cost);
        let outcome = self.engine.write(move |unit| store(unit));
        match outcome {
            Ok(()) => running.stored = running.steps.len(),
            // Remove the step again: memory must match the store.
            Err(_) => running
                .steps
                .truncate(running.steps.len().saturating_sub(1)),
        }
        Ok(outcome?)
    }

    /// Stores an answer together with its first call, which saves a commit. Answers with a cost or
    /// without calls are stored at once. After a crash before the first call, the answer is lost and
    /// the request is repeated; the lost answer had no effect and no cost.
    pub(super) fn add_answer(
        &self,
        runner: &CallRunner<'_>,
        running: &mut RunningTurn,
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

    /// Stores the notes of the current request, with the steps before it.
    pub(super) fn note(&self, running: &mut RunningTurn, note: &Value) -> Result<(), TurnError> {
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

    /// Ends a turn: appends all of its messages to the session, marked as failed if the turn failed.
    pub(super) fn end(
        &self,
        running: &RunningTurn,
        failure: Option<&str>,
    ) -> Result<Vec<Sequence>, TurnError> {
        let batch = history::stored(running.turn.id, &running.steps, &running.rows, failure)?;
        let batch: Vec<AppendedMessage> = batch.into_iter().map(AppendedMessage::from).collect();
        let (turn, fence) = (running.turn.clone(), running.fence.clone());
        let open = running.open_steps();
        let failure = failure.map(crate::tool::storable);
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            for (number, step) in &open {
                turns::add_step(unit, turn.id, *number, step)?;
            }
            let sequences = messages::append(unit, turn.session, &batch, AppendEvents::Each)?;
            // `None` if the session was deleted while the turn was running.
            let sequences =
                sequences.ok_or_else(|| SessionError::NotFound(turn.session.to_string()))?;
            turns::end(unit, &turn, failure.as_deref())?;
            Ok(sequences)
        })
    }
}

/// A write that stores the steps that are not stored yet, with the cost of the last step.
pub(super) fn storing(running: &RunningTurn, cost: Option<StepCost>) -> PrecedingWrite {
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

/// A message as JSON for the store.
pub(super) fn chat_text(message: &ChatMessage) -> String {
    let text = serde_json::to_string(message).unwrap_or_else(|_| Value::Null.to_string());
    if !text.contains(NULL_CHARACTER) {
        return text;
    }
    let value = serde_json::to_value(message).unwrap_or_default();
    crate::tool::storable_json(&value).to_string()
}

/// The JSON escape of the null character, which PostgreSQL cannot store.
const NULL_CHARACTER: &str = r"\u0000";

/// The reason why a call needs the user, without the advice for the model.
fn reason_for_user(call: &ToolCall, outcome: &CallOutcome) -> String {
    let CallOutcome::Refused(refusal) = outcome else {
        let arguments = serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
        return match arguments["question"].as_str() {
            Some(question) => format!("no user is present to answer: {question}"),
            None => outcome.for_model(),
        };
    };
    let tool = called_tool(&call.name, &call.arguments);
    let tool = tool.map_or_else(|| call.name.clone(), |name| name.to_string());
    format!(
        "the call of `{tool}` was refused and did not run: {}",
        refusal.reason
    )
}

/// Explains to the model that a call was invalid because the answer was cut at the token limit.
fn explain_cut(content: &mut String, outcome: &CallOutcome, usage: Usage) {
    let CallOutcome::Refused(refusal) = outcome else {
        return;
    };
    if matches!(refusal.reason, RefusalReason::BadArguments(_)) {
        let limit = match usage.output_tokens {
            0 => "the limit of an answer".to_owned(),
            tokens => format!("{tokens} tokens"),
        };
        *content = format!(
            "Cut at {limit}; the call did not run. Write the file in parts: create it with the first, then \
             add the others with edits.\n{content}"
        );
    }
}

/// The last answer of the model as text for users.
fn last_answer(steps: &[Arc<ChatMessage>]) -> String {
    let mut newest_first = steps.iter().rev().map(Arc::as_ref);
    let answer = newest_first.find_map(|step| match step {
        ChatMessage::Assistant(answer) => Some(history::shown(answer)),
        _ => None,
    });
    answer.unwrap_or_default()
}

/// Number of successful calls of a turn.
fn successful_calls(steps: &[Arc<ChatMessage>]) -> u64 {
    let results = steps.iter().filter_map(|message| match message.as_ref() {
        ChatMessage::Tool { results } => Some(results),
        _ => None,
    });
    results.flatten().filter(|result| !result.is_error).count() as u64
}
