//! Output of commands: a [`Report`] of panels, tables and texts, printed by a [`Printer`] in one of
//! six formats.
//!
//! A command never writes to the terminal. It builds a [`Report`] (blocks for users, `data` for
//! programs) or fails with a [`CommandError`]; the printer does the rest. `rich`, `color`, `table`
//! and `plain` are for users: control characters in their text are escaped first, so that no
//! stored message or name can control the terminal. `json` and `yaml` print one
//! document, the envelope, and nothing else.

mod block;
mod boxed;
mod cell;
pub(crate) mod console;
mod document;
mod envelope;
mod error;
mod format;
mod grid;
mod layout;
mod live;
mod markdown;
pub(crate) mod notify;
mod pager;
mod paint;
mod printer;
mod progress;
mod report;
mod sequential;
mod standard_streams;
mod suggestion;
mod timing;
mod visible;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod snapshots;

pub(crate) use document::{Target, WriteMode, path_text};
pub(crate) use layout::{fold_lines, truncate, width, wrap, wrap_help};
pub(crate) use live::{write_err, write_out};
pub(crate) use markdown::Markdown;
pub(crate) use pager::Pager;
pub(crate) use paint::{Paint, Tone};
pub(crate) use suggestion::{command, commands, hint_text, write_recovery};

pub use block::{Align, Entry, Panel, Table};
pub use cell::Cell;
pub use error::CommandError;
pub use format::{Format, UnknownFormat, choose};
pub use printer::Printer;
pub use progress::Progress;
pub use report::{Level, Report, Status};
pub use standard_streams::StandardStreams;
pub use timing::Timing;
pub use visible::{visible, visible_lines};
