//! Measures text search through the gate, in one process, compared with rg.

use std::borrow::Cow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use cleveragents_application::{SandboxWorkspace, StoreBudget, StoreLedger, ToolService};
use cleveragents_models::Redactor;
use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_sandbox::Source;
use cleveragents_tools::ports::{
    Approval, ApprovalRequest, Approver, Question, Redact, Reply, Scope,
};
use cleveragents_tools::{
    CallContext, CallOutcome, CallRequest, DEFAULT_SHOWN_BYTES, Effect, Gate, Guards, Phase,
    PlanMode, SafetyProfile,
};
use serde_json::json;

use super::programs::{Home, timed};
use super::row;
use crate::Row;
use crate::sandbox::{generate, place, timed as time_of};

/// Number of searches per pattern and program. The best result counts, because noise can only make a run slower.
const ROUNDS: usize = 9;

/// Name and pattern of each search.
const PATTERNS: [(&str, &str); 4] = [
    ("nothing", "no_such_function"),
    ("rare word", r"function_31337\("),
    ("common word", "function_4"),
    ("regular expression", r"fn \w+_\d*77\(\) -> \w+"),
];

/// An approver without a user; it is never called.
struct NoApprover;

impl Approver for NoApprover {
    fn approve(&self, _: &ApprovalRequest<'_>) -> Approval {
        Approval::NoUser
    }

    fn question(&self, _: &Question<'_>) -> Reply {
        Reply::NoUser
    }
}

struct OutputRedactor(Redactor);

impl Redact for OutputRedactor {
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.text(text)
    }
}

/// Runs rg; returns its duration in milliseconds and the number of matching lines.
fn rg(program: &Path, folder: &Path, pattern: &str) -> anyhow::Result<(f64, usize)> {
    let (time, output) = time_of(|| {
        Ok(Command::new(program)
            .args(["--no-config", "--line-number", "--no-heading", pattern, "."])
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()?)
    })?;
    // Exit code 1: no match.
    ensure!(matches!(output.status.code(), Some(0 | 1)), "rg fails");
    Ok((
        time,
        String::from_utf8_lossy(&output.stdout).lines().count(),
    ))
}

/// The number of matching lines according to the note of a call.
fn lines_found(outcome: &CallOutcome) -> anyhow::Result<usize> {
    let CallOutcome::Succeeded(done) = outcome else {
        bail!("the search was not done: {}", outcome.for_model());
    };
    let note = done.note.as_deref().unwrap_or_default();
    let first = note.split_whitespace().next().unwrap_or_default();
    Ok(first.parse().unwrap_or(0))
}

pub(super) fn measure(agents: &Path, program: &Path, files: usize) -> anyhow::Result<Vec<Row>> {
    let ground = tempfile::tempdir_in(std::env::current_dir()?)?;
    generate(ground.path(), files)?;
    let place = place()?;
    let open = place.create(ground.path(), Source::Directory)?;
    let folder = open.view.members[0].root.clone();
    let engine = Arc::clone(&place.engine);
    let tools = ToolService::new(Arc::clone(&engine));
    let gate = Gate::new(Arc::new(tools.registry(&|_| None)?.registry));
    let rules = tools.rules(&[], Effect::Allow)?;
    let workspace = SandboxWorkspace::new(place.service.clone(), open, WhenMissing::Warn)?;
    let context = CallContext {
        scope: &Scope::default(),
        mode: PlanMode::Normal(Phase::Session),
        profile: &SafetyProfile::default(),
        guards: &Guards::default(),
        rules: &rules,
        workspace: Some(&workspace),
        approver: &NoApprover,
        budget: &StoreBudget::new(Arc::clone(&engine), Vec::new()),
        ledger: &StoreLedger::new(engine, None),
        redactor: &OutputRedactor(Redactor::default()),
        cancel: &Cancel::new(),
        shown_bytes: DEFAULT_SHOWN_BYTES,
    };
    let mut rows = Vec::new();
    for (name, pattern) in PATTERNS {
        let request = CallRequest {
            call_id: "bench".to_owned(),
            tool: "builtin/file-search".to_owned(),
            arguments: json!({"pattern": pattern}).to_string(),
        };
        let (mut best, mut best_other) = (f64::MAX, f64::MAX);
        let mut found = 0;
        for _ in 0..ROUNDS {
            let (time, outcome) = time_of(|| Ok(gate.call(&request, &context)?))?;
            let (time_other, found_by_rg) = rg(program, &folder, pattern)?;
            found = lines_found(&outcome)?;
            ensure!(
                found == found_by_rg,
                "`{pattern}`: {found} lines, by rg {found_by_rg}"
            );
            (best, best_other) = (best.min(time), best_other.min(time_other));
        }
        rows.push(row(
            &format!("search {files} files, {name}"),
            (best, best_other),
            "ms",
            format!("rg; {found} lines; target ratio at most 1.3"),
        ));
    }
    rows.push(command_search(agents, program, ground.path(), files)?);
    Ok(rows)
}

/// Measures a search with the program's command for it, which first scans the sandbox for changes.
fn command_search(agents: &Path, program: &Path, tree: &Path, files: usize) -> anyhow::Result<Row> {
    let home = Home::new(&[])?;
    let path = tree.to_str().context("a path")?;
    let created = home.data(agents, &["sandbox", "create", "box", "--path", path])?;
    let copy = created["sandbox"]["parts"][0]["folder"].as_str();
    let copy = Path::new(copy.context("a folder")?).to_owned();
    let (_, pattern) = PATTERNS[1];
    let argument = format!("pattern={pattern}");
    let run = [
        "tool",
        "run",
        "builtin/file-search",
        "--sandbox",
        "box",
        &argument,
    ];
    let (mut best, mut best_other) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let (_, time) = timed(home.command(agents, &run))?;
        best = best.min(time);
        best_other = best_other.min(rg(program, &copy, pattern)?.0);
    }
    let note = "rg; `agents tool run`, which looks through the sandbox for changes by others first"
        .to_owned();
    Ok(row(
        &format!("search {files} files, as a command"),
        (best, best_other),
        "ms",
        note,
    ))
}
