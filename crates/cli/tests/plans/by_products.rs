//! By-products of commands do not count as changes of a plan.

use super::world::World;

#[test]
fn a_plan_counts_intended_changes_and_lists_files_of_commands() {
    let world = World::new();
    world.action(
        "local/tests",
        &[
            "write `one` to `one.txt`",
            "run `mkdir __pycache__ && echo x > __pycache__/a.pyc && echo y > made.txt`",
        ],
    );
    let plan = world.executed("local/tests");
    let check = |is_applied: bool| {
        let diff = world.agents.data(&["plan", "diff", &plan]);
        assert_eq!(diff["diff_summary"]["files_changed"], 2, "{diff:#}");
        assert_eq!(diff["made_by_commands"].as_array().map(Vec::len), Some(1));
        let created = diff["made_by_commands"][0].as_str().expect("a path");
        assert!(created.ends_with("/made.txt"), "{created}");
        assert_eq!(diff["by_products"], 2, "{diff:#}");
        if !is_applied {
            let patch = diff["patch"].as_str().expect("a patch");
            assert!(!patch.contains("pycache"), "{patch}");
        }
    };
    check(false);
    let shown = world
        .agents
        .run(&["--format", "rich", "plan", "diff", &plan]);
    assert!(shown.out.contains("created by commands"), "{shown:?}");
    let status = world.agents.data(&["plan", "status", &plan]);
    assert!(!status.to_string().contains("pycache"), "{status:#}");
    world.agents.data(&["plan", "apply", &plan, "--yes"]);
    assert!(!world.repository().join("__pycache__").exists());
    assert!(world.repository().join("made.txt").is_file());
    check(true);
}
