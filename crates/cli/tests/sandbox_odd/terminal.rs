//! `agents sandbox exec --tty`, at a terminal.

use super::SandboxFixture;

fn play(
    fixture: &SandboxFixture,
    step: (&str, &str),
    options: &[&str],
    script: &str,
) -> (Option<i32>, String) {
    let mut arguments = vec!["sandbox", "exec", "s"];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", script]);
    fixture.agents.play(&[step], &arguments)
}

fn bench_with_sandbox() -> SandboxFixture {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture
}

#[test]
fn a_terminal_passes_through() {
    let fixture = bench_with_sandbox();
    let script = "test -t 0 && test -t 1 && echo at-a-terminal; read -r line; echo \"got $line\" > said; exit 5";
    let (code, screen) = play(&fixture, ("at-a-terminal", "hello\n"), &["--tty"], script);
    assert_eq!(code, Some(5), "{screen}");
    assert!(screen.contains("at-a-terminal"), "{screen}");
    assert!(fixture.diff().contains_key("said"));
    let message = fixture.sh("cat said").out;
    assert_eq!(message, "got hello\n");
}

#[test]
fn the_keys_of_a_terminal_reach_the_command_and_its_changes_are_recorded() {
    for options in [&["--tty"][..], &[]] {
        let fixture = bench_with_sandbox();
        let script = "trap 'echo caught > said; exit 9' INT; echo 2 > a.txt; echo wait-for-it; \
            while :; do sleep 1; done";
        let (code, screen) = play(&fixture, ("wait-for-it", "\u{3}"), options, script);
        assert_eq!(code, Some(9), "{options:?}: {screen}");
        let changed: Vec<_> = fixture.diff().into_keys().collect();
        assert_eq!(changed, ["a.txt", "said"], "{options:?}");
    }
}

#[test]
fn a_missing_terminal_is_refused() {
    let fixture = bench_with_sandbox();
    fixture.refused(
        &["sandbox", "exec", "s", "--tty", "--", "true"],
        2,
        "CA-0101",
    );
}
