//! [`PlanStrategy`]: the steps by which a plan reaches its goal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::child::{ChildSettings, LARGEST_MAX_PARALLEL};

/// A predetermined tool call: the step needs no model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    #[serde(default)]
    pub arguments: Value,
}

/// One step of a strategy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlanStep {
    /// Title, one line.
    pub title: String,
    /// Instructions for the step.
    #[serde(default)]
    pub description: String,
    /// Paths that the step is expected to change.
    #[serde(default)]
    pub files: Vec<String>,
    /// Numbers of the steps that must be done before, from 1.
    #[serde(default)]
    pub after: Vec<usize>,
    /// Risk of failure, from 0 to 1.
    #[serde(default)]
    pub risk: Option<f64>,
    /// Tool call that the step consists of, when no model is needed.
    #[serde(default)]
    pub call: Option<StepCall>,
    /// Whether a child plan executes the step in a sandbox of its own, at the same time as others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub child_plan: bool,
}

/// The steps by which a plan reaches its goal.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PlanStrategy {
    /// The approach, in a few sentences.
    pub summary: String,
    /// Steps, in execution order.
    #[serde(default)]
    pub steps: Vec<PlanStep>,
    /// Risk of failure, from 0 to 1.
    #[serde(default)]
    pub risk: Option<f64>,
    /// Settings of the child plans; the defaults when `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildSettings>,
}

/// Error in a strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StrategyFault {
    /// Description of the error.
    pub message: String,
    /// Line of the document, from 1, if known.
    pub line: Option<usize>,
}

impl StrategyFault {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            line: None,
        }
    }
}

impl PlanStrategy {
    /// Paths that the strategy expects to change, without duplicates.
    pub fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = self
            .steps
            .iter()
            .flat_map(|step| step.files.iter().map(String::as_str))
            .collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    /// Validates the strategy and sorts the steps so that each comes after its dependencies; fails for a cycle.
    pub fn ordered(self) -> Result<Self, StrategyFault> {
        if self.summary.trim().is_empty() {
            return Err(StrategyFault::new("the strategy has no summary"));
        }
        if self.steps.is_empty() {
            return Err(StrategyFault::new("the strategy has no step"));
        }
        let count = self.steps.len();
        for (number, step) in (1..).zip(&self.steps) {
            if step.title.trim().is_empty() {
                let message = format!("step {number} has no title");
                return Err(StrategyFault::new(message));
            }
            if let Some(missing) = step
                .after
                .iter()
                .find(|after| **after == 0 || **after > count)
            {
                let message =
                    format!("step {number} depends on step {missing}, which does not exist");
                return Err(StrategyFault::new(message));
            }
            if step.child_plan && step.call.is_some() {
                let message =
                    format!("step {number} is a tool call, so it cannot be a child plan too");
                return Err(StrategyFault::new(message));
            }
            for risk in step.risk.iter().chain(&self.risk) {
                if !(0.0..=1.0).contains(risk) {
                    let message = format!("the risk {risk} of step {number} is not from 0 to 1");
                    return Err(StrategyFault::new(message));
                }
            }
        }
        if let Some(children) = &self.children
            && !(1..=LARGEST_MAX_PARALLEL).contains(&children.max_parallel)
        {
            let message = format!(
                "`max_parallel` is {}, but it must be from 1 to {LARGEST_MAX_PARALLEL}",
                children.max_parallel
            );
            return Err(StrategyFault::new(message));
        }
        let Some(order) = order(&self.steps) else {
            let message = "the steps depend on each other in a cycle";
            return Err(StrategyFault::new(message));
        };
        let new_number = |number: usize| {
            order
                .iter()
                .position(|index| index + 1 == number)
                .map_or(0, |index| index + 1)
        };
        let steps = order
            .iter()
            .map(|index| {
                let mut step = self.steps[*index].clone();
                step.after = step
                    .after
                    .iter()
                    .map(|number| new_number(*number))
                    .collect();
                step.after.sort_unstable();
                step.after.dedup();
                step
            })
            .collect();
        Ok(Self { steps, ..self })
    }
}

/// Indices of the steps in dependency order; `None` for a cycle. Independent steps keep their order.
fn order(steps: &[PlanStep]) -> Option<Vec<usize>> {
    let mut done = vec![false; steps.len()];
    let mut order = Vec::with_capacity(steps.len());
    while order.len() < steps.len() {
        let next = (0..steps.len()).find(|index| {
            !done[*index] && steps[*index].after.iter().all(|number| done[number - 1])
        })?;
        done[next] = true;
        order.push(next);
    }
    Some(order)
}

/// The individual criteria of a definition of done: its list items, or its lines when it has no list.
pub fn criteria(definition_of_done: &str) -> Vec<String> {
    items(definition_of_done).unwrap_or_else(|| {
        definition_of_done
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    })
}

