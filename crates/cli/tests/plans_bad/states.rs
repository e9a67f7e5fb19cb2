//! Plan commands in stages where they do not apply: each is refused with a hint, and no row
//! changes.

use crate::world::World;

/// Arguments of a plan command, in which `PLAN` stands for the plan, with exit code and error code.
type Refusal<'a> = (&'a [&'a str], i32, &'a str);

fn assert_all_refused(world: &World, plan: &str, refusals: &[Refusal<'_>]) {
    for (template, exit, code) in refusals {
        let arguments: Vec<&str> = ["plan"]
            .into_iter()
            .chain(
                template
                    .iter()
                    .map(|word| if *word == "PLAN" { plan } else { word }),
            )
            .collect();
        let error = world.is_refused(&arguments, *exit, code);
        let hint = error["hint"].as_str().expect("a hint");
        assert!(
            !hint.contains("PLAN") || hint.contains("plan show PLAN"),
            "{hint}"
        );
    }
}

#[test]
fn a_plan_that_has_not_started() {
    let world = World::new();
    world.ok(&["plan", "use", "local/fix", "local/shop", "--no-start"]);
    let plan = world.plan();
    world.file("empty.md", "# Nothing\n");
    assert_all_refused(
        &world,
        &plan,
        &[
            (&["apply", "PLAN", "--yes"], 4, "CA-1142"),
            (&["approve", "PLAN"], 4, "CA-1142"),
            (&["reject", "PLAN"], 4, "CA-1142"),
            (&["prompt", "PLAN", "hello"], 4, "CA-1142"),
            (&["revert", "PLAN"], 4, "CA-1142"),
            (&["rollback", "PLAN", "cp_1", "--yes"], 4, "CA-1154"),
            (&["redo", "PLAN"], 4, "CA-1154"),
            (&["edit", "PLAN", "--file", "empty.md"], 4, "CA-1142"),
        ],
    );
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(world.stage(), "strategize/awaiting_input");
}

#[test]
fn a_plan_with_a_strategy() {
    let world = World::new();
    world.ok(&["plan", "use", "local/fix", "local/shop"]);
    let plan = world.plan();
    let strategy = world
        .agents
        .run(&["plan", "show", &plan, "--as", "markdown"])
        .out;
    world.file("empty.md", "# Nothing\n");
    world.file(
        "circle.md",
        &strategy.replace("Change it.", "Change it.\n\nAfter: 1"),
    );
    assert_all_refused(
        &world,
        &plan,
        &[
            (&["apply", "PLAN", "--yes"], 4, "CA-1142"),
            (&["rollback", "PLAN", "cp_1", "--yes"], 4, "CA-1154"),
            (&["redo", "PLAN"], 4, "CA-1154"),
            (&["edit", "PLAN", "--file", "empty.md"], 2, "CA-1153"),
            (&["prompt", "PLAN", "  "], 2, "CA-0101"),
        ],
    );
    let missing = world.run(&["plan", "edit", &plan, "--file", "missing.md"]);
    assert!(missing.code.is_some_and(|code| code != 0), "{missing:?}");
    // The exported strategy can be read back unchanged.
    world.file("same.md", &strategy);
    world.ok(&["plan", "edit", &plan, "--file", "same.md"]);
    let again = world
        .agents
        .run(&["plan", "show", &plan, "--as", "markdown"])
        .out;
    assert_eq!(again, strategy);
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(world.stage(), "execute/awaiting_input");
}

#[test]
fn an_executed_plan() {
    let world = World::new();
    world.begin("trusted");
    let plan = world.plan();
    let before = world.every_byte();
    assert_all_refused(
        &world,
        &plan,
        &[
            (&["apply", "PLAN"], 5, "CA-0106"),
            (&["redo", "PLAN"], 4, "CA-1154"),
            (&["rollback", "PLAN", "cp_99", "--yes"], 3, "CA-0648"),
            (&["rollback", "PLAN", "cp_1"], 5, "CA-0106"),
        ],
    );
    world.file("empty.md", "# Nothing\n\n## Step\n");
    let edited = world.run(&["plan", "edit", &plan, "--file", "empty.md"]);
    assert!(matches!(edited.code, Some(2 | 4)), "{edited:?}");
    // Executing again does nothing.
    let rows = |world: &World| {
        (
            world.rows()["plan_steps"].clone(),
            world.rows()["runs"].clone(),
        )
    };
    let rows_before = rows(&world);
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(rows(&world), rows_before);
    assert_eq!(world.every_byte(), before);
}

#[test]
fn a_finished_plan() {
    for end in ["applied", "cancelled"] {
        let world = World::new();
        world.begin("trusted");
        let plan = world.plan();
        if end == "applied" {
            world.ok(&["plan", "apply", &plan, "--yes"]);
        } else {
            world.ok(&["plan", "cancel", &plan, "--reason", "no longer wanted"]);
        }
        let before = world.every_byte();
        assert_all_refused(
            &world,
            &plan,
            &[
                (&["execute", "PLAN"], 4, "CA-1142"),
                (&["apply", "PLAN", "--yes"], 4, "CA-1142"),
                (&["cancel", "PLAN"], 4, "CA-1142"),
                (&["approve", "PLAN"], 4, "CA-1142"),
                (&["reject", "PLAN"], 4, "CA-1142"),
                (&["prompt", "PLAN", "hello"], 4, "CA-1142"),
                (&["revert", "PLAN"], 4, "CA-1142"),
                (&["resume", "PLAN"], 4, "CA-1142"),
                (&["rollback", "PLAN", "cp_1", "--yes"], 4, "CA-1154"),
                (&["redo", "PLAN"], 4, "CA-1154"),
            ],
        );
        assert_eq!(world.every_byte(), before, "{end}");
        assert_eq!(world.status()["state"], end);
        // Commands that only read work in every stage.
        for command in [
            "tree",
            "diff",
            "artifacts",
            "errors",
            "log",
            "guard",
            "show",
        ] {
            world.ok(&["plan", command, &plan]);
        }
    }
}

#[test]
fn a_plan_with_a_conflict_at_apply() {
    let world = World::new();
    world.begin("trusted");
    let plan = world.plan();
    world.file("app/health.sh", "status=404\n");
    let before = world.every_byte();
    let error = world.fails(&["plan", "apply", &plan, "--yes"], 4, "CA-0645");
    assert_eq!(world.every_byte(), before);
    assert!(error["hint"].is_string(), "{error}");
    assert_eq!(world.stage(), "apply/errored");
    // The second attempt has the same result, and nothing is lost.
    world.fails(&["plan", "apply", &plan, "--yes"], 4, "CA-0645");
    assert_eq!(world.every_byte(), before);
    world.file("app/health.sh", "status=500\n");
    world.ok(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(world.stage(), "apply/applied");
}
