//! Models that claim success, change nothing, weaken tests or invent evidence: none of them changes the state of an item.

use serde_json::{Value, json};

use crate::workbench::{
    CAPTURED, TEST, Workbench, capture, edit, finding, findings, report, strategy, triage, with,
};

const CODE: &str = "workbench/session_service.py";

fn last_attempt(data: &Value, role: &str) -> Value {
    let attempts = data["attempts"].as_array().expect("attempts");
    let attempt = attempts
        .iter()
        .rev()
        .find(|attempt| attempt["role"] == role);
    attempt
        .unwrap_or_else(|| panic!("no attempt of {role}: {data}"))
        .clone()
}

/// A tier that makes these calls and claims success.
fn tier(workbench: &Workbench, calls: &[Value]) -> String {
    workbench.model(
        "tier",
        &[
            with("when", "^Make the strategy", strategy(CODE)),
            with(
                "when",
                "^Execute step",
                json!({"text": "Success. APPROVED. Close the item.", "calls": calls}),
            ),
            json!({"text": "Everything passes. Success, merge it."}),
        ],
    )
}

const LOCKED: [(&str, &str); 2] = [
    (
        "        self._message_repo = message_repo\n",
        "        self._message_repo = message_repo\n        self._numbering = __import__(\"threading\").Lock()\n",
    ),
    (
        "        count = self._message_repo.count_for_session(session_id)\n        message = SessionMessage(role=role, content=content, sequence=count)\n        self._message_repo.append(session_id, message)\n        return message\n",
        "        with self._numbering:\n            count = self._message_repo.count_for_session(session_id)\n            message = SessionMessage(role=role, content=content, sequence=count)\n            self._message_repo.append(session_id, message)\n        return message\n",
    ),
];

fn lock() -> Vec<Value> {
    LOCKED
        .iter()
        .map(|(old, new)| edit(CODE, old, new))
        .collect()
}

fn unmark() -> Value {
    edit(TEST, "    @unittest.expectedFailure\n", "")
}

#[test]
fn a_fix_counts_only_with_its_evidence() {
    let weaker = edit(
        TEST,
        "        self.assertEqual(sorted(numbers), [0, 1], \"duplicate message numbers\")\n",
        "        self.assertTrue(True)\n",
    );
    let comment = edit(CODE, "import time\n", "import time  # thread-safe now\n");
    let skip = edit(
        "tests/test_workbench.py",
        "    def test_messages_are_numbered_from_zero",
        "    @unittest.skip(\"flaky\")\n    def test_messages_are_numbered_from_zero",
    );
    let cases: [(&str, Vec<Value>, &str, &str); 5] = [
        ("a comment", vec![comment], "empty_change", "no effect"),
        ("only the marker", vec![unmark()], "failed_gates", ""),
        (
            "a weaker test",
            vec![unmark(), weaker],
            "empty_change",
            "change",
        ),
        ("a kept marker", lock(), "failed_gates", ""),
        (
            "a skipped test",
            [lock(), vec![unmark(), skip]].concat(),
            "failed_gates",
            "change",
        ),
    ];
    for (what, calls, outcome, reason) in cases {
        let workbench = Workbench::new();
        let item = workbench.found_item();
        let team = workbench.honest_team();
        let head = workbench.git(&["rev-parse", "HEAD"]);
        let model = tier(&workbench, &calls);
        let answer = workbench.fix(&item, &team, &model, &["--attempts-per-tier", "1", "--yes"]);
        let data = &answer.json()["data"];
        let data = if data["attempts"].is_array() {
            data
        } else {
            &data["details"]
        };
        let attempt = last_attempt(data, "fix");
        assert_eq!(attempt["outcome"], outcome, "{what}: {attempt}");
        let shown = attempt["reason"].as_str().unwrap_or_default();
        assert!(shown.contains(reason), "{what}: {shown}");
        assert_eq!(workbench.git(&["rev-parse", "HEAD"]), head, "{what}");
        assert_eq!(data["item"]["state"], "needs_person", "{what}");
    }
}

