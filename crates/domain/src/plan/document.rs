//! A strategy as Markdown that users read and edit, and the parser for it.
//!
//! The summary comes first, then one section for each step: a heading, the description of the step, and a list of
//! facts: `- files: …`, `- after: …`, `- risk: …`, `- call: TOOL {"argument": …}`, `- child plan: yes`, and
//! `- child step: {"title": …}` for each step of the child plan. The summary may be followed by
//! `- child plans: {"max_parallel": …}`.

use std::fmt::Write as _;

use super::strategy::{PlanStep, PlanStrategy, StepCall, StrategyFault};

const TITLE: &str = "# Strategy";

impl PlanStrategy {
    /// Writes the strategy as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("{TITLE}\n\n{}\n", self.summary.trim());
        if let Some(risk) = self.risk {
            let _written = write!(text, "\n- risk: {risk}\n");
        }
        if let Some(children) = &self.children {
            let settings = serde_json::json!(children);
            let _written = write!(text, "\n- child plans: {settings}\n");
        }
        for (number, step) in (1..).zip(&self.steps) {
            let _written = write!(text, "\n## {number}. {}\n", one_line(&step.title));
            if !step.description.trim().is_empty() {
                let _written = write!(text, "\n{}\n", step.description.trim());
            }
            let mut facts = Vec::new();
            if !step.files.is_empty() {
                facts.push(format!("- files: {}", step.files.join(", ")));
            }
            if !step.after.is_empty() {
                let after: Vec<String> = step.after.iter().map(ToString::to_string).collect();
                facts.push(format!("- after: {}", after.join(", ")));
            }
            facts.extend(step.risk.map(|risk| format!("- risk: {risk}")));
            if let Some(call) = &step.call {
                facts.push(format!("- call: {} {}", call.tool, call.arguments));
            }
            if step.child_plan {
                facts.push("- child plan: yes".to_owned());
            }
            for child_step in &step.steps {
                facts.push(format!("- child step: {}", serde_json::json!(child_step)));
            }
            if !facts.is_empty() {
                let _written = write!(text, "\n{}\n", facts.join("\n"));
            }
        }
        text
    }

    /// Parses the Markdown of [`to_markdown`](Self::to_markdown), including edits by users.
    pub fn from_markdown(text: &str) -> Result<Self, StrategyFault> {
        let mut strategy = Self::default();
        let mut body: Vec<&str> = Vec::new();
        let mut has_title = false;
        let mut facts = PlanStep::default();
        for (number, line) in (1..).zip(text.lines()) {
            let fault = |message: String| StrategyFault {
                message,
                line: Some(number),
            };
            if let Some(heading) = line.strip_prefix("## ") {
                finish_section(&mut strategy, &mut body, &mut facts);
                let heading = heading.trim();
                let title = heading
                    .split_once('.')
                    .filter(|(number, _)| number.parse::<usize>().is_ok())
                    .map_or(heading, |(_, title)| title.trim());
                if title.is_empty() {
                    return Err(fault("a step has no title".to_owned()));
                }
                strategy.steps.push(PlanStep {
                    title: title.to_owned(),
                    ..PlanStep::default()
                });
                continue;
            }
            if !has_title && line.trim() == TITLE {
                has_title = true;
                continue;
            }
            match line
                .strip_prefix("- ")
                .and_then(|fact| fact.split_once(':'))
            {
                Some(("child plans", value)) if strategy.steps.is_empty() => {
                    let settings = serde_json::from_str(value.trim());
                    strategy.children =
                        Some(settings.map_err(|error| fault(format!("child plans: {error}")))?);
                }
                Some((
                    name @ ("files" | "after" | "risk" | "call" | "child plan" | "child step"),
                    value,
                )) => {
                    let value = value.trim();
                    let in_step = !strategy.steps.is_empty();
                    read_fact(&mut facts, name, value).map_err(fault)?;
                    if !in_step && name != "risk" {
                        return Err(fault(format!(
                            "`{name}` belongs below the heading of a step"
                        )));
                    }
                }
                _ => body.push(line),
            }
        }
        finish_section(&mut strategy, &mut body, &mut facts);
        strategy.ordered()
    }
}

