//! Tests of the parser of profile files: parsed fields of valid files, and errors of invalid files.

use std::path::Path;

use cleveragents_domain::{AutomationGate, AutomationProfile, Code, Diagnose as _, MicroUsd};

use super::{read, schema};

fn profile(text: &str) -> Result<AutomationProfile, cleveragents_domain::DefinitionFileError> {
    let variables = |name: &str| match name {
        "SURE" => Some("0.8".to_owned()),
        "WORD" => Some("often".to_owned()),
        _ => None,
    };
    let mut find = |name: &str| {
        AutomationProfile::find_built_in(name)
            .ok_or_else(|| format!("there is no automation profile named `{name}`"))
    };
    read(text, Path::new("p.yaml"), &variables, &mut find)
}

/// The published example of a custom profile.
const COMPLETE_PROFILE: &str = "name: team/careful
description: Asks before it applies
decompose_task: 0.0
create_tool: 0
select_tool: 1.0
edit_code: 0.0
execute_command: ${SURE}
create_file: 0.0
delete_content: 1.0
access_network: 1.0
install_dependency: 0.0
modify_config: 0.0
approve_plan: ${UNSET:0.25}
require_sandbox: true
require_checkpoints: false
allow_unsafe_tools: true
guards:
  tool_denylist: ['builtin/git-*']
  tool_allowlist: []
  max_tool_calls_per_step: 7
  max_total_cost: 1.5
  require_approval_for_writes: true
  require_approval_for_apply: true
max_retries: 1
validation_retries: 5
";

#[test]
fn every_field_is_read() {
    let read = profile(COMPLETE_PROFILE).expect("a valid profile");
    assert_eq!(read.name, "team/careful");
    assert_eq!(read.description, "Asks before it applies");
    let numbers: Vec<f64> = AutomationGate::ALL
        .into_iter()
        .map(|gate| read.thresholds.threshold(gate))
        .collect();
    let expected = [0.0, 0.0, 1.0, 0.0, 0.8, 0.0, 1.0, 1.0, 0.0, 0.0, 0.25];
    assert_eq!(numbers, expected);
    assert!(read.require_sandbox && !read.require_checkpoints && read.allow_unsafe_tools);
    assert_eq!((read.max_retries, read.validation_retries), (1, 5));
    let guards = read.guards.expect("guards");
    assert_eq!(guards.tool_denylist, ["builtin/git-*"]);
    assert_eq!(guards.tool_allowlist, Some(Vec::new()));
    assert_eq!(guards.max_tool_calls_per_step, Some(7));
    assert_eq!(guards.max_total_cost, Some(MicroUsd(1_500_000)));
    assert!(guards.require_approval_for_writes && guards.require_approval_for_apply);
}

#[test]
fn omitted_values_are_inherited_from_the_base_profile() {
    let read = profile("name: ours\nextends: full-auto\nselect_tool: 0.9\nguards: null\n");
    let read = read.expect("a valid profile");
    let base = AutomationProfile::find_built_in("full-auto").expect("built in");
    assert_eq!(read.name, "local/ours");
    for gate in AutomationGate::ALL {
        let expected = if gate == AutomationGate::Apply {
            0.9
        } else {
            base.thresholds.threshold(gate)
        };
        assert!((read.thresholds.threshold(gate) - expected).abs() < 1e-12);
    }
    assert!(!read.require_sandbox && !read.require_checkpoints);
}

