//! [`ControlGroup`]: limits that the kernel enforces on a command and all its descendants together. Requires that this
//! process may create cgroups (version 2).
//!
//! Each command gets its own group. Its parent is the nearest ancestor of our own group that we may write and whose
//! children have the required controllers. The command enters the group before it executes the program, and the group
//! is removed after the command ends. If this process is killed, the next process that needs a group removes the groups
//! left behind.

use crate::invocation::Limits;
use crate::outcome::{EnforcedLimit, LimitMeans, LimitedResource};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Prefix of our group names, followed by the creating process, its start time, and a number.
const PREFIX: &str = "cleveragents-";

/// Maximum time to wait until the kernel releases a group whose processes have ended.
const REMOVAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Directory in which groups are created, determined once per process.
static GROUP_PARENT: OnceLock<Option<GroupParent>> = OnceLock::new();

/// A directory in which we may create groups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupParent {
    folder: PathBuf,
    limits_processes: bool,
    limits_memory: bool,
}

/// The group of one command. Dropping it kills the processes left in the group and removes the group.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    folder: PathBuf,
    /// Limits that the group enforces.
    pub(crate) limits: Vec<EnforcedLimit>,
}

impl ControlGroup {
    /// Creates a group with these limits. Returns `None` if no group can be created, or if there is no limit.
    pub(crate) fn make(limits: &Limits) -> Option<Self> {
        if limits.processes.is_none() && limits.total_memory_bytes.is_none() {
            return None;
        }
        let place = GROUP_PARENT.get_or_init(|| {
            let place = find_group_parent(Path::new("/proc/self"))?;
            remove_abandoned(&place.folder);
            Some(place)
        });
        Self::make_in(place.as_ref()?, limits).ok()
    }

    fn make_in(place: &GroupParent, limits: &Limits) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        let start_time = start_time(process).unwrap_or(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = place
            .folder
            .join(format!("{PREFIX}{process}-{start_time}-{number}"));
        fs::create_dir(&folder)?;
        // From here on, dropping `group` on failure removes the directory.
        let mut group = Self {
            folder,
            limits: Vec::new(),
        };
        let processes = limits.processes.filter(|_| place.limits_processes);
        let memory = limits.total_memory_bytes.filter(|_| place.limits_memory);
        if let Some(most) = processes
            && group.set("pids.max", most).is_ok()
        {
            group.add_limit(LimitedResource::Processes, most);
        }
        if let Some(most) = memory
            && group.set("memory.max", most).is_ok()
        {
            // If swap were allowed, memory would move to swap, where it is not counted. Kernels without swap lack the
            // first file, and old kernels lack the second.
            let _where_it_exists = group.set("memory.swap.max", 0);
            let _where_it_exists = group.set("memory.oom.group", 1);
            group.add_limit(LimitedResource::TotalMemory, most);
        }
        if group.limits.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(group)
    }

    fn add_limit(&mut self, resource: LimitedResource, most: u64) {
        self.limits.push(EnforcedLimit {
            resource,
            most,
            by: LimitMeans::ControlGroup,
        });
    }

    fn set(&self, file: &str, value: u64) -> io::Result<()> {
        // The file is never created: if it is missing, the kernel does not support the limit.
        write(&self.folder.join(file), &value.to_string())
    }

    /// Opens the file through which a process enters the group, by writing `0` to it.
    pub(crate) fn entrance(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.folder.join("cgroup.procs"))
    }

    /// The exceeded limit for which the kernel killed processes of the group.
    pub(crate) fn exceeded(&self) -> Option<EnforcedLimit> {
        let events = fs::read_to_string(self.folder.join("memory.events")).ok()?;
        let killed = events
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "));
        let killed: u64 = killed?.trim().parse().ok()?;
        let mut limits = self.limits.iter().filter(|_| killed > 0);
        limits
            .find(|limit| limit.resource == LimitedResource::TotalMemory)
            .copied()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    OpenOptions::new()
        .write(true)
        .open(file)?
        .write_all(text.as_bytes())
}

