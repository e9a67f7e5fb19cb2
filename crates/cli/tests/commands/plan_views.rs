//! Commands that show plans. The plans are created directly in the database.

use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::{
    AutomationGate, DecisionId, DecisionType, GateAction, NewDecision, PlanId, StageTransition,
    Waiting,
};
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options, plans as stored};
use cleveragents_testkit::plans::{
    Decisions, SET_USAGE, advance, decide, decision, execute_first_step, fail, new_plan, store,
    store_example_strategy, wait_for, write,
};
use cleveragents_testkit::{Agents, TestDatabase};
use serde_json::{Value, json};

use super::{agents, assert_shown, shown, transcript};

fn engine(agents: &Agents) -> Arc<Engine> {
    // The program creates its home first.
    agents.data(&["plan", "list"]);
    let url = DatabaseUrl::file(&agents.database(), Path::new("/"));
    let cache = EngineCache::new(Options::default());
    cache.open(&url).expect("the database of the home")
}

/// Adds a plan with a strategy.
fn add_strategized_plan(agents: &Agents) -> (Arc<Engine>, PlanId, Decisions) {
    let engine = engine(agents);
    let plan = store(&engine, &new_plan("fix-tests-1"));
    let decisions = store_example_strategy(&engine, plan);
    TestDatabase::write_file(&agents.database(), SET_USAGE);
    (engine, plan, decisions)
}

/// Makes durations reproducible: moves the start of all plans to the far future, so that no time
/// has elapsed, and sets fixed times for their steps.
fn fix_times(agents: &Agents) {
    TestDatabase::write_file(
        &agents.database(),
        "UPDATE plans SET started_at = 4102444800000000 WHERE started_at IS NOT NULL;
         UPDATE plan_steps SET started_at = 1000000, finished_at = CASE WHEN finished_at IS NULL THEN NULL ELSE 4000000 END",
    );
}

fn add_errored_plan(agents: &Agents) {
    let (engine, plan, _) = add_strategized_plan(agents);
    execute_first_step(&engine, plan);
    let error = json!({
        "message": "the tests fail", "tool": "builtin/shell", "step": "2 of 2",
        "checkpoint": "cp_2", "is_retriable": true, "error_category": "VALIDATION",
    });
    fail(&engine, plan, StageTransition::FailExecute, &error);
    fix_times(agents);
}

fn add_waiting_plan(agents: &Agents) {
    let (engine, plan, _) = add_strategized_plan(agents);
    let gate = Waiting::Gate {
        gate: AutomationGate::StartExecution,
        opens: GateAction::Execute,
        confidence: serde_json::from_value(json!({"score": 0.61, "factors": [
            {"name": "past_success_rate", "value": 0.5, "weight": 0.4, "explanation": "1 of 2 plans were applied"},
        ]})).expect("a confidence"),
        threshold: 1.0,
    };
    wait_for(&engine, plan, gate);
    fix_times(agents);
}

fn add_applied_plan(agents: &Agents) {
    let (engine, plan, _) = add_strategized_plan(agents);
    execute_first_step(&engine, plan);
    advance(
        &engine,
        plan,
        &[
            StageTransition::CompleteExecute,
            StageTransition::QueueApply,
            StageTransition::StartApply,
        ],
    );
    write(&engine, move |unit| {
        let details = stored::TransitionDetails {
            report: Some(json!({"artifacts": 2, "commit": "done"})),
            ..stored::TransitionDetails::default()
        };
        stored::advance(unit, plan, StageTransition::CompleteApply, &details)
    });
    fix_times(agents);
    TestDatabase::write_file(
        &agents.database(),
        "UPDATE plans SET completed_at = 4102444860000000",
    );
}

#[test]
fn plan_list() {
    assert_shown("plan_list", &shown(add_errored_plan, &["plan", "list"]));
    let filtered = [
        "plan",
        "list",
        "--state",
        "applied",
        "--project",
        "local/shop",
    ];
    assert_shown("plan_list_of_none", &shown(add_errored_plan, &filtered));
}

