//! Configuration: where the home folder is, which keys exist, what each one is set to and by whom.
//!
//! A value comes from the first of: a flag, an environment variable, the project's file
//! (`.cleveragents/config.toml` beside the work), the file in the home folder, the built-in
//! default. [`KEYS`] is the one list of keys; [`Configuration`] resolves them with provenance,
//! [`Settings`] gives them their types, and [`ConfigFile`] changes a file so that no concurrent
//! reader or writer ever sees half of a change.
//!
//! The process environment is read in one place, [`Environment::of_process`].

mod atomic;
mod document;
mod environment;
mod error;
mod file;
mod home;
mod key;
mod project;
mod resolve;
mod settings;
mod value;

pub use environment::Environment;
pub use error::Error;
pub use file::{Change, ConfigFile};
pub use home::Home;
pub(crate) use key::tools;
pub use key::{Fallback, KEYS, Key, Kind, Scope, find, keys};
pub use project::project_file;
pub use resolve::{Configuration, Flags, Level, Resolved, Source, Step};
pub use settings::Settings;
pub use value::Value;
