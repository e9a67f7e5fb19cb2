//! Commands in the background: their network, output, limits and end.

use crate::harness::{ConfinementMode, Sandbox, need_namespaces, stderr, stdout, tests};
use cleveragents_process::{
    BackgroundCommands, BackgroundOutput, Cancel, Ending, Invocation, ProcessError, SharedNetwork,
    run,
};
use std::fs;
use std::time::{Duration, Instant};

tests![
    background_servers_answer_other_commands_over_loopback,
    background_output_is_read_from_an_offset,
    background_commands_are_waited_for_and_stopped,
    background_commands_end_with_their_owner,
    background_output_is_limited,
    background_commands_are_limited_in_number,
    background_commands_that_cannot_start_are_errors,
];

const SECONDS: Duration = Duration::from_secs(20);

fn invocation(sandbox: &Sandbox, script: &str) -> Invocation {
    let mut invocation = sandbox.invocation("sh", &["-c", script]);
    invocation.limits.time = Some(Duration::from_mins(1));
    invocation
}

fn start(commands: &BackgroundCommands, sandbox: &Sandbox, script: &str) -> u32 {
    commands
        .start("a", invocation(sandbox, script), Cancel::new(), ())
        .expect("it starts")
}

fn read(
    commands: &BackgroundCommands,
    job: u32,
    from: Option<u64>,
    wait: Duration,
) -> BackgroundOutput {
    commands
        .read("a", job, from, wait, &Cancel::new())
        .expect("it exists")
}

fn text(output: &BackgroundOutput) -> String {
    String::from_utf8_lossy(&output.bytes).into_owned()
}

fn wait_until(what: &str, mut is_reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + SECONDS;
    while !is_reached() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process whose command line contains a text exists on this machine.
fn has_process(marker: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("the processes");
    processes.filter_map(Result::ok).any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker)
    })
}

