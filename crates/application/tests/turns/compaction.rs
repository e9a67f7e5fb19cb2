//! Compaction of long conversations: requests contain a summary, and no message is lost.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use cleveragents_application::{AgentEvent, Observer, TurnError, TurnSettings};
use cleveragents_models::{
    AssistantMessage, CancellationToken, Capabilities, ChatRequest, Completion, ErrorKind,
    EventStream, Model, ModelError, ModelName, Price, StopReason, StreamEvent, ToolCall, Usage,
};
use cleveragents_store::context_summaries;
use cleveragents_testkit::TestDatabase;
use futures_util::StreamExt as _;
use serde_json::json;

use crate::support::{TestUser, TurnFixture, TurnSetup};

/// Context window of the model, in tokens.
const WINDOW: u64 = 12_000;

const SUMMARY: &str = "SUMMARY: rule 7 holds";

fn settings() -> TurnSettings {
    TurnSettings {
        context_tokens: Some(WINDOW),
        max_output_tokens: Some(1_000),
        ..TurnSettings::default()
    }
}

/// A model that records its requests. It answers requests for a summary with `summary`. It
/// answers other requests with a number of tool calls, then with a text.
struct SummarizingModel {
    name: ModelName,
    /// Number of answers with a tool call before the answer with a text.
    calls: usize,
    text: String,
    can_summarize: bool,
    /// Writes the summary that a request asks for.
    summary: fn(&ChatRequest) -> String,
    recorded: Mutex<Vec<ChatRequest>>,
}

impl SummarizingModel {
    fn new(calls: usize, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            name: "test/speaker".parse().expect("a name"),
            calls,
            text: text.into(),
            can_summarize: true,
            summary: |_| SUMMARY.to_owned(),
            recorded: Mutex::default(),
        })
    }

    /// The requests for a summary, and the other requests.
    fn requests(&self) -> (Vec<ChatRequest>, Vec<ChatRequest>) {
        let recorded = self.recorded.lock().expect("fine");
        recorded.iter().cloned().partition(is_summary)
    }
}

impl Model for SummarizingModel {
    fn name(&self) -> &ModelName {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: ChatRequest, _cancel: CancellationToken) -> EventStream {
        let mut recorded = self.recorded.lock().expect("fine");
        let number = recorded
            .iter()
            .filter(|request| !is_summary(request))
            .count();
        let mut message = AssistantMessage::default();
        if is_summary(&request) {
            message.text = (self.summary)(&request);
        } else if number < self.calls {
            message.calls.push(ToolCall {
                id: format!("call-{number}"),
                name: "read_file".to_owned(),
                arguments: json!({"path": "big.txt", "limit": 300 + number}).to_string(),
                signature: None,
            });
        } else {
            message.text.clone_from(&self.text);
        }
        let event = if is_summary(&request) && !self.can_summarize {
            Err(ModelError::new(ErrorKind::BadRequest, &self.name, "no"))
        } else {
            Ok(StreamEvent::Finished(Box::new(Completion {
                message,
                usage: Usage::default(),
                cost_micro_usd: None,
                stop: StopReason::EndTurn,
                model: self.name.clone(),
                attempts: 1,
            })))
        };
        recorded.push(request);
        futures_util::stream::iter([event]).boxed()
    }
}

/// Whether a request asks for a summary.
fn is_summary(request: &ChatRequest) -> bool {
    request.system.concat().contains("You write the summary")
}

fn bytes(request: &ChatRequest) -> usize {
    let messages = request.messages.iter();
    messages
        .map(|message| serde_json::to_string(message).expect("JSON").len())
        .sum()
}

#[derive(Default)]
struct CompactionLog(Mutex<Vec<(u64, u64)>>);

impl Observer for CompactionLog {
    fn event(&self, event: &AgentEvent) {
        if let AgentEvent::Compacted {
            tokens_before,
            tokens_after,
            ..
        } = event
        {
            let mut seen = self.0.lock().expect("fine");
            seen.push((*tokens_before, *tokens_after));
        }
    }
}

/// The turns of the conversation in which the user makes a decision.
const DECISION_INTERVAL: usize = 10;

/// Size of an answer, in bytes. A few of them fill the window, so every few turns need a summary, whose request is as long
/// as the window allows.
const ANSWER_BYTES: usize = 6_000;

/// A summary as a careful model writes it: each decision in the text, once.
fn summary_of_decisions(request: &ChatRequest) -> String {
    let text = serde_json::to_string(&request.messages).expect("JSON");
    let mut decisions: Vec<&str> = text
        .split(['"', '\\'])
        .filter_map(|piece| piece.find("DECISION ").map(|at| &piece[at..]))
        .collect();
    decisions.sort_unstable();
    decisions.dedup();
    format!("{SUMMARY}\n{}", decisions.join("\n"))
}

