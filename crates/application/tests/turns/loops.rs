//! The loop of a turn: answers, tool calls and refusals.

use cleveragents_application::{AgentEvent, Observer, SessionService, TurnError, TurnSettings};
use cleveragents_domain::Role::{Assistant, Tool, User};
use cleveragents_domain::{Code, Diagnose as _, InvocationOutcome, MessageState, SessionId};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::{Approval, Reply};
use cleveragents_tools::{Guards, PlanMode};

use crate::support::{TestUser, TurnFixture, TurnSetup};

/// A model that writes a file, reads two files in one answer, then answers in text.
const WORKING: &str = r"
answers:
- text: I write the file.
  calls:
  - {name: builtin_S_file-write, arguments: {path: b.txt, content: 'second'}}
- calls:
  - {name: builtin_S_file-read, arguments: {path: a.txt}}
  - {name: builtin/read_file, arguments: {path: b.txt}}
- {text: Both files exist., usage: {input_tokens: 100, output_tokens: 7}}
";

#[test]
fn a_turn_acts_in_the_sandbox_and_is_stored_completely() {
    for database in TestDatabase::each() {
        let fixture = TurnFixture::new(&database);
        let user = TestUser::absent();
        let report = fixture
            .run_turn(WORKING, TurnSetup::asking("make b.txt", &user))
            .expect("answered");
        assert_eq!(report.answer, "Both files exist.");
        assert_eq!((report.steps, report.calls.len()), (3, 3));
        assert_eq!(
            std::fs::read_to_string(fixture.sandbox_folder().join("b.txt")).expect("written"),
            "second"
        );
        assert!(
            !fixture.real().join("b.txt").exists(),
            "the real folder is unchanged"
        );
        assert_eq!(
            fixture.roles(),
            [User, Assistant, Tool, Assistant, Tool, Tool, Assistant]
        );
        let numbers: Vec<u64> = report.sequences.iter().map(|number| number.0).collect();
        assert_eq!(numbers, (0..7).collect::<Vec<_>>());
        let calls = fixture.calls();
        let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
        assert_eq!(
            tools,
            [
                "builtin/file-write",
                "builtin/file-read",
                "builtin/file-read"
            ]
        );
        assert!(
            calls
                .iter()
                .all(|call| call.outcome == InvocationOutcome::Succeeded)
        );
        let session = fixture.sessions.get(fixture.session).expect("there");
        assert!(session.usage.output_tokens.0 >= 7, "the usage is recorded");
        assert!(!fixture.is_running());

        // The next turn receives all messages: the script selects its answer by the number of earlier answers.
        let again = fixture.run_turn(
            &format!("{WORKING}- text: The fourth.\n"),
            TurnSetup::asking("and now?", &user),
        );
        assert_eq!(again.expect("answered").answer, "The fourth.");
        let view = fixture.sandboxes.find("work").expect("there");
        assert_eq!(view.position, 1, "one change is recorded");
    }
}

/// A conversation whose only tool call was refused.
struct RefusedCall {
    fixture: TurnFixture,
    call: cleveragents_domain::ToolInvocation,
    _database: TestDatabase,
}

fn refused(setup: TurnSetup<'_>, script: &str) -> RefusedCall {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let report = fixture
        .run_turn(script, setup)
        .expect("the model continues");
    assert_eq!(report.answer, "I do not write it.");
    let call = fixture.calls().remove(0);
    assert_eq!(call.outcome, InvocationOutcome::Refused);
    assert!(report.calls[0].1.for_model().contains("refused"));
    RefusedCall {
        fixture,
        call,
        _database: database,
    }
}

const WRITING: &str = r"
answers:
- calls: [{name: builtin_S_file-write, arguments: {path: b.txt, content: x}}]
- text: I do not write it.
";

#[test]
fn a_refused_call_does_not_run_and_the_model_continues() {
    let user = TestUser::saying(Approval::Refused(None), Reply::Declined);
    let asking = || TurnSetup::asking("go", &user);
    let denied = |rules| TurnSetup { rules, ..asking() };
    let refusal = refused(denied("deny builtin/file-write"), WRITING);
    assert!(!refusal.fixture.sandbox_folder().join("b.txt").exists());
    assert_eq!(refusal.call.reason.as_deref(), Some("rule"));
    let guards = Guards {
        denylist: vec!["builtin/file-*".parse().expect("a pattern")],
        ..Guards::default()
    };
    let refusal = refused(TurnSetup { guards, ..asking() }, WRITING);
    assert!(!refusal.fixture.sandbox_folder().join("b.txt").exists());
    let refusal = refused(denied("ask builtin/file-write"), WRITING);
    assert!(!refusal.fixture.sandbox_folder().join("b.txt").exists());
    assert_eq!(user.asked.lock().expect("fine").len(), 1);
    let read_only = TurnSetup {
        mode: PlanMode::ReadOnly,
        ..asking()
    };
    let refusal = refused(read_only, WRITING);
    assert!(!refusal.fixture.sandbox_folder().join("b.txt").exists());
    let without_sandbox = TurnSetup {
        in_sandbox: false,
        ..asking()
    };
    let refusal = refused(without_sandbox, WRITING);
    assert!(refusal.call.error.expect("reported").contains("sandbox"));
    let unknown = WRITING.replace("file-write", "file-wipe");
    let refusal = refused(asking(), &unknown);
    assert!(
        refusal.call.error.expect("reported").contains("file-write"),
        "the nearest is named"
    );
    let malformed = "answers:\n- calls: [{name: builtin_S_file-write, raw_arguments: '{\"path\": '}]\n- text: I do not write it.\n";
    refused(asking(), malformed);
}

