//! [`one_off_action`]: the action for a task from the command line.

use std::fmt::Write as _;

use cleveragents_domain::PlanId;
use serde_json::json;

use crate::plan::strategize::TASK_CRITERION;

/// Number of words of the task in the name of its action.
const NAME_WORDS: usize = 5;

/// The definition of the action for a task. The `checks` are commands that must succeed at the end. The definition of
/// done does not repeat the task, because every request of the plan already contains it.
pub fn one_off_action(task: &str, checks: &[String]) -> String {
    let task = task.trim();
    let lower = task.to_lowercase();
    let words: Vec<&str> = lower
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(NAME_WORDS)
        .collect();
    let words = match words.as_slice() {
        [] => "it".to_owned(),
        words => words.join("-"),
    };
    let stamp = PlanId::generate().to_string().to_ascii_lowercase();
    let mut done = format!("- {TASK_CRITERION}\n");
    for command in checks {
        let _written = writeln!(done, "- check `{command}`");
    }
    // Escapes braces and `${`, which would be placeholders and variables.
    let escaped = |text: &str| {
        text.replace('{', "{{")
            .replace('}', "}}")
            .replace("${", "$${")
    };
    json!({
        "name": format!("local/do-{words}-{}", &stamp[stamp.len() - 6..]),
        "description": escaped(task),
        "definition_of_done": escaped(&done),
        "reusable": false,
    })
    .to_string()
}
