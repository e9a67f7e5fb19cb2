//! A home with a repository, a project, a tool that must not be called twice, and actions of twenty
//! steps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use cleveragents_testkit::{Agents, Answer, TestDatabase};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Number of steps of the long plans: five rounds of four steps.
pub(crate) const STEPS: usize = 20;

const TOOL: &str = r#"
name: local/note
description: adds a line to the notes; twice is once too often
command: [sh, -c, 'n=$(tr -dc 0-9); echo "note $n" >> notes.log; echo "{}"']
input_schema: {type: object, properties: {n: {type: integer}}}
writes: true
idempotent: false
"#;

/// An action whose plans write files with the name in their argument `what`.
const NAMED: &str = "
name: local/named
description: writes files with a name
reusable: true
strategy_actor: builtin/deterministic
execution_actor: builtin/deterministic
arguments:
- {name: what, type: string}
definition_of_done: |
  - write `{what}` to `{what}.txt`
  - run `echo {what} >> log.txt`
  - replace `v0` with `{what}` in `v.txt`
  - run `sleep 0.1; echo {what} >> log.txt`
";

/// A home with a repository, a project and a tool.
pub(crate) struct World {
    pub(crate) agents: Agents,
    first: String,
    /// The database, if it is not the one in the home.
    database: Option<TestDatabase>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(None)
    }

    /// Like [`Self::new`], with another database than the one in the home.
    pub(crate) fn on(database: Option<TestDatabase>) -> Self {
        let mut agents =
            Agents::new(env!("CARGO_BIN_EXE_agents")).with("CLEVERAGENTS_PLAN_CONCURRENCY", "16");
        if let Some(database) = &database {
            agents = agents.on(&database.url);
        }
        let repository = agents.cwd().join("repo");
        std::fs::create_dir(&repository).expect("a folder");
        for (name, content) in [("a.txt", "first\n"), ("v.txt", "v0\n")] {
            std::fs::write(repository.join(name), content).expect("a file");
        }
        git(&repository, &["init", "-q", "-b", "main"]);
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "-q", "-m", "first"]);
        let first = git(&repository, &["rev-parse", "HEAD"]);
        let world = Self {
            agents,
            first,
            database,
        };
        let path = text(&repository);
        world.agents.data(&[
            "resource",
            "add",
            "git-checkout",
            "local/repo",
            "--path",
            &path,
        ]);
        world
            .agents
            .data(&["project", "create", "local/p", "--resource", "local/repo"]);
        let tool = world.file("tool.yaml", TOOL);
        world.agents.data(&["tool", "add", "--config", &tool]);
        world
    }

    /// The user's repository.
    pub(crate) fn repository(&self) -> PathBuf {
        self.agents.cwd().join("repo")
    }

    /// Resets the repository to its initial state.
    pub(crate) fn restore_repository(&self) {
        git(&self.repository(), &["reset", "-q", "--hard", &self.first]);
        git(&self.repository(), &["clean", "-q", "-f", "-d"]);
    }

    /// The repository as the user sees it: files, commits and uncommitted changes.
    pub(crate) fn repository_state(&self) -> (BTreeMap<String, String>, String, String) {
        let repository = self.repository();
        let tree = git(&repository, &["rev-parse", "HEAD^{tree}"]);
        let status = git(&repository, &["status", "--porcelain"]);
        (files(&repository), tree, status)
    }

    /// Writes a file next to the repository; returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.agents.cwd().join(name);
        std::fs::write(&path, content).expect("a file");
        text(&path)
    }

    /// Creates an action that needs no model, with these items as its definition of done.
    pub(crate) fn action(&self, name: &str, items: &[&str]) {
        let mut action = format!(
            "name: {name}\ndescription: steps\nreusable: true\nstrategy_actor: builtin/deterministic\n\
             execution_actor: builtin/deterministic\ndefinition_of_done: |\n"
        );
        for item in items {
            let _written = writeln!(action, "  - {}", item.replace('{', "{{").replace('}', "}}"));
        }
        let file = self.file("action.yaml", &action);
        self.agents.data(&["action", "create", "--config", &file]);
    }

    /// Creates the action of twenty steps that needs no model.
    pub(crate) fn long_action(&self, name: &str) {
        let items: Vec<String> = calls().into_iter().map(|call| call.item).collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        self.action(name, &items);
    }

    /// Creates an action with the steps of `long_action`, with models as strategist and executor.
    pub(crate) fn modelled_action(&self, name: &str) {
        let mut steps = Vec::new();
        let mut answers = Vec::new();
        for (number, call) in (1..).zip(calls()) {
            steps.push(json!({"title": format!("round {number}"), "description": "do it"}));
            answers.push(json!({
                "when": format!("^Execute step {number} of "),
                "calls": [{"name": call.tool, "arguments": call.arguments}],
            }));
        }
        answers.push(json!({"text": "It is done."}));
        let strategy = json!({"summary": "step by step", "steps": steps}).to_string();
        self.scripted_action(
            name,
            &json!({"at_end": "repeat_last", "answers": [{"text": strategy}]}),
            &json!({"at_end": "repeat_last", "answers": answers}),
            "- check `test -f w5.txt`",
        );
    }

    /// Creates an action with scripted strategist and executor.
    pub(crate) fn scripted_action(
        &self,
        name: &str,
        strategist: &Value,
        executor: &Value,
        definition_of_done: &str,
    ) {
        for (role, script) in [("strategist", strategist), ("executor", executor)] {
            let mut script = script.clone();
            if role == "executor" {
                // The executor continues the conversation of the strategist, so only the answers of
                // the current turn count.
                script["count"] = "turn".into();
            }
            self.file(&format!("{role}.yaml"), &script.to_string());
            let actor = json!({
                "name": format!("local/{role}"), "type": "llm", "description": role,
                "model": format!("scripted/{role}.yaml"), "system_prompt": "Work.",
                "tools": ["builtin/*", "local/note"],
            });
            let file = self.file("actor.yaml", &actor.to_string());
            self.agents.data(&["actor", "add", "--config", &file]);
        }
        let action = json!({
            "name": name, "description": "steps", "reusable": true,
            "strategy_actor": "local/strategist", "execution_actor": "local/executor",
            "definition_of_done": definition_of_done,
        });
        let file = self.file("action.yaml", &action.to_string());
        self.agents.data(&["action", "create", "--config", &file]);
    }

    /// Creates a plan; returns its id.
    pub(crate) fn plan(&self, action: &str, options: &[&str]) -> String {
        let created = self
            .agents
            .data(&[&["plan", "use", action, "local/p"], options].concat());
        created["plan_id"].as_str().expect("an id").to_owned()
    }

    /// Creates and executes a plan.
    pub(crate) fn executed(&self, action: &str) -> String {
        let plan = self.plan(action, &[]);
        self.agents.data(&["plan", "execute", &plan]);
        plan
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        self.agents
            .run(&[&["--format", "json"], arguments].concat())
    }

    /// Starts the program without waiting for it.
    pub(crate) fn start(&self, arguments: &[&str]) -> RunningProgram {
        let child = self
            .agents
            .command([&["--format", "json"], arguments].concat())
            .spawn()
            .expect("the program starts");
        RunningProgram(Some(child))
    }

    /// Queries the database.
    pub(crate) fn ask(&self, sql: &str) -> Vec<Vec<String>> {
        match &self.database {
            Some(database) => database.ask(sql),
            None => TestDatabase::read_file(&self.agents.database(), sql),
        }
    }

    pub(crate) fn stage(&self, plan: &str) -> String {
        self.ask(&format!("SELECT stage FROM plans WHERE plan_id = '{plan}'"))[0][0].clone()
    }

    /// Files in the sandbox of a plan.
    pub(crate) fn tree(&self, plan: &str) -> BTreeMap<String, String> {
        let name = format!("plan-{}", plan.to_lowercase());
        let shown = self.agents.data(&["sandbox", "show", &name]);
        let folder = shown["sandbox"]["parts"][0]["folder"].as_str();
        files(Path::new(folder.expect("a folder")))
    }

    /// Creates the action `local/named`, whose plans write files with the name in their argument
    /// `what`.
    pub(crate) fn named_action(&self) {
        let file = self.file("named.yaml", NAMED);
        self.agents.data(&["action", "create", "--config", &file]);
    }

    /// Asserts that every change is only in the changeset of its own plan.
    pub(crate) fn assert_apart(&self, plans: &BTreeMap<String, String>) {
        for (plan, name) in plans {
            assert_eq!(self.stage(plan), "execute/complete", "{name}");
            let tree = self.tree(plan);
            let names: Vec<&str> = tree.keys().map(String::as_str).collect();
            let own_file = format!("{name}.txt");
            let mut expected = vec!["a.txt", "log.txt", &own_file, "v.txt"];
            expected.sort_unstable();
            assert_eq!(names, expected, "{name}");
            assert_eq!(tree["log.txt"], format!("{name}\n{name}\n"));
            assert_eq!(tree["v.txt"], format!("{name}\n"));
            let mut changed: Vec<String> = self
                .ask(&format!(
                    "SELECT DISTINCT entry.path FROM change_entries entry JOIN sandboxes box \
                     ON box.changeset_id = entry.changeset_id WHERE box.origin = 'plan {plan}'"
                ))
                .into_iter()
                .map(|row| row[0].clone())
                .collect();
            changed.sort();
            let mut expected = vec!["log.txt".to_owned(), own_file, "v.txt".to_owned()];
            expected.sort();
            assert_eq!(changed, expected, "{name}");
        }
        self.agents.assert_sound();
    }

    /// Changes of a plan: each path with its operation and resulting content.
    pub(crate) fn changes(&self, plan: &str) -> Value {
        let diff = self.agents.data(&["plan", "diff", plan]);
        json!([diff["files"], diff["patch"]])
    }

    /// Waits until a condition holds.
    pub(crate) fn wait_until(description: &str, mut condition: impl FnMut() -> bool) {
        let started = Instant::now();
        while !condition() {
            assert!(
                started.elapsed() < Duration::from_mins(2),
                "timeout while waiting for {description}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A running process of the program, killed on drop.
pub(crate) struct RunningProgram(Option<Child>);

impl RunningProgram {
    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("the program was not waited for")
    }

    pub(crate) fn id(&mut self) -> u32 {
        self.child().id()
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let number = i32::try_from(self.id()).expect("a number");
        let process = Pid::from_raw(number).expect("a process");
        kill_process(process, signal).expect("a process that is not reaped");
    }

    /// Kills the program. Returns true if it was still running.
    pub(crate) fn kill(mut self) -> bool {
        let child = self.child();
        let was_running = child.try_wait().expect("a child").is_none();
        child.kill().expect("a program that is not reaped");
        child.wait().expect("a killed program is reaped");
        was_running
    }

    /// Waits until the program ends. Returns its output.
    pub(crate) fn answer(mut self) -> Answer {
        let child = self.0.take().expect("the program was not waited for");
        Answer::from_output(&child.wait_with_output().expect("the program ends"))
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _unless_gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// A step, as an item of a definition of done and as a call.
struct Call {
    item: String,
    tool: &'static str,
    arguments: Value,
}

fn calls() -> Vec<Call> {
    let mut steps = Vec::with_capacity(STEPS);
    for round in 1..=STEPS / 4 {
        let before = round - 1;
        let note = json!({"n": round});
        let append = format!("echo line {round} >> log.txt");
        steps.extend([
            Call {
                item: format!("write `file {round}` to `w{round}.txt`"),
                tool: "builtin/file-write",
                arguments: json!({"path": format!("w{round}.txt"), "content": format!("file {round}\n")}),
            },
            Call {
                item: format!("run `{append}`"),
                tool: "builtin/shell",
                arguments: json!({"command": append}),
            },
            Call {
                item: format!("replace `v{before}` with `v{round}` in `v.txt`"),
                tool: "builtin/file-edit",
                arguments: json!({"path": "v.txt", "edits": [
                    {"old_text": format!("v{before}"), "new_text": format!("v{round}")},
                ]}),
            },
            Call {
                item: format!("call `local/note` with `{note}`"),
                tool: "local/note",
                arguments: note,
            },
        ]);
    }
    steps
}

/// Files of a folder by path, without `.git`.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut contents = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        if name == ".git" {
            continue;
        }
        if entry.path().is_dir() {
            for (path, content) in files(&entry.path()) {
                contents.insert(format!("{name}/{path}"), content);
            }
        } else {
            let content = std::fs::read_to_string(entry.path()).expect("text");
            contents.insert(name, content);
        }
    }
    contents
}

/// Runs Git, which must succeed; returns its output.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("Git runs");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

/// The error of a command.
pub(crate) fn error(answer: &Answer) -> Value {
    answer.json()["data"]["error"].clone()
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path").to_owned()
}
