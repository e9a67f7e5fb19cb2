//! `automation-profile`: built-in and custom profiles, and where they are used.

use cleveragents_testkit::Agents;
use serde_json::json;

use super::{agents, assert_shown, shown};

fn write(agents: &Agents, name: &str, text: &str) {
    std::fs::write(agents.cwd().join(name), text).expect("a file");
}

const CAREFUL: &str = "name: local/careful
description: Asks when it is not sure
extends: trusted
edit_code: 0.6
guards: {tool_denylist: [builtin/shell], max_total_cost: 2}
";

fn write_profile(agents: &Agents) {
    write(agents, "careful.yaml", CAREFUL);
}

fn add_profile(agents: &Agents) {
    write_profile(agents);
    agents.data(&["automation-profile", "add", "--config", "careful.yaml"]);
}

#[test]
fn automation_profile_commands() {
    let add = ["automation-profile", "add", "--config", "careful.yaml"];
    assert_shown("automation_profile_add", &shown(write_profile, &add));
    let list = ["automation-profile", "list"];
    assert_shown("automation_profile_list", &shown(add_profile, &list));
    let show = ["automation-profile", "show", "careful"];
    assert_shown("automation_profile_show", &shown(add_profile, &show));
    let remove = ["automation-profile", "remove", "careful", "--yes"];
    assert_shown("automation_profile_remove", &shown(add_profile, &remove));
}

