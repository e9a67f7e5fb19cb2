//! OpenTelemetry traces from the spans that the crates record with `tracing`.
//!
//! [`TraceLayer`] is a layer for a `tracing` subscriber. It exports the spans that have the field `otel.kind`, with the
//! attributes that [`attribute`](mod@attribute) lists and no others: names, sizes and outcomes, never texts, arguments
//! or secrets. [`current`] is the context to send to another service in the `traceparent` header.
//!
//! No code here requires a subscriber: without a [`TraceLayer`] there is no span to export and no context to send.

pub mod attribute;
mod context;
mod layer;
mod otlp;

pub use attribute::Attribute;
pub use context::{TraceContext, current};
pub use layer::{FinishedSpan, Kind, TraceLayer, is_exported};
pub use otlp::request;
