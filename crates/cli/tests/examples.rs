//! Runs everything that the documentation asks users to try: each file in `examples/` by the
//! commands in it, and the commands of the README and the tutorials in order.
//!
//! A line `# run: COMMAND` in an example is a command, relative to the folder above `examples/`; a
//! line `# type: TEXT` below it is typed at the terminal while it runs. Each file has a separate
//! home. A file without such a line must be mentioned in another example.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_testkit::{Agents, Answer};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below `examples/` with its content, by path.
fn examples() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec!["examples".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            let path = format!("{folder}/{name}");
            if entry.path().is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(entry.path()).expect("a text");
                found.insert(path, text);
            }
        }
    }
    assert!(!found.is_empty(), "there are examples");
    found
}

/// A home with a copy of the examples in its working folder.
fn agents_with_examples() -> Agents {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    for (path, text) in examples() {
        let place = agents.cwd().join(path);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::write(place, text).expect("written");
    }
    agents
}

/// A command of an example, and the text typed while it runs.
struct Line {
    words: Vec<String>,
    typed: Option<String>,
}

fn lines(path: &str, text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("# run: agents ") {
            lines.push(Line {
                words: words(command),
                typed: None,
            });
        } else if let Some(typed) = line.strip_prefix("# type: ") {
            let last = lines.last_mut();
            last.expect("something runs").typed = Some(format!("{typed}\n"));
        } else {
            assert!(!line.starts_with("# run:"), "{path}: {line}");
        }
    }
    lines
}

/// Splits a command into words; single quotes keep spaces.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in command.split('\'').enumerate() {
        if number % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

fn run(agents: &Agents, line: &Line) -> Answer {
    let words = line.words.iter().map(String::as_str);
    let arguments: Vec<&str> = ["--format", "json"].into_iter().chain(words).collect();
    match &line.typed {
        Some(typed) => agents.run_on_terminal(&arguments, typed),
        None => agents.run(&arguments),
    }
}

/// The answer in the output of a command.
fn answer_of(answer: &Answer, words: &[String]) -> Option<String> {
    let data = &answer.json()["data"];
    let answered = match (words[0].as_str(), words[1].as_str()) {
        ("actor", "run") => &data["response"]["text"],
        ("tool", "run") => &data["output"],
        ("action", "show") => &data["action"]["arguments"],
        ("skill", "tools") => &data["tools"],
        ("plan", "diff") => &data["files"],
        ("plan", "apply") => &data["parts"],
        ("validation", "show") => &data["validation"],
        ("validation", "run") => &data["message"],
        ("automation-profile", "show") => &data["guards"],
        _ => return None,
    };
    Some(match answered.as_str() {
        Some(text) => text.to_owned(),
        None => answered.to_string(),
    })
}

#[test]
fn every_example_runs() {
    let mut covered = Vec::new();
    for (path, text) in examples() {
        let lines = lines(&path, &text);
        if lines.is_empty() {
            continue;
        }
        let agents = agents_with_examples();
        let mut answers = 0;
        for line in &lines {
            let answer = run(&agents, line);
            let what = format!("{path}: {:?}", line.words);
            assert_eq!(answer.code, Some(0), "{what}: {answer:?}");
            if let Some(answered) = answer_of(&answer, &line.words) {
                let is_empty = ["", "null", "[]", "{}"].contains(&answered.trim());
                assert!(!is_empty, "{what}: {answer:?}");
                answers += 1;
            }
            covered.extend(line.words.iter().cloned());
        }
        assert!(answers > 0, "{path} only prepares something");
        covered.push(text);
        covered.push(path);
    }
    for path in examples().into_keys() {
        let is_covered = covered.iter().any(|named| {
            let is_below = named.starts_with("examples/") && path.starts_with(named.as_str());
            is_below || named.contains(&path)
        });
        assert!(is_covered, "nothing runs {path}: give it a line `# run: …`");
    }
}

/// Shell commands below a heading of a page.
fn commands(page: &str, heading: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).expect("a page");
    let (_, section) = text.split_once(heading).expect("the heading");
    let section = section.split("\n## ").next().unwrap_or(section);
    let blocks: Vec<&str> = section
        .split("```sh\n")
        .skip(1)
        .filter_map(|block| Some(block.split_once("```")?.0))
        .collect();
    assert!(!blocks.is_empty(), "{page}: {heading} has commands");
    blocks.concat()
}

/// Runs commands in one shell, up to the first failure.
fn shell(agents: &Agents, script: &str) -> Answer {
    let program = Path::new(env!("CARGO_BIN_EXE_agents"));
    let folder = program.parent().expect("a folder").display().to_string();
    let before = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.env_clear();
    for (name, value) in agents.command([""; 0]).get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    let output = shell
        .env("PATH", format!("{folder}:{before}"))
        .current_dir(agents.cwd())
        .args(["-euc", script])
        .output();
    Answer::from_output(&output.expect("a shell"))
}

