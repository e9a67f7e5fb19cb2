//! A home with a repository, a project, an action, and scripted strategist and executor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_testkit::{Agents, Answer, TestDatabase};
use serde_json::Value;

/// Script of a strategist that creates one step.
pub(crate) const ONE_STEP: &str = r#"
at_end: repeat_last
answers:
- text: '{"summary": "Answer 200", "risk": 0.1, "steps": [{"title": "Edit it", "description": "Change it.", "files": ["health.sh"]}]}'
"#;

/// Script of an executor that makes the requested edit.
pub(crate) const GOOD_EDIT: &str = r#"
at_end: repeat_last
answers:
- calls:
  - {name: builtin/file-edit, arguments: {path: health.sh, edits: [{old_text: "status=500", new_text: "status=200"}]}}
- text: It answers 200 now.
"#;

/// Script of an executor that reports success without doing anything.
pub(crate) const ONLY_WORDS: &str = "
at_end: repeat_last
answers:
- text: All done.
";

/// A home with a repository, a project, an action and scripted actors.
pub(crate) struct World {
    pub(crate) agents: Agents,
}

impl World {
    /// A home with working models: the strategist creates one step, the executor executes it.
    pub(crate) fn new() -> Self {
        Self::with(Agents::new(env!("CARGO_BIN_EXE_agents")))
    }

    /// Like `new`, in a home with additional environment variables.
    pub(crate) fn with(agents: Agents) -> Self {
        let world = Self { agents };
        let app = world.app();
        std::fs::create_dir_all(app.join("secret")).expect("folders");
        world.file("app/health.sh", "status=500\n");
        world.file("app/test.sh", "grep -q status=200 health.sh\n");
        world.file("app/secret/key", "old\n");
        git(&app, &["init", "-q", "-b", "main"]);
        git(&app, &["add", "-A"]);
        git(&app, &["commit", "-q", "-m", "first"]);
        world.file("strategist.yaml", ONE_STEP);
        world.file("executor.yaml", GOOD_EDIT);
        for role in ["strategist", "executor"] {
            world.actor(role, &format!("scripted/{role}.yaml"));
        }
        world.file(
            "action.yaml",
            "name: local/fix\ndescription: Fix the health check\n\
             definition_of_done: the health check answers 200\n\
             strategy_actor: local/strategist\nexecution_actor: local/executor\n",
        );
        world.ok(&["action", "create", "--config", "action.yaml"]);
        world.ok(&[
            "resource",
            "add",
            "git-checkout",
            "local/app",
            "--path",
            "app",
        ]);
        world.ok(&["project", "create", "local/shop", "--resource", "local/app"]);
        world
    }

    /// Registers an actor with a model.
    pub(crate) fn actor(&self, role: &str, model: &str) {
        let file = format!("{role}-actor.yaml");
        let text = format!(
            "name: local/{role}\ntype: llm\nmodel: {model}\nsystem_prompt: Work.\ntools: [builtin/*]\n"
        );
        self.file(&file, &text);
        self.ok(&["actor", "add", "--config", &file, "--update"]);
    }

    /// Attaches a validation that runs `sh test.sh` on every result.
    pub(crate) fn validated(&self) {
        self.validated_by("sh test.sh");
    }

    /// Attaches a validation that runs a command on every result.
    pub(crate) fn validated_by(&self, command: &str) {
        let text = format!("name: local/tests\ndescription: Runs the tests\ncommand: {command}\n");
        self.file("tests.yaml", &text);
        self.ok(&["validation", "add", "--config", "tests.yaml"]);
        self.ok(&["validation", "attach", "local/app", "local/tests"]);
    }

    pub(crate) fn app(&self) -> PathBuf {
        self.agents.cwd().join("app")
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        // The executor continues the conversation of the strategist, so only the answers of the
        // current turn count.
        let is_script = name == "executor.yaml" && !text.starts_with('{');
        let count = if is_script { "count: turn\n" } else { "" };
        let path = self.agents.cwd().join(name);
        std::fs::write(path, format!("{count}{text}")).expect("a file");
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        self.agents
            .run(&[&["--format", "json"], arguments].concat())
    }

