//! Command-line arguments of runs: invalid arguments are refused before a model is called.

use serde_json::Value;

use super::world::World;

fn assert_refused(world: &World, arguments: &[&str], code: i32) -> Value {
    let answer = world.run(arguments);
    assert_eq!(answer.code, Some(code), "{arguments:?}: {answer:?}");
    answer.json()["data"]["error"].clone()
}

#[test]
fn invalid_arguments_are_refused_and_no_run_starts() {
    let world = World::new();
    let work = world.agents.cwd();
    let file = work.join("odd.yaml");
    let odd = "name: odd\nmessages: [{role: judge, content: guilty}]\n";
    std::fs::write(&file, odd).expect("a file");
    let odd = file.to_str().expect("a path").to_owned();
    let folder = work.to_str().expect("a path").to_owned();
    let missing = format!("{folder}/missing/answer.txt");
    let ask = ["actor", "run", "local/five", "x"];
    for (options, code, reported) in [
        (vec!["--input", r#"{"reviews": "none"}"#], 2, "reviews"),
        (vec!["--input", r#"{"messages": "none"}"#], 2, "messages"),
        (vec!["--input", r#"{"context": {}}"#], 2, "context"),
        (vec!["--input", r#"{"input": "y"}"#], 2, "given twice"),
        (
            vec!["--context", "c", "--input", r#"{"messages": []}"#],
            2,
            "given twice",
        ),
        (vec!["--load-context", &odd], 2, "judge"),
        (vec!["--temperature", "nan"], 2, "0 to 2"),
        (vec!["--temperature", "9"], 2, "0 to 2"),
        (vec!["--tool", "nobody/*"], 3, "nobody/*"),
        (vec!["--output", &missing], 1, "cannot be written"),
        (vec!["--output", &folder], 1, "cannot be written"),
    ] {
        let error = assert_refused(&world, &[&ask[..], &options].concat(), code);
        let message = error["message"].as_str().expect("text");
        assert!(message.contains(reported), "{options:?}: {message}");
    }
    assert!(world.newest().is_none(), "no run was created");
    let valid = r#"{"reviews": ["mine"], "messages": [], "more": null}"#;
    let data = world.agents.data(&[&ask[..], &["--input", valid]].concat());
    assert_eq!(data["response"]["state"]["reviews"][0], "mine");
}

#[test]
fn runs_are_found_without_their_ids_and_without_namespaces() {
    let world = World::new();
    assert_eq!(
        assert_refused(&world, &["run", "show"], 3)["code"],
        "CA-1021",
        "no run exists"
    );
    for _ in 0..2 {
        world.agents.data(&["actor", "run", "local/five", "x"]);
    }
    let listed = world.agents.data(&["run", "list", "--actor", "five"]);
    assert_eq!(listed["summary"]["matching"], 2);
    let shown = world.agents.data(&["run", "show"]);
    assert_eq!(shown["run"]["id"], listed["runs"][0]["id"]);
}

#[test]
fn a_run_that_cannot_continue_is_not_reported_as_resumable() {
    let world = World::new();
    world.add(
        "name: local/stuck\ntype: graph\ndescription: d\nnodes:\n  \
         a: {type: conditional, conditions: [{check: input == 'never', route_to: b}]}\n  \
         b: {set: {output: 1}}\n",
    );
    let error = assert_refused(&world, &["actor", "run", "local/stuck", "x"], 1);
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("start a new run"), "{hint}");
    assert!(!hint.contains("run resume"), "{hint}");
}

#[test]
fn a_waiting_run_can_be_cancelled() {
    let world = World::new();
    let (sandbox, _) = world.sandbox();
    let script = "answers:\n- calls: [{name: builtin_S_file-write, arguments: {path: a.txt, content: a}}]\n\
                  - text: done\n";
    std::fs::write(world.agents.cwd().join("writer.yaml"), script).expect("a file");
    world.add(
        "name: local/writer\ntype: llm\ndescription: d\nmodel: scripted/writer.yaml\n\
         tools: [builtin/file-write]\n",
    );
    let ask = ["actor", "run", "local/writer", "x", "--sandbox", &sandbox];
    let error = assert_refused(&world, &[&ask[..], &["--approve-writes"]].concat(), 5);
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("`builtin/file-write`"), "{message}");
    assert!(
        !message.contains("tell the user"),
        "the message addresses the user: {message}"
    );
    let run = world.newest().expect("a run");
    assert_eq!(run["usage"]["tool_calls"], 0, "nothing was called yet");
    let id = run["id"].as_str().expect("an id");
    let cancelled = world.agents.data(&["run", "cancel", id]);
    assert_eq!(cancelled["run"]["error_code"], "CA-1024");
    assert_eq!(cancelled["run"]["usage"]["model_calls"], 1);
}

#[test]
fn a_drawing_in_json_is_one_document() {
    let world = World::new();
    let data = world.agents.data(&["actor", "graph", "local/five"]);
    let drawing = data["drawing"].as_str().expect("text");
    assert!(
        drawing.starts_with("local/five (graph, 5 nodes)"),
        "{drawing}"
    );
    let plain = world.agents.run(&["actor", "graph", "local/five"]);
    assert_eq!(plain.out, drawing);
}