/// Assigns the lines since the last heading to the step of that heading; before the first heading, to the strategy.
fn finish_section(strategy: &mut PlanStrategy, body: &mut Vec<&str>, facts: &mut PlanStep) {
    let text = body.join("\n").trim().to_owned();
    body.clear();
    let facts = std::mem::take(facts);
    match strategy.steps.last_mut() {
        None => {
            strategy.summary = text;
            strategy.risk = facts.risk;
        }
        Some(step) => {
            *step = PlanStep {
                title: std::mem::take(&mut step.title),
                description: text,
                ..facts
            };
        }
    }
}

fn read_fact(facts: &mut PlanStep, name: &str, value: &str) -> Result<(), String> {
    let words = || {
        value
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
    };
    match name {
        "files" => facts.files = words().map(str::to_owned).collect(),
        "after" => {
            facts.after = words()
                .map(|word| {
                    word.parse()
                        .map_err(|_| format!("`{word}` is not the number of a step"))
                })
                .collect::<Result<_, _>>()?;
        }
        "child plan" => {
            facts.child_plan = match value {
                "yes" | "true" => true,
                "no" | "false" => false,
                _ => return Err(format!("`{value}` is neither `yes` nor `no`")),
            };
        }
        "child step" => {
            let step = serde_json::from_str(value)
                .map_err(|error| format!("the child step is not JSON: {error}"))?;
            facts.steps.push(step);
        }
        "risk" => {
            let risk = value
                .parse()
                .map_err(|_| format!("`{value}` is not a number from 0 to 1"))?;
            facts.risk = Some(risk);
        }
        _ => {
            let (tool, arguments) = value.split_once(' ').unwrap_or((value, "{}"));
            let arguments = serde_json::from_str(arguments)
                .map_err(|error| format!("the arguments of `{tool}` are not JSON: {error}"))?;
            facts.call = Some(StepCall {
                tool: tool.to_owned(),
                arguments,
            });
        }
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{PlanStep, PlanStrategy, StepCall};
    use crate::ChildSettings;
    use serde_json::json;

    #[test]
    fn a_strategy_round_trips_through_markdown() {
        let strategy = PlanStrategy {
            summary: "First this,\n\nthen that.".to_owned(),
            risk: Some(0.25),
            steps: vec![
                PlanStep {
                    title: "Look".to_owned(),
                    description: "Read it.\n\n- a list\n- of things".to_owned(),
                    files: vec!["src/a.rs".to_owned(), "b".to_owned()],
                    risk: Some(0.5),
                    ..PlanStep::default()
                },
                PlanStep {
                    title: "Do".to_owned(),
                    after: vec![1],
                    call: Some(StepCall {
                        tool: "builtin/shell".to_owned(),
                        arguments: json!({"command": "make a"}),
                    }),
                    ..PlanStep::default()
                },
                PlanStep {
                    title: "Divide".to_owned(),
                    child_plan: true,
                    steps: vec![PlanStep {
                        title: "A part".to_owned(),
                        files: vec!["a/**".to_owned()],
                        child_plan: true,
                        ..PlanStep::default()
                    }],
                    ..PlanStep::default()
                },
            ],
            children: Some(ChildSettings {
                max_parallel: 2,
                ..ChildSettings::default()
            }),
        };
        let text = strategy.to_markdown();
        assert_eq!(PlanStrategy::from_markdown(&text), Ok(strategy), "{text}");
    }

    #[test]
    fn errors_name_their_line() {
        let fault = |text: &str| PlanStrategy::from_markdown(text).expect_err("a fault");
        assert_eq!(
            fault("# Strategy\n\nso\n\n## 1. a\n- risk: much").line,
            Some(6)
        );
        assert_eq!(fault("so\n## 1. a\n- call: x {").line, Some(3));
        assert_eq!(fault("so\n## 1. a\n- child step: x").line, Some(3));
        assert!(fault("# Strategy\n\nso").message.contains("no step"));
        assert!(fault("so\n## \n").message.contains("title"));
        assert!(
            fault("- files: a\n## 1. b")
                .message
                .contains("below the heading")
        );
    }
}
