//! [`Diagram`]: boxes and lines between them, drawn by [`mermaid`](super::mermaid()), [`dot`](super::dot()) and
//! [`svg`](super::svg()).

/// Boxes and lines between them.
#[derive(Debug, Clone, Default)]
pub struct Diagram {
    /// Title of the drawing, or its accessible description.
    pub title: String,
    /// Arrangement of the boxes.
    pub arrangement: Arrangement,
    /// Boxes of the diagram.
    pub nodes: Vec<DiagramNode>,
    /// Lines, in the order in which they leave a box.
    pub edges: Vec<DiagramEdge>,
    /// The box that an arrow from outside points to.
    pub entry: Option<usize>,
}

/// Arrangement of the boxes of a diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrangement {
    /// In rows, each box below its predecessors. For graphs.
    #[default]
    Layers,
    /// One box per line, indented below its parent. For trees; each box comes after its parent.
    Outline,
}

/// A box.
#[derive(Debug, Clone, Default)]
pub struct DiagramNode {
    /// Text lines, the heading first.
    pub lines: Vec<String>,
    /// Full description, shown on hover.
    pub tooltip: String,
    /// Shape of the box.
    pub shape: NodeShape,
    /// Group, which determines the colour.
    pub group: Option<NodeGroup>,
    /// Whether the box is an exit.
    pub is_exit: bool,
    /// Whether the box is drawn faded, because it is obsolete.
    pub is_faded: bool,
}

/// Boxes with the same colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeGroup {
    /// Name, unique in the diagram.
    pub name: &'static str,
    /// Colour such as `#0969da`, dark enough for white text.
    pub color: &'static str,
}

/// The shape of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeShape {
    /// Sharp corners.
    #[default]
    Rectangle,
    /// Round corners.
    Rounded,
    /// A choice between edges.
    Choice,
    /// A nested diagram.
    Nested,
    /// The start of concurrent branches.
    Fork,
    /// Work of a program, without a model.
    Slanted,
}

/// A line from one box to another.
#[derive(Debug, Clone)]
pub struct DiagramEdge {
    /// Index of the source in [`Diagram::nodes`].
    pub from: usize,
    /// Index of the target in [`Diagram::nodes`].
    pub to: usize,
    /// Text at the line.
    pub label: Option<String>,
    /// Style of the line.
    pub style: EdgeStyle,
}

/// Style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EdgeStyle {
    /// Thin.
    #[default]
    Plain,
    /// Thick: taken at the same time as others.
    Thick,
    /// Dashed: taken after a failure, or obsolete.
    Dashed,
}

impl Diagram {
    /// Distinct groups of the boxes.
    pub(super) fn groups(&self) -> Vec<NodeGroup> {
        let mut groups: Vec<NodeGroup> = Vec::new();
        for group in self.nodes.iter().filter_map(|node| node.group) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }
}

/// Reduces a text to one line of at most `max_length` characters, without control characters.
pub fn shortened(text: &str, max_length: usize) -> String {
    let clean: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    let clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    if clean.chars().count() <= max_length {
        return clean;
    }
    let start: String = clean.chars().take(max_length.saturating_sub(1)).collect();
    start + "…"
}
