//! The stops about a plan, from its strategy to the commit it ends in.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Stdio;

use cleveragents_store::{decisions, validations};
use serde_json::{Value, json};

use super::shop::{ACTION, CODE, PROJECT, read, tested, write};
use super::{Stop, Tour, broken, failure, text};
use crate::commands::counted;
use crate::output::{CommandError, visible_lines};

/// What the user writes while the plan is at work.
const OWN_LINE: &str = "# Prices hold until the end of the year.\n";
const OWN_FILE: &str = "todo.txt";
const OWN_TEXT: &str = "call the printer\n";

impl Tour {
    /// Runs a command with the plan behind it.
    fn of_plan(&self, arguments: &[&str]) -> Result<Value, CommandError> {
        let plan = self.plan()?.to_string();
        self.agents(&[arguments, &[&plan]].concat())
    }

    /// Shows a line at once, where somebody looks.
    fn tell(&self, line: &str) {
        if self.printer.shows_progress() {
            self.progress.suspend(|| {
                // Whoever closed the pipe does not want to see it.
                let _closed = writeln!(std::io::stderr(), "{}", visible_lines(line));
            });
        }
    }

    /// Drives the plan, telling what happens as it happens; gives the exit code and the lines.
    fn execute(&self) -> Result<(Option<i32>, Vec<String>), CommandError> {
        let mut child = self
            .program()?
            .args(["--format", "plain", "plan", "execute", "--stream"])
            .arg(self.plan()?.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failure("start a second process", &error))?;
        self.tell(&format!("$ agents plan execute {} --stream", self.plan()?));
        let told = child.stderr.take();
        let told = told.ok_or_else(|| broken("the second process tells nothing"))?;
        let mut lines = Vec::new();
        for line in BufReader::new(told).lines().map_while(Result::ok) {
            // The end of the command is told below, from what is stored.
            if line.starts_with("error[") || line.starts_with("hint:") {
                continue;
            }
            self.tell(&line);
            lines.push(line);
        }
        let ended = child
            .wait()
            .map_err(|error| failure("wait for a process", &error))?;
        Ok((ended.code(), lines))
    }

    /// What validations found, oldest first: the name, whether it passed, the message.
    fn verdicts(&self) -> Result<Vec<(String, bool, String)>, CommandError> {
        let plan = self.plan()?;
        let stored = self
            .engine
            .read(|reader| validations::results(reader, plan))?;
        Ok(stored
            .into_iter()
            .map(|one| (one.result.validation, one.result.passed, one.result.message))
            .collect())
    }

    /// The copy of the shop that the plan works in.
    fn copy(&self) -> Result<PathBuf, CommandError> {
        let status = self.of_plan(&["plan", "status"])?;
        let name = text(&status["execution"]["sandbox"]);
        let shown = self.agents(&["sandbox", "show", &name])?;
        let root = text(&shown["sandbox"]["parts"][0]["folder"]);
        if root.is_empty() {
            return Err(broken("the plan has no sandbox"));
        }
        Ok(PathBuf::from(root))
    }
}