#[test]
fn the_actors_of_the_guide_run_in_an_empty_folder() {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    let answer = shell(
        &agents,
        &commands("docs/how-to/actor-runs.md", "\n## Try it\n"),
    );
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("Do not merge"), "{answer:?}");
    let run = &agents.data(&["run", "list"])["runs"][0];
    assert_eq!(run["state"], "complete");
}

#[test]
fn the_commands_of_the_tutorial_run() {
    let agents = agents_with_examples();
    let page = "docs/tutorials/code-review.md";
    let answer = shell(&agents, &commands(page, "\n## Run it\n"));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(
        answer.out.contains("A password would end up in the log."),
        "{answer:?}"
    );
    // The drawing on the page is the one that the program draws.
    let text = std::fs::read_to_string(root().join(page)).expect("a page");
    let (_, drawing) = text
        .split_once("```text\nlocal/code-review")
        .expect("a drawing");
    let drawing = drawing.split_once("```").expect("its end").0;
    let drawn = agents.run(&["actor", "graph", "local/code-review"]);
    assert_eq!(drawn.out, format!("local/code-review{drawing}"));
}

#[test]
fn the_first_plan_of_the_readme_becomes_a_commit_and_is_undone_in_an_empty_folder() {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    let answer = shell(&agents, &commands("README.md", "\n## Your first plan\n"));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("greeting.txt | 1 +"), "{answer:?}");
    assert!(answer.out.contains("greeting.txt | 1 -"), "{answer:?}");
    assert!(!agents.cwd().join("greeting.txt").exists());
    let plan = &agents.data(&["plan", "list"])["plans"][0];
    assert_eq!(plan["state"], "applied");
}

#[test]
fn the_commands_of_the_tutorial_about_child_plans_run() {
    let agents = agents_with_examples();
    let page = "docs/tutorials/divide-and-correct.md";
    let answer = shell(&agents, &commands(page, "\n## Try it\n"));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    // The conflict, the preview of the correction, and the applied files.
    for reported in [
        "it needs you",
        "Correction Preview",
        "Buenos",
        "French, German, Italian",
    ] {
        assert!(answer.out.contains(reported), "`{reported}`: {answer:?}");
    }
    let plan = &agents.data(&["plan", "list"])["plans"][0];
    assert_eq!(plan["state"], "applied");
}

#[test]
fn the_commands_of_the_tutorial_about_plans_run() {
    let agents = agents_with_examples();
    let page = "docs/tutorials/first-plan.md";
    let answer = shell(&agents, &commands(page, "\n## Try it\n"));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    // The plan fails its test, waits for approval, fixes the code, and finally the test passes in
    // the user's folder.
    for reported in ["the test fails", "it needs you", "ok: a price"] {
        assert!(answer.out.contains(reported), "`{reported}`: {answer:?}");
    }
    let code = std::fs::read_to_string(agents.cwd().join("shop/price.sh")).expect("a file");
    assert!(code.contains("9 / 10"), "{code}");
    let log = &agents.data(&["plan", "log"])["events"];
    let rolled_back = log.as_array().expect("events").iter().any(|event| {
        let detail = event["detail"].as_str();
        detail.is_some_and(|detail| detail.contains("it was rolled back"))
    });
    assert!(rolled_back, "{log}");
}

#[test]
fn a_model_used_as_actor_gets_instructions_and_tools() {
    let agents = agents_with_examples();
    let text = &examples()["examples/actions/fix-tests.yaml"];
    let without = text.replace(
        "name: local/fix-tests",
        "name: local/fix\nreview_actor: none",
    );
    std::fs::write(agents.cwd().join("fix.yaml"), without).expect("written");
    let prepare = "agents resource add fs-directory shop --path examples/shop
        agents project create local/shop --resource local/shop
        agents validation add --config examples/validations/tests.yaml
        agents validation attach local/shop local/tests
        agents action create --config fix.yaml
        model=scripted/examples/models/shop.yaml
        agents plan use local/fix local/shop --automation-profile trusted \\
          --strategy-actor $model --execution-actor $model";
    let answer = shell(&agents, prepare);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let patch = agents.data(&["plan", "diff"])["patch"].clone();
    let patch = patch.as_str().expect("a patch");
    assert!(patch.contains("9 / 10"), "{patch}");
    let actors = &agents.data(&["plan", "show"])["actors"];
    assert!(actors["review"].is_null(), "{actors}");
}
