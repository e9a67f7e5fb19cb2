//! `validation`: registration, attachment and runs, which leave the sandbox unchanged.

use std::path::{Path, PathBuf};

use cleveragents_testkit::{Agents, TestDatabase};
use serde_json::{Value, json};

use super::{agents, assert_shown, shown};

fn write(agents: &Agents, name: &str, text: &str) {
    std::fs::write(agents.cwd().join(name), text).expect("a file");
}

/// Registers the validation `local/check`.
fn register_check(agents: &Agents, definition: &str) {
    let text = format!("name: local/check\ndescription: Looks\n{definition}\n");
    write(agents, "check.yaml", &text);
    agents.data(&["validation", "add", "--config", "check.yaml", "--update"]);
}

/// A home with a sandbox `fix` of the folder `src`, which has two files and a link.
fn agents_with_sandbox() -> Agents {
    let agents = agents();
    add_sandbox(&agents);
    agents
}

fn add_sandbox(agents: &Agents) {
    let folder = agents.cwd().join("src");
    std::fs::create_dir_all(folder.join("deep")).expect("folders");
    write(agents, "src/a.txt", "one\n");
    write(agents, "src/deep/b.txt", "two\n");
    std::os::unix::fs::symlink("a.txt", folder.join("link")).expect("a link");
    agents.data(&["sandbox", "create", "fix", "--path", "src"]);
}

/// Runs the validation in the sandbox. Returns true if it passed, and the data of the command.
fn run(agents: &Agents, arguments: &[&str]) -> (bool, Value) {
    let fixed = [
        "--format",
        "json",
        "validation",
        "run",
        "local/check",
        "--sandbox",
        "fix",
    ];
    let answer = agents.run(&[&fixed[..], arguments].concat());
    let data = answer.json()["data"].clone();
    let passed = data["passed"].as_bool().expect("a verdict");
    assert_eq!(answer.code, Some(i32::from(!passed)), "{answer:?}");
    (passed, data)
}

/// Working folder of the sandbox.
fn work_folder(agents: &Agents) -> PathBuf {
    let rows = TestDatabase::read_file(&agents.database(), "SELECT folder FROM sandboxes");
    Path::new(&rows[0][0]).join("work").join("src")
}

/// Every path below a folder with its mode and content.
fn snapshot(folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut entries = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            let metadata = path.symlink_metadata().expect("metadata");
            let content = if metadata.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                path.read_link()
                    .expect("a link")
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                std::fs::read(&path).expect("a file")
            };
            entries.push((path, metadata.mode(), content));
        }
    }
    entries.sort();
    entries
}

/// Number of recorded changes and position of an unfinished rollback.
fn positions(agents: &Agents) -> Vec<Vec<String>> {
    TestDatabase::read_file(
        &agents.database(),
        "SELECT (SELECT COUNT(*) FROM change_entries), rolling_back_to FROM sandboxes",
    )
}

#[test]
fn validation_commands() {
    let file = |agents: &Agents| {
        write(
            agents,
            "tests.yaml",
            "name: local/tests\ndescription: All tests pass\ncommand: cargo test -p {package}\n\
             timeout: 30\nenvironment: {RUST_BACKTRACE: '1'}\nmetrics: {tests: '(\\d+) passed'}\n\
             minimum: {tests: 1}\n",
        );
    };
    let add = ["validation", "add", "--config", "tests.yaml"];
    assert_shown("validation_add", &shown(file, &add));
    let attached = |agents: &Agents| {
        file(agents);
        agents.data(&add);
        std::fs::create_dir_all(agents.cwd().join("api")).expect("a folder");
        agents.data(&[
            "resource",
            "add",
            "fs-directory",
            "local/api",
            "--path",
            "api",
        ]);
        agents.data(&["project", "create", "shop", "--resource", "local/api"]);
        let attach = [
            "validation",
            "attach",
            "-p",
            "shop",
            "local/api",
            "local/tests",
        ];
        agents.data(&[&attach[..], &["package=api"]].concat());
    };
    let attach = ["validation", "attach", "local/api", "tests", "package=web"];
    assert_shown("validation_attach", &shown(attached, &attach));
    assert_shown("validation_list", &shown(attached, &["validation", "list"]));
    let show = ["validation", "show", "local/tests"];
    assert_shown("validation_show", &shown(attached, &show));
}

