//! `plan correct`.

use cleveragents_application::plan_operations::{
    AffectedSubtree, CorrectDecision, CorrectionForm, CorrectionReport,
};

use crate::arguments::PlanCorrect;
use crate::commands::{confirm, counted};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, arguments: PlanCorrect) -> Result<Report, CommandError> {
    let request = CorrectDecision {
        decision: arguments.decision,
        mode: if arguments.mode == "append" {
            CorrectionForm::Append
        } else {
            CorrectionForm::Revert
        },
        guidance: arguments.guidance,
        dry_run: true,
        yes: false,
    };
    if arguments.dry_run {
        let preview = context.call(request)?;
        return Ok(view(preview, "Correction Preview").ok("Nothing changed"));
    }
    if !arguments.yes && request.mode == CorrectionForm::Revert {
        let preview = context.call(request.clone())?;
        let affected = &preview.affected_subtree;
        let question = format!(
            "Correct this decision? {}, {} and {} are discarded; {} stay.",
            counted(affected.decisions_invalidated.len(), "decision"),
            counted(affected.steps_repeated.len(), "step"),
            counted(preview.files_reverted.len(), "file"),
            counted(affected.unaffected_decisions, "decision"),
        );
        confirm(&question, arguments.yes)?;
    }
    let corrected = context.call(CorrectDecision {
        dry_run: false,
        yes: true,
        ..request
    })?;
    let plan = corrected.plan_id;
    Ok(view(corrected, "Decision Corrected")
        .info(format!(
            "continue with `agents plan execute {plan}`; undo the correction with `agents plan redo {plan}`"
        ))
        .ok("Corrected"))
}

fn view(report: CorrectionReport, title: &'static str) -> Report {
    let correction = &report.correction;
    let mut panel = Panel::new(title)
        .row("Plan", Cell::Id(report.plan_id.to_string()))
        .row("Corrects", Cell::Id(correction.corrects.to_string()))
        .row("Guidance", correction.guidance.clone())
        .row(
            "Effect",
            match (correction.mode, correction.needs_new_strategy) {
                (CorrectionForm::Append, _) => {
                    "a child plan executes the guidance; everything stays"
                }
                (CorrectionForm::Revert, true) => "the strategist makes a new strategy",
                (CorrectionForm::Revert, false) => "the discarded steps run again",
            },
        )
        .row("Stage", report.stage.to_string());
    if !report.files_reverted.is_empty() {
        panel = panel.row("Files restored", report.files_reverted.join(", "));
    }
    if report.affected_subtree.recompute_cost_usd > 0.0 {
        let cost = report.affected_subtree.recompute_cost_usd;
        panel = panel.row("Cost of the discarded work", format!("${cost:.4}"));
    }
    panel = panel.row(
        "Decisions kept",
        report.affected_subtree.unaffected_decisions,
    );
    let table = discarded(&report.affected_subtree);
    let shown = Report::new("plan correct").panel(panel);
    let shown = match table {
        Some(table) => shown.table(table),
        None => shown,
    };
    shown.data(report).commands_at(&["/next_steps"])
}

/// The discarded decisions and steps; `None` if nothing is discarded.
fn discarded(affected: &AffectedSubtree) -> Option<Table> {
    if affected.decisions_invalidated.is_empty() && affected.steps_repeated.is_empty() {
        return None;
    }
    let mut table = Table::with_columns("Discarded", ["Kind", "Text"]);
    for decision in &affected.decisions_invalidated {
        let text = format!("{} {}", decision.question, decision.chosen);
        table = table.row(vec!["decision".into(), text.into()]);
    }
    for step in &affected.steps_repeated {
        table = table.row(vec!["step".into(), step.title.clone().into()]);
    }
    for child in &affected.child_plans_rolled_back {
        let text = format!(
            "{}. {} ({})",
            child.number,
            child.title,
            child.state.as_str()
        );
        table = table.row(vec!["child plan".into(), text.into()]);
    }
    for call in &affected.tool_calls_discarded {
        table = table.row(vec!["tool call".into(), call.tool.clone().into()]);
    }
    Some(table)
}
