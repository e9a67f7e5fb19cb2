//! A decision tree as an SVG picture: a line for each decision, indented below the one above it.
//! Self-contained, readable on light and dark ground, with a title for those who do not see it.

use std::fmt::Write as _;

use cleveragents_actors::draw::{shortened, xml_text};

use super::{Look, description, fate};
use crate::plan::book::DecisionTree;

const MARGIN: f64 = 20.0;
const HEADER: f64 = 34.0;
const ROW: f64 = 26.0;
const INDENT: f64 = 24.0;
/// Deeper decisions stand in this column, with their depth told.
const COLUMNS: usize = 24;
const BADGE: f64 = 164.0;
/// About how wide a letter is; no picture is narrower than its title.
const LETTER: f64 = 7.6;
/// The longest text at a decision.
const LONGEST: usize = 96;

const STYLE: &str = "svg{--ink:#1f2328;--soft:#59636e;--paper:#fff;--line:#afb8c1}\
@media(prefers-color-scheme:dark){svg{--ink:#f0f6fc;--soft:#9198a1;--paper:#0d1117;--line:#3d444d}}\
.paper{fill:var(--paper)}text{font:13px system-ui,sans-serif;fill:var(--ink)}\
.head{font-weight:600;font-size:15px}.soft{fill:var(--soft);font-size:11px}.badge{fill:#fff;font-size:11px;text-anchor:middle}\
.way{fill:none;stroke:var(--line);stroke-width:1.4}.gone{opacity:.5}.gone .what{text-decoration:line-through}";

/// Draws a decision tree as an SVG picture. `title` stands above it.
pub(in crate::plan) fn svg(tree: &DecisionTree, title: &str) -> String {
    let shown = shortened(title, LONGEST);
    let mut right = MARGIN + 1.2 * LETTER * count(shown.chars().count());
    for (row, node) in tree.nodes.iter().enumerate() {
        let what = shortened(description(tree.decision(node)), LONGEST);
        let letters = what.chars().count() + notes(tree, row).chars().count();
        right = right.max(left(node.depth) + BADGE + 8.0 + LETTER * count(letters));
    }
    let width = right + MARGIN;
    let height = 2.0 * MARGIN + HEADER + count(tree.nodes.len().max(1)) * ROW;
    let name = xml_text(&shown);
    let mut out = String::with_capacity(400 * (tree.nodes.len() + 4));
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">\
         <title id=\"title\">{name}</title><style>{STYLE}"
    );
    for look in Look::ALL {
        let _ = write!(out, ".{}{{fill:{}}}", look.as_str(), look.colour());
    }
    let _ = write!(
        out,
        "</style><rect class=\"paper\" width=\"100%\" height=\"100%\"/>\
         <text class=\"head\" x=\"{MARGIN}\" y=\"{:.1}\">{name}</text>",
        MARGIN + 12.0
    );
    ways(&mut out, tree);
    for (row, node) in tree.nodes.iter().enumerate() {
        line(&mut out, tree, row, node.depth);
    }
    out.push_str("</svg>\n");
    out
}

fn left(depth: usize) -> f64 {
    MARGIN + count(column(depth)) * INDENT
}

fn middle(row: usize) -> f64 {
    MARGIN + HEADER + count(row) * ROW + ROW / 2.0
}

const fn column(depth: usize) -> usize {
    if depth < COLUMNS { depth } else { COLUMNS }
}

/// One line down from each decision to its last child, and one across to each child.
fn ways(out: &mut String, tree: &DecisionTree) {
    for (row, node) in tree.nodes.iter().enumerate() {
        let Some(parent) = node.parent else { continue };
        if column(tree.nodes[parent].depth) == column(node.depth) {
            // Both stand in the last column.
            continue;
        }
        let x = left(tree.nodes[parent].depth) + 10.0;
        let y = middle(row);
        let end = left(node.depth);
        if node.is_last {
            let _ = write!(
                out,
                "<path class=\"way\" d=\"M{x:.1} {:.1}V{y:.1}H{end:.1}\"/>",
                middle(parent) + 9.0
            );
        } else {
            let _ = write!(out, "<path class=\"way\" d=\"M{x:.1} {y:.1}H{end:.1}\"/>");
        }
    }
}

/// What stands behind the text of a decision.
fn notes(tree: &DecisionTree, row: usize) -> String {
    let node = &tree.nodes[row];
    let decision = tree.decision(node);
    let mut notes = Vec::new();
    notes.extend(decision.said.confidence.map(|sure| format!("{sure:.2}")));
    notes.extend(fate(decision).map(str::to_owned));
    notes.extend((node.left_out > 0).then(|| format!("+{} deeper", node.left_out)));
    notes.extend((node.depth > COLUMNS).then(|| format!("depth {}", node.depth)));
    notes.join(", ")
}

fn line(out: &mut String, tree: &DecisionTree, row: usize, depth: usize) {
    let node = &tree.nodes[row];
    let decision = tree.decision(node);
    let (x, y) = (left(depth), middle(row));
    let gone = if decision.holds() {
        ""
    } else {
        " class=\"gone\""
    };
    let said = &decision.said;
    let _ = write!(
        out,
        "<g{gone}><title>{}</title><rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"18\" rx=\"9\"/>\
         <text class=\"badge\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\"><tspan class=\"what\">{}</tspan>",
        xml_text(&shortened(
            &format!("{} {}: {}", said.id, said.question, said.chosen),
            400
        )),
        Look::of(said.kind).as_str(),
        y - 9.0,
        BADGE - 8.0,
        x + (BADGE - 8.0) / 2.0,
        y + 4.0,
        said.kind.as_str(),
        x + BADGE,
        y + 4.5,
        xml_text(&shortened(description(decision), LONGEST)),
    );
    let notes = notes(tree, row);
    if !notes.is_empty() {
        let _ = write!(
            out,
            "<tspan class=\"soft\" dx=\"8\">{}</tspan>",
            xml_text(&notes)
        );
    }
    out.push_str("</text></g>");
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
const fn count(number: usize) -> f64 {
    number as f64
}