#[test]
fn plan_show() {
    let prepare = |agents: &Agents| {
        add_strategized_plan(agents);
    };
    assert_shown(
        "plan_show",
        &shown(prepare, &["plan", "show", "fix-tests-1"]),
    );
    let agents = agents();
    let (engine, plan, _) = add_strategized_plan(&agents);
    let strategy = engine
        .read(|reader| stored::get(reader, plan))
        .expect("a plan")
        .and_then(|plan| plan.strategy)
        .expect("a strategy");
    let show = ["plan", "show", "fix-tests-1", "--as"];
    let markdown = agents.run(&[&show[..], &["markdown"]].concat());
    assert_eq!(markdown.out, strategy.to_markdown());
    let json = agents.run(&[&show[..], &["json"]].concat());
    assert_eq!(json.json(), serde_json::to_value(&strategy).expect("JSON"));
    let bare = store(&engine, &new_plan("bare"));
    let answer = agents.run(&["plan", "show", &bare.to_string(), "--as", "markdown"]);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(answer.err.contains("CA-1142"), "{answer:?}");
}

#[test]
fn plan_status() {
    let status = ["plan", "status"];
    assert_shown("plan_status_waiting", &shown(add_waiting_plan, &status));
    assert_shown("plan_status_errored", &shown(add_errored_plan, &status));
    assert_shown("plan_status_applied", &shown(add_applied_plan, &status));
    let agents = agents();
    add_waiting_plan(&agents);
    let arguments = ["--format", "rich", "plan", "status"];
    let answer = agents.run(&arguments);
    assert_shown(
        "plan_status_rich",
        &transcript(&agents, &arguments, &answer),
    );
}

#[test]
fn an_errored_plan_is_an_error_with_its_own_facts() {
    let agents = agents();
    add_errored_plan(&agents);
    let answer = agents.run(&["--format", "json", "plan", "status"]);
    assert_eq!(answer.code, Some(1));
    let envelope = answer.json();
    assert_eq!(envelope["status"], "error");
    let error = &envelope["data"]["error"];
    assert_eq!(error["code"], "CA-1145");
    for (key, value) in [
        ("message", json!("the tests fail")),
        ("tool", json!("builtin/shell")),
        ("step", json!("2 of 2")),
        ("checkpoint", json!("cp_2")),
        ("recoverable", json!(true)),
    ] {
        assert_eq!(error[key], value, "{key}");
    }
}

/// Masks short ids, whose length depends on the other ids.
fn without_ids(text: &str) -> String {
    let is_id_letter = |letter: char| letter.is_ascii_digit() || letter.is_ascii_uppercase();
    let mut shown = String::new();
    let mut remaining = text;
    while let Some(start) = remaining.find("01") {
        let (before, from) = remaining.split_at(start);
        let end = from
            .find(|letter| !is_id_letter(letter))
            .unwrap_or(from.len());
        shown.push_str(before);
        shown.push_str(if end >= 8 { "[id]" } else { &from[..end] });
        remaining = &from[end..];
    }
    shown + remaining
}