/// Kills the processes of a group, and removes the group as soon as the kernel releases it.
fn remove(folder: &Path) {
    // Kernels before 5.14 do not have this file; the command has already ended in any case.
    let _where_it_exists = write(&folder.join("cgroup.kill"), "1");
    let started = std::time::Instant::now();
    while let Err(error) = fs::remove_dir(folder) {
        let is_busy = Errno::from_io_error(&error) == Some(Errno::BUSY);
        if !is_busy || started.elapsed() > REMOVAL_TIMEOUT {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Removes groups whose creator has exited. The start time distinguishes the creator from a later process with its id.
fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let mut numbers = rest.split('-').map(str::parse::<u64>);
        let (Some(Ok(process)), Some(Ok(recorded_start))) = (numbers.next(), numbers.next()) else {
            continue;
        };
        let actual_start = u32::try_from(process).ok().and_then(start_time);
        if actual_start != Some(recorded_start) {
            remove(&entry.path());
        }
    }
}

/// Start time of a process, in clock ticks since boot; `None` after it has exited.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The process name may contain any character, so the fields are counted after the last parenthesis.
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

/// Finds the nearest ancestor of a process's group in which groups with controllers can be created. Prefers ancestors
/// where both controllers are enabled already, then those where both can be enabled, then those with one controller.
fn find_group_parent(process: &Path) -> Option<GroupParent> {
    let groups = fs::read_to_string(process.join("cgroup")).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read(process.join("mountinfo")).ok()?;
    let mounts = mounts.split(|byte| *byte == b'\n');
    let (root, at) = mounts.into_iter().find_map(mounted_hierarchy)?;
    let inside = Path::new(own).strip_prefix(&root).ok()?;
    let own = at.join(inside);
    let above: Vec<&Path> = own
        .ancestors()
        .take_while(|folder| folder.starts_with(&at))
        .filter(|folder| is_writable(folder))
        .collect();
    let both = |place: &GroupParent| place.limits_processes && place.limits_memory;
    let mut places = above.iter().filter_map(|folder| enabled(folder));
    let already_enabled = places.find(both);
    let newly_enabled = || {
        let mut folders = above
            .iter()
            .filter(|folder| enable(folder, "+pids +memory"));
        folders.find_map(|folder| enabled(folder).filter(both))
    };
    // If a group contains processes itself, the kernel can enable `pids`, but not `memory`, for the groups in it.
    let partly_enabled = || above.iter().find_map(|folder| enabled(folder));
    let newly_enabled_pids = || {
        let mut folders = above.iter().filter(|folder| enable(folder, "+pids"));
        folders.find_map(|folder| enabled(folder))
    };
    already_enabled
        .or_else(newly_enabled)
        .or_else(partly_enabled)
        .or_else(newly_enabled_pids)
}

/// Root and mount point of the version 2 hierarchy, from a line of `mountinfo`.
fn mounted_hierarchy(line: &[u8]) -> Option<(PathBuf, PathBuf)> {
    let line = std::str::from_utf8(line).ok()?;
    let (mount, system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, at) = (fields.next()?, fields.next()?);
    (system.split(' ').next()? == "cgroup2").then(|| (root.into(), at.into()))
}

/// Whether groups can be created in a directory and processes moved into them. A move needs write access to its source,
/// its target and their common ancestor.
fn is_writable(folder: &Path) -> bool {
    let may = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    may(folder) && may(&folder.join("cgroup.procs"))
}

/// Limits available to groups created in a directory; `None` if there are none.
fn enabled(folder: &Path) -> Option<GroupParent> {
    let text = fs::read_to_string(folder.join("cgroup.subtree_control")).ok()?;
    let has = |name: &str| text.split_whitespace().any(|controller| controller == name);
    let place = GroupParent {
        folder: folder.to_owned(),
        limits_processes: has("pids"),
        limits_memory: has("memory"),
    };
    (place.limits_processes || place.limits_memory).then_some(place)
}

/// Enables all given controllers for the groups in a directory, or none of them. Does so only if the directory contains
/// no groups of other programs. Returns whether the controllers were enabled.
fn enable(folder: &Path, controllers: &str) -> bool {
    is_ours_alone(folder) && write(&folder.join("cgroup.subtree_control"), controllers).is_ok()
}

/// Whether a directory contains only our groups and the group of this process, so that enabling controllers affects no
/// other programs.
fn is_ours_alone(folder: &Path) -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::"));
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .all(|entry| {
            let name = entry.file_name();
            let is_origin =
                own.is_some_and(|own| Path::new(own).iter().any(|part| part == name.as_os_str()));
            is_origin || name.as_bytes().starts_with(PREFIX.as_bytes())
        })
}

