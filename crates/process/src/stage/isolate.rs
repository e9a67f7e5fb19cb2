//! Enters new namespaces: directly if this process has the privilege, otherwise through a user namespace that maps only
//! the calling user. Files created inside belong to that user.

use super::{AtStep, StepFailure};
use crate::invocation::Isolation;
use crate::outcome::{Layer, Namespace};
use crate::system;
use crate::wire::{self, JOINING_NETWORK, Plan, Report};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, move_into_link_name_space,
};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// Brings up the loopback interface of the command's own network namespace, if the plan requests it. Does nothing in
/// the network namespace of the machine.
pub(super) fn raise_loopback(plan: &Plan, namespaces: &[Namespace]) -> Layer<()> {
    let is_requested = plan
        .confinement
        .as_ref()
        .is_some_and(|policy| policy.loopback);
    if !is_requested {
        return Layer::NotRequested;
    }
    if !namespaces.contains(&Namespace::Network) {
        return Layer::Missing("it needs a network namespace".to_owned());
    }
    match system::raise_loopback() {
        Ok(()) => Layer::InForce(()),
        Err(error) => Layer::Missing(error.to_string()),
    }
}

/// Enters the namespaces of the plan, joins those of other commands, and returns all of them.
pub(super) fn enter(plan: &Plan, joined: &[OwnedFd]) -> Result<Vec<Namespace>, StepFailure> {
    let Some(confinement) = &plan.confinement else {
        return Ok(Vec::new());
    };
    let mut namespaces = match confinement.isolation {
        Isolation::None => return Ok(Vec::new()),
        Isolation::WithoutProcesses => Vec::new(),
        Isolation::Whole => vec![Namespace::Process],
    };
    namespaces.extend([Namespace::Mount, Namespace::Ipc, Namespace::HostName]);
    if !confinement.network {
        namespaces.push(Namespace::Network);
    }
    let flags = namespaces
        .iter()
        .map(|namespace| flag(*namespace))
        .collect::<UnshareFlags>();
    if let [network, owner @ ..] = joined
        && !confinement.network
    {
        join(network, owner.first()).at(JOINING_NETWORK)?;
        system::unshare(flags.difference(UnshareFlags::NEWNET)).at("creating namespaces")?;
        if !owner.is_empty() {
            namespaces.push(Namespace::User);
        }
        return Ok(namespaces);
    }
    let privileged =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if privileged && system::unshare(flags).is_ok() {
        return Ok(namespaces);
    }
    enter_as_user(flags)?;
    namespaces.push(Namespace::User);
    Ok(namespaces)
}

/// Joins the network of another command, after the user namespace that owns it.
fn join(network: &OwnedFd, owner: Option<&OwnedFd>) -> rustix::io::Result<()> {
    if let Some(owner) = owner {
        move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))?;
    }
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
}

/// Sends the files of our network namespace, and of the user namespace if it is new, to the requesting process.
pub(super) fn share_network(control: &OwnedFd, namespaces: &[Namespace]) -> io::Result<()> {
    if !namespaces.contains(&Namespace::Network) {
        return Ok(());
    }
    let mut files = vec![File::open("/proc/self/ns/net")?];
    if namespaces.contains(&Namespace::User) {
        files.push(File::open("/proc/self/ns/user")?);
    }
    let files: Vec<_> = files.iter().map(std::os::fd::AsFd::as_fd).collect();
    wire::send_with(control, &Report::SharedNetwork, &files)
}

fn enter_as_user(flags: UnshareFlags) -> Result<(), StepFailure> {
    let (user, group) = (geteuid(), getegid());
    system::unshare(flags | UnshareFlags::NEWUSER).at("creating namespaces")?;
    // Without this write the kernel accepts no group map. Old kernels do not have the file.
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
