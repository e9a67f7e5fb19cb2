//! Rules of every operation, whichever front end calls it: permissions, the resolution of names,
//! and limits for callers from other machines.

#![expect(clippy::expect_used, clippy::panic, reason = "tests")]

mod messages;
mod roles;
mod rules;
mod support;
