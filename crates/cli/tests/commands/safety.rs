//! `safety`: profiles, the limits in effect, and their sources.

use cleveragents_testkit::Agents;
use serde_json::Value;

use super::{agents, assert_shown, shown};

const TEAM: &str = "name: team/ours
description: What we agreed on
denied_tools: [builtin/shell]
max_total_cost: 2.5
guards: {max_tool_calls_per_step: 8}
";

fn write_project_profile(agents: &Agents) {
    let folder = agents.cwd().join(".cleveragents");
    std::fs::create_dir_all(&folder).expect("a folder");
    let config = "[safety]\nprofile = \"team.yaml\"\nallow-tools = \"builtin/*, local/x\"\n";
    std::fs::write(folder.join("config.toml"), config).expect("a file");
    std::fs::write(agents.cwd().join("team.yaml"), TEAM).expect("a file");
}

#[test]
fn safety_list() {
    assert_shown("safety_list", &shown(|_| (), &["safety", "list"]));
}

#[test]
fn safety_show() {
    let careful = ["safety", "show", "careful"];
    assert_shown("safety_show_a_profile", &shown(|_| (), &careful));
    let options = [
        "safety",
        "show",
        "--deny-tool",
        "local/*",
        "--max-calls",
        "3",
    ];
    assert_shown(
        "safety_show_in_force",
        &shown(write_project_profile, &options),
    );
}

fn in_force(agents: &Agents, options: &[&str]) -> Value {
    agents.data(&[&["safety", "show"], options].concat())["in_force"].clone()
}

#[test]
fn the_standard_profile_is_the_default_and_a_project_restricts_it() {
    let agents = agents();
    let standard = in_force(&agents, &[]);
    assert_eq!(standard["profile"]["allow_unsafe_tools"], false);
    assert_eq!(standard["profile"]["require_sandbox"], true);
    assert_eq!(standard["said"][0]["level"], "default");
    let set = [
        "config",
        "set",
        "--project",
        "safety.profile",
        "unrestricted",
    ];
    agents.data(&set);
    // Settings in the repository can restrict the limits but not extend them.
    let narrowed = in_force(&agents, &[]);
    assert_eq!(narrowed["profile"], standard["profile"]);
    assert_eq!(narrowed["said"].as_array().expect("a list").len(), 2);
    // Users may choose a profile in their own configuration file or for one command.
    agents.data(&["config", "set", "safety.profile", "unrestricted"]);
    let chosen = in_force(&agents, &[]);
    assert_eq!(chosen["profile"]["allow_unsafe_tools"], true);
    // An option restricts the chosen profile further.
    let careful = in_force(&agents, &["--safety", "read-only"]);
    assert_eq!(careful["profile"]["allow_changes"], false);
    assert_eq!(careful["profile"]["allow_unsafe_tools"], false);
}

#[test]
fn every_level_applies() {
    let agents = agents().with("CLEVERAGENTS_SAFETY_DENY_TOOLS", "builtin/git-*");
    write_project_profile(&agents);
    agents.data(&["config", "set", "safety.max-calls", "5"]);
    agents.data(&["config", "set", "safety.approve-writes", "true"]);
    let file = std::fs::read_to_string(agents.config_file()).expect("a file");
    assert!(file.contains("approve-writes = true"), "{file}");
    let limits = in_force(&agents, &["--allow-tool", "builtin/file-*"]);
    let guards = &limits["guards"];
    assert_eq!(
        guards["tool_denylist"],
        serde_json::json!(["builtin/git-*"])
    );
    let lists = serde_json::json!([["builtin/file-*"], ["builtin/*", "local/x"]]);
    assert_eq!(guards["tool_allowlist"], lists);
    assert_eq!(
        guards["max_tool_calls_per_step"], 5,
        "the smaller of 5 and 8"
    );
    assert_eq!(guards["require_approval_for_writes"], true);
    assert_eq!(limits["profile"]["max_total_cost"], 2.5);
    // A path in a project file is relative to the project folder, wherever the command runs.
    let inner = agents.cwd().join("deep/inside");
    std::fs::create_dir_all(&inner).expect("a folder");
    let output = agents
        .command(["--format", "json", "safety", "show"])
        .current_dir(&inner)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
}
