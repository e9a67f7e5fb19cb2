//! The whole process tree is killed: when the command ends, at the time limit, on cancel, and when this process dies.

use crate::harness::{
    ConfinementMode, Sandbox, eventually, for_every, is_alive, started, stdout, tests, try_run,
};
use crate::parent::Parent;
use cleveragents_domain::{Code, Diagnose};
use cleveragents_process::{Cancel, Ending, run};
use rustix::process::{Pid, Signal, getuid, kill_process};
use std::fs;
use std::io::Read as _;
use std::thread;
use std::time::Duration;

tests![
    daemons_die_with_the_command,
    the_time_limit_kills_the_whole_tree,
    cancel_kills_the_whole_tree,
    a_cancelled_handle_stops_later_commands,
    nothing_survives_the_death_of_this_process,
    signals_are_forwarded,
    signals_without_a_name_are_ignored,
    a_fork_bomb_is_limited,
    processes_that_ignore_signals_die_too,
    one_handle_serves_several_commands,
    a_command_does_not_outlive_its_supervisor,
    short_lived_orphans_do_not_keep_processes_from_being_counted,
    commands_run_after_their_fork_server_was_killed,
    the_fork_server_ends_with_this_process,
];

/// Delay after which a surviving daemon creates a file, in seconds.
const DELAY: u64 = 4;

/// Python code that starts a daemon: forked twice, in its own session, with the mark on its command line. A surviving
/// daemon creates a file after `DELAY`.
fn daemon(mark: &str) -> String {
    format!(
        "import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp('sh', ['sh', '-c', 'touch ready; trap \"\" TERM HUP INT; sleep {DELAY}; touch late; \
         sleep 1000; # {mark}'])
    os._exit(0)
os.wait()
while not os.path.exists('ready'): time.sleep(0.01)
"
    )
}

/// A text that only the command lines of one test contain, even if two runs of the tests overlap.
fn mark(test: &str, number: usize) -> String {
    format!("{test}-mark-{number}-of-{}", std::process::id())
}

/// Asserts that no process with the mark is alive, and that none creates the delayed file.
fn assert_gone(mark: &str, sandbox: &Sandbox) {
    assert!(!is_alive(mark), "{mark} is alive");
    thread::sleep(Duration::from_secs(DELAY + 1));
    assert!(!sandbox.inside.join("late").exists(), "{mark} survived");
}

fn daemons_die_with_the_command() {
    for_every(|number, mode| {
        let mark = mark("daemon", number);
        let sandbox = Sandbox::with_mode(mode);
        let script = format!("{}print('done')", daemon(&mark));
        let finished = started(&sandbox.invocation("python3", &["-c", &script]));
        assert_eq!(finished.ending, Ending::Exited(0), "{finished:?}");
        // The shell, and the sleep it waits for.
        assert!(
            (1..=2).contains(&finished.killed_leftovers),
            "{mode:?} {finished:?}"
        );
        assert_gone(&mark, &sandbox);
    });
}

fn the_time_limit_kills_the_whole_tree() {
    for_every(|number, mode| {
        let mark = mark("limit", number);
        let sandbox = Sandbox::with_mode(mode);
        let script = format!("{}print('x', flush=True); time.sleep(1000)", daemon(&mark));
        let mut invocation = sandbox.invocation("python3", &["-c", &script]);
        invocation.limits.time = Some(Duration::from_secs(4));
        let finished = started(&invocation);
        assert_eq!(finished.ending, Ending::TimedOut);
        assert!(
            finished.elapsed >= Duration::from_secs(4),
            "{:?}",
            finished.elapsed
        );
        assert!(
            finished.elapsed < Duration::from_secs(30),
            "{:?}",
            finished.elapsed
        );
        assert_eq!(stdout(&finished), "x\n");
        assert!(
            (1..=2).contains(&finished.killed_leftovers),
            "{mode:?} {finished:?}"
        );
        assert!(!is_alive(&mark), "{mode:?} {mark} is alive");
    });
}

fn cancel_kills_the_whole_tree() {
    for_every(|number, mode| {
        let mark = mark("cancel", number);
        let sandbox = Sandbox::with_mode(mode);
        let script = format!("{}time.sleep(1000)", daemon(&mark));
        let invocation = sandbox.invocation("python3", &["-c", &script]);
        let cancel = Cancel::new();
        let finished = thread::scope(|scope| {
            let running = scope.spawn(|| run(&invocation, &cancel));
            eventually("the daemon", || sandbox.inside.join("ready").exists());
            cancel.cancel();
            running.join().expect("no panic").expect("it started")
        });
        assert_eq!(finished.ending, Ending::Cancelled);
        assert_gone(&mark, &sandbox);
    });
}

