//! `agents demo pools` from a clean home.

use cleveragents_testkit::Agents;
use serde_json::Value;

/// The field `facts` of the step whose title starts with a word.
fn facts<'d>(data: &'d Value, word: &str) -> &'d Value {
    let steps = data["stops"].as_array().expect("steps");
    let step = steps.iter().find(|step| {
        let title = step["title"].as_str().expect("a title");
        title.contains(word)
    });
    &step.unwrap_or_else(|| panic!("no step `{word}`: {data}"))["facts"]
}

#[test]
fn the_demonstration_finds_proves_fixes_and_merges_three_races() {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    let answer = agents.run(&["--format", "json", "demo", "pools"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(!agents.home().exists(), "it works in a temporary folder");
    let data = &answer.json()["data"];
    assert_eq!(data["needs_key"], false);
    assert_eq!(facts(data, "Hunt: one")["new"], 3);
    assert_eq!(facts(data, "Hunt again")["new"], 0);
    let proofs = facts(data, "Triage")["proofs"].as_array().expect("proofs");
    assert_eq!(proofs.len(), 3);
    for proof in proofs {
        assert_eq!(proof["runs"], 20, "{proof}");
        assert_eq!(proof["failures"], proof["runs"], "{proof}");
    }
    let attempts = facts(data, "Fix")["attempts"].as_array().expect("attempts");
    let outcomes: Vec<&str> = attempts
        .iter()
        .filter_map(|attempt| attempt["outcome"].as_str())
        .collect();
    assert_eq!(
        outcomes,
        ["failed_gates", "succeeded", "succeeded", "succeeded"]
    );
    assert_eq!(attempts[1]["head_failures"], 0);
    assert_eq!(
        facts(data, "Merge")["commits"]
            .as_array()
            .expect("commits")
            .len(),
        3
    );
    assert_eq!(facts(data, "repository")["passed"], true);
    assert_eq!(facts(data, "repository")["is_marked"], false);
}
