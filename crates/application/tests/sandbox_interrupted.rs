//! Changes of a call that was cut off are recorded as its doing once the sandbox is used again.

use std::sync::Arc;

use cleveragents_application::{SandboxService, SandboxWorkspace, Target};
use cleveragents_domain::{InvocationOutcome, Timestamp, ToolInvocation, ToolInvocationId};
use cleveragents_process::WhenMissing;
use cleveragents_sandbox::Source;
use cleveragents_store::invocations;
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

fn call(tool: &str, arguments: Value) -> ToolInvocation {
    ToolInvocation {
        id: ToolInvocationId::generate(),
        plan: None,
        session: None,
        turn: None,
        call_id: None,
        tool: tool.to_owned(),
        arguments,
        outcome: InvocationOutcome::Running,
        output: None,
        media_type: None,
        log: None,
        error: None,
        reason: None,
        is_repeatable: false,
        started_at: Timestamp::now(),
        finished_at: None,
    }
}

#[test]
fn files_of_a_file_tool_that_was_killed_are_not_taken_for_made_by_a_command() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let home = tempfile::tempdir().expect("a folder");
    let real = tempfile::tempdir().expect("a folder");
    let service = SandboxService::new(Arc::clone(&engine), home.path());
    let target = Target {
        alias: "part".to_owned(),
        resource: "part".to_owned(),
        strategy: "test".to_owned(),
        location: real.path().to_owned(),
        source: Source::Directory,
        is_read_only: false,
    };
    let made = service.create("s", "a test", &[target]).expect("made");
    let root = &made.members[0].root;
    // As processes leave it that were killed after they wrote and before they recorded.
    for name in ["notes/new.txt", "copied/a/b.txt", "by_shell.txt"] {
        let place = root.join(name);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::write(place, name).expect("written");
    }
    let calls = [
        call(
            "builtin/file-write",
            json!({"path": "notes/new.txt", "content": "notes/new.txt"}),
        ),
        call(
            "builtin/file-copy",
            json!({"from": "notes", "to": "copied"}),
        ),
        call("builtin/shell", json!({"command": "date > by_shell.txt"})),
    ];
    let rows = calls.clone();
    engine
        .write(move |unit| {
            rows.iter()
                .try_for_each(|row| invocations::insert(unit, row))
        })
        .expect("stored");
    let open = service.open("s").expect("opened");
    let workspace = SandboxWorkspace::resume(service.clone(), open, WhenMissing::Warn, &calls)
        .expect("a workspace");
    drop(workspace);
    let view = service.find("s").expect("there");
    let diff = service.recorded(&view, 0).expect("read");
    let made: Vec<String> = diff.parts[0]
        .made_by_commands
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(made, ["by_shell.txt"]);
    assert_eq!(diff.parts[0].changes.len(), 6, "with three folders");
}
