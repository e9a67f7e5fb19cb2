//! By-products of commands stay in the sandbox: diffs, commits and the user's folders do not
//! contain them, and rollback restores them.

use std::path::Path;

use cleveragents_testkit::Agents;

use super::world::{agents, create, files, git, read, repository, write};

/// Creates the by-products of a test run and a build.
fn leave_by_products(part: &Path) {
    for name in [
        "__pycache__/app.cpython-312.pyc",
        "src/__pycache__/lib.cpython-312.pyc",
        ".pytest_cache/v/cache/lastfailed",
        ".pytest_cache/.gitignore",
        "node_modules/pad/index.js",
        "target/CACHEDIR.TAG",
        "target/debug/app",
        "app.egg-info/PKG-INFO",
        ".DS_Store",
    ] {
        write(part.join(name), "by-product\0\n");
    }
}

fn changed_paths(agents: &Agents) -> Vec<String> {
    let diff = agents.data(&["sandbox", "diff", "fix"]);
    let changes = diff["parts"][0]["changes"].as_array().expect("changes");
    let paths: Vec<String> = changes
        .iter()
        .map(|change| change["path"].as_str().expect("a path").to_owned())
        .collect();
    assert_eq!(diff["count"], paths.len());
    let patch = diff["parts"][0]["patch"].as_str().unwrap_or_default();
    assert!(!patch.contains("by-product"), "{patch}");
    paths
}

#[test]
fn by_products_are_in_no_diff_commit_or_user_folder() {
    let agents = agents();
    let real = agents.cwd().join("real");
    repository(
        &real,
        &[
            ("app.py", "before\n"),
            ("src/lib.py", "x\n"),
            (".gitignore", "*.log\nbuild/\n"),
            ("kept/__pycache__/tracked.pyc", "old\n"),
        ],
    );
    let part = create(&agents, "fix", &[&real]).remove(0);
    write(part.join("app.py"), "after\n");
    write(part.join("kept/__pycache__/tracked.pyc"), "new\n");
    write(part.join("made.txt"), "made\n");
    write(part.join("build/out/a.bin"), "ignored\n");
    write(part.join("logs/run.log"), "ignored\n");
    leave_by_products(&part);
    // A file that a tool wrote is an intended change, even in a folder of by-products.
    agents.data(&[
        "tool",
        "run",
        "builtin/file-write",
        "--sandbox",
        "fix",
        "path=node_modules/pad/patch.js",
        "content=wanted",
    ]);
    let expected = [
        "app.py",
        "kept/__pycache__/tracked.pyc",
        "made.txt",
        "node_modules",
        "node_modules/pad",
        "node_modules/pad/patch.js",
    ];
    assert_eq!(changed_paths(&agents), expected);
    let applied = agents.data(&["sandbox", "apply", "fix"]);
    let left_out = applied["parts"][0]["left_out"].to_string();
    for name in [
        "target/debug/app",
        "logs/run.log",
        ".DS_Store",
        "build/out/a.bin",
    ] {
        assert!(left_out.contains(name), "{name}: {left_out}");
    }
    let committed = git(&real, &["show", "--name-only", "--format=", "HEAD"]);
    let mut committed: Vec<&str> = committed.lines().collect();
    committed.sort_unstable();
    assert_eq!(
        committed,
        [
            "app.py",
            "kept/__pycache__/tracked.pyc",
            "made.txt",
            "node_modules/pad/patch.js"
        ]
    );
    for name in [
        "__pycache__",
        "src/__pycache__",
        ".pytest_cache",
        "target",
        "app.egg-info",
        "build",
        "logs",
        ".DS_Store",
        "node_modules/pad/index.js",
    ] {
        assert!(!real.join(name).exists(), "{name}");
    }
    assert_eq!(read(real.join("app.py")), "after\n");
    assert_eq!(git(&real, &["status", "--porcelain"]), "");
}

#[test]
fn by_products_stay_out_of_a_folder_without_a_repository() {
    let agents = agents();
    let real = agents.cwd().join("real");
    write(real.join("app.py"), "before\n");
    write(real.join("__pycache__/app.pyc"), "old\n");
    write(real.join("target/list.txt"), "mine\n");
    let part = create(&agents, "fix", &[&real]).remove(0);
    write(part.join("app.py"), "after\n");
    write(part.join("__pycache__/app.pyc"), "by-product\n");
    write(part.join("target/list.txt"), "changed\n");
    write(part.join("src/__pycache__/b.pyc"), "by-product\n");
    assert_eq!(changed_paths(&agents), ["app.py", "target/list.txt"]);
    agents.data(&["sandbox", "apply", "fix"]);
    assert_eq!(read(real.join("app.py")), "after\n");
    assert_eq!(read(real.join("__pycache__/app.pyc")), "old\n");
    assert!(!real.join("src").exists());
}

#[test]
fn rollback_restores_by_products_exactly() {
    let agents = agents();
    let real = agents.cwd().join("real");
    repository(&real, &[("app.py", "before\n")]);
    let part = create(&agents, "fix", &[&real]).remove(0);
    leave_by_products(&part);
    agents.data(&["sandbox", "checkpoint", "fix"]);
    let before = files(&part);
    write(part.join("__pycache__/app.cpython-312.pyc"), "other\n");
    write(part.join("__pycache__/more.pyc"), "other\n");
    std::fs::remove_file(part.join("target/debug/app")).expect("removed");
    assert!(changed_paths(&agents).is_empty());
    agents.data(&["sandbox", "rollback", "fix"]);
    assert_eq!(files(&part), before);
}

#[test]
fn a_commit_in_the_sandbox_is_part_of_the_difference() {
    let agents = agents();
    let real = agents.cwd().join("real");
    repository(&real, &[("a.py", "before\n"), ("b.py", "before\n")]);
    let part = create(&agents, "fix", &[&real]).remove(0);
    write(part.join("a.py"), "after\n");
    let run = |tool: &str, options: &[&str]| {
        let arguments = [&["tool", "run", tool, "--sandbox", "fix"], options].concat();
        let data = agents.data(&arguments);
        data["output"].as_str().unwrap_or_default().to_owned()
    };
    run("builtin/git-commit", &["message=first"]);
    write(part.join("b.py"), "after\n");
    let diff = run("builtin/git-diff", &[]);
    assert!(diff.contains("a/a.py") && diff.contains("a/b.py"), "{diff}");
    let since = run("builtin/git-diff", &["from=HEAD"]);
    assert!(
        !since.contains("a/a.py") && since.contains("a/b.py"),
        "{since}"
    );
}
