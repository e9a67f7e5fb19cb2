//! A home with a sandbox, and a model that answers from a script.

use cleveragents_testkit::{Agents, Answer};
use serde_json::Value;

/// Initial content of the file in the sandbox.
pub(crate) const NOTES: &str = "first\n";

/// Answers by pattern. The answer to `endless` starts and then lasts longer than any test.
const SCRIPT: &str = r##"
at_end: repeat_last
price: {input: 1, output: 4}
answers:
- when: "^endless"
  text: "BEGUN LONG"
  chunk: 6
  first_delay_ms: 0
  delay_ms: 1000
- when: "^write"
  calls: [{name: builtin_S_file-write, arguments: {path: notes.txt, content: "second\n"}}]
- when: "^rewrite"
  calls:
  - {name: builtin_S_file-write, arguments: {path: notes.txt, content: "third\n"}}
  - {name: builtin_S_file-write, arguments: {path: notes.txt, content: "fourth\n"}}
- when: "^evil"
  text: "red \e[31m clear \e[2J &#27;[2J bell \a title \e]0;owned\a end\n"
- when: "^markdown"
  text: "# Title\n\nsome **bold** text\n"
- when: "^fail"
  failures: [{status: 401, message: "no such key"}]
  text: never
- text: "fine"
"##;

/// A home with a script and a sandbox.
pub(crate) struct World {
    pub(crate) agents: Agents,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_agents(Agents::new(env!("CARGO_BIN_EXE_agents")))
    }

    pub(crate) fn with_agents(agents: Agents) -> Self {
        let real = agents.cwd().join("code");
        std::fs::create_dir_all(&real).expect("a folder");
        std::fs::write(real.join("notes.txt"), NOTES).expect("a file");
        let script = SCRIPT.replace("LONG", &"x".repeat(6_000));
        std::fs::write(agents.cwd().join("script.yaml"), script).expect("a file");
        agents.data(&["sandbox", "create", "box", "--path", "code"]);
        Self { agents }
    }

    /// Arguments of a chat in the sandbox with the scripted model.
    pub(crate) fn arguments<'a>(options: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec![
            "chat",
            "--sandbox",
            "box",
            "--actor",
            "scripted/script.yaml",
        ];
        arguments.extend(options);
        arguments
    }

    /// Feeds a chat through a pipe.
    pub(crate) fn feed(&self, options: &[&str], input: &str) -> Answer {
        self.agents
            .run_with(&Self::arguments(options), input.as_bytes())
    }

    /// Plays a chat at a terminal.
    pub(crate) fn play(&self, steps: &[(&str, &str)], options: &[&str]) -> (Option<i32>, String) {
        self.agents.play(steps, &Self::arguments(options))
    }

    pub(crate) fn sessions(&self) -> Vec<Value> {
        let listed = self.agents.data(&["session", "list"]);
        listed["sessions"].as_array().expect("a list").clone()
    }

    /// Id of the only session.
    pub(crate) fn session(&self) -> String {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        sessions[0]["id"].as_str().expect("an id").to_owned()
    }

    /// User messages of the only session, in order.
    pub(crate) fn questions(&self) -> Vec<String> {
        let messages = self.agents.messages(&self.session());
        let questions = messages.iter().filter(|message| message["role"] == "user");
        questions
            .map(|message| message["content"].as_str().expect("text").to_owned())
            .collect()
    }

    pub(crate) fn history(&self) -> String {
        std::fs::read_to_string(self.agents.home().join("chat-history")).unwrap_or_default()
    }

    /// The user's file outside of the sandbox.
    pub(crate) fn real_notes(&self) -> String {
        std::fs::read_to_string(self.agents.cwd().join("code/notes.txt")).expect("a file")
    }
}
