//! Tests of the tools that search, run commands and use git.

use std::os::unix::fs::PermissionsExt as _;

use cleveragents_tools::ports::Approval;
use cleveragents_tools::{CallOutcome, Effect, FailureKind, PermissionRules, Registry};
use serde_json::json;

use crate::support::{Folder, GateFixture, SECRET, repository};

#[test]
fn text_is_found_with_line_numbers_in_the_order_of_paths() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("b.txt", "one\nneedle two\n");
    fixture
        .folder()
        .write("a/c.txt", "Needle\nx\nneedle needle\n");
    fixture.folder().write("ignored.log", "needle");
    fixture.folder().write(".gitignore", "*.log\nbuild/\n");
    fixture.folder().write("build/x.txt", "needle");
    fixture.folder().write(".hidden", "needle");
    fixture.folder().write("binary", b"needle\0needle");
    let search = |arguments| fixture.ok("builtin/file-search", arguments);
    assert_eq!(
        search(json!({"pattern": "needle"})),
        "a/c.txt:3:needle needle\nb.txt:2:needle two\n"
    );
    assert_eq!(
        search(json!({"pattern": "^needle$", "ignore_case": true})),
        "a/c.txt:1:Needle\n"
    );
    assert_eq!(
        search(json!({"pattern": "needle", "glob": "a/**/*.txt"})),
        "a/c.txt:3:needle needle\n"
    );
    assert_eq!(
        search(json!({"pattern": "needle", "path": "b.txt"})),
        "2:needle two\n"
    );
    assert_eq!(
        search(json!({"pattern": "needle", "hidden": true, "glob": ".hidden"})),
        ".hidden:1:needle\n"
    );
    assert_eq!(
        search(json!({"pattern": "two", "context": 1})),
        "b.txt-1-one\nb.txt:2:needle two\n"
    );
    // An ignored path is searched when the call names it.
    assert_eq!(
        search(json!({"pattern": "needle", "path": "build"})),
        "build/x.txt:1:needle\n"
    );
    fixture.folder().write("regex", "a.b(c\n");
    assert_eq!(
        search(json!({"pattern": "a.b(c", "literal": true})),
        "regex:1:a.b(c\n"
    );
    let (kind, message) = fixture.refused("builtin/file-search", json!({"pattern": "a("}));
    assert_eq!(kind, "bad_arguments");
    assert!(message.contains("pattern"), "{message}");
    assert_eq!(
        fixture
            .refused("builtin/file-search", json!({"pattern": "a", "glob": "a{"}))
            .0,
        "bad_arguments"
    );
}

#[test]
fn matches_beyond_the_limit_are_counted_and_the_order_is_stable() {
    let fixture = GateFixture::builtin();
    for number in 0..60 {
        fixture
            .folder()
            .write(&format!("d{}/f{number:02}", number % 5), "hit\nhit\nhit\n");
    }
    let outputs: Vec<String> = (0..5)
        .map(|_| {
            match fixture.call(
                "builtin/file-search",
                json!({"pattern": "hit", "limit": 10}),
            ) {
                CallOutcome::Succeeded(success) => {
                    assert_eq!(
                        success.note.as_deref(),
                        Some("180 matching lines in 60 files; the first 10 are shown.")
                    );
                    success.shown.head
                }
                other => panic!("{}", other.for_model()),
            }
        })
        .collect();
    assert_eq!(outputs[0].lines().count(), 10);
    assert!(
        outputs[0].starts_with("d0/f00:1:hit\nd0/f00:2:hit\n"),
        "{}",
        outputs[0]
    );
    assert!(outputs.iter().all(|shown| shown == &outputs[0]));
    match fixture.call("builtin/file-find", json!({"pattern": "f*", "limit": 3})) {
        CallOutcome::Succeeded(success) => {
            assert_eq!(success.shown.head, "d0/f00\nd0/f05\nd0/f10\n");
            assert_eq!(
                success.note.as_deref(),
                Some("60 files; the first 3 are shown.")
            );
        }
        other => panic!("{}", other.for_model()),
    }
}

