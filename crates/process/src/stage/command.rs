//! Prepares the command process: its streams, directory, session, limits and confinement. Then this process executes
//! the program.

use super::filter::Sockets;
use super::supervise::Supervisor;
use super::{AtStep, FAILED, StepFailure, filter, restrict};
use crate::invocation::{Output, WhenMissing};
use crate::outcome::{Enforcement, Layer, Namespace};
use crate::system;
use crate::wire::{self, Confinement, Plan, Report};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Signal, chdir, getpid, set_dumpable_behavior,
    set_parent_process_death_signal, setpgid, setsid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::termios::tcsetpgrp;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// First Landlock version that denies connections to other processes' Unix sockets in the file system.
const SOCKETS_CONFINED: i32 = 9;

/// The open files with which a command starts.
pub(super) struct Files {
    pub(super) streams: [OwnedFd; 3],
    /// File through which the command enters its control group.
    pub(super) entrance: Option<OwnedFd>,
}

/// Turns this process into the command. Returns an exit code only after it has reported a failure, or in a rehearsal,
/// which executes no program.
pub(super) fn become_it(
    plan: &Plan,
    files: Files,
    supervisor: &OwnedFd,
    writable: &[PathBuf],
    held: &Supervisor,
) -> u8 {
    let report = match prepare(plan, files, writable, held) {
        Err(StepFailure { step, errno }) => Report::NotStarted { step, errno },
        Ok(enforced) if violates_policy(&enforced, plan.confinement.as_ref()) => {
            Report::Refused(enforced)
        }
        Ok(enforced) => {
            let started = Report::Started(enforced);
            if wire::send(supervisor, &started).is_err() {
                return FAILED;
            }
            if plan.rehearsal {
                return 0;
            }
            execute(plan)
        }
    };
    let _unless_gone = wire::send(supervisor, &report);
    FAILED
}

fn prepare(
    plan: &Plan,
    files: Files,
    writable: &[PathBuf],
    held: &Supervisor,
) -> Result<Enforcement, StepFailure> {
    set_dumpable_behavior(DumpableBehavior::Dumpable).at("setting its attributes")?;
    // The command must die with its supervisor.
    set_parent_process_death_signal(Some(Signal::KILL)).at("setting its attributes")?;
    let Files { streams, entrance } = files;
    let [input, output, errors] = streams;
    match plan.output {
        Output::Capture => {
            setsid().at("creating its session")?;
        }
        Output::Terminal => {
            setpgid(None, None).at("creating its process group")?;
            if held.takes_terminal {
                tcsetpgrp(&input, getpid()).at("passing the terminal")?;
            }
        }
        Output::Inherit => {}
    }
    dup2_stdin(input).at("connecting standard input")?;
    dup2_stdout(output).at("connecting standard output")?;
    dup2_stderr(errors).at("connecting standard error")?;
    chdir(plan.folder.as_os_str()).at("entering its folder")?;
    let mut enforced = held.enforced(plan);
    // If the command cannot enter its group, the limits that need no group apply.
    let is_grouped = entrance.is_some_and(|entrance| rustix::io::write(entrance, b"0").is_ok());
    let grouped = if is_grouped {
        plan.grouped.as_slice()
    } else {
        &[]
    };
    enforced.limits = restrict::limits(&plan.limits, grouped, &held.namespaces);
    if let Some(confinement) = &plan.confinement {
        restrict::no_new_privileges().at("disabling new privileges")?;
        let layers = confinement.layers;
        let has_loopback = enforced.loopback == Layer::InForce(());
        let may_use_tcp = confinement.network || has_loopback;
        enforced.landlock = if layers.landlock {
            let has_own_root = held.namespaces.contains(&Namespace::Mount);
            restrict::landlock(writable, confinement, has_own_root, may_use_tcp)
        } else {
            Layer::Missing("switched off".to_owned())
        };
        enforced.privileges_dropped = restrict::drop_privileges();
        enforced.seccomp = if layers.seccomp {
            filter::install(if confinement.network {
                Sockets::Network
            } else if !has_loopback {
                Sockets::Forbidden
            } else if matches!(enforced.landlock, Layer::InForce(abi) if abi >= SOCKETS_CONFINED) {
                Sockets::LoopbackAndPaths
            } else {
                Sockets::Loopback
            })
        } else {
            Layer::Missing("switched off".to_owned())
        };
    }
    system::close_all_on_exec().at("closing files")?;
    system::unblock_signals().at("unblocking signals")?;
    Ok(enforced)
}

/// Whether the policy requires a layer that is not in force.
fn violates_policy(enforced: &Enforcement, confinement: Option<&Confinement>) -> bool {
    confinement.is_some_and(|confinement| {
        confinement.when_missing == WhenMissing::Refuse
            && !(enforced.reading_confined()
                && enforced.writing_confined()
                && (confinement.network || enforced.network_confined()))
    })
}

/// Executes the program; returns a report only if that fails.
fn execute(plan: &Plan) -> Report {
    let error = Command::new(&plan.program)
        .args(&plan.arguments)
        .env_clear()
        .envs(plan.environment.iter().map(|(name, value)| (name, value)))
        .exec();
    let is_missing = matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    );
    if is_missing && !exists(plan) {
        return Report::NotFound;
    }
    let step = if is_missing {
        "finding its interpreter"
    } else {
        "running it"
    };
    let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
    Report::NotStarted {
        step: step.to_owned(),
        errno,
    }
}

/// Whether the program's file exists. If it does, `NotFound` from `exec` means that its interpreter is missing.
fn exists(plan: &Plan) -> bool {
    if plan.program.as_bytes().contains(&b'/') {
        return Path::new(&plan.program).exists();
    }
    let path = plan.environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or_else(
        || OsStr::new("/bin:/usr/bin"),
        |(_, value)| value.as_os_str(),
    );
    env::split_paths(path).any(|folder| folder.join(&plan.program).exists())
}
