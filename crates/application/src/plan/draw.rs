//! Drawings of a [`DecisionTree`]: Mermaid, the language of Graphviz, and SVG.

mod dot;
mod mermaid;
mod svg;

pub(super) use dot::dot;
pub(super) use mermaid::mermaid;
pub(super) use svg::svg;

use std::fmt::Write as _;

use cleveragents_domain::{Decision, DecisionType};

/// What stands at a decision: what was chosen, else what was asked.
pub(super) fn description(decision: &Decision) -> &str {
    let said = &decision.said;
    if said.chosen.trim().is_empty() {
        &said.question
    } else {
        &said.chosen
    }
}

/// What became of a decision that does not hold.
pub(super) const fn fate(decision: &Decision) -> Option<&'static str> {
    match (decision.superseded_by, decision.undone_by) {
        (Some(_), _) => Some("superseded"),
        (None, Some(_)) => Some("taken back"),
        (None, None) => None,
    }
}

/// Which decisions look alike in a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Root,
    Rule,
    Plan,
    Child,
    Work,
    Trouble,
    Person,
}

impl Look {
    const ALL: [Self; 7] = [
        Self::Root,
        Self::Rule,
        Self::Plan,
        Self::Child,
        Self::Work,
        Self::Trouble,
        Self::Person,
    ];

    const fn of(kind: DecisionType) -> Self {
        match kind {
            DecisionType::PromptDefinition => Self::Root,
            DecisionType::InvariantEnforced => Self::Rule,
            DecisionType::StrategyChoice | DecisionType::ResourceSelection => Self::Plan,
            DecisionType::SubplanSpawn | DecisionType::SubplanParallelSpawn => Self::Child,
            DecisionType::ImplementationChoice | DecisionType::ToolInvocation => Self::Work,
            DecisionType::ErrorRecovery
            | DecisionType::ValidationResponse
            | DecisionType::Reversion => Self::Trouble,
            DecisionType::UserIntervention => Self::Person,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Rule => "rule",
            Self::Plan => "plan",
            Self::Child => "child",
            Self::Work => "work",
            Self::Trouble => "trouble",
            Self::Person => "person",
        }
    }

    /// Its colour, which can be told from the others on light and dark ground.
    const fn colour(self) -> &'static str {
        match self {
            Self::Root => "#0969da",
            Self::Rule => "#bf8700",
            Self::Plan => "#1a7f37",
            Self::Child => "#8250df",
            Self::Work => "#6e7781",
            Self::Trouble => "#cf222e",
            Self::Person => "#bf3989",
        }
    }
}

/// What stands above a text: the type, how sure, and what became of it.
fn heading(decision: &Decision) -> String {
    let said = &decision.said;
    // Writing to a string does not fail.
    let mut text = said.kind.as_str().to_owned();
    if let Some(confidence) = said.confidence {
        let _ = write!(text, " {confidence:.2}");
    }
    if let Some(fate) = fate(decision) {
        let _ = write!(text, " ({fate})");
    }
    text
}

#[cfg(test)]
mod tests;