#[test]
fn without_a_user_the_turn_ends_and_reports_the_missing_approval() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let setup = TurnSetup {
        rules: "ask builtin/file-write",
        ..TurnSetup::asking("go", &user)
    };
    let error = fixture
        .run_turn(WRITING, setup)
        .expect_err("no user is present");
    assert!(matches!(error, TurnError::HumanNeeded { .. }), "{error}");
    assert!(!fixture.sandbox_folder().join("b.txt").exists());
    let messages = fixture.messages();
    assert_eq!(
        messages[0].state,
        MessageState::Failed,
        "the turn is marked as failed"
    );
    assert!(!fixture.is_running());
}

#[test]
fn a_repeating_model_is_warned_and_then_stopped() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let script = "at_end: repeat_last\nanswers:\n- calls: [{name: builtin_S_file-read, arguments: {path: none.txt}}]\n";
    let user = TestUser::absent();
    let error = fixture
        .run_turn(script, TurnSetup::asking("go", &user))
        .expect_err("stopped");
    assert!(matches!(error, TurnError::Stuck(_)), "{error}");
    let reported = fixture
        .messages()
        .iter()
        .any(|message| message.content.contains("Do something else"));
    assert!(reported);
    let few = TurnSetup {
        settings: TurnSettings {
            max_steps: 2,
            ..TurnSettings::default()
        },
        ..TurnSetup::asking("again", &user)
    };
    let error = fixture.run_turn(script, few).expect_err("stopped");
    assert!(matches!(error, TurnError::TooManySteps(2)), "{error}");
}

#[test]
fn a_failing_model_marks_the_question_as_failed() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let error = fixture
        .run_turn(
            "answers:\n- {text: never, failures: [{status: 400}, {status: 400}]}\n",
            TurnSetup::asking("go", &user),
        )
        .expect_err("no answer");
    assert!(matches!(error, TurnError::Model(_)), "{error}");
    let messages = fixture.messages();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].state, MessageState::Failed);
    // The next request does not contain the failed question: the script still gives its first answer.
    let report = fixture.run_turn(
        "answers:\n- text: hello\n",
        TurnSetup::asking("again", &user),
    );
    assert_eq!(report.expect("answered").answer, "hello");
}

#[test]
fn an_incomplete_answer_is_reported() {
    for (answer, caveat) in [
        ("{text: Half, stop: max_tokens}", Some("token limit")),
        ("{text: Half, stop: content_filter}", Some("withheld")),
        ("{text: All of it}", None),
    ] {
        let database = TestDatabase::each().remove(0);
        let fixture = TurnFixture::new(&database);
        let user = TestUser::absent();
        let script = format!("answers:\n- {answer}\n");
        let report = fixture
            .run_turn(&script, TurnSetup::asking("go", &user))
            .expect("answered");
        let reported: Vec<&str> = report.caveats().collect();
        assert_eq!(
            reported.len(),
            usize::from(caveat.is_some()),
            "{reported:?}"
        );
        assert!(
            reported.join("").contains(caveat.unwrap_or_default()),
            "{reported:?}"
        );
    }
}

/// Deletes the session as soon as a request to the model starts.
struct SessionDeleter(SessionService, SessionId);

impl Observer for SessionDeleter {
    fn event(&self, event: &AgentEvent) {
        if matches!(event, AgentEvent::ModelCall { .. }) {
            self.0.delete(self.1).expect("deleted");
        }
    }
}

#[test]
fn a_session_that_is_deleted_during_a_turn_is_reported_as_not_found() {
    for database in TestDatabase::each() {
        let fixture = TurnFixture::new(&database);
        let user = TestUser::absent();
        let observer = SessionDeleter(fixture.sessions.clone(), fixture.session);
        let mut setup = TurnSetup::asking("go", &user);
        setup.observer = &observer;
        let error = fixture.run_turn(WORKING, setup).expect_err("it is gone");
        assert_eq!(error.code(), Code::SessionNotFound, "{error}");
    }
}
