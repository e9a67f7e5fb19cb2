//! [`TurnService::tell`]: the loop of a turn.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cleveragents_domain::{
    ActorName, LeaseSubject, LeaseToken, Message, MicroUsd, NewMessage, Role, Sequence, SessionId,
    TokenUsage, Tokens, ToolInvocationId, Ttl, Turn, TurnId,
};
use cleveragents_models::{
    AssistantMessage, CancellationToken, ChatMessage, ChatRequest, Completion, ErrorKind, Model,
    ModelError, Price, StopReason, StreamEvent, ToolCall, ToolDefinition, Usage,
};
use cleveragents_process::Cancel;
use cleveragents_store::messages::{Announce, Appended};
use cleveragents_store::{Engine, leases, messages, sessions, turns};
use cleveragents_tools::ports::{Approver, Redact};
use cleveragents_tools::{
    CallOutcome, Gate, Ground, Guards, LoopGuard, PermissionRules, PlanMode, SafetyProfile,
    ToolSpec, Verdict,
};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::calls::CallRunner;
use super::context::fit;
use super::error::TurnError;
use super::history;
use crate::lease::{HeldLease, LeaseError, LeaseService};
use crate::session::SessionService;
use crate::tool::{SandboxWorkspace, SpendScope, StoreBudget, StoreLedger};

/// Bounds of a turn.
#[derive(Debug, Clone)]
pub struct TurnSettings {
    /// How often the model may be asked.
    pub max_steps: u32,
    /// What the model may be given to read, in tokens; its context window when not given.
    pub context_tokens: Option<u64>,
    /// The longest answer of one step.
    pub max_output_tokens: u32,
    /// How much of an output the model is shown.
    pub shown_bytes: usize,
    /// How long to wait for another turn of the session.
    pub patience: Duration,
    /// Whether the answer is wanted piece by piece.
    pub stream: bool,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self {
            max_steps: 50,
            context_tokens: None,
            max_output_tokens: 8_192,
            shown_bytes: cleveragents_tools::DEFAULT_SHOWN_BYTES,
            patience: Duration::from_mins(10),
            stream: true,
        }
    }
}

/// The tools of a turn, and what they may do.
pub struct TurnTools<'a> {
    /// The one caller of tools.
    pub gate: &'a Gate,
    /// What the plan or session allows.
    pub mode: PlanMode,
    /// How careful to be.
    pub profile: &'a SafetyProfile,
    /// Limits of what runs by itself.
    pub guards: &'a Guards,
    /// What is allowed, asked and denied.
    pub rules: &'a PermissionRules,
    /// The sandbox.
    pub workspace: Option<&'a SandboxWorkspace>,
    /// Who is asked.
    pub approver: &'a dyn Approver,
}

/// One question, and what is needed to answer it.
pub struct TurnRequest<'a> {
    /// The session.
    pub session: SessionId,
    /// The question; `None` goes on with the turn that was interrupted.
    pub prompt: Option<String>,
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// What it costs.
    pub price: Option<Price>,
    /// The actor in whose name it answers.
    pub actor: Option<ActorName>,
    /// Standing instructions.
    pub system: Vec<String>,
    /// Its tools.
    pub tools: TurnTools<'a>,
    /// What may be spent, by whom.
    pub scopes: Vec<SpendScope>,
    /// Takes secrets out of what is stored.
    pub redactor: &'a dyn Redact,
    /// Bounds.
    pub settings: TurnSettings,
    /// Who watches.
    pub observer: &'a dyn TurnObserver,
    /// What stops the turn.
    pub cancel: &'a Cancel,
    /// What stops the model; to be cancelled together with `cancel`.
    pub stop: CancellationToken,
}

/// Who watches a turn as it happens.
pub trait TurnObserver: Send + Sync {
    /// Another turn of the session is waited for.
    fn waiting(&self) {}
    /// A piece of the answer.
    fn text(&self, _piece: &str) {}
    /// A piece of what the model thinks.
    fn reasoning(&self, _piece: &str) {}
    /// The model is asked again.
    fn step(&self, _number: u32) {}
    /// A tool is about to be called.
    fn calling(&self, _call: &ToolCall) {}
    /// A tool was called.
    fn called(&self, _call: &ToolCall, _outcome: &CallOutcome) {}
    /// A turn that was interrupted is brought to an end, or gone on with.
    fn recovered(&self, _interrupted: &Interrupted) {}
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl TurnObserver for NoObserver {}

/// What an interrupted turn left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    /// The turn.
    pub turn: TurnId,
    /// Calls that were begun and of which nobody knows what came: the tools.
    pub doubtful: Vec<String>,
    /// Whether it is gone on with; otherwise it was ended as failed.
    pub is_resumed: bool,
}

