//! `tool calls` and `tool call`: calls and their output.

use cleveragents_testkit::Agents;
use serde_json::{Value, json};

use super::{agents, assert_shown, shown};

/// A tool with long output and a long log. It fails if an argument contains `fail`.
const LOUD: &str = "name: local/loud
description: Says and logs
read_only: true
language: sh
input_schema: {type: object}
code: |
  read -r given
  i=0
  while [ $i -lt 4000 ]; do echo \"step $i of é work\" >&2; i=$((i + 1)); done
  echo 'key sk-test-0123456789abcdefghijkl' >&2
  case $given in *fail*) echo 'the last word' >&2; exit 3;; esac
  i=0
  printf '{\"lines\": \"'
  while [ $i -lt 6000 ]; do printf 'line %d é ' $i; i=$((i + 1)); done
  printf '\"}'
";

fn add_tool_and_sandbox(agents: &Agents) {
    std::fs::write(agents.cwd().join("loud.yaml"), LOUD).expect("a file");
    agents.data(&["tool", "add", "--config", "loud.yaml"]);
    std::fs::create_dir(agents.cwd().join("src")).expect("a folder");
    agents.data(&["sandbox", "create", "box", "--path", "src"]);
}

fn run(agents: &Agents, arguments: &[&str]) -> Value {
    let answer = agents.run(&[&["--format", "json", "tool", "run"], arguments].concat());
    answer.json()["data"].clone()
}

/// Makes two calls: the first is refused, the second needs no approval.
fn make_calls(agents: &Agents) {
    run(agents, &["builtin/shell", "--read-only", "command=true"]);
    run(agents, &["builtin/ask-user", "question=well?"]);
}

