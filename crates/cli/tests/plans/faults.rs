//! No false success: with a broken dependency, a command neither reports success nor leaves partial
//! changes; after the repair, the same command works.

use cleveragents_testkit::TestDatabase;

use super::world::{World, git};

/// Breaks a table with triggers: all writes fail, or only writes of rows that meet the condition.
pub(crate) fn break_table(world: &World, table: &str, condition: &str) {
    let when = if condition.is_empty() {
        String::new()
    } else {
        format!("WHEN {condition}")
    };
    for event in ["INSERT", "UPDATE", "DELETE"] {
        // `NEW` is only available for inserts and updates.
        if event == "DELETE" && !condition.is_empty() {
            continue;
        }
        TestDatabase::write_file(
            &world.agents.database(),
            &format!(
                "CREATE TRIGGER broken_{event} BEFORE {event} ON {table} {when} \
                 BEGIN SELECT RAISE(ABORT, 'the table is broken'); END"
            ),
        );
    }
}

pub(crate) fn fix_project(world: &World) {
    TestDatabase::write_file(
        &world.agents.database(),
        "DROP TRIGGER IF EXISTS broken_INSERT; DROP TRIGGER IF EXISTS broken_UPDATE; \
         DROP TRIGGER IF EXISTS broken_DELETE",
    );
}

/// All data that commands store in the database.
pub(crate) fn rows(world: &World) -> Vec<(String, Vec<Vec<String>>)> {
    [
        "plans",
        "plan_projects",
        "plan_steps",
        "plan_decisions",
        "plan_answers",
        "plan_guidance",
        "plan_rollbacks",
        "definitions",
        "tools",
        "invariants",
        "validation_attachments",
        "validation_results",
        "sandbox_checkpoints",
        "change_entries",
    ]
    .map(|table| {
        let rows = world.ask(&format!("SELECT * FROM {table} ORDER BY 1, 2"));
        (table.to_owned(), rows)
    })
    .into()
}

/// Asserts that a command that consists of one unit of work changes nothing while one of these
/// tables is broken, and succeeds after the repair.
fn assert_atomic(world: &World, tables: &[&str], arguments: &[&str]) {
    for table in tables {
        let situation = format!("{arguments:?} with {table} broken");
        let before = rows(world);
        break_table(world, table, "");
        let answer = world.run(arguments);
        fix_project(world);
        answer.assert_reports_failure(&situation);
        assert_eq!(rows(world), before, "{situation}");
    }
    let before = rows(world);
    world.agents.data(arguments);
    assert_ne!(rows(world), before, "{arguments:?} does nothing");
}

pub(crate) const STEPS: [&str; 3] = [
    "write `one` to `one.txt`",
    "run `echo line >> log.txt`",
    "call `local/note` with `{\"n\": 1}`",
];

#[test]
fn definitions() {
    let world = World::new();
    let action = world.file(
        "a.yaml",
        "name: local/a\ndescription: d\ndefinition_of_done: done\n",
    );
    let create = ["action", "create", "--config", &action];
    assert_atomic(&world, &["definitions"], &create);
    assert_atomic(
        &world,
        &["definitions"],
        &["action", "archive", "local/a", "--yes"],
    );
    let profile = world.file("p.yaml", "name: local/careful\nextends: supervised\n");
    let add = ["automation-profile", "add", "--config", &profile];
    assert_atomic(&world, &["definitions"], &add);
    let remove = ["automation-profile", "remove", "local/careful", "--yes"];
    assert_atomic(&world, &["definitions"], &remove);
    let add = ["invariant", "add", "--global", "Change no test"];
    assert_atomic(&world, &["invariants"], &add);
    let id = world.ask("SELECT invariant_id FROM invariants")[0][0].clone();
    assert_atomic(
        &world,
        &["invariants"],
        &["invariant", "remove", &id, "--yes"],
    );
    let validation = world.file(
        "v.yaml",
        "name: local/passes\ndescription: d\ncommand: [\"true\"]\n",
    );
    let add = ["validation", "add", "--config", &validation];
    assert_atomic(&world, &["tools"], &add);
    let attach = ["validation", "attach", "local/repo", "local/passes"];
    assert_atomic(&world, &["validation_attachments"], &attach);
    let id = world.ask("SELECT attachment_id FROM validation_attachments")[0][0].clone();
    assert_atomic(
        &world,
        &["validation_attachments"],
        &["validation", "detach", &id],
    );
}

