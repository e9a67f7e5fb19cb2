//! Drawings: [`diagram`] converts an actor to boxes and lines, and [`mermaid`], [`dot`] and [`svg`] draw any [`Diagram`].
//! [`text`] draws an actor for terminals.

mod actor;
mod diagram;
mod dot;
mod layout;
mod mermaid;
mod svg;
mod text;

pub use actor::diagram;
pub(crate) use actor::{DrawnEdge, DrawnEdgeKind, drawn_edges, node_label, title};
pub use diagram::{
    Arrangement, Diagram, DiagramEdge, DiagramNode, EdgeStyle, NodeGroup, NodeShape, shortened,
};
pub use dot::dot;
pub use mermaid::mermaid;
pub use svg::svg;
pub use text::text;
