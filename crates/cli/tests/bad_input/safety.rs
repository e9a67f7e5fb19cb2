//! Safety profiles, guards and their configuration keys.

use super::{agents, refuse};

#[test]
fn invalid_profiles_and_guards_are_refused_before_anything_runs() {
    let agents = agents();
    let write = |name: &str, text: &str| {
        std::fs::write(agents.cwd().join(name), text).expect("a file");
    };
    write("broken.yaml", "name: x\nrequire_sandbocks: true\n");
    write("wrong.yaml", "denied_tools: [shell]\n");
    write("long.yaml", &"# \n".repeat(1 << 19));
    std::fs::create_dir(agents.cwd().join("folder.yaml")).expect("a folder");
    let run = ["tool", "run", "builtin/dir-list", "--safety"];
    let cases: [(&[&str], i32, &str); 12] = [
        (&["safety", "show", "carefull"], 3, "CA-0922"),
        (&["safety", "show", ""], 3, "CA-0922"),
        (&["safety", "show", "none.yaml"], 1, "CA-0105"),
        (&["safety", "show", "folder.yaml"], 1, "CA-0105"),
        (&["safety", "show", "/dev/zero"], 1, "CA-0105"),
        (&["safety", "show", "broken.yaml"], 2, "CA-0920"),
        (&["safety", "show", "./wrong.yaml"], 2, "CA-0921"),
        (&["safety", "show", "long.yaml"], 2, "CA-0920"),
        (&[&run[..], &["broken.yaml"]].concat(), 2, "CA-0920"),
        (
            &["tool", "run", "builtin/dir-list", "--deny-tool", "shell"],
            2,
            "CA-0906",
        ),
        (
            &["tool", "run", "builtin/dir-list", "--max-calls", "-1"],
            2,
            "CA-0101",
        ),
        (
            &["config", "set", "safety.deny-tools", "shell"],
            2,
            "CA-0111",
        ),
    ];
    for (arguments, exit, code) in cases {
        refuse(&agents, arguments).with(exit, code);
    }
}

/// A project whose safety settings cannot be read blocks every call.
#[test]
fn a_project_with_a_broken_profile_blocks_every_call() {
    let agents = agents();
    let folder = agents.cwd().join(".cleveragents");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (profile, exit, code) in [
        ("none.yaml", 1, "CA-0105"),
        ("nothing-like-it", 3, "CA-0922"),
    ] {
        let config = format!("[safety]\nprofile = \"{profile}\"\n");
        std::fs::write(folder.join("config.toml"), config).expect("a file");
        let run = ["tool", "run", "builtin/dir-list", "--safety", "standard"];
        refuse(&agents, &run).with(exit, code);
    }
}
