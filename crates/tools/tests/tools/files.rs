//! Tests of the tools for files and directories, through the gate, on real directories.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::support::{Folder, GateFixture, SECRET};
use cleveragents_tools::{CallOutcome, Effect, PermissionRules, Registry};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn a_file_is_written_read_edited_and_deleted() {
    let fixture = GateFixture::builtin();
    fixture.ok(
        "builtin/file-write",
        json!({"path": "src/new/a.txt", "content": "one\ntwo\n"}),
    );
    assert_eq!(
        fixture.folder().captured(),
        ["app/src", "app/src/new", "app/src/new/a.txt"]
    );
    assert_eq!(
        fixture.ok("builtin/file-read", json!({"path": "src/new/a.txt"})),
        "one\ntwo\n"
    );
    fixture.ok(
        "builtin/file-edit",
        json!({"path": "src/new/a.txt", "edits": [
            {"old_text": "one", "new_text": "1"}, {"old_text": "1\ntwo", "new_text": "1\n2"},
        ]}),
    );
    assert_eq!(fixture.folder().read("src/new/a.txt"), "1\n2\n");
    assert_eq!(fixture.folder().captured(), ["app/src/new/a.txt"]);
    fixture.ok("builtin/file-delete", json!({"path": "src/new/a.txt"}));
    assert!(!fixture.folder().exists("src/new/a.txt"));
    assert_eq!(fixture.folder().captured(), ["app/src/new/a.txt"]);
}

#[test]
fn paths_may_start_with_their_part_or_be_absolute_inside_it() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("a.txt", "x");
    let absolute = fixture.folder().top().join("a.txt");
    let paths = [
        "a.txt",
        "./a.txt",
        "app/a.txt",
        "b/../a.txt",
        "//a.txt".trim_start_matches('/'),
    ];
    for path in paths.into_iter().chain([absolute.to_str().expect("utf-8")]) {
        assert_eq!(
            fixture.ok("builtin/read_file", json!({"path": path})),
            "x",
            "{path}"
        );
    }
    let fixture = GateFixture::new(
        Registry::with_builtins(),
        Some(Folder::new(&["app", "docs"])),
    );
    std::fs::write(fixture.folder().root("docs").join("b.txt"), "y").expect("written");
    assert_eq!(
        fixture.ok("builtin/file-read", json!({"path": "docs/b.txt"})),
        "y"
    );
    let (kind, message) = fixture.refused("builtin/file-read", json!({"path": "b.txt"}));
    assert_eq!(kind, "outside_sandbox");
    assert!(message.contains("`app/`, `docs/`"), "{message}");
}

#[test]
fn no_path_reaches_outside_the_sandbox() {
    let fixture = GateFixture::builtin();
    let folder = fixture.folder();
    let outside = folder.whole.path().join("outside");
    std::fs::create_dir(&outside).expect("made");
    std::fs::write(outside.join("secret"), "secret").expect("written");
    // A directory whose name has the part's name as a prefix.
    let twin = folder.root("app-evil");
    std::fs::create_dir(&twin).expect("made");
    std::fs::write(twin.join("secret"), "secret").expect("written");
    let link = |name: &str, target: &str| symlink(target, folder.top().join(name)).expect("linked");
    link("absolute", outside.to_str().expect("utf-8"));
    link("relative", "../../outside");
    link("chain", "relative");
    link("to-file", "../../outside/secret");
    link("twin", "../app-evil");
    link("circle", "circle");
    folder.write("inner/x", "x");
    link("inner/up", "../../../outside");
    let twin = twin.join("secret");
    for path in [
        "../../outside/secret",
        "inner/../../../outside/secret",
        "/etc/passwd",
        "~/.bashrc",
        "absolute/secret",
        "relative/secret",
        "chain/secret",
        "to-file",
        "twin/secret",
        "circle",
        "circle/x",
        "inner/up/secret",
        "../app-evil/secret",
        twin.to_str().expect("utf-8"),
        outside.join("secret").to_str().expect("utf-8"),
        "a\0b",
        "..",
        "../app-evil",
        "/",
        "inner/up/../up/secret",
    ] {
        for (tool, arguments) in [
            ("file-read", json!({"path": path})),
            ("file-write", json!({"path": path, "content": "gone"})),
            (
                "file-edit",
                json!({"path": path, "edits": [{"old_text": "secret", "new_text": "gone"}]}),
            ),
            ("dir-create", json!({"path": path})),
            ("dir-list", json!({"path": path})),
            ("file-search", json!({"path": path, "pattern": "secret"})),
            ("file-find", json!({"path": path, "pattern": "*"})),
            (
                "file-copy",
                json!({"from": "inner/x", "to": format!("{path}/copied")}),
            ),
            (
                "file-move",
                json!({"from": "inner/x", "to": format!("{path}/moved")}),
            ),
            ("shell", json!({"command": "pwd", "folder": path})),
        ] {
            let outcome = fixture.call(&format!("builtin/{tool}"), arguments);
            assert!(
                !outcome.is_success(),
                "{tool} {path}: {}",
                outcome.for_model()
            );
            assert!(!outcome.for_model().contains("\nsecret"), "{tool} {path}");
        }
    }
    assert_eq!(
        std::fs::read_to_string(outside.join("secret")).expect("read"),
        "secret"
    );
    assert_eq!(std::fs::read_dir(&outside).expect("read").count(), 1);
    assert_eq!(folder.read("inner/x"), "x");
    // Deleting a symlink keeps its target.
    fixture.ok("builtin/file-delete", json!({"path": "to-file"}));
    fixture.ok(
        "builtin/dir-delete",
        json!({"path": "inner", "recursive": true}),
    );
    assert!(outside.join("secret").exists());
}

