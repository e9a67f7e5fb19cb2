//! Measures a turn of twenty calls that read, edit and run commands, compared with codex on the same task and endpoint.
//!
//! Codex has no tool to read a file, so it reads files with `cat`, as its models do. It runs in its fastest
//! configuration: without its sandbox, login shells and network access. Our program runs in its default configuration.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use cleveragents_testkit::model_server::{ModelServer, ReceivedRequest, Response, Step};
use serde_json::{Value, json};

use super::programs::{Home, peak, timed};
use super::{median, row};
use crate::Row;

/// Number of calls of a turn.
pub(super) const CALLS: usize = 20;

/// Number of turns of each program. The programs alternate.
const ROUNDS: usize = 7;

/// Number of files in the folder.
const FILES: usize = 8;

const MODEL: &str = "gpt-5.5";

/// A call of the task, before it is converted to the tool format of a program.
enum Call {
    Read(String),
    Edit { path: String, line: usize },
    Run(String),
}

/// The call with this number.
fn call(step: usize) -> Call {
    let path = format!("part_{}.txt", step % FILES);
    match step % 3 {
        0 => Call::Read(path),
        1 => Call::Edit {
            path,
            line: step + 50,
        },
        _ => Call::Run(format!("wc -l {path} && grep -c edited {path} || true")),
    }
}

fn old_line(number: usize) -> String {
    format!("line {number} of a text that was written down")
}

fn new_line(number: usize) -> String {
    format!("line {number} was edited")
}

fn content() -> String {
    (0..200).map(|number| old_line(number) + "\n").collect()
}

/// The expected files after the turn.
fn expected() -> Vec<(String, String)> {
    let mut files: Vec<_> = (0..FILES)
        .map(|number| (format!("part_{number}.txt"), content()))
        .collect();
    for step in 0..CALLS {
        if let Call::Edit { path, line } = call(step)
            && let Some((_, text)) = files.iter_mut().find(|(name, _)| *name == path)
        {
            *text = text.replace(&old_line(line), &new_line(line));
        }
    }
    files
}

fn create_files(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    for number in 0..FILES {
        std::fs::write(folder.join(format!("part_{number}.txt")), content())?;
    }
    Ok(())
}

fn check(folder: &Path) -> anyhow::Result<()> {
    for (name, text) in expected() {
        let found = std::fs::read_to_string(folder.join(&name))?;
        ensure!(found == text, "{name} has the wrong content after the turn");
    }
    Ok(())
}

/// A call in the format of our tools.
fn ours(step: usize) -> Value {
    let (name, arguments) = match call(step) {
        Call::Read(path) => ("builtin_S_file-read", json!({"path": path})),
        Call::Edit { path, line } => {
            let edit = json!({"old_text": old_line(line), "new_text": new_line(line)});
            (
                "builtin_S_file-edit",
                json!({"path": path, "edits": [edit]}),
            )
        }
        Call::Run(command) => ("builtin_S_shell", json!({"command": command})),
    };
    function(step, name, &arguments)
}

/// A call in the format of codex's tools.
fn codex_call(step: usize) -> Value {
    let run = |command: String| {
        let arguments = json!({"cmd": command, "login": false});
        function(step, "exec_command", &arguments)
    };
    match call(step) {
        Call::Read(path) => run(format!("cat {path}")),
        Call::Run(command) => run(command),
        Call::Edit { path, line } => {
            let (old, new) = (old_line(line), new_line(line));
            let change = format!("*** Update File: {path}\n@@\n-{old}\n+{new}");
            json!({
                "type": "custom_tool_call", "id": format!("item_{step}"),
                "call_id": format!("call_{step}"), "name": "apply_patch", "status": "completed",
                "input": format!("*** Begin Patch\n{change}\n*** End Patch"),
            })
        }
    }
}

fn function(step: usize, name: &str, arguments: &Value) -> Value {
    json!({
        "type": "function_call", "id": format!("item_{step}"), "call_id": format!("call_{step}"),
        "name": name, "arguments": arguments.to_string(), "status": "completed",
    })
}

/// Responds with the next call for the requesting program, and with a text after the last call.
fn answer(request: &ReceivedRequest) -> Response {
    if !request.path.ends_with("/responses") {
        return Response::json(404, "{}");
    }
    let body = request.json();
    let input = body["input"].as_array().map_or(&[][..], Vec::as_slice);
    let is_result = |item: &&Value| {
        let kind = item["type"].as_str().unwrap_or_default();
        kind.ends_with("_call_output")
    };
    let step = input.iter().filter(is_result).count();
    let tools = body["tools"].as_array().map_or(&[][..], Vec::as_slice);
    let is_codex = tools.iter().any(|tool| tool["name"] == "exec_command");
    let item = match step {
        CALLS => json!({
            "type": "message", "id": "item_last", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "All done."}],
        }),
        step if is_codex => codex_call(step),
        step => ours(step),
    };
    let usage = json!({
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 110,
    });
    let id = format!("response_{step}");
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": id}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
    ];
    if step == CALLS {
        events.push(json!({
            "type": "response.output_text.delta", "item_id": "item_last", "output_index": 0,
            "content_index": 0, "delta": "All done.",
        }));
    }
    events.extend([
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": id, "usage": usage}}),
    ]);
    let mut response = Response::events(Vec::<String>::new());
    response.steps = events
        .iter()
        .map(|event| {
            let kind = event["type"].as_str().unwrap_or_default();
            Step::Send(format!("event: {kind}\ndata: {event}\n\n").into_bytes())
        })
        .collect();
    response
}

