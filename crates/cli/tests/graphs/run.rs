//! Results of runs, stored data, and one run seen from two terminals.

use cleveragents_testkit::at_once;
use serde_json::json;

use super::world::{ITEMS, SHAPES, World};

#[test]
fn every_shape_finishes_and_can_be_replayed() {
    let world = World::new();
    let mut outputs = Vec::new();
    for shape in SHAPES {
        let sandbox = shape.has_sandbox.then(|| world.sandbox());
        let name = sandbox.as_ref().map(|(name, _)| name.as_str());
        let arguments = World::arguments(shape, name);
        let arguments: Vec<&str> = arguments[2..].iter().map(String::as_str).collect();
        let answer = world.run(&arguments);
        assert_eq!(answer.code, Some(0), "{shape:?}: {answer:?}");
        let data = answer.json()["data"].clone();
        outputs.push(data["response"]["text"].clone());
        let run = data["actor_run"]["run"].as_str().expect("an id").to_owned();
        let replayed = world.agents.data(&["run", "replay", &run]);
        assert_eq!(replayed["replay"]["is_identical"], true);
        let steps = world.show(&run)["steps"].as_array().expect("steps").len();
        assert!(steps >= 5, "{shape:?}: {steps}");
        if let Some((_, folder)) = &sandbox
            && shape.actor == "local/map"
        {
            let created = super::world::files(folder);
            assert_eq!(
                created.len(),
                ITEMS + 1,
                "the notes and a file for each item"
            );
        }
    }
    assert_eq!(
        outputs,
        [
            json!("judge is fine"),
            json!("12 rounds"),
            json!("4 levels, inner: style is fine"),
            json!("100 answers"),
        ]
    );
}

#[test]
fn defect_8290_updates_of_parallel_nodes_are_merged_in_file_order() {
    let world = World::new();
    let data = world
        .agents
        .data(&["actor", "run", "local/five", "the change"]);
    assert_eq!(
        data["response"]["state"]["reviews"],
        json!(["security is fine", "style is fine", "tests is fine"])
    );
}

#[test]
fn a_run_of_another_process_is_visible_and_a_finished_run_cannot_be_changed() {
    let world = World::new();
    let data = world.agents.data(&["actor", "run", "local/five", "x"]);
    let run = data["actor_run"]["run"].as_str().expect("an id").to_owned();
    for command in [vec!["run", "resume", &run], vec!["run", "cancel", &run]] {
        let answer = world.run(&command);
        assert_eq!(answer.code, Some(4), "{answer:?}");
        assert_eq!(answer.json()["data"]["error"]["code"], "CA-1025");
    }
    let prefix = &run[..20];
    assert_eq!(world.show(prefix)["run"]["state"], "complete");
    let answer = world.run(&["run", "show", "01ZZZZZZ"]);
    assert_eq!(answer.code, Some(3));
}

#[test]
fn many_processes_register_one_actor_once() {
    let world = World::new();
    let file = world.agents.cwd().join("twin.yaml");
    std::fs::write(
        &file,
        "name: local/twin\ntype: llm\ndescription: d\nmodel: scripted/style.yaml\n",
    )
    .expect("a file");
    let path = file.to_str().expect("a path");
    let codes = at_once(6, |_| add_actor(&world.agents, path));
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1);
    assert!(
        codes.iter().all(|code| matches!(code, Some(0 | 4))),
        "{codes:?}"
    );
}

fn add_actor(agents: &cleveragents_testkit::Agents, path: &str) -> Option<i32> {
    agents
        .run(&["--format", "json", "actor", "add", "--config", path])
        .code
}

#[test]
fn defect_2503_actors_cannot_contain_each_other() {
    let world = World::new();
    let file = world.agents.cwd().join("inner.yaml");
    let cyclic =
        "name: local/inner\ntype: graph\ndescription: d\nnodes:\n  a: {actor_ref: local/outer}\n";
    std::fs::write(&file, cyclic).expect("a file");
    let answer = world.run(&[
        "actor",
        "update",
        "--config",
        file.to_str().expect("a path"),
    ]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    let error = answer.json()["data"]["error"].clone();
    assert_eq!(error["code"], "CA-1004");
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("local/inner → "), "{message}");
    let shown = world.agents.data(&["actor", "show", "local/inner"]);
    assert_eq!(shown["graph_structure"]["nodes"], 2, "nothing was changed");
}

#[test]
fn an_actor_that_others_use_is_not_removed() {
    let world = World::new();
    let answer = world.run(&["actor", "remove", "local/inner", "--yes"]);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-1006");
    world
        .agents
        .data(&["actor", "remove", "local/outer", "--yes"]);
    world
        .agents
        .data(&["actor", "remove", "local/middle", "--yes"]);
    world
        .agents
        .data(&["actor", "remove", "local/inner", "--yes"]);
}

#[test]
fn a_context_is_continued_and_survives_export_and_import() {
    let world = World::new();
    let run = [
        "actor",
        "run",
        "scripted/style.yaml",
        "one",
        "--context",
        "weekly",
    ];
    world.agents.data(&run);
    let shown = world.agents.data(&["actor", "context", "show", "weekly"]);
    assert_eq!(
        shown["messages"],
        json!([
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "style is fine"},
        ])
    );
    let file = world.agents.cwd().join("weekly.yaml");
    let path = file.to_str().expect("a path");
    world
        .agents
        .data(&["actor", "context", "export", "weekly", "--output", path]);
    let again = world.run(&["actor", "context", "import", path]);
    assert_eq!(again.code, Some(4), "{again:?}");
    world
        .agents
        .data(&["actor", "context", "import", path, "--name", "copy"]);
    world
        .agents
        .data(&["actor", "context", "clear", "weekly", "--yes"]);
    let listed = world.agents.data(&["actor", "context", "list"]);
    let counts: Vec<_> = listed["contexts"]
        .as_array()
        .expect("contexts")
        .iter()
        .map(|context| (context["name"].clone(), context["messages"].clone()))
        .collect();
    assert_eq!(
        counts,
        [(json!("copy"), json!(2)), (json!("weekly"), json!(0))]
    );
    let sessions = world.agents.data(&["session", "list"]);
    assert_eq!(
        sessions["sessions"],
        json!([]),
        "sessions of contexts are not listed"
    );
}
