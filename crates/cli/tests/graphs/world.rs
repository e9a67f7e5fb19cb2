//! A home with actors of every shape, a sandbox, and scripted models.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use cleveragents_testkit::{Agents, Answer, TestDatabase};
use serde_json::{Value, json};

/// Five nodes: three reviewers in parallel, and a judge that joins them.
pub(crate) const FIVE: &str = "
name: local/five
type: graph
description: three reviewers and a judge
state: {reviews: append}
nodes:
  fan: {parallel: [security, style, tests], join: judge}
  security: {model: scripted/security.yaml, prompt: 'Look at {{ input }}', output: reviews, next: judge}
  style: {model: scripted/style.yaml, prompt: 'Look at {{ input }}', output: reviews, next: judge}
  tests: {model: scripted/tests.yaml, prompt: 'Look at {{ input }}', output: reviews, next: judge}
  judge:
    model: scripted/judge.yaml
    prompt: \"Judge: {{ reviews | join('; ') }}\"
    memory: {enabled: false}
";

/// A loop that ends by its own condition, far below its step limit.
pub(crate) const LOOP: &str = "
name: local/loop
type: graph
description: writes a file a round
state:
  round: {reducer: sum, initial: 0}
  written: append
limits: {max_steps: 200}
nodes:
  count: {set: {round: 1}, next: write}
  write:
    tool: builtin/file-write
    arguments: {path: 'round-{{ round }}.txt', content: 'round {{ round }}'}
    output: written
    next: again
  again: {if: round < 12, then: count, else: done}
  done: {set: {output: '{{ round }} rounds'}}
";

/// Three nested actors.
pub(crate) const INNER: &str = "
name: local/inner
type: graph
description: the innermost
nodes:
  ask: {model: scripted/style.yaml, prompt: '{{ input }}', next: note}
  note: {set: {depth: '{{ depth + 1 }}', output: 'inner: {{ output }}'}}
";
pub(crate) const MIDDLE: &str = "
name: local/middle
type: graph
description: the middle
nodes:
  before: {set: {depth: '{{ depth + 1 }}'}, next: inner}
  inner: {actor_ref: local/inner, next: after}
  after: {set: {output: 'middle: {{ output }}'}}
";
pub(crate) const OUTER: &str = "
name: local/outer
type: graph
description: the outermost
state: {depth: {initial: 0}}
nodes:
  before: {set: {depth: '{{ depth + 1 }}'}, next: middle}
  middle: {actor_ref: local/middle, next: again}
  again: {actor_ref: local/inner, next: after}
  after: {set: {output: '{{ depth }} levels, {{ output }}'}}
";

/// A hundred items, eight in parallel.
pub(crate) const MAP: &str = "
name: local/map
type: graph
description: a file for each item
nodes:
  each:
    over: items
    concurrency: 8
    each:
      tool: builtin/file-write
      arguments: {path: 'item-{{ item }}.txt', content: 'item {{ item }}'}
    output: answers
    next: count
  count: {set: {output: '{{ answers | length }} answers'}}
";

/// Number of items of the map.
pub(crate) const ITEMS: usize = 100;

/// An actor for one shape of graph. Runs with `has_sandbox` need a sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) actor: &'static str,
    pub(crate) has_sandbox: bool,
}

pub(crate) const SHAPES: [Shape; 4] = [
    Shape {
        actor: "local/five",
        has_sandbox: false,
    },
    Shape {
        actor: "local/loop",
        has_sandbox: true,
    },
    Shape {
        actor: "local/outer",
        has_sandbox: false,
    },
    Shape {
        actor: "local/map",
        has_sandbox: true,
    },
];

/// A home with actors of all shapes.
pub(crate) struct World {
    pub(crate) agents: Agents,
    sandboxes: std::cell::Cell<u32>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Agents::new(env!("CARGO_BIN_EXE_agents")))
    }

    pub(crate) fn with(agents: Agents) -> Self {
        let work = agents.cwd();
        let code = work.join("code");
        std::fs::create_dir_all(&code).expect("a folder");
        std::fs::write(code.join("notes.txt"), "first\n").expect("a file");
        for name in ["security", "style", "tests", "judge"] {
            let script = format!("answers:\n- {{when: '.', text: {name} is fine}}\n");
            std::fs::write(work.join(format!("{name}.yaml")), script).expect("a file");
        }
        let world = Self {
            agents,
            sandboxes: std::cell::Cell::new(0),
        };
        for file in [FIVE, LOOP, INNER, MIDDLE, OUTER, MAP] {
            world.add(file);
        }
        world
    }

    /// Registers an actor.
    pub(crate) fn add(&self, file: &str) {
        let path = self.agents.cwd().join("actor.yaml");
        std::fs::write(&path, file).expect("a file");
        self.agents
            .data(&["actor", "add", "--config", path.to_str().expect("a path")]);
    }

    /// Creates a sandbox; returns its name and folder.
    pub(crate) fn sandbox(&self) -> (String, PathBuf) {
        self.sandboxes.set(self.sandboxes.get() + 1);
        let name = format!("box-{}", self.sandboxes.get());
        let code = self.agents.cwd().join("code");
        let path = code.to_str().expect("a path");
        let created = self
            .agents
            .data(&["sandbox", "create", &name, "--path", path]);
        let folder = created["sandbox"]["parts"][0]["folder"].as_str();
        (name, PathBuf::from(folder.expect("a folder")))
    }

    /// Arguments for a run of a shape.
    pub(crate) fn arguments(shape: Shape, sandbox: Option<&str>) -> Vec<String> {
        let items: Vec<usize> = (0..ITEMS).collect();
        let input = json!({ "items": items }).to_string();
        let mut arguments: Vec<String> = [
            "--format",
            "json",
            "actor",
            "run",
            shape.actor,
            "the change",
        ]
        .map(str::to_owned)
        .into();
        if shape.actor == "local/map" {
            arguments.extend(["--input".to_owned(), input]);
        }
        if let Some(name) = sandbox {
            arguments.extend(["--sandbox".to_owned(), name.to_owned()]);
        }
        arguments
    }

    /// Starts the program without waiting for it.
    pub(crate) fn start(&self, arguments: &[String]) -> Child {
        self.agents
            .command(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    /// The newest run.
    pub(crate) fn newest(&self) -> Option<Value> {
        let listed = self.agents.data(&["run", "list", "--limit", "1"]);
        listed["runs"].as_array()?.first().cloned()
    }

    /// A run with its steps.
    pub(crate) fn show(&self, run: &str) -> Value {
        self.agents.data(&["run", "show", run])
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        let mut command_line = vec!["--format", "json"];
        command_line.extend(arguments);
        self.agents.run(&command_line)
    }

    /// Queries the database.
    pub(crate) fn ask(&self, sql: &str) -> Vec<Vec<String>> {
        TestDatabase::read_file(&self.agents.database(), sql)
    }
}

/// Files of a folder, by name.
pub(crate) fn files(folder: &std::path::Path) -> BTreeMap<String, String> {
    std::fs::read_dir(folder)
        .expect("a folder")
        .filter_map(|entry| {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().ok()?;
            let content = std::fs::read_to_string(entry.path()).ok()?;
            Some((name, content))
        })
        .collect()
}