#[test]
fn plans_and_user_input() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let use_action = [
        "plan",
        "use",
        "local/steps",
        "local/p",
        "--no-start",
        "--invariant",
        "Change no test",
    ];
    assert_atomic(
        &world,
        &["plans", "plan_projects", "invariants"],
        &use_action,
    );
    let first = world.plan("local/steps", &[]);
    let prompt = ["plan", "prompt", &first, "be careful"];
    assert_atomic(&world, &["plan_guidance", "plan_decisions"], &prompt);
    let document = world.run(&["plan", "show", &first, "--as", "markdown"]).out;
    let document = world.file(
        "s.md",
        &document.replace("in their order", "one after the other"),
    );
    assert_atomic(
        &world,
        &["plans"],
        &["plan", "edit", &first, "--file", &document],
    );
    assert_atomic(&world, &["plans"], &["plan", "cancel", &first]);
    let second = world.plan("local/steps", &[]);
    assert_atomic(
        &world,
        &["plan_answers", "plans"],
        &["plan", "reject", &second],
    );
    let third = world.plan("local/steps", &[]);
    assert_atomic(
        &world,
        &["plan_answers", "plans"],
        &["plan", "approve", &third],
    );
    let fourth = world.executed("local/steps");
    let delete = ["plan", "checkpoint", "delete", &fourth, "cp_3", "--yes"];
    assert_atomic(&world, &["sandbox_checkpoints"], &delete);
    assert_atomic(&world, &["plans"], &["plan", "revert", &fourth]);
}

#[test]
fn execution() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    for (table, condition) in [
        ("plans", ""),
        ("plan_steps", ""),
        ("plan_decisions", ""),
        ("tool_invocations", ""),
        ("change_entries", ""),
        ("sandbox_checkpoints", ""),
        ("sandboxes", ""),
        ("runs", ""),
        ("run_steps", ""),
        ("leases", ""),
        // The sandbox can neither be completed nor discarded.
        ("sandboxes", "NEW.state IN ('active', 'discarded')"),
    ] {
        let plan = world.plan("local/steps", &[]);
        break_table(&world, table, condition);
        let answer = world.run(&["plan", "execute", &plan]);
        fix_project(&world);
        let situation = format!("execute with {table} broken {condition}");
        answer.assert_reports_failure(&situation);
        assert_ne!(world.stage(&plan), "execute/complete", "{situation}");
        let mut answer = world.run(&["plan", "execute", &plan]);
        if answer.code == Some(5) {
            answer = world.run(&["plan", "execute", &plan, "--redo"]);
        }
        assert_eq!(answer.code, Some(0), "{situation}, then: {answer:?}");
        let tree = world.tree(&plan);
        for (name, content) in [
            ("one.txt", "one\n"),
            ("log.txt", "line\n"),
            ("notes.log", "note 1\n"),
        ] {
            assert_eq!(tree[name], content, "{situation}");
        }
    }
    // A change is not recorded without its checkpoint.
    let plan = world.plan("local/steps", &[]);
    let recorded = "SELECT count(*) FROM change_entries";
    let before = world.ask(recorded);
    break_table(&world, "sandbox_checkpoints", "NEW.label LIKE 'after %'");
    let answer = world.run(&["plan", "execute", &plan]);
    fix_project(&world);
    answer.assert_reports_failure("execute without a checkpoint after a change");
    assert_eq!(world.ask(recorded), before);
    // The command does not report success if the result could not be stored.
    let plan = world.plan("local/steps", &[]);
    break_table(&world, "plans", "NEW.stage = 'execute/complete'");
    let answer = world.run(&["plan", "execute", &plan]);
    fix_project(&world);
    answer.assert_reports_failure("the last transition of execute");
    world.agents.data(&["plan", "execute", &plan]);
    assert_eq!(world.tree(&plan)["log.txt"], "line\n");
}

