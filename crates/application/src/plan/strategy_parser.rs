//! What strategists and invariant actors say, read in the forms in which they say it.

use cleveragents_domain::{PlanStep, PlanStrategy, list_items};
use serde::Deserialize;
use serde_json::Value;

use super::execute::shortened;
use crate::answer_json::{json_values, object_with};

/// A decision, as a strategist tells it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ToldDecision {
    pub(super) question: String,
    #[serde(alias = "chosen_option")]
    pub(super) chosen: String,
    #[serde(default, alias = "alternatives_considered")]
    pub(super) alternatives: Vec<String>,
    pub(super) confidence: Option<f64>,
    #[serde(default)]
    pub(super) rationale: String,
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
    /// Numbers of decisions told before it, from 1.
    #[serde(default)]
    pub(super) depends_on: Vec<usize>,
    #[serde(default)]
    pub(super) resources: Vec<String>,
}

/// A strategy, as a strategist tells it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Told {
    #[serde(flatten)]
    pub(super) strategy: PlanStrategy,
    #[serde(default)]
    pub(super) decisions: Vec<ToldDecision>,
}

/// The inside of a block of code, when a text is one.
fn unfenced(text: &str) -> &str {
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    inside.map_or(text, |(_, inside)| inside.trim())
}

/// Reads a strategy in any of the forms in which actors give one: the object that is asked for, a document, or
/// a list. Other words are no strategy, whoever says them: an apology is no step.
pub(super) fn read_told(value: &Value) -> Result<Told, String> {
    if let Value::Object(_) = value
        && let Ok(told) = Told::deserialize(value)
        && !told.strategy.steps.is_empty()
    {
        return Ok(told);
    }
    let text = match value {
        Value::String(text) => text.trim(),
        Value::Null => "",
        _ => return Err(format!("the strategist answered with no strategy: {value}")),
    };
    if text.is_empty() {
        return Err("the strategist said nothing".to_owned());
    }
    let told = json_values(text)
        .iter()
        .filter_map(|value| Told::deserialize(value).ok())
        .find(|told| !told.strategy.steps.is_empty());
    if let Some(told) = told {
        return Ok(told);
    }
    let text = unfenced(text);
    if text.starts_with(['{', '[']) {
        // What is meant for a program is read as such or not at all: a piece of it is no step.
        return match serde_json::from_str::<Told>(text) {
            Ok(told) if !told.strategy.steps.is_empty() => Ok(told),
            Ok(_) => Err("the strategist answered with a strategy that has no steps".to_owned()),
            Err(error) => Err(format!(
                "the strategist answered with JSON that is no strategy: {error}"
            )),
        };
    }
    if text.contains("\n## ")
        && let Ok(strategy) = PlanStrategy::from_markdown(text)
    {
        return Ok(Told {
            strategy,
            decisions: Vec::new(),
        });
    }
    let steps: Vec<PlanStep> = list_items(text)
        .into_iter()
        .map(|title| PlanStep {
            title,
            ..PlanStep::default()
        })
        .collect();
    if steps.is_empty() {
        return Err(format!(
            "the strategist answered with words that name no steps: \"{}\". A strategy is an object with `steps`, \
             a document whose steps are headings, or a list",
            shortened(text, 200)
        ));
    }
    Ok(Told {
        strategy: PlanStrategy {
            summary: text.to_owned(),
            steps,
            risk: None,
        },
        decisions: Vec::new(),
    })
}

/// What an estimation actor says, as an object where it is one: without a response format it is text.
pub(super) fn figures(said: Value) -> Value {
    let object = match &said {
        Value::String(text) => json_values(text).into_iter().find(Value::is_object),
        _ => None,
    };
    object.unwrap_or(said)
}

/// What an invariant actor finds broken. An answer that is none of the asked form has found nothing good:
/// whoever cannot say that all is well has not said it.
pub(super) fn violations(said: &Value) -> Option<String> {
    let said = object_with(said, "violations").unwrap_or_default();
    let Some(found) = said["violations"].as_array() else {
        return Some("the invariant actor did not say whether the strategy keeps them".to_owned());
    };
    let told: Vec<String> = found
        .iter()
        .map(|one| {
            let text = |name: &str| one[name].as_str().unwrap_or_default();
            format!(
                "\"{}\" would be broken: {}",
                text("invariant"),
                text("reason")
            )
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
}