/// List items of a text; empty when it has no list.
pub fn list_items(text: &str) -> Vec<String> {
    items(text).unwrap_or_default()
}

/// List items of a text; `None` when it has no list.
fn items(text: &str) -> Option<Vec<String>> {
    let item = |line: &str| {
        let line = line.trim_start();
        let number = line.find(|letter: char| !letter.is_ascii_digit())?;
        let rest = match line.chars().next()? {
            '-' | '*' | '+' | '•' => line.get(line.chars().next()?.len_utf8()..)?,
            digit if digit.is_ascii_digit() => line[number..].strip_prefix(['.', ')'])?,
            _ => return None,
        };
        let rest = rest.strip_prefix(' ')?.trim_start();
        let rest = rest
            .strip_prefix("[ ] ")
            .or_else(|| rest.strip_prefix("[x] "))
            .unwrap_or(rest);
        Some(rest.trim().to_owned())
    };
    if !text.lines().any(|line| item(line).is_some()) {
        return None;
    }
    let mut collected: Vec<String> = Vec::new();
    let mut is_in_item = false;
    for line in text.lines() {
        if let Some(text) = item(line) {
            collected.push(text);
            is_in_item = true;
        } else if is_in_item && line.starts_with(' ') && !line.trim().is_empty() {
            // An item may continue on the next line.
            if let Some(last) = collected.last_mut() {
                last.push(' ');
                last.push_str(line.trim());
            }
        } else {
            is_in_item = false;
        }
    }
    collected.retain(|text| !text.is_empty());
    Some(collected)
}

#[cfg(test)]
mod tests {
    use super::{ChildSettings, PlanStep, PlanStrategy, StepCall, criteria};
    use proptest::prelude::*;

    fn strategy(after: &[&[usize]]) -> PlanStrategy {
        PlanStrategy {
            summary: "so".to_owned(),
            steps: (1..)
                .zip(after)
                .map(|(number, after)| PlanStep {
                    title: format!("s{number}"),
                    after: after.to_vec(),
                    ..PlanStep::default()
                })
                .collect(),
            ..PlanStrategy::default()
        }
    }

    fn titles(strategy: &PlanStrategy) -> Vec<&str> {
        strategy
            .steps
            .iter()
            .map(|step| step.title.as_str())
            .collect()
    }

    #[test]
    fn steps_come_after_their_dependencies_and_otherwise_keep_their_order() {
        let ordered = strategy(&[&[3], &[], &[2]]).ordered().expect("an order");
        assert_eq!(titles(&ordered), ["s2", "s3", "s1"]);
        assert_eq!(ordered.steps[2].after, [2]);
        assert!(strategy(&[&[2], &[1]]).ordered().is_err());
        assert!(strategy(&[&[1]]).ordered().is_err());
        assert!(strategy(&[&[7]]).ordered().is_err());
        assert!(strategy(&[]).ordered().is_err());
    }

    #[test]
    fn settings_of_child_plans_have_bounds() {
        for (max_parallel, is_valid) in [(0, false), (1, true), (32, true), (33, false)] {
            let mut checked = strategy(&[&[]]);
            checked.children = Some(ChildSettings {
                max_parallel,
                ..ChildSettings::default()
            });
            assert_eq!(checked.ordered().is_ok(), is_valid, "{max_parallel}");
        }
        let mut call = strategy(&[&[]]);
        call.steps[0].child_plan = true;
        call.steps[0].call = Some(StepCall {
            tool: "shell".to_owned(),
            arguments: serde_json::Value::Null,
        });
        assert!(call.ordered().is_err());
    }

    #[test]
    fn criteria_are_items_or_lines() {
        let text =
            "Done means:\n- tests pass\n  on Linux\n* docs\n1. a\n 2) b\n\nand more\n- [ ] c";
        assert_eq!(
            criteria(text),
            ["tests pass on Linux", "docs", "a", "b", "c"]
        );
        assert_eq!(criteria("one\n\n two \n"), ["one", "two"]);
        assert_eq!(criteria("3 is a number"), ["3 is a number"]);
    }

    proptest! {
        #[test]
        fn ordering_is_idempotent(edges in proptest::collection::vec(proptest::collection::vec(1..6_usize, 0..3), 1..6)) {
            let edges: Vec<&[usize]> = edges.iter().map(Vec::as_slice).collect();
            if let Ok(ordered) = strategy(&edges).ordered() {
                for (index, step) in ordered.steps.iter().enumerate() {
                    prop_assert!(step.after.iter().all(|after| *after <= index));
                }
                prop_assert_eq!(ordered.clone().ordered().expect("again"), ordered);
            }
        }

        #[test]
        fn criteria_never_panic(text in "\\PC{0,200}") {
            let _found = criteria(&text);
        }
    }
}
