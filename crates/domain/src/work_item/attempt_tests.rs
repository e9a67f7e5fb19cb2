use super::{AttemptEvidence, AttemptOutcome, GateResult, RegressionProof, RegressionRule};
use proptest::prelude::*;

fn gate(name: &str, exit_code: Option<i32>) -> GateResult {
    GateResult {
        name: name.to_owned(),
        command: format!("run {name}"),
        scope: "all".to_owned(),
        required: true,
        exit_code,
        commit_or_sandbox_state: "head".to_owned(),
        output_tail: String::new(),
    }
}

fn evidence(gates: Vec<GateResult>) -> AttemptEvidence {
    AttemptEvidence {
        required_gates: vec!["unit".to_owned()],
        gates,
        changed_paths: vec!["a.py".to_owned()],
        changes_behavior: true,
        ..AttemptEvidence::without_gates("head")
    }
}

fn outcome(evidence: &AttemptEvidence) -> AttemptOutcome {
    AttemptOutcome::from_evidence(evidence)
}

#[test]
fn passing_gates_on_the_result_are_a_success() {
    let passing = evidence(vec![gate("unit", Some(0))]);
    assert_eq!(outcome(&passing), AttemptOutcome::Succeeded);
    assert_eq!(passing.reason(), None);
}

#[test]
fn a_gate_without_an_exit_code_or_without_a_run_is_a_failure() {
    for (gates, reason) in [
        (
            vec![gate("unit", None)],
            "failed gates: unit (no exit code)",
        ),
        (vec![], "failed gates: unit (did not run)"),
        (
            vec![gate("unit", Some(2))],
            "failed gates: unit (exit code 2)",
        ),
    ] {
        let failed = evidence(gates);
        assert_eq!(outcome(&failed), AttemptOutcome::FailedGates);
        assert_eq!(failed.reason().as_deref(), Some(reason));
    }
}

#[test]
fn a_gate_of_another_state_is_a_failure() {
    let mut other = gate("unit", Some(0));
    other.commit_or_sandbox_state = "earlier".to_owned();
    let failed = evidence(vec![other]);
    assert_eq!(outcome(&failed), AttemptOutcome::FailedGates);
    assert_eq!(
        failed.reason().as_deref(),
        Some("failed gates: unit (ran on another state)")
    );
}

#[test]
fn an_attempt_without_a_required_gate_proves_nothing() {
    let mut bare = evidence(vec![]);
    bare.required_gates.clear();
    assert_eq!(outcome(&bare), AttemptOutcome::FailedGates);
    let mut optional = gate("lint", Some(0));
    optional.required = false;
    bare.gates.push(optional);
    assert_eq!(outcome(&bare), AttemptOutcome::FailedGates);
}

#[test]
fn a_change_without_behavior_is_empty_even_if_its_gates_pass() {
    let mut empty = evidence(vec![gate("unit", Some(0))]);
    empty.changes_behavior = false;
    assert_eq!(outcome(&empty), AttemptOutcome::EmptyChange);
}

#[test]
fn a_red_base_is_not_the_fault_of_the_attempt_unless_it_has_to_fix_it() {
    let mut red = evidence(vec![gate("unit", Some(1))]);
    red.failing_on_base = vec!["unit".to_owned()];
    assert_eq!(outcome(&red), AttemptOutcome::RedBase);
    red.fixes_base = true;
    assert_eq!(outcome(&red), AttemptOutcome::FailedGates);
    red.fixes_base = false;
    red.gates.push(gate("lint", Some(1)));
    assert_eq!(outcome(&red), AttemptOutcome::FailedGates);
}

#[test]
fn a_regression_test_has_to_fail_on_the_base_and_pass_on_the_result() {
    use AttemptOutcome::{FailedGates, Succeeded};
    use RegressionRule::{FailsOnBase, FailsOnBaseAndPassesOnHead as Both, NotNeeded};
    let proof = |base_failures, head_runs, head_failures| RegressionProof {
        test: "test_cart".to_owned(),
        base_runs: 20,
        base_failures,
        head_runs,
        head_failures,
    };
    for (rule, regression, expected) in [
        (FailsOnBase, Some(proof(3, 0, 0)), Succeeded),
        (FailsOnBase, Some(proof(0, 0, 0)), FailedGates),
        (FailsOnBase, None, FailedGates),
        (Both, Some(proof(3, 20, 0)), Succeeded),
        (Both, Some(proof(3, 0, 0)), FailedGates),
        (Both, Some(proof(0, 20, 0)), FailedGates),
        (Both, Some(proof(3, 20, 1)), FailedGates),
        (NotNeeded, None, Succeeded),
    ] {
        let mut captured = evidence(vec![gate("unit", Some(0))]);
        captured.regression_rule = rule;
        captured.regression = regression;
        assert_eq!(outcome(&captured), expected, "{captured:?}");
    }
}

fn codes() -> impl Strategy<Value = Option<i32>> {
    prop_oneof![Just(None), Just(Some(0)), (1..256_i32).prop_map(Some)]
}

proptest! {
    #[test]
    fn a_success_has_an_exit_code_of_zero_for_every_required_gate(
        results in proptest::collection::vec((0..4_usize, codes(), any::<bool>(), any::<bool>()), 0..6),
        required in proptest::collection::vec(0..4_usize, 0..4),
        summary in "\\PC{0,40}",
        flags in any::<[bool; 6]>(),
    ) {
        let names = ["unit", "lint", "types", "coverage"];
        let evidence = AttemptEvidence {
            required_gates: required.iter().map(|index| names[*index].to_owned()).collect(),
            gates: results.iter().map(|(index, code, is_required, is_current)| GateResult {
                required: *is_required,
                commit_or_sandbox_state: if *is_current { "head" } else { "old" }.to_owned(),
                ..gate(names[*index], *code)
            }).collect(),
            changed_paths: if flags[0] { vec!["a".to_owned()] } else { vec![] },
            changes_behavior: flags[1],
            cancelled: flags[2],
            environment_failure: flags[3].then(|| "no disk".to_owned()),
            limit: flags[4].then(|| "time".to_owned()),
            blocked_by: flags[5].then(|| "answer".to_owned()),
            summary,
            ..AttemptEvidence::without_gates("head")
        };
        let outcome = AttemptOutcome::from_evidence(&evidence);
        prop_assert_eq!(evidence.reason().is_none(), outcome == AttemptOutcome::Succeeded);
        if outcome == AttemptOutcome::Succeeded {
            let flagged = evidence.gates.iter().filter(|gate| gate.required).map(|gate| &gate.name);
            let needed: Vec<&String> = evidence.required_gates.iter().chain(flagged).collect();
            prop_assert!(!needed.is_empty());
            for name in needed {
                let passed = |gate: &GateResult| gate.exit_code == Some(0) && gate.commit_or_sandbox_state == "head";
                prop_assert!(evidence.gates.iter().any(|gate| gate.name == *name && passed(gate)));
            }
            prop_assert!(evidence.changes_behavior && !evidence.changed_paths.is_empty() && !evidence.cancelled);
        }
        // The report of the model has no influence.
        let silent = AttemptEvidence { summary: String::new(), ..evidence.clone() };
        prop_assert_eq!(AttemptOutcome::from_evidence(&silent), outcome);
    }
}
