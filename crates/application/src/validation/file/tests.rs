//! Tests of the parser: parsed fields of valid files, and errors of invalid files.

use std::path::Path;
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose as _, ValidationMode};
use serde_json::json;

use super::super::definition::{CommandLine, Validation, ValidationCheck};
use super::{read, schema};

fn validation(text: &str) -> Result<Validation, cleveragents_domain::DefinitionFileError> {
    let variables = |name: &str| (name == "TOKEN").then(|| "s3cret-token".to_owned());
    read(text, Path::new("v.yaml"), &variables)
}

const ALL_FIELDS: &str = "name: local/coverage
description: Enough is tested
mode: informational
command: cargo llvm-cov --package {package} --fail-under ${LEAST}
timeout: 90
network: true
environment: {API_TOKEN: '${TOKEN}'}
working_directory: crates/web/
passes_when: {exit_code: [0, 3], output_matches: '^TOTAL'}
metrics: {coverage: 'TOTAL\\s+([\\d.]+)%', tests: '(\\d+) passed'}
minimum: {coverage: 80.5}
maximum: {tests: 1000}
";

const WRAPS: &str = "name: local/no-todo
description: Nothing is left to do
wraps: builtin/search-text
arguments: {pattern: '{word}', path: src}
transform: \"{'passed': output == '', 'message': 'found'}\"
";