const SERVER: &str = "exec python3 -u -c '
import http.server
server = http.server.HTTPServer((\"127.0.0.1\", 8123), http.server.SimpleHTTPRequestHandler)
print(\"serving\")
server.serve_forever()'";

const CLIENT: &str = "python3 -c '
import urllib.request
print(urllib.request.urlopen(\"http://127.0.0.1:8123/\").status)'";

fn background_servers_answer_other_commands_over_loopback() {
    need_namespaces();
    for mode in [
        ConfinementMode::Whole,
        ConfinementMode::WithoutProcesses,
        ConfinementMode::Namespaces,
    ] {
        let mut sandbox = Sandbox::with_mode(mode);
        sandbox.policy().loopback = true;
        let commands = BackgroundCommands::default();
        let server = start(&commands, &sandbox, SERVER);
        wait_until("the server prints a line", || {
            text(&read(&commands, server, Some(0), Duration::ZERO)) == "serving\n"
        });
        let client = |network: Option<SharedNetwork>| {
            let mut client = invocation(&sandbox, CLIENT);
            if let Some(policy) = &mut client.confinement {
                policy.shared_network = network;
            }
            run(&client, &Cancel::new()).expect("it ran")
        };
        let finished = client(commands.network());
        assert_eq!(stdout(&finished), "200\n", "{mode:?} {}", stderr(&finished));
        assert!(finished.enforced.network_confined(), "{mode:?}");
        // Another background command uses the same network.
        let second = start(&commands, &sandbox, CLIENT);
        let ended = read(&commands, second, None, SECONDS);
        assert_eq!(text(&ended), "200\n", "{mode:?}");
        // A command with a network of its own does not find the server.
        let finished = client(None);
        assert!(
            stderr(&finished).contains("refused"),
            "{}",
            stderr(&finished)
        );
        commands.end("a");
        assert_eq!(commands.network(), None);
    }
}

fn background_output_is_read_from_an_offset() {
    let sandbox = Sandbox::new();
    let commands = BackgroundCommands::default();
    let script = "echo one >&2; until test -e go; do sleep 0.02; done; echo two; echo three";
    let job = start(&commands, &sandbox, script);
    wait_until("the first line", || {
        !read(&commands, job, Some(0), Duration::ZERO)
            .bytes
            .is_empty()
    });
    assert!(read(&commands, job, None, Duration::ZERO).bytes.is_empty());
    fs::write(sandbox.inside.join("go"), "").expect("a file");
    let ended = read(&commands, job, None, SECONDS);
    assert_eq!((text(&ended).as_str(), ended.from), ("two\nthree\n", 4));
    let result = ended.result.expect("it ended").expect("it ran");
    assert_eq!(result.ending, Ending::Exited(0));
    // Earlier output can be read again, even after the end.
    let again = read(&commands, job, Some(0), Duration::ZERO);
    assert_eq!(text(&again), "one\ntwo\nthree\n");
    let beyond = read(&commands, job, Some(1_000), Duration::ZERO);
    assert_eq!((beyond.bytes.len(), beyond.from), (0, 14));
    assert!(
        commands
            .read("b", job, None, Duration::ZERO, &Cancel::new())
            .is_none()
    );
}

fn background_commands_are_waited_for_and_stopped() {
    let sandbox = Sandbox::new();
    let commands = BackgroundCommands::default();
    let job = start(&commands, &sandbox, "echo x; sleep 1000");
    let started = Instant::now();
    let running = read(&commands, job, None, Duration::from_millis(300));
    assert!(running.result.is_none() && started.elapsed() >= Duration::from_millis(300));
    // Cancelling the reader ends its wait, not the command.
    let cancel = Cancel::new();
    cancel.cancel();
    let read_cancelled = commands.read("a", job, None, SECONDS, &cancel);
    assert!(read_cancelled.expect("it exists").result.is_none());
    assert!(!commands.stop("b", job), "another owner");
    assert!(commands.stop("a", job));
    let ended = read(&commands, job, None, Duration::ZERO);
    let result = ended.result.expect("it ended").expect("it ran");
    assert_eq!(result.ending, Ending::Cancelled);
    assert!(started.elapsed() < SECONDS);
}

/// Daemons that leave the session of their command end too.
fn background_commands_end_with_their_owner() {
    let sandbox = Sandbox::new();
    let marker = format!("7{}", std::process::id());
    let script = format!("setsid sleep {marker} & echo started; sleep {marker}");
    let commands = BackgroundCommands::default();
    let job = start(&commands, &sandbox, &script);
    wait_until("both run", || {
        text(&read(&commands, job, Some(0), Duration::ZERO)) == "started\n" && has_process(&marker)
    });
    assert_eq!(commands.end("b"), (vec![], vec![]));
    assert!(has_process(&marker));
    assert_eq!(commands.end("a"), (vec![job], vec![job]));
    assert!(!has_process(&marker));
    assert!(
        commands
            .read("a", job, None, Duration::ZERO, &Cancel::new())
            .is_none()
    );
    // A forgotten command ends when the value is dropped.
    let job = start(&commands, &sandbox, &script);
    wait_until("it runs", || {
        text(&read(&commands, job, Some(0), Duration::ZERO)) == "started\n" && has_process(&marker)
    });
    drop(commands);
    assert!(!has_process(&marker));
}

fn background_output_is_limited() {
    const KEPT: u64 = 1 << 20;
    let sandbox = Sandbox::new();
    let commands = BackgroundCommands::default();
    let job = start(
        &commands,
        &sandbox,
        "yes 0123456 | head -c 3000000; echo; echo end",
    );
    let ended = read(&commands, job, Some(0), SECONDS);
    assert_eq!(ended.bytes.len() as u64, KEPT);
    assert_eq!(ended.from, 3_000_005 - KEPT);
    assert_eq!(ended.lost, ended.from);
    assert!(ended.bytes.ends_with(b"\nend\n"));
}

fn background_commands_are_limited_in_number() {
    let sandbox = Sandbox::new();
    let commands = BackgroundCommands::default();
    let jobs: Vec<u32> = (0..4)
        .map(|_| start(&commands, &sandbox, "sleep 1000"))
        .collect();
    let begin =
        |owner: &str| commands.start(owner, invocation(&sandbox, "true"), Cancel::new(), ());
    let refused = begin("a");
    assert!(
        matches!(
            refused,
            Err(ProcessError::TooManyBackgroundCommands { most: 4 })
        ),
        "{refused:?}"
    );
    begin("b").expect("another owner may");
    commands.stop("a", jobs[0]);
    begin("a").expect("one has ended");
}

fn background_commands_that_cannot_start_are_errors() {
    let sandbox = Sandbox::new();
    let commands = BackgroundCommands::default();
    let missing = sandbox.invocation("no-such-program", &[]);
    let refused = commands.start("a", missing, Cancel::new(), ());
    assert!(
        matches!(refused, Err(ProcessError::ProgramNotFound { .. })),
        "{refused:?}"
    );
    assert!(commands.numbers("a").is_empty());
}
