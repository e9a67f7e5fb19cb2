//! `plan explain`: one decision with what it was chosen from and what follows from it.

use cleveragents_application::{CorrectionImpact, Explanation, PlanBook};
use serde_json::{Value, json};

use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(
    book: &PlanBook,
    reference: &str,
    shows_context: bool,
    shows_reasoning: bool,
) -> Result<Report, CommandError> {
    let told = book.explain(reference)?;
    let decision = &told.decision;
    let said = &decision.said;
    let mut panel = Panel::new("Decision")
        .row("ID", Cell::Id(said.id.to_string()))
        .row("Type", said.kind.as_str())
        .row("Question", said.question.clone())
        .row("Chosen", said.chosen.clone())
        .row(
            "Confidence",
            said.confidence.map(|sure| format!("{sure:.2}")),
        )
        .row("Plan", Cell::Id(told.plan.id.to_string()))
        .row("Sequence", sequence(&told))
        .row("Created", decision.created_at);
    if let Some(by) = decision.superseded_by {
        panel = panel.row("Superseded by", Cell::Id(by.to_string()));
    }
    if let Some(rollback) = decision.undone_by {
        panel = panel.row("Taken back by", format!("rollback {rollback}"));
    }
    if let Some(corrects) = decision.corrects {
        panel = panel
            .row("Corrects", Cell::Id(corrects.to_string()))
            .row("Because", decision.correction_reason.clone());
    }
    let mut report = Report::new("plan explain")
        .data(data(&told, shows_context, shows_reasoning))
        .panel(panel)
        .table(alternatives(&told))
        .panel(impact(&told));
    if shows_context {
        report = report.panel(context(&told));
    }
    report = report.panel(Panel::new("Rationale").row("Why", text_or_none(&said.rationale)));
    if let Some(hint) = correction(&told) {
        report = report.panel(Panel::new("Correction").row("Run", Cell::Id(hint)));
    }
    if shows_reasoning {
        report = report.text(
            said.reasoning
                .clone()
                .unwrap_or_else(|| "No reasoning was recorded".to_owned()),
        );
    }
    Ok(report.ok("Decision explained"))
}

fn text_or_none(text: &str) -> Cell {
    Some(text.to_owned()).filter(|text| !text.is_empty()).into()
}

fn sequence(told: &Explanation) -> String {
    format!("{} of {}", told.decision.sequence, told.count)
}

fn alternatives(told: &Explanation) -> Table {
    Table::new("Alternatives Considered")
        .column("#", Align::Right)
        .column("Alternative", Align::Left)
        .column("", Align::Left)
        .rows(told.alternatives.iter().map(|one| {
            vec![
                one.index.into(),
                one.description.as_str().into(),
                if one.chosen {
                    Cell::Good("chosen".to_owned())
                } else {
                    Cell::Muted(String::new())
                },
            ]
        }))
}

fn impact(told: &Explanation) -> Panel {
    let impact = &told.impact;
    let word = impact.correction_impact.as_str().to_owned();
    Panel::new("Impact")
        .row("Downstream decisions", impact.downstream_decisions)
        .row("Downstream child plans", impact.downstream_child_plans)
        .row("Artifacts produced", impact.artifacts_produced)
        .row(
            "Correction impact",
            match impact.correction_impact {
                CorrectionImpact::Low => Cell::Good(word),
                CorrectionImpact::Medium => Cell::Warn(word),
                CorrectionImpact::High => Cell::Bad(word),
            },
        )
}

fn context(told: &Explanation) -> Panel {
    let snapshot = &told.decision.said.snapshot;
    let mut panel = Panel::new("Context Snapshot")
        .row(
            "Hot context hash",
            snapshot.hot_context_hash.map(|hash| hash.to_string()),
        )
        .row("Hot context", snapshot.hot_context_ref.clone())
        .row("Actor state", snapshot.actor_state_ref.clone());
    for resource in &snapshot.relevant_resources {
        panel = panel.row("Resource", resource.clone());
    }
    for by in &told.decision.said.influenced_by {
        panel = panel.row("Influenced by", Cell::Id(by.to_string()));
    }
    panel
}

/// How a person can still have a say.
fn correction(told: &Explanation) -> Option<String> {
    let is_over = told.plan.stage.is_terminal();
    (!is_over).then(|| format!("agents plan prompt {} 'GUIDANCE'", told.plan.id))
}

fn data(told: &Explanation, shows_context: bool, shows_reasoning: bool) -> Value {
    let decision = &told.decision;
    let said = &decision.said;
    let snapshot = &said.snapshot;
    let mut data = json!({
        "decision_id": said.id,
        "type": said.kind,
        "question": said.question,
        "chosen": said.chosen,
        "confidence": said.confidence,
        "plan_id": told.plan.id,
        "parent_decision_id": said.parent,
        "phase": said.phase,
        "sequence": sequence(told),
        "created": decision.created_at,
        "holds": decision.holds(),
        "superseded_by": decision.superseded_by,
        "taken_back_by": decision.undone_by,
        "corrects": decision.corrects,
        "correction_reason": decision.correction_reason,
        "influenced_by": said.influenced_by,
        "alternatives": told.alternatives,
        "impact": told.impact,
        "artifacts": told.artifacts,
        "failed_checks": told.failed_checks,
        "context_snapshot": {
            "items": snapshot.relevant_resources.len(),
            "hot_context_hash": snapshot.hot_context_hash,
        },
        "rationale": said.rationale,
        "correction_hint": correction(told),
    });
    if shows_context {
        data["context_snapshot"]["hot_context_ref"] = json!(snapshot.hot_context_ref);
        data["context_snapshot"]["relevant_resources"] = json!(snapshot.relevant_resources);
        data["context_snapshot"]["actor_state_ref"] = json!(snapshot.actor_state_ref);
    }
    if shows_reasoning {
        data["reasoning"] = json!(said.reasoning);
    }
    data
}
