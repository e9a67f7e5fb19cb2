//! The stop about sandboxes: a command works in a copy, is taken back, and is applied whole.

use cleveragents_engine::{ApplyRequest, ExecRequest, RollbackTarget, SandboxService, Target};
use cleveragents_process::{Cancel, Input, Limits, Output, WhenMissing};
use cleveragents_sandbox::Source;
use serde_json::json;

use super::{Stop, Tour, broken, failure};
use crate::output::CommandError;

const SCRIPT: &str = "echo changed > kept.txt && echo new > new.txt && rm old.txt; echo escaped > ../../../../escaped.txt";

pub(super) fn works_in_a_copy(tour: &Tour) -> Result<Stop, CommandError> {
    let real = tour.home.join("code");
    let written = |name: &str, text: &str| {
        std::fs::write(real.join(name), text).map_err(|error| failure("write a file", &error))
    };
    std::fs::create_dir(&real).map_err(|error| failure("make a folder", &error))?;
    for name in ["kept.txt", "old.txt", "mine.txt"] {
        written(name, "first\n")?;
    }
    let service = SandboxService::new(
        std::sync::Arc::clone(&tour.engine),
        tour.home.join("sandboxes"),
    );
    let target = Target {
        alias: "code".to_owned(),
        resource: "code".to_owned(),
        strategy: "copy_on_write".to_owned(),
        source: Source::Directory,
        location: real.clone(),
        is_read_only: false,
    };
    service.create("tour", "the demo", &[target])?;
    let mut sandbox = service.open("tour")?;
    let report = service.exec(&mut sandbox, &request(), &Cancel::new())?;
    let changed = report.changes.changes.len();
    let back = service
        .rollback(&mut sandbox, &RollbackTarget::Previous)?
        .changes
        .len();
    if service.diff(&mut sandbox)?.path_count() != 0 {
        return Err(broken("a rollback left a change"));
    }
    service.redo(&mut sandbox)?;
    // The user goes on working in another file.
    written("mine.txt", "my own edit\n")?;
    service.apply(sandbox, &ApplyRequest::default())?;
    let content = |name: &str| std::fs::read_to_string(real.join(name)).unwrap_or_default();
    let is_whole = content("kept.txt") == "changed\n"
        && content("new.txt") == "new\n"
        && !real.join("old.txt").exists();
    if !is_whole || content("mine.txt") != "my own edit\n" || tour.home.join("escaped.txt").exists()
    {
        return Err(broken(
            "an apply was not whole, touched another file, or a command wrote outside",
        ));
    }
    let confinement = match report.finished.enforced.missing().as_slice() {
        [] => "its write outside was refused".to_owned(),
        missing => format!("this machine does not have: {}", missing.join(", ")),
    };
    Ok(Stop {
        title: "6. Work in a copy, applied all or nothing",
        promise: "A command changes only its sandbox; undo restores exactly; apply is whole and keeps your edits",
        seen: format!(
            "a command changed {changed} files in the copy ({confinement}); {back} were taken back and redone, then all {changed} \
             applied beside an edit of yours"
        ),
        facts: json!({"changed": changed, "taken_back": back, "confinement": report.finished.enforced}),
    })
}

fn request() -> ExecRequest {
    ExecRequest {
        program: "sh".into(),
        arguments: vec!["-c".into(), SCRIPT.into()],
        part: None,
        environment: Vec::new(),
        writable: Vec::new(),
        network: false,
        when_missing: WhenMissing::Warn,
        input: Input::Nothing,
        output: Output::Capture,
        limits: Limits::default(),
    }
}
