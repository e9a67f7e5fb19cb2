//! Restrictions that a command process applies to itself before it executes the program: resources, file access,
//! privileges. The system call filter is in [`filter`](super::filter).

use super::mounts::{DEVICES, TERMINALS};
use crate::invocation::Limits;
use crate::outcome::{EnforcedLimit, Layer, LimitMeans, LimitedResource, Namespace};
use crate::readable::without_masked;
use crate::wire::Confinement;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope,
};
use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The newest Landlock interface that was reviewed. Older kernels apply the part that they support.
const NEWEST: ABI = ABI::V9;

/// Sets the resource limits and disables core dumps. Returns all limits in force, including those of the control group
/// and of the supervisor.
pub(super) fn limits(
    limits: &Limits,
    grouped: &[EnforcedLimit],
    namespaces: &[Namespace],
) -> Layer<Vec<EnforcedLimit>> {
    let is_grouped =
        |resource: LimitedResource| grouped.iter().any(|limit| limit.resource == resource);
    let single = limits
        .processes
        .filter(|_| !is_grouped(LimitedResource::Processes));
    let processes = single.map(|count| {
        count.saturating_add(if namespaces.contains(&Namespace::User) {
            // In a new user namespace the kernel counts, besides the command, only the two stages.
            2
        } else {
            processes_of_this_user()
        })
    });
    let resource_limits = [
        (Resource::Nproc, processes),
        (Resource::Data, limits.memory_bytes),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Core, Some(0)),
    ];
    let failed: Vec<String> = resource_limits
        .into_iter()
        .filter_map(|(resource, limit)| Some((resource, limit?)))
        .filter_map(|(resource, limit)| {
            let allowed = getrlimit(resource)
                .maximum
                .map_or(limit, |most| most.min(limit));
            let rlimit = Rlimit {
                current: Some(allowed),
                maximum: Some(allowed),
            };
            let error = setrlimit(resource, rlimit).err()?;
            Some(format!("{resource:?}: {error}"))
        })
        .collect();
    if !failed.is_empty() {
        return Layer::Missing(failed.join(", "));
    }
    let by = LimitMeans::ResourceLimit;
    let per_process = [
        (LimitedResource::ProcessMemory, limits.memory_bytes, by),
        (LimitedResource::FileSize, limits.file_bytes, by),
    ];
    let per_process = per_process.into_iter().filter_map(|(resource, most, by)| {
        Some(EnforcedLimit {
            resource,
            most: most?,
            by,
        })
    });
    let others = tree_limits(limits).into_iter();
    let others = others.filter(|limit| !is_grouped(limit.resource));
    let in_force: Vec<EnforcedLimit> = grouped
        .iter()
        .copied()
        .chain(others)
        .chain(per_process)
        .collect();
    if in_force.is_empty() {
        Layer::NotRequested
    } else {
        Layer::InForce(in_force)
    }
}

/// Limits on all processes together. The supervisor enforces the number of processes if the command runs as root,
/// because the kernel does not limit root, and the total memory, for which there is no resource limit.
fn tree_limits(limits: &Limits) -> Vec<EnforcedLimit> {
    let processes = limits.processes.map(|most| EnforcedLimit {
        resource: LimitedResource::Processes,
        most,
        by: if getuid().is_root() {
            LimitMeans::Supervisor
        } else {
            LimitMeans::ResourceLimit
        },
    });
    let memory = limits.total_memory_bytes.map(|most| EnforcedLimit {
        resource: LimitedResource::TotalMemory,
        most,
        by: LimitMeans::Supervisor,
    });
    processes.into_iter().chain(memory).collect()
}

/// Number of processes and threads of this user, all of which the kernel counts against the limit.
fn processes_of_this_user() -> u64 {
    let user = getuid().as_raw();
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter(|entry| entry.metadata().is_ok_and(|process| process.uid() == user))
        .map(|entry| fs::read_dir(entry.path().join("task")).map_or(1, Iterator::count) as u64)
        .sum()
}

/// Prevents all programs executed from here on from gaining privileges.
pub(super) fn no_new_privileges() -> rustix::io::Result<()> {
    set_no_new_privs(true)
}