/// Report 3490: the exit code of the command decides, not its name or its output.
#[test]
fn defect_3490_a_validation_passes_only_if_its_command_succeeds() {
    let agents = agents_with_sandbox();
    for (command, passes, printed) in [
        ("'true'", true, "passed"),
        ("'false'", false, "exit code 1"),
        ("echo FAILED tests", true, "passed"),
        ("echo all passed; exit 3", false, "exit code 3"),
        ("kill -9 $$", false, "signal 9"),
        ("[no-such-program-anywhere, x]", false, "could not be run"),
        ("no-such-program-anywhere", false, "exit code 127"),
        ("[sh, -c, 'test -f a.txt']", true, "passed"),
    ] {
        register_check(&agents, &format!("command: {command}"));
        let (passed, data) = run(&agents, &[]);
        assert_eq!(passed, passes, "{command}: {data}");
        let message = data["message"].as_str().expect("a message");
        assert!(message.contains(printed), "{command}: {message}");
    }
}

#[test]
fn exit_codes_output_and_numbers_decide() {
    let agents = agents_with_sandbox();
    let print = "command: \"echo '12 passed, coverage 1,081.5%'; echo '7 passed'; exit 2\"\n\
                 metrics: {tests: '(\\d+) passed', coverage: 'coverage ([\\d,.]+)%', none: 'x(\\d)'}\n";
    for (conditions, passes, printed) in [
        ("passes_when: {exit_code: [0, 2]}", true, "passed"),
        (
            "passes_when: {exit_code: [2], output_matches: '^7'}",
            true,
            "passed",
        ),
        (
            "passes_when: {exit_code: [2], output_matches: '^8'}",
            false,
            "does not match `^8`",
        ),
        (
            "passes_when: {exit_code: [2]}\nminimum: {tests: 7}",
            true,
            "passed",
        ),
        (
            "passes_when: {exit_code: [2]}\nminimum: {tests: 8}",
            false,
            "tests is 7, less than 8",
        ),
        (
            "passes_when: {exit_code: [2]}\nmaximum: {coverage: 1081}",
            false,
            "coverage is 1081.5",
        ),
        (
            "passes_when: {exit_code: [2]}\nminimum: {none: 0}",
            false,
            "has no value for `none`",
        ),
        ("", false, "exit code 2"),
    ] {
        register_check(&agents, &format!("{print}{conditions}"));
        let (passed, data) = run(&agents, &[]);
        assert_eq!(passed, passes, "{conditions}: {data}");
        assert!(
            data["message"]
                .as_str()
                .is_some_and(|reported| reported.contains(printed)),
            "{data}"
        );
        assert_eq!(
            data["data"]["metrics"],
            json!({"tests": 7.0, "coverage": 1081.5})
        );
    }
}

/// After any change that a command makes, the files are restored and the history has no new entry.
#[test]
fn a_validation_leaves_the_sandbox_unchanged() {
    let agents = agents_with_sandbox();
    agents.data(&[
        "sandbox",
        "exec",
        "fix",
        "--",
        "sh",
        "-c",
        "echo more >> a.txt; mkdir empty",
    ]);
    let folder = work_folder(&agents);
    let (before, history) = (snapshot(&folder), positions(&agents));
    for command in [
        "cat a.txt",
        "mkdir -p target/deep && head -c 100000 /dev/urandom > target/deep/cache && echo x > new",
        "echo other > a.txt; rm deep/b.txt; chmod 755 a.txt",
        "rm -rf deep link empty && mkdir link && echo y > link/inside && echo z > deep",
        "mv a.txt c.txt; ln -s c.txt a.txt; exit 1",
    ] {
        register_check(&agents, &format!("command: \"{command}\""));
        run(&agents, &[]);
        assert_eq!(snapshot(&folder), before, "{command}");
        assert_eq!(positions(&agents), history, "{command}");
    }
}

