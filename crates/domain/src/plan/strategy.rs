//! [`PlanStrategy`]: the steps by which a plan reaches its goal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::child::{ChildSettings, MAX_PARALLEL_LIMIT};

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
    /// Steps of the child plan, which may be child plans too. Empty if the child plan executes the step as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Self>,
}

impl PlanStep {
    /// Number of levels of child plans that the step needs: 0 for an ordinary step, 1 for a child plan without child
    /// plans.
    pub fn child_levels(&self) -> u64 {
        if self.child_plan {
            1 + child_levels(&self.steps)
        } else {
            0
        }
    }
}

fn child_levels(steps: &[PlanStep]) -> u64 {
    steps.iter().map(PlanStep::child_levels).max().unwrap_or(0)
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

    /// Number of levels of child plans below the plan of the strategy.
    pub fn child_levels(&self) -> u64 {
        child_levels(&self.steps)
    }

    /// Validates the strategy and sorts the steps so that each comes after its dependencies; fails for a cycle. A step
    /// with steps of its own becomes a child plan.
    pub fn ordered(mut self) -> Result<Self, StrategyFault> {
        if self.summary.trim().is_empty() {
            return Err(StrategyFault::new("the strategy has no summary"));
        }
        if self.steps.is_empty() {
            return Err(StrategyFault::new("the strategy has no step"));
        }
        if let Some(risk) = self.risk.filter(|risk| !(0.0..=1.0).contains(risk)) {
            let message = format!("the risk {risk} of the strategy is not from 0 to 1");
            return Err(StrategyFault::new(message));
        }
        if let Some(children) = &self.children
            && !(1..=MAX_PARALLEL_LIMIT).contains(&children.max_parallel)
        {
            let message = format!(
                "`max_parallel` is {}, but it must be from 1 to {MAX_PARALLEL_LIMIT}",
                children.max_parallel
            );
            return Err(StrategyFault::new(message));
        }
        self.steps = ordered_steps(self.steps, "")?;
        Ok(self)
    }
}

/// Validates the steps of a strategy or of a child plan, and sorts them. `prefix` is the number of the step that
/// contains them, such as `2.`.
fn ordered_steps(steps: Vec<PlanStep>, prefix: &str) -> Result<Vec<PlanStep>, StrategyFault> {
    let count = steps.len();
    let mut checked = Vec::with_capacity(count);
    for (number, step) in (1..).zip(steps) {
        checked.push(checked_step(step, &format!("{prefix}{number}"), count)?);
    }
    let Some(order) = order(&checked) else {
        let message = "the steps depend on each other in a cycle";
        return Err(StrategyFault::new(message));
    };
    let new_number = |number: usize| {
        order
            .iter()
            .position(|index| index + 1 == number)
            .map_or(0, |index| index + 1)
    };
    let in_order = order.iter().map(|index| {
        let mut step = checked[*index].clone();
        step.after = step
            .after
            .iter()
            .map(|number| new_number(*number))
            .collect();
        step.after.sort_unstable();
        step.after.dedup();
        step
    });
    Ok(in_order.collect())
}

/// Validates a step and the steps of its child plan. `count` is the number of steps in the same list.
fn checked_step(mut step: PlanStep, number: &str, count: usize) -> Result<PlanStep, StrategyFault> {
    let fault = |message: String| Err(StrategyFault::new(message));
    if step.title.trim().is_empty() {
        return fault(format!("step {number} has no title"));
    }
    let is_missing = |after: &&usize| **after == 0 || **after > count;
    if let Some(missing) = step.after.iter().find(is_missing) {
        return fault(format!(
            "step {number} depends on step {missing}, which does not exist"
        ));
    }
    step.child_plan |= !step.steps.is_empty();
    if step.child_plan && step.call.is_some() {
        return fault(format!(
            "step {number} is a tool call, so it cannot be a child plan too"
        ));
    }
    let has_scope =
        !step.description.trim().is_empty() || !step.files.is_empty() || !step.steps.is_empty();
    if step.child_plan && !has_scope {
        return fault(format!(
            "step {number} is a child plan without a scope: give it a description, files or steps"
        ));
    }
    if let Some(risk) = step.risk.filter(|risk| !(0.0..=1.0).contains(risk)) {
        return fault(format!(
            "the risk {risk} of step {number} is not from 0 to 1"
        ));
    }
    step.steps = ordered_steps(step.steps, &format!("{number}."))?;
    Ok(step)
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
        call.steps[0].description = "all".to_owned();
        call.steps[0].call = Some(StepCall {
            tool: "shell".to_owned(),
            arguments: serde_json::Value::Null,
        });
        assert!(call.ordered().is_err());
    }

    #[test]
    fn steps_of_child_plans_are_checked_at_every_level() {
        let part = |title: &str, after: &[usize]| PlanStep {
            title: title.to_owned(),
            description: "do it".to_owned(),
            after: after.to_vec(),
            child_plan: true,
            ..PlanStep::default()
        };
        let mut nested = strategy(&[&[]]);
        nested.steps[0].steps = vec![part("b", &[2]), part("a", &[])];
        let ordered = nested.clone().ordered().expect("an order");
        assert!(ordered.steps[0].child_plan, "it has steps of its own");
        let inner: Vec<&str> = ordered.steps[0]
            .steps
            .iter()
            .map(|step| step.title.as_str())
            .collect();
        assert_eq!(inner, ["a", "b"]);
        assert_eq!(ordered.child_levels(), 2);
        assert_eq!(strategy(&[&[]]).child_levels(), 0);

        let message = |strategy: PlanStrategy| strategy.ordered().expect_err("a fault").message;
        nested.steps[0].steps[1].after = vec![1];
        assert!(message(nested.clone()).contains("cycle"));
        nested.steps[0].steps[1].after = vec![7];
        assert!(message(nested.clone()).contains("step 1.2 depends on step 7"));
        nested.steps[0].steps[1] = PlanStep {
            description: " ".to_owned(),
            ..part("a", &[])
        };
        assert!(message(nested).contains("step 1.2 is a child plan without a scope"));
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
