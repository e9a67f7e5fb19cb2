//! The project of the demonstration, with a script for each role.

use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_testkit::{Agents, Answer};
use serde_json::{Value, json};

const FILES: [&str; 8] = [
    "workbench/__init__.py",
    "workbench/engine_cache.py",
    "workbench/unit_of_work.py",
    "workbench/session_service.py",
    "workbench/plan_execution_context.py",
    "tests/__init__.py",
    "tests/test_workbench.py",
    ".gitignore",
];

/// The test that captures the race of message numbers, and its name.
pub(crate) const TEST: &str = "tests/test_numbers_race.py";
pub(crate) const TEST_NAME: &str = "tests.test_numbers_race.RaceTest.test_distinct_numbers";

/// The captured test with its marker. A barrier makes the failure certain.
pub(crate) const CAPTURED: &str = r#"import threading
import unittest

from workbench.session_service import MessageRepository, PersistentSessionService


class SlowRepository(MessageRepository):
    def __init__(self):
        super().__init__()
        self.meeting = threading.Barrier(2)

    def count_for_session(self, session_id):
        count = super().count_for_session(session_id)
        try:
            self.meeting.wait(timeout=0.3)
        except threading.BrokenBarrierError:
            pass
        return count


class RaceTest(unittest.TestCase):
    @unittest.expectedFailure
    def test_distinct_numbers(self):
        service = PersistentSessionService(SlowRepository())
        append = lambda: service.append_message("session", "user", "text")
        threads = [threading.Thread(target=append) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        numbers = [message.sequence for message in service.messages("session")]
        self.assertEqual(sorted(numbers), [0, 1], "duplicate message numbers")
"#;

/// A home with the workbench as project `local/workbench`.
pub(crate) struct Workbench {
    pub(crate) agents: Agents,
    pub(crate) folder: PathBuf,
}

impl Workbench {
    pub(crate) fn new() -> Self {
        Self::on(Agents::new(env!("CARGO_BIN_EXE_agents")))
    }

    pub(crate) fn on(agents: Agents) -> Self {
        let folder = agents.cwd().join("workbench");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/workbench");
        for file in FILES {
            let place = folder.join(file);
            std::fs::create_dir_all(place.parent().expect("a folder")).expect("a folder");
            std::fs::copy(source.join(file), place).expect("copied");
        }
        let workbench = Self { agents, folder };
        workbench.git(&["init", "-q", "-b", "main"]);
        workbench.git(&["add", "."]);
        workbench.git(&["commit", "-qm", "A workbench"]);
        let check = "name: local/suite\ndescription: The tests\ncommand: python3 -m unittest -q\n";
        std::fs::write(workbench.agents.cwd().join("suite.yaml"), check).expect("written");
        for command in [
            "resource add git-checkout workbench --path workbench",
            "project create local/workbench --resource local/workbench",
            "validation add --config suite.yaml",
            "validation attach --project local/workbench local/workbench local/suite",
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            workbench.agents.data(&words);
        }
        workbench
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("-C")
            .arg(&self.folder)
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(arguments)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Stores the script of a model, and returns the name of the model.
    pub(crate) fn model(&self, name: &str, answers: &[Value]) -> String {
        let script = json!({
            "price": {"input": 1, "output": 2}, "count": "turn", "at_end": "repeat_last", "answers": answers,
        });
        let file = format!("{name}.yaml");
        std::fs::write(self.agents.cwd().join(&file), script.to_string()).expect("written");
        format!("scripted/{file}")
    }

    /// Hunts with a model that reports the race of message numbers, and returns the id of the item.
    pub(crate) fn found_item(&self) -> String {
        let model = self.model(
            "hunter",
            &[report("submit_findings", &findings(&[finding()]))],
        );
        let hunted = self.agents.data(&[
            "hunt",
            "workbench/session_service.py",
            "--project",
            "local/workbench",
            "--actor",
            &model,
        ]);
        let items = hunted["items"].as_array().expect("items");
        assert_eq!(items.len(), 1, "{hunted}");
        items[0]["item"]["id"].as_str().expect("an id").to_owned()
    }

    /// A model that triages and captures as it should.
    pub(crate) fn honest_team(&self) -> String {
        self.model(
            "team",
            &[
                with("when", "^Triage", report("submit_triage", &triage())),
                with("when", "^Make the strategy", strategy(TEST)),
                with(
                    "when",
                    "^Execute step",
                    capture(CAPTURED, "duplicate message numbers"),
                ),
                json!({"text": "Done."}),
            ],
        )
    }

    /// A model that approves every change.
    pub(crate) fn reviewer(&self) -> String {
        self.model(
            "reviewer",
            &[report(
                "submit_verdict",
                &json!({"verdict": "approve", "summary": "fine", "findings": []}),
            )],
        )
    }

    /// Takes an item as far as it gets, with a model for the only tier.
    pub(crate) fn fix(&self, item: &str, team: &str, tier: &str, options: &[&str]) -> Answer {
        let output = self.fix_command(item, team, tier, options).output();
        Answer::from_output(&output.expect("the program starts"))
    }

    /// The command of [`Self::fix`], not started yet.
    pub(crate) fn fix_command(
        &self,
        item: &str,
        team: &str,
        tier: &str,
        options: &[&str],
    ) -> Command {
        let reviewer = self.reviewer();
        let command = [
            "--format",
            "json",
            "fix",
            item,
            "--actor",
            team,
            "--tier",
            tier,
            "--reviewer",
            &reviewer,
        ];
        self.agents.command([&command[..], options].concat())
    }
}

/// An answer that calls one report tool.
pub(crate) fn report(tool: &str, arguments: &Value) -> Value {
    json!({"text": "Reported.", "calls": [{"name": tool, "arguments": arguments}]})
}

pub(crate) fn with(pattern: &str, text: &str, mut answer: Value) -> Value {
    answer[pattern] = text.into();
    answer
}

pub(crate) fn strategy(file: &str) -> Value {
    let strategy = json!({"summary": "Do it", "steps": [{"title": "Do it", "description": "", "files": [file]}]});
    json!({"text": strategy.to_string()})
}

/// An answer that writes a test and reports it.
pub(crate) fn capture(content: &str, pattern: &str) -> Value {
    json!({"text": "Written.", "calls": [
        {"name": "builtin/file-write", "arguments": {"path": TEST, "content": content}},
        {"name": "submit_test", "arguments": {
            "summary": "s", "test_path": TEST, "test_name": TEST_NAME,
            "test_command": format!("python3 -m unittest -q {TEST_NAME}"), "failure_pattern": pattern,
        }},
    ]})
}

pub(crate) fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"name": "builtin/file-edit", "arguments": {
        "path": path, "edits": [{"old_text": old, "new_text": new}],
    }})
}

pub(crate) fn finding() -> Value {
    json!({
        "title": "two messages get the same number", "category": "concurrency", "cause": "read_modify_write",
        "severity": "medium", "confidence": 0.9, "path": "workbench/session_service.py", "symbol": "x",
        "line_start": 38, "line_end": 38,
        "quote": "count = self._message_repo.count_for_session(session_id)",
        "description": "d", "failure_scenario": ["A reads", "B reads"], "expected": "e", "actual": "a",
        "impact": "i", "likelihood": "l", "suggested_fix": "",
    })
}

pub(crate) fn findings(all: &[Value]) -> Value {
    json!({"examined": ["workbench/session_service.py"], "findings": all, "environment_failures": []})
}

pub(crate) fn triage() -> Value {
    let value = |value: Value| json!({"value": value, "reason": "r"});
    json!({
        "state": value("verified".into()), "duplicate_of": null, "priority": value("high".into()),
        "milestone": value(Value::Null), "points": value(2.into()), "moscow": value("should".into()), "labels": [],
    })
}
