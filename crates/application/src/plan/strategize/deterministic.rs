//! The strategist and executor that use no model: each item of the definition of done is an
//! instruction for one tool call.
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
//! An item must end after the last backtick: "run `make docs` and read them" is prose. Items in prose are not steps:
//! users or validations check them. If the strategist of a plan is a model, the program interprets only `check` items;
//! all others are prose ([`plan_criteria`]).

use cleveragents_domain::{Plan, PlanStep, PlanStrategy, StepCall, criteria};
use serde_json::{Value, json};

use crate::plan::built_in::DETERMINISTIC;

/// The criterion of a one-off task. The definition of done does not repeat the task, because the description of the
/// plan contains it.
pub(in crate::plan) const TASK_CRITERION: &str =
    "Everything that the task asks for is done, and nothing else";

/// An item of a definition of done.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::plan) enum Criterion {
    /// A tool call.
    Call(StepCall),
    /// A command that must succeed at the end.
    Check(String),
    /// A criterion that a user or a model has to check.
    Prose,
}

/// The criteria of a plan with their texts. Only the deterministic strategist executes items as tool calls; for a model
/// they are prose.
pub(in crate::plan) fn plan_criteria(plan: &Plan) -> Vec<(String, Criterion)> {
    let is_executed = plan.inputs.actors.strategy == DETERMINISTIC;
    instructions(plan)
        .into_iter()
        .map(|text| {
            let criterion = match parse_criterion(&text).unwrap_or(Criterion::Prose) {
                Criterion::Call(_) if !is_executed => Criterion::Prose,
                criterion => criterion,
            };
            (text, criterion)
        })
        .collect()
}

/// The items of the definition of done. For the deterministic strategist, the items of the task replace
/// [`TASK_CRITERION`].
fn instructions(plan: &Plan) -> Vec<String> {
    let items = criteria(&plan.definition_of_done);
    if plan.inputs.actors.strategy != DETERMINISTIC {
        return items;
    }
    let mut all = Vec::new();
    for item in items {
        if item == TASK_CRITERION {
            all.extend(criteria(&plan.description));
        } else {
            all.push(item);
        }
    }
    all
}

/// Parses an item: a verb, and parts in backticks with words between them. The item may end with a full stop.
pub(in crate::plan) fn parse_criterion(text: &str) -> Result<Criterion, String> {
    let parts: Vec<&str> = text.split('`').collect();
    let is_closed = parts.len() % 2 == 1 && parts.len() > 1;
    let ends_with_quote = parts
        .last()
        .is_some_and(|rest| matches!(rest.trim(), "" | "."));
    if !is_closed || !ends_with_quote {
        return Ok(Criterion::Prose);
    }
    let verb = parts[0].trim().to_lowercase();
    let quoted: Vec<&str> = parts.iter().skip(1).step_by(2).copied().collect();
    let between = parts[1..parts.len() - 1].iter().skip(1).step_by(2);
    let between: Vec<String> = between.map(|words| words.trim().to_lowercase()).collect();
    let between: Vec<&str> = between.iter().map(String::as_str).collect();
    let call = |tool: &str, arguments: Value| {
        Ok(Criterion::Call(StepCall {
            tool: format!("builtin/{tool}"),
            arguments,
        }))
    };
    match (verb.as_str(), quoted.as_slice(), between.as_slice()) {
        ("run", [command], _) => call("shell", json!({"command": command})),
        ("check", [command], _) => Ok(Criterion::Check((*command).to_owned())),
        ("write", [content, path], ["to"]) => call(
            "file-write",
            json!({"path": path, "content": format!("{}\n", unescape(content))}),
        ),
        ("replace", [old, new, path], ["with", "in"]) => call(
            "file-edit",
            json!({"path": path, "edits": [{"old_text": unescape(old), "new_text": unescape(new)}]}),
        ),
        ("delete", [path], _) => call("file-delete", json!({"path": path})),
        ("move", [from, to], ["to"]) => call("file-move", json!({"from": from, "to": to})),
        ("copy", [from, to], ["to"]) => call("file-copy", json!({"from": from, "to": to})),
        ("make folder", [path], _) => call("dir-create", json!({"path": path})),
        ("call", [tool], _) => named_call(tool, "{}", text),
        ("call", [tool, arguments], ["with"]) => named_call(tool, arguments, text),
        (
            verb @ ("run" | "check" | "write" | "replace" | "delete" | "move" | "copy"
            | "make folder" | "call"),
            ..,
        ) => Err(format!(
            "`{verb}` in \"{text}\" does not have the parts it needs, each between backticks"
        )),
        _ => Ok(Criterion::Prose),
    }
}

fn named_call(tool: &str, arguments: &str, text: &str) -> Result<Criterion, String> {
    let arguments: Value = serde_json::from_str(arguments)
        .map_err(|error| format!("the arguments of `{tool}` in `{text}` are not JSON: {error}"))?;
    Ok(Criterion::Call(StepCall {
        tool: tool.to_owned(),
        arguments,
    }))
}

/// Replaces escaped line breaks in a text of one line.
fn unescape(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// The strategy of a plan without a model: a step for each tool call of the instructions.
pub(in crate::plan) fn strategy(plan: &Plan) -> Result<PlanStrategy, String> {
    strategy_of(instructions(plan))
}

fn strategy_of(items: Vec<String>) -> Result<PlanStrategy, String> {
    let mut steps = Vec::new();
    for text in items {
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
        ..PlanStrategy::default()
    })
}

#[cfg(test)]
mod tests {
    use super::{Criterion, parse_criterion, strategy_of};
    use cleveragents_domain::criteria;
    use proptest::prelude::*;
    use serde_json::json;

    fn arguments(text: &str) -> serde_json::Value {
        match parse_criterion(text) {
            Ok(Criterion::Call(call)) => call.arguments,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn items_are_parsed_as_calls_checks_or_prose() {
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
        assert_eq!(
            parse_criterion("Check `make test`."),
            Ok(Criterion::Check("make test".to_owned()))
        );
        for words in [
            "the tests pass",
            "`x` is gone",
            "run it",
            "run `a",
            "Check `parse_range` for off-by-one",
            "Run `pytest x` and fix it",
            "write `a` to `b` and `c` to it",
            "Delete `old()` from the API",
        ] {
            assert_eq!(parse_criterion(words), Ok(Criterion::Prose), "{words}");
        }
        assert!(parse_criterion("write `a`").is_err());
        assert!(parse_criterion("call `t` with `{`").is_err());
    }

    #[test]
    fn a_definition_without_instructions_is_not_a_strategy() {
        assert!(strategy_of(criteria("- the tests pass")).is_err());
        let steps = strategy_of(criteria("- run `a`\n- it is good\n- check `b`\n- run `c`"))
            .expect("a strategy");
        let titles: Vec<&str> = steps.steps.iter().map(|step| step.title.as_str()).collect();
        assert_eq!(titles, ["run `a`", "run `c`"]);
    }

    proptest! {
        #[test]
        fn parsing_items_never_panics(text in "\\PC{0,80}") {
            let _read = parse_criterion(&text);
        }
    }
}