pub(super) fn is_thought_out(tour: &Tour) -> Result<Stop, CommandError> {
    let before = tour.fingerprint()?;
    let used = tour.agents(&["plan", "use", ACTION, PROJECT])?;
    let id = text(&used["plan_id"])
        .parse()
        .map_err(|_| broken("the plan has no id"))?;
    // Only one stop makes the plan.
    let _known = tour.plan.set(id);
    let shown = tour.of_plan(&["plan", "show"])?;
    let steps: Vec<String> = shown["strategy"]["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|step| text(&step["title"]))
        .collect();
    let decided = tour.engine.read(|reader| decisions::of_plan(reader, id))?;
    let choice = decided
        .iter()
        .find(|decision| !decision.said.alternatives.is_empty())
        .ok_or_else(|| broken("no decision says what else was thought of"))?;
    let is_right =
        text(&shown["phase"]) == "strategize" && !steps.is_empty() && tour.fingerprint()? == before;
    if !is_right {
        return Err(broken("a strategy did more than think, or nothing"));
    }
    Ok(Stop {
        title: "A plan is thought out before it is carried out",
        promise: "With the usual profile a plan stops after its strategy, and every decision says why",
        seen: format!(
            "{} from the action; step 1: {}; {}, one of them: \"{}\" {} (not: {}), because: {}",
            text(&shown["name"]),
            steps.join(", "),
            counted(decided.len(), "decision"),
            choice.said.question,
            choice.said.chosen,
            choice.said.alternatives.join(", "),
            choice.said.rationale
        ),
        facts: json!({
            "plan_id": id.to_string(), "steps": steps, "decisions": decided.len(),
            "waiting": used["waiting"]["gate"],
        }),
        shown: String::new(),
    })
}

pub(super) fn is_carried_out_and_judged(tour: &Tour) -> Result<Stop, CommandError> {
    let before = tour.fingerprint()?;
    let (code, lines) = tour.execute()?;
    let verdicts = tour.verdicts()?;
    let [(name, false, message)] = verdicts.as_slice() else {
        return Err(broken(&format!("the validations found {verdicts:?}")));
    };
    let status = tour.of_plan(&["plan", "status"])?;
    let waiting = &status["waiting"]["request"]["gate"];
    if code != Some(5) || waiting != "create_file" || tour.fingerprint()? != before {
        return Err(broken("a plan went on although its validation failed"));
    }
    let found = tested(&tour.copy()?)?;
    Ok(Stop {
        title: "It is carried out in a copy, and judged",
        promise: "Steps change the copy only; what is required is checked by running it, and a failure stops the plan",
        seen: format!(
            "the step is done in the sandbox; `{name}` failed: {message}, with `{}`; your files are as they were; the plan \
             asks before it mends it",
            found.last_line
        ),
        facts: json!({
            "exit_code": code, "validation": name, "passed": false, "message": message,
            "test_in_sandbox": found.last_line, "waiting": waiting,
            "cost_usd": status["cost"]["cost_so_far"], "progress": lines,
        }),
        shown: String::new(),
    })
}

pub(super) fn is_mended(tour: &Tour) -> Result<Stop, CommandError> {
    tour.of_plan(&["plan", "approve"])?;
    let (code, lines) = tour.execute()?;
    let verdicts = tour.verdicts()?;
    let passed: Vec<&str> = verdicts
        .iter()
        .filter(|(_, passed, _)| *passed)
        .map(|(name, _, _)| name.as_str())
        .collect();
    let found = tested(&tour.copy()?)?;
    let status = tour.of_plan(&["plan", "status"])?;
    if code != Some(0) || !found.passed || passed.len() != 2 {
        return Err(broken(&format!("it was not mended: {verdicts:?}")));
    }
    Ok(Stop {
        title: "You approve, and it is mended",
        promise: "The model is told what failed; what was done is kept; everything is judged again",
        seen: format!(
            "after `plan approve` and `plan execute` these hold: {}; the test in the sandbox ends with `{}`; so far {} model \
             calls and ${:.4} at the prices of the script",
            passed.join("; "),
            found.last_line,
            status["cost"]["model_calls"],
            status["cost"]["cost_so_far"].as_f64().unwrap_or_default()
        ),
        facts: json!({
            "passed": passed, "results": verdicts.len(), "test_in_sandbox": found.last_line,
            "model_calls": status["cost"]["model_calls"], "progress": lines,
        }),
        shown: String::new(),
    })
}

pub(super) fn is_looked_at(tour: &Tour) -> Result<Stop, CommandError> {
    let diff = tour.of_plan(&["plan", "diff"])?;
    let summary = &diff["diff_summary"];
    let patch = text(&diff["patch"]);
    let code = tour.shop().join(CODE);
    if summary["files_changed"] != 1 || read(&code)? == read(&tour.copy()?.join(CODE))? {
        return Err(broken("the diff is not what the copy differs by"));
    }
    Ok(Stop {
        title: "You look at what would change",
        promise: "The diff is found by looking at the copy, not by believing the model",
        seen: format!(
            "{} in the sandbox: +{} -{} lines; in your folder none yet",
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

pub(super) fn is_taken_back_and_forward(tour: &Tour) -> Result<Stop, CommandError> {
    let id = tour.plan()?.to_string();
    let copy = tour.copy()?.join(CODE);
    let mended = read(&copy)?;
    let back = tour.agents(&["plan", "rollback", &id, "fix/1/1", "--yes"])?;
    let earlier = read(&copy)?;
    let was = tested(&tour.copy()?)?;
    tour.of_plan(&["plan", "redo"])?;
    let is_exact = read(&copy)? == mended && earlier != mended && !was.passed;
    if !is_exact || !tested(&tour.copy()?)?.passed {
        return Err(broken("a rollback or a redo is not exact"));
    }
    let (checkpoint, impact) = (&back["rollback_summary"]["checkpoint"], &back["impact"]);
    Ok(Stop {
        title: "Back to any step, and forward again",
        promise: "Files, steps, decisions and calls go back together; redo brings back every byte",
        seen: format!(
            "back to {} (before it was mended): {} undone, and the test failed again; forward again: the file is the same \
             byte by byte and the test passes",
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
            "checkpoint": checkpoint, "files": back["changes_reverted"], "impact": impact,
            "test_when_back": was.last_line, "is_exact": is_exact,
        }),
        shown: String::new(),
    })
}

pub(super) fn is_applied_beside_other_work(tour: &Tour) -> Result<Stop, CommandError> {
    let (shop, id) = (tour.shop(), tour.plan()?.to_string());
    let code = shop.join(CODE);
    let apply = ["plan", "apply", &id, "--yes"];
    // The user goes on working: in the same file, and in a new one.
    write(&code, &format!("{}{OWN_LINE}", read(&code)?))?;
    write(&shop.join(OWN_FILE), OWN_TEXT)?;
    let before = tour.fingerprint()?;
    let refused = tour.ask(&apply)?;
    if refused.code != Some(4) || tour.fingerprint()? != before {
        return Err(broken("an edit that is not committed was overwritten"));
    }
    tour.git(&["commit", "-qm", "Say how long prices hold", CODE])?;
    let applied = tour.agents(&apply)?;
    let after = read(&code)?;
    let found = tested(&shop)?;
    let status = tour.git(&["status", "--porcelain"])?;
    let is_merged = found.passed && after.ends_with(OWN_LINE) && status == format!("?? {OWN_FILE}");
    if !is_merged || read(&shop.join(OWN_FILE))? != OWN_TEXT {
        return Err(broken("an apply did not keep what you did meanwhile"));
    }
    let log = tour.git(&["log", "--format=%s"])?;
    let commits: Vec<&str> = log.lines().collect();
    Ok(Stop {
        title: "Applied beside your own work",
        promise: "All of it or nothing: what you did meanwhile is merged or in the way, never lost",
        seen: format!(
            "you edited {CODE} too: while that was not committed the apply was refused ({}) and touched nothing; once it was, both \
             are in the file, your {OWN_FILE} is untouched, the test passes; newest commit: \"{}\"",
            text(&refused.data["error"]["code"]),
            commits.first().copied().unwrap_or_default()
        ),
        facts: json!({
            "refused_with": refused.data["error"]["code"], "artifacts": applied["artifacts"],
            "changes": applied["changes"],
            "state": applied["lifecycle"]["state"], "commits": commits, "status": status,
            "test": found.last_line,
        }),
        shown: String::new(),
    })
}

pub(super) fn is_told_in_order(tour: &Tour) -> Result<Stop, CommandError> {
    let log = tour.of_plan(&["plan", "log"])?;
    let events: Vec<&Value> = log["events"].as_array().into_iter().flatten().collect();
    let stages: Vec<String> = events
        .iter()
        .filter_map(|event| event["detail"].as_str()?.split_once(" → "))
        .map(|(_, reached)| reached.split(':').next().unwrap_or(reached).to_owned())
        .collect();
    let is_whole = stages.last().is_some_and(|last| last == "apply/applied");
    if !is_whole {
        return Err(broken(&format!("the log does not end well: {stages:?}")));
    }
    let decided = events.iter().filter(|event| event["what"] == "decided");
    Ok(Stop {
        title: "The log tells all of it",
        promise: "Every move is written with what made it true, in one commit; `agents plan log` reads it",
        seen: format!(
            "{} events, {} of them decisions; the plan went {}",
            events.len(),
            decided.clone().count(),
            stages.join(" → ")
        ),
        facts: json!({"events": events.len(), "decisions": decided.count(), "stages": stages}),
        shown: String::new(),
    })
}
