//! The one runner for every child process the system starts, and the confinement of those that
//! are not trusted.
//!
//! [`run`] starts what an [`Invocation`] describes and returns when nothing of it is left: the
//! command and everything it started, daemons in sessions of their own included, end with it, at
//! its time limit, on [`Cancel::cancel`], and when this very process is killed. Output is kept up
//! to a cap and counted beyond it; nothing is inherited but what the invocation says.
//!
//! [`start`] is for programs that are talked to while they run: it returns once the program runs,
//! with pipes to its input and output. A thread of its own supervises it in the very same way.
//!
//! An invocation with a [`Policy`] is confined: it may write beneath the named folders only, it reads
//! those, the system's folders, the user's toolchains and what the policy declares, and it has no
//! network unless it is allowed. Which layers hold that on this machine, namespaces,
//! Landlock, seccomp, is told in [`Enforced`]; `docs/design/0007-child-processes.md` says what
//! each one does and what none of them does.
//!
//! Supervision and confinement are done by stages: copies of this program, started again once as their
//! nursery. The program has to
//! call [`stage_main`] first thing in `main`. Where it does not, as in the tests of other crates,
//! commands without a policy still run, in a process group of their own; those with one need
//! [`stages_from`].
//!
//! The crate works on Linux.

mod cancel;
mod capabilities;
mod control_group;
mod direct;
mod environment;
mod error;
mod invocation;
mod launch;
mod nursery;
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
    Captured, Ending, Enforced, EnforcedLimit, Finished, Layer, LimitMeans, LimitedResource,
    Namespace, Stream, Tree,
};
pub use readable::{
    contains_home, hide, is_clean, is_credential, prepare_home, refusal, toolchain_environment,
};
pub use run::{run, run_tapped};
pub use stage::stage_main;
pub use start::{Errors, Pipes, Running, start};
