//! Enters new namespaces. With the right to do so directly; else through a namespace of users in
//! which only the calling user exists, so that files made inside belong to that user.

use super::{AtStep, Problem};
use crate::invocation::Isolation;
use crate::outcome::Namespace;
use crate::system;
use crate::wire::Plan;
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, UnshareFlags, capabilities};
use std::fs;

/// Enters the namespaces of the plan and tells which they are.
pub(super) fn enter(plan: &Plan) -> Result<Vec<Namespace>, Problem> {
    let Some(confinement) = &plan.confinement else {
        return Ok(Vec::new());
    };
    let mut wanted = match confinement.isolation {
        Isolation::None => return Ok(Vec::new()),
        Isolation::WithoutProcesses => Vec::new(),
        Isolation::Whole => vec![Namespace::Process],
    };
    wanted.extend([Namespace::Mount, Namespace::Ipc, Namespace::HostName]);
    if !confinement.network {
        wanted.push(Namespace::Network);
    }
    let flags = wanted
        .iter()
        .map(|one| flag(*one))
        .collect::<UnshareFlags>();
    let privileged =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if privileged && system::unshare(flags).is_ok() {
        return Ok(wanted);
    }
    enter_as_user(flags)?;
    wanted.push(Namespace::User);
    Ok(wanted)
}

fn enter_as_user(flags: UnshareFlags) -> Result<(), Problem> {
    let (user, group) = (geteuid(), getegid());
    system::unshare(flags | UnshareFlags::NEWUSER).at("making namespaces")?;
    // Without this the kernel accepts no map of groups; old kernels do not have the file.
    let _where_it_exists = fs::write("/proc/self/setgroups", "deny");
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).at("mapping the user")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).at("mapping the group")
}

fn flag(namespace: Namespace) -> UnshareFlags {
    match namespace {
        Namespace::User => UnshareFlags::NEWUSER,
        Namespace::Mount => UnshareFlags::NEWNS,
        Namespace::Process => UnshareFlags::NEWPID,
        Namespace::Ipc => UnshareFlags::NEWIPC,
        Namespace::HostName => UnshareFlags::NEWUTS,
        Namespace::Network => UnshareFlags::NEWNET,
    }
}
