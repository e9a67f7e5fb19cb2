//! Rules of all operations, independent of the front end: permissions, the resolution of names, and restrictions for
//! remote callers.

#![expect(clippy::expect_used, clippy::panic, reason = "tests")]

mod messages;
mod roles;
mod rules;
mod support;
