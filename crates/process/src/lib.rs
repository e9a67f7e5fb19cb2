//! The runner for all child processes, and the confinement of untrusted ones.
//!
//! [`run`] starts what an [`Invocation`] describes and returns when nothing of it is left: the command and all its
//! descendants, including daemons in sessions of their own, end with it, at its time limit, on [`Cancel::cancel`], and
//! when this process is killed. Output is kept up to a limit and counted beyond it; nothing is inherited except what
//! the invocation names.
//!
//! [`start`] is for programs that we communicate with while they run: it returns once the program runs, with pipes to
//! its input and output. A separate thread supervises it in the same way.
//!
//! An invocation with a [`Policy`] is confined: it may write only below the named directories; it may read those, the
//! system's directories, the user's toolchains and what the policy declares; and it has no network unless that is
//! allowed. [`Enforcement`] reports which layers (namespaces, Landlock, seccomp) are in force on this machine;
//! `docs/design/0007-child-processes.md` explains what each one does and what none of them does.
//!
//! Stages implement supervision and confinement: they are copies of this program, forked from a second process of it,
//! the fork server. The program has to call [`stage_main`] at the start of `main`. Where it does not, as in the tests
//! of other crates, commands without a policy still run, in their own process group; those with one need
//! [`stages_from`].
//!
//! The crate supports Linux only.

mod cancel;
mod capabilities;
mod control_group;
mod direct;
mod environment;
mod error;
mod fork_server;
mod invocation;
mod launch;
mod outcome;
mod pipes;
mod policy;
mod readable;
mod run;
mod stage;
mod start;
mod system;
mod wire;

pub use cancel::Cancel;
pub use capabilities::{Capabilities, capabilities};
pub use environment::clean_environment;
pub use error::ProcessError;
pub use invocation::{Input, Invocation, Isolation, Layers, Limits, Output, Policy, WhenMissing};
pub use launch::stages_from;
pub use outcome::{
    CapturedStream, CommandResult, Ending, EnforcedLimit, Enforcement, Layer, LimitMeans,
    LimitedResource, Namespace, Stream, Tree,
};
pub use readable::{
    contains_home, hide, home_folder, is_clean, is_credential, prepare_home, refusal,
    toolchain_environment,
};
pub use run::{run, run_tapped};
pub use stage::stage_main;
pub use start::{Pipes, RunningProcess, StderrCallback, start};
