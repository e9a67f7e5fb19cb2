//! `demo pools`: three races in an example project are found, ordered, proven, fixed, reviewed and merged.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::shop::write;
use super::{Demo, DemoStep, StepResult, failure, text, violated};
use crate::output::CommandError;

/// Model of hunt, triage and capture.
pub(super) const MODEL: &str = "scripted/team.yaml";
const TIERS: [&str; 2] = ["scripted/tier-1.yaml", "scripted/tier-2.yaml"];
const REVIEWER: &str = "scripted/reviewer.yaml";

const PROJECT: &str = "local/workbench";

/// Steps in order.
pub(super) const STEPS: [DemoStep; 7] = [
    has_three_races,
    hunt_finds_them,
    same_findings_are_sightings,
    triage_orders_and_capture_proves,
    tiers_fix,
    merge_needs_every_criterion,
    repository_is_fixed,
];

/// Steps with the model of the user, whose results are shown and not compared.
pub(super) const LIVE_STEPS: [DemoStep; 3] = [has_three_races, hunts_live, fixes_live];

macro_rules! file {
    ($path:literal) => {
        (
            $path,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/demo/", $path)),
        )
    };
}

/// Files of the example project.
const FILES: [(&str, &str); 8] = [
    file!("workbench/workbench/__init__.py"),
    file!("workbench/workbench/engine_cache.py"),
    file!("workbench/workbench/unit_of_work.py"),
    file!("workbench/workbench/session_service.py"),
    file!("workbench/workbench/plan_execution_context.py"),
    file!("workbench/tests/__init__.py"),
    file!("workbench/tests/test_workbench.py"),
    file!("workbench/.gitignore"),
];

/// Scripts of the models.
const SCRIPTS: [(&str, &str); 4] = [
    file!("pools/team.yaml"),
    file!("pools/tier-1.yaml"),
    file!("pools/tier-2.yaml"),
    file!("pools/reviewer.yaml"),
];

/// The check that every change has to pass.
const VALIDATION: &str =
    "name: local/suite\ndescription: The tests of the workbench\ncommand: python3 -m unittest -q\n";

/// Result of the test suite in the user's folder.
struct Suite {
    passed: bool,
    /// The line with the number of tests, and the last line.
    summary: String,
}

impl Demo {
    fn workbench(&self) -> PathBuf {
        self.home.join("workbench")
    }

    fn suite(&self) -> Result<Suite, CommandError> {
        let output = Command::new("python3")
            .args(["-m", "unittest", "-q"])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(self.workbench())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                failure("run python3, which this demo needs", &error)
                    .with_hint("install Python 3.9 or later and repeat the command")
            })?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let ran = printed
            .lines()
            .find(|line| line.starts_with("Ran "))
            .unwrap_or_default();
        let last = printed.lines().last().unwrap_or_default();
        Ok(Suite {
            passed: output.status.success(),
            summary: format!("{ran}: {last}"),
        })
    }

    fn git_in_workbench(&self, arguments: &[&str]) -> Result<String, CommandError> {
        let output = Command::new("git")
            .args(["-c", "user.name=You", "-c", "user.email=you@example.com"])
            .args([
                "-c",
                "commit.gpgsign=false",
                "-c",
                "init.defaultBranch=main",
            ])
            .args(arguments)
            .current_dir(self.workbench())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| {
                failure("run git, which the demo needs", &error)
                    .with_hint("install git and repeat the command")
            })?;
        if !output.status.success() {
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(violated(&format!("git {}: {printed}", arguments.join(" "))));
        }
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }

    /// Hunts in the whole workbench.
    fn hunt(&self) -> Result<Value, CommandError> {
        self.agents(&["hunt", "workbench", "--project", PROJECT])
    }

    /// The open bugs, most urgent first: id, title, priority.
    fn bugs(&self) -> Result<Vec<(String, String, u64)>, CommandError> {
        let project = PROJECT.to_owned();
        let items = self.engine.read(|reader| {
            cleveragents_store::work_items::page(
                reader,
                &cleveragents_store::work_items::ItemFilter {
                    project: Some(project),
                    kinds: vec![cleveragents_domain::WorkItemKind::Bug],
                    visible: cleveragents_domain::identity::Namespaces::All,
                    ..cleveragents_store::work_items::ItemFilter::default()
                },
                None,
                100,
            )
        })?;
        let mut bugs: Vec<(String, String, u64)> = items
            .into_iter()
            .map(|item| (item.id.to_string(), item.title, item.priority.rank()))
            .collect();
        bugs.sort_by(|one, other| (one.2, &one.0).cmp(&(other.2, &other.0)));
        Ok(bugs)
    }

    /// Runs `fix` on an item, with the tiers of the demo.
    fn fix(&self, item: &str, options: &[&str]) -> Result<Value, CommandError> {
        let command = ["fix", item, "--actor", MODEL, "--reviewer", REVIEWER];
        let tiers = [
            "--tier",
            TIERS[0],
            "--tier",
            TIERS[1],
            "--attempts-per-tier",
            "1",
        ];
        let arguments: Vec<&str> = [&command[..], &tiers[..], options].concat();
        self.agents(&arguments)
    }
}