#[cfg(test)]
mod tests {
    use super::{find_group_parent, mounted_hierarchy, remove_abandoned, start_time};
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A directory with the files of a hierarchy, and the `/proc` entry of a process in it.
    fn fake_machine(name: &str, own: &str) -> (PathBuf, PathBuf) {
        let top = std::env::temp_dir().join(format!("control-{name}-{}", std::process::id()));
        let _left_over = fs::remove_dir_all(&top);
        let (hierarchy, process) = (top.join("hierarchy"), top.join("process"));
        fs::create_dir_all(hierarchy.join(own.trim_start_matches('/'))).expect("groups");
        fs::create_dir_all(&process).expect("a process");
        let mount = format!(
            "30 23 0:26 / /sys rw - sysfs s rw\n31 23 0:27 / {} rw,nosuid - cgroup2 c rw\n",
            hierarchy.display()
        );
        fs::write(process.join("mountinfo"), mount).expect("mounts");
        fs::write(process.join("cgroup"), format!("4:memory:/x\n0::{own}\n")).expect("groups");
        (hierarchy, process)
    }

    fn write_group_files(folder: &Path, controllers: &str, enabled: &str) {
        fs::write(folder.join("cgroup.controllers"), controllers).expect("a file");
        fs::write(folder.join("cgroup.subtree_control"), enabled).expect("a file");
        fs::write(folder.join("cgroup.procs"), "").expect("a file");
    }

    #[test]
    fn the_nearest_group_with_controllers_is_found() {
        let (hierarchy, process) = fake_machine("nearest", "/service/main");
        write_group_files(&hierarchy, "cpu memory pids", "cpu memory pids");
        write_group_files(&hierarchy.join("service"), "memory pids", "memory pids");
        write_group_files(&hierarchy.join("service/main"), "memory pids", "pids");
        let place = find_group_parent(&process).expect("a place");
        assert_eq!(place.folder, hierarchy.join("service"));
        assert!(place.limits_memory && place.limits_processes);
        fs::remove_dir_all(hierarchy.parent().expect("a folder")).expect("tidied");
    }

    #[test]
    fn without_a_writable_hierarchy_no_group_is_created() {
        let (hierarchy, process) = fake_machine("none", "/others");
        write_group_files(&hierarchy, "memory pids", "memory pids");
        fs::remove_file(hierarchy.join("cgroup.procs")).expect("removed");
        assert_eq!(find_group_parent(&process), None);
        fs::write(process.join("mountinfo"), "").expect("no mounts");
        assert_eq!(find_group_parent(&process), None);
        fs::remove_dir_all(hierarchy.parent().expect("a folder")).expect("tidied");
    }

    #[test]
    fn groups_of_processes_that_are_gone_are_removed() {
        let (hierarchy, _) = fake_machine("abandoned", "/");
        let own = std::process::id();
        let now = start_time(own).expect("our own start time");
        let names = [
            (format!("cleveragents-{own}-{now}-0"), true),
            (format!("cleveragents-{own}-{}-0", now + 1), false),
            ("cleveragents-4194305-1-7".to_owned(), false),
            ("others".to_owned(), true),
        ];
        for (name, _) in &names {
            fs::create_dir(hierarchy.join(name)).expect("a group");
        }
        remove_abandoned(&hierarchy);
        for (name, stays) in &names {
            assert_eq!(hierarchy.join(name).exists(), *stays, "{name}");
        }
        fs::remove_dir_all(hierarchy.parent().expect("a folder")).expect("tidied");
    }

    #[test]
    fn only_hierarchies_of_version_2_are_used() {
        let old = b"33 23 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids";
        assert_eq!(mounted_hierarchy(old), None);
        let new = b"34 23 0:30 /a /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
        let expected = (PathBuf::from("/a"), PathBuf::from("/sys/fs/cgroup"));
        assert_eq!(mounted_hierarchy(new), Some(expected));
    }
}