fn a_cancelled_handle_stops_later_commands() {
    let cancel = Cancel::new();
    cancel.cancel();
    let sandbox = Sandbox::new();
    let finished = run(&sandbox.invocation("touch", &["ran"]), &cancel).expect("no failure");
    assert_eq!(finished.ending, Ending::Cancelled);
    assert!(!sandbox.inside.join("ran").exists());
}

fn nothing_survives_the_death_of_this_process() {
    for_every(|number, mode| {
        let mark = mark("death", number);
        let sandbox = Sandbox::with_mode(mode);
        let script = format!("{}time.sleep(1000) # {mark}", daemon(&mark));
        let mut parent = Parent::spawn(mode, "capture", &sandbox, &["python3", "-c", &script]);
        eventually("the daemon", || sandbox.inside.join("ready").exists());
        assert!(is_alive(&mark));
        parent.child.kill().expect("a kill");
        parent.child.wait().expect("its end");
        eventually("the end of all", || !is_alive(&mark));
        assert_gone(&mark, &sandbox);
    });
}

fn signals_are_forwarded() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let script = "trap 'echo term; exit 3' TERM; touch ready; while :; do sleep 0.05; done";
        let invocation = sandbox.invocation("sh", &["-c", script]);
        let cancel = Cancel::new();
        let finished = thread::scope(|scope| {
            let running = scope.spawn(|| run(&invocation, &cancel));
            eventually("the trap", || sandbox.inside.join("ready").exists());
            cancel.signal(15);
            running.join().expect("no panic").expect("it started")
        });
        assert_eq!(finished.ending, Ending::Exited(3), "{mode:?}");
        assert_eq!(stdout(&finished), "term\n");
    }
}

fn signals_without_a_name_are_ignored() {
    let sandbox = Sandbox::new();
    let invocation = sandbox.invocation("sh", &["-c", "touch ready; sleep 0.5"]);
    let cancel = Cancel::new();
    let finished = thread::scope(|scope| {
        let running = scope.spawn(|| run(&invocation, &cancel));
        eventually("the start", || sandbox.inside.join("ready").exists());
        for number in [-1, 0, 99, i32::MAX, i32::MIN] {
            cancel.signal(number);
        }
        running.join().expect("no panic").expect("it started")
    });
    assert_eq!(finished.ending, Ending::Exited(0));
}

/// The kernel limits ordinary users. It does not limit root, so for root the supervisor kills all processes.
fn a_fork_bomb_is_limited() {
    let script = "import os, time
children = 0
try:
    # Stops even if no limit applies.
    while children < 2000:
        if os.fork() == 0:
            time.sleep(1000)
        children += 1
except OSError:
    print('refused after', children)
";
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let mut invocation = sandbox.invocation("python3", &["-c", script]);
        invocation.limits.processes = Some(40);
        let finished = started(&invocation);
        if getuid().is_root() {
            assert_eq!(
                finished.ending,
                Ending::Signalled(9),
                "{mode:?} {}",
                stdout(&finished)
            );
        } else {
            let refused: usize = stdout(&finished)
                .strip_prefix("refused after ")
                .and_then(|count| count.trim().parse().ok())
                .unwrap_or_else(|| panic!("{mode:?} {finished:?}"));
            assert!((20..60).contains(&refused), "{mode:?} {refused}");
        }
        assert!(
            finished.killed_leftovers > 10,
            "{mode:?} {}",
            finished.killed_leftovers
        );
    }
}

fn processes_that_ignore_signals_die_too() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let mut invocation = sandbox.invocation(
            "sh",
            &["-c", "trap '' TERM INT HUP QUIT; while :; do sleep 1; done"],
        );
        invocation.limits.time = Some(Duration::from_millis(500));
        assert_eq!(started(&invocation).ending, Ending::TimedOut);
    }
}

