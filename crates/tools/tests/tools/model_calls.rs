//! Tests of calls as models make them: by short names, with argument names of other coding agents, and with mistakes.

use std::os::unix::fs::PermissionsExt as _;

use cleveragents_tools::{
    CallOutcome, DEFAULT_SHOWN_BYTES, Effect, PermissionRules, Phase, PlanMode,
};
use serde_json::json;

use crate::support::{GateFixture, repository};

fn patch(body: &str) -> serde_json::Value {
    json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch")})
}

fn rules(text: &str) -> PermissionRules {
    PermissionRules::parse(text, Effect::Allow).expect("rules")
}

#[test]
fn short_names_run_the_built_in_tools() {
    let fixture = GateFixture::builtin();
    fixture.ok(
        "write_file",
        json!({"file_path": "src/a.txt", "contents": "one\ntwo\n"}),
    );
    fixture.ok(
        "edit_file",
        json!({"filePath": "src/a.txt", "old_string": "two", "new_string": "2"}),
    );
    assert_eq!(fixture.ok("Read", json!({"file": "src/a.txt"})), "one\n2\n");
    assert_eq!(fixture.ledger.last().tool, "builtin/file-read");
    assert_eq!(
        fixture.ok("bash", json!({"cmd": "cat a.txt", "cwd": "src"})),
        "one\n2\n"
    );
    assert_eq!(
        fixture.ok("grep", json!({"query": "^o"})),
        "src/a.txt:1:one\n"
    );
    assert_eq!(
        fixture.ok("glob", json!({"pattern": "*.txt"})),
        "src/a.txt\n"
    );
    fixture.ok("write_file", json!({"path": "made/", "content": ""}));
    fixture.ok(
        "move_file",
        json!({"from": "src/a.txt", "to": "made/b.txt", "copy": true}),
    );
    fixture.ok("move_file", json!({"from": "src/a.txt", "to": "c.txt"}));
    let listed = fixture.ok("list_dir", json!({"depth": 2}));
    assert!(
        listed.contains("made/\n  b.txt") && listed.contains("c.txt"),
        "{listed}"
    );
    fixture.ok("delete_file", json!({"path": "c.txt"}));
    assert!(
        fixture
            .fails("delete_file", json!({"path": "made"}))
            .contains("recursive"),
        "a directory is not deleted by accident"
    );
    fixture.ok("delete_file", json!({"path": "made", "recursive": true}));
    assert!(!fixture.folder().exists("made") && !fixture.folder().exists("c.txt"));
}

#[test]
fn each_git_command_keeps_its_capability_and_its_rules() {
    let mut fixture = GateFixture::builtin();
    repository(&fixture.folder().top());
    fixture.folder().write("a.txt", "x");
    fixture.mode = PlanMode::Normal(Phase::Strategize);
    assert!(
        fixture
            .ok("git", json!({"command": "status"}))
            .contains("a.txt")
    );
    assert_eq!(fixture.ledger.last().tool, "builtin/git-status");
    assert!(
        fixture
            .ok("git", json!({"command": "git log"}))
            .contains("first")
    );
    let commit = json!({"command": "commit", "message": "second"});
    assert_eq!(fixture.refused("git", commit.clone()).0, "read_only_phase");
    let message = fixture.call("git", commit.clone()).for_model();
    assert!(message.contains("`git commit` makes changes"), "{message}");
    fixture.mode = PlanMode::Normal(Phase::Execute);
    fixture.rules = rules("deny builtin/git-commit");
    assert_eq!(fixture.refused("git", commit.clone()).0, "rule");
    fixture.rules = rules("");
    fixture.ok("git", commit);
    assert!(
        fixture
            .ok("git", json!({"command": "show", "from": "HEAD"}))
            .contains("second")
    );
    for (arguments, message) in [
        (
            json!({"command": "push"}),
            "must be one of \"status\", \"diff\"",
        ),
        (json!({"command": "log -5"}), "shell"),
        (
            json!({"command": "log", "message": "x"}),
            "has no argument `message`",
        ),
        (json!({"command": "commit"}), "`message` is missing"),
    ] {
        let output = fixture.call("git", arguments).for_model();
        assert!(output.contains(message), "{output}");
    }
}

