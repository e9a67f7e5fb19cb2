//! Plans from creation to apply, without a model.

use cleveragents_testkit::Agents;
use serde_json::Value;

use super::agents;

/// An action with three steps of one call each.
const ACTION: &str = "name: local/write
description: Write three files
strategy_actor: builtin/deterministic
definition_of_done: |
  - write `one` to `one.txt`
  - write `two` to `two.txt`
  - write `three` to `three.txt`
";

/// A profile that asks before apply, and returns from apply to execution without asking when a precondition fails.
const BACK: &str = "name: local/back
extends: ci
select_tool: 1
";

/// A home with a project of one folder and an executed plan, and the id of the plan.
fn executed_plan() -> (Agents, String) {
    executed_plan_with(&[])
}

fn executed_plan_with(options: &[&str]) -> (Agents, String) {
    let agents = agents();
    std::fs::write(agents.cwd().join("back.yaml"), BACK).expect("written");
    agents.data(&["automation-profile", "add", "--config", "back.yaml"]);
    std::fs::create_dir(agents.cwd().join("code")).expect("a folder");
    std::fs::write(agents.cwd().join("write.yaml"), ACTION).expect("written");
    agents.data(&["resource", "add", "fs-directory", "code", "--path", "code"]);
    agents.data(&[
        "project",
        "create",
        "local/code",
        "--resource",
        "local/code",
    ]);
    agents.data(&["action", "create", "--config", "write.yaml"]);
    let created = [&["plan", "use", "local/write", "local/code"], options].concat();
    let created = agents.data(&created);
    let plan = created["plan_id"].as_str().expect("an id").to_owned();
    agents.data(&["plan", "execute", &plan]);
    (agents, plan)
}

/// Number of decisions in effect.
fn count_decisions(agents: &Agents, plan: &str) -> u64 {
    let tree = agents.data(&["plan", "tree", plan]);
    tree["summary"]["nodes"].as_u64().expect("a number")
}

fn paths(agents: &Agents, plan: &str) -> Vec<String> {
    let diff = agents.data(&["plan", "diff", plan]);
    let files = diff["files"].as_array().expect("files");
    let path = |file: &Value| file["path"].as_str().expect("a path").to_owned();
    files.iter().map(path).collect()
}

#[test]
fn defect_2489_a_rollback_covers_all_later_work_and_the_counts_are_correct() {
    let (agents, plan) = executed_plan();
    let (before, patch) = (
        count_decisions(&agents, &plan),
        agents.data(&["plan", "diff", &plan])["patch"].clone(),
    );
    let rollback = agents.data(&["plan", "rollback", &plan, "step/1/2", "--yes"]);
    assert_eq!(paths(&agents, &plan), ["one.txt"]);
    assert_eq!(rollback["impact"]["steps_after_cp"], 2);
    assert_eq!(rollback["impact"]["tool_calls_after_cp"], 2);
    let removed = rollback["impact"]["decisions_after_cp"].as_u64();
    // The rollback itself adds a decision.
    assert_eq!(
        count_decisions(&agents, &plan),
        before - removed.expect("a number") + 1
    );
    let status = agents.data(&["plan", "status", &plan]);
    assert_eq!(status["steps"]["done"], 1);
    // The plan shows its current state and continues from there.
    assert_eq!(rollback["post_rollback_state"]["phase"], status["phase"]);
    assert_eq!(rollback["post_rollback_state"]["state"], status["state"]);
    agents.data(&["plan", "execute", &plan]);
    assert_eq!(agents.data(&["plan", "diff", &plan])["patch"], patch);
}

