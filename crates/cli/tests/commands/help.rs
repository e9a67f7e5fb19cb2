//! Help and completion of every command.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use super::{agents, assert_shown};

/// Subcommands of a command, from its help.
fn commands_below(path: &[String]) -> Vec<Vec<String>> {
    let agents = agents();
    if path.is_empty() {
        // `help` shows only the most used commands; `help --all` lists all.
        let all = agents.run(&["help", "--all"]).out;
        let listed = all.lines().filter_map(|line| line.strip_prefix("  "));
        let names = listed.filter_map(|line| line.split_whitespace().next());
        let names: BTreeSet<&str> = names.collect();
        return names
            .into_iter()
            .map(|name| vec![name.to_owned()])
            .collect();
    }
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let answer = agents.run(&arguments);
    assert_eq!(
        (answer.code, answer.err.as_str()),
        (Some(0), ""),
        "{answer:?}"
    );
    let (description, _) = answer
        .out
        .split_once("\n\n")
        .expect("a description comes first");
    assert!(
        !description.is_empty() && !description.starts_with("Usage"),
        "the help of {path:?} starts with a description: {}",
        answer.out
    );
    let first = description.lines().next().expect("a line");
    assert!(
        !first.ends_with('.'),
        "{path:?}: the first line has no period"
    );
    let options = answer
        .out
        .lines()
        .filter(|line| line.trim_start().starts_with("--"));
    for option in options {
        let is_described =
            option.trim().contains("  ") || answer.out.contains(&format!("{option}\n    "));
        assert!(is_described, "{path:?}: {option} has a description");
    }
    answer
        .out
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| {
            let (name, about) = line.trim().split_once(' ')?;
            assert!(
                !about.trim().is_empty(),
                "{path:?}: {name} has a description"
            );
            (name != "help").then(|| [path, &[name.to_owned()]].concat())
        })
        .collect()
}

#[test]
fn every_command_has_help() {
    let mut seen = Vec::new();
    let mut waiting = vec![Vec::new()];
    while let Some(path) = waiting.pop() {
        waiting.extend(commands_below(&path));
        seen.push(path.join(" "));
    }
    seen.sort_unstable();
    assert_shown("commands", &seen.join("\n"));
}

#[test]
fn commands_with_many_options_have_examples() {
    let agents = agents();
    for path in [
        vec![],
        vec!["session", "create"],
        vec!["session", "list"],
        vec!["session", "append"],
        vec!["session", "messages"],
        vec!["session", "export"],
        vec!["session", "search"],
        vec!["resource", "add"],
        vec!["resource", "list"],
        vec!["resource", "type", "add"],
        vec!["project", "create"],
        vec!["project", "link-resource"],
        vec!["config", "set"],
        vec!["model", "list"],
        vec!["model", "show"],
        vec!["model", "test"],
        vec!["tool", "add"],
        vec!["tool", "list"],
        vec!["tool", "show"],
        vec!["tool", "remove"],
        vec!["tool", "run"],
        vec!["permission", "add"],
        vec!["permission", "list"],
        vec!["permission", "remove"],
        vec!["actor", "add"],
        vec!["actor", "run"],
        vec!["actor", "graph"],
        vec!["run", "list"],
        vec!["run", "resume"],
        vec!["mcp", "add"],
        vec!["schema"],
        vec!["completion"],
    ] {
        let answer = agents.run(&[path.as_slice(), &["--help"]].concat());
        assert!(answer.out.contains("Example"), "{path:?}: {}", answer.out);
    }
}

#[test]
fn the_first_help_names_about_twelve_commands_that_exist() {
    let agents = agents();
    let help = agents.run(&["--help"]).out;
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let names: Vec<&str> = list
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!((10..=14).contains(&names.len()), "{names:?}");
    for name in names {
        assert_eq!(agents.run(&[name, "--help"]).code, Some(0), "{name}");
    }
    let (page, _) = help.split_once("Options:\n").expect("a list of options");
    for line in page.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(help.lines().count() < 70, "{help}");
}

#[test]
fn man_pages_of_all_commands_are_written() {
    let agents = agents();
    let written = agents.data(&["man", "--dir", "man"]);
    let folder = agents.cwd().join("man");
    let pages = std::fs::read_dir(&folder).expect("a folder").count();
    assert_eq!(written["pages"], pages, "{written}");
    assert!(pages > 200, "{pages}");
    let page = std::fs::read_to_string(folder.join("agents-plan-apply.1")).expect("a page");
    for part in [
        ".TH agents-plan-apply 1",
        "\\-\\-branch",
        "agents plan apply 01JX3Q \\-\\-yes",
        ".nf",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!agents.home().exists(), "man pages need no home");
    let Ok(checked) = Command::new("groff")
        .args(["-man", "-Tutf8", "-ww"])
        .arg(folder.join("agents-plan-apply.1"))
        .output()
    else {
        cleveragents_testkit::not_run("groff on a man page", "there is no groff");
        return;
    };
    // groff prints bold text twice, with a backspace between.
    let shown = String::from_utf8_lossy(&checked.stdout).replace('\u{8}', "");
    assert!(
        checked.stderr.is_empty() && shown.contains("NNOOTTEESS"),
        "{checked:?}"
    );
}

#[test]
fn the_short_version_is_one_line() {
    let answer = agents().run(&["--version"]);
    let expected = format!("agents {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((answer.code, answer.out), (Some(0), expected));
}

#[test]
fn completion_scripts_know_the_commands_and_parse() {
    let agents = agents();
    for shell in ["elvish", "powershell"] {
        let answer = agents.run(&["completion", shell]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        for word in ["session", "append", "jsonl", "permission", "diagnostics"] {
            assert!(answer.out.contains(word), "{shell} knows {word}");
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        let answer = agents.run(&["completions", shell]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(
            answer.out.contains(&format!("agents __complete {shell} ")),
            "{answer:?}"
        );
    }
    let script = agents.run(&["completion", "bash"]).out;
    let file = agents.cwd().join("agents.bash");
    std::fs::write(&file, script).expect("a file");
    match Command::new("bash")
        .arg("-n")
        .arg(&file)
        .stdin(Stdio::null())
        .output()
    {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(_) => cleveragents_testkit::not_run("bash -n on the completion", "there is no bash"),
    }
}
