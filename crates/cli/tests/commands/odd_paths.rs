//! Paths that are not UTF-8.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use cleveragents_testkit::Answer;

use crate::agents;

/// Commands with such a path in their JSON used to panic, some of them after storing data.
#[test]
fn issue_16_25_paths_that_are_not_utf_8_are_shown_without_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    let home = odd(b"home-\xff");
    let agents = agents().at_home(&home);
    let run = |arguments: &[&OsStr]| {
        let whole = [&["--format", "json"].map(OsStr::new)[..], arguments].concat();
        let output = agents.command(whole).output().expect("it runs");
        let answer = Answer::from_output(&output);
        assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
        answer.json()["data"].clone()
    };
    let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
    let plain = |line: &str| {
        let words = words(line);
        run(&words.iter().map(OsString::as_os_str).collect::<Vec<_>>())
    };
    let home_text = plain("init")["home"].to_string();
    assert!(home_text.contains("home-\u{fffd}"), "{home_text}");
    plain("info");
    plain("config set core.format plain");
    plain("session create --name weekly");
    plain("session append weekly hello");
    let file = odd(b"weekly-\xfe.json");
    let export = ["session", "export", "weekly", "--output"].map(OsStr::new);
    let exported = run(&[&export[..], &[file.as_os_str()]].concat());
    assert!(file.is_file(), "{exported}");
    let import = ["session", "import", "--input"].map(OsStr::new);
    run(&[&import[..], &[file.as_os_str()]].concat());
    let listed = plain("session list");
    assert_eq!(listed["summary"]["total"], 2, "{listed}");
    let diagnostics = agents.command(["--format", "json", "diagnostics"]).output();
    let diagnostics = Answer::from_output(&diagnostics.expect("it runs"));
    assert_ne!(diagnostics.code, Some(101), "{diagnostics:?}");
}
