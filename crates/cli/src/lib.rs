//! The command line of CleverAgents: what reads the environment and what writes to the terminal.
//!
//! [`config`] finds the home folder and resolves settings; [`output`] turns what a command has to
//! say into one of six formats. The logic of the commands is in the other crates.

pub mod config;
pub mod output;
