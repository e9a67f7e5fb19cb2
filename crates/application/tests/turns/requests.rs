//! The requests of a turn: limits, options and declared tools, and failed attempts.

use std::sync::{Arc, Mutex};

use cleveragents_application::{AgentEvent, Observer, SpendScope, prompt_images};
use cleveragents_domain::MicroUsd;
use cleveragents_models::{
    CancellationToken, Capabilities, ChatMessage, ChatRequest, EventStream, Model, ModelName,
    Price, UserPart,
};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::{
    Answer, Body, Call, CallOutcome, Capability, Category, Failure, Permit, Phase, PlanMode,
    PrepareContext, PrepareError, PreparedCall, Source, Subject, Tool, ToolName, ToolSpec,
    WorkspaceNeed,
};
use serde_json::{Value, json};

use crate::support::{TestUser, TurnFixture, TurnSetup};

/// A model that records its requests.
struct RecordingModel {
    model: Arc<dyn Model>,
    requests: Arc<Mutex<Vec<ChatRequest>>>,
}

impl Model for RecordingModel {
    fn name(&self) -> &ModelName {
        self.model.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn price(&self) -> Option<Price> {
        self.model.price()
    }

    fn stream(&self, request: ChatRequest, cancel: CancellationToken) -> EventStream {
        self.requests.lock().expect("fine").push(request.clone());
        self.model.stream(request, cancel)
    }
}

/// A tool that answers with a fixed value.
struct FixedTool(ToolSpec, Value);

impl FixedTool {
    fn tool(name: &str, answer: Value) -> Arc<dyn Tool> {
        let spec = ToolSpec {
            name: name.parse().expect("a name"),
            description: format!("The tool {name}."),
            source: Source::Mcp,
            category: Category::External,
            workspace_need: WorkspaceNeed::None,
            input_schema: json!({"type": "object"}),
            output_schema: None,
            capability: Capability::reads(),
            resources: Vec::new(),
            timeout: cleveragents_tools::DEFAULT_TIMEOUT,
            cost: MicroUsd(0),
        };
        Arc::new(Self(spec, answer))
    }
}

impl Tool for FixedTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare<'a>(
        &'a self,
        _arguments: Value,
        _context: PrepareContext<'a>,
    ) -> Result<Box<dyn PreparedCall + 'a>, PrepareError> {
        Ok(Box::new(PreparedFixedCall(&self.1)))
    }
}

struct PreparedFixedCall<'a>(&'a Value);

impl PreparedCall for PreparedFixedCall<'_> {
    fn subjects(&self) -> Vec<Subject> {
        vec![Subject::Text(String::new())]
    }

    fn run(self: Box<Self>, _permit: Permit, _call: &mut Call<'_>) -> Result<Answer, Failure> {
        Ok(Answer {
            body: Body::Json(self.0.clone()),
            ..Answer::written()
        })
    }
}

fn recording_model(
    fixture: &TurnFixture,
    script: &str,
) -> (Arc<dyn Model>, Arc<Mutex<Vec<ChatRequest>>>) {
    let requests = Arc::new(Mutex::default());
    let recording_model = RecordingModel {
        model: fixture.script(script),
        requests: Arc::clone(&requests),
    };
    (Arc::new(recording_model), requests)
}

fn servers() -> Vec<Arc<dyn Tool>> {
    let found = json!([{"name": "mcp_S_many-beta", "description": "b", "input_schema": {}}]);
    vec![
        FixedTool::tool("mcp/search-tools", found),
        FixedTool::tool("mcp/many-alpha", json!("a")),
        FixedTool::tool("mcp/many-beta", json!("b")),
    ]
}