#[test]
fn flags_may_be_nested_under_safety_and_default_to_the_safe_value() {
    let thresholds: Vec<String> = AutomationGate::ALL
        .iter()
        .map(|gate| format!("{}: 0.5\n", gate.as_str()))
        .collect();
    let thresholds = thresholds.concat();
    let bare = profile(&format!("name: a\n{thresholds}")).expect("a valid profile");
    assert!(bare.require_sandbox && bare.require_checkpoints && !bare.allow_unsafe_tools);
    let nested = format!("name: a\n{thresholds}safety: {{require_sandbox: false}}\n");
    assert!(!profile(&nested).expect("a valid profile").require_sandbox);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn errors_of_an_invalid_file_have_position_and_fix() {
    use Code::{InvalidProfile as Rule, MalformedProfile as Malformed};
    let short = "name: a\nextends: trusted\n";
    for (text, code, message, fix) in [
        (
            String::new(),
            Malformed,
            "p.yaml:1:1: the file is not a map",
            "extends: trusted",
        ),
        (
            "- a\n".to_owned(),
            Malformed,
            "p.yaml:1:1: the file is not a map",
            "extends",
        ),
        (
            "name: [a\n".to_owned(),
            Malformed,
            "p.yaml:",
            "docs/reference/automation-profiles.md",
        ),
        (
            "extends: trusted\n".to_owned(),
            Malformed,
            "p.yaml:1:1: the field `name` is missing",
            "add `name",
        ),
        (
            "name: a\n".to_owned(),
            Rule,
            "p.yaml:1:7: these thresholds are missing: decompose_task, create_tool",
            "extends: trusted",
        ),
        (
            COMPLETE_PROFILE.replace("edit_code: 0.0\n", ""),
            Rule,
            "p.yaml:1:7: these thresholds are missing: edit_code",
            "extends",
        ),
        (
            "name: manual\nextends: trusted\n".to_owned(),
            Rule,
            "p.yaml:1:7: `manual` is built in",
            "local/manual",
        ),
        (
            "name: Full-Auto\nextends: trusted\n".to_owned(),
            Rule,
            "p.yaml:1:7: `full-auto` is built",
            "local/full-auto",
        ),
        (
            "name: a b\nextends: trusted\n".to_owned(),
            Rule,
            "p.yaml:1:7: `a b` is not a name",
            "namespace/name",
        ),
        (
            "name: ''\nextends: trusted\n".to_owned(),
            Rule,
            "p.yaml:1:7: `` is not a name",
            "namespace/name",
        ),
        (
            "name: system/x\nextends: trusted\n".to_owned(),
            Rule,
            "p.yaml:1:7: the namespace `system` is reserved",
            "local/careful",
        ),
        (
            "name: a\nextends: trustd\n".to_owned(),
            Rule,
            "p.yaml:2:10: there is no automation profile named `trustd`",
            "trusted",
        ),
        (
            "name: a\nextends: local/a\n".to_owned(),
            Rule,
            "p.yaml:2:10: a profile cannot extend itself",
            "trusted",
        ),
        (
            format!("{short}edit_cod: 0.5\n"),
            Malformed,
            "p.yaml:3:1: there is no field `edit_cod`",
            "edit_code",
        ),
        (
            format!("{short}edit_code: 1.5\n"),
            Rule,
            "p.yaml:3:12: `edit_code` cannot be 1.5",
            "from 0",
        ),
        (
            format!("{short}edit_code: -0.1\n"),
            Rule,
            "p.yaml:3:12: `edit_code` cannot be -0.1",
            "from 0",
        ),
        (
            format!("{short}edit_code: often\n"),
            Rule,
            "p.yaml:3:12: `often` is not a number",
            "write a number",
        ),
        (
            format!("{short}edit_code: .nan\n"),
            Malformed,
            "p.yaml:3:12",
            "docs/reference/automation-profiles.md",
        ),
        (
            format!("{short}edit_code: [1]\n"),
            Rule,
            "p.yaml:3:12: `[1]` is not a number",
            "number",
        ),
        (
            format!("{short}edit_code: ${{WORD}}\n"),
            Rule,
            "p.yaml:3:12: `often` is not a number",
            "number",
        ),
        (
            format!("{short}edit_code: ${{MISSING}}\n"),
            Malformed,
            "p.yaml:3:12: the variable `MISSING` is not set",
            "default",
        ),
        (
            format!("{short}edit_code: 0\nedit_code: 1\n"),
            Malformed,
            "p.yaml:4:1: the field `edit_code` occurs twice",
            "one of them",
        ),
        (
            format!("{short}require_sandbox: perhaps\n"),
            Rule,
            "p.yaml:3:18: `perhaps` is not `true` or `false`",
            "true",
        ),
        (
            format!("{short}require_sandbox: true\nsafety: {{require_sandbox: false}}\n"),
            Rule,
            "p.yaml:4:27: `require_sandbox` is set here and at the top",
            "one of them",
        ),
        (
            format!("{short}safety: {{sandbox: true}}\n"),
            Malformed,
            "p.yaml:3:10: there is no field `sandbox`",
            "require_sandbox",
        ),
        (
            format!("{short}max_retries: -1\n"),
            Rule,
            "p.yaml:3:14: `-1` is not a whole number",
            "0 to 100",
        ),
        (
            format!("{short}max_retries: 101\n"),
            Rule,
            "p.yaml:3:14: `101` is not a whole number",
            "0 to 100",
        ),
        (
            format!("{short}validation_retries: 1.5\n"),
            Rule,
            "p.yaml:3:21: `1.5` is not a whole number",
            "0 to 100",
        ),
        (
            format!("{short}guards: []\n"),
            Malformed,
            "p.yaml:3:9: a map is expected",
            "field: value",
        ),
        (
            format!("{short}guards: {{denylist: []}}\n"),
            Malformed,
            "p.yaml:3:10: there is no field `denylist`",
            "tool_denylist",
        ),
        (
            format!("{short}guards: {{tool_denylist: [shell]}}\n"),
            Rule,
            "p.yaml:3:26",
            "full name",
        ),
        (
            format!("{short}guards: {{tool_allowlist: builtin/shell}}\n"),
            Malformed,
            "p.yaml:3:26: a list is expected",
            "write a list",
        ),
        (
            format!("{short}guards: {{max_total_cost: -1}}\n"),
            Rule,
            "p.yaml:3:26: `-1` is not an amount",
            "0.50",
        ),
        (
            format!("{short}guards: {{max_tool_calls_per_step: many}}\n"),
            Rule,
            "p.yaml:3:35: `many` is not a whole number",
            "whole number",
        ),
        (
            format!("{short}cleveragents: {{version: '9'}}\n"),
            Malformed,
            "p.yaml:3:25: the format version 9",
            "3.0",
        ),
        (
            format!("{short}schema_version: 2\n"),
            Malformed,
            "p.yaml:3:17: the format version 2",
            "3.0",
        ),
        (
            format!("{short}---\nname: b\n"),
            Malformed,
            "p.yaml:",
            "separate file",
        ),
    ] {
        let error = profile(&text).expect_err(&text);
        let shown = error.to_string();
        assert!(
            shown.starts_with(message),
            "{text}\n{shown}\nexpected {message}"
        );
        assert_eq!(error.code(), code, "{text}\n{shown}");
        let hint = error.hint().expect("a hint").neutral();
        assert!(
            hint.contains(fix),
            "{text}\n{shown}\n{hint}\nexpected {fix}"
        );
    }
}

#[test]
fn the_schema_accepts_the_same_files_as_the_parser() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let json =
        |text: &str| -> serde_json::Value { cleveragents_domain::yaml::read(text).expect("YAML") };
    let plain = COMPLETE_PROFILE
        .replace("${SURE}", "0.8")
        .replace("${UNSET:0.25}", "0.25");
    assert!(validator.is_valid(&json(&plain)));
    assert!(validator.is_valid(&json(
        "name: a\nextends: trusted\nvalidation_retry_limit: 2\n"
    )));
    for wrong in [
        "name: a\n",
        "extends: trusted\n",
        "name: a\nextends: b\nedit_cod: 1\n",
    ] {
        assert!(!validator.is_valid(&json(wrong)), "{wrong}");
    }
}