#[test]
fn a_list_can_be_filtered() {
    let agents = agents();
    add_profile(&agents);
    let listed = |pattern: &str| {
        let data = agents.data(&["automation-profile", "list", pattern]);
        data["summary"]["total"].as_u64().expect("a number")
    };
    assert_eq!(
        (listed("^local/"), listed("auto"), listed("zzz")),
        (1, 2, 0)
    );
    let wrong = agents.run(&["automation-profile", "list", "("]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

/// Report 6231: a missing profile was silently replaced by another.
#[test]
fn defect_6231_a_missing_profile_is_never_replaced_by_another() {
    let agents = agents();
    add_profile(&agents);
    for (arguments, code) in [
        (&["automation-profile", "show", "trustd"][..], "CA-1111"),
        (&["automation-profile", "show", "local/carefull"], "CA-1111"),
        (
            &["automation-profile", "remove", "none", "--yes"],
            "CA-1111",
        ),
        (
            &["project", "create", "x", "--automation-profile", "carful"],
            "CA-1111",
        ),
        (
            &["config", "set", "core.automation-profile", "trustd"],
            "CA-0111",
        ),
    ] {
        let answer = agents.run(arguments);
        assert!(answer.err.contains(code), "{arguments:?}: {answer:?}");
        assert!(
            answer.err.contains("full-auto"),
            "the error lists all profiles: {answer:?}"
        );
    }
    let projects = agents.data(&["project", "list"]);
    assert_eq!(projects["projects"], json!([]));
}

#[test]
fn a_missing_profile_cannot_become_the_default() {
    let agents = agents();
    let set = |name: &str| agents.run(&["config", "set", "core.automation-profile", name]);
    for has_profile in [false, true] {
        if has_profile {
            add_profile(&agents);
        }
        for name in ["local/carefull", "team/trusted"] {
            let refused = set(name);
            assert_eq!(refused.code, Some(3), "{refused:?}");
            assert!(refused.err.contains("CA-1111"), "{refused:?}");
            let is_reported = refused.err.contains("did you mean `local/careful`?");
            let is_similar = has_profile && name == "local/carefull";
            assert_eq!(is_reported, is_similar, "{refused:?}");
            let now = agents.data(&["config", "get", "core.automation-profile"]);
            assert_eq!(now["value"], "supervised");
        }
    }
    for name in ["local/careful", "trusted"] {
        assert_eq!(set(name).code, Some(0), "{name}");
    }
}

/// Every command reads the variable; only commands that need the profile look it up.
#[test]
fn a_missing_profile_in_the_environment_creates_no_plan() {
    let mut agents = agents();
    std::fs::create_dir(agents.cwd().join("src")).expect("a folder");
    agents.data(&[
        "resource",
        "add",
        "fs-directory",
        "local/src",
        "--path",
        "src",
    ]);
    agents.data(&["project", "create", "shop", "--resource", "local/src"]);
    let action = "name: local/fix\ndescription: d\ndefinition_of_done: d\n\
                  strategy_actor: builtin/deterministic\n";
    write(&agents, "fix.yaml", action);
    agents.data(&["action", "create", "--config", "fix.yaml"]);
    agents = agents.with("CLEVERAGENTS_AUTOMATION_PROFILE", "team/careful");
    let refused = agents.run(&["plan", "use", "fix", "shop"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("CA-1111"), "{refused:?}");
    assert!(refused.err.contains("team/careful"), "{refused:?}");
    assert_eq!(agents.data(&["plan", "list"])["plans"], json!([]));
}

#[test]
fn a_profile_in_use_cannot_be_removed() {
    let agents = agents();
    add_profile(&agents);
    let remove = |agents: &Agents| {
        let answer = agents.run(&["automation-profile", "remove", "local/careful", "--yes"]);
        (answer.code, answer.err)
    };
    let refused = |user: &str| {
        let (code, reported) = remove(&agents);
        assert_eq!(code, Some(4), "{reported}");
        assert!(
            reported.contains("CA-1116") && reported.contains(user),
            "{reported}"
        );
    };
    agents.data(&[
        "project",
        "create",
        "shop",
        "--automation-profile",
        "careful",
    ]);
    refused("the project `local/shop`");
    agents.data(&["project", "delete", "shop", "--yes"]);
    write(&agents, "b.yaml", "name: b\nextends: careful\n");
    agents.data(&["automation-profile", "add", "--config", "b.yaml"]);
    refused("the automation profile `local/b`");
    agents.data(&["automation-profile", "remove", "b", "--yes"]);
    agents.data(&["config", "set", "core.automation-profile", "local/careful"]);
    refused("core.automation-profile");
    agents.data(&["config", "unset", "core.automation-profile"]);
    let action =
        "name: local/fix\ndescription: d\ndefinition_of_done: d\nautomation_profile: careful\n";
    write(&agents, "fix.yaml", action);
    agents.data(&["action", "create", "--config", "fix.yaml"]);
    refused("the action `local/fix`");
    let built_in = agents.run(&["automation-profile", "remove", "manual", "--yes"]);
    assert!(built_in.err.contains("CA-1115"), "{built_in:?}");
}

#[test]
fn profiles_that_extend_each_other_stay_valid() {
    let agents = agents();
    add_profile(&agents);
    write(
        &agents,
        "b.yaml",
        "name: b\nextends: careful\nselect_tool: 0.9\n",
    );
    agents.data(&["automation-profile", "add", "--config", "b.yaml"]);
    let shown = agents.data(&["automation-profile", "show", "b"]);
    assert_eq!(shown["decision_automation"]["edit_code"], 0.6);
    assert_eq!(shown["guards"]["max_total_cost"], 2.0);
    // A refused cycle changes nothing.
    write(&agents, "careful.yaml", "name: careful\nextends: b\n");
    let add = [
        "automation-profile",
        "add",
        "--config",
        "careful.yaml",
        "--update",
    ];
    let cycle = agents.run(&add);
    assert!(cycle.err.contains("CA-1114"), "{cycle:?}");
    let again = agents.run(&add[..4]);
    assert_ne!(again.code, Some(0), "{again:?}");
    write_profile(&agents);
    let exists = agents.run(&add[..4]);
    assert!(exists.err.contains("CA-1112"), "{exists:?}");
    assert_eq!(agents.data(&["automation-profile", "show", "b"]), shown);
}

#[test]
fn a_gate_without_effect_is_not_changed_by_extension() {
    let agents = agents();
    for (gate, reason) in [
        ("install_dependency", "child plans start without asking"),
        ("approve_plan", "only when the user requests"),
    ] {
        write(
            &agents,
            "idle.yaml",
            &format!("name: idle\nextends: trusted\n{gate}: 0.5\n"),
        );
        let add = ["automation-profile", "add", "--config", "idle.yaml"];
        let refused = agents.run(&add);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let reported = &refused.err;
        assert!(
            reported.contains(gate) && reported.contains(reason),
            "{refused:?}"
        );
        assert!(reported.contains(":3:"), "{refused:?}");
    }
    // Values equal to the inherited values are accepted.
    write(
        &agents,
        "idle.yaml",
        "name: idle\nextends: trusted\ninstall_dependency: 0\napprove_plan: 1\n",
    );
    agents.data(&["automation-profile", "add", "--config", "idle.yaml"]);
}