/// What a turn did.
#[derive(Debug, Clone)]
pub struct TurnReport {
    /// The turn.
    pub turn: TurnId,
    /// The answer.
    pub answer: String,
    /// Whether the answer was cut at the limit of tokens.
    pub is_cut: bool,
    /// Who answered last.
    pub model: String,
    /// What it took and cost.
    pub usage: TokenUsage,
    /// Whether some of the cost is not known.
    pub is_cost_partial: bool,
    /// How many times the model was asked.
    pub steps: u32,
    /// The calls, in order: tool and outcome.
    pub calls: Vec<(ToolCall, CallOutcome)>,
    /// The numbers of its messages in the session.
    pub sequences: Vec<Sequence>,
    /// What an interrupted turn before it left.
    pub interrupted: Option<Interrupted>,
    /// How many earlier messages the model was not shown.
    pub left_out: usize,
}

/// Answers questions in sessions.
#[derive(Clone)]
pub struct TurnService {
    pub(super) engine: Arc<Engine>,
    sessions: SessionService,
    leases: LeaseService,
    /// What listens to models. Kept, since connections that are kept belong to it.
    runtime: Arc<OnceLock<Runtime>>,
}

/// A turn that is running.
pub(super) struct Running {
    pub(super) turn: Turn,
    pub(super) steps: Vec<ChatMessage>,
    /// Of calls that were made: what the model calls them, and their rows.
    pub(super) rows: Vec<(String, ToolInvocationId)>,
    pub(super) fence: (LeaseSubject, LeaseToken),
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

