//! Turns whose process died.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cleveragents_application::{AgentEvent, Observer, TurnError};
use cleveragents_domain::InvocationOutcome::{self, Failed, Succeeded};
use cleveragents_domain::MessageState;
use cleveragents_domain::Role::{Assistant, Tool, User};
use cleveragents_models::{AssistantMessage, ChatMessage, ToolResult};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::{Approval, Reply};

use crate::support::{SECRET, TestUser, TurnFixture, TurnSetup};

/// Simulates a crash: after the tool call `call`, or, if `after` is false, before the second model call.
struct Crash {
    after: bool,
    call: &'static str,
}

impl Observer for Crash {
    fn event(&self, event: &AgentEvent) {
        match event {
            AgentEvent::ToolCallFinished { call, .. } => {
                assert!(!(self.after && call == self.call), "crash");
            }
            AgentEvent::ModelCall { number, .. } => assert!(self.after || *number < 2, "crash"),
            _ => {}
        }
    }
}

const SCRIPT: &str = r"
answers:
- calls:
  - {id: one, name: builtin_S_file-write, arguments: {path: one.txt, content: '1'}}
  - {id: two, name: builtin_S_file-write, arguments: {path: two.txt, content: '2'}}
- text: Done.
";

fn crashed(database: &TestDatabase, after: bool, call: &'static str) -> TurnFixture {
    let fixture = TurnFixture::new(database);
    let user = TestUser::absent();
    let crash = Crash { after, call };
    let setup = TurnSetup {
        observer: &crash,
        ..TurnSetup::asking("write both", &user)
    };
    let ended = catch_unwind(AssertUnwindSafe(|| fixture.run_turn(SCRIPT, setup)));
    assert!(ended.is_err(), "it crashed");
    assert!(fixture.is_running(), "the turn is still marked as running");
    assert!(fixture.messages().is_empty());
    fixture
}

fn resuming(user: &TestUser) -> TurnSetup<'_> {
    TurnSetup {
        prompt: None,
        ..TurnSetup::asking("", user)
    }
}

#[test]
fn a_turn_continues_after_the_last_stored_result() {
    for database in TestDatabase::each() {
        let fixture = crashed(&database, true, "one");
        std::fs::remove_file(fixture.sandbox_folder().join("one.txt"))
            .expect("written before the crash");
        let user = TestUser::absent();
        let report = fixture.run_turn(SCRIPT, resuming(&user)).expect("resumed");
        assert_eq!(report.answer, "Done.");
        assert!(report.interrupted.expect("reported").is_resumed);
        assert!(
            !fixture.sandbox_folder().join("one.txt").exists(),
            "a call whose result is stored is not repeated"
        );
        assert!(
            fixture.sandbox_folder().join("two.txt").exists(),
            "the other call ran"
        );
        assert_eq!(fixture.calls().len(), 2);
        assert_eq!(fixture.roles(), [User, Assistant, Tool, Tool, Assistant]);
    }
}

#[test]
fn another_question_ends_an_interrupted_turn_and_keeps_its_results() {
    let database = TestDatabase::each().remove(0);
    let fixture = crashed(&database, true, "one");
    let user = TestUser::absent();
    let script = "answers:\n- text: unused\n- text: I see.\n";
    let report = fixture
        .run_turn(script, TurnSetup::asking("what happened?", &user))
        .expect("answered");
    assert_eq!(
        report.answer, "I see.",
        "the request contains the interrupted turn's first answer, so the script continues with its second"
    );
    assert!(!report.interrupted.expect("reported").is_resumed);
    assert!(
        !fixture.sandbox_folder().join("two.txt").exists(),
        "no further call ran"
    );
    let messages = fixture.messages();
    assert_eq!(
        fixture.roles(),
        [User, Assistant, Tool, Tool, User, Assistant]
    );
    assert_eq!(messages[0].state, MessageState::Failed);
    assert!(messages[3].content.contains("did not run"));
}

/// Simulates a process that died during the first call.
fn interrupted_during_call(database: &TestDatabase, is_repeatable: bool) -> TurnFixture {
    let fixture = crashed(database, true, "one");
    database.execute_sql(&format!(
        "UPDATE tool_invocations SET outcome = 'running', finished_at = NULL, output_hash = NULL, \
         repeatable = {}",
        u8::from(is_repeatable)
    ));
    std::fs::remove_file(fixture.sandbox_folder().join("one.txt"))
        .expect("written before the crash");
    fixture
}

#[test]
fn a_call_with_unknown_outcome_is_never_repeated_without_approval() {
    for database in TestDatabase::each() {
        let fixture = interrupted_during_call(&database, false);
        let user = TestUser::absent();
        let report = fixture.run_turn(SCRIPT, resuming(&user)).expect("resumed");
        assert_eq!(
            report.interrupted.expect("reported").unknown_outcomes,
            ["builtin/file-write"]
        );
        assert_eq!(user.asked.lock().expect("fine").len(), 1);
        assert!(!fixture.sandbox_folder().join("one.txt").exists());
        assert_eq!(fixture.calls()[0].outcome, InvocationOutcome::Failed);
        assert!(
            fixture.messages()[2]
                .content
                .contains("Its outcome is unknown")
        );
    }
    let database = TestDatabase::each().remove(0);
    let fixture = interrupted_during_call(&database, false);
    let user = TestUser::saying(Approval::Once, Reply::Text("retry it".to_owned()));
    fixture.run_turn(SCRIPT, resuming(&user)).expect("resumed");
    assert!(
        fixture.sandbox_folder().join("one.txt").exists(),
        "the user requested a retry"
    );
    let database = TestDatabase::each().remove(0);
    let fixture = interrupted_during_call(&database, false);
    let user = TestUser::saying(Approval::Once, Reply::Text("assume it was done".to_owned()));
    fixture.run_turn(SCRIPT, resuming(&user)).expect("resumed");
    assert!(!fixture.sandbox_folder().join("one.txt").exists());
    assert!(
        fixture.messages()[2]
            .content
            .contains("confirms that it was done")
    );
}

