//! [`one_off_action`]: the action of a task that is given on the command line.

use std::fmt::Write as _;

use cleveragents_domain::PlanId;
use serde_json::json;

use crate::plan::strategize::TASK_CRITERION;

/// Number of words of the task in the name of its action.
const NAME_WORDS: usize = 5;

/// The definition of the action for a task and the commands that must succeed at the end. The
/// definition of done does not repeat the task: every request of the plan contains it once.
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
    // Braces and `$` in the task are neither placeholders nor variables.
    let plain = |text: &str| {
        text.replace('{', "{{")
            .replace('}', "}}")
            .replace('$', "$$")
    };
    json!({
        "name": format!("local/do-{words}-{}", &stamp[stamp.len() - 6..]),
        "description": plain(task),
        "definition_of_done": plain(&done),
        "reusable": false,
    })
    .to_string()
}