fn one_handle_serves_several_commands() {
    let cancel = Cancel::new();
    let sandbox = Sandbox::new();
    thread::scope(|scope| {
        let running: Vec<_> = (0..4)
            .map(|number| {
                let script = format!("touch ready{number}; sleep 1000");
                let invocation = sandbox.invocation("sh", &["-c", &script]);
                let cancel = cancel.clone();
                scope.spawn(move || run(&invocation, &cancel))
            })
            .collect();
        eventually("all of them", || {
            (0..4).all(|number| {
                fs::exists(sandbox.inside.join(format!("ready{number}"))).is_ok_and(|there| there)
            })
        });
        cancel.cancel();
        for command in running {
            let finished = command.join().expect("no panic").expect("it started");
            assert_eq!(finished.ending, Ending::Cancelled);
        }
    });
}

/// A trusted command can kill its supervisor, but then it is killed too.
fn a_command_does_not_outlive_its_supervisor() {
    let sandbox = Sandbox::with_mode(ConfinementMode::Unconfined);
    let mark = mark("supervisor", 0);
    let script = format!("kill -9 $PPID; sleep {DELAY}; touch late; # {mark}");
    let error =
        try_run(&sandbox.invocation("sh", &["-c", &script])).expect_err("no report arrives");
    assert_eq!(error.code(), Code::SupervisorLost);
    eventually("the end of the command", || !is_alive(&mark));
    assert_gone(&mark, &sandbox);
}

/// Orphans that exit at once keep waking the supervisor, which must still count processes.
fn short_lived_orphans_do_not_keep_processes_from_being_counted() {
    if !getuid().is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let script = "(while :; do (true &); done) & i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i+1)); done; wait";
    let mut invocation = sandbox.invocation("sh", &["-c", script]);
    invocation.limits.processes = Some(20);
    let finished = run(&invocation, &Cancel::new()).expect("it ran");
    assert_eq!(finished.ending, Ending::Signalled(9), "{finished:?}");
}

/// Ids of the fork servers of a process.
fn fork_servers_of(parent: u32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("processes");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter(|number: &i32| {
            let line = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            let fields = line
                .rsplit_once(')')
                .map(|(_, rest)| rest.split_whitespace());
            let is_child =
                fields.and_then(|mut fields| fields.nth(1)?.parse().ok()) == Some(parent);
            let command_line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            is_child && String::from_utf8_lossy(&command_line).contains("__process-stage")
        })
        .collect()
}

/// A running command completes or is killed, and the next command gets a new fork server.
fn commands_run_after_their_fork_server_was_killed() {
    for_every(|number, mode| {
        let mark = mark("fork_server", number);
        let sandbox = Sandbox::with_mode(mode);
        let script = format!(
            "[ -e ready ] && exec echo again; touch ready; sleep {DELAY}; touch late; # {mark}"
        );
        let mut parent = Parent::spawn(mode, "twice", &sandbox, &["sh", "-c", &script]);
        eventually("the command", || sandbox.inside.join("ready").exists());
        let servers = fork_servers_of(parent.child.id());
        assert_eq!(servers.len(), 1, "{servers:?}");
        let fork_server = Pid::from_raw(servers[0]).expect("a number");
        kill_process(fork_server, Signal::KILL).expect("a kill");
        let mut reported = String::new();
        let output = parent.child.stdout.as_mut().expect("a pipe");
        output.read_to_string(&mut reported).expect("its report");
        parent.child.wait().expect("its end");
        assert!(reported.contains("stdout \"again\\n\""), "{reported}");
        if reported.starts_with("stdout") {
            // Without a process namespace, the supervisor survives its fork server, and the command completes.
            assert!(sandbox.inside.join("late").exists(), "{reported}");
            return;
        }
        assert!(reported.contains("SupervisorLost"), "{reported}");
        eventually("the end of all", || !is_alive(&mark));
        assert_gone(&mark, &sandbox);
    });
}

fn the_fork_server_ends_with_this_process() {
    let sandbox = Sandbox::new();
    let script = "touch ready; sleep 1000";
    let mode = ConfinementMode::Unconfined;
    let mut parent = Parent::spawn(mode, "capture", &sandbox, &["sh", "-c", script]);
    eventually("the command", || sandbox.inside.join("ready").exists());
    let servers = fork_servers_of(parent.child.id());
    assert_eq!(servers.len(), 1, "{servers:?}");
    parent.child.kill().expect("a kill");
    parent.child.wait().expect("its end");
    eventually("its end", || {
        !fs::exists(format!("/proc/{}", servers[0])).unwrap_or(true)
    });
}