#[test]
fn plan_tree() {
    let prepare = |agents: &Agents| {
        add_strategized_plan(agents);
    };
    let tree = ["plan", "tree", "--show-superseded"];
    assert_shown("plan_tree", &without_ids(&shown(prepare, &tree)));
    let agents = agents();
    add_strategized_plan(&agents);
    for (format, name) in [("rich", "plan_tree_rich"), ("color", "plan_tree_color")] {
        let arguments = ["--format", format, "plan", "tree"];
        let text = transcript(&agents, &arguments, &agents.run(&arguments));
        assert_shown(name, &without_ids(&text).replace('\u{1b}', "␛"));
    }
    for drawing in ["mermaid", "dot"] {
        let arguments = ["plan", "tree", "--as", drawing];
        let answer = agents.run(&arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_shown(
            &format!("plan_tree_{drawing}"),
            &transcript(&agents, &arguments, &answer),
        );
    }
    let written = agents.data(&["plan", "tree", "--as", "svg", "--output", "tree.svg"]);
    let picture = std::fs::read_to_string(agents.cwd().join("tree.svg")).expect("a picture");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert_eq!(written["bytes"], picture.len());
    let shallow = agents.data(&["plan", "tree", "--depth", "1"]);
    assert_eq!(shallow["tree"]["children"], json!([]));
    assert_eq!(shallow["tree"]["children_left_out"], 3);
    assert_eq!(shallow["summary"]["nodes"], 4);
}

/// Adds a chain of `length` decisions, each the child of the previous decision.
fn chain(agents: &Agents, length: usize) -> Vec<DecisionId> {
    let engine = engine(agents);
    let plan = store(&engine, &new_plan("deep"));
    let mut chained: Vec<NewDecision> = Vec::new();
    for number in 0..length {
        let kind = if number == 0 {
            DecisionType::PromptDefinition
        } else {
            DecisionType::StrategyChoice
        };
        let parent = chained.last().map(|previous| previous.id);
        chained.push(decision(kind, parent, &format!("d{number}")));
    }
    decide(&engine, plan, &chained);
    chained.iter().map(|decision| decision.id).collect()
}

#[test]
fn a_deep_chain_is_drawn_completely_in_every_format() {
    const LENGTH: usize = 3_000;
    let agents = agents();
    let ids = chain(&agents, LENGTH);
    for format in ["rich", "plain", "table"] {
        let answer = agents.run(&["--format", format, "plan", "tree"]);
        assert_eq!(answer.code, Some(0), "{format}");
        assert!(answer.out.contains("d2999"), "{format}");
        let longest = answer.out.lines().map(|line| line.chars().count()).max();
        assert!(longest.is_some_and(|longest| longest < 200), "{format}");
    }
    // The JSON contains every decision exactly once.
    let data = agents.data(&["plan", "tree"]);
    let mut listed = Vec::new();
    let mut pending = vec![&data["tree"]];
    while let Some(node) = pending.pop() {
        listed.push(node["id"].as_str().expect("an id").to_owned());
        pending.extend(node["children"].as_array().into_iter().flatten());
    }
    let deeper = data["deeper"].as_array().expect("the deeper decisions");
    listed.extend(
        deeper
            .iter()
            .map(|node| node["id"].as_str().expect("an id").to_owned()),
    );
    let expected: Vec<String> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(listed, expected);
    for drawing in ["svg", "mermaid", "dot"] {
        let answer = agents.run(&["plan", "tree", "--as", drawing]);
        assert_eq!(answer.code, Some(0), "{drawing}");
        assert!(answer.out.contains("d2999"), "{drawing}");
    }
}

#[test]
fn plan_explain() {
    let agents = agents();
    let (_, plan, decisions) = add_strategized_plan(&agents);
    for format in ["plain", "json"] {
        let id = decisions.strategy.to_string();
        let arguments = [
            "--format",
            format,
            "plan",
            "explain",
            &id,
            "--show-context",
            "--show-reasoning",
        ];
        let text = transcript(&agents, &arguments, &agents.run(&arguments));
        assert_shown(&format!("plan_explain_{format}"), &text);
    }
    let root = agents.data(&["plan", "explain", &plan.to_string()]);
    assert_eq!(root["decision_id"], decisions.root.to_string());
    assert!(
        root.get("reasoning").is_none(),
        "reasoning is shown only on request"
    );
    let answer = agents.run(&["plan", "explain", "01ZZZZZZZZ"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.err.contains("CA-1150"), "{answer:?}");
}

/// Adds a plan with a sandbox in which one file is changed, one is created and one is removed.
fn add_plan_with_changes(agents: &Agents) -> (Arc<Engine>, PlanId) {
    let folder = agents.cwd().join("src");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("sum.py"), "def add(a, b):\n    return a - b\n").expect("a file");
    std::fs::write(folder.join("old.py"), "gone = 1\n").expect("a file");
    agents.data(&["sandbox", "create", "box", "--path", "src"]);
    let script = "printf 'def add(a, b):\\n    return a + b\\n' > sum.py; rm old.py; mkdir tests; echo 'assert 1' > tests/test_sum.py";
    let exec = agents.run(&["sandbox", "exec", "box", "--", "sh", "-c", script]);
    assert_eq!(exec.code, Some(0), "{exec:?}");
    let (engine, plan, _) = add_strategized_plan(agents);
    write(&engine, move |unit| stored::set_sandbox(unit, plan, "box"));
    (engine, plan)
}

#[test]
fn plan_diff_and_artifacts() {
    let prepare = |agents: &Agents| {
        add_plan_with_changes(agents);
    };
    assert_shown("plan_diff", &shown(prepare, &["plan", "diff"]));
    assert_shown(
        "plan_diff_stat",
        &shown(prepare, &["plan", "diff", "--stat"]),
    );
    assert_shown("plan_artifacts", &shown(prepare, &["plan", "artifacts"]));
    let agents = agents();
    add_plan_with_changes(&agents);
    let arguments = ["--format", "rich", "plan", "diff"];
    let text = transcript(&agents, &arguments, &agents.run(&arguments));
    assert_shown("plan_diff_rich", &text);
}

#[test]
fn defect_9231_the_diff_equals_the_applied_changes() {
    let agents = agents();
    let (_, plan) = add_plan_with_changes(&agents);
    let before = agents.data(&["plan", "artifacts", &plan.to_string()]);
    let patch = agents.run(&["--format", "plain", "plan", "diff", &plan.to_string()]);
    let copy = agents.cwd().join("copy");
    std::fs::create_dir(&copy).expect("a folder");
    for name in ["sum.py", "old.py"] {
        std::fs::copy(agents.cwd().join("src").join(name), copy.join(name)).expect("copied");
    }
    std::fs::write(agents.cwd().join("p.patch"), &patch.out).expect("a file");
    let git_apply = std::process::Command::new("git")
        .args(["apply", "../p.patch"])
        .env("GIT_CEILING_DIRECTORIES", agents.cwd())
        .current_dir(&copy)
        .output()
        .expect("git runs");
    assert!(git_apply.status.success(), "{git_apply:?}\n{}", patch.out);
    agents.data(&["sandbox", "apply", "box"]);
    let files_below = |folder: &Path| -> std::collections::BTreeMap<String, Vec<u8>> {
        let prefix = folder.display().to_string();
        super::files(folder)
            .into_iter()
            .map(|(path, bytes)| (path.replace(&prefix, ""), bytes))
            .collect()
    };
    assert_eq!(files_below(&copy), files_below(&agents.cwd().join("src")));
    // After the apply, the paths are still shown, but not the changed lines.
    let after = agents.data(&["plan", "artifacts", &plan.to_string()]);
    let paths = |data: &Value| -> Vec<Value> {
        let artifacts = data["artifacts"].as_array().expect("artifacts");
        artifacts
            .iter()
            .map(|artifact| artifact["path"].clone())
            .collect()
    };
    assert_eq!(paths(&before), paths(&after));
    assert_eq!(agents.data(&["plan", "diff"])["patch"], Value::Null);
}

#[test]
fn a_sandbox_in_use_can_still_be_shown() {
    let agents = agents();
    let (engine, _) = add_plan_with_changes(&agents);
    let sandboxes =
        cleveragents_application::SandboxService::new(engine, agents.home().join("sandboxes"));
    let handle = sandboxes.open("box").expect("held by this process");
    let data = agents.data(&["plan", "diff"]);
    assert_eq!(data["is_moving"], true);
    assert_eq!(data["diff_summary"]["files_changed"], 3);
    assert_eq!(data["diff_summary"]["insertions"], 2);
    assert_eq!(
        agents.data(&["plan", "status"])["execution"]["files_modified"],
        3
    );
    drop(handle);
    assert_eq!(agents.data(&["plan", "diff"])["is_moving"], false);
}

#[test]
fn plan_errors_and_guard() {
    assert_shown("plan_errors", &shown(add_errored_plan, &["plan", "errors"]));
    assert_shown("plan_guard", &shown(add_errored_plan, &["plan", "guard"]));
}

#[test]
fn plan_log() {
    assert_shown(
        "plan_log",
        &shown(add_waiting_plan, &["plan", "log", "--limit", "4"]),
    );
    let agents = agents();
    add_applied_plan(&agents);
    // The plan has finished, so following its log ends.
    let log = agents.data(&["plan", "log"]);
    let follow = ["plan", "log", "--follow", "--limit", "2"];
    let answer = agents.run(&[&["--format", "json"], &follow[..]].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let lines: Vec<Value> = answer
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a document on each line"))
        .collect();
    let events = log["events"].as_array().expect("events");
    assert_eq!(lines, events[events.len() - 2..]);
    let answer = agents.run(&[&["--format", "yaml"], &follow[..]].concat());
    assert_eq!(answer.code, Some(2), "{answer:?}");
}

#[test]
fn following_a_log_ends_with_the_plan() {
    let agents = agents();
    let (engine, plan, _) = add_strategized_plan(&agents);
    let follower = agents
        .command(["plan", "log", "--follow", "--limit", "1"])
        .spawn()
        .expect("the program starts");
    advance(
        &engine,
        plan,
        &[StageTransition::QueueExecute, StageTransition::Cancel],
    );
    let output = follower.wait_with_output().expect("the follower ends");
    let answer = cleveragents_testkit::Answer::from_output(&output);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let last = answer.out.lines().last().expect("a line");
    assert!(last.contains("cancelled"), "{answer:?}");
}

#[test]
fn waiting_for_a_plan_reports_its_state() {
    let wait = |prepare: &dyn Fn(&Agents)| {
        let agents = agents();
        prepare(&agents);
        agents.run(&["plan", "wait", "fix-tests-1", "--timeout", "600"])
    };
    let answer = wait(&add_waiting_plan);
    assert_eq!(answer.code, Some(5), "{answer:?}");
    assert!(answer.err.contains("CA-1144") && answer.err.contains("plan approve"));
    let answer = wait(&add_errored_plan);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.err.contains("CA-1145"), "{answer:?}");
    assert_eq!(wait(&add_applied_plan).code, Some(0));
    let answer = wait(&|agents| {
        let (engine, plan, _) = add_strategized_plan(agents);
        advance(&engine, plan, &[StageTransition::Cancel]);
    });
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.err.contains("CA-1152"), "{answer:?}");
    // No process runs this plan.
    let agents = agents();
    add_strategized_plan(&agents);
    let answer = agents.run(&["plan", "wait", "fix-tests-1", "--timeout", "0"]);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(answer.err.contains("no process runs plan"), "{answer:?}");
}

