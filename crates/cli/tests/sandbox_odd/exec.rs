//! `agents sandbox exec`: input, output, exit and restrictions of the command.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use super::{SandboxFixture, assert_same, read, tree};

fn bench_with_sandbox() -> SandboxFixture {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture
}

fn exec(fixture: &SandboxFixture, options: &[&str], script: &str) -> cleveragents_testkit::Answer {
    fixture.run(
        [
            &["sandbox", "exec", "s"],
            options,
            &["--", "sh", "-c", script],
        ]
        .concat(),
    )
}

#[test]
fn exit_codes_and_signals_pass_through() {
    let fixture = bench_with_sandbox();
    for code in [0, 1, 2, 3, 42, 124, 255] {
        let answer = exec(&fixture, &[], &format!("exit {code}"));
        assert_eq!(answer.code, Some(code), "{answer:?}");
    }
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        let answer = exec(
            &fixture,
            &[],
            &format!("echo x > before-{name}; kill -{name} $$"),
        );
        assert_eq!(answer.code, Some(128 + number), "{answer:?}");
        assert!(
            answer.err.contains(&format!("signal {number} ended")),
            "{answer:?}"
        );
        assert!(
            fixture.diff().contains_key(&format!("before-{name}")),
            "the change is recorded"
        );
    }
}

#[test]
fn input_and_output_pass_unchanged() {
    let fixture = bench_with_sandbox();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let mut child = fixture
        .agents
        .command(["sandbox", "exec", "s", "--", "cat"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            input
                .write_all(&bytes)
                .expect("the command reads its input");
            drop(input);
        });
        child.wait_with_output().expect("the program ends")
    });
    assert!(output.status.success());
    assert_eq!(output.stdout, bytes);
}

#[test]
fn output_in_a_document_is_capped_and_counted() {
    let fixture = bench_with_sandbox();
    let script = "head -c 12000000 /dev/zero | tr '\\0' x; echo problem >&2; exit 7";
    let answer = fixture.run([
        "--format", "json", "sandbox", "exec", "s", "--", "sh", "-c", script,
    ]);
    assert_eq!(answer.code, Some(7));
    let data = answer.json()["data"].clone();
    let included = data["stdout"].as_str().expect("text").len();
    let dropped = data["stdout_dropped"].as_u64().expect("a number");
    assert_eq!(included as u64 + dropped, 12_000_000);
    assert_eq!(included, 8 << 20);
    assert_eq!(data["stderr"], "problem\n");
    assert_eq!(data["exit_code"], 7);
}

#[test]
fn a_missing_program_is_an_error_of_the_command() {
    // A folder in PATH that this user cannot read would cause another error.
    let fixture = bench_with_sandbox().with("PATH", "/usr/local/bin:/usr/bin:/bin");
    let error = fixture.refused(
        &["sandbox", "exec", "s", "--", "no-such-program"],
        3,
        "CA-0701",
    );
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("no-such-program")
    );
    assert!(fixture.diff().is_empty());
}

#[test]
fn the_environment_contains_only_given_variables() {
    let fixture = bench_with_sandbox()
        .with("OPENAI_API_KEY", "secret")
        .with("GIVEN", "from here")
        .with("LD_PRELOAD", "");
    let script = "test -z \"$OPENAI_API_KEY\"; test \"$A\" = 'b c=d'; test \"$GIVEN\" = 'from here'; \
        test \"$CLEVERAGENTS_SANDBOX\" = s; test -w \"$TMPDIR\"; test -z \"$CLEVERAGENTS_HOME\"";
    let options = ["--env", "A=b c=d", "--env", "GIVEN"];
    let answer = exec(&fixture, &options, &format!("set -e; {script}"));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    fixture.refused(
        &["sandbox", "exec", "s", "--env", "UNSET", "--", "true"],
        2,
        "CA-0101",
    );
}

#[test]
fn a_command_that_times_out_is_killed_with_its_child_processes() {
    let fixture = bench_with_sandbox();
    let time = unique_duration(3141);
    let script = format!("echo x > started; (setsid sleep {time} &) ; sleep {time}");
    let answer = exec(&fixture, &["--timeout", "1"], &script);
    assert_eq!(answer.code, Some(124), "{answer:?}");
    assert!(
        fixture.diff().contains_key("started"),
        "its changes are recorded"
    );
    assert_not_running(&time);
}

