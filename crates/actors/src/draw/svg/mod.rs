//! Draws a diagram as an SVG picture: self-contained, with an accessible title.
//!
//! Colours are attributes of the elements and the picture has a light background, because many viewers support neither
//! style sheet variables nor dark mode. Boxes are as wide as their text needs.

mod outline;

use std::fmt::Write as _;

use super::diagram::{Arrangement, Diagram, DiagramEdge, EdgeStyle, NodeShape, shortened};
use super::layout::{Layout, count};

const PAPER: &str = "#ffffff";
const INK: &str = "#1f2328";
const SOFT: &str = "#59636e";
const LINE: &str = "#818b98";
const BOX: &str = "#f6f8fa";

const MIN_WIDTH: f64 = 120.0;
const PADDING: f64 = 14.0;
const HEIGHT: f64 = 52.0;
const GAP: f64 = 40.0;
const RISE: f64 = 104.0;
const MARGIN: f64 = 24.0;
/// Space at the side for labels of lines that lead back.
const ASIDE_LABEL: f64 = 190.0;
/// Space at the side for each line that leads back.
const ASIDE: f64 = 18.0;
/// Font sizes in pixels.
const LARGE: f64 = 13.0;
const SMALL: f64 = 11.0;

/// Draws a diagram as an SVG picture.
pub fn svg(diagram: &Diagram) -> String {
    match diagram.arrangement {
        Arrangement::Layers => layers(diagram),
        Arrangement::Outline => outline::outline(diagram),
    }
}

/// Estimated width of a text. An overestimate, because the viewer's font is unknown.
fn text_width(text: &str, size: f64) -> f64 {
    let letters = text.chars().map(|letter| match letter {
        'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.36,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 1.0,
        'A'..='Z' | '&' | '#' | '…' | '→' => 0.78,
        '\0'..='\u{2fff}' => 0.62,
        _ => 1.1,
    });
    size * letters.sum::<f64>()
}

/// Writes the start of a picture, with its background and title.
fn open(out: &mut String, title: &str, width: f64, height: f64) {
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"title\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"{LARGE}\" fill=\"{INK}\">\
         <title id=\"title\">{}</title><defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" \
         markerWidth=\"10\" markerHeight=\"10\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\">\
         <path fill=\"{LINE}\" d=\"M0 0 8 4 0 8Z\"/></marker></defs>\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"{PAPER}\"/>",
        escaped(&shortened(title, 200)),
    );
}

/// CSS class and stroke attributes of a line.
const fn stroke(style: EdgeStyle) -> (&'static str, &'static str) {
    match style {
        EdgeStyle::Plain => ("way", "stroke-width=\"1.4\""),
        EdgeStyle::Thick => ("way branch", "stroke-width=\"2.6\""),
        EdgeStyle::Dashed => (
            "way failure",
            "stroke-width=\"1.4\" stroke-dasharray=\"3 3\"",
        ),
    }
}

/// The two lines of text in a box.
fn box_texts(lines: &[String]) -> (String, String) {
    let line = |number: usize, max_length: usize| {
        let text = lines.get(number).map_or("", String::as_str);
        shortened(text, max_length)
    };
    (line(0, 32), line(1, 44))
}

fn layers(diagram: &Diagram) -> String {
    let layout = Layout::new(diagram);
    let box_width = diagram.nodes.iter().fold(MIN_WIDTH, |widest, node| {
        let (head, below) = box_texts(&node.lines);
        let text = text_width(&head, LARGE).max(text_width(&below, SMALL));
        widest.max(text + 2.0 * PADDING)
    });
    let widest = layout.rows.iter().map(Vec::len).max().unwrap_or(1);
    let is_back = |edge: &&DiagramEdge| layout.is_back(edge.from, edge.to);
    let backs = diagram.edges.iter().filter(is_back).count();
    let inner = count(widest) * (box_width + GAP) - GAP;
    let picture = SvgDrawing {
        centers: centers(&layout, diagram.nodes.len(), inner, box_width),
        diagram,
        layout,
        box_width,
        right: MARGIN + inner,
    };
    let aside = if backs > 0 { ASIDE_LABEL } else { 0.0 };
    let width = inner + 2.0 * MARGIN + ASIDE * (count(backs) + 1.0) + aside;
    let height = 2.0 * MARGIN + count(picture.layout.rows.len()) * RISE + 20.0;
    let mut out = String::new();
    open(&mut out, &diagram.title, width, height);
    picture.edges(&mut out);
    picture.boxes(&mut out);
    out.push_str("</svg>\n");
    out
}