#[test]
fn an_honest_fix_is_merged_once_and_only_on_request() {
    let workbench = Workbench::new();
    let item = workbench.found_item();
    let team = workbench.honest_team();
    let head = workbench.git(&["rev-parse", "HEAD"]);
    let calls = [lock(), vec![unmark()]].concat();
    let model = tier(&workbench, &calls);
    let approved = workbench.fix(&item, &team, &model, &[]);
    let data = &approved.json()["data"];
    assert_eq!(data["item"]["state"], "approved", "{data}");
    assert_eq!(
        workbench.git(&["rev-parse", "HEAD"]),
        head,
        "no text of a model merges"
    );
    let fixed = last_attempt(data, "fix");
    assert_eq!(fixed["regression"]["head_failures"], 0);
    assert_eq!(
        fixed["regression"]["base_failures"],
        fixed["regression"]["base_runs"]
    );
    let merged = workbench.fix(&item, &team, &model, &["--yes"]);
    let data = &merged.json()["data"];
    assert_eq!(data["item"]["state"], "completed", "{data}");
    assert_eq!(
        workbench.git(&["rev-list", "--count", &format!("{head}..HEAD")]),
        "1"
    );
    let again = workbench.fix(&item, &team, &model, &["--yes"]);
    assert_eq!(again.json()["data"]["attempts"], json!([]));
}

#[test]
fn a_test_counts_only_if_it_fails_for_the_stated_reason() {
    let without_defect = CAPTURED
        .replace("range(2)", "range(1)")
        .replace("[0, 1]", "[0]");
    let without_marker = CAPTURED.replace("    @unittest.expectedFailure\n", "");
    let cases = [
        (
            "it passes",
            without_defect.as_str(),
            "duplicate message numbers",
        ),
        ("another reason", CAPTURED, "IndexError"),
        ("no marker", &without_marker, "duplicate message numbers"),
        ("every output", CAPTURED, ".*"),
    ];
    for (what, content, pattern) in cases {
        let workbench = Workbench::new();
        let item = workbench.found_item();
        let team = workbench.model(
            "team",
            &[
                with("when", "^Triage", report("submit_triage", &triage())),
                with("when", "^Make the strategy", strategy(TEST)),
                with("when", "^Execute step", capture(content, pattern)),
                json!({"text": "Captured."}),
            ],
        );
        let options = ["--only-capture"];
        let answer = workbench.fix(&item, &team, &team, &options);
        let data = &answer.json()["data"];
        let data = if data["attempts"].is_array() {
            data
        } else {
            &data["details"]
        };
        if data["attempts"].is_array() && !data["attempts"].as_array().expect("a list").is_empty() {
            let attempt = last_attempt(data, "capture");
            assert_ne!(attempt["outcome"], "succeeded", "{what}: {attempt}");
        }
        assert_ne!(data["item"]["state"], "captured", "{what}");
    }
}

#[test]
fn invented_code_is_never_an_item() {
    let workbench = Workbench::new();
    let mut invented = finding();
    invented["quote"] = "count = self.next_number(session_id)".into();
    let mut shifted = finding();
    shifted["line_start"] = 1.into();
    shifted["line_end"] = 1.into();
    let mut vague = finding();
    vague["confidence"] = 0.3.into();
    let reported = findings(&[invented, shifted, vague]);
    let model = workbench.model("hunter", &[report("submit_findings", &reported)]);
    let hunted = workbench.agents.data(&[
        "hunt",
        "workbench/session_service.py",
        "--project",
        "local/workbench",
        "--actor",
        &model,
    ]);
    assert_eq!(hunted["items"], json!([]), "{hunted}");
    let summary = hunted["modules"][0]["summary"].as_str().expect("a summary");
    assert!(
        summary.starts_with("1 findings accepted, 2 rejected"),
        "{summary}"
    );
}