/// The elements of a list in a document.
fn list<'v>(value: &'v Value, name: &str) -> Vec<&'v Value> {
    value[name].as_array().into_iter().flatten().collect()
}

fn has_three_races(demo: &Demo) -> Result<StepResult, CommandError> {
    for (path, content) in FILES {
        let place = demo.home.join(path);
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder).map_err(|error| failure("create a folder", &error))?;
        }
        write(&place, content)?;
    }
    for (path, content) in SCRIPTS {
        let name = path.rsplit('/').next().unwrap_or(path);
        write(&demo.home.join(name), content)?;
    }
    write(&demo.home.join("validation.yaml"), VALIDATION)?;
    demo.git_in_workbench(&["init", "-q"])?;
    demo.git_in_workbench(&["add", "."])?;
    demo.git_in_workbench(&["commit", "-qm", "A workbench"])?;
    demo.agents(&[
        "resource",
        "add",
        "git-checkout",
        "workbench",
        "--path",
        "workbench",
    ])?;
    demo.agents(&[
        "project",
        "create",
        PROJECT,
        "--resource",
        "local/workbench",
    ])?;
    demo.agents(&["validation", "add", "--config", "validation.yaml"])?;
    demo.agents(&[
        "validation",
        "attach",
        "--project",
        PROJECT,
        "local/workbench",
        "local/suite",
    ])?;
    let suite = demo.suite()?;
    if !suite.passed {
        return Err(violated("the tests of the example fail"));
    }
    Ok(StepResult {
        title: "A project with three races that its tests do not see",
        promise: "An engine cache, message numbers and changesets, with the races of three real reports",
        seen: format!(
            "`python3 -m unittest` passes: {}; local/suite validates every change",
            suite.summary
        ),
        facts: json!({"suite": suite.summary, "passed": suite.passed}),
        shown: String::new(),
    })
}

fn hunt_finds_them(demo: &Demo) -> Result<StepResult, CommandError> {
    let hunted = demo.hunt()?;
    let items = list(&hunted, "items");
    let new = items.iter().filter(|found| found["is_new"] == true).count();
    let summaries: Vec<String> = list(&hunted, "modules")
        .iter()
        .map(|module| text(&module["summary"]))
        .collect();
    let rejected: Vec<&str> = summaries
        .iter()
        .flat_map(|summary| summary.lines())
        .filter_map(|line| line.strip_prefix("rejected: "))
        .collect();
    if new != 3 || rejected.len() != 1 {
        return Err(violated(&format!(
            "the hunt found {new} defects and rejected {rejected:?}"
        )));
    }
    let places: Vec<String> = items
        .iter()
        .map(|found| {
            let location = &found["item"]["location"];
            format!("{}:{}", text(&location["path"]), location["line_start"])
        })
        .collect();
    Ok(StepResult {
        title: "Hunt: one module per plan, read-only",
        promise: "A finding counts only if the commit contains its quoted code at the stated lines",
        seen: format!(
            "3 findings at {}; rejected: {}; a vague one (confidence 40 %) was not filed; a missing program of the hunter \
             is no defect",
            places.join(", "),
            rejected.join("; ")
        ),
        facts: json!({"new": new, "rejected": rejected, "places": places}),
        shown: String::new(),
    })
}

