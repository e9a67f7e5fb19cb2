//! `plan tree`: the decisions of a plan, drawn.

use std::collections::HashMap;
use std::fmt::Write as _;

use cleveragents_application::draw_decisions as draw;
use cleveragents_application::{DecisionNode, DecisionTree, PlanBook, TreeOptions};
use cleveragents_domain::{Decision, DecisionId, DecisionType, Plan, shortest_prefix};
use serde_json::{Map, Value, json};

use crate::arguments::{PlanTree, TreeDrawing};
use crate::commands::{counted, deliver, output_of};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, path_text, truncate, visible, width};

/// Deeper levels are not indented any more, but told: a line must not grow with the depth.
const LEVELS: usize = 24;
/// The deepest level of the nested document: readers of JSON give up soon after.
const NESTED: usize = 56;
/// A description keeps so many columns, however narrow the terminal is.
const LEAST_TEXT: usize = 16;

pub(super) fn run(
    context: &Context,
    book: &PlanBook,
    arguments: &PlanTree,
) -> Result<Report, CommandError> {
    let plan = book.find(arguments.plan.reference.as_deref())?;
    let options = TreeOptions {
        shows_superseded: arguments.show_superseded,
        depth: arguments
            .depth
            .map(|depth| usize::try_from(depth).unwrap_or(usize::MAX)),
    };
    let tree = DecisionTree::new(book.decisions(plan.id)?, options);
    let drawn = match arguments.drawing {
        TreeDrawing::Text => None,
        TreeDrawing::Svg => Some(draw::svg(&tree, &title(&plan, &tree))),
        TreeDrawing::Mermaid => Some(draw::mermaid(&tree)),
        TreeDrawing::Dot => Some(draw::dot(&tree)),
    };
    if let Some(path) = output_of(context, arguments.output.as_deref()) {
        let drawn = drawn.unwrap_or_else(|| plain(&tree));
        let report = Report::new("plan tree")
            .data(json!({"plan_id": plan.id, "file": path_text(path), "bytes": drawn.len()}))
            .ok(format!("Decisions drawn in `{}`", path.display()));
        return deliver(context, report, drawn, path);
    }
    let is_human = context.printer.format().is_human();
    if let Some(drawn) = &drawn
        && is_human
    {
        return Ok(Report::printed("plan tree", drawn.as_bytes()));
    }
    let report = Report::new("plan tree");
    if is_human {
        let (_, columns) = context.printer.canvas();
        let report = if tree.nodes.is_empty() {
            report.text("Nothing has been decided yet")
        } else {
            report.lines(lines(&tree, columns))
        };
        return Ok(report.panel(summary(&tree)).ok("Decision tree rendered"));
    }
    let mut data = data(book, &plan, &tree)?;
    if let Some(drawn) = drawn {
        data["drawing"] = json!(drawn);
    }
    Ok(report.data(data).ok("Decision tree rendered"))
}

fn title(plan: &Plan, tree: &DecisionTree) -> String {
    let name = plan.name.clone().unwrap_or_else(|| plan.id.to_string());
    format!("{name}: {}", counted(tree.summary.nodes, "decision"))
}

fn summary(tree: &DecisionTree) -> Panel {
    let summary = &tree.summary;
    Panel::new("Summary")
        .row("Decisions", summary.nodes)
        .row("Depth", summary.depth)
        .row("Child plans", summary.child_plans)
        .row("Invariants", summary.invariants)
        .row("Superseded", summary.superseded)
        .row("Taken back", summary.taken_back)
}

/// The drawing without colours, as wide as it is.
fn plain(tree: &DecisionTree) -> String {
    let mut text = String::new();
    for line in lines(tree, usize::MAX) {
        for piece in line {
            text.push_str(&piece.text());
        }
        text.push('\n');
    }
    text
}

/// The lines of the drawing, no wider than `columns`.
fn lines(tree: &DecisionTree, columns: usize) -> Vec<Vec<Cell>> {
    let short = short_ids(tree);
    // Whether a line goes on down at each level above the present one.
    let mut goes_on: Vec<bool> = Vec::new();
    tree.nodes
        .iter()
        .map(|node| {
            goes_on.truncate(node.depth);
            let trunk = trunk(&goes_on, node);
            goes_on.push(!node.is_last);
            line(trunk, tree, node, &short, columns)
        })
        .collect()
}

/// What stands before a decision: the lines of those above it.
fn trunk(goes_on: &[bool], node: &DecisionNode) -> String {
    if node.depth == 0 {
        return String::new();
    }
    // The root has no line of its own.
    let levels = &goes_on[1..];
    let skipped = levels.len().saturating_sub(LEVELS);
    let mut text = String::with_capacity(3 * LEVELS + 12);
    if skipped > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, "+{skipped} ");
    }
    for goes_on in &levels[skipped..] {
        text.push_str(if *goes_on { "│  " } else { "   " });
    }
    text.push_str(if node.is_last { "└─ " } else { "├─ " });
    text
}