/// A unique sleep duration, to identify the process.
fn unique_duration(seconds: u32) -> String {
    format!("{seconds}.{}", std::process::id())
}

/// Asserts that no process has this argument.
fn assert_not_running(argument: &str) {
    for entry in std::fs::read_dir("/proc").expect("a folder").flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_running = line
            .split(|byte| *byte == 0)
            .any(|part| part == argument.as_bytes());
        assert!(
            !is_running,
            "still running: {}",
            String::from_utf8_lossy(&line)
        );
    }
}

#[test]
fn a_daemon_ends_with_the_command() {
    let fixture = bench_with_sandbox();
    let time = unique_duration(2718);
    let script =
        format!("(setsid sh -c 'trap \"\" TERM HUP; sleep {time}' >/dev/null 2>&1 &); echo done");
    let answer = exec(&fixture, &[], &script);
    assert_eq!(
        (answer.code, answer.out.as_str()),
        (Some(0), "done\n"),
        "{answer:?}"
    );
    assert_not_running(&time);
}

#[test]
fn nothing_outside_can_be_written() {
    let fixture = bench_with_sandbox();
    let repository = fixture.folder().join("r");
    let secret = fixture.user().join("secret");
    std::fs::write(&secret, "the user's").expect("a file");
    let twin = fixture.agents.home().join("sandboxes-evil");
    std::fs::create_dir(&twin).expect("a folder");
    let sandbox = fixture.sandbox();
    let work = tree(&sandbox.join("state"));
    let before = tree(&fixture.folder());
    let paths = [
        repository.join("a.txt"),
        repository.join("new"),
        repository.join(".git/config"),
        repository.join(".git/hooks/post-checkout"),
        secret.clone(),
        twin.join("x"),
        sandbox.join("state/x"),
        sandbox.join("work/x"),
        sandbox.join("git/x"),
        fixture.agents.database(),
    ];
    for path in &paths {
        let path = path.display();
        for attempt in [
            format!("echo evil >> '{path}'"),
            format!("cd / && echo evil >> '..{path}'"),
            format!("ln -sf '{path}' l; echo evil >> l"),
            format!("rm -f '{path}' && exit 0; exit 1"),
            format!("mv a.txt '{path}'"),
            format!("ln '{path}' hard && echo evil >> hard"),
            format!("chmod 777 '{path}'"),
            format!("truncate -s 0 '{path}'"),
            format!("touch -d 2000-01-01 '{path}'"),
        ] {
            // The removal of a missing file succeeds. Every other attempt must fail.
            let answer = exec(&fixture, &[], &attempt);
            let is_harmless = attempt.starts_with("rm") && answer.code == Some(0);
            assert!(
                is_harmless || answer.code != Some(0),
                "{attempt}: {answer:?}"
            );
        }
        fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
    }
    assert_same(&before, &tree(&fixture.folder()));
    assert_eq!(read(&secret), "the user's");
    assert!(tree(&twin).is_empty());
    for path in work.keys().filter(|path| path.ends_with("manifest")) {
        assert!(path.exists());
    }
    // Temporary files and shared memory are private to the command.
    for folder in ["/tmp", "/var/tmp", "/dev/shm"] {
        let path = format!("{folder}/cleveragents-was-here");
        let answer = exec(&fixture, &[], &format!("echo x > {path}"));
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(!Path::new(&path).exists());
    }
    fixture.agents.assert_sound();
}

/// A hard link to an outside file would allow writing to it.
#[test]
fn outside_files_cannot_be_hard_linked() {
    let fixture = bench_with_sandbox();
    let target = fixture.folder().join("r/a.txt");
    for attempt in [
        format!("ln '{}' hard", target.display()),
        format!("exec 9< '{}'; ln -L /proc/self/fd/9 hard", target.display()),
        format!("cp -l '{}' hard", target.display()),
    ] {
        let answer = exec(&fixture, &[], &attempt);
        assert_ne!(answer.code, Some(0), "{attempt}");
    }
    assert!(fixture.diff().is_empty());
    assert_eq!(read(&target), "one\n");
}

const CONNECT: &str = "import socket, sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)\n\
    s.sendall(b'hello')\n";