/// Each summary is written from the summary before it, so a decision that one request loses is lost permanently.
#[test]
fn a_conversation_of_300_turns_keeps_instructions_and_decisions_at_a_flat_cost() {
    for database in TestDatabase::each() {
        let fixture = TurnFixture::new(&database);
        let user = TestUser::absent();
        let observer = CompactionLog::default();
        let mut model = SummarizingModel::new(0, "a".repeat(ANSWER_BYTES));
        Arc::get_mut(&mut model).expect("one owner").summary = summary_of_decisions;
        for turn in 0..300 {
            let mut question = format!("question {turn} {}", "q".repeat(300));
            if turn % DECISION_INTERVAL == 0 {
                write!(question, "\nDECISION {turn:03}: option {turn}").expect("a string");
            }
            let mut setup = TurnSetup::asking(&question, &user);
            setup.in_sandbox = false;
            setup.settings = settings();
            setup.observer = &observer;
            let speaker: Arc<dyn Model> = Arc::<SummarizingModel>::clone(&model);
            fixture.run_turn_with(speaker, setup).expect("answered");
        }
        let (summaries, questions) = model.requests();
        assert_eq!(questions.len(), 300);
        assert!(summaries.len() > 10, "{} summaries", summaries.len());
        let window = usize::try_from(WINDOW).expect("small") * 4;
        for (turn, request) in questions.iter().enumerate() {
            assert!(
                bytes(request) < window,
                "turn {turn}: {} bytes",
                bytes(request)
            );
            assert!(request.system.concat().contains("You are a test."));
            let text = serde_json::to_string(&request.messages).expect("JSON");
            for decision in (0..=turn).step_by(DECISION_INTERVAL) {
                let wanted = format!("DECISION {decision:03}: option {decision}");
                assert!(text.contains(&wanted), "turn {turn} lacks {wanted}");
            }
            assert!(!text.contains("earlier messages of this conversation are left out"));
        }
        for request in &summaries {
            assert!(bytes(request) < window, "{} bytes", bytes(request));
        }
        // The cost of a turn, with its share of the summaries, no longer grows.
        let all = model.recorded.lock().expect("fine");
        let mut costs = [0_usize; 3];
        let mut turn = 0;
        for request in all.iter() {
            costs[turn.min(299) / 100] += bytes(request);
            turn += usize::from(!is_summary(request));
        }
        assert!(
            costs[2] < costs[1] * 11 / 10,
            "bytes per 100 turns: {costs:?}"
        );
        // The store has the whole conversation.
        assert_eq!(fixture.messages().len(), 600);
        let stored = fixture
            .engine
            .read(|reader| context_summaries::of_session(reader, fixture.session))
            .expect("read");
        assert_eq!(stored.len(), summaries.len());
        assert_eq!(observer.0.lock().expect("fine").len(), summaries.len());
        assert!(
            stored
                .iter()
                .all(|row| row.tokens_after < row.tokens_before)
        );
    }
}

#[test]
fn a_long_turn_is_compacted_while_it_runs() {
    let database = TestDatabase::sqlite();
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    std::fs::write(fixture.real().join("big.txt"), "line of text\n".repeat(400)).expect("a file");
    let model = SummarizingModel::new(12, "done");
    let mut setup = TurnSetup::asking("Read it often.", &user);
    setup.settings = settings();
    let speaker: Arc<dyn Model> = Arc::<SummarizingModel>::clone(&model);
    let report = fixture.run_turn_with(speaker, setup).expect("answered");
    assert_eq!(report.answer, "done");
    let (summaries, others) = model.requests();
    assert!(!summaries.is_empty());
    let last = serde_json::to_string(&others.last().expect("a request").messages).expect("JSON");
    assert!(last.contains(SUMMARY), "{last}");
    assert!(last.contains("Read it often."));
    // Question, 12 calls with their results, and the answer.
    assert_eq!(fixture.messages().len(), 1 + 12 * 2 + 1);
    // The next turn starts with the summary too.
    let model = SummarizingModel::new(0, "fine");
    let mut setup = TurnSetup::asking("And now?", &user);
    setup.settings = settings();
    let speaker: Arc<dyn Model> = Arc::<SummarizingModel>::clone(&model);
    fixture.run_turn_with(speaker, setup).expect("answered");
    let (_, others) = model.requests();
    let text = serde_json::to_string(&others[0].messages).expect("JSON");
    assert!(text.contains(SUMMARY), "{text}");
    assert!(text.contains("Read it often."), "questions remain");
}