#[test]
fn symlinks_inside_the_sandbox_are_followed() {
    let fixture = GateFixture::builtin();
    let folder = fixture.folder();
    folder.write("real/a.txt", "x");
    symlink("real", folder.top().join("folder")).expect("linked");
    symlink("folder/a.txt", folder.top().join("file")).expect("linked");
    symlink(folder.top().join("real"), folder.top().join("absolute")).expect("linked");
    for path in ["folder/a.txt", "file", "absolute/a.txt"] {
        assert_eq!(
            fixture.ok("builtin/file-read", json!({"path": path})),
            "x",
            "{path}"
        );
    }
    fixture.ok(
        "builtin/file-write",
        json!({"path": "file", "content": "y"}),
    );
    assert_eq!(folder.read("real/a.txt"), "y");
    assert_eq!(folder.captured(), ["app/real/a.txt"]);
    assert!(folder.top().join("file").is_symlink());
}

#[test]
fn a_rule_for_a_path_applies_to_symlinks_to_it() {
    let mut fixture = GateFixture::builtin();
    fixture.rules =
        PermissionRules::parse("deny builtin/*(secrets/**)", Effect::Allow).expect("rules");
    fixture.folder().write("secrets/key", "secret");
    symlink("secrets/key", fixture.folder().top().join("harmless")).expect("linked");
    assert_eq!(
        fixture
            .refused("builtin/file-read", json!({"path": "harmless"}))
            .0,
        "rule"
    );
}

#[test]
fn a_symlink_swapped_in_concurrently_never_leads_outside() {
    let fixture = GateFixture::builtin();
    let folder = fixture.folder();
    let outside = folder.whole.path().join("outside");
    std::fs::create_dir(&outside).expect("made");
    std::fs::write(outside.join("f"), "outside").expect("written");
    folder.write("real/f", "inside");
    let place = folder.top().join("swapped");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _removed = std::fs::remove_file(&place);
                let _linked = symlink(&outside, &place);
                let _removed = std::fs::remove_file(&place);
                let _linked = symlink("real", &place);
            }
        });
        for round in 0..300 {
            let read = fixture.call("builtin/file-read", json!({"path": "swapped/f"}));
            if let CallOutcome::Succeeded(success) = read {
                assert!(
                    success.shown.head.starts_with("inside"),
                    "{}",
                    success.shown.head
                );
            }
            let content = format!("inside {round}");
            let _written = fixture.call(
                "builtin/file-write",
                json!({"path": "swapped/f", "content": content}),
            );
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(
        std::fs::read_to_string(outside.join("f")).expect("read"),
        "outside"
    );
    assert_eq!(std::fs::read_dir(&outside).expect("read").count(), 1);
}

