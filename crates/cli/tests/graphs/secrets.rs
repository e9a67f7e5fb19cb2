//! Secrets in a run, from any source, are neither stored nor shown.

use cleveragents_testkit::Agents;

use super::world::World;

const SECRET: &str = "sk-0123456789abcdefghijklmnopqrstuv";

#[test]
fn a_secret_in_inputs_files_and_answers_is_neither_stored_nor_shown() {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents")).with("OPENAI_API_KEY", SECRET);
    let world = World::with(agents);
    let script = format!("answers:\n- {{when: '.', text: 'it is {SECRET}'}}\n");
    std::fs::write(world.agents.cwd().join("leaky.yaml"), script).expect("a file");
    world.add(
        "name: local/leaky\ntype: graph\ndescription: d\nmodel: scripted/leaky.yaml\nnodes:\n  \
         ask: {prompt: '{{ input }} {{ context.key }} {{ more }}', output: said, next: keep}\n  \
         keep: {set: {output: '{{ said }} {{ context.key }} ${OPENAI_API_KEY}'}}\n",
    );
    let file = world.agents.cwd().join("answer.txt");
    let answer = world.run(&[
        "actor",
        "run",
        "local/leaky",
        &format!("the key is {SECRET}"),
        "--set",
        &format!("key={SECRET}"),
        "--input",
        &format!("{{\"more\": [\"{SECRET}\"]}}"),
        "--context",
        "kept",
        "--output",
        file.to_str().expect("a path"),
    ]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let data = answer.json()["data"].clone();
    assert_eq!(
        data["response"]["text"],
        "it is [REDACTED] [REDACTED] [REDACTED]"
    );
    let run = data["actor_run"]["run"].as_str().expect("an id").to_owned();
    for shown in [
        answer.json().to_string(),
        world.show(&run).to_string(),
        std::fs::read_to_string(file).expect("a file"),
    ] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    for entry in std::fs::read_dir(world.agents.home()).expect("a home") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let stored = std::fs::read(&path).expect("a file");
            let has_secret = stored
                .windows(SECRET.len())
                .any(|window| window == SECRET.as_bytes());
            assert!(!has_secret, "{}", path.display());
        }
    }
    let replayed = world.agents.data(&["run", "replay", &run]);
    assert_eq!(replayed["replay"]["is_identical"], true);
}