#[test]
fn a_command_at_its_time_limit_is_stopped_with_its_child_processes() {
    let agents = agents_with_sandbox();
    // If only the shell were killed, its child would keep running and hold the pipe open.
    register_check(
        &agents,
        "command: \"sleep 600 & echo begun; wait\"\ntimeout: 1",
    );
    let (passed, data) = run(&agents, &[]);
    assert!(!passed);
    assert!(
        data["message"]
            .as_str()
            .is_some_and(|reported| reported.contains("time limit of 1"))
    );
    assert_eq!(data["output"], "begun\n");
}

/// A killed validation leaves changes in the files; the next process that opens the sandbox undoes
/// them.
#[test]
fn changes_of_a_killed_validation_are_undone() {
    let agents = agents_with_sandbox();
    let folder = work_folder(&agents);
    let before = snapshot(&folder);
    register_check(
        &agents,
        "command: \"echo junk > a.txt; rm deep/b.txt; touch begun; sleep 600\"",
    );
    let arguments = ["validation", "run", "local/check", "--sandbox", "fix"];
    let mut child = agents
        .command(arguments)
        .spawn()
        .expect("the program starts");
    while !folder.join("begun").exists() {
        assert!(
            child.try_wait().expect("a child").is_none(),
            "the program ended before its command started"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("killed");
    child.wait().expect("the killed program ends");
    let diff = agents.data(&["sandbox", "diff", "fix"]);
    assert_eq!(snapshot(&folder), before, "{diff:#}");
    register_check(&agents, "command: grep -q one a.txt");
    assert!(run(&agents, &[]).0);
}

#[test]
fn arguments_reach_a_command_as_single_words() {
    let agents = agents_with_sandbox();
    let hostile = "a b; touch pwned; $(touch pwned) `touch pwned` ' \"";
    for command in [
        "printf %s {word}",
        "printf %s \"{word}\"",
        "printf %s '{word}'",
        "[printf, '%s', '{word}']",
    ] {
        let yaml = if command.starts_with('[') {
            command.to_owned()
        } else {
            format!("|\n  {command}")
        };
        register_check(&agents, &format!("command: {yaml}"));
        let (passed, data) = run(&agents, &[&format!("word={hostile}")]);
        assert!(passed, "{data}");
        assert_eq!(data["output"], hostile, "{command}");
        assert_eq!(data["data"]["taken_back"], Value::Null, "{command}");
    }
}

#[test]
fn a_validation_checks_the_output_of_a_tool() {
    let agents = agents_with_sandbox();
    let wraps = |transform: &str| {
        format!("wraps: builtin/file-read\narguments: {{path: '{{file}}'}}\ntransform: {transform}")
    };
    for (transform, file, passes, printed) in [
        ("\"'one' in output\"", "a.txt", true, "passed"),
        ("\"'two' in output\"", "a.txt", false, "is false"),
        (
            "\"{'passed': false, 'message': 'too short', 'data': {'lines': 1}}\"",
            "a.txt",
            false,
            "too short",
        ),
        (
            "\"{'passed': 'yes'}\"",
            "a.txt",
            false,
            "neither true, false nor",
        ),
        ("\"3\"", "a.txt", false, "neither true, false nor"),
        (
            "\"output.none.deeper\"",
            "a.txt",
            false,
            "the transform failed",
        ),
        ("\"true\"", "none.txt", false, "`builtin/file-read` failed"),
    ] {
        register_check(&agents, &wraps(transform));
        let (passed, data) = run(&agents, &[&format!("file={file}")]);
        assert_eq!(passed, passes, "{transform}: {data}");
        let message = data["message"].as_str().expect("a message");
        assert!(message.contains(printed), "{transform}: {message}");
    }
    // A tool that writes cannot be wrapped.
    register_check(
        &agents,
        "wraps: builtin/file-write\narguments: {path: x, content: y}\ntransform: 'true'",
    );
    assert!(!run(&agents, &[]).0);
}

#[test]
fn secrets_in_the_environment_of_a_validation_are_not_printed() {
    let agents = agents_with_sandbox().with("MY_KEY", "s3cret-value-77");
    register_check(
        &agents,
        "command: echo got $API_TOKEN\nenvironment: {API_TOKEN: '${MY_KEY}'}",
    );
    let (passed, data) = run(&agents, &[]);
    assert!(passed);
    assert!(!data.to_string().contains("s3cret"), "{data}");
    assert_eq!(data["output"], "got [REDACTED]\n");
    let show = agents.run(&["validation", "show", "local/check"]);
    assert!(!format!("{show:?}").contains("s3cret"));
}

#[test]
fn tools_and_validations_are_distinguished() {
    let agents = agents_with_sandbox();
    register_check(&agents, "command: 'true'");
    let tool = "name: local/check\ndescription: d\ncommand: [x]\n";
    write(&agents, "tool.yaml", tool);
    for options in [&[][..], &["--update"]] {
        let add = [&["tool", "add", "--config", "tool.yaml"][..], options].concat();
        let answer = agents.run(&add);
        assert_eq!(answer.code, Some(4), "{answer:?}");
        assert!(
            answer.err.contains("is the name of a validation"),
            "{answer:?}"
        );
    }
    let tools = agents.data(&["tool", "list", "--source", "custom", "--type", "tool"]);
    assert_eq!(tools["tools"], json!([]));
    agents.data(&["validation", "remove", "local/check", "--yes"]);
    agents.data(&["tool", "add", "--config", "tool.yaml"]);
    for arguments in [
        &["validation", "add", "--config", "check.yaml"][..],
        &["validation", "add", "--config", "check.yaml", "--update"],
        &["validation", "show", "local/check"],
        &["validation", "attach", "local/src", "local/check"],
        &["validation", "attach", "local/src", "builtin/file-read"],
    ] {
        let answer = agents.run(arguments);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.contains("CA-1134"), "{arguments:?}: {answer:?}");
    }
}

#[test]
fn attachments_are_unique_kept_while_in_use_and_removable() {
    let agents = agents_with_sandbox();
    register_check(&agents, "command: echo {word}");
    let attach = |options: &[&str]| {
        let fixed = [
            "--format",
            "json",
            "validation",
            "attach",
            "local/src",
            "local/check",
        ];
        agents.run(&[&fixed[..], options].concat())
    };
    agents.data(&["project", "create", "shop", "--resource", "local/src"]);
    let first = attach(&["word=a"]).json()["data"]["attachment"].clone();
    assert_eq!(first["scope"], "direct");
    let again = attach(&["word=a"]);
    assert!(
        again.out.contains("CA-1136") && again.code == Some(4),
        "{again:?}"
    );
    assert_eq!(attach(&["word=b"]).code, Some(0));
    assert_eq!(attach(&["--project", "shop", "word=a"]).code, Some(0));
    for (wrong, code) in [
        (&["--plan", "01J9ZC5V7Q8W9E0R1T2Y3U4M5N", "word=a"][..], 3),
        (&["--project", "none", "word=a"], 3),
        (&["word"], 2),
        (&["word=a", "word=b"], 2),
        (&["word=a", "wrd=b"], 2),
        (&[], 2),
    ] {
        let answer = attach(wrong);
        assert_eq!(answer.code, Some(code), "{wrong:?} {answer:?}");
    }
    let listed = |options: &[&str]| {
        let attachments = agents.data(&[&["validation", "attachments"][..], options].concat());
        attachments["summary"]["total"].as_u64().expect("a number")
    };
    assert_eq!((listed(&[]), listed(&["--project", "shop"])), (3, 1));
    assert_eq!(listed(&["--resource", "local/src"]), 3);
    let remove = agents.run(&["validation", "remove", "local/check", "--yes"]);
    assert!(remove.err.contains("CA-1137"), "{remove:?}");
    // An updated file must still match the attachments.
    let text = "name: local/check\ndescription: d\ncommand: echo {other}\n";
    write(&agents, "check.yaml", text);
    let update = agents.run(&["validation", "add", "--config", "check.yaml", "--update"]);
    assert!(update.err.contains("CA-1137"), "{update:?}");
    let show = agents.data(&["validation", "show", "local/check"]);
    assert_eq!(show["validation"]["arguments"], json!(["word"]));
    let id = first["attachment_id"].as_str().expect("an id");
    agents.data(&["validation", "detach", id]);
    let second_detach = agents.run(&["validation", "detach", id]);
    assert!(second_detach.err.contains("CA-1135"), "{second_detach:?}");
    assert_eq!(listed(&[]), 2);
}
