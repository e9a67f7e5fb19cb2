//! Custom tools: defined by the user in a YAML file, run as a child process in the sandbox.
//!
//! A tool is a `command` in any language, or `code` with a `language`. It reads its arguments as JSON
//! from standard input and writes its answer as one JSON value to standard output; standard error is
//! its log.

mod declared;
mod entries;
mod file;
mod inline;
mod run;
mod scalar;
mod schema;

pub use entries::Header;
pub use file::read;
pub use inline::{Inline, Override};
pub use run::{CustomTool, Program};
pub use scalar::{UnresolvedValue, resolve};
pub use schema::schema;