#[test]
fn git_directories_cannot_be_accessed() {
    let fixture = GateFixture::builtin();
    fixture.folder().write(".git/config", "x");
    fixture.folder().write("sub/.git/config", "x");
    symlink(".git", fixture.folder().top().join("plain")).expect("linked");
    for path in [".git/config", "plain/config", "sub/.git/config"] {
        for (tool, arguments) in [
            ("builtin/file-read", json!({"path": path})),
            ("builtin/file-write", json!({"path": path, "content": ""})),
            ("builtin/file-delete", json!({"path": path})),
            ("builtin/file-move", json!({"from": path, "to": "b"})),
            ("builtin/file-copy", json!({"from": "b", "to": path})),
        ] {
            assert_eq!(fixture.refused(tool, arguments).0, "rule", "{tool} {path}");
        }
    }
    // A call for the parent of a git directory cannot change the git directory either.
    let message = fixture.fails(
        "builtin/dir-delete",
        json!({"path": "sub", "recursive": true}),
    );
    assert!(message.contains("app/sub/.git"), "{message}");
    let message = fixture.fails("builtin/file-move", json!({"from": "sub", "to": "other"}));
    assert!(message.contains(".git"), "{message}");
    fixture.fails("builtin/file-copy", json!({"from": "sub", "to": "other"}));
    assert_eq!(fixture.folder().read("sub/.git/config"), "x");
    let listed = fixture.ok("builtin/dir-list", json!({"depth": 3}));
    assert!(!listed.contains(".git/"), "{listed}");
}

#[test]
fn a_rule_applies_to_the_content_of_a_directory() {
    let mut fixture = GateFixture::builtin();
    fixture.rules = PermissionRules::parse(
        "deny *(src/keep/**)\nask builtin/dir-delete(docs/**)",
        Effect::Allow,
    )
    .expect("rules");
    fixture.folder().write("src/keep/a", "needle");
    fixture.folder().write("src/b", "needle");
    fixture.folder().write("top/docs/c", "");
    let message = fixture.fails(
        "builtin/dir-delete",
        json!({"path": "src", "recursive": true}),
    );
    assert!(message.contains("app/src/keep"), "{message}");
    fixture.fails("builtin/file-move", json!({"from": "src", "to": "moved"}));
    fixture.fails("builtin/file-copy", json!({"from": "src", "to": "copied"}));
    let output = fixture.ok("builtin/file-search", json!({"pattern": "needle"}));
    assert_eq!(output, "src/b:1:needle\n");
    assert_eq!(
        fixture.ok("builtin/file-find", json!({"pattern": "*"})),
        "src/b\ntop/docs/c\n"
    );
    assert!(
        !fixture
            .ok("builtin/dir-list", json!({"depth": 3}))
            .contains("keep")
    );
    assert!(fixture.folder().exists("src/keep/a") && fixture.folder().exists("src/b"));
}

#[test]
fn a_read_only_part_cannot_be_changed() {
    let fixture = GateFixture::new(
        Registry::with_builtins(),
        Some(Folder::new(&["app"]).read_only()),
    );
    fixture.folder().write("a", "x");
    for (tool, arguments) in [
        ("builtin/file-write", json!({"path": "a", "content": "y"})),
        ("builtin/file-delete", json!({"path": "a"})),
        ("builtin/file-move", json!({"from": "a", "to": "b"})),
        ("builtin/file-copy", json!({"from": "a", "to": "b"})),
        ("builtin/dir-create", json!({"path": "b"})),
    ] {
        assert_eq!(
            fixture.refused(tool, arguments).0,
            "read_only_part",
            "{tool}"
        );
    }
    assert_eq!(fixture.ok("builtin/file-read", json!({"path": "a"})), "x");
}

#[test]
fn writing_keeps_the_mode_and_leaves_no_temporary_files() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("run.sh", "old");
    let place = fixture.folder().top().join("run.sh");
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o751)).expect("set");
    fixture.ok(
        "builtin/file-write",
        json!({"path": "run.sh", "content": "new"}),
    );
    fixture.ok(
        "builtin/file-edit",
        json!({"path": "run.sh", "edits": [{"old_text": "new", "new_text": "newer"}]}),
    );
    let mode = place.metadata().expect("metadata").permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    assert_eq!(fixture.folder().read("run.sh"), "newer");
    let names: Vec<_> = std::fs::read_dir(fixture.folder().top())
        .expect("read")
        .collect();
    assert_eq!(names.len(), 1, "no temporary file is left");
}

