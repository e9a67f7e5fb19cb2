//! Draws a tree as an SVG picture: one line per box, indented below its parent.

use std::fmt::Write as _;

use super::{LARGE, LINE, MARGIN, SMALL, SOFT, count, escaped, open, text_width};
use crate::draw::diagram::{Diagram, DiagramNode, shortened};

const HEADER: f64 = 34.0;
const ROW: f64 = 26.0;
const INDENT: f64 = 24.0;
/// Maximum indentation; deeper boxes are in the last column, labelled with their depth.
const COLUMNS: usize = 24;
/// Font size of the title in pixels.
const TITLE: f64 = 15.0;
const GAP: f64 = 8.0;
/// Maximum length of the text next to a box, in characters.
const MAX_LENGTH: usize = 96;

/// A box with its place in the tree.
struct OutlineRow<'a> {
    node: &'a DiagramNode,
    parent: Option<usize>,
    depth: usize,
    is_last: bool,
}

impl OutlineRow<'_> {
    fn left(&self) -> f64 {
        MARGIN + count(self.depth.min(COLUMNS)) * INDENT
    }

    fn heading(&self) -> String {
        shortened(self.node.lines.first().map_or("", String::as_str), 60)
    }

    fn box_width(&self) -> f64 {
        text_width(&self.heading(), SMALL) + 18.0
    }

    fn text(&self) -> String {
        shortened(
            self.node.lines.get(1).map_or("", String::as_str),
            MAX_LENGTH,
        )
    }

    /// The notes after the text.
    fn notes(&self) -> String {
        let mut notes: Vec<String> = self.node.lines.iter().skip(2).cloned().collect();
        notes.extend((self.depth > COLUMNS).then(|| format!("depth {}", self.depth)));
        shortened(&notes.join(", "), MAX_LENGTH)
    }

    fn right(&self) -> f64 {
        let text = text_width(&self.text(), LARGE) + text_width(&self.notes(), SMALL);
        self.left() + self.box_width() + 2.0 * GAP + text
    }
}

fn rows(diagram: &Diagram) -> Vec<OutlineRow<'_>> {
    let mut parents = vec![None; diagram.nodes.len()];
    let mut last = vec![None; diagram.nodes.len()];
    for edge in &diagram.edges {
        parents[edge.to] = Some(edge.from);
        last[edge.from] = Some(edge.to);
    }
    let mut rows: Vec<OutlineRow<'_>> = Vec::with_capacity(diagram.nodes.len());
    for (number, node) in diagram.nodes.iter().enumerate() {
        let parent = parents[number];
        let above = parent.and_then(|parent| rows.get(parent));
        let depth = above.map_or(0, |above| above.depth + 1);
        rows.push(OutlineRow {
            node,
            depth,
            is_last: parent.is_some_and(|parent| last[parent] == Some(number)),
            parent,
        });
    }
    rows
}

/// Draws a tree.
pub(super) fn outline(diagram: &Diagram) -> String {
    let rows = rows(diagram);
    let title = shortened(&diagram.title, MAX_LENGTH);
    let right = rows
        .iter()
        .map(OutlineRow::right)
        .fold(MARGIN + 1.1 * text_width(&title, TITLE), f64::max);
    let height = 2.0 * MARGIN + HEADER + count(rows.len().max(1)) * ROW;
    let mut out = String::with_capacity(500 * (rows.len() + 4));
    open(&mut out, &diagram.title, right + MARGIN, height);
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<text x=\"{MARGIN}\" y=\"{:.1}\" font-size=\"{TITLE}\" font-weight=\"600\">{}</text>",
        MARGIN + 12.0,
        escaped(&title)
    );
    edges(&mut out, &rows);
    for (number, row) in rows.iter().enumerate() {
        line(&mut out, row, middle(number));
    }
    out.push_str("</svg>\n");
    out
}

fn middle(row: usize) -> f64 {
    MARGIN + HEADER + count(row) * ROW + ROW / 2.0
}

/// Draws one line down from each box to its last child, and one across to each child.
fn edges(out: &mut String, rows: &[OutlineRow<'_>]) {
    for (number, row) in rows.iter().enumerate() {
        let Some(parent) = row.parent else { continue };
        let above = &rows[parent];
        if above.depth >= COLUMNS {
            // Parent and child are both in the last column, so there is no room for a line.
            continue;
        }
        let (x, y, end) = (above.left() + 10.0, middle(number), row.left());
        let path = if row.is_last {
            format!("M{x:.1} {:.1}V{y:.1}H{end:.1}", middle(parent) + 9.0)
        } else {
            format!("M{x:.1} {y:.1}H{end:.1}")
        };
        let _ = write!(
            out,
            "<path class=\"way\" fill=\"none\" stroke=\"{LINE}\" stroke-width=\"1.4\" d=\"{path}\"/>"
        );
    }
}

fn line(out: &mut String, row: &OutlineRow<'_>, y: f64) {
    let x = row.left();
    let color = row.node.group.map_or(SOFT, |group| group.color);
    let (faded, struck) = if row.node.is_faded {
        (
            " class=\"gone\" opacity=\"0.5\"",
            " text-decoration=\"line-through\"",
        )
    } else {
        ("", "")
    };
    let width = row.box_width();
    let after = x + width + GAP;
    let text = row.text();
    let _ = write!(
        out,
        "<g{faded}><title>{}</title><rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"18\" rx=\"9\" \
         fill=\"{color}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{SMALL}\" fill=\"#ffffff\" \
         text-anchor=\"middle\">{}</text><text x=\"{after:.1}\" y=\"{:.1}\"{struck}>{}</text>",
        escaped(&shortened(&row.node.tooltip, 400)),
        y - 9.0,
        x + width / 2.0,
        y + 4.0,
        escaped(&row.heading()),
        y + 4.5,
        escaped(&text),
    );
    let notes = row.notes();
    if !notes.is_empty() {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{SMALL}\" fill=\"{SOFT}\">{}</text>",
            after + text_width(&text, LARGE) + GAP,
            y + 4.5,
            escaped(&notes)
        );
    }
    out.push_str("</g>");
}
