//! Changes of an interrupted call are attributed to it when the sandbox is used again.

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
fn files_of_a_killed_file_tool_are_not_attributed_to_a_command() {
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let home = tempfile::tempdir().expect("a folder");
    let real = tempfile::tempdir().expect("a folder");
    let service = SandboxService::new(Arc::clone(&engine), home.path().join("sandboxes"));
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
    // The state after a process was killed between writing files and recording them.
    for name in ["notes/new.txt", "copied/a/b.txt", "by_shell.txt"] {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, name).expect("written");
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

#[test]
fn an_interrupted_trial_is_rolled_back_and_not_recorded() {
    use cleveragents_tools::ToolName;
    use cleveragents_tools::ports::{Attribution, Workspace as _};
    let database = TestDatabase::sqlite();
    let engine = database.open();
    let home = tempfile::tempdir().expect("a folder");
    let real = tempfile::tempdir().expect("a folder");
    std::fs::write(real.path().join("kept.txt"), "kept").expect("written");
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
    let root = made.members[0].root.clone();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let open = service.open("s").expect("free");
        let workspace =
            SandboxWorkspace::new(service.clone(), open, WhenMissing::Warn).expect("a workspace");
        let tool: ToolName = "builtin/shell".parse().expect("a name");
        let by = Attribution {
            tool: &tool,
            invocation: ToolInvocationId::generate(),
        };
        let _never = workspace.without_trace(|| {
            std::fs::write(root.join("kept.txt"), "changed").expect("written");
            assert!(
                !workspace.requires_checkpoint_before_writing(),
                "no checkpoint is made"
            );
            let captured = workspace.capture_all(by).expect("captured");
            assert!(captured.changes.is_empty(), "nothing is recorded");
            std::fs::write(root.join("junk.txt"), "junk").expect("written");
            panic!("simulates a kill");
        });
    }));
    assert!(panicked.is_err());
    let mut open = service.open("s").expect("free again");
    assert_eq!(
        std::fs::read_to_string(root.join("kept.txt")).expect("there"),
        "kept"
    );
    assert!(!root.join("junk.txt").exists());
    assert_eq!(open.view.position, 0, "the history is unchanged");
    let diff = service.diff(&mut open).expect("a diff");
    assert!(diff.parts.iter().all(|part| part.changes.is_empty()));
}
