//! Confinement of privileges, access to other processes, system calls and resources.

use crate::harness::{ConfinementMode, Sandbox, need_namespaces, stderr, stdout, tests};
use cleveragents_process::{Ending, Layer, LimitedResource, Limits};
use std::fs;

tests![
    privileges_are_dropped_permanently,
    dangerous_system_calls_are_refused,
    new_namespaces_are_refused,
    nothing_can_be_typed_into_a_terminal,
    other_processes_are_hidden_or_inaccessible,
    the_supervisor_cannot_be_killed_or_inspected,
    memory_is_limited,
    the_memory_of_all_processes_together_is_limited,
    shared_memory_is_limited,
    threads_are_limited,
    sizes_of_files_are_limited,
    no_memory_dump_is_written,
    setuid_programs_gain_nothing,
];

fn privileges_are_dropped_permanently() {
    for mode in ConfinementMode::confined() {
        let finished = mode.sh("grep -E '^(Cap|NoNew)' /proc/self/status");
        let text = stdout(&finished);
        for line in text.lines() {
            let (name, value) = line.split_once(":\t").expect("name and value");
            match name {
                "NoNewPrivs" => assert_eq!(value, "1"),
                // For an ordinary user without a user namespace, the bounding set stays unchanged.
                "CapBnd"
                    if mode == ConfinementMode::Landlock
                        && !rustix::process::getuid().is_root() => {}
                _ => assert_eq!(value, "0000000000000000", "{mode:?} {name}"),
            }
        }
        assert_eq!(text.lines().count(), 6);
    }
}

fn dangerous_system_calls_are_refused() {
    let finished = Sandbox::new().python(
        "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
x86 = os.uname().machine == 'x86_64'
calls = {
    'ptrace': 101 if x86 else 117, 'mount': 165 if x86 else 40, 'umount2': 166 if x86 else 39,
    'pivot_root': 155 if x86 else 41, 'setns': 308 if x86 else 268, 'bpf': 321 if x86 else 280,
    'perf_event_open': 298 if x86 else 241, 'userfaultfd': 323 if x86 else 282,
    'keyctl': 250 if x86 else 219, 'add_key': 248 if x86 else 217,
    'io_uring_setup': 425, 'io_uring_enter': 426, 'open_tree': 428, 'move_mount': 429,
    'fsopen': 430, 'pidfd_getfd': 438, 'mount_setattr': 442, 'reboot': 169 if x86 else 142,
    'swapon': 167 if x86 else 224, 'process_vm_readv': 310 if x86 else 270,
    'process_vm_writev': 311 if x86 else 271, 'init_module': 175 if x86 else 105,
    'kexec_load': 246 if x86 else 104, 'open_by_handle_at': 304 if x86 else 265,
}
if x86:
    calls.update({'x32 socket': 41 | 1 << 30, 'x32 ptrace': 521 | 1 << 30})
for name, number in calls.items():
    ctypes.set_errno(0)
    result = libc.syscall(number, -1, -1, -1, -1, -1, -1)
    if (result, ctypes.get_errno()) != (-1, 1):
        print(name, result, ctypes.get_errno())
ctypes.set_errno(0)
if libc.syscall(435, 0, 0) != -1 or ctypes.get_errno() != 38: print('clone3')
",
    );
    assert_eq!(finished.ending, Ending::Exited(0), "{}", stderr(&finished));
    assert_eq!(stdout(&finished), "");
}

fn new_namespaces_are_refused() {
    for mode in ConfinementMode::filtered() {
        for kind in [
            "--user",
            "--mount",
            "--net",
            "--pid --fork",
            "--ipc",
            "--uts",
        ] {
            let finished = mode.sh(&format!("unshare {kind} true"));
            assert!(!finished.ending.is_success(), "{mode:?} {kind}");
            assert!(
                stderr(&finished).contains("not permitted"),
                "{}",
                stderr(&finished)
            );
        }
    }
}

fn nothing_can_be_typed_into_a_terminal() {
    let finished = Sandbox::new().python(
        "import fcntl, os
master, slave = os.openpty()
for request in (0x5412, 0x541c, 0x5412 | 1 << 32):
    try:
        fcntl.ioctl(slave, request & 0xffffffff, b'x'); print('typed')
    except PermissionError:
        pass",
    );
    assert_eq!(stdout(&finished), "", "{}", stderr(&finished));
    assert_eq!(finished.ending, Ending::Exited(0));
}

fn other_processes_are_hidden_or_inaccessible() {
    need_namespaces();
    let finished = Sandbox::new().sh("ls /proc | grep -c '^[0-9]'");
    let processes: usize = stdout(&finished).trim().parse().expect("a count");
    assert!(processes <= 5, "{processes}");
    let own = std::process::id();
    for mode in ConfinementMode::confined() {
        let finished = mode.sh(&format!("kill -0 {own}"));
        assert!(!finished.ending.is_success(), "{mode:?}");
        let finished = mode.sh(&format!("cat /proc/{own}/environ"));
        assert!(finished.stdout.bytes.is_empty(), "{mode:?}");
    }
    assert!(
        ConfinementMode::Unconfined
            .sh(&format!("kill -0 {own}"))
            .ending
            .is_success()
    );
}