struct SvgDrawing<'a> {
    diagram: &'a Diagram,
    layout: Layout,
    centers: Vec<(f64, f64)>,
    box_width: f64,
    /// Right edge of the boxes.
    right: f64,
}

fn centers(layout: &Layout, nodes: usize, inner: f64, box_width: f64) -> Vec<(f64, f64)> {
    let mut centers = vec![(0.0, 0.0); nodes];
    for (number, row) in layout.rows.iter().enumerate() {
        let y = MARGIN + 20.0 + count(number) * RISE + HEIGHT / 2.0;
        let own = count(row.len()) * (box_width + GAP) - GAP;
        let left = MARGIN + (inner - own) / 2.0 + box_width / 2.0;
        for (place, index) in row.iter().enumerate() {
            centers[*index] = (left + count(place) * (box_width + GAP), y);
        }
    }
    centers
}

impl SvgDrawing<'_> {
    fn boxes(&self, out: &mut String) {
        for (number, node) in self.diagram.nodes.iter().enumerate() {
            let (x, y) = self.centers[number];
            let (left, top) = (x - self.box_width / 2.0, y - HEIGHT / 2.0);
            let thickness = if node.is_exit { 3.0 } else { 1.2 };
            let dashes = match node.shape {
                NodeShape::Choice => " stroke-dasharray=\"6 3\"",
                _ => "",
            };
            let round = if node.shape == NodeShape::Rounded {
                16
            } else {
                4
            };
            let color = node.group.map_or(LINE, |group| group.color);
            let (head, below) = box_texts(&node.lines);
            let _ = write!(
                out,
                "<g text-anchor=\"middle\"><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" \
                 width=\"{:.1}\" height=\"{HEIGHT}\" rx=\"{round}\" fill=\"{BOX}\" stroke=\"{color}\" \
                 stroke-width=\"{thickness}\"{dashes}/><text x=\"{x:.1}\" y=\"{:.1}\">{}</text>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"{SMALL}\" fill=\"{SOFT}\">{}</text></g>",
                escaped(&shortened(&node.tooltip, 200)),
                self.box_width,
                y - 3.0,
                escaped(&head),
                y + 14.0,
                escaped(&below),
            );
            if self.diagram.entry == Some(number) {
                let _ = write!(
                    out,
                    "<path class=\"way\" fill=\"none\" stroke=\"{LINE}\" stroke-width=\"1.4\" \
                     marker-end=\"url(#head)\" d=\"M{x:.1} {:.1}V{:.1}\"/>",
                    top - 22.0,
                    top - 1.0
                );
            }
        }
    }

    fn edges(&self, out: &mut String) {
        let mut lanes = 0;
        let mut begin = 0;
        let edges = &self.diagram.edges;
        while begin < edges.len() {
            let from = edges[begin].from;
            let own = edges[begin..].iter().take_while(|edge| edge.from == from);
            let own: Vec<&DiagramEdge> = own.collect();
            begin += own.len();
            let (back, forward): (Vec<&DiagramEdge>, Vec<&DiagramEdge>) = own
                .into_iter()
                .partition(|edge| self.layout.is_back(from, edge.to));
            for (number, edge) in forward.iter().enumerate() {
                // Several lines from one box start at different places.
                let part = (count(number) + 0.5) / count(forward.len()) - 0.5;
                self.down(out, edge, part * self.box_width * 0.6);
            }
            for edge in back {
                lanes += 1;
                self.back(out, edge, lanes);
            }
        }
    }

    /// Draws a line to a lower row.
    fn down(&self, out: &mut String, edge: &DiagramEdge, shift: f64) {
        let (x1, y1) = self.centers[edge.from];
        let (x2, y2) = self.centers[edge.to];
        let (x1, y1, y2) = (x1 + shift, y1 + HEIGHT / 2.0, y2 - HEIGHT / 2.0 - 1.0);
        let bend = (RISE - HEIGHT) / 2.0 + 8.0;
        let rows = self.layout.row_of[edge.to] - self.layout.row_of[edge.from];
        // A line that passes other rows runs between the boxes.
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
        let middle = (x1 * 0.5 + x2 * 0.5, y1 * 0.5 + y2 * 0.5 + 3.0);
        draw_path(out, edge, &path, "middle", middle);
    }

    /// Draws a line to its own or a higher row, at the side of the picture.
    fn back(&self, out: &mut String, edge: &DiagramEdge, lane: usize) {
        let (x1, y1) = self.centers[edge.from];
        let (x2, y2) = self.centers[edge.to];
        let lane = self.right + ASIDE * count(lane);
        let half = self.box_width / 2.0;
        let (x1, x2) = (x1 + half, x2 + half + 1.0);
        let (y1, y2) = (y1 + 6.0, y2 - 6.0);
        let path = format!("M{x1:.1} {y1:.1}H{lane:.1}V{y2:.1}H{x2:.1}");
        let place = (lane + 5.0, y1 * 0.5 + y2 * 0.5);
        draw_path(out, edge, &path, "start", place);
    }
}