/// Real providers accept only calls of declared tools.
#[test]
fn a_deferred_tool_is_declared_once_it_was_found_and_stays_declared() {
    for database in TestDatabase::each() {
        let fixture = TurnFixture::new(&database);
        let user = TestUser::absent();
        let setup = |prompt| {
            let mut setup = TurnSetup::asking(prompt, &user);
            setup.tools = servers();
            setup.deferred = ["mcp/many-alpha", "mcp/many-beta"]
                .map(|name| name.parse::<ToolName>().expect("a name"))
                .into();
            setup
        };
        let script = "answers:\n- calls: [{name: mcp_S_search-tools, arguments: {query: b}}]\n\
                      - calls: [{name: mcp_S_many-beta, arguments: {}}]\n- text: Done.\n- text: Again.\n";
        let (model, requests) = recording_model(&fixture, script);
        fixture
            .run_turn_with(Arc::clone(&model), setup("go"))
            .expect("answered");
        // A second turn, run as another process would run it.
        fixture
            .run_turn_with(model, setup("more"))
            .expect("answered");
        let requests = requests.lock().expect("fine");
        let declared = |index: usize| -> Vec<String> {
            let tools = requests[index].tools.iter();
            tools.map(|tool| tool.name.clone()).collect()
        };
        assert_eq!(requests.len(), 4);
        let first = declared(0);
        assert!(first.contains(&"mcp_S_search-tools".to_owned()));
        assert!(!first.iter().any(|name| name.starts_with("mcp_S_many")));
        let mut later = first;
        later.push("mcp_S_many-beta".to_owned());
        for index in 1..4 {
            assert_eq!(
                declared(index),
                later,
                "request {index}: appended at the end"
            );
        }
    }
}

/// The names that each request declared.
fn declared(requests: &[ChatRequest]) -> Vec<Vec<String>> {
    let names =
        |request: &ChatRequest| request.tools.iter().map(|tool| tool.name.clone()).collect();
    requests.iter().map(names).collect()
}

/// Providers refuse requests with too many tools.
#[test]
fn tools_above_the_limit_of_the_model_are_found_by_searching() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let setup = |prompt, count: usize| {
        let mut setup = TurnSetup::asking(prompt, &user);
        setup.tools = (0..count)
            .map(|number| FixedTool::tool(&format!("mcp/many-t{number:03}"), json!("done")))
            .collect();
        setup
    };
    let limited = "capabilities: {max_tools: 40}\nat_end: repeat_last\nanswers:\n";
    let script = format!(
        "{limited}- calls: [{{name: builtin_S_search-tools, arguments: {{query: t150}}}}]\n\
         - calls: [{{name: mcp_S_many-t150, arguments: {{}}}}]\n- text: Done.\n"
    );
    let (model, requests) = recording_model(&fixture, &script);
    let report = fixture
        .run_turn_with(Arc::clone(&model), setup("go", 200))
        .expect("answered");
    assert!(
        report
            .calls
            .iter()
            .all(|(_, outcome)| matches!(outcome, CallOutcome::Succeeded(_))),
        "{:?}",
        report.calls
    );
    fixture
        .run_turn_with(model, setup("more", 200))
        .expect("answered");
    let all = declared(&requests.lock().expect("fine"));
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|names| names.len() <= 40));
    let first = &all[0];
    assert_eq!(
        first.len(),
        30,
        "a quarter is reserved for tools that are found later"
    );
    for name in ["search_tools", "read_file", "shell"] {
        assert!(first.contains(&name.to_owned()), "{name} is declared first");
    }
    assert!(!first.contains(&"mcp_S_many-t150".to_owned()));
    for names in &all[1..] {
        assert_eq!(names[..first.len()], first[..], "the list grows at its end");
        assert_eq!(names[first.len()..], ["mcp_S_many-t150"]);
    }
    // Up to the limit all tools are declared at once.
    let (model, requests) = recording_model(&fixture, &format!("{limited}- text: Done.\n"));
    fixture
        .run_turn_with(model, setup("few", 20))
        .expect("answered");
    let names = declared(&requests.lock().expect("fine")).remove(0);
    assert!(names.contains(&"mcp_S_many-t019".to_owned()));
    assert!(!names.contains(&"search_tools".to_owned()));
}

#[test]
fn found_tools_never_exceed_the_limit_of_the_model() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let mut setup = TurnSetup::asking("go", &user);
    setup.tools = (0..100)
        .map(|number| FixedTool::tool(&format!("mcp/many-t{number:03}"), json!("done")))
        .collect();
    setup.settings.max_steps = 100;
    let mut script = "capabilities: {max_tools: 40}\nanswers:\n".to_owned();
    for tens in 0..5 {
        for ones in 0..8 {
            let call = format!("{{name: mcp_S_many-t0{tens}{ones}, arguments: {{}}}}");
            script.push_str("- calls: [");
            script.push_str(&call);
            script.push_str("]\n");
        }
    }
    script.push_str("- text: Done.\n");
    let (model, requests) = recording_model(&fixture, &script);
    fixture.run_turn_with(model, setup).expect("answered");
    let all = declared(&requests.lock().expect("fine"));
    let last = all.last().expect("questions");
    assert_eq!((all.len(), last.len()), (41, 40));
    assert!(
        last.contains(&"mcp_S_many-t047".to_owned()),
        "the newest tools remain"
    );
    assert!(all.iter().all(|names| names.len() <= 40));
}

