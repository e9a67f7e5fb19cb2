//! The filter of system calls: what no confined command needs and what would lead out of the
//! confinement fails with "operation not permitted". Everything else is allowed, so that shells,
//! compilers, interpreters and test runners work as they are.

use crate::outcome::Layer;
use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;
use std::sync::OnceLock;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever their arguments.
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
    // Files by number rather than by path.
    libc::SYS_open_by_handle_at,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Does what other calls do, unfiltered.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Parts of the kernel with many faults and no ordinary use.
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

/// Flags of `clone` and `unshare` that make namespaces.
const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// The flag for a namespace of clocks. `clone` has another use for the same bit.
const NEW_CLOCKS: u64 = 0x80;

/// What puts characters into a terminal as if they were typed.
const TYPING: &[u64] = &[0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */];

/// What a command with network may have. Others lead to the machine's host or to rare parts of
/// the kernel.
const FAMILIES: &[libc::c_int] = &[
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// The filter of a command, compiled once: with network, and without.
static WITH_NETWORK: OnceLock<Programs> = OnceLock::new();
static WITHOUT_NETWORK: OnceLock<Programs> = OnceLock::new();

/// A filter, or why there is none.
type Programs = Result<[BpfProgram; 2], String>;

/// Compiles the filters, so that copies of this process have them.
pub(super) fn prepare() {
    compiled(true);
    compiled(false);
}

fn compiled(network: bool) -> &'static Programs {
    let place = if network {
        &WITH_NETWORK
    } else {
        &WITHOUT_NETWORK
    };
    place.get_or_init(|| programs(network).map_err(|error| error.to_string()))
}

/// Installs the filter for this process and all it starts.
pub(super) fn install(network: bool) -> Layer<()> {
    let apply = |program: &BpfProgram| apply_filter(program).map_err(|error| error.to_string());
    let installed = match compiled(network) {
        Ok(programs) => programs.iter().try_for_each(apply),
        Err(reason) => Err(reason.clone()),
    };
    match installed {
        Ok(()) => Layer::InForce(()),
        Err(reason) => Layer::Missing(reason),
    }
}

fn programs(network: bool) -> Result<[BpfProgram; 2], BackendError> {
    let mut refused = Rules::new();
    for number in REFUSED {
        refused.insert(*number, Vec::new());
    }
    let flags = NAMESPACES.iter().map(|flag| u64::from(flag.unsigned_abs()));
    let namespaces = flags
        .map(|flag| has(0, flag))
        .collect::<Result<Vec<_>, _>>()?;
    refused.insert(libc::SYS_clone, namespaces.clone());
    let clocks = has(0, NEW_CLOCKS)?;
    refused.insert(
        libc::SYS_unshare,
        namespaces.into_iter().chain([clocks]).collect(),
    );
    let typing = TYPING
        .iter()
        .map(|request| is(1, *request))
        .collect::<Result<_, _>>()?;
    refused.insert(libc::SYS_ioctl, typing);
    refused.insert(
        libc::SYS_socket,
        if network {
            vec![other_families()?]
        } else {
            Vec::new()
        },
    );
    on_this_processor(&mut refused);
    // Its flags are in memory, where a filter cannot look; without it `clone` is used.
    let mut absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
    on_this_processor(&mut absent);
    Ok([
        program(refused, libc::EPERM)?,
        program(absent, libc::ENOSYS)?,
    ])
}

fn program(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)?.try_into()
}

/// Matches when all bits of `flag` are set in an argument.
fn has(argument: u8, flag: u64) -> Result<SeccompRule, BackendError> {
    let masked = SeccompCmpOp::MaskedEq(flag);
    SeccompRule::new(vec![SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Qword,
        masked,
        flag,
    )?])
}

/// Matches when the half of an argument that the kernel looks at is `value`.
fn is(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    let equal = SeccompCmpOp::Eq;
    SeccompRule::new(vec![SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        equal,
        value,
    )?])
}

/// Matches a socket of any family that is not among [`FAMILIES`].
fn other_families() -> Result<SeccompRule, BackendError> {
    let different = FAMILIES.iter().map(|family| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    });
    SeccompRule::new(different.collect::<Result<_, _>>()?)
}

/// Adds the numbers by which the same calls can be made through the x32 interface.
#[cfg(target_arch = "x86_64")]
fn on_this_processor(rules: &mut Rules) {
    const X32: i64 = 0x4000_0000;
    /// Calls with a number of their own there.
    const OTHERWISE: &[(c_long, i64)] = &[
        (libc::SYS_ioctl, 514),
        (libc::SYS_ptrace, 521),
        (libc::SYS_kexec_load, 528),
        (libc::SYS_process_vm_readv, 539),
        (libc::SYS_process_vm_writev, 540),
    ];
    let both: Vec<_> = rules
        .iter()
        .flat_map(|(number, rule)| {
            let otherwise = OTHERWISE.iter().filter(move |(usual, _)| usual == number);
            std::iter::once(*number)
                .chain(otherwise.map(|(_, own)| *own))
                .map(move |number| (number | X32, rule.clone()))
        })
        .collect();
    rules.extend(both);
}

/// There is one interface only.
#[cfg(not(target_arch = "x86_64"))]
fn on_this_processor(_rules: &mut Rules) {}
