//! Modes of tasks, rules of projects, and `apply --pr`, in a repository that is the working folder.

use std::path::PathBuf;
use std::process::Command;

use cleveragents_testkit::{Agents, Answer};

use super::agents;

fn git(agents: &Agents, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(arguments)
        .current_dir(repository(agents))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn repository(agents: &Agents) -> PathBuf {
    agents.cwd().join("shop")
}

/// A home with a repository of one commit.
fn with_repository() -> Agents {
    let agents = agents();
    std::fs::create_dir(repository(&agents)).expect("a folder");
    git(&agents, &["init", "-q", "-b", "main"]);
    std::fs::write(repository(&agents).join("price.txt"), "wrong\n").expect("a file");
    git(&agents, &["add", "."]);
    git(&agents, &["commit", "-q", "-m", "first"]);
    agents
}

/// Runs a command in the repository.
fn run(agents: &Agents, arguments: &[&str]) -> Answer {
    let output = agents
        .command(arguments)
        .current_dir(repository(agents))
        .output()
        .expect("the program starts");
    Answer::from_output(&output)
}

fn do_task(agents: &Agents, task: &str, options: &[&str]) -> Answer {
    let task = ["do", task, "--strategy-actor", "builtin/deterministic"];
    run(agents, &[&task, options].concat())
}

const WRITE: &str = "write `right` to `price.txt`";

fn price(agents: &Agents) -> String {
    std::fs::read_to_string(repository(agents).join("price.txt")).expect("a file")
}

#[test]
fn mode_plan_stops_after_the_strategy_and_changes_nothing() {
    let agents = with_repository();
    for options in [&["--mode", "plan"][..], &[]] {
        if options.is_empty() {
            agents.data(&["config", "set", "core.mode", "plan"]);
        }
        let answer = do_task(&agents, WRITE, options);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let text = answer.out + &answer.err;
        assert!(text.contains("no file was changed"), "{text}");
        assert_eq!(price(&agents), "wrong\n");
        let shown = run(&agents, &["--format", "json", "status"]).json();
        assert_eq!(shown["data"]["stage"], "strategize/complete", "{shown:#}");
    }
    // The strategy can still be executed on request.
    let executed = run(&agents, &["execute"]);
    assert_eq!(executed.code, Some(0), "{executed:?}");
}

#[test]
fn mode_edit_executes_and_asks_before_apply_and_mode_auto_applies() {
    let agents = with_repository();
    let answer = do_task(&agents, WRITE, &["--mode", "edit"]);
    assert_eq!(answer.code, Some(5), "{answer:?}");
    assert_eq!(price(&agents), "wrong\n");
    let shown = run(&agents, &["status"]);
    assert!(shown.out.contains("Mode"), "{shown:?}");
    assert!(
        shown.out.contains("edit (works in the sandbox"),
        "{shown:?}"
    );
    run(&agents, &["plan", "cancel", "--yes"]);

    let answer = do_task(&agents, WRITE, &["--mode", "auto"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(price(&agents).trim(), "right");
    let both = ["--mode", "auto", "--automation-profile", "ci"];
    assert_eq!(do_task(&agents, WRITE, &both).code, Some(2));
}

#[test]
fn a_failed_check_prevents_the_apply_in_mode_auto() {
    let agents = with_repository();
    let answer = do_task(&agents, WRITE, &["--mode", "auto", "--check", "false"]);
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert_eq!(price(&agents), "wrong\n");
}

#[test]
fn the_rules_of_a_project_deny_what_the_user_allows() {
    let agents = with_repository();
    agents.data(&["permission", "allow", "file-write(price.txt)"]);
    let folder = repository(&agents).join(".cleveragents");
    std::fs::create_dir(&folder).expect("a folder");
    let rules = "rules = [\n  \"allow shell\",\n  \"deny file-write(price.*)\",\n]\n";
    std::fs::write(folder.join("rules.toml"), rules).expect("a file");
    let listed = run(&agents, &["--format", "json", "permission", "list"]).json();
    let project = &listed["data"]["project"]["rules"];
    assert_eq!(project[0]["rule"], "deny builtin/file-write(price.*)");
    assert_eq!(project[0]["line"], 3);
    assert_eq!(listed["data"]["summary"]["total"], 1);
    let plain = run(&agents, &["permission", "list"]);
    let text = plain.out + &plain.err;
    assert!(
        text.contains("line 2: `allow builtin/shell` has no effect"),
        "{text}"
    );

    let answer = do_task(&agents, WRITE, &["--mode", "auto"]);
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert_eq!(price(&agents), "wrong\n");
    let text = answer.out + &answer.err;
    assert!(text.contains("deny builtin/file-write(price.*)"), "{text}");

    // A file that cannot be read is not ignored.
    std::fs::write(folder.join("rules.toml"), "rules = [\"denny x\"]").expect("a file");
    let answer = do_task(&agents, WRITE, &["--mode", "auto"]);
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert_eq!(price(&agents), "wrong\n");
    std::fs::remove_file(folder.join("rules.toml")).expect("removed");
    let answer = do_task(&agents, WRITE, &["--mode", "auto"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(price(&agents).trim(), "right");
}

#[test]
fn apply_pr_pushes_the_branch_and_fails_without_a_hosting_service() {
    let agents = with_repository();
    let remote = agents.cwd().join("remote.git");
    let path = remote.display().to_string();
    git(&agents, &["init", "-q", "--bare", "-b", "main", &path]);
    git(&agents, &["remote", "add", "origin", &path]);
    git(&agents, &["push", "-q", "origin", "main"]);
    let executed = do_task(&agents, WRITE, &["--mode", "edit"]);
    assert_eq!(executed.code, Some(5), "{executed:?}");
    for round in ["first", "again"] {
        let answer = run(&agents, &["apply", "--pr", "--yes"]);
        assert_eq!(answer.code, Some(1), "{round}: {answer:?}");
        let text = format!("{}{}", answer.out, answer.err);
        assert!(text.contains("CA-0662"), "{round}: {text}");
        assert_eq!(
            text.contains("$ git push"),
            round == "first",
            "{round}: {text}"
        );
    }
    let branches = git(&agents, &["ls-remote", "--heads", "origin"]);
    let branch = branches
        .lines()
        .find_map(|line| line.split_once("refs/heads/agents/"))
        .map(|(_, name)| format!("agents/{name}"))
        .expect("the branch is pushed");
    assert_eq!(
        git(&agents, &["show", &format!("{branch}:price.txt")]),
        "right"
    );
    assert_eq!(git(&agents, &["branch", "--show-current"]), "main");
    assert_eq!(price(&agents), "wrong\n");
    let shown = run(&agents, &["status"]);
    assert!(shown.out.contains(&branch), "{shown:?}");
    let undone = run(&agents, &["undo", "--yes"]);
    assert_ne!(undone.code, Some(0));
    assert!(
        undone.err.contains(&format!("git branch -D {branch}")),
        "{undone:?}"
    );
    let refused = run(&agents, &["apply", "--pr", "--branch", "other", "--yes"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
}