#[test]
fn limits_come_from_the_model_and_options_are_passed_on() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    for (limit, configured, expected) in [
        ("capabilities: {max_output: 4096}", None, 4_096),
        ("capabilities: {max_output: 100000}", None, 32_000),
        ("capabilities: {max_output: 4096}", Some(9_000), 4_096),
        ("capabilities: {max_output: 100000}", Some(90_000), 90_000),
    ] {
        let (model, requests) = recording_model(
            &fixture,
            &format!("{limit}\nat_end: repeat_last\nanswers:\n- text: ok\n"),
        );
        let mut setup = TurnSetup::asking("go", &user);
        setup.settings.max_output_tokens = configured;
        setup
            .settings
            .options
            .insert("top_p".to_owned(), json!(0.5));
        fixture.run_turn_with(model, setup).expect("answered");
        let requests = requests.lock().expect("fine");
        assert_eq!(
            requests[0].max_output_tokens,
            Some(expected),
            "{limit} {configured:?}"
        );
        assert_eq!(requests[0].options["top_p"], 0.5);
    }
}

/// OpenAI's reasoning models accept less input than their context window has room for.
#[test]
fn a_conversation_is_cut_to_the_longest_input_of_the_model() {
    let user = TestUser::absent();
    for (limit, is_cut) in [("", false), (", max_input: 4000", true)] {
        let database = TestDatabase::each().remove(0);
        let fixture = TurnFixture::new(&database);
        let script = format!(
            "capabilities: {{context_window: 100000, max_output: 1000{limit}}}\n\
             at_end: repeat_last\nanswers:\n- text: {}\n",
            "x".repeat(4000)
        );
        let (model, requests) = recording_model(&fixture, &script);
        for _ in 0..6 {
            let reported =
                fixture.run_turn_with(Arc::clone(&model), TurnSetup::asking("go", &user));
            reported.expect("answered");
        }
        let requests = requests.lock().expect("fine");
        let is_summary =
            |request: &ChatRequest| request.system.concat().contains("You write the summary");
        assert_eq!(requests.iter().any(is_summary), is_cut, "{limit}");
    }
}

#[test]
fn a_small_budget_asks_for_a_shorter_answer_instead_of_none() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    // A million tokens of output cost 1000 dollars: 32,000 tokens cost 32 dollars, 8,192 tokens
    // cost 8 dollars.
    let script = "price: {input: 0, output: 1000}\ncapabilities: {max_output: 100000}\nanswers:\n- text: ok\n";
    let (model, requests) = recording_model(&fixture, script);
    let mut setup = TurnSetup::asking("go", &user);
    setup.scopes = vec![SpendScope {
        name: "session test".to_owned(),
        limit: Some(MicroUsd(10_000_000)),
    }];
    fixture.run_turn_with(model, setup).expect("answered");
    assert_eq!(
        requests.lock().expect("fine")[0].max_output_tokens,
        Some(8_192)
    );
}

/// Records events.
#[derive(Default)]
struct EventLog(Mutex<Vec<String>>);

impl Observer for EventLog {
    fn event(&self, event: &AgentEvent) {
        let line = match event {
            AgentEvent::Text { text, .. } => text.clone(),
            AgentEvent::Retry {
                attempts,
                answer_restarts,
                ..
            } => format!("[{attempts} {answer_restarts}]"),
            _ => return,
        };
        self.0.lock().expect("fine").push(line);
    }
}

