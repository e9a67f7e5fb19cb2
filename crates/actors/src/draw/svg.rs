//! A drawing as an SVG picture: self-contained, readable on light and dark ground, with a title for
//! those who do not see it.

use std::fmt::Write as _;

use super::layout::{Layout, count};
use super::{Way, WayKind, about, shortened, title, ways};
use crate::graph::Actor;

const WIDTH: f64 = 190.0;
const HEIGHT: f64 = 52.0;
const GAP: f64 = 40.0;
const RISE: f64 = 104.0;
const MARGIN: f64 = 24.0;
/// Room at the side for what is written at ways that lead back.
const ASIDE_LABEL: f64 = 170.0;
/// Room at the side for each way that leads back.
const ASIDE: f64 = 18.0;

const STYLE: &str = "svg{--ink:#1f2328;--soft:#59636e;--paper:#fff;--line:#818b98;--box:#f6f8fa}\
@media(prefers-color-scheme:dark){svg{--ink:#f0f6fc;--soft:#9198a1;--paper:#0d1117;--line:#656c76;--box:#151b23}}\
.paper{fill:var(--paper)}text{font:13px system-ui,sans-serif;fill:var(--ink);text-anchor:middle}\
.small{font-size:11px;fill:var(--soft)}.label{font-size:11px;fill:var(--soft);paint-order:stroke;\
stroke:var(--paper);stroke-width:4px}.box{fill:var(--box);stroke:var(--line);stroke-width:1.2}\
.aside{text-anchor:start}.exit{stroke-width:3}.choice{stroke-dasharray:6 3}.way{fill:none;stroke:var(--line);stroke-width:1.4}\
.branch{stroke-width:2.6}.failure{stroke-dasharray:3 3}.head{fill:var(--line)}";

/// Draws an actor as an SVG picture.
pub fn svg(actor: &Actor) -> String {
    let graph = &actor.graph;
    let layout = Layout::of(graph);
    let widest = layout.rows.iter().map(Vec::len).max().unwrap_or(1);
    let backs = graph.nodes.iter().enumerate().map(|(from, node)| {
        let ways = ways(node);
        ways.iter()
            .filter(|way| layout.is_back(from, way.target))
            .count()
    });
    let backs: usize = backs.sum();
    let inner = count(widest) * (WIDTH + GAP) - GAP;
    let picture = Picture {
        actor,
        centers: centers(&layout, graph.nodes.len(), inner),
        layout,
        right: MARGIN + inner,
    };
    let aside = if backs > 0 { ASIDE_LABEL } else { 0.0 };
    let width = inner + 2.0 * MARGIN + ASIDE * (count(backs) + 1.0) + aside;
    let height = 2.0 * MARGIN + count(picture.layout.rows.len()) * RISE + 20.0;
    let name = escaped(&shortened(&title(actor), 200));
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\">\
         <title id=\"title\">{name}</title><style>{STYLE}</style>\
         <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"10\" \
         markerHeight=\"10\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path class=\"head\" d=\"M0 0 8 4 0 8Z\"/></marker></defs>\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>"
    );
    picture.ways(&mut out);
    picture.boxes(&mut out);
    out.push_str("</svg>\n");
    out
}

struct Picture<'a> {
    actor: &'a Actor,
    layout: Layout,
    centers: Vec<(f64, f64)>,
    /// Where the boxes end on the right.
    right: f64,
}

fn centers(layout: &Layout, nodes: usize, inner: f64) -> Vec<(f64, f64)> {
    let mut centers = vec![(0.0, 0.0); nodes];
    for (number, row) in layout.rows.iter().enumerate() {
        let y = MARGIN + 20.0 + count(number) * RISE + HEIGHT / 2.0;
        let own = count(row.len()) * (WIDTH + GAP) - GAP;
        let left = MARGIN + (inner - own) / 2.0 + WIDTH / 2.0;
        for (place, index) in row.iter().enumerate() {
            centers[index.0 as usize] = (left + count(place) * (WIDTH + GAP), y);
        }
    }
    centers
}

