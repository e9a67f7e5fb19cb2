//! Tests of parsing actions, resolving their arguments, and rendering their texts.

use super::{Action, ActionArgumentType, ActionValues, ArgumentProblem, PartBounds, PartDivision};
use crate::{ChildSettings, Code, Diagnose};
use proptest::prelude::*;
use serde_json::json;

const COVERAGE: &str = r"
name: coverage
description: Raise the coverage of {module} to {target_percent} %
long_description: |
  Only {module}. A literal {{brace}}.
definition_of_done: |
  - the coverage of {module} is at least {target-percent} %
  - all tests pass
strategy_actor: local/strategist
execution_actor: together/meta-llama/Llama-3.3-70B
invariant_actor: keeper
reusable: false
automation_profile: Trusted
safety_profile: team/careful
invariants:
  - never delete a test of {module}
arguments:
  - name: target_percent
    type: integer
    required: true
    description: How much of it
    minimum: 1
    maximum: 100
  - name: module
    type: path
    default: src
  - name: depth
    choices: [shallow, deep]
    required: false
  - name: ticket
    pattern: '[A-Z]+-\d{1,5}'
    required: false
  - {name: ratio, type: number, minimum: 0.5, required: false}
  - {name: dry-run, type: boolean, default: false}
  - {name: site, type: url, required: false}
  - {name: size, type: integer, choices: [1, 2], required: false}
";

fn none(_: &str) -> Option<String> {
    None
}

fn read(text: &str) -> Action {
    Action::read(text, &none).expect(text)
}

fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn every_field_of_a_file_is_parsed() {
    use ActionArgumentType::{Boolean, Choice, Integer, Number, Path, String, Url};
    let action = read(COVERAGE);
    assert_eq!(action.name, "local/coverage");
    assert_eq!(action.actors.strategy.as_deref(), Some("local/strategist"));
    assert_eq!(
        action.actors.execution.as_deref(),
        Some("together/meta-llama/Llama-3.3-70B"),
        "model names keep their case"
    );
    assert_eq!(action.actors.invariant.as_deref(), Some("local/keeper"));
    assert_eq!(action.actors.review, None);
    assert!(!action.reusable && !action.read_only);
    assert_eq!(action.automation_profile.as_deref(), Some("trusted"));
    assert_eq!(action.safety_profile.as_deref(), Some("team/careful"));
    let kinds: Vec<ActionArgumentType> = action
        .arguments
        .iter()
        .map(|argument| argument.kind)
        .collect();
    assert_eq!(
        kinds,
        [Integer, Path, Choice, String, Number, Boolean, Url, Integer]
    );
    let required = |name: &str| action.argument(name).expect("declared").required;
    assert!(required("target-percent") && !required("module") && !required("ticket"));
}

#[test]
fn the_stored_copy_in_a_plan_equals_the_action() {
    let action = read(COVERAGE);
    let stored = serde_json::to_string(&action).expect("JSON");
    let restored: Action = serde_json::from_str(&stored).expect("stored JSON");
    assert_eq!(restored, action);
}

#[test]
fn an_argument_is_required_unless_it_has_a_default_or_is_optional() {
    let action = read(
        "name: a\ndescription: d\ndefinition_of_done: d\narguments:\n- name: x\n- {name: y, default: 1}\n",
    );
    assert!(action.arguments[0].required);
    assert!(!action.arguments[1].required);
    assert_eq!(action.arguments[1].default, Some(json!("1")), "a text");
}

#[test]
fn values_are_parsed_by_their_types() {
    let action = read(COVERAGE);
    let values = action
        .resolve(&given(&[
            ("ratio", "0.75"),
            ("target-percent", "85"),
            ("dry_run", "Yes"),
            ("ticket", "AB-12"),
            ("site", "https://example.org/x"),
            ("depth", "deep"),
            ("size", "2"),
        ]))
        .expect("valid values");
    assert_eq!(
        serde_json::Value::from(values.values.clone()),
        json!({
            "target_percent": 85, "module": "src", "depth": "deep", "ticket": "AB-12",
            "ratio": 0.75, "dry-run": true, "site": "https://example.org/x", "size": 2,
        })
    );
    assert_eq!(
        values.order,
        [
            "target_percent",
            "module",
            "depth",
            "ticket",
            "ratio",
            "dry-run",
            "site",
            "size"
        ]
    );
}