#[test]
fn the_network_is_off_unless_it_is_allowed() {
    let fixture = bench_with_sandbox();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener
        .local_addr()
        .expect("an address")
        .port()
        .to_string();
    let connect = |options: &[&str]| {
        let command = ["--", "python3", "-c", CONNECT, &port];
        fixture.run([&["sandbox", "exec", "s"], options, &command].concat())
    };
    let answer = connect(&[]);
    assert_ne!(answer.code, Some(0), "no connection: {answer:?}");
    listener.set_nonblocking(true).expect("the mode can be set");
    assert!(listener.accept().is_err(), "no connection");
    listener
        .set_nonblocking(false)
        .expect("the mode can be set");
    let answer = connect(&["--network"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let mut reported = String::new();
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.read_to_string(&mut reported).expect("text");
    assert_eq!(reported, "hello");
    // The tool for models asks, unless a rule allows the command.
    let command = format!("command=python3 -c \"{CONNECT}\" {port}");
    let call = |options: &[&str]| {
        let tool = ["tool", "run", "builtin/shell-network", "--sandbox", "s"];
        fixture.run([&tool, options, &[command.as_str(), "reason=a test"]].concat())
    };
    let answer = call(&[]);
    assert_eq!(answer.code, Some(5), "{answer:?}");
    let answer = call(&["--rule", "allow builtin/shell-network"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let mut reported = String::new();
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.read_to_string(&mut reported).expect("text");
    assert_eq!(reported, "hello");
}

/// Starts a command and waits until it prints `ready`.
fn start_and_wait(fixture: &SandboxFixture, script: &str) -> std::process::Child {
    use std::os::unix::process::CommandExt as _;
    let mut child = fixture
        .agents
        .command(["sandbox", "exec", "s", "--", "sh", "-c", script])
        .process_group(0)
        .spawn()
        .expect("the program starts");
    let mut line = [0; 6];
    let output = child.stdout.as_mut().expect("a pipe");
    output.read_exact(&mut line).expect("a line of the command");
    assert_eq!(&line, b"ready\n");
    child
}

#[test]
fn a_second_command_in_a_sandbox_is_refused() {
    let fixture = bench_with_sandbox();
    let mut child = start_and_wait(&fixture, "echo ready; exec sleep 1618");
    fixture.refused(&["sandbox", "exec", "s", "--", "true"], 4, "CA-0411");
    fixture.refused(&["sandbox", "apply", "s"], 4, "CA-0411");
    fixture.refused(&["sandbox", "discard", "s", "--yes"], 4, "CA-0411");
    send(&child, "TERM", false);
    child.wait().expect("the program ends");
    fixture.sh("true");
}

fn send(child: &std::process::Child, signal: &str, to_group: bool) {
    let target = if to_group {
        format!("-{}", child.id())
    } else {
        child.id().to_string()
    };
    let status = std::process::Command::new("kill")
        .args([&format!("-{signal}"), "--", &target])
        .status();
    assert!(status.expect("kill runs").success());
}

/// Ctrl-C at the terminal: the command ends, and its changes are recorded.
#[test]
fn an_interrupted_command_is_recorded() {
    for (signal, to_group) in [
        ("INT", false),
        ("INT", true),
        ("TERM", false),
        ("HUP", true),
    ] {
        let fixture = bench_with_sandbox();
        // `exec` replaces the shell, which would otherwise wait for its child.
        let time = unique_duration(1414);
        let script = format!("echo half > a.txt; echo ready; exec sleep {time}");
        let child = start_and_wait(&fixture, &script);
        send(&child, signal, to_group);
        let output = child.wait_with_output().expect("the program ends");
        assert!(!output.status.success(), "{signal}");
        assert!(
            output.status.code().is_some(),
            "{signal}: the program itself survives"
        );
        let shown = fixture.agents.data(&["sandbox", "show", "s"]);
        assert_eq!(
            shown["sandbox"]["entries"], 1,
            "{signal}: changes are recorded"
        );
        assert!(fixture.diff().contains_key("a.txt"));
        assert_not_running(&time);
    }
}

#[test]
fn devices_sockets_and_pipes_are_reported_and_not_captured() {
    let fixture = bench_with_sandbox();
    let answer = exec(&fixture, &[], "mkfifo pipe; echo 2 > a.txt");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.err.contains("r/pipe"), "{answer:?}");
    assert_eq!(fixture.diff().len(), 1);
    fixture.apply();
    assert!(!fixture.folder().join("r/pipe").exists());
}