#[test]
fn apply() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let before = world.repository_state();
    for (table, condition) in [
        ("plans", ""),
        ("plans", "NEW.stage = 'apply/processing'"),
        ("sandboxes", ""),
        ("sandboxes", "NEW.state = 'applied'"),
        ("plans", "NEW.stage = 'apply/applied'"),
    ] {
        world.restore_repository();
        let plan = world.executed("local/steps");
        break_table(&world, table, condition);
        let apply = ["plan", "apply", &plan, "--yes"];
        let answer = world.run(&apply);
        fix_project(&world);
        let situation = format!("apply with {table} broken {condition}");
        answer.assert_reports_failure(&situation);
        assert_ne!(world.stage(&plan), "apply/applied", "{situation}");
        if world.repository_state() != before {
            assert_eq!(
                git(&world.repository(), &["status", "--porcelain"]),
                "",
                "{situation}"
            );
            assert_eq!(
                world.repository_state().0["log.txt"],
                "line\n",
                "{situation}"
            );
        }
        world.agents.data(&apply);
        assert_eq!(world.stage(&plan), "apply/applied", "{situation}");
        assert_eq!(
            world.repository_state().0["log.txt"],
            "line\n",
            "{situation}"
        );
        assert_eq!(
            git(&world.repository(), &["rev-list", "--count", "HEAD"]),
            "2",
            "{situation}"
        );
    }
}

#[test]
fn a_missing_repository() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let waiting = world.plan("local/steps", &[]);
    let done = world.executed("local/steps");
    let (repository, aside) = (world.repository(), world.agents.cwd().join("aside"));
    std::fs::rename(&repository, &aside).expect("moved");
    std::fs::write(&repository, "no folder").expect("a file");
    let creating = world.run(&["plan", "use", "local/steps", "local/p"]);
    let executing = world.run(&["plan", "execute", &waiting]);
    let applying = world.run(&["plan", "apply", &done, "--yes"]);
    std::fs::remove_file(&repository).expect("removed");
    std::fs::rename(&aside, &repository).expect("moved back");
    executing.assert_reports_failure("execute");
    applying.assert_reports_failure("apply");
    // Whether or not the plan was created, no strategy is reported for a missing repository.
    if creating.code == Some(0) {
        assert_ne!(creating.json()["data"]["phase"], "execute", "{creating:?}");
    }
    world.agents.data(&["plan", "execute", &waiting]);
    world.agents.data(&["plan", "apply", &done, "--yes"]);
    assert_eq!(world.repository_state().0["log.txt"], "line\n");
    assert_eq!(world.stage(&done), "apply/applied");
}

#[test]
fn rollback_and_redo() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.executed("local/steps");
    let complete_tree = world.tree(&plan);
    let checkpoints = world.ask(&format!(
        "SELECT checkpoint FROM plan_steps WHERE plan_id = '{plan}' AND path = 'step/1/2'"
    ));
    let rollback = [
        "plan",
        "rollback",
        &plan,
        &format!("cp_{}", checkpoints[0][0]),
        "--yes",
    ];
    let redo = ["plan", "redo", &plan];
    for table in [
        "plan_rollbacks",
        "plan_steps",
        "plans",
        "plan_decisions",
        "change_entries",
        "tool_invocations",
    ] {
        let situation = format!("rollback with {table} broken");
        break_table(&world, table, "");
        let answer = world.run(&rollback);
        fix_project(&world);
        answer.assert_reports_failure(&situation);
        assert_eq!(world.stage(&plan), "execute/complete", "{situation}");
        // The next command finishes the interrupted one.
        world
            .agents
            .data(&["plan", "rollback", &plan, rollback[3], "--preview"]);
        if world.stage(&plan) == "execute/complete" {
            world.agents.data(&rollback);
        }
        let tree = world.tree(&plan);
        assert!(!tree.contains_key("log.txt"), "{situation}: {tree:?}");
        for table in ["change_entries", "plan_rollbacks", "plan_steps", "plans"] {
            let situation = format!("redo with {table} broken");
            break_table(&world, table, "");
            let answer = world.run(&redo);
            fix_project(&world);
            answer.assert_reports_failure(&situation);
            assert_ne!(world.stage(&plan), "execute/complete", "{situation}");
        }
        let answer = world.run(&redo);
        assert!(
            matches!(answer.code, Some(0 | 4)),
            "{situation}: {answer:?}"
        );
        assert_eq!(world.stage(&plan), "execute/complete", "{situation}");
        assert_eq!(world.tree(&plan), complete_tree, "{situation}");
    }
}