#[test]
fn every_invalid_value_is_reported() {
    let action = read(COVERAGE);
    for (name, value, reported) in [
        ("target_percent", "many", "must be a whole number"),
        ("target_percent", "8.5", "must be a whole number"),
        ("target_percent", "", "must be a whole number"),
        ("target_percent", "0", "must be at least 1"),
        ("target_percent", "101", "must be at most 100"),
        ("module", "", "must be a path on one line"),
        ("module", "a\nb", "must be a path on one line"),
        ("depth", "deeper", "must be one of: shallow, deep"),
        (
            "ticket",
            "AB-12 ",
            "must match `[A-Z]+-\\d{1,5}` as a whole",
        ),
        ("ticket", "xAB-1", "must match `[A-Z]+-\\d{1,5}` as a whole"),
        ("ratio", "0.49", "must be at least 0.5"),
        ("ratio", "NaN", "must be a number"),
        ("ratio", "1e999", "must be a number"),
        ("dry-run", "maybe", "must be true or false"),
        (
            "site",
            "example.org",
            "must be an address such as https://host/path",
        ),
        (
            "site",
            "https://",
            "must be an address such as https://host/path",
        ),
        ("size", "3", "must be one of: 1, 2"),
        ("ticket", "a\u{0}", "must not contain control characters"),
    ] {
        let mut all = vec![(name, value)];
        if name != "target_percent" {
            all.push(("target_percent", "5"));
        }
        let error = action.resolve(&given(&all)).expect_err(value);
        assert_eq!(
            error.problems,
            [ArgumentProblem::Wrong {
                name: name.to_owned(),
                problem: reported.to_owned()
            }],
            "{name}={value}"
        );
        assert_eq!(error.code(), Code::InvalidActionArgument);
    }
}

#[test]
fn all_errors_are_reported_together_without_values() {
    let action = read(
        "name: a\ndescription: d\ndefinition_of_done: d\narguments:\n- name: first\n- name: second\n- {name: port, type: integer}\n- name: last_one\n",
    );
    let error = action
        .resolve(&given(&[
            ("port", "hunter2"),
            ("secnd", "hunter2"),
            ("last-one", "x"),
            ("last_one", "y"),
        ]))
        .expect_err("invalid arguments");
    assert_eq!(
        error.to_string(),
        "invalid arguments of local/a: there is no argument `secnd`; `first` is missing; \
         `second` is missing; `port` must be a whole number; `last_one` is given twice"
    );
    let hint = error.hint().expect("a hint").neutral();
    assert!(hint.starts_with("did you mean `second`?"), "{hint}");
    assert!(!format!("{error:?}{hint}{}", error.details()).contains("hunter2"));
    assert_eq!(error.details()["missing"], json!(["first", "second"]));
}

#[test]
fn placeholders_in_texts_are_filled() {
    let action = read(COVERAGE);
    let values = action
        .resolve(&given(&[
            ("target_percent", "85"),
            ("module", "{target_percent}/{{x}}"),
        ]))
        .expect("valid values");
    assert_eq!(
        action.render(&action.description, &values),
        "Raise the coverage of {target_percent}/{{x}} to 85 %",
        "a value is not parsed as a template"
    );
    assert_eq!(
        action.render("{target-percent} {depth}|{unknown} {{literal}}", &values),
        "85 |{unknown} {literal}"
    );
    let text = action.long_description.as_deref().expect("declared");
    assert!(action.render(text, &values).ends_with("A literal {brace}."));
}

#[test]
fn whole_numbers_are_compared_exactly() {
    let action = read(
        "name: a\ndescription: d\ndefinition_of_done: d\narguments:\n- {name: n, type: integer, maximum: 9007199254740992}\n",
    );
    assert!(action.resolve(&given(&[("n", "9007199254740992")])).is_ok());
    assert!(
        action
            .resolve(&given(&[("n", "9007199254740993")]))
            .is_err()
    );
}

