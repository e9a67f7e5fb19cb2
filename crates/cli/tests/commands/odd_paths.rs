//! Paths that are not UTF-8.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use cleveragents_testkit::Answer;

use crate::agents;

/// Commands used to panic if their JSON contained such a path, some of them after storing data.
#[test]
fn paths_that_are_not_utf_8_are_shown_without_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let path_named = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    let home = path_named(b"home-\xff");
    let agents = agents().at_home(&home);
    let run = |arguments: &[&OsStr]| {
        let command_line = [&["--format", "json"].map(OsStr::new)[..], arguments].concat();
        let output = agents
            .command(command_line)
            .output()
            .expect("the program runs");
        let answer = Answer::from_output(&output);
        assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
        answer.json()["data"].clone()
    };
    let split_words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
    let run_line = |line: &str| {
        let words = split_words(line);
        run(&words.iter().map(OsString::as_os_str).collect::<Vec<_>>())
    };
    let home_text = run_line("init")["home"].to_string();
    assert!(home_text.contains("home-\u{fffd}"), "{home_text}");
    run_line("info");
    run_line("config set core.format plain");
    run_line("session create --name weekly");
    run_line("session append weekly hello");
    let file = path_named(b"weekly-\xfe.json");
    let export = ["session", "export", "weekly", "--output"].map(OsStr::new);
    let exported = run(&[&export[..], &[file.as_os_str()]].concat());
    assert!(file.is_file(), "{exported}");
    let import = ["session", "import", "--input"].map(OsStr::new);
    run(&[&import[..], &[file.as_os_str()]].concat());
    let listed = run_line("session list");
    assert_eq!(listed["summary"]["total"], 2, "{listed}");
    let diagnostics = agents.command(["--format", "json", "diagnostics"]).output();
    let diagnostics = Answer::from_output(&diagnostics.expect("the program runs"));
    assert_ne!(diagnostics.code, Some(101), "{diagnostics:?}");
}
