//! `plan tree`: decision tree of a plan.

use std::fmt::Write as _;

use cleveragents_application::TreeSummary;
use cleveragents_application::plan_operations::{
    DecisionStatus, OutlineNode, ShowDecisionTree, TreeChildPlan, TreeDrawing as DrawingLanguage,
    TreeForm,
};
use cleveragents_domain::{DecisionType, PlanState};
use serde_json::json;

use crate::arguments::{PlanTree, TreeDrawing};
use crate::commands::write_file;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, path_text, truncate, visible, width};

/// Maximum indentation depth. Deeper levels show a count instead, so that lines do not grow with
/// the depth.
const MAX_LEVELS: usize = 24;
/// Minimum width of a description in columns.
const MIN_TEXT_WIDTH: usize = 16;

pub(super) fn run(context: &Context, arguments: PlanTree) -> Result<Report, CommandError> {
    let is_human = context.printer.format().is_human();
    let tree = context.call(ShowDecisionTree {
        reference: arguments.plan.reference,
        show_superseded: arguments.show_superseded,
        depth: arguments.depth,
        drawing: match arguments.drawing {
            TreeDrawing::Text => DrawingLanguage::Text,
            TreeDrawing::Svg => DrawingLanguage::Svg,
            TreeDrawing::Mermaid => DrawingLanguage::Mermaid,
            TreeDrawing::Dot => DrawingLanguage::Dot,
        },
        form: if is_human || arguments.output.is_some() {
            TreeForm::Outline
        } else {
            TreeForm::Nested
        },
    })?;
    let outline = tree.outline.as_deref().unwrap_or_default();
    if let Some(path) = arguments.output.as_deref() {
        let drawn = tree.drawing.unwrap_or_else(|| plain_text(outline));
        write_file(path, drawn.as_bytes())?;
        return Ok(Report::new("plan tree")
            .data(json!({"plan_id": tree.plan_id, "file": path_text(path), "bytes": drawn.len()}))
            .ok(format!("Decisions drawn in `{}`", path.display())));
    }
    if !is_human {
        return Ok(Report::new("plan tree")
            .records(tree)
            .ok("Decision tree rendered"));
    }
    if let Some(drawn) = tree.drawing {
        return Ok(Report::printed("plan tree", drawn));
    }
    let report = Report::new("plan tree");
    let (_, columns) = context.printer.canvas();
    let report = if outline.is_empty() {
        report.text("No decisions yet")
    } else {
        report.lines(lines(outline, columns))
    };
    Ok(report
        .panel(summary(&tree.summary))
        .ok("Decision tree rendered"))
}

fn summary(summary: &TreeSummary) -> Panel {
    Panel::new("Summary")
        .row("Decisions", summary.nodes)
        .row("Depth", summary.depth)
        .row("Child plans", summary.child_plans)
        .row("Invariants", summary.invariants)
        .row("Superseded", summary.superseded)
        .row("Rolled back", summary.rolled_back)
}

/// Drawing without colours and without a width limit.
fn plain_text(outline: &[OutlineNode]) -> String {
    let mut text = String::new();
    for line in lines(outline, usize::MAX) {
        for cell in line {
            text.push_str(&cell.text());
        }
        text.push('\n');
    }
    text
}

/// Lines of the drawing, at most `columns` wide.
fn lines(outline: &[OutlineNode], columns: usize) -> Vec<Vec<Cell>> {
    // One entry per level: `true` if its vertical line continues below.
    let mut continues: Vec<bool> = Vec::new();
    let mut lines = Vec::with_capacity(outline.len());
    for (at, node) in outline.iter().enumerate() {
        continues.truncate(node.depth);
        let drawn = trunk(&continues, node.depth, node.is_last);
        continues.push(!node.is_last);
        lines.push(line(drawn, node, columns));
        if let Some(plan) = &node.child_plan {
            let has_decisions = outline
                .get(at + 1)
                .is_some_and(|next| next.depth > node.depth);
            let drawn = trunk(&continues, node.depth + 1, !has_decisions);
            lines.push(child_plan_line(drawn, plan, columns));
        }
    }
    lines
}

