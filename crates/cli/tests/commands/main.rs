//! Snapshots of the complete output of every command, in a human format and in JSON. Ids, times,
//! paths and sizes are masked.

mod actions;
mod automation;
mod calls;
mod completion;
mod configuration;
mod deletions;
mod formats;
mod help;
mod init;
mod logs;
mod maintenance;
mod models;
mod modes;
mod odd_paths;
mod plan_children;
mod plan_lifecycle;
mod plan_views;
mod projects;
mod references;
mod resources;
mod safety;
mod sessions;
mod skills;
mod tools;
mod validations;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use cleveragents_testkit::{Agents, Answer};

fn agents() -> Agents {
    Agents::new(env!("CARGO_BIN_EXE_agents"))
}

/// A home with one session, `weekly`, that has two messages.
fn with_weekly() -> Agents {
    let agents = agents();
    weekly(&agents);
    agents
}

fn weekly(agents: &Agents) {
    let create = [
        "session",
        "create",
        "--name",
        "weekly",
        "--actor",
        "openai/gpt-5",
    ];
    agents.data(&create);
    agents.data(&["session", "append", "weekly", "Where do we stand?"]);
    let metadata = "{\"source\":\"minutes\",\"page\":3}";
    let answer = [
        "--role",
        "assistant",
        "--metadata",
        metadata,
        "Two races are left.\nBoth are known.",
    ];
    agents.data(&[&["session", "append", "weekly"], answer.as_slice()].concat());
}

/// The command line, its complete output and its exit code as one text, with paths masked.
fn transcript(agents: &Agents, arguments: &[&str], answer: &Answer) -> String {
    let mut text = format!("$ agents {}\n{}", arguments.join(" "), answer.out);
    if !answer.err.is_empty() {
        text.push_str("--- standard error\n");
        text.push_str(&answer.err);
    }
    if answer.code != Some(0) {
        writeln!(text, "--- exit code {:?}", answer.code).expect("writing to a String succeeds");
    }
    let folder = agents
        .home()
        .parent()
        .expect("the home has a parent folder");
    let work = folder.join("work");
    text.replace(&work.display().to_string(), "[work]")
        .replace(&folder.display().to_string(), "[folder]")
}

/// Runs a command in a human format and in JSON, each on a new home that `prepare` fills.
fn shown(prepare: impl Fn(&Agents), arguments: &[&str]) -> String {
    ["plain", "json"]
        .map(|format| {
            let agents = agents();
            prepare(&agents);
            let arguments = [&["--format", format], arguments].concat();
            transcript(&agents, &arguments, &agents.run(&arguments))
        })
        .join("\n")
}

/// Compares a text with its snapshot.
fn assert_shown(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for (pattern, replacement) in [
        (r"sha256:[0-9a-f]{64}", "sha256:[hash]"),
        (r"\b01[0-9A-HJKMNP-TV-Z]{24}\b", "[id]"),
        // The id may follow the `m` that ends a colour sequence.
        (r"(\b|m)01[0-9A-HJKMNP-TV-Z]{6,23}\b", "${1}[id…]"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?", "[time]"),
        (r"(duration_ms\x22?): \d+", "$1: [ms]"),
        (
            r#""((size|log|free|before|after|freed)_bytes|size)": \d+"#,
            r#""$1": [bytes]"#,
        ),
        (r"\b\d+(\.\d+)? (KiB|MiB|B)\b", "[size]"),
        (r"git version [^\s\x22]+", "git version [git]"),
        (r"(?i)(sqlite(?:\x22: \x22|: | ))3\.\d+\.\d+", "$1[sqlite]"),
        (
            r#""(engine_version|detail)": "3\.\d+\.\d+""#,
            r#""$1": "[sqlite]""#,
        ),
        (r"ok(\s+)3\.\d+\.\d+", "ok$1[sqlite]"),
        (r"\b(x86_64|aarch64)-(linux|macos)\b", "[platform]"),
        (r"init-\d{16}", "init-[stamp]"),
        (r"\b[0-9a-f]{40}\b", "[commit]"),
        (r#"(Version: |"version": ")\d+\.\d+\.\d+"#, "${1}[version]"),
    ] {
        settings.add_filter(pattern, replacement);
    }
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// Every file below a folder with its bytes.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).expect("a file can be read");
                contents.insert(path.display().to_string(), bytes);
            }
        }
    }
    contents
}