#[test]
fn a_very_long_line_is_shown_around_its_match() {
    let fixture = GateFixture::builtin();
    fixture.folder().write(
        "long",
        format!("{}needle{}\n", "é".repeat(50_000), "x".repeat(100_000)),
    );
    let output = fixture.ok("builtin/file-search", json!({"pattern": "needle"}));
    assert!(
        output.len() < 600 && output.contains("needle") && output.contains('…'),
        "{output}"
    );
}

#[test]
fn files_are_found_by_patterns_in_every_part() {
    let fixture = GateFixture::new(
        Registry::with_builtins(),
        Some(Folder::new(&["app", "docs"])),
    );
    for (part, path) in [
        ("app", "src/main.rs"),
        ("app", "src/deep/mod.rs"),
        ("docs", "a.rs"),
        ("docs", "a.md"),
    ] {
        let place = fixture.folder().root(part).join(path);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::write(place, "").expect("written");
    }
    let find = |arguments| fixture.ok("builtin/file-find", arguments);
    assert_eq!(
        find(json!({"pattern": "*.rs"})),
        "app/src/deep/mod.rs\napp/src/main.rs\ndocs/a.rs\n"
    );
    assert_eq!(find(json!({"pattern": "src/*.rs"})), "app/src/main.rs\n");
    assert_eq!(
        find(json!({"pattern": "**/mod.rs", "path": "app/src"})),
        "app/src/deep/mod.rs\n"
    );
    assert_eq!(
        find(json!({"pattern": "deep/*", "path": "app/src"})),
        "app/src/deep/mod.rs\n"
    );
    assert_eq!(find(json!({"pattern": "*.none"})), "");
}

#[test]
fn a_command_runs_in_the_sandbox_and_its_changes_are_captured() {
    let fixture = GateFixture::builtin();
    fixture.folder().write("sub/x", "");
    let outcome = fixture.call(
        "builtin/shell",
        json!({"command": "echo out; echo err >&2; touch made"}),
    );
    let message = outcome.for_model();
    assert!(
        message.contains("out\n") && message.contains("err\n") && message.ends_with("Exit code 0."),
        "{message}"
    );
    assert!(fixture.folder().exists("made"));
    assert_eq!(
        fixture
            .folder()
            .captures
            .lock()
            .expect("not poisoned")
            .as_slice(),
        [None]
    );
    assert!(
        fixture
            .ok("builtin/shell", json!({"command": "pwd", "folder": "sub"}))
            .ends_with("/app/sub\n")
    );
    match fixture.call("builtin/shell", json!({"command": "echo why; exit 7"})) {
        CallOutcome::Failed(failure) => {
            assert_eq!(failure.message, "exit code 7");
            assert_eq!(failure.shown.head, "why\n");
        }
        other => panic!("{}", other.for_model()),
    }
    assert_eq!(
        fixture.ok("builtin/shell", json!({"command": "cat"})),
        "",
        "standard input is empty"
    );
}

#[test]
fn defect_5454_a_hanging_command_is_stopped_with_its_child_processes() {
    let fixture = GateFixture::builtin();
    let command = "sleep 1000 & echo $! > number; wait";
    match fixture.call(
        "builtin/shell",
        json!({"command": command, "timeout_seconds": 2}),
    ) {
        CallOutcome::Failed(failure) => assert_eq!(failure.kind, FailureKind::Timeout),
        other => panic!("{}", other.for_model()),
    }
    let process: u32 = fixture
        .folder()
        .read("number")
        .trim()
        .parse()
        .expect("a number");
    // The process was killed; the system may take a moment to reap it.
    let is_gone = || {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
        state.map_or(true, |state| state.contains(") Z "))
    };
    while !is_gone() {
        std::thread::yield_now();
    }
}

#[test]
fn a_cancelled_command_is_stopped() {
    let fixture = GateFixture::builtin();
    let cancel = fixture.cancel.clone();
    std::thread::scope(|scope| {
        let place = fixture.folder().top().join("started");
        scope.spawn(move || {
            while !place.exists() {
                std::thread::yield_now();
            }
            cancel.cancel();
        });
        match fixture.call(
            "builtin/shell",
            json!({"command": "touch started; sleep 1000"}),
        ) {
            CallOutcome::Failed(failure) => assert_eq!(failure.kind, FailureKind::Cancelled),
            other => panic!("{}", other.for_model()),
        }
    });
}

