//! Dependency folders, such as `node_modules`: they are in the copy of a repository, are rolled back, and are not part
//! of its result.

use std::path::Path;

use cleveragents_testkit::Agents;
use serde_json::Value;

use super::world::{agents, create, files, git, read, repository, write};

/// A repository whose program needs an ignored package.
fn shop(agents: &Agents) -> std::path::PathBuf {
    let real = agents.cwd().join("shop");
    repository(
        &real,
        &[
            (
                "test.sh",
                "cat node_modules/pad/index.js web/node_modules/x.js\n",
            ),
            (".gitignore", "node_modules/\n.env\ndist/\n"),
            ("web/app.js", "app\n"),
        ],
    );
    write(real.join("node_modules/pad/index.js"), "pad\n");
    write(real.join("node_modules/.bin/pad"), "run\n");
    write(real.join("web/node_modules/x.js"), "x\n");
    write(real.join(".env"), "KEY=secret\n");
    write(real.join("dist/app.js"), "built\n");
    real
}

fn dependencies(agents: &Agents) -> Value {
    let shown = agents.data(&["sandbox", "show", "fix"]);
    shown["sandbox"]["parts"][0]["base"].clone()
}

fn exec(agents: &Agents, script: &str) -> String {
    let words = [
        "sandbox",
        "exec",
        "fix",
        "--unconfined",
        "--",
        "sh",
        "-c",
        script,
    ];
    let answer = agents.run(&words);
    assert_eq!(answer.code, Some(0), "{script}: {answer:?}");
    answer.out
}

#[test]
fn a_program_finds_its_packages_in_the_copy() {
    let agents = agents();
    let real = shop(&agents);
    let part = create(&agents, "fix", &[&real]).remove(0);
    assert_eq!(exec(&agents, "sh test.sh"), "pad\nx\n");
    assert!(!part.join(".env").exists() && !part.join("dist").exists());
    let base = dependencies(&agents);
    assert_eq!(
        base["dependencies"],
        serde_json::json!([
            {"path": "node_modules", "presence": "copied"},
            {"path": "web/node_modules", "presence": "copied"},
        ])
    );
    assert_eq!(base["ignored"], serde_json::json!([".env", "dist/"]));
    assert_eq!(exec(&agents, "git status --porcelain"), "");
}

#[test]
fn changed_packages_are_rolled_back_and_never_applied() {
    let agents = agents();
    let real = shop(&agents);
    let part = create(&agents, "fix", &[&real]).remove(0);
    let before = files(&part);
    write(part.join("node_modules/pad/index.js"), "changed\n");
    write(part.join("node_modules/new/index.js"), "new\n");
    std::fs::remove_file(part.join("web/node_modules/x.js")).expect("removed");
    write(part.join("web/app.js"), "better\n");
    agents.data(&["sandbox", "rollback", "fix", "--to", "1"]);
    assert_eq!(files(&part), before);
    agents.data(&["sandbox", "redo", "fix"]);
    assert_eq!(read(part.join("node_modules/pad/index.js")), "changed\n");
    let diff = agents.data(&["sandbox", "diff", "fix"]);
    assert_eq!(diff["count"], 1, "{diff:#}");
    agents.data(&["sandbox", "apply", "fix"]);
    assert_eq!(read(real.join("web/app.js")), "better\n");
    assert_eq!(read(real.join("node_modules/pad/index.js")), "pad\n");
    assert!(!real.join("node_modules/new").exists());
    assert!(real.join("web/node_modules/x.js").exists());
    assert_eq!(git(&real, &["status", "--porcelain"]), "");
}

/// The original content comes from the user's folder, or is stored before the user's change can be lost.
#[test]
fn rollback_restores_packages_that_the_user_changed_meanwhile() {
    let agents = agents();
    let real = shop(&agents);
    let part = create(&agents, "fix", &[&real]).remove(0);
    let before = files(&part);
    write(
        real.join("node_modules/pad/index.js"),
        "upgraded by the user\n",
    );
    std::fs::remove_dir_all(real.join("web/node_modules")).expect("removed");
    exec(
        &agents,
        "echo changed > node_modules/pad/index.js; echo changed > web/node_modules/x.js",
    );
    agents.data(&["sandbox", "rollback", "fix", "--to", "1"]);
    assert_eq!(files(&part), before);
}

#[test]
fn a_virtual_environment_refers_to_the_copy() {
    let agents = agents();
    let real = agents.cwd().join("shop");
    repository(
        &real,
        &[("src/shop.py", "x = 1\n"), (".gitignore", ".venv\n")],
    );
    let path = |path: &Path| path.to_str().expect("a path").to_owned();
    let place = path(&real);
    write(real.join(".venv/pyvenv.cfg"), "home = /usr/bin\n");
    write(
        real.join(".venv/bin/pytest"),
        &format!("#!{place}/.venv/bin/python\nprint(1)\n"),
    );
    let link = "lib/python3.13/site-packages/shop.pth";
    write(real.join(".venv").join(link), &format!("{place}/src\n"));
    let part = create(&agents, "fix", &[&real]).remove(0);
    let copy = path(&part);
    assert_eq!(
        read(part.join(".venv/bin/pytest")),
        format!("#!{copy}/.venv/bin/python\nprint(1)\n")
    );
    assert_eq!(read(part.join(".venv").join(link)), format!("{copy}/src\n"));
    assert!(read(real.join(".venv").join(link)).starts_with(&place));
    // The replaced content is the original of the copy.
    let before = files(&part);
    exec(&agents, "echo broken > .venv/bin/pytest");
    agents.data(&["sandbox", "rollback", "fix", "--to", "1"]);
    assert_eq!(files(&part), before);
}

#[test]
fn folders_that_are_too_large_are_linked_or_left_out() {
    let agents = agents();
    let real = shop(&agents);
    write(real.join("target/CACHEDIR.TAG"), "tag\n");
    for name in ["node_modules/large.bin", "target/large.bin"] {
        // Without blocks of its own, the file takes no space.
        let file = std::fs::File::create(real.join(name)).expect("a file");
        file.set_len((1 << 30) + 1).expect("a size");
    }
    create(&agents, "fix", &[&real]);
    let base = dependencies(&agents);
    let presence = base["dependencies"][0]["presence"]
        .as_str()
        .expect("a presence");
    let has_shared_blocks = presence == "copied";
    if !has_shared_blocks {
        assert_eq!(presence, "linked");
        assert_eq!(
            base["ignored"],
            serde_json::json!([".env", "dist/", "target/"])
        );
    }
    let words = ["sandbox", "exec", "fix", "--", "sh", "test.sh"];
    let answer = agents.run(&words);
    assert_eq!(answer.out, "pad\nx\n", "{answer:?}");
    assert_eq!(exec(&agents, "git status --porcelain"), "");
    let diff = agents.data(&["sandbox", "diff", "fix"]);
    assert_eq!(diff["count"], 0, "{diff:#}");
}