#[test]
fn a_truncated_answer_restarts_and_its_cost_is_partial() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let shown = EventLog::default();
    let mut setup = TurnSetup::asking("go", &user);
    setup.observer = &shown;
    let script = "price: {input: 1, output: 1}\nanswers:\n\
                  - {text: abcdef, chunk: 2, failures: [{status: 503}, {cut_after: 4}]}\n";
    let report = fixture.run_turn(script, setup).expect("answered");
    assert_eq!(report.answer, "abcdef");
    let shown = shown.0.lock().expect("fine").concat();
    assert_eq!(shown, "[1 false]abcd[2 true]abcdef");
    assert!(
        report.is_cost_partial,
        "the cost of the interrupted attempt is unknown"
    );
    assert!(report.usage.cost_micro_usd > MicroUsd(0));
    let known = fixture
        .sessions
        .is_cost_known(fixture.session)
        .expect("read");
    assert!(!known);
    assert_eq!(fixture.messages().len(), 2);
}

#[test]
fn models_receive_short_names_and_in_a_read_only_phase_only_reading_tools() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let script = "answers:\n- calls: [{name: git, arguments: {command: commit, message: x}}]\n- text: Done.\n";
    let (model, requests) = recording_model(&fixture, script);
    let mut setup = TurnSetup::asking("go", &user);
    setup.mode = PlanMode::Normal(Phase::Strategize);
    let report = fixture.run_turn_with(model, setup).expect("answered");
    let (_, outcome) = &report.calls[0];
    assert!(outcome.for_model().contains("`git commit` makes changes"));
    let requests = requests.lock().expect("fine");
    let names = declared(&requests).remove(0);
    assert!(names.contains(&"read_file".to_owned()) && !names.contains(&"shell".to_owned()));
    assert!(
        names.iter().all(|name| !name.contains("builtin")),
        "{names:?}"
    );
    let git = requests[0].tools.iter().find(|tool| tool.name == "git");
    assert_eq!(
        git.expect("git").input_schema["properties"]["command"]["enum"],
        json!(["status", "diff", "log", "show"])
    );
}

#[test]
fn a_truncated_call_is_answered_with_instructions() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let script = "answers:\n- calls: [{name: write_file, raw_arguments: '{\"path\": \"a.txt\", \"content\": \"lon'}]\n  \
                  stop: max_tokens\n  usage: {output_tokens: 8192}\n- text: Done.\n";
    let (model, requests) = recording_model(&fixture, script);
    fixture
        .run_turn_with(model, TurnSetup::asking("go", &user))
        .expect("answered");
    let requests = requests.lock().expect("fine");
    let reported = format!("{:?}", requests[1].messages);
    let expected = "Cut at 8192 tokens; the call did not run. Write the file in parts";
    assert!(reported.contains(expected), "{reported}");
}

/// An image is sent with its question and in later requests; a model without vision receives a note.
#[test]
fn images_of_a_question_are_sent_to_models_that_accept_them() {
    let database = TestDatabase::sqlite();
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let requests: Arc<Mutex<Vec<ChatRequest>>> = Arc::default();
    let png = b"\x89PNG\r\n\x1a\n and more";
    std::fs::write(fixture.real().join("a.png"), png).expect("a file");
    let ask = |question: &str, capabilities: &str| {
        let mut setup = TurnSetup::asking(question, &user);
        setup.images = prompt_images(question, &fixture.real(), None).expect("images");
        let script = format!(
            "{{capabilities: {{{capabilities}}}, answers: [{{text: fine}}, {{text: fine}}]}}"
        );
        let model = RecordingModel {
            model: fixture.script(&script),
            requests: Arc::clone(&requests),
        };
        fixture
            .run_turn_with(Arc::new(model), setup)
            .expect("answered");
        requests.lock().expect("fine").pop().expect("a request")
    };
    let image = UserPart::Image {
        media_type: "image/png".to_owned(),
        data: png.to_vec(),
    };
    let parts = |request: &ChatRequest| match request.messages[0].as_ref() {
        ChatMessage::User { parts } => parts.clone(),
        other => panic!("{other:?}"),
    };
    let text = UserPart::Text("Explain @a.png?".to_owned());
    let sent = ask("Explain @a.png?", "vision: true");
    assert_eq!(parts(&sent), [text.clone(), image]);
    assert_eq!(fixture.messages()[0].content, "Explain @a.png?\n[image]");
    let note = UserPart::Text("[an image that this model cannot see]".to_owned());
    let sent = ask("And now?", "vision: false");
    assert_eq!(parts(&sent), [text, note]);
}