#[test]
fn edits_are_applied_together_or_not_at_all() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("a", "one two one\n");
    let edits = |edits: Value| json!({"path": "a", "edits": edits});
    let message = fixture.fails(
        "builtin/file-edit",
        edits(json!([{"old_text": "two", "new_text": "2"}, {"old_text": "one", "new_text": "1"}])),
    );
    assert!(
        message.contains("edit 2")
            && message.contains("2 times")
            && message.contains("Nothing was changed"),
        "{message}"
    );
    assert_eq!(fixture.folder().read("a"), "one two one\n");
    let output = fixture.ok(
        "builtin/file-edit",
        edits(json!([{"old_text": "one", "new_text": "1", "replace_all": true}, {"old_text": "two", "new_text": "2"}])),
    );
    assert!(
        output.contains("3 replacements (per edit: 2, 1)"),
        "{output}"
    );
    assert_eq!(fixture.folder().read("a"), "1 2 1\n");
    for invalid in [
        json!([]),
        json!([{"old_text": "", "new_text": "x"}]),
        json!([{"old_text": "1", "new_text": "1"}]),
    ] {
        assert_eq!(
            fixture.refused("builtin/file-edit", edits(invalid)).0,
            "bad_arguments"
        );
    }
    fixture.folder().write("binary", [0xff, 0xfe]);
    let message = fixture.fails(
        "builtin/file-edit",
        json!({"path": "binary", "edits": [{"old_text": "a", "new_text": "b"}]}),
    );
    assert!(message.contains("UTF-8"), "{message}");
}

#[test]
fn files_and_directory_trees_are_moved_and_copied() {
    let fixture = GateFixture::builtin();
    let folder = fixture.folder();
    folder.write("tree/sub/a", "a");
    folder.write("tree/b", "b");
    symlink("b", folder.top().join("tree/link")).expect("linked");
    fixture.ok(
        "builtin/file-copy",
        json!({"from": "tree", "to": "new/copy"}),
    );
    assert_eq!(folder.read("new/copy/sub/a"), "a");
    assert!(folder.top().join("new/copy/link").is_symlink());
    assert_eq!(
        folder.captured(),
        [
            "app/new",
            "app/new/copy",
            "app/new/copy/b",
            "app/new/copy/link",
            "app/new/copy/sub",
            "app/new/copy/sub/a"
        ]
    );
    fixture.ok("builtin/file-move", json!({"from": "tree", "to": "moved"}));
    assert!(!folder.exists("tree") && folder.exists("moved/sub/a"));
    assert_eq!(folder.captured().len(), 10);
    folder.write("x", "x");
    folder.write("y", "y");
    assert!(
        fixture
            .fails("builtin/file-move", json!({"from": "x", "to": "y"}))
            .contains("overwrite")
    );
    assert!(
        fixture
            .fails("builtin/file-copy", json!({"from": "x", "to": "y"}))
            .contains("overwrite")
    );
    assert_eq!(folder.read("y"), "y");
    fixture.ok(
        "builtin/file-copy",
        json!({"from": "x", "to": "y", "overwrite": true}),
    );
    assert_eq!(folder.read("y"), "x");
    fixture.ok(
        "builtin/file-move",
        json!({"from": "x", "to": "y", "overwrite": true}),
    );
    assert!(!folder.exists("x"));
    fixture.fails(
        "builtin/file-move",
        json!({"from": "moved", "to": "moved/inner"}),
    );
    fixture.fails(
        "builtin/file-copy",
        json!({"from": "moved", "to": "moved/inner"}),
    );
    fixture.fails("builtin/file-move", json!({"from": "missing", "to": "z"}));
    fixture.fails("builtin/file-copy", json!({"from": "y", "to": "moved"}));
}

