//! Configuration: the home folder, the keys, and the value and source of each key.
//!
//! A value comes from the first of: a flag, an environment variable, the project's file
//! (`.cleveragents/config.toml` in the nearest folder), the file in the home folder, the built-in
//! default. [`KEYS`] is the only list of keys; [`Configuration`] resolves them with provenance,
//! [`Settings`] converts them to types, and [`ConfigFile`] changes a file so that no concurrent
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
pub use resolve::{ConfigLevel, Configuration, Flags, ResolvedKey, Source, Step};
pub use settings::Settings;
pub use value::Value;