    /// The `data` of a command that must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Value {
        self.agents.data(arguments)
    }

    /// The error of a command that must fail with this code and a hint.
    pub(crate) fn fails(&self, arguments: &[&str], exit: i32, code: &str) -> Value {
        let answer = self.run(arguments);
        assert_eq!(answer.code, Some(exit), "{arguments:?}: {answer:?}");
        let error = answer.json()["data"]["error"].clone();
        assert_eq!(error["code"], code, "{arguments:?}: {answer:?}");
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(!hint.is_empty(), "{arguments:?} has a hint: {answer:?}");
        error
    }

    /// Like `fails`, and asserts that no stored data changed.
    pub(crate) fn is_refused(&self, arguments: &[&str], exit: i32, code: &str) -> Value {
        let before = self.rows();
        let error = self.fails(arguments, exit, code);
        for (table, rows) in self.rows() {
            assert_eq!(Some(&rows), before.get(&table), "{arguments:?}: {table}");
        }
        error
    }

    /// Creates a plan and starts it.
    pub(crate) fn begin(&self, profile: &str) -> Answer {
        self.run(&[
            "plan",
            "use",
            "local/fix",
            "local/shop",
            "--automation-profile",
            profile,
        ])
    }

    /// Id of the newest plan.
    pub(crate) fn plan(&self) -> String {
        let listed = self.ok(&["plan", "list"]);
        let id = listed["plans"][0]["plan_id"].as_str();
        id.expect("there is a plan").to_owned()
    }

    /// Status of the newest plan, even if the plan failed.
    pub(crate) fn status(&self) -> Value {
        let answer = self.run(&["plan", "status", &self.plan()]);
        answer.json()["data"].clone()
    }

    /// Phase and state of the newest plan.
    pub(crate) fn stage(&self) -> String {
        let status = self.status();
        let word = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", word("phase"), word("state"))
    }

    /// All errors of the newest plan, as text.
    pub(crate) fn trouble(&self) -> String {
        self.ok(&["plan", "errors", &self.plan()]).to_string()
    }

    /// The commands in a hint: all texts in backticks that start with `agents `, split into words.
    pub(crate) fn named_in(hint: &str) -> Vec<Vec<String>> {
        let quoted = hint.split('`').skip(1).step_by(2);
        quoted
            .filter_map(|command| command.strip_prefix("agents "))
            .map(|command| command.split(' ').map(str::to_owned).collect())
            .collect()
    }

    /// All rows about plans.
    pub(crate) fn rows(&self) -> BTreeMap<&'static str, Vec<Vec<String>>> {
        const TABLES: [&str; 16] = [
            "plans",
            "plan_answers",
            "plan_decisions",
            "plan_guidance",
            "plan_projects",
            "plan_rollbacks",
            "plan_steps",
            "runs",
            "run_steps",
            "sandboxes",
            "sandbox_checkpoints",
            "tool_invocations",
            "validation_results",
            "definitions",
            "invariants",
            "events",
        ];
        let file = self.agents.database();
        let read = |table| {
            // Precondition checks acquire the lease briefly, so its events are ignored.
            let filter = if table == "events" {
                " WHERE kind NOT LIKE 'lease.%'"
            } else {
                ""
            };
            TestDatabase::read_file(&file, &format!("SELECT * FROM {table}{filter}"))
        };
        TABLES
            .into_iter()
            .map(|table| (table, read(table)))
            .collect()
    }

    /// Every byte of the user's folder, including commits, branches and hooks of git.
    pub(crate) fn every_byte(&self) -> BTreeMap<String, Vec<u8>> {
        let mut contents = BTreeMap::new();
        let root = self.app();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(root.join(&folder)).expect("a folder") {
                let path = folder.join(entry.expect("an entry").file_name());
                let name = path.display().to_string();
                // Skip git objects and the git data of sandboxes.
                if [".git/objects", ".git/worktrees", ".git/refs/cleveragents"].contains(&&*name) {
                    continue;
                }
                let full_path = root.join(&path);
                if full_path.is_dir() {
                    folders.push(path);
                } else {
                    contents.insert(name, std::fs::read(&full_path).expect("a file"));
                }
            }
        }
        contents
    }

    /// Paths of the entries in the working folder and in its parent, which also contains the home.
    pub(crate) fn surrounding_entries(&self) -> Vec<String> {
        let work = self.agents.cwd();
        let parent = work.parent().expect("a folder").to_path_buf();
        let mut names: Vec<String> = [parent, work]
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).expect("a folder"))
            .map(|entry| entry.expect("an entry").path().display().to_string())
            .collect();
        names.sort();
        names
    }
}

/// Runs git as the user, which must succeed; returns its output.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git starts");
    let answer = Answer::from_output(&output);
    assert_eq!(answer.code, Some(0), "git {arguments:?}: {answer:?}");
    answer.out
}
