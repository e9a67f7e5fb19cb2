//! The runner for all child processes, and the confinement of untrusted ones.
//!
//! [`run`] runs the command of an [`Invocation`] and returns when the command and all its descendants have ended.
//! Descendants, including daemons in their own sessions, are killed when the command exits, at its time limit, on
//! [`Cancel::cancel`], and when this process is killed. Output is kept up to a limit and counted beyond it. The command
//! inherits only what the invocation names.
//!
//! [`start`] is for programs that we communicate with while they run: it returns once the program runs, with pipes to
//! its input and output. A separate thread supervises it in the same way. [`BackgroundCommands`] runs commands whose
//! output is read later.
//!
//! An invocation with a [`Policy`] is confined. It may write only below the writable directories. It may read those,
//! the system's directories, the user's toolchains, and the paths that the policy declares. It has no network unless
//! the policy allows it. [`Enforcement`] reports which layers (namespaces, Landlock, seccomp) are in force on this
//! machine; `docs/design/0007-child-processes.md` explains the effect and the limits of each layer.
//!
//! Supervision and confinement are implemented by *stages*: helper processes between this process and the command. They
//! are copies of this program, forked from the fork server, a second process of this program. The program has to call
//! [`stage_main`] at the start of `main`. In programs that do not, such as the tests of other crates, commands without
//! a policy still run, in their own process group; commands with a policy need [`stages_from`].
//!
//! The crate supports Linux only.

mod background;
mod cancel;
mod capabilities;
mod control_group;
mod credentials;
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
mod shared_network;
mod stage;
mod start;
mod system;
mod toolchains;
mod wire;

pub use background::{BackgroundCommands, BackgroundOutput};
pub use cancel::Cancel;
pub use capabilities::{Capabilities, capabilities};
pub use credentials::{is_clean, is_credential};
pub use environment::clean_environment;
pub use error::ProcessError;
pub use invocation::{Input, Invocation, Isolation, Layers, Limits, Output, Policy, WhenMissing};
pub use launch::stages_from;
pub use outcome::{
    CapturedStream, CommandResult, Ending, EnforcedLimit, Enforcement, Layer, LimitMeans,
    LimitedResource, Namespace, Stream, Tree,
};
pub use readable::{contains_home, hide, prepare_home, refusal};
pub use run::{run, run_tapped};
pub use shared_network::SharedNetwork;
pub use stage::stage_main;
pub use start::{Pipes, RunningProcess, StderrCallback, start};
pub use toolchains::{home_folder, toolchain_environment};
