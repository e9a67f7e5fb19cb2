//! Completion of command lines: names of existing objects, through the program and through Bash.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cleveragents_testkit::Agents;

use super::{agents, files, with_weekly};

/// Candidates for the last word, with their descriptions.
fn candidates(agents: &Agents, words: &[&str]) -> Vec<(String, String)> {
    let index = (words.len() - 1).to_string();
    let request = ["__complete", "fish", &index, "--"];
    let answer = agents.run(&[request.as_slice(), words].concat());
    assert_eq!(
        (answer.code, answer.err.as_str()),
        (Some(0), ""),
        "{words:?}"
    );
    let lines = answer.out.lines().map(|line| {
        let (name, description) = line.split_once('\t').unwrap_or((line, ""));
        (name.to_owned(), description.to_owned())
    });
    lines.collect()
}

/// Candidates without descriptions; options only if the word begins with a dash.
fn names(agents: &Agents, words: &[&str]) -> Vec<String> {
    let is_option = words.last().is_some_and(|word| word.starts_with('-'));
    let found = candidates(agents, words).into_iter();
    found
        .map(|(name, _)| name)
        .filter(|name| is_option || !name.starts_with('-'))
        .collect()
}

/// A home with a plan of `agents do`, and the id of the plan.
fn with_plan() -> (Agents, String) {
    let agents = with_weekly();
    std::fs::write(agents.cwd().join("notes.txt"), "old\n").expect("a file");
    let task = "write `new` to `notes.txt`";
    let planned = agents.run(&[
        "do",
        task,
        "--strategy-actor",
        "builtin/deterministic",
        "--mode",
        "plan",
    ]);
    assert!(matches!(planned.code, Some(0 | 5)), "{planned:?}");
    let listed = agents.data(&["plan", "list"]);
    let id = listed["plans"][0]["plan_id"].as_str().expect("an id");
    (agents, id.to_owned())
}

#[test]
fn commands_options_and_values_are_completed() {
    let agents = agents();
    assert_eq!(names(&agents, &["agents", "sess"]), ["session"]);
    let verbs = names(&agents, &["agents", "session", ""]);
    assert!(verbs.contains(&"append".to_owned()), "{verbs:?}");
    assert!(verbs.iter().all(|verb| !verb.starts_with('-')), "{verbs:?}");
    let options = names(&agents, &["agents", "session", "append", "--j"]);
    assert_eq!(options, ["--jsonl"]);
    let modes = names(&agents, &["agents", "do", "x", "--mode", ""]);
    assert_eq!(modes, ["plan", "ask", "edit", "auto"]);
    let keys = names(&agents, &["agents", "config", "get", "core.f"]);
    assert_eq!(keys, ["core.format"]);
    let codes = candidates(&agents, &["agents", "explain", "CA-0301"]);
    assert!(codes[0].1.contains("session"), "{codes:?}");
}

#[test]
fn plans_are_completed_with_the_words_of_their_tasks() {
    let (agents, id) = with_plan();
    for line in [
        vec!["agents", "status", ""],
        vec!["agents", "plan", "diff", ""],
        vec!["agents", "plan", "prompt", &id[..4]],
    ] {
        let found = candidates(&agents, &line);
        assert_eq!(found.len(), 1, "{line:?}: {found:?}");
        let (name, description) = &found[0];
        assert!(
            id.starts_with(name.as_str()) && name.len() >= 8,
            "{found:?}"
        );
        assert!(description.contains("notes.txt"), "{found:?}");
    }
    // A longer prefix than the listed one is completed to the whole id, and may have small letters.
    let typed = id[..20].to_lowercase();
    assert_eq!(names(&agents, &["agents", "status", &typed]), [id]);
}

