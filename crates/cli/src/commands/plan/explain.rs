//! `plan explain`: one decision with its alternatives and consequences.

use cleveragents_application::CorrectionImpact;
use cleveragents_application::plan_operations::{DecisionExplanation, ExplainDecision};

use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table, command};

pub(super) fn run(context: &Context, request: ExplainDecision) -> Result<Report, CommandError> {
    let (shows_context, shows_reasoning) = (request.show_context, request.show_reasoning);
    let decision = context.call(request)?;
    let mut report = Report::new("plan explain")
        .data(&decision)
        .commands_at(&["/correction_hint"])
        .panel(header(&decision))
        .table(alternatives(&decision))
        .panel(impact(&decision));
    if shows_context {
        report = report.panel(snapshot(&decision));
    }
    report = report.panel(Panel::new("Rationale").row("Why", text_or_none(&decision.rationale)));
    if let Some(correction) = &decision.correction_hint {
        let cell = Cell::Id(command(correction));
        report = report.panel(Panel::new("Correction").row("Run", cell));
    }
    if shows_reasoning {
        let reasoning = decision.reasoning.flatten();
        report = report.text(reasoning.unwrap_or_else(|| "No reasoning was recorded".to_owned()));
    }
    Ok(report.ok("Decision explained"))
}

fn header(decision: &DecisionExplanation) -> Panel {
    let mut panel = Panel::new("Decision")
        .row("ID", Cell::Id(decision.decision_id.to_string()))
        .row("Type", decision.kind.as_str())
        .row("Question", decision.question.clone())
        .row("Chosen", decision.chosen.clone())
        .row(
            "Confidence",
            decision
                .confidence
                .map(|confidence| format!("{confidence:.2}")),
        )
        .row("Plan", Cell::Id(decision.plan_id.to_string()))
        .row("Sequence", decision.sequence.clone())
        .row("Created", decision.created);
    if let Some(by) = decision.superseded_by {
        panel = panel.row("Superseded by", Cell::Id(by.to_string()));
    }
    if let Some(rollback) = decision.rolled_back_by {
        panel = panel.row("Rolled back by", format!("rollback {rollback}"));
    }
    if let Some(corrects) = decision.corrects {
        panel = panel
            .row("Corrects", Cell::Id(corrects.to_string()))
            .row("Because", decision.correction_reason.clone());
    }
    panel
}

fn text_or_none(text: &str) -> Cell {
    Some(text.to_owned()).filter(|text| !text.is_empty()).into()
}

fn alternatives(decision: &DecisionExplanation) -> Table {
    Table::new("Alternatives Considered")
        .column("#", Align::Right)
        .column("Alternative", Align::Left)
        .column("", Align::Left)
        .rows(decision.alternatives.iter().map(|alternative| {
            vec![
                alternative.index.into(),
                alternative.description.as_str().into(),
                if alternative.chosen {
                    Cell::Good("chosen".to_owned())
                } else {
                    Cell::Muted(String::new())
                },
            ]
        }))
}

fn impact(decision: &DecisionExplanation) -> Panel {
    let impact = &decision.impact;
    let text = impact.correction_impact.as_str().to_owned();
    Panel::new("Impact")
        .row("Downstream decisions", impact.downstream_decisions)
        .row("Downstream child plans", impact.downstream_child_plans)
        .row("Artifacts produced", impact.artifacts_produced)
        .row(
            "Correction impact",
            match impact.correction_impact {
                CorrectionImpact::Low => Cell::Good(text),
                CorrectionImpact::Medium => Cell::Warn(text),
                CorrectionImpact::High => Cell::Bad(text),
            },
        )
}

fn snapshot(decision: &DecisionExplanation) -> Panel {
    let snapshot = &decision.context_snapshot;
    let mut panel = Panel::new("Context Snapshot")
        .row("Hot context hash", snapshot.hot_context_hash.clone())
        .row("Hot context", snapshot.hot_context_ref.clone().flatten())
        .row("Actor state", snapshot.actor_state_ref.clone().flatten());
    for resource in snapshot.relevant_resources.iter().flatten() {
        panel = panel.row("Resource", resource.clone());
    }
    for by in &decision.influenced_by {
        panel = panel.row("Influenced by", Cell::Id(by.to_string()));
    }
    panel
}