/// Draws a line and its label. The label has a background, so that no line crosses the text.
fn draw_path(out: &mut String, edge: &DiagramEdge, path: &str, anchor: &str, at: (f64, f64)) {
    let (class, attributes) = stroke(edge.style);
    let _ = write!(
        out,
        "<path class=\"{class}\" fill=\"none\" stroke=\"{LINE}\" {attributes} marker-end=\"url(#head)\" d=\"{path}\"/>"
    );
    let Some(label) = &edge.label else {
        return;
    };
    let text = shortened(label, 28);
    let width = text_width(&text, SMALL) + 4.0;
    let left = match anchor {
        "middle" => at.0 - width / 2.0,
        _ => at.0 - 2.0,
    };
    let _ = write!(
        out,
        "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"14\" fill=\"{PAPER}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{SMALL}\" fill=\"{SOFT}\" text-anchor=\"{anchor}\">\
         <title>{}</title>{}</text>",
        at.1 - 11.0,
        at.0,
        at.1,
        escaped(&shortened(label, 400)),
        escaped(&text),
    );
}

/// Escapes a text for XML.
fn escaped(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::super::diagram::{Diagram, DiagramNode};
    use super::{LARGE, svg, text_width};

    /// The values of an attribute, in the order of the picture.
    fn values(drawn: &str, attribute: &str) -> Vec<f64> {
        let marker = format!(" {attribute}=\"");
        let parts = drawn.split(&marker).skip(1);
        parts
            .filter_map(|part| part.split('"').next()?.parse().ok())
            .collect()
    }

    #[test]
    fn a_box_is_as_wide_as_its_text() {
        let text = "W".repeat(32);
        let diagram = Diagram {
            nodes: vec![DiagramNode {
                lines: vec![text.clone(), "agent".to_owned()],
                ..DiagramNode::default()
            }],
            ..Diagram::default()
        };
        let drawn = svg(&diagram);
        let widest = values(&drawn, "width").into_iter().fold(0.0, f64::max);
        assert!(widest > text_width(&text, LARGE), "{drawn}");
    }

    #[test]
    fn colours_are_fixed() {
        let drawn = svg(&Diagram {
            nodes: vec![DiagramNode::default()],
            ..Diagram::default()
        });
        assert!(drawn.contains("fill=\"#ffffff\"") && drawn.contains("fill=\"#1f2328\""));
        for unsupported in ["var(", "@media", "<style"] {
            assert!(!drawn.contains(unsupported), "{drawn}");
        }
    }
}