fn same_findings_are_sightings(demo: &Demo) -> Result<StepResult, CommandError> {
    let before = demo.bugs()?.len();
    let hunted = demo.hunt()?;
    let new = list(&hunted, "items")
        .iter()
        .filter(|found| found["is_new"] == true)
        .count();
    let after = demo.bugs()?.len();
    if new != 0 || after != before {
        return Err(violated("a second hunt filed a finding again"));
    }
    Ok(StepResult {
        title: "Hunt again: sightings, not duplicates",
        promise: "Place, category and cause identify a defect, never its wording",
        seen: format!("a second hunt added no item; {after} bugs, each with two sightings"),
        facts: json!({"new": new, "bugs": after}),
        shown: String::new(),
    })
}

fn triage_orders_and_capture_proves(demo: &Demo) -> Result<StepResult, CommandError> {
    let mut proofs = Vec::new();
    for (id, title, _) in demo.bugs()? {
        let fixed = demo.fix(&id, &["--only-capture"])?;
        let attempts = list(&fixed, "attempts");
        let capture = attempts.iter().find(|attempt| attempt["role"] == "capture");
        let proof = capture.map_or(&Value::Null, |attempt| &attempt["regression"]);
        let (runs, failures) = (proof["base_runs"].as_u64(), proof["base_failures"].as_u64());
        if fixed["item"]["state"] != "captured" || failures.unwrap_or(0) == 0 {
            return Err(violated(&format!("`{title}` was not captured: {fixed}")));
        }
        proofs.push(json!({"title": title, "runs": runs, "failures": failures}));
    }
    let order: Vec<String> = demo
        .bugs()?
        .into_iter()
        .map(|(_, title, _)| title)
        .collect();
    let rates: Vec<String> = proofs
        .iter()
        .map(|proof| format!("{} of {} runs", proof["failures"], proof["runs"]))
        .collect();
    Ok(StepResult {
        title: "Triage orders, capture proves",
        promise: "Each race gets a test that fails because of it, repeated under load; its rate is stored",
        seen: format!(
            "most urgent first: {}; without their markers the tests fail in {}; with them the suite passes",
            order.join("; "),
            rates.join(", ")
        ),
        facts: json!({"order": order, "proofs": proofs}),
        shown: String::new(),
    })
}

fn tiers_fix(demo: &Demo) -> Result<StepResult, CommandError> {
    let mut outcomes = Vec::new();
    let mut comment = String::new();
    for (id, title, _) in demo.bugs()? {
        let fixed = demo.fix(&id, &[])?;
        if fixed["item"]["state"] != "approved" {
            return Err(violated(&format!("`{title}` was not approved: {fixed}")));
        }
        for attempt in list(&fixed, "attempts")
            .iter()
            .filter(|attempt| attempt["role"] == "fix")
        {
            if attempt["outcome"] != "succeeded" {
                comment = text(&attempt["comment"]);
            }
            outcomes.push(json!({
                "title": title, "tier": attempt["tier"], "outcome": attempt["outcome"],
                "reason": attempt["reason"], "head_runs": attempt["regression"]["head_runs"],
                "head_failures": attempt["regression"]["head_failures"],
            }));
        }
    }
    let shown: Vec<String> = outcomes
        .iter()
        .map(|outcome| {
            format!(
                "{} {}",
                text(&outcome["tier"]),
                text(&outcome["outcome"]).replace('_', " ")
            )
        })
        .collect();
    let expected = [
        "tier-1 failed gates",
        "tier-2 succeeded",
        "tier-1 succeeded",
        "tier-1 succeeded",
    ];
    if shown != expected {
        return Err(violated(&format!("the tiers ended as {shown:?}")));
    }
    Ok(StepResult {
        title: "Fix: the second tier succeeds where the first one fails",
        promise: "Exit codes decide, not the words of a model; the next tier gets the reasons",
        seen: format!(
            "{}; the first tier wrote \"Success\", and its report below is rendered from the stored gates; another actor \
             reviewed each change",
            shown.join(", ")
        ),
        facts: json!({"attempts": outcomes}),
        shown: comment,
    })
}