/// Masks durations, and collapses the spaces of table rows, because durations change the width of
/// their column.
fn without_durations(text: &str) -> String {
    let line_without = |line: &str| {
        if let Some((before, value)) = line.split_once("duration_s\": ")
            && value != "null,"
        {
            return format!("{before}duration_s\": [seconds]");
        }
        let is_row = line.starts_with("Id ") || line.contains(" ms ");
        if !is_row {
            return line.to_owned();
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let row = words.join(" ");
        match row.split_once(" ms ") {
            Some((before, after)) => {
                let before = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
                format!("{before}[ms] {after}")
            }
            None => row,
        }
    };
    let lines: Vec<String> = text.lines().map(line_without).collect();
    lines.join("\n")
}

#[test]
fn tool_calls() {
    let arguments = ["tool", "calls", "--outcome", "refused"];
    let text = shown(make_calls, &arguments);
    assert_shown("tool_calls", &without_durations(&text));
    assert_shown("tool_calls_of_nothing", &shown(|_| (), &["tool", "calls"]));
}

#[test]
fn calls_are_filtered_and_paged() {
    let agents = agents();
    make_calls(&agents);
    agents.data(&["session", "create", "--name", "quiet"]);
    let calls = |arguments: &[&str]| agents.data(&[&["tool", "calls"], arguments].concat());
    let tools = |arguments: &[&str]| -> Vec<String> {
        let data = calls(arguments);
        let tool = |call: &Value| call["tool"].as_str().expect("a name").to_owned();
        data["calls"]
            .as_array()
            .expect("calls")
            .iter()
            .map(tool)
            .collect()
    };
    assert_eq!(
        tools(&[]),
        ["builtin/ask-user", "builtin/shell"],
        "newest first"
    );
    assert_eq!(tools(&["--limit", "1"]), ["builtin/ask-user"]);
    assert_eq!(tools(&["--offset", "1"]), ["builtin/shell"]);
    assert_eq!(tools(&["--tool", "builtin/sh*"]), ["builtin/shell"]);
    assert_eq!(
        tools(&["--tool", "builtin/shell_execute"]),
        ["builtin/shell"]
    );
    assert_eq!(tools(&["--outcome", "refused"]), ["builtin/shell"]);
    assert!(tools(&["--session", "quiet"]).is_empty());
    let summary = &calls(&["--limit", "1"])["summary"];
    assert_eq!(*summary, json!({"shown": 1, "matching": 2}));
}

#[test]
fn the_whole_output_and_the_log_are_read_in_pages() {
    let key = "sk-test-0123456789abcdefghijkl";
    let agents = agents().with("OPENAI_API_KEY", key);
    add_tool_and_sandbox(&agents);
    let result = run(&agents, &["local/loud", "--sandbox", "box"]);
    assert_eq!(result["outcome"], "succeeded", "{result:#}");
    let id = result["invocation"].as_str().expect("an id");
    let shown = agents.data(&["tool", "call", id]);
    assert_eq!(shown["outcome"], "succeeded");
    assert_eq!(shown["arguments"], json!({}));
    let read_all = |option: &str| {
        let mut text = String::new();
        let mut from = 0;
        for page in 1.. {
            let number = page.to_string();
            let options = [
                "tool", "call", id, option, "--bytes", "5001", "--page", &number,
            ];
            let data = agents.data(&options);
            let part = &data[option.trim_start_matches('-')];
            assert_eq!(part["from"], from, "{option}, page {page}");
            text.push_str(part["text"].as_str().expect("a text"));
            let Some(next) = part["next_from"].as_u64() else {
                assert_eq!(part["total_bytes"], text.len());
                return text;
            };
            from = next;
        }
        unreachable!("the number of pages is finite")
    };
    let output: Value = serde_json::from_str(&read_all("--output")).expect("JSON");
    let lines = output["lines"].as_str().expect("lines");
    assert!(lines.starts_with("line 0 é ") && lines.ends_with("line 5999 é "));
    let log = read_all("--log");
    assert!(log.len() <= 64 << 10, "{} bytes are too many", log.len());
    assert!(
        log.starts_with("step ") && log.ends_with("key [REDACTED]\n"),
        "{log}"
    );
    assert!(
        log.contains("step 3999 of é work\n"),
        "the end of the log is kept"
    );
    for format in ["rich", "plain", "yaml"] {
        let answer = agents.run(&["--format", format, "tool", "call", &id[..24], "--log"]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(!answer.out.contains(key));
        assert!(answer.out.contains("step 3999"), "{format}");
    }
}

#[test]
fn a_failing_tool_reports_the_end_of_its_log() {
    let agents = agents();
    add_tool_and_sandbox(&agents);
    let result = run(&agents, &["local/loud", "--sandbox", "box", "fail=yes"]);
    assert_eq!(result["outcome"], "failed");
    let log = result["log"].as_str().expect("a log");
    assert!(
        log.ends_with("the last word\n") && log.len() <= 2048,
        "{log}"
    );
    assert!(
        log.starts_with("step "),
        "the log starts with a whole line: {log}"
    );
    assert_eq!(
        result["output_bytes"], 0,
        "the log is not part of the output: {result:#}"
    );
    // The model receives the same text, marked as data.
    let script =
        "answers:\n- calls:\n  - {name: local_S_loud, arguments: {fail: true}}\n- text: I see\n";
    std::fs::write(agents.cwd().join("script.yaml"), script).expect("a file");
    agents.data(&["session", "create", "--name", "s"]);
    let tell = ["session", "tell", "--session", "s", "--sandbox", "box"];
    agents.data(&[&tell[..], &["--actor", "scripted/script.yaml", "go"]].concat());
    let messages = agents.data(&["session", "messages", "s"]);
    let reported = messages["messages"][2]["content"]
        .as_str()
        .expect("a result");
    assert!(
        reported.contains("exit code 3") && reported.contains("the last word"),
        "{reported}"
    );
    assert!(reported.contains("<data-"), "{reported}");
    assert!(
        !reported.contains("step 1000 "),
        "only the end of the log: {reported}"
    );
}