#[test]
fn head_and_tail_of_fifty_megabytes_of_output_are_shown() {
    let mut fixture = GateFixture::builtin();
    fixture.shown_bytes = 4_000;
    let command = "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last";
    match fixture.call("builtin/shell", json!({"command": command})) {
        CallOutcome::Succeeded(success) => {
            assert_eq!(success.shown.total, 50_000_012);
            assert!(
                success.shown.head.starts_with("first\n")
                    && success.shown.tail.ends_with("\nlast\n")
            );
            assert!(success.shown.head.len() + success.shown.tail.len() <= 4_000);
        }
        other => panic!("{}", other.for_model()),
    }
    assert_eq!(fixture.ledger.last().output.len(), 50_000_012);
}

#[test]
fn the_environment_of_a_command_contains_no_keys() {
    let fixture = GateFixture::builtin();
    let output = fixture.ok("builtin/shell", json!({"command": "env"}));
    assert!(
        output.contains("PATH=") && !output.contains("CARGO_MANIFEST_DIR"),
        "{output}"
    );
    let output = fixture.ok(
        "builtin/shell",
        json!({"command": format!("echo {SECRET}")}),
    );
    assert_eq!(output, "[REDACTED]\n");
    assert!(!fixture.ledger.last().arguments.to_string().contains(SECRET));
}

#[test]
fn rules_for_commands_apply_to_the_shell() {
    let mut fixture = GateFixture::builtin();
    fixture.rules = PermissionRules::parse(
        "deny builtin/shell(touch *)\nallow builtin/shell(echo *)\nask builtin/shell",
        Effect::Allow,
    )
    .expect("rules");
    for command in [
        "touch a",
        "echo x; touch a",
        "echo $(touch a)",
        "sh -c 'touch a'",
    ] {
        assert_eq!(
            fixture
                .refused("builtin/shell", json!({"command": command}))
                .0,
            "rule",
            "{command}"
        );
    }
    for command in ["ls", "echo $HOME", "echo x > a", "echo x | tee a"] {
        assert_eq!(
            fixture
                .refused("builtin/shell", json!({"command": command}))
                .0,
            "nobody_to_approve",
            "{command}"
        );
    }
    assert_eq!(
        fixture.ok("builtin/shell", json!({"command": "echo x; echo y"})),
        "x\ny\n"
    );
    assert_eq!(
        fixture
            .refused("builtin/shell", json!({"command": "rm -rf /"}))
            .0,
        "rule"
    );
    assert!(!fixture.folder().exists("a"));
}

#[test]
fn git_tools_show_status_and_commit() {
    let fixture = GateFixture::builtin();
    repository(&fixture.folder().top());
    fixture.folder().write("a.txt", "one\n");
    assert!(
        fixture
            .ok("builtin/git-status", json!({}))
            .contains("?? a.txt")
    );
    fixture.ok(
        "builtin/git_commit",
        json!({"message": "add a file\n\nwith a body"}),
    );
    assert_eq!(fixture.ok("builtin/git-status", json!({})), "## main\n");
    let log = fixture.ok("builtin/git-log", json!({"limit": 1}));
    assert!(log.contains("add a file"), "{log}");
    fixture.folder().write("a.txt", "two\n");
    fixture.folder().write("b.txt", "b\n");
    let diff = fixture.ok("builtin/git-diff", json!({"path": "a.txt"}));
    assert!(diff.contains("-one") && diff.contains("+two"), "{diff}");
    fixture.ok(
        "builtin/git-commit",
        json!({"message": "only one", "paths": ["b.txt"]}),
    );
    assert!(
        fixture
            .ok("builtin/git-status", json!({}))
            .contains(" M a.txt")
    );
    assert!(
        fixture
            .ok("builtin/git-show", json!({}))
            .contains("only one")
    );
    assert_eq!(
        fixture.ok(
            "builtin/git-show",
            json!({"path": "a.txt", "commit": "HEAD"})
        ),
        "one\n"
    );
    let summary = fixture.ok(
        "builtin/git-diff",
        json!({"from": "HEAD~2", "to": "HEAD", "summary": true}),
    );
    assert!(summary.contains("2 files changed"), "{summary}");
    assert!(
        fixture
            .fails("builtin/git-show", json!({"commit": "nothing"}))
            .contains("git failed")
    );
    let other = GateFixture::builtin();
    assert!(
        other
            .fails("builtin/git-status", json!({}))
            .contains("not a git repository")
    );
}

