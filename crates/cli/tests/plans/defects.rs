//! Properties of plans that defects of an earlier system were reported about; see `docs/defects.md`.

use cleveragents_testkit::TestDatabase;

use super::faults::{STEPS, break_table, mend};
use super::world::World;

/// What was decided about a plan, in order.
fn decisions(world: &World, plan: &str) -> Vec<Vec<String>> {
    world.ask(&format!(
        "SELECT decision_id, parent_decision_id, question, chosen, snapshot FROM plan_decisions \
         WHERE plan_id = '{plan}' AND phase = 'strategize' ORDER BY sequence"
    ))
}

#[test]
fn defect_5336_what_was_decided_is_read_by_the_next_process() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    let stored = decisions(&world, &plan);
    // The root, the way, and each step.
    assert_eq!(stored.len(), 2 + STEPS.len(), "{stored:?}");
    let tree = world.agents.data(&["plan", "tree", &plan]);
    assert_eq!(tree["summary"]["nodes"], stored.len(), "{tree}");
    let shown = tree.to_string();
    for row in &stored {
        assert!(shown.contains(&row[0]), "{row:?} is not in {shown}");
        let told = world.agents.data(&["plan", "explain", &row[0]]).to_string();
        assert!(told.contains(&row[2]), "{row:?}: {told}");
    }
    let roots = stored.iter().filter(|row| row[1].is_empty()).count();
    assert_eq!(roots, 1, "{stored:?}");
}

#[test]
fn defect_10874_a_failed_execute_leaves_the_strategy_as_it_was() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    let strategy = || {
        world.ask(&format!(
            "SELECT strategy FROM plans WHERE plan_id = '{plan}'"
        ))
    };
    let before = (strategy(), decisions(&world, &plan));
    for table in ["tool_invocations", "sandboxes"] {
        break_table(&world, table, "");
        let answer = world.run(&["plan", "execute", &plan]);
        mend(&world);
        answer.assert_no_claim(table);
        assert_eq!((strategy(), decisions(&world, &plan)), before, "{table}");
    }
    world.agents.data(&["plan", "execute", &plan]);
    assert_eq!((strategy(), decisions(&world, &plan)), before);
}

#[test]
fn defect_3186_a_plan_whose_stage_cannot_be_read_is_refused() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.executed("local/steps");
    let seen = world.seen();
    TestDatabase::write_file(
        &world.agents.database(),
        "PRAGMA ignore_check_constraints = ON; UPDATE plans SET stage = 'execute/unknown'",
    );
    for arguments in [
        &["plan", "execute", &plan][..],
        &["plan", "apply", &plan, "--yes"],
        &["plan", "resume", &plan],
    ] {
        let answer = world.run(arguments);
        answer.assert_no_claim(&format!("{arguments:?}"));
    }
    assert_eq!(world.seen(), seen);
}