#[test]
fn a_summary_that_fails_does_not_fail_the_turn() {
    let database = TestDatabase::sqlite();
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let mut model = SummarizingModel::new(0, "a".repeat(3_000));
    Arc::get_mut(&mut model).expect("one owner").can_summarize = false;
    for turn in 0..30 {
        let question = format!("question {turn}");
        let mut setup = TurnSetup::asking(&question, &user);
        setup.in_sandbox = false;
        setup.settings = settings();
        let speaker: Arc<dyn Model> = Arc::<SummarizingModel>::clone(&model);
        fixture.run_turn_with(speaker, setup).expect("answered");
    }
    let (summaries, others) = model.requests();
    assert!(!summaries.is_empty());
    assert_eq!((others.len(), fixture.messages().len()), (30, 60));
}

/// A service of another process sees the summary; the store keeps all messages.
#[test]
fn a_conversation_is_compacted_on_request_and_stays_compacted_in_another_process() {
    for database in TestDatabase::each() {
        let fixture = TurnFixture::new(&database);
        let user = TestUser::absent();
        std::fs::write(fixture.real().join("big.txt"), "line of text\n".repeat(400))
            .expect("a file");
        let model = SummarizingModel::new(2, "a".repeat(600));
        for turn in 0..4 {
            let question = format!("question {turn}");
            let setup = TurnSetup::asking(&question, &user);
            fixture
                .run_turn_with(Arc::clone(&model) as _, setup)
                .expect("answered");
        }
        let before = fixture.messages();
        let mut setup = TurnSetup::asking("", &user);
        setup.in_sandbox = false;
        let focus = Some("the rules, not sk-0123456789abcdefghij");
        let compacted = fixture
            .compact(Arc::clone(&model) as _, setup, focus)
            .expect("compacted")
            .expect("something to compact");
        // 4 questions and answers, and 2 calls with their results.
        assert_eq!(compacted.messages, 12);
        assert!(compacted.tokens_before > 1_000, "{compacted:?}");
        assert_eq!(compacted.tokens_after, (SUMMARY.len() / 3) as u64);
        let (summaries, _) = model.requests();
        let asked = serde_json::to_string(&summaries[0].messages).expect("JSON");
        assert!(asked.contains("question 0") && asked.contains("question 3"));
        let system = summaries[0].system.concat();
        assert!(system.contains("the rules, not "), "{system}");
        assert!(!system.contains("sk-0123456789abcdefghij"), "{system}");
        assert_eq!(fixture.messages(), before, "the messages stay in the store");
        // A second compaction has nothing to summarize and calls no model.
        let mut setup = TurnSetup::asking("", &user);
        setup.in_sandbox = false;
        let again = fixture.compact(Arc::clone(&model) as _, setup, None);
        assert_eq!(again.expect("compacted"), None);
        assert_eq!(model.requests().0.len(), 1);
        // Another process continues with the summary instead of the messages.
        let mut other = TurnFixture::new(&database);
        other.session = fixture.session;
        let model = SummarizingModel::new(0, "fine");
        let mut setup = TurnSetup::asking("And now?", &user);
        setup.in_sandbox = false;
        other
            .run_turn_with(Arc::clone(&model) as _, setup)
            .expect("answered");
        let (_, requests) = model.requests();
        let sent = serde_json::to_string(&requests[0].messages).expect("JSON");
        assert!(
            sent.contains(SUMMARY) && sent.contains("And now?"),
            "{sent}"
        );
        assert!(!sent.contains("question"), "{sent}");
    }
}

#[test]
fn a_compaction_on_request_that_fails_changes_nothing() {
    let database = TestDatabase::sqlite();
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let mut model = SummarizingModel::new(0, "fine");
    Arc::get_mut(&mut model).expect("one owner").can_summarize = false;
    let ask = |question: &str| {
        let mut setup = TurnSetup::asking(question, &user);
        setup.in_sandbox = false;
        fixture
            .run_turn_with(Arc::clone(&model) as _, setup)
            .expect("answered");
    };
    ask("first");
    let mut setup = TurnSetup::asking("", &user);
    setup.in_sandbox = false;
    let failed = fixture.compact(Arc::clone(&model) as _, setup, None);
    assert!(matches!(failed, Err(TurnError::Model(_))), "{failed:?}");
    ask("second");
    let (_, requests) = model.requests();
    let sent = serde_json::to_string(&requests[1].messages).expect("JSON");
    assert!(sent.contains("first"), "{sent}");
}