#[test]
fn a_patch_changes_all_its_files_and_is_captured() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("a.py", "def f():\n    return 1\n");
    fixture.folder().write("run.sh", "echo old\n");
    let place = fixture.folder().top().join("run.sh");
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("set");
    fixture.folder().write("gone", "x");
    let output = fixture.ok(
        "apply_patch",
        patch(
            "*** Add File: new/b.txt\n+one\n*** Update File: a.py\n@@ def f():\n-    return 1\n+    return 2\n\
             *** Update File: run.sh\n*** Move to: bin/run.sh\n-echo old\n+echo new\n*** Delete File: gone",
        ),
    );
    assert!(
        output.contains("added `new/b.txt`") && output.contains("moved `run.sh`"),
        "{output}"
    );
    let folder = fixture.folder();
    assert_eq!(folder.read("new/b.txt"), "one\n");
    assert_eq!(folder.read("a.py"), "def f():\n    return 2\n");
    assert_eq!(folder.read("bin/run.sh"), "echo new\n");
    assert!(!folder.exists("gone") && !folder.exists("run.sh"));
    let mode = std::fs::metadata(folder.top().join("bin/run.sh")).expect("metadata");
    assert_eq!(
        mode.permissions().mode() & 0o111,
        0o111,
        "the file stays executable"
    );
    let captured = folder.captured();
    for path in [
        "app/a.py",
        "app/bin/run.sh",
        "app/gone",
        "app/new/b.txt",
        "app/run.sh",
    ] {
        assert!(captured.contains(&path.to_owned()), "{captured:?}");
    }
}

#[test]
fn a_patch_that_fails_changes_nothing() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("a.py", "x = 1\n");
    for (body, message) in [
        (
            "*** Add File: b\n+b\n*** Update File: a.py\n-y = 1\n+y = 2",
            "does not occur",
        ),
        (
            "*** Add File: b\n+b\n*** Delete File: a.pu",
            "did you mean `a.py`?",
        ),
        ("*** Add File: a.py\n+b", "exists"),
        (
            "*** Delete File: a.py\n*** Update File: a.py\n-x = 1\n+y",
            "file `a.py` does not exist",
        ),
    ] {
        let why = fixture.fails("apply_patch", patch(body));
        assert!(
            why.contains(message) && why.contains("Nothing was changed"),
            "{why}"
        );
        assert_eq!(fixture.folder().read("a.py"), "x = 1\n");
        assert!(!fixture.folder().exists("b"));
    }
    let outside = fixture.refused("apply_patch", patch("*** Add File: ../b\n+b"));
    assert_eq!(outside.0, "outside_sandbox");
    assert_eq!(
        fixture.refused("apply_patch", json!({"patch": "x"})).0,
        "bad_arguments"
    );
}

#[test]
fn rules_guards_and_profiles_for_file_tools_apply_to_patches() {
    let add = || patch("*** Add File: keys/a\n+x");
    let mut fixture = GateFixture::builtin();
    fixture.folder().write("keys/b", "x\n");
    fixture.rules = rules("deny builtin/file-write(keys/**)");
    assert_eq!(fixture.refused("apply_patch", add()).0, "rule");
    fixture.rules = rules("deny builtin/file-move(keys/**)");
    let moving = patch("*** Update File: keys/b\n*** Move to: b\n-x\n+y");
    assert_eq!(fixture.refused("apply_patch", moving).0, "rule");
    fixture.rules =
        PermissionRules::parse("allow builtin/file-edit(src/**)", Effect::Deny).expect("rules");
    assert_eq!(fixture.refused("apply_patch", add()).0, "rule");
    fixture.folder().write("src/a", "x\n");
    fixture.ok("apply_patch", patch("*** Update File: src/a\n-x\n+y"));
    fixture.rules = rules("deny builtin/apply-patch(keys/**)");
    assert_eq!(fixture.refused("apply_patch", add()).0, "rule");
    fixture.rules = rules("");
    fixture.guards.denylist = vec!["builtin/file-write".parse().expect("a pattern")];
    assert_eq!(fixture.refused("apply_patch", add()).0, "denylist");
    fixture.guards.denylist.clear();
    fixture.profile.denied_tools = vec!["builtin/file-*".parse().expect("a pattern")];
    assert_eq!(fixture.refused("apply_patch", add()).0, "profile");
    fixture.profile.denied_tools.clear();
    fixture.mode = PlanMode::Normal(Phase::Strategize);
    assert_eq!(fixture.refused("apply_patch", add()).0, "read_only_phase");
    assert!(!fixture.folder().exists("keys/a") && fixture.folder().exists("keys/b"));
}

#[test]
fn a_missing_file_is_reported_with_a_suggestion() {
    let mut fixture = GateFixture::builtin();
    fixture.folder().write("boltons/setutils.py", "x");
    fixture.folder().write("boltons/hidden.py", "x");
    fixture.rules = rules("deny builtin/file-read(boltons/hidden.py)");
    for (path, message) in [
        (
            "boltons/setutil.py",
            "file `boltons/setutil.py` does not exist; did you mean `boltons/setutils.py`?",
        ),
        ("setutils.py", "did you mean `boltons/setutils.py`?"),
        ("lib/setutils.py", "did you mean `boltons/setutils.py`?"),
        ("zzzz", "file `zzzz` does not exist; search with"),
    ] {
        let output = fixture.fails("read_file", json!({"path": path}));
        assert!(output.contains(message), "{output}");
    }
    let output = fixture.fails("read_file", json!({"path": "boltons/hiden.py"}));
    assert!(
        !output.contains("hidden.py"),
        "an unreadable file is not suggested: {output}"
    );
}