#[test]
fn directories_are_created_listed_and_deleted() {
    let fixture = GateFixture::builtin();
    fixture.ok("builtin/dir-create", json!({"path": "a/b/c"}));
    assert_eq!(
        fixture.folder().captured(),
        ["app/a", "app/a/b", "app/a/b/c"]
    );
    fixture.ok("builtin/create_directory", json!({"path": "a/b"}));
    fixture.folder().write("a/f", "12345");
    symlink("f", fixture.folder().top().join("a/l")).expect("linked");
    assert_eq!(
        fixture.ok("builtin/dir-list", json!({"path": "a"})),
        "b/\nf (5 bytes)\nl -> f\n"
    );
    assert_eq!(
        fixture.ok("builtin/dir-list", json!({"depth": 2})),
        "a/\n  b/\n  f (5 bytes)\n  l -> f\n"
    );
    assert!(
        fixture
            .fails("builtin/dir-delete", json!({"path": "a"}))
            .contains("recursive")
    );
    assert!(
        fixture
            .fails("builtin/file-delete", json!({"path": "a"}))
            .contains("dir-delete")
    );
    assert!(
        fixture
            .fails("builtin/dir-delete", json!({"path": "a/f"}))
            .contains("file-delete")
    );
    assert!(
        fixture
            .fails("builtin/dir-delete", json!({"path": "none"}))
            .contains("does not exist")
    );
    assert_eq!(
        fixture
            .refused("builtin/dir-delete", json!({"path": "."}))
            .0,
        "outside_sandbox"
    );
    fixture.ok(
        "builtin/dir-delete",
        json!({"path": "a", "recursive": true}),
    );
    assert!(!fixture.folder().exists("a"));
    fixture.folder().write("x", "");
    assert!(
        fixture
            .fails("builtin/dir-create", json!({"path": "x"}))
            .contains("is a file")
    );
}

#[test]
fn a_truncated_listing_has_a_note() {
    let fixture = GateFixture::builtin();
    for number in 0..30 {
        fixture.folder().write(&format!("f{number:02}"), "");
    }
    match fixture.call("builtin/dir-list", json!({"limit": 10})) {
        CallOutcome::Succeeded(success) => {
            assert_eq!(success.shown.head.lines().count(), 10);
            assert!(success.note.expect("a note").contains("20 more"));
        }
        other => panic!("{}", other.for_model()),
    }
}

#[test]
fn defect_7236_ranges_are_checked_and_the_note_names_the_next_range() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("a", "1\n2\n3");
    fixture.folder().write("empty", "");
    let read = |arguments: Value| fixture.call("builtin/file-read", arguments);
    match read(json!({"path": "a", "offset": 2, "limit": 1})) {
        CallOutcome::Succeeded(success) => {
            assert_eq!(success.shown.head, "2\n");
            assert!(success.note.expect("a note").contains("offset 3"));
        }
        other => panic!("{}", other.for_model()),
    }
    let numbered = fixture.ok(
        "builtin/file-read",
        json!({"path": "a", "line_numbers": true}),
    );
    assert_eq!(numbered, "     1\t1\n     2\t2\n     3\t3");
    assert_eq!(
        fixture.ok("builtin/file-read", json!({"path": "empty"})),
        ""
    );
    assert!(
        fixture
            .fails("builtin/file-read", json!({"path": "a", "offset": 4}))
            .contains("3 lines")
    );
    assert!(
        fixture
            .fails("builtin/file-read", json!({"path": "empty", "offset": 2}))
            .contains("0 lines")
    );
    for (field, value) in [("offset", 0), ("offset", -1), ("limit", 0)] {
        let (kind, message) =
            fixture.refused("builtin/file-read", json!({"path": "a", field: value}));
        assert_eq!(kind, "bad_arguments");
        assert!(message.contains(field), "{message}");
    }
}

#[test]
fn binary_files_are_described() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("x.bin", b"a\0b");
    fixture.folder().write("x.png", b"\x89PNG\r\n\x1a\nrest");
    assert_eq!(
        fixture.ok("builtin/file-read", json!({"path": "x.bin"})),
        "[binary file, 3 bytes; not shown]"
    );
    let CallOutcome::Succeeded(success) =
        fixture.call("builtin/file-read", json!({"path": "x.png"}))
    else {
        panic!("the image was not read");
    };
    let picture = success.picture.as_ref().expect("a picture");
    assert_eq!(picture.media_type, "image/png");
    assert_eq!(picture.data, b"\x89PNG\r\n\x1a\nrest");
    assert_eq!(
        CallOutcome::Succeeded(success).for_model(),
        "[image/png, 12 bytes]"
    );
    fixture.folder().write("latin1", [b'a', 0xe9, b'\n']);
    assert_eq!(
        fixture.ok("builtin/file-read", json!({"path": "latin1"})),
        "a\u{fffd}\n"
    );
    fixture.folder().write("sub/x", "");
    assert!(
        fixture
            .fails("builtin/file-read", json!({"path": "sub"}))
            .contains("dir-list")
    );
}

