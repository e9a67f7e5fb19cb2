//! Invalid action files, and the error expected for each.

use super::Action;
use crate::DefinitionFault;

const HEADER: &str = "name: a\ndescription: d\ndefinition_of_done: d\n";

/// Text of a file, whether its definition is invalid (otherwise it is malformed), expected line, start of the expected message,
/// and part of the expected fix.
type BrokenCase = (&'static str, bool, u64, &'static str, &'static str);

const COMPLETE_FILES: &[BrokenCase] = &[
    ("", false, 1, "", ""),
    (
        "- name: a\n",
        false,
        1,
        "a map is expected here",
        "write `field: value`",
    ),
    ("name: [\n", false, 1, "", ""),
    (
        "description: d\ndefinition_of_done: d\n",
        false,
        2,
        "the field `name` is missing",
        "add `name: …`",
    ),
    (
        "name: a\ndefinition_of_done: d\n",
        false,
        2,
        "the field `description` is missing",
        "add `description: …`",
    ),
    (
        "name: a\ndescription: d\n",
        false,
        2,
        "the field `definition_of_done` is missing",
        "add `definition_of_done: …`",
    ),
    (
        "name: a b\ndescription: d\ndefinition_of_done: d\n",
        true,
        1,
        "`a b` is not a name",
        "an action is named like",
    ),
    (
        "name: system/a\ndescription: d\ndefinition_of_done: d\n",
        true,
        1,
        "the namespace `system` is reserved",
        "an action is named like",
    ),
    (
        "name: openai/a\ndescription: d\ndefinition_of_done: d\n",
        true,
        1,
        "the namespace `openai` is reserved",
        "an action is named like",
    ),
    (
        "name: a\ndescription: ' '\ndefinition_of_done: d\n",
        true,
        2,
        "the field `description` is empty",
        "write one sentence",
    ),
    (
        "name: a\ndescription: d\ndefinition_of_done: ''\n",
        true,
        3,
        "the field `definition_of_done` is empty",
        "write one sentence",
    ),
    (
        "name: a\ndescription: fix {module}\ndefinition_of_done: d\n",
        true,
        2,
        "there is no argument for `{module}`",
        "declare it under `arguments`",
    ),
    (
        "name: a\ndescription: d\ndefinition_of_done: |\n  - one\n  - keep {modul}\narguments: [{name: module}]\n",
        true,
        5,
        "there is no argument for `{modul}`",
        "write `{module}`",
    ),
    (
        "name: a\ndescription: d\ndefinition_of_done: 'a } b'\n",
        true,
        3,
        "a `}` of `definition_of_done` is not part of a placeholder",
        "write `}}` for a brace",
    ),
    (
        "name: a\ndescription: 'if (x) { y }'\ndefinition_of_done: d\n",
        true,
        2,
        "a `{` of `description` is not part of a placeholder",
        "write `{{` for a brace",
    ),
    (
        "name: a\nname: b\ndescription: d\ndefinition_of_done: d\n",
        false,
        2,
        "the field `name` occurs twice",
        "remove one of them",
    ),
    (
        "name: a\ndescription: d\ndefinition_of_done: d\n---\nname: b\n",
        false,
        5,
        "a second document begins here",
        "move it to a separate file",
    ),
];

/// Lines that are appended to [`HEADER`], a valid file.
const APPENDED_LINES: &[BrokenCase] = &[
    (
        "apply_actor: local/applier\n",
        true,
        4,
        "`apply_actor` cannot be `local/applier`: no actor takes part in applying",
        "leave it out; `review_actor` names the actor that reviews the result",
    ),
    (
        "invariants: [keep {module}]\n",
        false,
        4,
        "while parsing a flow sequence",
        "put a text that holds `{name}` in quotes",
    ),
    (
        "definition_of_dun: d\n",
        false,
        4,
        "there is no field `definition_of_dun`",
        "did you mean `definition_of_done`?",
    ),
    (
        "strategy: local/x\n",
        false,
        4,
        "there is no field `strategy`",
        "did you mean",
    ),
    (
        "inputs_schema: {type: object}\n",
        false,
        4,
        "an action has no `inputs_schema`",
        "use `arguments`",
    ),
    (
        "state: archived\n",
        true,
        4,
        "a file cannot make an action `archived`",
        "leave `state` out",
    ),
    (
        "reusable: perhaps\n",
        false,
        4,
        "true or false is expected here",
        "write `true` or `false`",
    ),
    (
        "read_only: 1\n",
        false,
        4,
        "true or false is expected here",
        "write `true` or `false`",
    ),
    (
        "strategy_actor: ''\n",
        true,
        4,
        "`` is not a name",
        "name an actor such as",
    ),
    (
        "execution_actor: my actor\n",
        true,
        4,
        "`my actor` is not a name",
        "name an actor such as",
    ),
    (
        "automation_profile: no such\n",
        true,
        4,
        "`no such` is not the name of a profile",
        "write `automation_profile: supervised`",
    ),
    (
        "safety_profile: {max_cost: 1}\n",
        false,
        4,
        "a text is expected here",
        "write a single text",
    ),
    (
        "cleveragents: {version: '2.0'}\n",
        false,
        4,
        "the format version 2.0 is not known",
        "write `version: \"3.0\"`",
    ),
    (
        "long_description: ${UNSET_VARIABLE}\n",
        false,
        4,
        "the variable `UNSET_VARIABLE` is not set",
        "set it, or give a default",
    ),
    (
        "invariants: keep it\n",
        false,
        4,
        "a list is expected here",
        "write a list",
    ),
    (
        "invariants: ['']\n",
        true,
        4,
        "the field `invariants` is empty",
        "write one sentence",
    ),
    (
        "invariants:\n- keep it\n- keep it\n",
        true,
        6,
        "the invariant occurs twice",
        "remove one of them",
    ),
    (
        "invariants: [\"a\\u202eb\"]\n",
        true,
        4,
        "an invariant cannot contain control characters",
        "correct the sentence",
    ),
    (
        "invariants: ['keep {it}']\n",
        true,
        4,
        "there is no argument for `{it}`",
        "declare it",
    ),
    (
        "arguments: {name: x}\n",
        false,
        4,
        "a list is expected here",
        "write a list",
    ),
    (
        "arguments:\n- type: string\n",
        false,
        5,
        "the field `name` is missing",
        "add `name: …`",
    ),
    (
        "arguments: [{name: 1x}]\n",
        true,
        4,
        "`1x` cannot be the name of an argument",
        "beginning with a letter",
    ),
    (
        "arguments: [{name: 'a b'}]\n",
        true,
        4,
        "`a b` cannot be the name of an argument",
        "use letters",
    ),
    (
        "arguments:\n- name: a-b\n- name: a_b\n",
        true,
        6,
        "there is an argument `a-b` already",
        "`-` and `_` are the same",
    ),
    (
        "arguments: [{name: x, type: strng}]\n",
        false,
        4,
        "there is no value `strng`",
        "did you mean `string`?",
    ),
    (
        "arguments: [{name: x, requird: true}]\n",
        false,
        4,
        "there is no field `requird`",
        "did you mean `required`?",
    ),
    (
        "arguments: [{name: x, required: true, default: y}]\n",
        true,
        4,
        "`x` is required and has a default",
        "remove one of them",
    ),
    (
        "arguments: [{name: x, type: integer, default: many}]\n",
        true,
        4,
        "the default of `x` must be a whole number",
        "give it another default",
    ),
    (
        "arguments: [{name: x, type: integer, minimum: 5, default: 4}]\n",
        true,
        4,
        "the default of `x` must be at least 5",
        "give it another default",
    ),
    (
        "arguments: [{name: x, choices: [a, b], default: c}]\n",
        true,
        4,
        "the default of `x` must be one of: a, b",
        "give it another default",
    ),
    (
        "arguments: [{name: x, type: boolean, default: 'yes'}]\n",
        true,
        4,
        "the default of `x` must be true or false",
        "give it another default",
    ),
    (
        "arguments: [{name: x, type: choice}]\n",
        true,
        4,
        "`x` is a choice without choices",
        "list them",
    ),
    (
        "arguments: [{name: x, choices: [a, a]}]\n",
        true,
        4,
        "a choice of `x` occurs twice",
        "remove one of them",
    ),
    (
        "arguments: [{name: x, type: integer, choices: [1, b]}]\n",
        true,
        4,
        "a choice of `x` must be a whole number",
        "give only choices",
    ),
    (
        "arguments: [{name: x, minimum: 1}]\n",
        true,
        4,
        "`x` is not a number and has no range",
        "make it `type: integer`",
    ),
    (
        "arguments: [{name: x, type: integer, minimum: few}]\n",
        false,
        4,
        "a number is expected here",
        "write a number",
    ),
    (
        "arguments: [{name: x, type: number, minimum: 2, maximum: 1}]\n",
        true,
        4,
        "no number is at least 2 and at most 1",
        "swap",
    ),
    (
        "arguments: [{name: x, type: integer, pattern: '[0-9]'}]\n",
        true,
        4,
        "`x` is not a text and has no pattern",
        "leave `pattern` out",
    ),
    (
        "arguments: [{name: x, pattern: '('}]\n",
        true,
        4,
        "`(` is not a regular expression",
        "write it in the syntax",
    ),
    (
        "arguments: [{name: x, pattern: 'a)|(b'}]\n",
        true,
        4,
        "`a)|(b` is not a regular expression",
        "write it in the syntax",
    ),
    (
        "arguments: [{name: x, pattern: 'a+', default: b}]\n",
        true,
        4,
        "the default of `x` must match `a+` as a whole",
        "give it another default",
    ),
];

/// Describes the difference between the expected and the actual error, if any.
fn mismatch(text: &str, (_, is_rule, line, message, fix): BrokenCase) -> Option<String> {
    let Err(error) = Action::read(text, &|_| None) else {
        return Some(format!("{text}: no error is reported"));
    };
    let fault = error.fault();
    let reported = match (&fault.fix, &fault.nearest) {
        (Some(reported), _) => reported.neutral(),
        (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
        (None, None) => String::new(),
    };
    let is_expected = fault.message.starts_with(message)
        && matches!(error, DefinitionFault::Rule(_)) == is_rule
        && fault.place.map_or(1, |place| place.0) == line
        && reported.contains(fix);
    (!is_expected).then(|| format!("{text}: {error:?}"))
}

#[test]
fn defect_3885_every_invalid_file_is_refused_with_its_position_and_a_fix() {
    assert!(Action::read(HEADER, &|_| None).is_ok());
    assert!(COMPLETE_FILES.len() + APPENDED_LINES.len() >= 25);
    let complete = COMPLETE_FILES
        .iter()
        .map(|broken| (broken.0.to_owned(), *broken));
    let appended = APPENDED_LINES
        .iter()
        .map(|broken| (format!("{HEADER}{}", broken.0), *broken));
    let mismatches: Vec<String> = complete
        .chain(appended)
        .filter_map(|(text, broken)| mismatch(&text, broken))
        .collect();
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
}