#[test]
fn a_plan_that_passes_the_gate_returns_from_apply_and_validates_again() {
    let (agents, plan) = executed_plan_with(&["--automation-profile", "local/back"]);
    let check =
        "name: local/three\ndescription: The third file\ncommand: grep -q three three.txt\n";
    std::fs::write(agents.cwd().join("three.yaml"), check).expect("written");
    agents.data(&["validation", "add", "--config", "three.yaml"]);
    agents.data(&["validation", "attach", "local/code", "local/three"]);
    agents.run(&["plan", "apply", &plan, "--yes"]);
    let status = agents.data(&["plan", "status", &plan]);
    assert_eq!(
        (&status["phase"], &status["state"]),
        (&"execute".into(), &"awaiting_input".into())
    );
    assert!(!agents.cwd().join("code/one.txt").exists(), "{status}");
    // The validation has run in the meantime, so the plan can be applied.
    agents.data(&["plan", "apply", &plan, "--yes"]);
    let written = std::fs::read_to_string(agents.cwd().join("code/three.txt"));
    assert_eq!(written.expect("a file"), "three\n");
}

#[test]
fn defect_6045_a_required_validation_that_did_not_run_blocks_the_apply() {
    let (agents, plan) = executed_plan();
    let check =
        "name: local/three\ndescription: The third file\ncommand: grep -q three three.txt\n";
    std::fs::write(agents.cwd().join("three.yaml"), check).expect("written");
    agents.data(&["validation", "add", "--config", "three.yaml"]);
    agents.data(&["validation", "attach", "local/code", "local/three"]);
    let refused = agents.run(&["--format", "json", "plan", "apply", &plan, "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(refused.json()["data"]["error"]["code"], "CA-1147");
    assert!(!agents.cwd().join("code/one.txt").exists(), "{refused:?}");
    // After the validation passed, the plan can be applied.
    agents.data(&["plan", "execute", &plan]);
    agents.data(&["plan", "apply", &plan, "--yes"]);
    let written = std::fs::read_to_string(agents.cwd().join("code/three.txt"));
    assert_eq!(written.expect("a file"), "three\n");
}

/// Sends a signal to a process that the test started.
fn signal(name: &str, process: u32) {
    let sent = std::process::Command::new("kill")
        .args([format!("-{name}"), process.to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

/// A clock set ahead, or a suspended machine, lets a lease expire while its owner runs.
#[test]
fn a_live_process_keeps_its_plan_when_its_lease_expires_and_no_step_runs_twice() {
    const SLOW: &str = "name: local/slow
description: Write one file slowly
strategy_actor: builtin/deterministic
definition_of_done: |
  - run `echo begin >> log.txt; sleep 1; echo end >> log.txt`
";
    let agents = agents();
    std::fs::create_dir(agents.cwd().join("code")).expect("a folder");
    std::fs::write(agents.cwd().join("slow.yaml"), SLOW).expect("written");
    agents.data(&["resource", "add", "fs-directory", "code", "--path", "code"]);
    agents.data(&[
        "project",
        "create",
        "local/code",
        "--resource",
        "local/code",
    ]);
    agents.data(&["action", "create", "--config", "slow.yaml"]);
    let created = agents.data(&["plan", "use", "local/slow", "local/code"]);
    let plan = created["plan_id"].as_str().expect("an id").to_owned();
    let mut owner = agents
        .command(["plan", "execute", &plan])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let has_started = || {
        let files = std::process::Command::new("find")
            .arg(agents.home())
            .args(["-name", "log.txt", "-size", "+0"])
            .output();
        !files.expect("find runs").stdout.is_empty()
    };
    while !has_started() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    signal("STOP", owner.id());
    cleveragents_testkit::TestDatabase::write_file(
        &agents.database(),
        "UPDATE leases SET expires_at = 1",
    );

    let refused = agents.run(&["--format", "json", "plan", "execute", &plan]);

    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert_eq!(refused.json()["data"]["error"]["code"], "CA-1143");
    signal("CONT", owner.id());
    assert!(owner.wait().expect("the owner ends").success());
    let patch = agents.data(&["plan", "diff", &plan])["patch"].to_string();
    assert_eq!(patch.matches("+begin").count(), 1, "{patch}");
    assert_eq!(patch.matches("+end").count(), 1, "{patch}");
}