fn merge_needs_every_criterion(demo: &Demo) -> Result<StepResult, CommandError> {
    let before = demo.git_in_workbench(&["rev-parse", "HEAD"])?;
    let mut merged = Vec::new();
    for (id, title, _) in demo.bugs()? {
        let fixed = demo.fix(&id, &["--yes"])?;
        if fixed["item"]["state"] != "completed" {
            return Err(violated(&format!("`{title}` was not merged: {fixed}")));
        }
        merged.push(title);
    }
    let commits = demo.git_in_workbench(&["log", "--format=%h %s", &format!("{before}..HEAD")])?;
    if commits.lines().count() != merged.len() {
        return Err(violated("a merge has no commit of its own"));
    }
    Ok(StepResult {
        title: "Merge: one commit for each approved change",
        promise: "All criteria are evaluated for exactly this change, in the transaction that starts the apply",
        seen: format!("{} merged", merged.len()),
        facts: json!({"merged": merged, "commits": commits.lines().collect::<Vec<_>>()}),
        shown: commits,
    })
}

fn repository_is_fixed(demo: &Demo) -> Result<StepResult, CommandError> {
    let suite = demo.suite()?;
    let markers = demo.git_in_workbench(&["grep", "-c", "race", "--", "tests"])?;
    let tests = demo.git_in_workbench(&["ls-files", "tests"])?;
    let is_marked = std::fs::read_dir(demo.workbench().join("tests"))
        .map_err(|error| failure("read a folder", &error))?
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .any(|content| content.contains("expectedFailure"));
    if !suite.passed || is_marked || markers.is_empty() {
        return Err(violated("the merged project does not pass its tests"));
    }
    Ok(StepResult {
        title: "Your repository",
        promise: "The races are gone, and their tests stay as ordinary tests",
        seen: format!(
            "`python3 -m unittest` passes: {}; test files: {}",
            suite.summary,
            tests.lines().count()
        ),
        facts: json!({"suite": suite.summary, "passed": suite.passed, "is_marked": is_marked}),
        shown: String::new(),
    })
}

fn hunts_live(demo: &Demo) -> Result<StepResult, CommandError> {
    let hunted = demo.hunt()?;
    let titles: Vec<String> = list(&hunted, "items")
        .iter()
        .map(|found| text(&found["item"]["title"]))
        .collect();
    Ok(StepResult {
        title: "Hunt with your model",
        promise: "A finding counts only if the commit contains its quoted code at the stated lines",
        seen: format!("{} accepted: {}", titles.len(), titles.join("; ")),
        facts: hunted,
        shown: String::new(),
    })
}

fn fixes_live(demo: &Demo) -> Result<StepResult, CommandError> {
    const MAX_ITEMS: usize = 3;
    let mut states = Vec::new();
    for (id, title, _) in demo.bugs()?.into_iter().take(MAX_ITEMS) {
        let result = demo.run_command(&["fix", &id, "--yes"])?;
        let state = text(&result.data["item"]["state"]);
        states.push(json!({"title": title, "state": state, "stopped": result.data["stopped"]}));
    }
    let suite = demo.suite()?;
    let shown: Vec<String> = states
        .iter()
        .map(|state| format!("{}: {}", text(&state["title"]), text(&state["state"])))
        .collect();
    Ok(StepResult {
        title: "Prove, fix, review and merge with your model",
        promise: "Nothing is merged without a failing test, passing gates and a review",
        seen: format!("{}; the suite now: {}", shown.join("; "), suite.summary),
        facts: json!({"items": states, "passed": suite.passed}),
        shown: String::new(),
    })
}