#[test]
fn defect_8343_variables_are_replaced_with_their_types_and_an_unset_variable_is_an_error() {
    let text = "name: ${NAME}\ndescription: on ${HOST:localhost}\ndefinition_of_done: ${WHAT}\n\
                read_only: ${LOOK}\narguments:\n- {name: port, type: integer, default: '${PORT}'}\n";
    let variables = |name: &str| {
        Some(match name {
            "NAME" => "team/deploy".to_owned(),
            "WHAT" => "{port} is {{open}}".to_owned(),
            "LOOK" => "true".to_owned(),
            "PORT" => "8080".to_owned(),
            _ => return None,
        })
    };
    let action = Action::read(text, &variables).expect("all are set");
    assert_eq!(action.name, "team/deploy");
    assert_eq!(action.description, "on localhost");
    assert!(action.read_only);
    assert_eq!(action.arguments[0].default, Some(json!(8080)));
    let values = action.resolve(&[]).expect("the default");
    assert_eq!(
        action.render(&action.definition_of_done, &values),
        "{port} is {{open}}",
        "the value of a variable is not a template"
    );
    let fault = Action::read(text, &none).expect_err("unset");
    assert_eq!(fault.fault().message, "the variable `NAME` is not set");
    assert_eq!(fault.fault().place, Some((1, 7)));
}

#[test]
fn the_schema_names_every_field_and_refuses_others() {
    let schema = Action::schema();
    assert_eq!(
        schema["required"],
        json!(["name", "description", "definition_of_done"])
    );
    assert_eq!(schema["additionalProperties"], json!(false));
    let fields = schema["properties"].as_object().expect("fields");
    for field in [
        "strategy_actor",
        "arguments",
        "invariants",
        "safety_profile",
    ] {
        assert!(fields.contains_key(field), "{field}");
    }
    assert!(!fields.contains_key("inputs_schema"));
}

proptest! {
    #[test]
    fn a_rendered_text_contains_the_value_unchanged(value in "[^\\p{C}]{0,40}") {
        let action = read("name: a\ndescription: d\ndefinition_of_done: d\narguments: [{name: x}, {name: y, default: z}]\n");
        let values = action.resolve(&given(&[("x", &value)])).expect("a text");
        prop_assert_eq!(action.render("<{x}> {y} <{x}>", &values), format!("<{value}> z <{value}>"));
    }

    #[test]
    fn parsing_never_panics(text in "\\PC{0,80}", head in any::<bool>()) {
        let file = if head { format!("name: a\ndescription: |\n {text}\ndefinition_of_done: d\n") } else { text };
        if let Ok(action) = Action::read(&file, &none) {
            // A parsed text renders without leftovers.
            let filled = action.render(&action.description, &ActionValues::default());
            prop_assert!(!filled.is_empty());
        }
    }
}

const DIVIDED: &str =
    "name: divided\ndescription: d\ndefinition_of_done: done\narguments: [{name: what}]\n";

#[test]
fn parts_are_a_pattern_a_list_or_bounds() {
    let parts = |text: &str| {
        let action = read(&format!("{DIVIDED}parts: {text}\n"));
        let values = action.resolve(&given(&[("what", "shop")])).expect("values");
        action.render_parts(&values).expect("parts")
    };
    let pattern = parts("'{what}/*/'");
    assert_eq!(pattern.division, PartDivision::Paths("shop/*/".to_owned()));
    assert_eq!(pattern.children, ChildSettings::default());
    let PartDivision::List(list) =
        parts("[A, {title: 'B {what}', files: [b], after: [1]}]").division
    else {
        panic!("a list")
    };
    assert_eq!(list[0].title, "A");
    assert_eq!(
        (list[1].title.as_str(), list[1].after.as_slice()),
        ("B shop", [1].as_slice())
    );
    let bounded = parts("{max_files: 7, on_failure: continue, max_parallel: 2}");
    let bounds = PartBounds {
        max_files: 7,
        ..PartBounds::default()
    };
    assert_eq!(bounded.division, PartDivision::Bounds(bounds));
    assert_eq!(bounded.children.max_parallel, 2);
    let action = read(&format!("{DIVIDED}parts: [A]\n"));
    let stored = serde_json::to_string(&action).expect("JSON");
    let stored: Action = serde_json::from_str(&stored).expect("an action");
    assert_eq!(stored, action);
}

#[test]
fn parts_that_cannot_run_are_refused() {
    for (text, reason) in [
        ("[]", "empty"),
        ("{paths: a, max_files: 2}", "several divisions"),
        ("{on_failure: continue}", "no division"),
        ("{max_files: 0}", "at least 1"),
        ("{paths: a, max_parallel: 33}", "from 1 to 32"),
        ("[{title: A, after: [2]}]", "part 2, which does not exist"),
        ("['{where}']", "where"),
        ("{paths: a, whatever: 1}", "whatever"),
        ("7", "not the parts"),
    ] {
        let error = Action::read(&format!("{DIVIDED}parts: {text}\n"), &none).expect_err(text);
        assert!(error.to_string().contains(reason), "{text}: {error}");
    }
}