/// Applies Landlock: this process may write only below `writable` and to the usual devices, may read only the paths of
/// the confinement, and may use TCP only if `may_use_tcp`. With its own root (`has_own_root`), hidden files do not
/// exist for the process; without one, the rules allow the readable paths around the hidden files.
pub(super) fn landlock(
    writable: &[PathBuf],
    confinement: &Confinement,
    has_own_root: bool,
    may_use_tcp: bool,
) -> Layer<i32> {
    match restrict(writable, confinement, has_own_root, may_use_tcp) {
        Ok(RestrictionStatus {
            ruleset: RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced,
            landlock: LandlockStatus::Available { effective_abi, .. },
            ..
        }) => Layer::InForce(effective_abi as i32),
        Ok(_) => Layer::Missing("this kernel does not have it, or it is not enabled".to_owned()),
        Err(error) => Layer::Missing(error.to_string()),
    }
}

fn restrict(
    writable: &[PathBuf],
    confinement: &Confinement,
    has_own_root: bool,
    may_use_tcp: bool,
) -> Result<RestrictionStatus, RulesetError> {
    let everything = AccessFs::from_all(NEWEST);
    let reading = AccessFs::from_read(NEWEST);
    let mut ruleset = Ruleset::default()
        .handle_access(everything)?
        .scope(Scope::from_all(NEWEST))?;
    if !may_use_tcp {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let view = &confinement.view;
    let readable = view.readable.iter().map(PathBuf::from);
    let paths = readable.map(|path| (path, reading));
    let paths = paths.chain(writable.iter().map(|path| (path.clone(), everything)));
    let mut rules: Vec<(PathBuf, BitFlags<AccessFs>)> = if has_own_root {
        // The new root contains only visible paths, so all its directories may be listed.
        let root = (PathBuf::from("/"), AccessFs::ReadDir.into());
        paths.chain([root]).collect()
    } else {
        let masked: Vec<PathBuf> = view.masked.iter().map(PathBuf::from).collect();
        paths
            .flat_map(|(path, access)| {
                // A path that is listed although it lies in a hidden directory stays readable.
                let masked_inside = masked.iter().filter(|mask| !path.starts_with(mask));
                let masked_inside: Vec<PathBuf> = masked_inside.cloned().collect();
                let parts = without_masked(&path, &masked_inside);
                parts.into_iter().map(move |part| (part, access))
            })
            .collect()
    };
    rules.push((PathBuf::from("/proc"), reading));
    let devices = DEVICES.iter().chain(TERMINALS).map(PathBuf::from);
    rules.extend(devices.map(|device| (device, AccessFs::from_file(NEWEST))));
    let rules = rules.into_iter().filter_map(|(path, access)| {
        // A path that cannot be opened cannot be used either.
        let handle = PathFd::new(&path).ok()?;
        let is_folder = handle.as_fd().try_clone_to_owned().ok().map(File::from)?;
        let access = if is_folder.metadata().ok()?.is_dir() {
            access
        } else {
            access & AccessFs::from_file(NEWEST)
        };
        Some(Ok::<_, RulesetError>(PathBeneath::new(handle, access)))
    });
    ruleset.create()?.add_rules(rules)?.restrict_self()
}

/// Permanently drops all privileges of root.
pub(super) fn drop_privileges() -> Layer<()> {
    let has_any = capabilities(None).map(|sets| !sets.permitted.is_empty());
    if !getuid().is_root() && has_any.is_ok_and(|any| !any) {
        return Layer::InForce(());
    }
    // The kernel returns `EINVAL` for the first number after its last capability.
    let bounded = (0..u64::BITS)
        .map(|number| CapabilitySet::from_bits_retain(1 << number))
        .map_while(
            |capability| match remove_capability_from_bounding_set(capability) {
                Err(rustix::io::Errno::INVAL) => None,
                other => Some(other),
            },
        )
        .collect::<Result<(), _>>();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    let dropped = bounded
        .and_then(|()| clear_ambient_capability_set())
        .and_then(|()| set_capabilities(None, sets));
    match dropped {
        Ok(()) => Layer::InForce(()),
        Err(error) => Layer::Missing(error.to_string()),
    }
}