#[test]
fn every_field_is_read() {
    let read = validation(ALL_FIELDS).expect("it reads");
    assert_eq!(read.name, "local/coverage");
    assert_eq!(read.mode, ValidationMode::Informational);
    let ValidationCheck::Command(check) = &read.check else {
        panic!("a command: {read:?}");
    };
    // `${LEAST}` stays, because the shell expands its own variables.
    let text = "cargo llvm-cov --package {package} --fail-under ${LEAST}".to_owned();
    assert_eq!(check.command, CommandLine::Shell(text));
    assert_eq!(check.timeout, Duration::from_secs(90));
    assert!(check.network);
    assert_eq!(check.environment["API_TOKEN"], "s3cret-token");
    let folder = check.working_directory.as_ref().map(ToString::to_string);
    assert_eq!(folder.as_deref(), Some("crates/web"));
    assert_eq!(check.exit_codes, [0, 3]);
    assert_eq!(format!("{:?}", check.minimum["coverage"]), "80.5");
    assert_eq!(format!("{:?}", check.maximum["tests"]), "1000.0");
    assert_eq!(
        read.placeholder_names().into_iter().collect::<Vec<_>>(),
        ["package"]
    );
    // The value of a secret variable appears neither in the debug output nor in the summary.
    assert!(!format!("{read:?} {}", json!(read.summary())).contains("s3cret"));
    let words = "name: local/x\ndescription: 'd ${TOKEN}'\ncommand: [curl, '-HX: ${TOKEN}']\n";
    let words = validation(words).expect("it reads");
    let reported = format!("{words:?} {}", json!(words.summary()));
    assert!(
        !reported.contains("s3cret") && reported.contains("curl"),
        "{reported}"
    );
    let wraps = validation(WRAPS).expect("it reads");
    assert_eq!(wraps.mode, ValidationMode::Required);
    assert_eq!(
        wraps.placeholder_names().into_iter().collect::<Vec<_>>(),
        ["word"]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn errors_of_an_invalid_file_have_position_and_fix() {
    use Code::{InvalidValidation as Rule, MalformedValidation as Malformed};
    let head = "name: local/x\ndescription: d\n";
    let run = format!("{head}command: x\n");
    let wraps = format!("{head}wraps: builtin/dir-list\n");
    let mut wrong = Vec::new();
    for (text, code, message, fix) in [
        (
            String::new(),
            Malformed,
            "v.yaml:1:1: the file is not a map",
            "command",
        ),
        (
            "- a\n".to_owned(),
            Malformed,
            "v.yaml:1:1: the file is not a map",
            "command",
        ),
        (
            "name: local/x\ncommand: x\n".to_owned(),
            Malformed,
            "v.yaml:2:1: the field `description` is missing",
            "description",
        ),
        (
            "description: d\ncommand: x\n".to_owned(),
            Malformed,
            "v.yaml:2:1: the field `name` is missing",
            "name",
        ),
        (
            head.to_owned(),
            Rule,
            "v.yaml:1:7: the validation has neither a `command` nor `wraps`",
            "transform",
        ),
        (
            format!("{run}wraps: builtin/dir-list\n"),
            Rule,
            "v.yaml:4:8: the validation has both",
            "remove one",
        ),
        (
            "name: x y\ndescription: d\ncommand: x\n".to_owned(),
            Rule,
            "v.yaml:1:7",
            "namespace/name",
        ),
        (
            "name: builtin/x\ndescription: d\ncommand: x\n".to_owned(),
            Rule,
            "v.yaml:1:7: the namespace `builtin` is reserved",
            "local/tests",
        ),
        (
            "name: local/x\ndescription: ' '\ncommand: x\n".to_owned(),
            Rule,
            "v.yaml:2:14: the description is empty",
            "sentence",
        ),
        (
            format!("{run}mod: required\n"),
            Malformed,
            "v.yaml:4:1: there is no field `mod`",
            "mode",
        ),
        (
            format!("{run}mode: requird\n"),
            Malformed,
            "v.yaml:4:7: there is no value `requird`",
            "required",
        ),
        (
            format!("{head}command: ''\n"),
            Rule,
            "v.yaml:3:10: the `command` is empty",
            "cargo test",
        ),
        (
            format!("{head}command: []\n"),
            Rule,
            "v.yaml:3:10: the `command` is empty",
            "cargo test",
        ),
        (
            format!("{head}command: ['{{program}}', x]\n"),
            Rule,
            "v.yaml:3:10: the program cannot be",
            "placeholders",
        ),
        (
            format!("{head}command: {{a: b}}\n"),
            Malformed,
            "v.yaml:3:10",
            "docs/reference/validations.md",
        ),
        (
            format!("{head}command: [x, '${{MISSING}}']\n"),
            Malformed,
            "v.yaml:3:15: the variable `MISSING` is not set",
            "default",
        ),
        (
            format!("{run}timeout: 0\n"),
            Rule,
            "v.yaml:4:10: a timeout of 0 seconds",
            "above 0",
        ),
        (
            format!("{run}timeout: soon\n"),
            Rule,
            "v.yaml:4:10: `soon` is not a number of seconds",
            "number",
        ),
        (
            format!("{run}network: perhaps\n"),
            Rule,
            "v.yaml:4:10: `perhaps` is not",
            "true",
        ),
        (
            format!("{run}environment: [A]\n"),
            Malformed,
            "v.yaml:4:14: a map is expected",
            "field: value",
        ),
        (
            format!("{run}environment: {{CLEVERAGENTS_HOME: x}}\n"),
            Rule,
            "v.yaml:4:34: `CLEVERAGENTS_HOME` cannot be set",
            "RUST_BACKTRACE",
        ),
        (
            format!("{run}working_directory: ../x\n"),
            Rule,
            "v.yaml:4:20: `../x` is not a folder inside",
            "without `..`",
        ),
        (
            format!("{run}working_directory: /etc\n"),
            Rule,
            "v.yaml:4:20: `/etc` is not a folder inside",
            "without `..`",
        ),
        (
            format!("{run}passes_when: {{exit_code: []}}\n"),
            Rule,
            "v.yaml:4:26: these are not exit codes",
            "[0]",
        ),
        (
            format!("{run}passes_when: {{exit_code: [256]}}\n"),
            Rule,
            "v.yaml:4:26: these are not exit codes",
            "[0]",
        ),
        (
            format!("{run}passes_when: {{exitcode: [0]}}\n"),
            Malformed,
            "v.yaml:4:15: there is no field `exitcode`",
            "exit_code",
        ),
        (
            format!("{run}passes_when: {{output_matches: '('}}\n"),
            Rule,
            "v.yaml:4:31: this is not a regular expression",
            "passed",
        ),
        (
            format!("{run}metrics: {{a: 'x'}}\n"),
            Rule,
            "v.yaml:4:14: the expression of `a` has 0 groups",
            "parentheses",
        ),
        (
            format!("{run}metrics: {{a: '(x)(y)'}}\n"),
            Rule,
            "v.yaml:4:14: the expression of `a` has 2 groups",
            "parentheses",
        ),
        (
            format!("{run}metrics: {{tests: '(x)'}}\nminimum: {{test: 1}}\n"),
            Rule,
            "v.yaml:5:17: there is no metric `test`",
            "tests",
        ),
        (
            format!("{run}maximum: {{a: 1}}\n"),
            Rule,
            "v.yaml:4:14: there is no metric `a`",
            "metrics",
        ),
        (
            format!("{run}metrics: {{a: '(x)'}}\nminimum: {{a: most}}\n"),
            Rule,
            "v.yaml:5:14: `most` is not a number",
            "number",
        ),
        (
            format!("{run}transform: output\n"),
            Rule,
            "v.yaml:4:12: `transform` belongs to `wraps`",
            "remove `transform`",
        ),
        (
            wraps.clone(),
            Rule,
            "v.yaml:3:8: a validation that wraps a tool needs a `transform`",
            "output.errors",
        ),
        (
            format!("{wraps}transform: output ==\n"),
            Rule,
            "v.yaml:4:12: this is not an expression",
            "output",
        ),
        (
            format!("{wraps}transform: outptu == 1\n"),
            Rule,
            "v.yaml:4:12: `outptu` is not known",
            "output",
        ),
        (
            format!("{wraps}transform: output\narguments: [a]\n"),
            Rule,
            "v.yaml:5:12: the `arguments` are not a map",
            "name: value",
        ),
        (
            format!("{wraps}transform: output\ntimeout: 3\n"),
            Rule,
            "v.yaml:5:10: `timeout` belongs to `command`",
            "remove `timeout`",
        ),
        (
            format!("{head}wraps: a b\ntransform: output\n"),
            Rule,
            "v.yaml:3:8",
            "builtin/dir-list",
        ),
        (
            format!("{run}cleveragents: {{version: '9'}}\n"),
            Malformed,
            "v.yaml:4:25: the format version 9",
            "3.0",
        ),
    ] {
        let error = validation(&text).expect_err(&text);
        let (shown, hint) = (error.to_string(), error.hint().expect("a hint").neutral());
        if !shown.starts_with(message) || error.code() != code || !hint.contains(fix) {
            wrong.push(format!(
                "{text}\n{:?} {shown}\n{hint}\nexpected {code:?} {message}, {fix}\n",
                error.code()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_schema_accepts_valid_files() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    for valid in [
        ALL_FIELDS,
        WRAPS,
        "name: local/x\ndescription: d\ncommand: [cargo, test]\n",
    ] {
        let json: serde_json::Value = cleveragents_domain::yaml::read(valid).expect("YAML");
        assert!(validator.is_valid(&json), "{valid}");
    }
}