fn the_supervisor_cannot_be_killed_or_inspected() {
    for mode in ConfinementMode::confined() {
        let finished = mode.sh(
            "kill -9 $PPID 2>/dev/null; kill -STOP $PPID 2>/dev/null; kill -9 1 2>/dev/null
cat /proc/$PPID/environ /proc/$PPID/mem /proc/$PPID/maps 2>/dev/null; readlink /proc/$PPID/fd/* /proc/$PPID/cwd /proc/$PPID/exe; head -c1 /proc/$PPID/fd/* 2>/dev/null
setsid sleep 1000 & exit 4",
        );
        assert_eq!(finished.ending, Ending::Exited(4), "{mode:?}");
        assert_eq!(stdout(&finished), "", "{mode:?}");
        assert_eq!(finished.killed_leftovers, 1, "{mode:?}");
    }
}

fn memory_is_limited() {
    let mut sandbox = Sandbox::new();
    sandbox.limits = Limits {
        memory_bytes: Some(256 << 20),
        ..sandbox.limits
    };
    let script = "
try:
    mode = bytearray(1 << 30); print('had it')
except MemoryError:
    print('refused')";
    assert_eq!(stdout(&sandbox.python(script)), "refused\n");
    sandbox.limits.memory_bytes = None;
    assert_eq!(stdout(&sandbox.python(script)), "had it\n");
}

fn the_memory_of_all_processes_together_is_limited() {
    for mode in ConfinementMode::every() {
        let mut sandbox = Sandbox::with_mode(mode);
        sandbox.limits.total_memory_bytes = Some(256 << 20);
        let script = "
import os, time
for _ in range(8):
    if os.fork() == 0:
        mode = bytearray(b'x') * (64 << 20); time.sleep(50); os._exit(0)
for _ in range(8): os.wait()
print('had it')";
        let finished = sandbox.python(script);
        assert_eq!(finished.ending, Ending::Signalled(9), "{mode:?}");
        let limit = finished.exceeded.expect("the limit that was exceeded");
        assert_eq!(limit.resource, LimitedResource::TotalMemory, "{mode:?}");
        let Layer::InForce(limits) = &finished.enforced.limits else {
            panic!("{mode:?} {finished:?}");
        };
        assert_eq!(limits, &[limit], "{mode:?}");
    }
    let finished = Sandbox::new().sh("true");
    assert_eq!(finished.enforced.limits, Layer::NotRequested);
}

/// Shared memory that no process maps counts too.
fn shared_memory_is_limited() {
    const IN_A_FOLDER: &str = "
f = open('/dev/shm/x', 'wb')
for _ in range(600): f.write(bytes(1 << 20))";
    const IN_MEMORY_FILES: &str = "
import os, time
files = [os.memfd_create('x') for _ in range(3)]
for f in files:
    for _ in range(200): os.write(f, bytes(1 << 20))
time.sleep(50)";
    const MAPPED: &str = "
import mmap, time
held = mmap.mmap(-1, 600 << 20)
for at in range(0, 600 << 20, 4096): held[at] = 1
time.sleep(50)";
    const A_SEGMENT: &str = "
import ctypes, time
c = ctypes.CDLL(None)
c.shmat.restype = ctypes.c_void_p
at = c.shmat(c.shmget(0, 600 << 20, 0o1600), None, 0)
ctypes.memset(at, 1, 600 << 20)
time.sleep(50)";
    need_namespaces();
    for held in ConfinementMode::every() {
        for script in [IN_A_FOLDER, IN_MEMORY_FILES, MAPPED, A_SEGMENT] {
            let is_private = !matches!(
                held,
                ConfinementMode::Landlock | ConfinementMode::Unconfined
            );
            if script == IN_A_FOLDER && !is_private {
                continue;
            }
            let mut sandbox = Sandbox::with_mode(held);
            sandbox.limits.total_memory_bytes = Some(256 << 20);
            let finished = sandbox.python(&format!("{script}\nprint('had it')"));
            assert_eq!(stdout(&finished), "", "{held:?} {script}");
            assert!(!finished.ending.is_success(), "{held:?} {script}");
            if script != IN_A_FOLDER {
                let limit = finished.exceeded.expect("the limit that was exceeded");
                assert_eq!(limit.resource, LimitedResource::TotalMemory, "{held:?}");
            }
        }
    }
}

fn threads_are_limited() {
    for held in ConfinementMode::every() {
        let mut sandbox = Sandbox::with_mode(held);
        sandbox.limits.processes = Some(100);
        let script = "
import os, threading, time
for _ in range(400):
    try: threading.Thread(target=time.sleep, args=(50,)).start()
    except RuntimeError: os._exit(1)
os._exit(0)";
        let finished = sandbox.python(script);
        assert!(!finished.ending.is_success(), "{held:?} {finished:?}");
    }
}

fn sizes_of_files_are_limited() {
    let mut sandbox = Sandbox::new();
    sandbox.limits = Limits {
        file_bytes: Some(1 << 20),
        ..sandbox.limits
    };
    let finished = sandbox.sh("exec head -c 5000000 /dev/zero > large");
    assert_eq!(
        finished.ending,
        Ending::Signalled(25),
        "{}",
        stderr(&finished)
    );
    assert_eq!(
        fs::metadata(sandbox.inside.join("large"))
            .expect("the file")
            .len(),
        1 << 20
    );
}

fn no_memory_dump_is_written() {
    for mode in ConfinementMode::every() {
        assert_eq!(stdout(&mode.sh("ulimit -Hc")), "0\n", "{mode:?}");
    }
}

fn setuid_programs_gain_nothing() {
    let finished = Sandbox::new().sh("cp /usr/bin/id own-id && chmod 6755 own-id && ./own-id -u");
    assert_eq!(finished.ending, Ending::Exited(0), "{}", stderr(&finished));
    assert_eq!(
        stdout(&finished).trim(),
        rustix::process::getuid().as_raw().to_string()
    );
}
