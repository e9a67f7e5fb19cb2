//! Traces: spans of what the program does, in the form that OpenTelemetry gave them.
//!
//! A [`Span`] is begun where something begins and told when it is dropped. The span that is going on is known by
//! thread ([`current`]); who goes on elsewhere takes it along: [`attach`] on another thread, [`within`] in a future.
//! Until somebody says where spans go ([`send_to`]) none is made, and asking for one costs a look at a flag.
//!
//! Spans tell names, sizes and outcomes, never what was said, and never a secret: their attributes are the constants
//! of [`name`], and the messages of errors are left out.

mod context;
pub mod name;
mod otlp;
mod span;

pub use context::{Attached, Context, Within, attach, current, within};
pub use otlp::request;
pub use span::{Attribute, Ended, Kind, Span, is_on, send_to};