#[test]
fn other_objects_are_completed_by_name() {
    let (agents, _) = with_plan();
    agents.data(&["sandbox", "create", "fix", "--path", "notes.txt"]);
    agents.data(&["project", "create", "local/shop"]);
    let found = |line: &[&str]| names(&agents, line);
    assert_eq!(found(&["agents", "sandbox", "diff", "f"]), ["fix"]);
    assert_eq!(found(&["agents", "session", "show", "week"]), ["weekly"]);
    assert_eq!(found(&["agents", "--resume", "week"]), ["weekly"]);
    assert_eq!(
        found(&["agents", "project", "show", "local/s"]),
        ["local/shop"]
    );
    assert_eq!(
        found(&["agents", "chat", "--project", "local/s"]),
        ["local/shop"]
    );
    let profiles = found(&["agents", "do", "x", "--automation-profile", "tr"]);
    assert_eq!(profiles, ["trusted"]);
    // Names of new objects are not completed.
    assert_eq!(found(&["agents", "project", "create", "local/s"]), [""; 0]);
}

#[test]
fn a_completion_writes_nothing_and_is_silent() {
    let (agents, _) = with_plan();
    let folder = agents.home().parent().expect("a parent").to_owned();
    let all = || {
        let mut all = files(&folder);
        all.retain(|path, _| !path.ends_with("-shm"));
        all
    };
    let before = all();
    assert_eq!(names(&agents, &["agents", "status", ""]).len(), 1);
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        all().keys().collect::<Vec<_>>()
    );
    assert!(before == all(), "a file changed");
    // Damaged databases, and homes that do not exist, complete nothing.
    std::fs::write(agents.database(), "damaged").expect("written");
    assert_eq!(names(&agents, &["agents", "status", ""]), [""; 0]);
    std::fs::remove_dir_all(agents.home()).expect("removed");
    assert_eq!(names(&agents, &["agents", "sandbox", "diff", ""]), [""; 0]);
    assert!(!agents.home().exists(), "a completion creates no home");
}

#[test]
fn wrong_requests_print_nothing() {
    let agents = agents();
    for request in [
        &["__complete"][..],
        &["__complete", "bash"],
        &["__complete", "bash", "x", "--", "agents", ""],
        &["__complete", "ksh", "1", "--", "agents", ""],
        &["__complete", "bash", "1", "agents", ""],
    ] {
        let answer = agents.run(request);
        assert_eq!(
            (answer.code, answer.out.as_str(), answer.err.as_str()),
            (Some(0), "", "")
        );
    }
}

#[test]
fn a_completion_does_not_wait_for_a_database_that_does_not_answer() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let agents = agents();
    let url = format!("postgres://ada@127.0.0.1:{port}/agents");
    agents.data(&["config", "set", "core.database-url", &url]);
    let started = Instant::now();
    assert_eq!(names(&agents, &["agents", "sandbox", "diff", ""]), [""; 0]);
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn the_bash_script_completes_a_line() {
    let (agents, id) = with_plan();
    let script = agents.run(&["completion", "bash"]).out;
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_agents"));
    let folder = folder.parent().expect("a folder").display();
    let test = format!(
        "PATH='{folder}':$PATH\n{script}\n\
         COMP_WORDS=(agents status ''); COMP_CWORD=2; _agents; echo \"${{COMPREPLY[*]}}\"\n\
         COMP_WORDS=(agents do x --mode = pl); COMP_CWORD=5; _agents; echo \"${{COMPREPLY[*]}}\"\n\
         complete -p agents\n"
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &test]).stdin(Stdio::null());
    let home = agents.home().as_os_str();
    let output = bash
        .env("CLEVERAGENTS_HOME", home)
        .current_dir(agents.cwd())
        .output();
    let Ok(output) = output else {
        cleveragents_testkit::not_run("completion in Bash", "there is no bash");
        return;
    };
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        id.starts_with(lines[0]) && lines[0].len() >= 8,
        "{output:?}"
    );
    assert_eq!(lines[1], "plan", "{output:?}");
    assert!(lines[2].contains("-F _agents"), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