#[test]
fn a_long_file_is_read_in_whole_lines() {
    let mut fixture = GateFixture::builtin();
    fixture.shown_bytes = DEFAULT_SHOWN_BYTES;
    let lines: Vec<String> = (1..=9_000).map(|line| format!("line {line}\n")).collect();
    let text = lines.concat();
    fixture.folder().write("long", &text);
    let mut read = String::new();
    let mut offset = 1;
    loop {
        let outcome = fixture.call(
            "read_file",
            json!({"path": "long", "offset": offset, "limit": 9_000}),
        );
        let CallOutcome::Succeeded(success) = outcome else {
            panic!("{}", outcome.for_model());
        };
        assert!(success.shown.left_out == 0 && success.shown.head.len() <= DEFAULT_SHOWN_BYTES);
        read.push_str(&success.shown.head);
        let last = read.lines().count();
        let note = success.note.expect("lines and count");
        assert!(
            note.starts_with(&format!("Lines {offset}–{last} of 9000.")),
            "{note}"
        );
        if last == 9_000 {
            break;
        }
        assert!(
            note.ends_with(&format!("Continue with offset {}.", last + 1)),
            "{note}"
        );
        offset = last + 1;
    }
    assert_eq!(read, text);
}

#[test]
fn invalid_calls_are_explained_with_an_example() {
    let fixture = GateFixture::builtin();
    for (tool, arguments, message) in [
        (
            "raed_file",
            json!({"path": "a"}),
            "did you mean `read_file`",
        ),
        (
            "read_file",
            json!({}),
            "`path` is missing. Example: {\"path\":\"src/main.py\"}",
        ),
        (
            "read_file",
            json!({"path": "a", "offset": "first"}),
            "`offset` must be an integer, such as 10; got the string \"first\"",
        ),
        (
            "read_file",
            json!({"path": "a", "ofset": 1}),
            "did you mean `offset`?",
        ),
        (
            "edit_file",
            json!({"path": "a"}),
            "`old_string` and `new_string` are missing",
        ),
        (
            "edit_file",
            json!({"path": "a", "old_string": "x"}),
            "`new_string` is missing",
        ),
        (
            "edit_file",
            json!({"path": "a", "edits": [{"new_string": "x"}]}),
            "`edits[0].old_string` is missing",
        ),
    ] {
        let output = fixture.call(tool, arguments).for_model();
        assert!(output.contains(message), "{tool}: {output}");
        assert!(
            !output.contains("builtin/") && !output.contains(" column "),
            "{output}"
        );
    }
}

#[test]
fn a_long_line_of_an_output_is_continued_by_offset() {
    let mut fixture = GateFixture::builtin();
    fixture.shown_bytes = 1_000;
    let outcome = fixture.call("shell", json!({"command": "printf '%03000d\\nend\\n' 7"}));
    let message = outcome.for_model();
    assert!(message.contains("line 1 of 2 omitted"), "{message}");
    let id = outcome.invocation().to_string();
    let CallOutcome::Succeeded(page) = fixture.call("read_output", json!({"id": id})) else {
        panic!("{message}");
    };
    let note = page.note.expect("a note on how to continue");
    assert_eq!(
        note,
        "Lines 1–1 of 2. This line is truncated: continue with offset 1000."
    );
    assert!(
        fixture
            .ok("read_output", json!({"id": id, "byte": 2_999}))
            .starts_with("7\nend"),
        "bytes are counted from 0"
    );
}

#[test]
fn excerpts_in_errors_are_data_and_respect_permission_rules() {
    let mut fixture = GateFixture::builtin();
    fixture
        .folder()
        .write("a.py", "total = compute(first, second)\n");
    let old_text = "total = compute(first, third)";
    let edit = json!({"path": "a.py", "old_string": old_text, "new_string": "x"});
    let patch = patch(&format!("*** Update File: a.py\n-{old_text}\n+x"));
    for (tool, arguments) in [("edit_file", edit), ("apply_patch", patch)] {
        fixture.rules = rules("");
        let message = fixture.call(tool, arguments.clone()).for_model();
        let (explanation, data) = message.split_once("<data-").expect("marked");
        assert!(
            !explanation.contains("second") && data.contains("1\ttotal = compute(first, second)"),
            "{message}"
        );
        assert!(data.contains("First difference, in line 1"), "{message}");
        fixture.rules = rules("deny builtin/file-read(a.py)");
        let message = fixture.call(tool, arguments).for_model();
        assert!(
            message.contains("does not occur") && !message.contains("second"),
            "{message}"
        );
    }
}
