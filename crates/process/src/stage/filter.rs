//! The system call filter: calls that no confined command needs, or that could escape the confinement, fail with
//! "operation not permitted". Everything else is allowed, so that shells, compilers, interpreters and test runners
//! work unchanged.

use crate::outcome::Layer;
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls refused with any arguments.
const REFUSED: &[c_long] = &[
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Files by handle instead of by path.
    libc::SYS_open_by_handle_at,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Executes other calls without the filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Kernel interfaces with a large attack surface that ordinary programs do not use.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    // The machine itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    #[cfg(not(all(target_arch = "aarch64", target_env = "musl")))]
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
];

/// Flags of `clone` and `unshare` that create namespaces.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// `CLONE_NEWTIME`, only for `unshare`: `clone` uses this bit for the exit signal.
const NEW_CLOCKS: u64 = 0x80;

/// Requests that inject characters into a terminal's input.
const TERMINAL_INJECTION: &[u64] = &[0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */];

/// The sockets that a command may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// None.
    Forbidden,
    /// Sockets of the internet protocols and netlink queries about interfaces, for a command in its own network
    /// namespace. Unix sockets are refused, because a socket of another process may lie in a readable folder.
    Loopback,
    /// As `Loopback`, plus Unix sockets, for a command that Landlock keeps from sockets of other processes.
    LoopbackAndPaths,
    /// Internet, Unix and netlink sockets.
    Network,
}

impl Sockets {
    const ALL: [Self; 4] = [
        Self::Forbidden,
        Self::Loopback,
        Self::LoopbackAndPaths,
        Self::Network,
    ];

    /// The allowed address families. Others reach the host of a virtual machine or rarely used parts of the kernel.
    const fn families(self) -> &'static [libc::c_int] {
        match self {
            Self::Forbidden => &[],
            Self::Loopback => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
            Self::LoopbackAndPaths | Self::Network => &[
                libc::AF_UNIX,
                libc::AF_INET,
                libc::AF_INET6,
                libc::AF_NETLINK,
            ],
        }
    }

    /// Rules that refuse other sockets. An empty list refuses all sockets.
    fn rules(self) -> Result<Vec<SeccompRule>, BackendError> {
        Ok(match self {
            Self::Forbidden => Vec::new(),
            Self::Loopback | Self::LoopbackAndPaths => {
                vec![other_families(self.families())?, other_netlink()?]
            }
            Self::Network => vec![other_families(self.families())?],
        })
    }
}

/// The filters, compiled once, in the order of [`Sockets::ALL`].
static COMPILED: [OnceLock<Programs>; 4] = [const { OnceLock::new() }; 4];

/// The two programs of a filter, or the reason why compiling them failed.
type Programs = Result<[BpfProgram; 2], String>;

/// Compiles all filters, so that forks of this process inherit them.
pub(super) fn prepare() {
    for sockets in Sockets::ALL {
        compiled(sockets);
    }
}

fn compiled(sockets: Sockets) -> &'static Programs {
    COMPILED[sockets as usize].get_or_init(|| programs(sockets).map_err(|error| error.to_string()))
}

/// Installs the filter for this process and all its descendants.
pub(super) fn install(sockets: Sockets) -> Layer<()> {
    let apply = |program: &BpfProgram| apply_filter(program).map_err(|error| error.to_string());
    let installed = match compiled(sockets) {
        Ok(programs) => programs.iter().try_for_each(apply),
        Err(reason) => Err(reason.clone()),
    };
    match installed {
        Ok(()) => Layer::InForce(()),
        Err(reason) => Layer::Missing(reason),
    }
}

fn programs(sockets: Sockets) -> Result<[BpfProgram; 2], BackendError> {
    let mut refused = Rules::new();
    for number in REFUSED {
        refused.insert(*number, Vec::new());
    }
    let flags = NAMESPACES.iter().map(|flag| u64::from(flag.unsigned_abs()));
    let namespaces = flags
        .map(|flag| has_bits(0, flag))
        .collect::<Result<Vec<_>, _>>()?;
    refused.insert(libc::SYS_clone, namespaces.clone());
    let clocks = has_bits(0, NEW_CLOCKS)?;
    refused.insert(
        libc::SYS_unshare,
        namespaces.into_iter().chain([clocks]).collect(),
    );
    let injection = TERMINAL_INJECTION
        .iter()
        .map(|request| equals(1, *request))
        .collect::<Result<_, _>>()?;
    refused.insert(libc::SYS_ioctl, injection);
    refused.insert(libc::SYS_socket, sockets.rules()?);
    add_x32_calls(&mut refused);
    // The flags of `clone3` are in memory, which a filter cannot inspect. If it fails with `ENOSYS`, callers fall back
    // to `clone`.
    let mut unsupported = Rules::from([(libc::SYS_clone3, Vec::new())]);
    add_x32_calls(&mut unsupported);
    Ok([
        program(refused, libc::EPERM)?,
        program(unsupported, libc::ENOSYS)?,
    ])
}

fn program(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?.try_into()
}

/// Matches if all bits of `flag` are set in an argument.
fn has_bits(argument: u8, flag: u64) -> Result<SeccompRule, BackendError> {
    let masked = SeccompCmpOp::MaskedEq(flag);
    SeccompRule::new(vec![SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Qword,
        masked,
        flag,
    )?])
}

/// Matches if the lower half of an argument, the only half that the kernel uses, is `value`.
fn equals(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    let equal = SeccompCmpOp::Eq;
    SeccompRule::new(vec![SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        equal,
        value,
    )?])
}

/// Matches a netlink socket of any protocol except `NETLINK_ROUTE` (interfaces and routes).
fn other_netlink() -> Result<SeccompRule, BackendError> {
    let (equal, different) = (SeccompCmpOp::Eq, SeccompCmpOp::Ne);
    let family = u64::from(libc::AF_NETLINK.unsigned_abs());
    let routes = u64::from(libc::NETLINK_ROUTE.unsigned_abs());
    SeccompRule::new(vec![
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, equal, family)?,
        SeccompCondition::new(2, SeccompCmpArgLen::Dword, different, routes)?,
    ])
}

/// Matches a socket of any family outside `families`.
fn other_families(families: &[libc::c_int]) -> Result<SeccompRule, BackendError> {
    let different = families.iter().map(|family| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    });
    SeccompRule::new(different.collect::<Result<_, _>>()?)
}

/// Adds the same calls with their numbers in the x32 interface.
#[cfg(target_arch = "x86_64")]
fn add_x32_calls(rules: &mut Rules) {
    const X32: i64 = 0x4000_0000;
    /// Calls whose x32 number differs in more than the x32 bit.
    const X32_NUMBERS: &[(c_long, i64)] = &[
        (libc::SYS_ioctl, 514),
        (libc::SYS_ptrace, 521),
        (libc::SYS_kexec_load, 528),
        (libc::SYS_process_vm_readv, 539),
        (libc::SYS_process_vm_writev, 540),
    ];
    let both: Vec<_> = rules
        .iter()
        .flat_map(|(number, rule)| {
            let renumbered = X32_NUMBERS.iter().filter(move |(usual, _)| usual == number);
            std::iter::once(*number)
                .chain(renumbered.map(|(_, own)| *own))
                .map(move |number| (number | X32, rule.clone()))
        })
        .collect();
    rules.extend(both);
}

/// This processor has only one interface.
#[cfg(not(target_arch = "x86_64"))]
fn add_x32_calls(_rules: &mut Rules) {}
