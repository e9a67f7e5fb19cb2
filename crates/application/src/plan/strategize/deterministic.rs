//! The pair of actors without a model: each item of the definition of done is an instruction for
//! one tool call.
//!
//! | item | effect |
//! | --- | --- |
//! | ``run `make docs` `` | runs a command |
//! | ``write `text` to `path` `` | writes a file |
//! | ``replace `old` with `new` in `path` `` | edits a file |
//! | ``delete `path` ``, ``move `a` to `b` ``, ``copy `a` to `b` ``, ``make folder `path` `` | files and folders |
//! | ``call `tool` with `{"argument": 1}` `` | any tool |
//! | ``check `make test` `` | not a step: it runs at the end, and must succeed |
//!
//! Other items are not steps: users or validations check them.

use cleveragents_domain::{PlanStep, PlanStrategy, StepCall, criteria};
use serde_json::{Value, json};

/// An item of a definition of done.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::plan) enum Criterion {
    /// A tool call.
    Call(StepCall),
    /// A command that must succeed at the end.
    Check(String),
    /// A criterion that needs a user or a model.
    Prose,
}

/// Parses an item.
pub(in crate::plan) fn parse_criterion(text: &str) -> Result<Criterion, String> {
    let mut pieces = text.split('`');
    let verb = pieces.next().unwrap_or_default().trim().to_lowercase();
    let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let is_closed = text.matches('`').count().is_multiple_of(2);
    let call = |tool: &str, arguments: Value| {
        Ok(Criterion::Call(StepCall {
            tool: format!("builtin/{tool}"),
            arguments,
        }))
    };
    if !is_closed {
        return Ok(Criterion::Prose);
    }
    match (verb.as_str(), quoted.as_slice()) {
        ("run", [command]) => call("shell", json!({"command": command})),
        ("check", [command]) => Ok(Criterion::Check((*command).to_owned())),
        ("write", [content, path]) => call(
            "file-write",
            json!({"path": path, "content": format!("{}\n", unescaped(content))}),
        ),
        ("replace", [old, new, path]) => call(
            "file-edit",
            json!({"path": path, "edits": [{"old_text": unescaped(old), "new_text": unescaped(new)}]}),
        ),
        ("delete", [path]) => call("file-delete", json!({"path": path})),
        ("move", [from, to]) => call("file-move", json!({"from": from, "to": to})),
        ("copy", [from, to]) => call("file-copy", json!({"from": from, "to": to})),
        ("make folder", [path]) => call("dir-create", json!({"path": path})),
        ("call", [tool, rest @ ..]) => {
            let arguments = rest.first().copied().unwrap_or("{}");
            let arguments: Value = serde_json::from_str(arguments).map_err(|error| {
                format!("the arguments of `{tool}` in `{text}` are not JSON: {error}")
            })?;
            Ok(Criterion::Call(StepCall {
                tool: (*tool).to_owned(),
                arguments,
            }))
        }
        (
            verb @ ("run" | "check" | "write" | "replace" | "delete" | "move" | "copy"
            | "make folder" | "call"),
            _,
        ) if !quoted.is_empty() => Err(format!(
            "`{verb}` in \"{text}\" does not have the parts it needs, each between backticks"
        )),
        _ => Ok(Criterion::Prose),
    }
}

/// Replaces escaped line breaks in a text of one line.
fn unescaped(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// The strategy of a definition of done.
pub(in crate::plan) fn strategy(definition_of_done: &str) -> Result<PlanStrategy, String> {
    let mut steps = Vec::new();
    for text in criteria(definition_of_done) {
        if let Criterion::Call(call) = parse_criterion(&text)? {
            steps.push(PlanStep {
                title: text.clone(),
                call: Some(call),
                ..PlanStep::default()
            });
        }
    }
    if steps.is_empty() {
        return Err(
            "the definition of done has no item that can be executed without a model: write some \
             like run `COMMAND`, write `TEXT` to `PATH` or replace `OLD` with `NEW` in `PATH`, or \
             name a strategy actor"
                .to_owned(),
        );
    }
    Ok(PlanStrategy {
        summary: match steps.len() {
            1 => "The one instruction of the definition of done, without a model.".to_owned(),
            count => format!(
                "The {count} instructions of the definition of done, in their order, without a model."
            ),
        },
        steps,
        risk: None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Criterion, parse_criterion, strategy};
    use proptest::prelude::*;
    use serde_json::json;

    fn arguments(text: &str) -> serde_json::Value {
        match parse_criterion(text) {
            Ok(Criterion::Call(call)) => call.arguments,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn items_are_calls() {
        assert_eq!(arguments("Run `make a`"), json!({"command": "make a"}));
        assert_eq!(
            arguments("write `a\\nb` to `x/y`"),
            json!({"path": "x/y", "content": "a\nb\n"})
        );
        assert_eq!(
            arguments("replace `1` with `2` in `f`"),
            json!({"path": "f", "edits": [{"old_text": "1", "new_text": "2"}]})
        );
        assert_eq!(
            arguments("move `a` to `b`"),
            json!({"from": "a", "to": "b"})
        );
        assert_eq!(arguments("call `t/x` with `{\"a\": 1}`"), json!({"a": 1}));
        assert_eq!(
            parse_criterion("check `make test`"),
            Ok(Criterion::Check("make test".to_owned()))
        );
        for words in ["the tests pass", "`x` is gone", "run it", "run `a"] {
            assert_eq!(parse_criterion(words), Ok(Criterion::Prose), "{words}");
        }
        assert!(parse_criterion("write `a`").is_err());
        assert!(parse_criterion("call `t` with `{`").is_err());
    }

    #[test]
    fn a_definition_without_instructions_is_not_a_strategy() {
        assert!(strategy("- the tests pass").is_err());
        let steps =
            strategy("- run `a`\n- it is good\n- check `b`\n- run `c`").expect("a strategy");
        let titles: Vec<&str> = steps.steps.iter().map(|step| step.title.as_str()).collect();
        assert_eq!(titles, ["run `a`", "run `c`"]);
    }

    proptest! {
        #[test]
        fn reading_items_never_panics(text in "\\PC{0,80}") {
            let _read = parse_criterion(&text);
        }
    }
}
