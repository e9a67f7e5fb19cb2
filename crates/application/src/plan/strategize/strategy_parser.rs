//! Parses the answers of strategists, estimation actors and invariant actors.

use cleveragents_domain::{DecisionType, PlanStep, PlanStrategy, list_items};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::answer_json::{json_values, object_with};
use crate::plan::prompt::shortened;

/// A decision in the answer of a strategist.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ResponseDecision {
    pub(super) question: String,
    #[serde(alias = "chosen_option")]
    pub(super) chosen: String,
    #[serde(default, alias = "alternatives_considered")]
    pub(super) alternatives: Vec<String>,
    pub(super) confidence: Option<f64>,
    #[serde(default)]
    pub(super) rationale: String,
    /// `ResourceSelection` for a choice of resources; `StrategyChoice` for all other decisions.
    #[serde(
        default = "default_kind",
        rename = "type",
        deserialize_with = "decision_kind"
    )]
    pub(super) kind: DecisionType,
    /// Numbers of earlier decisions in the same answer, from 1.
    #[serde(default)]
    pub(super) depends_on: Vec<usize>,
    #[serde(default)]
    pub(super) resources: Vec<String>,
}

/// The answer of a strategist.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct StrategyResponse {
    #[serde(flatten)]
    pub(super) strategy: PlanStrategy,
    #[serde(default)]
    pub(super) decisions: Vec<ResponseDecision>,
    /// True if the strategist reported that nothing has to change.
    #[serde(skip)]
    pub(super) has_nothing_to_do: bool,
}

impl StrategyResponse {
    /// The strategy for a task that is already done. It has no steps; the checks of the plan still run.
    pub(super) fn nothing_to_do(reason: &str) -> Self {
        let strategy = PlanStrategy {
            summary: format!("Nothing to do: {reason}"),
            ..PlanStrategy::default()
        };
        Self {
            has_nothing_to_do: true,
            ..strategy.into()
        }
    }
}

impl From<PlanStrategy> for StrategyResponse {
    fn from(strategy: PlanStrategy) -> Self {
        Self {
            strategy,
            decisions: Vec::new(),
            has_nothing_to_do: false,
        }
    }
}

const fn default_kind() -> DecisionType {
    DecisionType::StrategyChoice
}

/// Parses the type of a decision. Unknown types are accepted as strategy choices, because models invent types.
fn decision_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DecisionType, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(match text.as_deref().and_then(DecisionType::from_stored) {
        Some(DecisionType::ResourceSelection) => DecisionType::ResourceSelection,
        _ => DecisionType::StrategyChoice,
    })
}

/// Strips the fence of a text that is a single code block.
fn strip_fence(text: &str) -> &str {
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    inside.map_or(text, |(_, inside)| inside.trim())
}

/// Parses a strategy in any of the forms that strategists use: the requested object, a Markdown document, or a list.
/// Refuses other prose, such as an apology.
pub(super) fn parse_strategy(value: &Value) -> Result<StrategyResponse, String> {
    if let Value::Object(_) = value
        && let Ok(response) = StrategyResponse::deserialize(value)
        && !response.strategy.steps.is_empty()
    {
        return Ok(response);
    }
    let text = match value {
        Value::String(text) => text.trim(),
        Value::Null => "",
        _ => {
            return Err(format!(
                "the answer of the strategist is not a strategy: {value}"
            ));
        }
    };
    if text.is_empty() {
        return Err("the answer of the strategist is empty".to_owned());
    }
    let response = json_values(text)
        .iter()
        .filter_map(|value| StrategyResponse::deserialize(value).ok())
        .find(|response| !response.strategy.steps.is_empty());
    if let Some(response) = response {
        return Ok(response);
    }
    let text = strip_fence(text);
    if text.starts_with(['{', '[']) {
        // JSON that is not a strategy is refused; its lines must not become steps.
        return match serde_json::from_str::<StrategyResponse>(text) {
            Ok(response) if !response.strategy.steps.is_empty() => Ok(response),
            Ok(_) => Err("the strategy of the strategist has no steps".to_owned()),
            Err(error) => Err(format!(
                "the JSON answer of the strategist is not a strategy: {error}"
            )),
        };
    }
    if text.contains("\n## ")
        && let Ok(strategy) = PlanStrategy::from_markdown(text)
    {
        return Ok(strategy.into());
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
            "the answer of the strategist names no steps: \"{}\". A strategy is an object with \
             `steps`, a document whose steps are headings, or a list",
            shortened(text, 200)
        ));
    }
    Ok(StrategyResponse::from(PlanStrategy {
        summary: text.to_owned(),
        steps,
        ..PlanStrategy::default()
    }))
}

/// Extracts the first JSON object from the answer of an estimation actor, or returns the answer unchanged.
pub(super) fn parse_estimate(answer: Value) -> Value {
    let object = match &answer {
        Value::String(text) => json_values(text).into_iter().find(Value::is_object),
        _ => None,
    };
    object.unwrap_or(answer)
}

/// Parses the violations that an invariant actor reports; `None` without violations. An answer in another form counts
/// as a violation, because it does not state that all invariants hold.
pub(super) fn parse_violations(answer: &Value) -> Option<String> {
    let answer = object_with(answer, "violations").unwrap_or_default();
    let Some(reported) = answer["violations"].as_array() else {
        return Some(
            "the invariant actor did not state whether the strategy keeps the invariants"
                .to_owned(),
        );
    };
    let violations: Vec<String> = reported
        .iter()
        .map(|violation| {
            let text = |name: &str| violation[name].as_str().unwrap_or_default();
            format!(
                "\"{}\" would be broken: {}",
                text("invariant"),
                text("reason")
            )
        })
        .collect();
    (!violations.is_empty()).then(|| violations.join("; "))
}