#[test]
fn waiting_continues_until_the_plan_stops() {
    let agents = agents();
    let (engine, plan, _) = add_strategized_plan(&agents);
    let mut waiter = agents
        .command(["plan", "wait", "fix-tests-1"])
        .spawn()
        .expect("the program starts");
    advance(
        &engine,
        plan,
        &[StageTransition::QueueExecute, StageTransition::StartExecute],
    );
    assert!(
        waiter.try_wait().expect("a process status").is_none(),
        "the command still waits"
    );
    advance(&engine, plan, &[StageTransition::Cancel]);
    let output = waiter.wait_with_output().expect("the command ends");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn plan_checkpoints() {
    let prepare = |agents: &Agents| {
        add_plan_with_changes(agents);
        agents.data(&["sandbox", "checkpoint", "box", "--label", "good"]);
    };
    assert_shown(
        "plan_checkpoint_list",
        &shown(prepare, &["plan", "checkpoint", "list"]),
    );
    let agents = agents();
    let (engine, plan) = add_plan_with_changes(&agents);
    agents.data(&["sandbox", "checkpoint", "box", "--label", "good"]);
    agents.data(&["sandbox", "checkpoint", "box", "--label", "last"]);
    let delete = |names: &[&str], confirmed: bool| {
        let mut arguments = vec!["plan", "checkpoint", "delete", "fix-tests-1"];
        arguments.extend(names);
        arguments.extend(confirmed.then_some("--yes"));
        agents.run(&arguments)
    };
    let count = || {
        let data = agents.data(&["plan", "checkpoint", "list"]);
        data["summary"]["total"].as_u64().expect("a number")
    };
    assert_eq!(count(), 4);
    for (name, code, reported) in [
        ("cp_1", 4, "the first checkpoint"),
        ("last", 4, "the newest"),
        ("cp_9", 3, "no checkpoint"),
    ] {
        let answer = delete(&["cp_2", name], true);
        assert_eq!(answer.code, Some(code), "{answer:?}");
        assert!(answer.err.contains(reported), "{answer:?}");
    }
    assert_eq!(delete(&["cp_2"], false).code, Some(5), "not confirmed");
    assert_eq!(count(), 4, "a refused deletion removes no checkpoint");
    // The deletion is refused while a process runs the plan, and after the run was interrupted.
    let leases = cleveragents_application::LeaseService::new(Arc::clone(&engine));
    let subject = cleveragents_domain::LeaseSubject::new("plan", plan);
    let lease = leases
        .acquire(subject, cleveragents_domain::Ttl::default())
        .expect("free");
    let answer = delete(&["cp_2"], true);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(answer.err.contains("CA-1143"), "{answer:?}");
    drop(lease);
    advance(
        &engine,
        plan,
        &[StageTransition::QueueExecute, StageTransition::StartExecute],
    );
    let answer = delete(&["cp_2"], true);
    assert!(answer.err.contains("CA-1142"), "{answer:?}");
    advance(&engine, plan, &[StageTransition::CompleteExecute]);
    assert_eq!(count(), 4);
    let answer = delete(&["cp_2", "good"], true);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(count(), 2);
    // Numbers of deleted checkpoints are not reused.
    agents.data(&["sandbox", "checkpoint", "box", "--label", "next"]);
    let data = agents.data(&["plan", "checkpoint", "list"]);
    assert_eq!(data["checkpoints"][2]["id"], "cp_5");
}

#[test]
fn the_error_for_a_missing_plan_lists_similar_plans() {
    let agents = agents();
    add_strategized_plan(&agents);
    let answer = agents.run(&["plan", "status", "fix-test-1"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.err.contains("CA-0404") && answer.err.contains("fix-tests-1"));
    let answer = agents.run(&["plan", "list", "("]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    let empty = super::agents();
    let answer = empty.run(&["plan", "status"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.err.contains("CA-1149"), "{answer:?}");
}
