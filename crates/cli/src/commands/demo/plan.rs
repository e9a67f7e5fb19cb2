//! Demo steps about a plan, from its strategy to its commit.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use cleveragents_store::{decisions, validations};
use serde_json::{Value, json};

use super::shop::{ACTION, CODE, PROJECT, read, run_tests, write};
use super::{Demo, StepResult, failure, text, violated};
use crate::commands::counted;
use crate::output::CommandError;

/// Edits that the demo makes in the user's folder, as a user would, before the plan is applied.
const USER_LINE: &str = "# Prices hold until the end of the year.\n";
const USER_FILE: &str = "todo.txt";
const USER_TEXT: &str = "call the printer\n";

impl Demo {
    /// Runs a command with the plan as its last argument.
    fn plan_command(&self, arguments: &[&str]) -> Result<Value, CommandError> {
        let plan = self.plan()?.to_string();
        self.agents(&[arguments, &[&plan]].concat())
    }

    /// Executes the plan and shows its progress. Returns the exit code and the progress lines.
    fn execute(&self) -> Result<(Option<i32>, Vec<String>), CommandError> {
        let mut child = self
            .program()?
            .args(["--format", "plain", "plan", "execute", "--stream"])
            .arg(self.plan()?.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failure("start a second process", &error))?;
        self.progress.label("Executing the plan");
        let progress = child.stderr.take();
        let progress =
            progress.ok_or_else(|| violated("the second process has no standard error"))?;
        let mut lines = Vec::new();
        for line in BufReader::new(progress).lines().map_while(Result::ok) {
            // Lines about the outcome are not shown: the demo reads the outcome from the database.
            if line.starts_with("error[") || line.starts_with("hint:") {
                continue;
            }
            self.progress.label(&line);
            lines.push(line);
        }
        let status = child
            .wait()
            .map_err(|error| failure("wait for a process", &error))?;
        Ok((status.code(), lines))
    }

    /// Validation results, oldest first: name, `true` if passed, message.
    fn validation_results(&self) -> Result<Vec<(String, bool, String)>, CommandError> {
        let plan = self.plan()?;
        let stored = self
            .engine
            .read(|reader| validations::results(reader, plan))?;
        Ok(stored
            .into_iter()
            .map(|entry| {
                let result = entry.result;
                (result.validation, result.passed, result.message)
            })
            .collect())
    }

    /// Path of the plan's sandbox copy of the shop.
    fn sandbox_folder(&self) -> Result<PathBuf, CommandError> {
        let status = self.plan_command(&["plan", "status"])?;
        let name = text(&status["execution"]["sandbox"]);
        let shown = self.agents(&["sandbox", "show", &name])?;
        let root = text(&shown["sandbox"]["parts"][0]["folder"]);
        if root.is_empty() {
            return Err(violated("the plan has no sandbox"));
        }
        Ok(PathBuf::from(root))
    }
}