/// Simulates a crash when a call is about to start.
struct CrashBefore;

impl Observer for CrashBefore {
    fn event(&self, event: &AgentEvent) {
        assert!(
            !matches!(event, AgentEvent::ToolCallStarted { .. }),
            "crash"
        );
    }
}

#[test]
fn a_requested_retry_still_happens_after_another_crash() {
    for database in TestDatabase::each() {
        let fixture = interrupted_during_call(&database, false);
        let user = TestUser::saying(Approval::Once, Reply::Text("retry it".to_owned()));
        for _ in 0..2 {
            let setup = TurnSetup {
                observer: &CrashBefore,
                ..resuming(&user)
            };
            let ended = catch_unwind(AssertUnwindSafe(|| fixture.run_turn(SCRIPT, setup)));
            assert!(ended.is_err(), "it crashed");
            assert!(!fixture.sandbox_folder().join("one.txt").exists());
        }
        fixture.run_turn(SCRIPT, resuming(&user)).expect("resumed");
        assert!(
            fixture.sandbox_folder().join("one.txt").exists(),
            "the user requested a retry"
        );
        assert_eq!(
            user.asked.lock().expect("fine").len(),
            1,
            "the user is asked only once"
        );
        let outcomes: Vec<_> = fixture.calls().iter().map(|call| call.outcome).collect();
        assert_eq!(outcomes, [Failed, Succeeded, Succeeded]);
    }
}

#[test]
fn a_call_that_may_be_repeated_is_run_again_without_a_question() {
    let database = TestDatabase::each().remove(0);
    let fixture = interrupted_during_call(&database, true);
    let user = TestUser::absent();
    let report = fixture.run_turn(SCRIPT, resuming(&user)).expect("resumed");
    assert!(
        report
            .interrupted
            .expect("reported")
            .unknown_outcomes
            .is_empty()
    );
    assert!(user.asked.lock().expect("fine").is_empty());
    assert!(fixture.sandbox_folder().join("one.txt").exists());
    let outcomes: Vec<_> = fixture.calls().iter().map(|call| call.outcome).collect();
    assert_eq!(
        outcomes,
        [Failed, Succeeded, Succeeded],
        "the first was lost"
    );
}

#[test]
fn a_call_whose_secret_is_not_stored_does_not_run_after_a_crash() {
    let database = TestDatabase::each().remove(0);
    let key = SECRET;
    let script = SCRIPT.replace("content: '2'", &format!("content: 'key {key}'"));
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let crash = Crash {
        after: true,
        call: "one",
    };
    let setup = TurnSetup {
        observer: &crash,
        ..TurnSetup::asking("write both", &user)
    };
    let ended = catch_unwind(AssertUnwindSafe(|| fixture.run_turn(&script, setup)));
    assert!(ended.is_err() && fixture.is_running(), "it crashed");
    let stored = database.ask("SELECT message FROM turn_steps");
    assert!(!format!("{stored:?}").contains(key), "{stored:?}");
    fixture.run_turn(&script, resuming(&user)).expect("resumed");
    assert!(
        !fixture.sandbox_folder().join("two.txt").exists(),
        "it does not write a mask in place of the secret"
    );
    assert!(fixture.messages()[3].content.contains("contained a secret"));
    // Without a crash the call runs as the model wrote it.
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    fixture
        .run_turn(&script, TurnSetup::asking("write both", &user))
        .expect("answered");
    let written =
        std::fs::read_to_string(fixture.sandbox_folder().join("two.txt")).expect("written");
    assert_eq!(written, format!("key {key}"));
}

#[test]
fn a_turn_with_a_stored_answer_ends_without_another_request() {
    let database = TestDatabase::each().remove(0);
    let fixture = crashed(&database, false, "");
    let answer = ChatMessage::Assistant(AssistantMessage {
        text: "All done.".to_owned(),
        ..AssistantMessage::default()
    });
    let result = |call: &str| ToolResult {
        call_id: call.to_owned(),
        content: "written".to_owned(),
        is_error: false,
        pictures: Vec::new(),
    };
    let results = ChatMessage::Tool {
        results: ["one", "two"].map(result).into(),
    };
    // Results are stored together with the answer that follows them.
    for (number, step) in [(2, results), (3, answer)] {
        let step = serde_json::to_string(&step).expect("JSON");
        database.execute_sql(&format!(
            "INSERT INTO turn_steps (turn_id, number, message) SELECT turn_id, {number}, '{step}' FROM turns"
        ));
    }
    let user = TestUser::absent();
    let report = fixture.run_turn(SCRIPT, resuming(&user)).expect("resumed");
    assert_eq!((report.answer.as_str(), report.steps), ("All done.", 0));
    assert_eq!(fixture.roles(), [User, Assistant, Tool, Tool, Assistant]);
}

#[test]
fn without_an_interrupted_turn_there_is_nothing_to_resume() {
    let database = TestDatabase::each().remove(0);
    let fixture = TurnFixture::new(&database);
    let user = TestUser::absent();
    let error = fixture
        .run_turn(SCRIPT, resuming(&user))
        .expect_err("nothing");
    assert!(matches!(error, TurnError::NothingToResume(_)), "{error}");
    assert!(fixture.messages().is_empty());
}