fn line(
    trunk: String,
    tree: &DecisionTree,
    node: &DecisionNode,
    short: &HashMap<DecisionId, String>,
    columns: usize,
) -> Vec<Cell> {
    let decision = tree.decision(node);
    let said = &decision.said;
    let kind = said.kind.as_str();
    let fate = draw::fate(decision).map(|fate| format!(" [{fate}]"));
    let sure = said.confidence.map(|sure| format!(" {sure:.2}"));
    let deeper = (node.left_out > 0).then(|| format!(" +{} deeper", node.left_out));
    let id = short
        .get(&said.id)
        .map_or_else(String::new, |id| format!(" {id}"));
    let facts = [&fate, &sure, &deeper]
        .into_iter()
        .flatten()
        .map(|fact| width(fact))
        .sum::<usize>();
    let used = width(&trunk) + kind.len() + 1 + facts + id.len();
    let room = columns.saturating_sub(used).max(LEAST_TEXT);
    let text = one_line(draw::description(decision));
    let text = truncate(&visible(&text), room).into_owned();
    let is_over = !decision.holds();
    let mut cells = vec![Cell::Muted(trunk), toned(said.kind, is_over)];
    cells.push(if is_over {
        Cell::Muted(format!(" {text}"))
    } else {
        Cell::Text(format!(" {text}"))
    });
    cells.extend(sure.map(|sure| confidence_cell(decision, sure)));
    cells.extend(fate.map(Cell::Warn));
    cells.extend(deeper.map(Cell::Muted));
    cells.push(Cell::Muted(id));
    cells
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn confidence_cell(decision: &Decision, text: String) -> Cell {
    match decision.said.confidence {
        Some(sure) if sure >= 0.8 => Cell::Good(text),
        Some(sure) if sure < 0.5 => Cell::Bad(text),
        _ => Cell::Warn(text),
    }
}

fn toned(kind: DecisionType, is_over: bool) -> Cell {
    let text = kind.as_str().to_owned();
    if is_over {
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

/// The shortest beginnings of ids that tell the decisions of this plan from each other.
fn short_ids(tree: &DecisionTree) -> HashMap<DecisionId, String> {
    let mut all: Vec<(String, DecisionId)> = tree
        .decisions
        .iter()
        .map(|decision| (decision.said.id.to_string(), decision.said.id))
        .collect();
    all.sort_unstable();
    let text = |at: usize| all.get(at).map(|(text, _)| text.as_str());
    all.iter()
        .enumerate()
        .map(|(at, (whole, id))| {
            let before = at.checked_sub(1).and_then(text);
            let short = shortest_prefix(whole, before, text(at + 1));
            (*id, short.to_owned())
        })
        .collect()
}

fn data(book: &PlanBook, plan: &Plan, tree: &DecisionTree) -> Result<Value, CommandError> {
    let children = book.children(plan.id)?;
    let (root, deeper) = nested(tree);
    let mut summary = json!(tree.summary);
    summary["child_plans"] = json!(children.len().max(tree.summary.child_plans));
    let labels: Map<String, Value> = tree
        .labels()
        .into_iter()
        .map(|(label, id)| (label, json!(id)))
        .collect();
    let mut data = json!({
        "plan_id": plan.id,
        "tree": root,
        "summary": summary,
        "child_plans": children.iter().map(|child| json!({
            "id": child.id, "phase": child.stage.phase(), "state": child.shown_state(),
        })).collect::<Vec<_>>(),
        "decision_ids": labels,
    });
    if !deeper.is_empty() {
        data["deeper"] = Value::Array(deeper);
    }
    Ok(data)
}

/// The root with everything below it, and as a list what lies deeper than readers can follow.
fn nested(tree: &DecisionTree) -> (Value, Vec<Value>) {
    let count = tree.nodes.len();
    let mut below: Vec<Vec<Value>> = vec![Vec::new(); count];
    let (mut root, mut deeper) = (Value::Null, Vec::new());
    let mut cut = vec![0_usize; count];
    // From the ground up: everything below a node is complete when its turn comes.
    for at in (0..count).rev() {
        let node = &tree.nodes[at];
        let mut value = described(tree.decision(node));
        let mut children = std::mem::take(&mut below[at]);
        children.reverse();
        if node.depth >= NESTED {
            value["parent"] = json!(tree.decision(node).said.parent);
            value["depth"] = json!(node.depth);
            deeper.push(value);
            if let Some(parent) = node.parent {
                cut[parent] += cut[at] + 1;
            }
            continue;
        }
        value["children"] = Value::Array(children);
        let left_out = node.left_out + cut[at];
        if left_out > 0 {
            value["children_left_out"] = json!(left_out);
        }
        match node.parent {
            Some(parent) => below[parent].push(value),
            None => root = value,
        }
    }
    deeper.reverse();
    (root, deeper)
}

fn described(decision: &Decision) -> Value {
    let said = &decision.said;
    let mut value = json!({
        "id": said.id,
        "type": said.kind,
        "description": draw::description(decision),
        "question": said.question,
        "sequence": decision.sequence,
        "phase": said.phase,
    });
    if let Some(confidence) = said.confidence {
        value["confidence"] = json!(confidence);
    }
    if let Some(by) = decision.superseded_by {
        value["superseded_by"] = json!(by);
    }
    if let Some(rollback) = decision.undone_by {
        value["taken_back_by"] = json!(rollback);
    }
    value
}