/// Line of a child plan, below the decision that created it.
fn child_plan_line(trunk: String, plan: &TreeChildPlan, columns: usize) -> Vec<Cell> {
    let label = format!("child plan {}", plan.number);
    let mut state = format!(" {}/{}", plan.phase.as_str(), plan.state.as_str());
    // A child plan that runs.
    if let Some(owner) = &plan.owner {
        let seconds = plan.elapsed_s.unwrap_or_default();
        let _ = write!(state, " {seconds:.0} s, {owner}");
    }
    if plan.cost_usd > 0.0 {
        let _ = write!(state, " ${:.4}", plan.cost_usd);
    }
    let id = format!(" {}", plan.id);
    let occupied = width(&trunk) + label.len() + 1 + state.len() + id.len();
    let available = columns.saturating_sub(occupied).max(MIN_TEXT_WIDTH);
    let title = one_line(&plan.title);
    let title = truncate(&visible(&title), available).into_owned();
    let state = match plan.state {
        PlanState::Applied => Cell::Good(state),
        PlanState::Errored | PlanState::Constrained => Cell::Bad(state),
        PlanState::AwaitingInput => Cell::Warn(state),
        _ => Cell::Muted(state),
    };
    vec![
        Cell::Muted(trunk),
        Cell::Id(label),
        Cell::Text(format!(" {title}")),
        state,
        Cell::Muted(id),
    ]
}

/// Vertical and horizontal lines before a decision or child plan.
fn trunk(continues: &[bool], depth: usize, is_last: bool) -> String {
    if depth == 0 {
        return String::new();
    }
    // The root has no vertical line.
    let levels = continues.get(1..).unwrap_or_default();
    let skipped = levels.len().saturating_sub(MAX_LEVELS);
    let mut text = String::with_capacity(3 * MAX_LEVELS + 12);
    if skipped > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, "+{skipped} ");
    }
    for continues in &levels[skipped..] {
        text.push_str(if *continues { "│  " } else { "   " });
    }
    text.push_str(if is_last { "└─ " } else { "├─ " });
    text
}

fn line(trunk: String, node: &OutlineNode, columns: usize) -> Vec<Cell> {
    let kind = node.kind.as_str();
    let status = node.status.map(|status| match status {
        DecisionStatus::Superseded => " [superseded]",
        DecisionStatus::RolledBack => " [rolled back]",
    });
    let confidence = node
        .confidence
        .map(|confidence| format!(" {confidence:.2}"));
    let deeper = (node.left_out > 0).then(|| format!(" +{} deeper", node.left_out));
    let id = format!(" {}", node.short_id);
    let facts = [status, confidence.as_deref(), deeper.as_deref()];
    let facts: usize = facts.into_iter().flatten().map(width).sum();
    let occupied = width(&trunk) + kind.len() + 1 + facts + id.len();
    let available = columns.saturating_sub(occupied).max(MIN_TEXT_WIDTH);
    let text = one_line(&node.description);
    let text = truncate(&visible(&text), available).into_owned();
    let is_obsolete = node.status.is_some();
    let mut cells = vec![Cell::Muted(trunk), kind_cell(node.kind, is_obsolete)];
    cells.push(if is_obsolete {
        Cell::Muted(format!(" {text}"))
    } else {
        Cell::Text(format!(" {text}"))
    });
    cells.extend(confidence.map(|confidence| confidence_cell(node.confidence, confidence)));
    cells.extend(status.map(|status| Cell::Warn(status.to_owned())));
    cells.extend(deeper.map(Cell::Muted));
    cells.push(Cell::Muted(id));
    cells
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn confidence_cell(confidence: Option<f64>, text: String) -> Cell {
    match confidence {
        Some(confidence) if confidence >= 0.8 => Cell::Good(text),
        Some(confidence) if confidence < 0.5 => Cell::Bad(text),
        _ => Cell::Warn(text),
    }
}

fn kind_cell(kind: DecisionType, is_obsolete: bool) -> Cell {
    let text = kind.as_str().to_owned();
    if is_obsolete {
        return Cell::Muted(text);
    }
    match kind {
        DecisionType::ErrorRecovery
        | DecisionType::ValidationResponse
        | DecisionType::Reversion => Cell::Bad(text),
        DecisionType::InvariantEnforced | DecisionType::UserIntervention => Cell::Warn(text),
        DecisionType::StrategyChoice
        | DecisionType::ResourceSelection
        | DecisionType::SubplanSpawn
        | DecisionType::SubplanParallelSpawn => Cell::Good(text),
        _ => Cell::Id(text),
    }
}