/// Runs turns with our program, each in its own session and sandbox.
struct Ours<'a> {
    agents: &'a Path,
    home: Home,
}

impl<'a> Ours<'a> {
    fn new(agents: &'a Path, url: &str) -> anyhow::Result<Self> {
        let home = Home::new(&[("OPENAI_BASE_URL", url), ("OPENAI_API_KEY", "bench-key-0")])?;
        let code = home.path("code");
        create_files(&code)?;
        let code = code.to_str().context("a path")?;
        home.data(
            agents,
            &[
                "resource",
                "add",
                "fs-directory",
                "local/code",
                "--path",
                code,
            ],
        )?;
        home.data(
            agents,
            &[
                "project",
                "create",
                "local/bench",
                "--resource",
                "local/code",
            ],
        )?;
        Ok(Self { agents, home })
    }

    fn session(&self) -> anyhow::Result<String> {
        let session_data = self.home.data(self.agents, &["session", "create"])?;
        let id = session_data["session"]["id"].as_str().context("an id")?;
        Ok(id.to_owned())
    }

    fn tell_command(&self, session: &str) -> Command {
        let actor = format!("openai-responses/{MODEL}");
        let arguments = [
            "--format",
            "json",
            "session",
            "tell",
            "--session",
            session,
            "--project",
            "local/bench",
            "--actor",
            &actor,
            "Do it.",
        ];
        self.home.command(self.agents, &arguments)
    }

    fn folder(&self, out: &str) -> anyhow::Result<PathBuf> {
        let document: Value = serde_json::from_str(out)?;
        let calls = document["data"]["tool_calls"].as_array();
        let success_count = calls.map_or(0, |calls| {
            let has_succeeded = |call: &&Value| call["outcome"] == "succeeded";
            calls.iter().filter(has_succeeded).count()
        });
        ensure!(
            success_count == CALLS,
            "only {success_count} of our calls succeeded: {out}"
        );
        let name = document["data"]["sandbox"].as_str().context("a sandbox")?;
        let shown = self.home.data(self.agents, &["sandbox", "show", name])?;
        let folder = shown["sandbox"]["parts"][0]["folder"].as_str();
        Ok(PathBuf::from(folder.context("a folder")?))
    }
}

/// Runs turns with codex, each in its own folder.
struct Codex<'a> {
    program: &'a Path,
    home: Home,
    provider: String,
}

impl<'a> Codex<'a> {
    fn new(program: &'a Path, url: &str) -> anyhow::Result<Self> {
        let home = Home::new(&[])?;
        std::fs::create_dir(home.path("home"))?;
        let provider = format!(
            "model_providers.bench={{name=\"bench\",base_url=\"{url}\",wire_api=\"responses\",\
             requires_openai_auth=false}}"
        );
        Ok(Self {
            program,
            home,
            provider,
        })
    }

    fn exec(&self, folder: &Path) -> anyhow::Result<Command> {
        create_files(folder)?;
        let arguments = [
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "-c",
            "model_provider=\"bench\"",
            "-c",
            &self.provider,
            "-c",
            "analytics.enabled=false",
            "-c",
            "check_for_update_on_startup=false",
            "--disable",
            "plugins",
            "--disable",
            "apps",
            "--model",
            MODEL,
            "Do it.",
        ];
        let mut command = self.home.command(self.program, &arguments);
        command.current_dir(folder);
        Ok(command)
    }
}

pub(super) fn measure(agents: &Path, program: &Path) -> anyhow::Result<Vec<Row>> {
    let server = ModelServer::answering(answer);
    let url = server.url();
    let (ours, codex) = (Ours::new(agents, &url)?, Codex::new(program, &url)?);
    let (version, _) = timed(codex.home.command(program, &["--version"]))?;
    // The first turn is not measured, because it creates databases and caches.
    timed(ours.tell_command(&ours.session()?))?;
    timed(codex.exec(&codex.home.path("first"))?)?;
    let (mut times, mut others) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let session = ours.session()?;
        let (out, time) = timed(ours.tell_command(&session))?;
        check(&ours.folder(&out)?)?;
        times.push(time);
        let folder = codex.home.path(&format!("code-{round}"));
        let (_, time) = timed(codex.exec(&folder)?)?;
        check(&folder)?;
        others.push(time);
    }
    let (mut memory, mut other_memory) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        memory.push(peak(ours.tell_command(&ours.session()?))?);
        let folder = codex.home.path(&format!("memory-{round}"));
        other_memory.push(peak(codex.exec(&folder)?)?);
    }
    let version = version.trim();
    Ok(vec![
        row(
            "turn with 20 tool calls, time",
            (median(times), median(others)),
            "ms",
            format!("codex exec, {version}; target ratio at most 0.5"),
        ),
        row(
            "turn with 20 tool calls, peak memory",
            (median(memory), median(other_memory)),
            "MiB",
            format!("codex exec, {version}; target ratio at most 0.5"),
        ),
    ])
}