#[test]
fn defect_7223_a_malformed_argument_is_named_before_the_tool_runs() {
    let fixture = GateFixture::builtin();
    for (tool, arguments, field) in [
        ("builtin/file-read", json!({}), "path"),
        ("builtin/file-read", json!({"path": 7}), "path"),
        ("builtin/file-write", json!({"path": "a"}), "content"),
        (
            "builtin/file-write",
            json!({"path": "a", "content": "x", "mode": 1}),
            "mode",
        ),
        ("builtin/file-move", json!({"from": "a"}), "to"),
        (
            "builtin/file-edit",
            json!({"path": "a", "edits": [{"old_text": "x"}]}),
            "new_text",
        ),
        ("builtin/shell", json!({"command": ""}), "command"),
    ] {
        let (kind, message) = fixture.refused(tool, arguments);
        assert_eq!(kind, "bad_arguments");
        assert!(message.contains(field), "{tool}: {message}");
    }
    assert!(!fixture.folder().exists("a"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Reading a file range after range returns the whole file.
    #[test]
    fn consecutive_ranges_return_the_whole_file(content in "[a\u{e9}\r\n]{0,40}", limit in 1_u64..5) {
        let fixture = GateFixture::builtin();
        fixture.folder().write("a", &content);
        let mut read = String::new();
        let mut offset = 1;
        loop {
            let outcome = fixture.call("builtin/file-read", json!({"path": "a", "offset": offset, "limit": limit}));
            let CallOutcome::Succeeded(success) = outcome else {
                panic!("{}", outcome.for_model());
            };
            read.push_str(&success.shown.head);
            if !success.note.is_some_and(|note| note.contains("Continue")) {
                break;
            }
            offset += limit;
        }
        prop_assert_eq!(read, content);
    }

    /// No path causes a change outside the sandbox or a panic.
    #[test]
    fn unusual_paths_stay_inside(path in "(\\.\\./|\\./|/|a|b/|~|link/|\\.\\.|\\\\){0,8}") {
        let fixture = GateFixture::builtin();
        let outside = fixture.folder().whole.path().join("outside");
        std::fs::create_dir(&outside).expect("made");
        symlink("../../outside", fixture.folder().top().join("link")).expect("linked");
        let _outcome = fixture.call("builtin/file-write", json!({"path": path, "content": "x"}));
        prop_assert_eq!(std::fs::read_dir(&outside).expect("read").count(), 0);
        let work_entries = std::fs::read_dir(fixture.folder().whole.path().join("work")).expect("read").count();
        prop_assert_eq!(work_entries, 1);
        let outer_entries = std::fs::read_dir(fixture.folder().whole.path()).expect("read").count();
        prop_assert_eq!(outer_entries, 2);
    }
}

#[test]
fn a_mask_is_never_written_over_a_secret() {
    let fixture = GateFixture::builtin();
    let path = fixture.folder().root("app").join("conf.py");
    let text = format!("TOKEN = '{SECRET}'\nPORT = 1\n");
    std::fs::write(&path, &text).expect("a file");
    let read = fixture.ok("builtin/file-read", json!({"path": "conf.py"}));
    assert_eq!(read, "TOKEN = '[REDACTED]'\nPORT = 1\n");
    let message = fixture.fails(
        "builtin/file-write",
        json!({"path": "conf.py", "content": read.replace("PORT = 1", "PORT = 2")}),
    );
    assert!(
        message.contains("[REDACTED]") && message.contains("file-edit"),
        "{message}"
    );
    let edit = |old: &str, new: &str| json!({"path": "conf.py", "edits": [{"old_text": old, "new_text": new}]});
    fixture.fails("builtin/file-edit", edit("PORT = 1", "PORT = '[REDACTED]'"));
    let message = fixture.fails("builtin/file-edit", edit("TOKEN = '[REDACTED]'", "T = 1"));
    assert!(message.contains("secret"), "{message}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), text);
    fixture.ok("builtin/file-edit", edit("PORT = 1", "PORT = 2"));
    assert_eq!(
        std::fs::read_to_string(&path).expect("a file"),
        text.replace("PORT = 1", "PORT = 2")
    );
    // Masks that the file already contains are allowed.
    let existing_mask = "MASK = \"[REDACTED]\"\n";
    std::fs::write(&path, existing_mask).expect("a file");
    let extended = format!("{existing_mask}X = 1\n");
    fixture.ok(
        "builtin/file-write",
        json!({"path": "conf.py", "content": extended}),
    );
    fixture.fails(
        "builtin/file-write",
        json!({"path": "conf.py", "content": format!("{extended}{existing_mask}")}),
    );
    fixture.fails(
        "builtin/file-write",
        json!({"path": "new.py", "content": existing_mask}),
    );
}

/// A literal mask elsewhere in the file does not permit to write one over a secret.
#[test]
fn a_literal_mask_does_not_replace_a_secret() {
    let fixture = GateFixture::builtin();
    let path = fixture.folder().root("app").join("conf.py");
    let text = format!("TOKEN = '{SECRET}'\nNOTE = '[REDACTED]'\n");
    std::fs::write(&path, &text).expect("a file");
    for content in ["TOKEN = '[REDACTED]'\n", "NOTE = 1\nTOKEN = '[REDACTED]'\n"] {
        fixture.fails(
            "builtin/file-write",
            json!({"path": "conf.py", "content": content}),
        );
        let added = content.trim_end().replace('\n', "\n+");
        let replacement = format!(
            "*** Begin Patch\n*** Delete File: conf.py\n*** Add File: conf.py\n+{added}\n*** End Patch\n"
        );
        fixture.fails("builtin/apply-patch", json!({"patch": replacement}));
    }
    let edit = json!({"path": "conf.py", "edits": [
        {"old_text": "TOKEN = '[REDACTED]'\nNOTE", "new_text": "NOTE"},
    ]});
    let message = fixture.fails("builtin/file-edit", edit);
    assert!(message.contains("secret"), "{message}");
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), text);
    let content = "NOTE = '[REDACTED]'\n";
    fixture.ok(
        "builtin/file-write",
        json!({"path": "conf.py", "content": content}),
    );
}

#[test]
fn a_path_that_starts_with_the_name_of_the_part_is_found() {
    let fixture = GateFixture::builtin();
    let part = fixture.folder().root("app");
    std::fs::create_dir(part.join("app")).expect("a folder");
    std::fs::write(part.join("main.py"), "top\n").expect("a file");
    std::fs::write(part.join("app/inner.py"), "inner\n").expect("a file");
    let read = |path: &str| fixture.ok("builtin/file-read", json!({"path": path}));
    assert_eq!(read("app/main.py"), "top\n");
    assert_eq!(read("app/inner.py"), "inner\n");
    assert_eq!(read("app/app/inner.py"), "inner\n");
    assert_eq!(read("main.py"), "top\n");
    // Neither `app/new.py` nor `new.py` exists: the file is created at the path as written.
    fixture.ok(
        "builtin/file-write",
        json!({"path": "app/new.py", "content": "x\n"}),
    );
    assert!(part.join("app/new.py").is_file());
}

#[test]
fn the_programs_own_temporary_files_are_not_listed() {
    let fixture = GateFixture::builtin();
    let part = fixture.folder().root("app");
    std::fs::write(part.join(".cleveragents-17-3.tmp"), "half").expect("a file");
    std::fs::write(part.join("a.txt"), "x").expect("a file");
    let listed = fixture.ok("builtin/dir-list", json!({}));
    assert!(
        listed.contains("a.txt") && !listed.contains(".cleveragents"),
        "{listed}"
    );
    let found = fixture.ok("builtin/file-find", json!({"pattern": "*", "hidden": true}));
    assert!(
        found.contains("a.txt") && !found.contains(".cleveragents"),
        "{found}"
    );
}
