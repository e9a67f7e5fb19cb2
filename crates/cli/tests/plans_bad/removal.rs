//! Removal of definitions that an unfinished plan uses: refused if the plan still looks them up,
//! without effect on the plan if it has a copy.

use crate::world::World;

#[test]
fn definitions_that_a_plan_looks_up_stay_and_copied_definitions_can_be_removed() {
    let world = World::new();
    world.file(
        "count.yaml",
        "name: local/count\ndescription: Counts\nread_only: true\ninput_schema: {type: object}\ncode: |\n  return 1\n",
    );
    world.ok(&["tool", "add", "--config", "count.yaml"]);
    world.ok(&["mcp", "add", "clock", "--", "false"]);
    world.file(
        "executor-actor.yaml",
        "name: local/executor\ntype: llm\nmodel: scripted/executor.yaml\nsystem_prompt: Work.\n\
         tools: [builtin/*, local/count]\n",
    );
    world.ok(&[
        "actor",
        "add",
        "--config",
        "executor-actor.yaml",
        "--update",
    ]);
    world.file(
        "reviewer.yaml",
        "at_end: repeat_last\nanswers:\n- text: Fine.\n",
    );
    world.file("profile.yaml", "name: local/mine\nextends: full-auto\n");
    world.ok(&["automation-profile", "add", "--config", "profile.yaml"]);
    world.validated();
    let rule = world.ok(&["invariant", "add", "--global", "Keep it short"]);
    let rule = rule["invariant"]["id"]
        .as_str()
        .or_else(|| rule["id"].as_str());
    let rule = rule.expect("an id").to_owned();
    world.ok(&[
        "plan",
        "use",
        "local/fix",
        "local/shop",
        "--automation-profile",
        "local/mine",
        "--no-start",
    ]);
    let plan = world.plan();
    for (arguments, code) in [
        (&["tool", "remove", "local/count", "--yes"][..], "CA-0915"),
        (&["actor", "remove", "local/executor", "--yes"], "CA-1006"),
        (&["project", "delete", "local/shop", "--yes"], "CA-0870"),
    ] {
        let error = world.is_refused(arguments, 4, code);
        assert!(error["details"]["plans"][0] == plan.as_str(), "{error}");
        let hint = error["hint"].as_str().expect("a hint");
        assert!(hint.contains(&plan), "{hint}");
    }
    // The project of the plan uses these definitions.
    let attached = world.run(&["validation", "remove", "local/tests", "--yes"]);
    assert_eq!(attached.code, Some(4), "{attached:?}");
    let linked = world.run(&["resource", "remove", "local/app", "--yes"]);
    assert_eq!(linked.code, Some(4), "{linked:?}");
    // The plan has copies of these definitions or does not need them.
    world.ok(&["mcp", "remove", "clock", "--yes"]);
    world.ok(&["automation-profile", "remove", "local/mine", "--yes"]);
    world.ok(&["action", "archive", "local/fix", "--yes"]);
    world.ok(&["invariant", "remove", &rule, "--yes"]);
    let executed = world.run(&["plan", "execute", &plan]);
    assert_eq!(executed.code, Some(0), "{executed:?}");
    assert_eq!(world.stage(), "apply/applied");
    world.ok(&["tool", "remove", "local/count", "--yes"]);
}