impl Picture<'_> {
    fn boxes(&self, out: &mut String) {
        let graph = &self.actor.graph;
        for (number, node) in graph.nodes.iter().enumerate() {
            let (x, y) = self.centers[number];
            let (kind, detail) = about(graph, node);
            let (left, top) = (x - WIDTH / 2.0, y - HEIGHT / 2.0);
            let mut class = String::from("box");
            if node.is_exit {
                class.push_str(" exit");
            }
            let is_choice = matches!(kind, "conditional" | "message_router");
            if is_choice {
                class.push_str(" choice");
            }
            let round = if kind == "agent" { 16 } else { 4 };
            let below = if detail.is_empty() {
                kind.to_owned()
            } else {
                format!("{kind}: {detail}")
            };
            let _ = write!(
                out,
                "<g><title>{}</title><rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{WIDTH}\" \
                 height=\"{HEIGHT}\" rx=\"{round}\"/><text x=\"{x:.1}\" y=\"{:.1}\">{}</text>\
                 <text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>",
                escaped(&shortened(&format!("{}: {below}", node.id), 200)),
                y - 3.0,
                escaped(&shortened(&node.id, 24)),
                y + 14.0,
                escaped(&shortened(&below, 30)),
            );
            if number == graph.entry.0 as usize {
                let _ = write!(
                    out,
                    "<path class=\"way\" marker-end=\"url(#head)\" d=\"M{x:.1} {:.1}V{:.1}\"/>",
                    top - 22.0,
                    top - 1.0
                );
            }
        }
    }

    fn ways(&self, out: &mut String) {
        let mut lanes = 0;
        for (from, node) in self.actor.graph.nodes.iter().enumerate() {
            let ways = ways(node);
            let forward: Vec<&Way> = ways
                .iter()
                .filter(|way| !self.layout.is_back(from, way.target))
                .collect();
            for (number, way) in forward.iter().enumerate() {
                // Several ways from one box begin beside each other.
                let part = (count(number) + 0.5) / count(forward.len()) - 0.5;
                self.down(out, from, way, part * WIDTH * 0.6);
            }
            for way in &ways {
                if self.layout.is_back(from, way.target) {
                    lanes += 1;
                    self.back(out, from, way, lanes);
                }
            }
        }
    }

    /// A way to a lower row.
    fn down(&self, out: &mut String, from: usize, way: &Way, shift: f64) {
        let (x1, y1) = self.centers[from];
        let (x2, y2) = self.centers[way.target.0 as usize];
        let (x1, y1, y2) = (x1 + shift, y1 + HEIGHT / 2.0, y2 - HEIGHT / 2.0 - 1.0);
        let bend = (RISE - HEIGHT) / 2.0 + 8.0;
        let rows = self.layout.row_of[way.target.0 as usize] - self.layout.row_of[from];
        // A way past other rows goes between the boxes, not through them.
        let x2 = if rows > 1 {
            x2 + shift.signum() * 12.0
        } else {
            x2
        };
        let path = format!(
            "M{x1:.1} {y1:.1}C{x1:.1} {:.1} {x2:.1} {:.1} {x2:.1} {y2:.1}",
            y1 + bend,
            y2 - bend
        );
        draw_path(
            out,
            way,
            &path,
            "label",
            (x1 * 0.5 + x2 * 0.5, y1 * 0.5 + y2 * 0.5 + 3.0),
        );
    }

    /// A way back up, at the side of the picture.
    fn back(&self, out: &mut String, from: usize, way: &Way, lane: usize) {
        let (x1, y1) = self.centers[from];
        let (x2, y2) = self.centers[way.target.0 as usize];
        let lane = self.right + ASIDE * count(lane);
        let (x1, x2) = (x1 + WIDTH / 2.0, x2 + WIDTH / 2.0 + 1.0);
        let (y1, y2) = (y1 + 6.0, y2 - 6.0);
        let path = format!("M{x1:.1} {y1:.1}H{lane:.1}V{y2:.1}H{x2:.1}");
        draw_path(
            out,
            way,
            &path,
            "label aside",
            (lane + 5.0, y1 * 0.5 + y2 * 0.5),
        );
    }
}

/// A line with what is written at it.
fn draw_path(out: &mut String, way: &Way, path: &str, label_class: &str, at: (f64, f64)) {
    let class = match way.kind {
        WayKind::Plain | WayKind::Join => "way",
        WayKind::Branch => "way branch",
        WayKind::Failure => "way failure",
    };
    let _ = write!(
        out,
        "<path class=\"{class}\" marker-end=\"url(#head)\" d=\"{path}\"/>"
    );
    if let Some(label) = &way.label {
        let _ = write!(
            out,
            "<text class=\"{label_class}\" x=\"{:.1}\" y=\"{:.1}\">{}<title>{}</title></text>",
            at.0,
            at.1,
            escaped(&shortened(label, 28)),
            escaped(&shortened(label, 400)),
        );
    }
}

/// A text inside XML.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter => safe.push(letter),
        }
    }
    safe
}
