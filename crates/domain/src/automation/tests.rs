//! Tests of the built-in automation profiles, gates and thresholds.

use super::{AutomationGate, AutomationGuard, AutomationProfile, GateGroup, Thresholds};
use crate::MicroUsd;
use proptest::prelude::*;

/// The published table, gate by gate; the columns are the profiles in their order.
const TABLE: &str = "
decompose_task     1.0 0.0 0.0 0.7 0.0 0.0 0.0 0.0
create_tool        1.0 0.0 1.0 0.7 0.0 0.0 0.0 0.0
select_tool        1.0 1.0 1.0 1.0 1.0 1.0 0.0 0.0
edit_code          1.0 1.0 0.0 0.7 0.0 0.0 0.0 0.0
execute_command    1.0 1.0 1.0 0.7 0.0 0.0 0.0 0.0
create_file        1.0 1.0 1.0 0.7 0.0 0.0 0.0 0.0
delete_content     1.0 1.0 1.0 0.9 1.0 0.0 0.0 0.0
access_network     1.0 1.0 1.0 1.0 1.0 1.0 0.0 0.0
install_dependency 1.0 1.0 1.0 0.7 0.0 0.0 0.0 0.0
modify_config      1.0 0.0 0.0 0.5 0.0 0.0 0.0 0.0
approve_plan       1.0 1.0 1.0 0.9 1.0 0.0 0.0 0.0
";

#[test]
fn the_built_in_profiles_match_the_published_table() {
    let profiles = AutomationProfile::built_in();
    let names: Vec<&str> = profiles
        .iter()
        .map(|profile| profile.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "manual",
            "review",
            "supervised",
            "cautious",
            "trusted",
            "auto",
            "ci",
            "full-auto"
        ]
    );
    let lines: Vec<&str> = TABLE.trim().lines().collect();
    assert_eq!(lines.len(), AutomationGate::ALL.len());
    for (line, gate) in lines.into_iter().zip(AutomationGate::ALL) {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some(gate.as_str()));
        let numbers: Vec<f64> = words.map(|word| word.parse().expect("a number")).collect();
        let thresholds: Vec<f64> = profiles
            .iter()
            .map(|profile| profile.thresholds.threshold(gate))
            .collect();
        assert_eq!(thresholds, numbers, "{line}");
    }
}

#[test]
fn only_full_auto_needs_no_sandbox_and_no_profile_allows_unsafe_tools() {
    for profile in AutomationProfile::built_in() {
        let is_full_auto = profile.name == "full-auto";
        assert_eq!(profile.require_sandbox, !is_full_auto, "{}", profile.name);
        assert_eq!(
            profile.require_checkpoints, !is_full_auto,
            "{}",
            profile.name
        );
        assert!(!profile.allow_unsafe_tools, "{}", profile.name);
        assert_eq!((profile.max_retries, profile.validation_retries), (3, 3));
        assert!(profile.is_built_in());
    }
}

#[test]
fn every_gate_is_in_one_group_and_has_a_description() {
    let grouped: usize = GateGroup::ALL
        .into_iter()
        .map(|group| group.gates().count())
        .sum();
    assert_eq!(grouped, AutomationGate::ALL.len());
    let mut descriptions: Vec<&str> = AutomationGate::ALL
        .map(AutomationGate::description)
        .to_vec();
    descriptions.sort_unstable();
    descriptions.dedup();
    assert_eq!(descriptions.len(), AutomationGate::ALL.len());
    for gate in AutomationGate::ALL {
        let name = serde_json::to_value(gate).expect("a name");
        assert_eq!(name, gate.as_str());
    }
}

#[test]
fn a_stored_profile_with_a_missing_or_invalid_threshold_is_refused() {
    let profile = AutomationProfile::find_built_in("cautious").expect("built in");
    let mut stored = serde_json::to_value(&profile).expect("JSON");
    stored["thresholds"]["edit_code"] = serde_json::json!(1.5);
    assert!(serde_json::from_value::<AutomationProfile>(stored.clone()).is_err());
    let thresholds = stored["thresholds"].as_object_mut().expect("a map");
    thresholds.remove("edit_code");
    assert!(serde_json::from_value::<AutomationProfile>(stored).is_err());
}

proptest! {
    #[test]
    fn a_profile_round_trips_through_json(
        values in prop::array::uniform11(0..=1000_u32),
        flags in prop::array::uniform5(any::<bool>()),
        retries in 0..10_u32,
        cost in prop::option::of(0..1_u64 << 40),
        allowed in prop::option::of(prop::collection::vec("[a-z]{1,5}/[a-z]{1,5}", 0..3)),
    ) {
        let profile = AutomationProfile {
            name: "local/ours".to_owned(),
            description: "Ours".to_owned(),
            thresholds: Thresholds::new(values.map(|value| f64::from(value) / 1000.0)).expect("in bounds"),
            require_sandbox: flags[0],
            require_checkpoints: flags[1],
            allow_unsafe_tools: flags[2],
            guards: Some(AutomationGuard {
                tool_allowlist: allowed,
                max_total_cost: cost.map(MicroUsd),
                require_approval_for_writes: flags[3],
                require_approval_for_apply: flags[4],
                ..AutomationGuard::default()
            }),
            max_retries: retries,
            validation_retries: retries,
        };
        let stored = serde_json::to_string(&profile).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<AutomationProfile>(&stored).expect("back"), profile);
    }

    #[test]
    fn numbers_outside_0_to_1_are_refused_as_thresholds(
        value in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -100.0..-0.001, 1.001..100.0],
        index in 0..11_usize,
    ) {
        let mut values = [0.5; 11];
        values[index] = value;
        prop_assert!(Thresholds::new(values).is_none());
    }
}