#[test]
fn git_accepts_no_options_from_a_model_and_runs_no_hooks() {
    let fixture = GateFixture::builtin();
    let top = fixture.folder().top();
    repository(&top);
    for name in ["--output=/tmp/x", "-p", "", " "] {
        for (tool, arguments) in [
            ("builtin/git-show", json!({"commit": name})),
            ("builtin/git-diff", json!({"from": name})),
            ("builtin/git-diff", json!({"from": "HEAD", "to": name})),
            ("builtin/git-log", json!({"from": name})),
        ] {
            assert_eq!(
                fixture.refused(tool, arguments).0,
                "bad_arguments",
                "{tool} {name:?}"
            );
        }
    }
    fixture.folder().write("--help", "x");
    fixture.ok("builtin/git-diff", json!({"path": "./--help"}));
    // Each hook, filter and driver would create this file.
    let trace = fixture.folder().whole.path().join("trace");
    let command = format!("touch {}", trace.display());
    fixture
        .folder()
        .write(".git/hooks/pre-commit", format!("#!/bin/sh\n{command}\n"));
    let hook = top.join(".git/hooks/pre-commit");
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).expect("set");
    let config = std::fs::read_to_string(top.join(".git/config")).expect("read");
    let hostile_config = format!(
        "{config}[core]\n\tfsmonitor = {command}\n\tpager = {command}\n[filter \"evil\"]\n\tclean = {command}\n\
         \tsmudge = {command}\n[diff \"evil\"]\n\ttextconv = {command}\n\tcommand = {command}\n"
    );
    std::fs::write(top.join(".git/config"), hostile_config).expect("written");
    fixture
        .folder()
        .write(".gitattributes", "* filter=evil diff=evil\n");
    fixture.folder().write("a", "x");
    fixture.ok("builtin/git-status", json!({}));
    fixture.ok("builtin/git-commit", json!({"message": "m"}));
    fixture.folder().write("a", "y");
    fixture.ok("builtin/git-diff", json!({}));
    fixture.ok("builtin/git-show", json!({}));
    assert!(!trace.exists());
}

#[test]
fn git_does_not_show_files_that_may_not_be_read() {
    let mut fixture = GateFixture::builtin();
    repository(&fixture.folder().top());
    fixture.folder().write("secrets/key", "secret");
    fixture.ok("builtin/git-commit", json!({"message": "m"}));
    fixture.rules =
        PermissionRules::parse("deny builtin/file-read(secrets/**)", Effect::Allow).expect("rules");
    assert!(
        fixture
            .fails("builtin/git-show", json!({"path": "secrets/key"}))
            .contains("may not be read")
    );
    assert!(
        fixture
            .fails("builtin/git-diff", json!({"path": "secrets"}))
            .contains("may not be read")
    );
    // A diff or a commit without a path leaves the hidden files out.
    fixture.folder().write("secrets/key", "secret, changed");
    fixture.folder().write("other", "open");
    let shown = fixture.ok("builtin/git-show", json!({}));
    assert!(
        shown.contains("left out") && !shown.contains("secret"),
        "{shown}"
    );
    for arguments in [json!({}), json!({"from": "HEAD"})] {
        let shown = fixture.ok("builtin/git-diff", arguments);
        assert!(
            shown.contains("left out") && !shown.contains("secret"),
            "{shown}"
        );
    }
    let blob = "HEAD:secrets/key";
    for (tool, arguments) in [
        ("builtin/git-show", json!({"commit": blob})),
        (
            "builtin/git-diff",
            json!({"from": blob, "to": "HEAD:other"}),
        ),
    ] {
        let (reason, message) = fixture.refused(tool, arguments);
        assert_eq!(reason, "bad_arguments", "{message}");
    }
    assert_eq!(
        fixture.ok("builtin/file-search", json!({"pattern": "secret"})),
        ""
    );
}