    fn runtime(&self) -> std::io::Result<&Runtime> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let made = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(self.runtime.get_or_init(|| made))
    }

    /// Answers a question, or goes on with the turn that was interrupted.
    pub fn tell(&self, request: &TurnRequest<'_>) -> Result<TurnReport, TurnError> {
        let session = self.sessions.get(request.session)?;
        let question = request
            .prompt
            .as_ref()
            .map(|prompt| {
                self.sessions.message(
                    Role::User,
                    prompt.clone(),
                    cleveragents_domain::Metadata::new(),
                )
            })
            .transpose()?;
        let lease = self.wait(request)?;
        let fence = (lease.subject().clone(), lease.token());
        let left = self
            .engine
            .read(|reader| turns::running(reader, session.id))?;
        let (mut running, interrupted) = match (left, question) {
            (Some(turn), None) => {
                let (running, interrupted) = self.resume(request, turn, fence)?;
                (running, Some(interrupted))
            }
            (Some(turn), Some(question)) => {
                let interrupted = self.close(request, turn, fence.clone())?;
                (self.begin(request, &question, fence)?, Some(interrupted))
            }
            (None, Some(question)) => (self.begin(request, &question, fence)?, None),
            (None, None) => return Err(TurnError::NothingToResume(session.id)),
        };
        let outcome = self.work(request, &mut running);
        let outcome = match outcome {
            Ok(mut report) => {
                report.sequences = self.end(&running, None)?;
                report.interrupted = interrupted;
                Ok(report)
            }
            Err(error) => {
                self.end(&running, Some(&error.to_string()))?;
                Err(error)
            }
        };
        drop(lease);
        outcome
    }

    /// Takes the session for one turn; waits for one that is running.
    fn wait(&self, request: &TurnRequest<'_>) -> Result<HeldLease, TurnError> {
        let subject = LeaseSubject::new("session", request.session);
        let deadline = Instant::now() + request.settings.patience;
        let mut pause = Duration::from_millis(5);
        let mut is_told = false;
        loop {
            match self.leases.acquire(subject.clone(), Ttl::default()) {
                Err(LeaseError::Held { .. }) => {}
                other => return Ok(other?),
            }
            if !is_told {
                request.observer.waiting();
                is_told = true;
            }
            if request.cancel.is_cancelled() {
                return Err(TurnError::Cancelled);
            }
            if Instant::now() > deadline {
                return Err(TurnError::Busy(request.session));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    fn begin(
        &self,
        request: &TurnRequest<'_>,
        question: &NewMessage,
        fence: (LeaseSubject, LeaseToken),
    ) -> Result<Running, TurnError> {
        let id = TurnId::generate();
        let first = ChatMessage::user(question.content());
        let (session, model) = (request.session, request.model.name().to_string());
        let sandbox = request
            .tools
            .workspace
            .map(|workspace| workspace.name().to_owned());
        let (stored, held) = (chat_value(&first), fence.clone());
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
            steps: vec![first],
            rows: Vec::new(),
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
        let ledger = StoreLedger::new(Arc::clone(&self.engine), Some(running.turn.id));
        let runner = CallRunner {
            request,
            budget: &budget,
            ledger: &ledger,
        };
        let mut report = TurnReport {
            turn: running.turn.id,
            answer: String::new(),
            is_cut: false,
            model: request.model.name().to_string(),
            usage: TokenUsage::default(),
            is_cost_partial: false,
            steps: 0,
            calls: Vec::new(),
            sequences: Vec::new(),
            interrupted: None,
            left_out: 0,
        };
        let mut repetition = LoopGuard::new(3, 6);
        let earlier = self.earlier(request.session)?;
        loop {
            // After a crash the last answer may still wait for results.
            let waiting = match running.steps.last() {
                Some(ChatMessage::Assistant(answer)) if !answer.calls.is_empty() => {
                    Some(answer.calls.clone())
                }
                _ => None,
            };
            if let Some(calls) = waiting {
                budget.begin_step();
                let verdict =
                    self.answer_calls(&runner, running, &calls, &mut report, &mut repetition)?;
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
            report.steps += 1;
            request.observer.step(report.steps);
            let completion = self.ask(request, running, &earlier, &budget, &mut report)?;
            if completion.message.calls.is_empty() {
                report.is_cut = completion.stop == StopReason::MaxTokens;
                report.answer = completion.message.text;
                report.model = completion.model.to_string();
                return Ok(report);
            }
        }
    }

    /// Asks the model, and stores what it says with what that cost.
    fn ask(
        &self,
        request: &TurnRequest<'_>,
        running: &mut Running,
        earlier: &[Message],
        budget: &StoreBudget,
        report: &mut TurnReport,
    ) -> Result<Completion, TurnError> {
        let chat = Self::chat(request, running, earlier, report);
        let bound = most_expensive(request.price.as_ref(), &chat);
        let held = budget
            .reserve_money(bound, None)
            .map_err(|shortage| match shortage {
                crate::tool::Shortage::Money { scope, limit, used } => TurnError::Budget {
                    scope,
                    limit,
                    used,
                    wanted: bound,
                },
                crate::tool::Shortage::Store(error) => error.into(),
            })?;
        let mut completion = match self.listen(request, chat) {
            (Ok(completion), _) => completion,
            (Err(error), has_begun) => {
                // What was streamed was paid for, though nobody said how much.
                held.settle(if has_begun { bound } else { MicroUsd(0) })?;
                return Err(match error.kind() {
                    ErrorKind::Cancelled => TurnError::Cancelled,
                    _ => error.into(),
                });
            }
        };
        held.settle(completion.cost_micro_usd.unwrap_or_default())?;
        make_distinct(&mut completion.message, &running.steps);
        let usage = TokenUsage {
            input_tokens: Tokens(completion.usage.input_tokens),
            output_tokens: Tokens(completion.usage.output_tokens),
            cost_micro_usd: completion.cost_micro_usd.unwrap_or_default(),
        };
        report.usage = report.usage.plus(usage);
        report.is_cost_partial |= completion.cost_micro_usd.is_none();
        let step = ChatMessage::Assistant(completion.message.clone());
        self.add_step(running, step, Some(usage))?;
        Ok(completion)
    }

    /// Listens to the model; says also whether it had begun to answer.
    fn listen(
        &self,
        request: &TurnRequest<'_>,
        chat: ChatRequest,
    ) -> (Result<Completion, ModelError>, bool) {
        let failed = |kind, why: String| ModelError::new(kind, request.model.name(), why);
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let why = format!("the system gives no means to listen: {error}");
                return (Err(failed(ErrorKind::Protocol, why)), false);
            }
        };
        let mut has_begun = false;
        let answer = runtime.block_on(async {
            let mut events = request.model.stream(chat, request.stop.clone());
            while let Some(event) = events.next().await {
                match event? {
                    StreamEvent::Text(piece) => {
                        has_begun = true;
                        request.observer.text(&piece);
                    }
                    StreamEvent::Reasoning(piece) => {
                        has_begun = true;
                        request.observer.reasoning(&piece);
                    }
                    StreamEvent::ToolCallStarted { .. } | StreamEvent::ToolCallArguments { .. } => {
                        has_begun = true;
                    }
                    StreamEvent::Finished(completion) => return Ok(*completion),
                }
            }
            let why = "the answer ended before it was whole".to_owned();
            Err(failed(ErrorKind::Interrupted, why))
        });
        (answer, has_begun)
    }

    /// Everything the model is given.
    fn chat(
        request: &TurnRequest<'_>,
        running: &Running,
        earlier: &[Message],
        report: &mut TurnReport,
    ) -> ChatRequest {
        let past = history::past(earlier);
        let tools = definitions(request);
        let system: Vec<String> = request.system.iter().cloned().chain(past.system).collect();
        let window = request
            .settings
            .context_tokens
            .or_else(|| request.model.capabilities().context_window)
            .unwrap_or(128_000);
        let fixed: usize = system.iter().map(String::len).sum::<usize>() / 3
            + tools
                .iter()
                .map(|tool| tool.description.len() + tool.input_schema.to_string().len())
                .sum::<usize>()
                / 3;
        let room = usize::try_from(window)
            .unwrap_or(usize::MAX)
            .saturating_sub(fixed)
            .saturating_sub(request.settings.max_output_tokens as usize);
        let fitted = fit(past.turns, &running.steps, room);
        report.left_out = fitted.left_out;
        ChatRequest {
            system,
            messages: fitted.messages,
            tools,
            response_schema: None,
            max_output_tokens: Some(request.settings.max_output_tokens),
            temperature: None,
            reasoning_effort: None,
            cache: true,
            stream: request.settings.stream,
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
        let done = runner.run(calls, known)?;
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
                    human = Some(outcome.for_model());
                }
                running.rows.push((call.id.clone(), outcome.invocation()));
                report.calls.push((call.clone(), outcome));
            }
            results.push(result);
        }
        self.add_step(running, ChatMessage::Tool { results }, None)?;
        match human {
            Some(reason) => Err(TurnError::HumanNeeded(reason)),
            None => Ok(worst),
        }
    }

    /// Stores a step of the turn, with what it cost.
    pub(super) fn add_step(
        &self,
        running: &mut Running,
        step: ChatMessage,
        usage: Option<TokenUsage>,
    ) -> Result<(), TurnError> {
        let number = running.steps.len() as u64;
        let (id, session) = (running.turn.id, running.turn.session);
        let (stored, fence) = (chat_value(&step), running.fence.clone());
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            turns::add_step(unit, id, number, &stored)?;
            if let Some(usage) = usage {
                sessions::add_usage(unit, session, usage)?;
            }
            Ok::<(), cleveragents_store::Error>(())
        })?;
        running.steps.push(step);
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
        let failure = failure.map(crate::tool::storable);
        Ok(self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            let sequences = messages::append(unit, turn.session, &batch, Announce::Each)?;
            turns::end(unit, &turn, failure.as_deref())?;
            sequences.ok_or_else(|| {
                cleveragents_store::Error::stored("the session of a turn", "is gone")
            })
        })?)
    }
}

