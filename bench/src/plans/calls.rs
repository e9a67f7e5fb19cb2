//! Measures a plan of many calls, compared with the same calls without a plan at the same durability; and the memory of
//! many concurrent plans, compared with a limit.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use cleveragents_application::{SandboxWorkspace, StoreBudget, StoreLedger, ToolService};
use cleveragents_models::Redactor;
use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_sandbox::Source;
use cleveragents_tools::ports::{
    Approval, ApprovalRequest, Approver, Question, Redact, Reply, Scope,
};
use cleveragents_tools::{
    CallContext, CallRequest, DEFAULT_SHOWN_BYTES, Effect, Gate, Guards, Phase, PlanMode,
    SafetyProfile,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Row;
use crate::sandbox::{Place, place, timed};

/// Number of rounds. Each round measures the calls with and without a plan directly after each other, because the speed
/// of a machine changes within minutes. The median round counts.
const ROUNDS: usize = 15;

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

/// Tool and arguments of the call with this number. Calls write, edit, read and run a command, in turn.
fn call(number: usize) -> (&'static str, Value) {
    let path = format!("f{}.txt", number / 4);
    match number % 4 {
        0 => (
            "builtin/file-write",
            json!({"path": path, "content": "one\n"}),
        ),
        1 => (
            "builtin/file-edit",
            json!({"path": path, "edits": [{"old_text": "one", "new_text": "two"}]}),
        ),
        2 => ("builtin/file-read", json!({"path": path})),
        _ => ("builtin/shell", json!({"command": format!("wc -c {path}")})),
    }
}

/// A folder to work on.
fn work_folder() -> anyhow::Result<TempDir> {
    let folder = tempfile::tempdir_in(std::env::current_dir()?)?;
    std::fs::write(folder.path().join("README"), "a folder\n")?;
    Ok(folder)
}

/// Makes `calls` calls through the gate, which store the same rows as the calls of a plan. Returns the time in
/// milliseconds, and the folder and store that the calls used.
fn without_plan(calls: usize) -> anyhow::Result<(f64, (TempDir, Place))> {
    let work_folder = work_folder()?;
    let place = place()?;
    let open = place.create(work_folder.path(), Source::Directory)?;
    let engine = Arc::clone(&place.engine);
    let tools = ToolService::new(Arc::clone(&engine));
    let gate = Gate::new(Arc::new(tools.registry(&|_| None)?.registry));
    let rules = tools.rules(&[], Effect::Allow)?;
    let workspace = SandboxWorkspace::new(place.service.clone(), open, WhenMissing::Warn)?;
    let context = CallContext {
        scope: &Scope::default(),
        mode: PlanMode::Normal(Phase::Execute),
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
    let (time, ()) = timed(|| {
        for number in 0..calls {
            let (tool, arguments) = call(number);
            let outcome = gate.call(
                &CallRequest {
                    call_id: format!("call-{number}"),
                    tool: tool.to_owned(),
                    arguments: arguments.to_string(),
                },
                &context,
            )?;
            ensure!(outcome.is_success(), "{tool}: {}", outcome.for_model());
        }
        Ok(())
    })?;
    Ok((time, (work_folder, place)))
}

/// A home with a project and an action.
pub(super) struct Home {
    pub(super) folder: TempDir,
    work_folder: TempDir,
}

impl Home {
    pub(super) fn new(agents: &Path) -> anyhow::Result<Self> {
        let work_folder = work_folder()?;
        let home = Self {
            folder: tempfile::tempdir_in(std::env::current_dir()?)?,
            work_folder,
        };
        let place = home.work_folder.path().to_str().context("a path")?;
        home.run(
            agents,
            &[
                "resource",
                "add",
                "fs-directory",
                "local/ground",
                "--path",
                place,
            ],
        )?;
        home.run(
            agents,
            &["project", "create", "local/p", "--resource", "local/ground"],
        )?;
        Ok(home)
    }

    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn run(&self, agents: &Path, arguments: &[&str]) -> anyhow::Result<Value> {
        let output = Command::new(agents)
            .args(["--format", "json"])
            .args(arguments)
            .env("CLEVERAGENTS_HOME", self.path("home"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()?;
        let reported: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        ensure!(output.status.success(), "agents {arguments:?}: {reported}");
        Ok(reported["data"].clone())
    }

    /// Creates a plan with one step of `calls` calls, each after a response of the model.
    fn plan(&self, agents: &Path, calls: usize) -> anyhow::Result<String> {
        let mut script = "at_end: fail\nanswers:\n".to_owned();
        for number in 0..calls {
            let (tool, arguments) = call(number);
            let _never_fails = writeln!(
                script,
                "- calls: [{{name: {tool}, arguments: {arguments}}}]"
            );
        }
        script.push_str("- text: Done.\n");
        std::fs::write(self.path(&format!("m{calls}.yaml")), script)?;
        std::fs::write(
            self.path("strategy.yaml"),
            "at_end: repeat_last\nanswers:\n- text: '{\"summary\": \"so\", \"steps\": [{\"title\": \"all\", \
             \"description\": \"of it\"}]}'\n",
        )?;
        for (name, model, role) in [
            ("thinker", "scripted/strategy.yaml".to_owned(), "strategy"),
            ("doer", format!("scripted/m{calls}.yaml"), "execution"),
        ] {
            let file = self.path(&format!("{name}{calls}.yaml"));
            let text = json!({
                "name": format!("local/{name}{calls}"), "type": "llm", "description": name, "model": model,
                "tools": ["builtin/*"], "role_hint": role,
                "limits": {"max_model_calls": 1000},
            });
            std::fs::write(&file, text.to_string())?;
            let path = file.to_str().context("a path")?;
            // Fails if an earlier plan of the same size has registered the actors already.
            let _exists_already = self.run(agents, &["actor", "add", "--config", path]);
        }
        let action = self.path(&format!("action{calls}.yaml"));
        let text = json!({
            "name": format!("local/calls{calls}"), "description": "calls", "definition_of_done": "all calls are made",
            "strategy_actor": format!("local/thinker{calls}"), "execution_actor": format!("local/doer{calls}"),
        });
        std::fs::write(&action, text.to_string())?;
        let path = action.to_str().context("a path")?;
        self.run(agents, &["action", "create", "--config", path, "--update"])?;
        let action = format!("local/calls{calls}");
        let created_plan = self.run(agents, &["plan", "use", &action, "local/p"])?;
        Ok(created_plan["plan_id"]
            .as_str()
            .context("an id")?
            .to_owned())
    }
}

/// Compares a plan of `calls` calls with the same calls without a plan, excluding the time to start the program.
pub(super) fn overhead(agents: &Path, calls: usize) -> anyhow::Result<Row> {
    let mut rounds: Vec<(f64, f64)> = Vec::new();
    // Holds the folders of all rounds until the end: on ext4 without a journal, creating files is up to 10% slower
    // for minutes after files are removed.
    let (mut homes, mut places) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let home = Home::new(agents)?;
        let (small, large) = (home.plan(agents, 4)?, home.plan(agents, calls)?);
        let (time_small, _) = timed(|| home.run(agents, &["plan", "execute", &small]))?;
        let (time_large, _) = timed(|| home.run(agents, &["plan", "execute", &large]))?;
        let (time, place) = without_plan(calls - 4)?;
        rounds.push((time_large - time_small, time));
        homes.push(home);
        places.push(place);
    }
    rounds.sort_by(|left, right| (left.0 / left.1).total_cmp(&(right.0 / right.1)));
    let (ours, other) = rounds[ROUNDS / 2];
    Ok(Row {
        name: format!("plan of {calls} calls"),
        ours,
        other,
        ratio: ours / other,
        unit: "ms",
        note: "each call follows an answer of a scripted model; other: the same calls without the program; target ratio at most 1.15"
            .to_owned(),
    })
}

/// Peak memory of a worker that runs `plans` plans concurrently.
pub(super) fn memory(agents: &Path, plans: usize) -> anyhow::Result<Row> {
    let home = Home::new(agents)?;
    let mut worker = Command::new(agents)
        .args([
            "--format",
            "plain",
            "worker",
            "--concurrency",
            &plans.to_string(),
        ])
        .env("CLEVERAGENTS_HOME", home.path("home"))
        .current_dir(home.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let ids = (0..plans)
        .map(|_| home.plan(agents, 40))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for id in &ids {
        home.run(agents, &["plan", "execute", id, "--background"])?;
    }
    let mut peak = 0.0_f64;
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", worker.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        peak = peak.max(kilobytes.unwrap_or_default() / 1024.0);
        let listed = home.run(agents, &["plan", "list"])?;
        let is_finished =
            |plan: &Value| plan["phase"] == "execute" && plan["state"] != "processing";
        let found = listed["plans"].as_array().context("plans")?;
        if found.iter().all(is_finished) {
            ensure!(
                found.iter().all(|plan| plan["state"] != "errored"),
                "a plan failed: {listed}"
            );
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    worker.kill()?;
    worker.wait()?;
    Ok(Row {
        name: format!("{plans} plans at once"),
        ours: peak,
        other: 300.0,
        ratio: peak / 300.0,
        unit: "MiB",
        note: "the most memory of one worker; the other is the limit".to_owned(),
    })
}