pub(super) fn creates_a_strategy(demo: &Demo) -> Result<StepResult, CommandError> {
    let before = demo.fingerprint()?;
    let used = demo.agents(&["plan", "use", ACTION, PROJECT])?;
    let id = text(&used["plan_id"])
        .parse()
        .map_err(|_| violated("the plan has no id"))?;
    // Only this step sets the plan.
    let _is_set = demo.plan.set(id);
    let shown = demo.plan_command(&["plan", "show"])?;
    let steps: Vec<String> = shown["strategy"]["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|step| text(&step["title"]))
        .collect();
    let plan_decisions = demo.engine.read(|reader| decisions::of_plan(reader, id))?;
    let choice = plan_decisions
        .iter()
        .find(|decision| !decision.content.alternatives.is_empty())
        .ok_or_else(|| violated("no decision has alternatives"))?;
    let is_valid =
        text(&shown["phase"]) == "strategize" && !steps.is_empty() && demo.fingerprint()? == before;
    if !is_valid {
        return Err(violated("strategizing changed files or made no step"));
    }
    Ok(StepResult {
        title: "A plan works out a strategy first",
        promise: "With the default profile a plan waits for approval of its strategy; every decision has a reason",
        seen: format!(
            "{} created from the action; step 1: {}; {}, for example: \"{}\" {} (rejected: {}), because: {}",
            text(&shown["name"]),
            steps.join(", "),
            counted(plan_decisions.len(), "decision"),
            choice.content.question,
            choice.content.chosen,
            choice.content.alternatives.join(", "),
            choice.content.rationale
        ),
        facts: json!({
            "plan_id": id.to_string(), "steps": steps, "decisions": plan_decisions.len(),
            "waiting": used["waiting"]["gate"],
        }),
        shown: String::new(),
    })
}

pub(super) fn executes_and_validates(demo: &Demo) -> Result<StepResult, CommandError> {
    let before = demo.fingerprint()?;
    let (code, lines) = demo.execute()?;
    let verdicts = demo.validation_results()?;
    let [(name, false, message)] = verdicts.as_slice() else {
        return Err(violated(&format!("the validations found {verdicts:?}")));
    };
    let status = demo.plan_command(&["plan", "status"])?;
    let waiting = &status["waiting"]["request"]["gate"];
    if code != Some(5) || waiting != "create_file" || demo.fingerprint()? != before {
        return Err(violated("a plan continued although its validation failed"));
    }
    let test_run = run_tests(&demo.sandbox_folder()?)?;
    Ok(StepResult {
        title: "Executed and validated in a copy",
        promise: "Steps change only the copy; required validations run on it, and a failure stops the plan",
        seen: format!(
            "the step ran in the sandbox; `{name}` failed: {message}, with `{}`; your files are unchanged; the plan \
             asks before it fixes the code",
            test_run.last_line
        ),
        facts: json!({
            "exit_code": code, "validation": name, "passed": false, "message": message,
            "test_in_sandbox": test_run.last_line, "waiting": waiting,
            "cost_usd": status["cost"]["cost_so_far"], "progress": lines,
        }),
        shown: String::new(),
    })
}

pub(super) fn fixes_the_code(demo: &Demo) -> Result<StepResult, CommandError> {
    demo.plan_command(&["plan", "approve"])?;
    let (code, lines) = demo.execute()?;
    let verdicts = demo.validation_results()?;
    let passed: Vec<&str> = verdicts
        .iter()
        .filter(|(_, passed, _)| *passed)
        .map(|(name, _, _)| name.as_str())
        .collect();
    let test_run = run_tests(&demo.sandbox_folder()?)?;
    let status = demo.plan_command(&["plan", "status"])?;
    if code != Some(0) || !test_run.passed || passed.len() != 2 {
        return Err(violated(&format!(
            "the plan did not fix the code: {verdicts:?}"
        )));
    }
    Ok(StepResult {
        title: "You approve, the plan fixes the code",
        promise: "The model receives the failure; finished work is kept; all validations run again",
        seen: format!(
            "after `plan approve` and `plan execute` these pass: {}; the test in the sandbox prints `{}`; so far {} model \
             calls and ${:.4} at the prices of the script",
            passed.join("; "),
            test_run.last_line,
            status["cost"]["model_calls"],
            status["cost"]["cost_so_far"].as_f64().unwrap_or_default()
        ),
        facts: json!({
            "passed": passed, "results": verdicts.len(), "test_in_sandbox": test_run.last_line,
            "model_calls": status["cost"]["model_calls"], "progress": lines,
        }),
        shown: String::new(),
    })
}

pub(super) fn shows_the_diff(demo: &Demo) -> Result<StepResult, CommandError> {
    let diff = demo.plan_command(&["plan", "diff"])?;
    let summary = &diff["diff_summary"];
    let patch = text(&diff["patch"]);
    let code = demo.shop().join(CODE);
    if summary["files_changed"] != 1 || read(&code)? == read(&demo.sandbox_folder()?.join(CODE))? {
        return Err(violated("the diff does not match the files"));
    }
    Ok(StepResult {
        title: "You review the changes",
        promise: "The diff compares files; it does not rely on the model",
        seen: format!(
            "{} in the sandbox: +{} -{} lines; none in your folder yet",
            counted(1, "changed file"),
            summary["insertions"],
            summary["deletions"]
        ),
        facts: json!({
            "files_changed": summary["files_changed"], "insertions": summary["insertions"],
            "deletions": summary["deletions"], "patch": patch,
        }),
        shown: patch,
    })
}

pub(super) fn rolls_back_and_redoes(demo: &Demo) -> Result<StepResult, CommandError> {
    let id = demo.plan()?.to_string();
    let copy = demo.sandbox_folder()?.join(CODE);
    let fixed = read(&copy)?;
    let rollback = demo.agents(&["plan", "rollback", &id, "fix/1/1", "--yes"])?;
    let earlier = read(&copy)?;
    let earlier_run = run_tests(&demo.sandbox_folder()?)?;
    demo.plan_command(&["plan", "redo"])?;
    let is_exact = read(&copy)? == fixed && earlier != fixed && !earlier_run.passed;
    if !is_exact || !run_tests(&demo.sandbox_folder()?)?.passed {
        return Err(violated("a rollback or a redo is not exact"));
    }
    let (checkpoint, impact) = (
        &rollback["rollback_summary"]["checkpoint"],
        &rollback["impact"],
    );
    Ok(StepResult {
        title: "Roll back to any step, and redo",
        promise: "A rollback covers files, steps, decisions and calls; redo restores every byte",
        seen: format!(
            "rolled back to {} (before the fix): {} undone, the test fails again; after redo the file is identical \
             and the test passes",
            text(checkpoint),
            [
                ("steps_after_cp", "step"),
                ("decisions_after_cp", "decision"),
                ("tool_calls_after_cp", "call")
            ]
            .map(|(key, word)| {
                let count = impact[key].as_u64().unwrap_or_default();
                counted(usize::try_from(count).unwrap_or_default(), word)
            })
            .join(", "),
        ),
        facts: json!({
            "checkpoint": checkpoint, "files": rollback["changes_reverted"], "impact": impact,
            "test_when_back": earlier_run.last_line, "is_exact": is_exact,
        }),
        shown: String::new(),
    })
}

pub(super) fn applies_next_to_user_changes(demo: &Demo) -> Result<StepResult, CommandError> {
    let (shop, id) = (demo.shop(), demo.plan()?.to_string());
    let code = shop.join(CODE);
    let apply = ["plan", "apply", &id, "--yes"];
    // Simulates a user who keeps working: edits the file that the plan changed, and creates a new one.
    write(&code, &format!("{}{USER_LINE}", read(&code)?))?;
    write(&shop.join(USER_FILE), USER_TEXT)?;
    let before = demo.fingerprint()?;
    let refused = demo.run_command(&apply)?;
    if refused.code != Some(4) || demo.fingerprint()? != before {
        return Err(violated("an uncommitted edit was overwritten"));
    }
    demo.git(&["commit", "-qm", "Say how long prices hold", CODE])?;
    let applied = demo.agents(&apply)?;
    let after = read(&code)?;
    let test_run = run_tests(&shop)?;
    let status = demo.git(&["status", "--porcelain"])?;
    let is_merged =
        test_run.passed && after.ends_with(USER_LINE) && status == format!("?? {USER_FILE}");
    if !is_merged || read(&shop.join(USER_FILE))? != USER_TEXT {
        return Err(violated("an apply did not keep the user's edits"));
    }
    let log = demo.git(&["log", "--format=%s"])?;
    let commits: Vec<&str> = log.lines().collect();
    Ok(StepResult {
        title: "Applied next to your own changes",
        promise: "The apply is atomic: it merges your edits or refuses, and never loses them",
        seen: format!(
            "you edited {CODE} too: with the edit uncommitted, the apply was refused ({}) and changed nothing; after a commit both \
             edits are in the file, your {USER_FILE} is unchanged, the test passes; newest commit: \"{}\"",
            text(&refused.data["error"]["code"]),
            commits.first().copied().unwrap_or_default()
        ),
        facts: json!({
            "refused_with": refused.data["error"]["code"], "artifacts": applied["artifacts"],
            "changes": applied["changes"],
            "state": applied["lifecycle"]["state"], "commits": commits, "status": status,
            "test": test_run.last_line,
        }),
        shown: String::new(),
    })
}

pub(super) fn logs_every_event(demo: &Demo) -> Result<StepResult, CommandError> {
    let log = demo.plan_command(&["plan", "log"])?;
    let events: Vec<&Value> = log["events"].as_array().into_iter().flatten().collect();
    let stages: Vec<String> = events
        .iter()
        .filter_map(|event| event["detail"].as_str()?.split_once(" → "))
        .map(|(_, reached)| reached.split(':').next().unwrap_or(reached).to_owned())
        .collect();
    let is_complete = stages.last().is_some_and(|last| last == "apply/applied");
    if !is_complete {
        return Err(violated(&format!(
            "the log does not end with apply/applied: {stages:?}"
        )));
    }
    let decision_events = events.iter().filter(|event| event["what"] == "decided");
    Ok(StepResult {
        title: "The log has every event",
        promise: "Every transition is stored in one transaction with its changes; `agents plan log` shows them",
        seen: format!(
            "{} events, {} of them decisions; last stage: {}",
            events.len(),
            decision_events.clone().count(),
            stages.last().map_or("", String::as_str)
        ),
        facts: json!({"events": events.len(), "decisions": decision_events.count(), "stages": stages}),
        shown: String::new(),
    })
}
