//! `agents sandbox exec --tty`, at a terminal that a small Python program plays.

use std::process::Stdio;

use super::Bench;

/// Runs its arguments at a terminal, types a line after each word of `steps`, and prints what came.
const PLAYER: &str = r#"
import os, pty, select, sys
steps = [step.split("=>", 1) for step in sys.argv[1].split("|") if step]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
seen = b""
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    seen += part
    while steps and steps[0][0].encode() in seen:
        os.write(terminal, steps.pop(0)[1].encode().decode("unicode_escape").encode())
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(seen)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"#;

fn play(bench: &Bench, steps: &str, options: &[&str], script: &str) -> (Option<i32>, String) {
    // The environment of the program, at another program's terminal.
    let agents = bench.agents.command(["sandbox", "exec", "s"]);
    let mut player = std::process::Command::new("python3");
    player.env_clear();
    for (name, value) in agents.get_envs() {
        if let Some(value) = value {
            player.env(name, value);
        }
    }
    let output = player
        .env("TERM", "dumb")
        .current_dir(bench.folder())
        .args(["-c", PLAYER, steps])
        .arg(agents.get_program())
        .args(["sandbox", "exec", "s"])
        .args(options)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .output()
        .expect("python3 runs");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

fn ready() -> Bench {
    let bench = Bench::new();
    let repository = bench.repository("r");
    bench.create(&repository);
    bench
}

#[test]
fn a_terminal_passes_through() {
    let bench = ready();
    let script = "test -t 0 && test -t 1 && echo at-a-terminal; read -r line; echo \"got $line\" > said; exit 5";
    let (code, seen) = play(&bench, "at-a-terminal=>hello\\n", &["--tty"], script);
    assert_eq!(code, Some(5), "{seen}");
    assert!(seen.contains("at-a-terminal"), "{seen}");
    assert!(bench.diff().contains_key("said"));
    let said = bench.sh("cat said").out;
    assert_eq!(said, "got hello\n");
}

#[test]
fn the_keys_of_a_terminal_reach_the_command_and_its_work_is_recorded() {
    for options in [&["--tty"][..], &[]] {
        let bench = ready();
        let script = "trap 'echo caught > said; exit 9' INT; echo 2 > a.txt; echo wait-for-it; \
            while :; do sleep 1; done";
        let (code, seen) = play(&bench, "wait-for-it=>\\x03", options, script);
        assert_eq!(code, Some(9), "{options:?}: {seen}");
        let changed: Vec<_> = bench.diff().into_keys().collect();
        assert_eq!(changed, ["a.txt", "said"], "{options:?}");
    }
}

#[test]
fn a_terminal_that_is_not_there_is_refused() {
    let bench = ready();
    bench.refused(
        &["sandbox", "exec", "s", "--tty", "--", "true"],
        2,
        "CA-0101",
    );
}
