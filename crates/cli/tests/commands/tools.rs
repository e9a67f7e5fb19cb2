//! `tool`, `permission` and `schema`: output of each command, and calls of custom tools by users
//! and models.

use cleveragents_testkit::{Agents, Answer, Gate, TestDatabase};
use serde_json::{Value, json};

use super::{agents, assert_shown, shown, transcript};

/// A read-only tool in Python.
const COUNT: &str = "name: local/count-lines
description: Counts the lines of a file
input_schema:
  type: object
  properties: {path: {type: string}}
  required: [path]
  additionalProperties: false
output_schema: {type: object, required: [lines]}
read_only: true
timeout: 30
code: |
  with open(input[\"path\"]) as file:
      return {\"lines\": sum(1 for _ in file)}
";

/// A tool in sh that writes, in the nested form of the file.
const STAMP: &str = "cleveragents: {version: '3.0'}
tool:
  name: local/stamp
  description: Writes its input to stamp.json
  language: sh
  capability: {writes: true, checkpoint_scope: file, write_scope: 'folder:stamps'}
  resources:
    folder: {type: fs-directory, access: read_write, description: where to}
  code: |
    cat > stamp.json
    echo '{\"written\": \"stamp.json\"}'
";

fn write(agents: &Agents, name: &str, text: &str) {
    std::fs::write(agents.cwd().join(name), text).expect("a file");
}

fn files(agents: &Agents) {
    write(agents, "count.yaml", COUNT);
    write(agents, "stamp.yaml", STAMP);
}

/// Registers both tools and creates a sandbox `fix` of a folder with one file of two lines.
fn add_tools_and_sandbox(agents: &Agents) {
    files(agents);
    for file in ["count.yaml", "stamp.yaml"] {
        agents.data(&["tool", "add", "--config", file]);
    }
    std::fs::create_dir(agents.cwd().join("src")).expect("a folder");
    write(agents, "src/two.txt", "a\nb\n");
    agents.data(&["sandbox", "create", "fix", "--path", "src"]);
}

/// Masks durations, which differ between runs.
fn without_times(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find(": ") {
        Some(end) if line.contains("duration_s") || line.starts_with("Took") => {
            format!("{}: [time]", &line[..end])
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn tool_add() {
    let arguments = ["tool", "add", "--config", "stamp.yaml"];
    assert_shown("tool_add", &shown(files, &arguments));
}

#[test]
fn tool_list() {
    let custom = ["tool", "list", "--source", "custom"];
    assert_shown("tool_list", &shown(add_tools_and_sandbox, &custom));
    let git = ["tool", "list", "--category", "git_operations"];
    assert_shown("tool_list_of_a_category", &shown(|_| (), &git));
    let none = ["tool", "list", "--type", "validation"];
    assert_shown("tool_list_of_nothing", &shown(|_| (), &none));
}

#[test]
fn tools_are_filtered_by_namespace_and_source() {
    let agents = agents();
    add_tools_and_sandbox(&agents);
    let names = |arguments: &[&str]| -> Vec<Value> {
        let listed = agents.data(&[&["tool", "list"], arguments].concat());
        let tools = listed["tools"].as_array().expect("a list").iter();
        tools.map(|tool| tool["name"].clone()).collect()
    };
    let custom = ["local/count-lines", "local/stamp"].map(Value::from);
    assert_eq!(names(&["--namespace", "local"]), custom);
    let builtin = names(&["--source", "builtin"]);
    assert!(builtin.contains(&"builtin/shell".into()) && !builtin.contains(&custom[0]));
    assert_eq!(names(&[]).len(), builtin.len() + custom.len());
    assert_eq!(names(&["--type", "tool"]), names(&[]));
}

#[test]
fn validations_are_listed_among_the_tools_with_their_mode() {
    let agents = agents();
    add_tools_and_sandbox(&agents);
    let key = "sk-test-0123456789abcdefghijkl";
    let agents = agents.with("OPENAI_API_KEY", key);
    for (name, fields) in [
        ("looks", "mode: informational\ntimeout: 7\n"),
        ("passes", "mode: required\n"),
    ] {
        let text =
            format!("name: local/{name}\ndescription: {key} looks\ncommand: [\"true\"]\n{fields}");
        write(&agents, "validation.yaml", &text);
        agents.data(&["validation", "add", "--config", "validation.yaml"]);
    }
    let listed = agents.data(&["tool", "list", "--type", "validation"]);
    let expected = [("looks", "informational"), ("passes", "required")];
    assert_eq!(listed["summary"]["total"], expected.len());
    for (number, (name, mode)) in expected.into_iter().enumerate() {
        let tool = &listed["tools"][number];
        assert_eq!(tool["name"], format!("local/{name}"), "{listed:#}");
        assert_eq!(tool["type"], "validation");
        assert_eq!(tool["mode"], mode);
        assert_eq!(tool["writes"], false);
        assert_eq!(tool["source"], "custom");
        assert_eq!(tool["description"], "[REDACTED] looks");
    }
    assert_eq!(listed["tools"][0]["timeout"], 7.0);
    let count = |arguments: &[&str]| {
        let data = agents.data(&[&["tool", "list"], arguments].concat());
        data["summary"]["total"].as_u64().expect("a number")
    };
    let custom = ["--source", "custom"];
    assert_eq!(count(&custom), 4, "both tools and both validations");
    assert_eq!(count(&[&custom[..], &["--type", "tool"]].concat()), 2);
    let plain = agents.run(&["--format", "plain", "tool", "list", "--type", "validation"]);
    assert!(plain.out.contains("validation (required)"), "{plain:?}");
}

#[test]
fn tool_show() {
    let show = ["tool", "show", "local/stamp"];
    assert_shown("tool_show", &shown(add_tools_and_sandbox, &show));
    // An alias also finds the tool.
    let tool = agents().data(&["tool", "show", "builtin/read_file"]);
    assert_eq!(tool["name"], "builtin/file-read");
    assert_eq!(tool["definition"], Value::Null);
}

#[test]
fn a_secret_in_a_tool_file_is_not_shown() {
    let key = "sk-test-0123456789abcdefghijkl";
    let agents = agents().with("OPENAI_API_KEY", key);
    let text = COUNT.replace("Counts", "${OPENAI_API_KEY} counts");
    write(&agents, "count.yaml", &format!("{text}  # {key}\n"));
    for format in ["rich", "plain", "json"] {
        for arguments in [
            ["tool", "add", "--config", "count.yaml", "--update"].as_slice(),
            &["tool", "show", "local/count-lines"],
            &["tool", "list", "--source", "custom"],
        ] {
            let answer = agents.run(&[&["--format", format], arguments].concat());
            assert_eq!(answer.code, Some(0), "{answer:?}");
            assert!(!answer.out.contains(key), "{answer:?}");
            assert!(answer.out.contains("[REDACTED]"), "{answer:?}");
        }
    }
}

#[test]
fn tool_remove() {
    let arguments = ["tool", "remove", "local/stamp", "--yes"];
    assert_shown("tool_remove", &shown(add_tools_and_sandbox, &arguments));
    let agents = agents();
    add_tools_and_sandbox(&agents);
    agents.data(&arguments);
    assert_eq!(
        agents.data(&["tool", "list", "--source", "custom"])["summary"]["total"],
        1
    );
}

#[test]
fn a_tool_is_replaced_only_with_update() {
    let agents = agents();
    add_tools_and_sandbox(&agents);
    let add = ["tool", "add", "--config", "count.yaml"];
    write(&agents, "count.yaml", &COUNT.replace("Counts", "Sums"));
    let refused = agents.run(&add);
    assert!(
        refused.code == Some(4) && refused.err.contains("CA-0902"),
        "{refused:?}"
    );
    assert!(refused.err.contains("--update"), "{refused:?}");
    let described = || agents.data(&["tool", "show", "local/count-lines"])["description"].clone();
    assert_eq!(described(), "Counts the lines of a file");
    let updated = agents.data(&[&add[..], &["--update"]].concat());
    assert_eq!(updated["tool_registered"]["outcome"], "updated");
    assert_eq!(updated["tool_registered"]["version"], 2);
    assert_eq!(described(), "Sums the lines of a file");
}

#[test]
fn tool_run_of_a_tool_in_python() {
    let arguments = [
        "tool",
        "run",
        "local/count-lines",
        "--sandbox",
        "fix",
        "path=two.txt",
    ];
    let text = without_times(&shown(add_tools_and_sandbox, &arguments));
    assert_shown("tool_run", &text);
}

#[test]
fn tool_run_of_a_tool_in_sh_that_writes() {
    let input = r#"{"n": [1, "é"]}"#;
    let arguments = [
        "tool",
        "run",
        "local/stamp",
        "--sandbox",
        "fix",
        "--input",
        input,
    ];
    let text = without_times(&shown(add_tools_and_sandbox, &arguments));
    assert_shown("tool_run_that_writes", &text);
    let agents = agents();
    add_tools_and_sandbox(&agents);
    write(&agents, "input.json", input);
    let by_file = [
        "tool",
        "run",
        "local/stamp",
        "--sandbox",
        "fix",
        "--input-file",
        "input.json",
    ];
    assert_eq!(
        agents.data(&by_file)["files_changed"],
        json!(["src/stamp.json"])
    );
    assert!(
        !agents.cwd().join("src/stamp.json").exists(),
        "only the sandbox changes"
    );
    agents.data(&["sandbox", "apply", "fix"]);
    let stamp = std::fs::read(agents.cwd().join("src/stamp.json")).expect("the applied file");
    let stamp: Value = serde_json::from_slice(&stamp).expect("the input of the tool");
    assert_eq!(stamp, json!({"n": [1, "é"]}));
}

/// A program next to a tool file is found from any working folder.
#[test]
fn a_command_is_relative_to_the_folder_of_its_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let agents = agents();
    add_tools_and_sandbox(&agents);
    let folder = agents.cwd().join("mine");
    std::fs::create_dir(&folder).expect("a folder");
    let script = folder.join("greet.sh");
    std::fs::write(&script, "#!/bin/sh\necho '{\"said\": \"hello\"}'\n").expect("a script");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, executable).expect("a mode");
    let text = "name: local/greet\ndescription: Greets\ncommand: [./greet.sh]\n";
    write(&agents, "mine/greet.yaml", text);
    agents.data(&["tool", "add", "--config", "mine/greet.yaml"]);
    let message = agents.data(&["tool", "run", "local/greet", "--sandbox", "fix"]);
    assert_eq!(message["output"], json!({"said": "hello"}));
}

#[test]
fn a_project_sandbox_is_kept_until_it_is_applied() {
    let agents = agents();
    add_tools_and_sandbox(&agents);
    // The sandbox registered the folder as `local/src`.
    agents.data(&["project", "create", "local/p", "--resource", "local/src"]);
    let put = |name: &str| {
        let path = format!("path={name}");
        let arguments = [
            "tool",
            "run",
            "builtin/file-write",
            "--project",
            "local/p",
            &path,
            "content=1",
        ];
        agents.data(&arguments)["sandbox"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    let first = put("one");
    assert_eq!(put("two"), first);
    agents.data(&["sandbox", "apply", &first]);
    for name in ["one", "two"] {
        assert!(agents.cwd().join("src").join(name).exists(), "{name}");
    }
    assert_eq!(put("three"), first, "a new sandbox has the same name");
    assert!(!agents.cwd().join("src/three").exists());
}

/// Every kind of failed call has its exit code, error code and reason, and changes no file.
#[test]
fn failed_calls_report_the_reason() {
    let agents = agents();
    add_tools_and_sandbox(&agents);
    let fix = ["--sandbox", "fix"];
    let ask = ["--sandbox", "fix", "--rule", "ask local/stamp"];
    let deny = ["--sandbox", "fix", "--rule", "deny local/stamp"];
    let read_only = ["--sandbox", "fix", "--read-only"];
    let broken = ["--sandbox", "fix", "--input", "{"];
    let cases: [(&str, &[&str], i32, &str, &str); 8] = [
        ("local/stamp", &[], 1, "CA-0907", "missing_sandbox"),
        ("local/stamp", &ask, 5, "CA-0908", "nobody_to_approve"),
        ("local/stamp", &deny, 1, "CA-0907", "rule"),
        ("local/stamp", &read_only, 1, "CA-0907", "read_only_plan"),
        ("local/stamp", &broken, 1, "CA-0907", "bad_arguments"),
        ("local/count-lines", &fix, 1, "CA-0907", "bad_arguments"),
        ("local/stampp", &fix, 3, "CA-0901", "unknown_tool"),
        (
            "builtin/file-read",
            &["--sandbox", "fix", "path=none"],
            1,
            "CA-0909",
            "tool",
        ),
    ];
    for (tool, arguments, exit, code, reason) in cases {
        let arguments = [&["--format", "json", "tool", "run", tool], arguments].concat();
        let answer = agents.run(&arguments);
        let data = &answer.json()["data"];
        assert_eq!(answer.code, Some(exit), "{arguments:?}: {data:#}");
        assert_eq!(data["error"]["code"], code, "{arguments:?}: {data:#}");
        assert!(
            data["error"]["hint"]
                .as_str()
                .is_some_and(|hint| !hint.is_empty()),
            "{data:#}"
        );
        assert_eq!(data["reason"]["kind"], reason, "{arguments:?}: {data:#}");
        assert!(data["invocation"].is_string(), "{data:#}");
        assert_eq!(data["files_changed"], json!([]), "{data:#}");
    }
    let diff = agents.data(&["sandbox", "diff", "fix"]);
    assert_eq!(diff["count"], 0, "no file changed: {diff:#}");
}

#[test]
fn an_unreadable_tool_is_listed_and_can_be_removed() {
    let agents = agents().with("FOLDER", "x");
    let text = COUNT.replace("Counts", "${FOLDER} counts");
    write(&agents, "count.yaml", &text);
    agents.data(&["tool", "add", "--config", "count.yaml"]);
    let run_without_variable = |arguments: &[&str]| {
        let arguments = [&["--format", "json"], arguments].concat();
        let mut command = agents.command(&arguments);
        Answer::from_output(
            &command
                .env_remove("FOLDER")
                .output()
                .expect("the program starts"),
        )
    };
    let listed = run_without_variable(&["tool", "list", "--source", "custom"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let data = &listed.json()["data"];
    assert_eq!(data["summary"]["broken"], 1, "{data:#}");
    let problem = data["tools"][0]["problem"].as_str().expect("a reason");
    assert!(
        problem.contains("count.yaml:2:") && problem.contains("FOLDER"),
        "{problem}"
    );
    let shown = run_without_variable(&["tool", "show", "local/count-lines"]);
    assert!(
        shown.code == Some(2) && shown.out.contains("tool remove"),
        "{shown:?}"
    );
    // The broken tool is excluded with a warning, and other tools work.
    let other = run_without_variable(&["tool", "run", "builtin/ask-user", "question=well?"]);
    assert_eq!(other.code, Some(5), "the other tool was called: {other:?}");
    assert!(
        other.err.contains("local/count-lines is left out") && other.err.contains("FOLDER"),
        "{other:?}"
    );
    let excluded = run_without_variable(&["tool", "run", "local/count-lines", "path=x"]);
    assert_eq!(excluded.code, Some(2), "{excluded:?}");
    assert_eq!(
        excluded.json()["data"]["error"]["code"],
        "CA-0903",
        "{excluded:?}"
    );
    let removed = run_without_variable(&["tool", "remove", "local/count-lines", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
}

/// Models can call the custom tools that users call.
#[test]
fn custom_tools_run_inside_session_tell() {
    let agents = agents();
    add_tools_and_sandbox(&agents);
    let script = "answers:
- calls:
  - {name: local_S_count-lines, arguments: {path: two.txt}}
  - {name: local_S_stamp, arguments: {n: 7}}
- text: both ran
";
    write(&agents, "answers.yaml", script);
    agents.data(&["session", "create", "--name", "s"]);
    let reported = agents.data(&[
        "session",
        "tell",
        "--session",
        "s",
        "--actor",
        "scripted/answers.yaml",
        "--sandbox",
        "fix",
        "count and stamp",
    ]);
    assert_eq!(reported["response"], "both ran");
    let outcomes: Vec<(&Value, &Value)> = reported["tool_calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| (&call["tool"], &call["outcome"]))
        .collect();
    let succeeded = json!("succeeded");
    let expected = ["local/count-lines", "local/stamp"].map(Value::from);
    assert_eq!(
        outcomes,
        [(&expected[0], &succeeded), (&expected[1], &succeeded)],
        "{reported:#}"
    );
    assert_eq!(reported["files_changed"], json!(["src/stamp.json"]));
    let diff = agents.data(&["sandbox", "diff", "fix"]);
    assert_eq!(diff["count"], 1, "{diff:#}");
}

/// If processes register the same tool concurrently, one succeeds and the others get an error.
#[test]
fn one_of_many_processes_registers_a_tool() {
    let server = TestDatabase::postgres();
    let on_server = server.as_ref().map(|database| agents().on(&database.url));
    for agents in std::iter::once(agents()).chain(on_server) {
        files(&agents);
        let gate = Gate::default();
        let add = ["--format", "json", "tool", "add", "--config", "count.yaml"];
        let started: Vec<_> = (0..4).map(|_| agents.behind(&gate, &add)).collect();
        gate.open();
        let mut codes: Vec<Option<i32>> = Vec::new();
        for child in started {
            let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
            if answer.code != Some(0) {
                assert_eq!(
                    answer.json()["data"]["error"]["code"],
                    "CA-0902",
                    "{answer:?}"
                );
            }
            codes.push(answer.code);
        }
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(4), Some(4), Some(4)]);
        let tool = agents.data(&["tool", "show", "local/count-lines"]);
        assert_eq!(tool["version"], 1);
    }
}

#[test]
fn permission() {
    let rule = "allow builtin/file-write(src/**)";
    let with_rule = |agents: &Agents| {
        agents.data(&["permission", "add", rule]);
        agents.data(&["permission", "add", "ask  builtin/git-*"]);
    };
    assert_shown(
        "permission_add",
        &shown(|_| (), &["permission", "add", rule]),
    );
    assert_shown(
        "permission_list",
        &shown(with_rule, &["permission", "list"]),
    );
    let remove = ["permission", "remove", " allow builtin/write_file(src/**)"];
    assert_shown("permission_remove", &shown(with_rule, &remove));
    let agents = agents();
    with_rule(&agents);
    assert_eq!(agents.data(&["permission", "add", rule])["added"], false);
    let misspelled = agents.run(&["permission", "add", "deny builtin/shel"]);
    assert!(
        misspelled.code == Some(2) && misspelled.err.contains("no built-in tool matches"),
        "{misspelled:?}"
    );
    let unknown = agents.run(&["permission", "add", "deny local/shel"]);
    assert!(
        unknown.code == Some(0) && unknown.err.contains("no tool matches"),
        "{unknown:?}"
    );
}

#[test]
fn a_stored_rule_applies_to_calls() {
    let agents = agents();
    add_tools_and_sandbox(&agents);
    let run = [
        "tool",
        "run",
        "builtin/file-read",
        "--sandbox",
        "fix",
        "path=two.txt",
    ];
    assert_eq!(agents.data(&run)["output"], "a\nb\n");
    agents.data(&["permission", "add", "deny builtin/file-read(two.*)"]);
    let refused = agents.run(&run);
    assert!(
        refused.code == Some(1) && refused.err.contains("CA-0907"),
        "{refused:?}"
    );
    assert!(!refused.out.contains("a\nb"), "{refused:?}");
    agents.data(&["permission", "remove", "deny builtin/file-read(two.*)"]);
    agents.data(&run);
}

#[test]
fn schemas_are_printed_alone_in_every_format() {
    let agents = agents();
    for name in ["tool", "models", "safety", "resource-type"] {
        for format in ["rich", "json"] {
            let answer = agents.run(&["--format", format, "schema", name]);
            assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
            let schema: Value = serde_json::from_str(&answer.out).expect("JSON and nothing else");
            assert!(
                schema["$schema"]
                    .as_str()
                    .is_some_and(|draft| draft.contains("2020-12"))
            );
            assert!(schema["$defs"].is_object(), "{schema:#}");
        }
    }
    let unknown = agents.run(&["schema", "tol"]);
    assert!(
        unknown.code == Some(2) && unknown.err.contains("tool"),
        "{unknown:?}"
    );
    let help = agents.run(&["schema", "--help"]);
    assert!(
        help.out.contains("tool") && help.out.contains("models"),
        "{help:?}"
    );
}

#[test]
fn every_format_shows_tools() {
    let agents = agents();
    add_tools_and_sandbox(&agents);
    for format in ["rich", "color", "table", "plain", "json", "yaml"] {
        for arguments in [
            ["tool", "list", "--source", "custom"].as_slice(),
            &["tool", "show", "local/stamp"],
            &["tool", "run", "local/stamp", "--sandbox", "fix"],
        ] {
            let arguments = [&["--format", format], arguments].concat();
            let answer = agents.run(&arguments);
            assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
            let text = transcript(&agents, &arguments, &answer);
            assert!(text.contains("local/stamp"), "{text}");
        }
    }
}