/// Network access needs the user's approval, or a rule that names `builtin/shell-network`; the rules for
/// `builtin/shell` apply too.
#[test]
fn network_access_needs_the_user_or_a_rule() {
    const TOOL: &str = "builtin/shell-network";
    let arguments = || json!({"command": "echo got", "reason": "the package is missing"});
    let mut fixture = GateFixture::builtin();
    let (kind, message) = fixture.refused(TOOL, arguments());
    assert_eq!(kind, "nobody_to_approve");
    assert!(message.contains("it uses the network"), "{message}");
    assert!(
        message.contains("`allow builtin/shell-network(echo got)`"),
        "{message}"
    );
    fixture.user.approval = Approval::Refused(Some("work offline".to_owned()));
    let (kind, message) = fixture.refused(TOOL, arguments());
    assert_eq!(kind, "approval_refused");
    assert!(message.contains("work offline"), "{message}");
    assert!(fixture.folder().network.lock().expect("fine").is_empty());

    fixture.user.approval = Approval::Once;
    assert_eq!(fixture.ok(TOOL, arguments()), "got\n");
    fixture.ok("builtin/shell", json!({"command": "echo offline"}));
    assert_eq!(
        *fixture.folder().network.lock().expect("fine"),
        [true, false]
    );
    let asked = fixture.user.asked.lock().expect("fine").join("\n");
    assert!(asked.contains("the package is missing"), "{asked}");

    fixture.user.approval = Approval::NoUser;
    for (rules, expected) in [
        ("allow *", Some("nobody_to_approve")),
        ("allow builtin/*", Some("nobody_to_approve")),
        ("allow builtin/shell", Some("nobody_to_approve")),
        ("allow builtin/shell(echo *)", Some("nobody_to_approve")),
        (
            "allow builtin/shell-network(npm *)",
            Some("nobody_to_approve"),
        ),
        ("allow builtin/shell-network(echo *)", None),
        ("allow builtin/shell-network", None),
        (
            "allow builtin/shell-network\nask builtin/shell-network(echo *)",
            Some("nobody_to_approve"),
        ),
        (
            "allow builtin/shell-network\ndeny builtin/shell(echo *)",
            Some("rule"),
        ),
        (
            "allow builtin/shell-network\ndeny builtin/shell-network(echo *)",
            Some("rule"),
        ),
    ] {
        fixture.rules = PermissionRules::parse(rules, Effect::Allow).expect("rules");
        match expected {
            Some(kind) => assert_eq!(fixture.refused(TOOL, arguments()).0, kind, "{rules}"),
            None => assert_eq!(fixture.ok(TOOL, arguments()), "got\n", "{rules}"),
        }
    }
    fixture.rules = PermissionRules::default();
    let (kind, _) = fixture.refused(TOOL, json!({"command": "echo got", "reason": " "}));
    assert_eq!(kind, "bad_arguments");
}

/// A page is fetched only after the user approved it, or with a rule that names the tool.
#[test]
fn a_web_page_needs_the_user_or_a_rule_and_a_public_address() {
    const TOOL: &str = "builtin/fetch-url";
    let arguments = || json!({"url": "https://no-such-host.invalid/page"});
    let mut fixture = GateFixture::builtin();
    for rules in [
        "",
        "allow *",
        "allow builtin/*",
        "allow builtin/fetch-url(https://docs.rs/*)",
    ] {
        fixture.rules = PermissionRules::parse(rules, Effect::Allow).expect("rules");
        let (kind, message) = fixture.refused(TOOL, arguments());
        assert_eq!(kind, "nobody_to_approve", "{rules}");
        assert!(message.contains("it uses the network"), "{message}");
        assert!(
            message.contains("`allow builtin/fetch-url(https://no-such-host.invalid/page)`"),
            "{message}"
        );
    }
    // Not even a rule allows a private address.
    fixture.rules =
        PermissionRules::parse("allow builtin/fetch-url", Effect::Allow).expect("rules");
    for url in [
        "https://127.0.0.1/",
        "https://192.168.1.1/",
        "http://example.org/",
        "file:///etc/passwd",
    ] {
        let (kind, message) = fixture.refused(TOOL, json!({"url": url}));
        assert_eq!(kind, "bad_arguments", "{url}");
        assert!(message.contains("the URL is refused"), "{message}");
    }
    fixture.rules =
        PermissionRules::parse("deny builtin/fetch-url(https://*.invalid/*)", Effect::Allow)
            .expect("rules");
    assert_eq!(fixture.refused(TOOL, arguments()).0, "rule");
}