/// A message as it is stored.
pub(super) fn chat_value(message: &ChatMessage) -> Value {
    let value = serde_json::to_value(message).unwrap_or(Value::Null);
    crate::tool::storable_json(&value)
}

/// What a call could cost at most: no token has less than a byte.
fn most_expensive(price: Option<&Price>, chat: &ChatRequest) -> MicroUsd {
    let Some(price) = price else {
        return MicroUsd(0);
    };
    let mut bytes: usize = chat.system.iter().map(String::len).sum();
    bytes += chat
        .messages
        .iter()
        .map(|message| chat_value(message).to_string().len())
        .sum::<usize>();
    bytes += chat
        .tools
        .iter()
        .map(|tool| tool.description.len() + tool.input_schema.to_string().len())
        .sum::<usize>();
    let usage = |cache_write_tokens| Usage {
        input_tokens: bytes as u64,
        output_tokens: u64::from(chat.max_output_tokens.unwrap_or(u32::MAX)),
        cache_write_tokens,
        ..Usage::default()
    };
    price.cost(&usage(0)).max(price.cost(&usage(bytes as u64)))
}

/// Gives calls ids that no other call of the turn has.
fn make_distinct(message: &mut AssistantMessage, steps: &[ChatMessage]) {
    let mut taken: Vec<String> = steps
        .iter()
        .filter_map(|step| match step {
            ChatMessage::Assistant(answer) => Some(&answer.calls),
            _ => None,
        })
        .flatten()
        .map(|call| call.id.clone())
        .collect();
    for (index, call) in message.calls.iter_mut().enumerate() {
        if call.id.trim().is_empty() || taken.contains(&call.id) {
            call.id = format!("call-{}-{index}", steps.len());
        }
        taken.push(call.id.clone());
    }
}

/// Whether a tool could run at all; others are not worth telling of.
fn is_offered(request: &TurnRequest<'_>, spec: &ToolSpec) -> bool {
    let tools = &request.tools;
    let has_ground = spec.ground == Ground::Nothing || tools.workspace.is_some();
    let may_write = tools.mode != PlanMode::ReadOnly || !spec.capability.is_writing();
    has_ground && may_write
}

/// The tools as the model is told of them: those that could run.
fn definitions(request: &TurnRequest<'_>) -> Vec<ToolDefinition> {
    if !request.model.capabilities().tools {
        return Vec::new();
    }
    request
        .tools
        .gate
        .registry()
        .list()
        .filter(|spec| is_offered(request, spec))
        .map(|spec| ToolDefinition {
            name: spec.name.wire_name(),
            description: spec.description.clone(),
            input_schema: spec.input_schema.clone(),
        })
        .collect()
}
