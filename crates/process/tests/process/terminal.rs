//! Commands that use the terminal, tested in a pseudo-terminal.

use crate::harness::{ConfinementMode, Sandbox, need_namespaces, tests};
use crate::parent::Parent;
use std::process::Command;

tests![
    an_interactive_command_reads_the_terminal,
    ctrl_c_reaches_the_command_and_not_its_caller,
    ctrl_c_reaches_a_command_with_inherited_streams,
    a_suspended_command_gives_the_terminal_to_the_shell_and_back,
    terminal_settings_are_restored,
    an_interactive_shell_has_job_control,
    captured_commands_have_no_terminal,
    terminals_of_others_are_inaccessible,
];

/// Conducts a dialogue with a program in a new terminal: alternately waits for an output and types an input.
const CONVERSATION: &str = include_str!("conversation.py");

fn converse(program: &[String], steps: &[(&str, &str)]) -> String {
    let steps: Vec<String> = steps
        .iter()
        .flat_map(|(wait, typed)| [(*wait).to_owned(), (*typed).to_owned()])
        .collect();
    let output = Command::new("python3")
        .args(["-c", CONVERSATION, &steps.len().to_string()])
        .args(steps)
        .args(program)
        .output()
        .expect("python");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

fn parent(mode: ConfinementMode, output: &str, sandbox: &Sandbox, command: &[&str]) -> Vec<String> {
    Parent::command(mode, output, sandbox)
        .into_iter()
        .map(|part| part.into_string().expect("text"))
        .chain(command.iter().map(|part| (*part).to_owned()))
        .collect()
}

fn an_interactive_command_reads_the_terminal() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let script =
            "echo ready; read line; echo \"got $line\"; test -t 0 && test -t 1; echo tty $?";
        let program = parent(mode, "terminal", &sandbox, &["sh", "-c", script]);
        let text = converse(&program, &[("ready", "hello\n"), ("foreground Some", "")]);
        assert!(
            text.contains("got hello") && text.contains("tty 0"),
            "{mode:?} {text}"
        );
        assert!(
            text.contains("ended Exited(0) foreground Some(true)"),
            "{mode:?} {text}"
        );
    }
}

fn ctrl_c_reaches_the_command_and_not_its_caller() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let program = parent(
            mode,
            "terminal",
            &sandbox,
            &["sh", "-c", "echo ready; exec sleep 100"],
        );
        let text = converse(&program, &[("ready", "\u{3}"), ("foreground Some", "")]);
        assert!(
            text.contains("ended Signalled(2) foreground Some(true)"),
            "{mode:?} {text}"
        );
    }
}

/// The caller ignores the signal here; otherwise both would end.
fn ctrl_c_reaches_a_command_with_inherited_streams() {
    let script = "import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(7))
print('ready', flush=True)
time.sleep(100)";
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let ignoring_interrupts = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"].map(str::to_owned);
        let program = parent(mode, "inherit", &sandbox, &["python3", "-c", script]);
        let program = [ignoring_interrupts.as_slice(), &program].concat();
        let text = converse(&program, &[("ready", "\u{3}"), ("foreground", "")]);
        assert!(text.contains("ended Exited(7)"), "{mode:?} {text}");
    }
}

fn a_suspended_command_gives_the_terminal_to_the_shell_and_back() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let script = "echo rea''dy; read line; echo \"got $line\"";
        let mut program = parent(mode, "terminal", &sandbox, &["sh", "-c"]);
        program.push(script.to_owned());
        let quoted: Vec<String> = program
            .iter()
            .map(|part| format!("'{}'", part.replace('\'', "'\\''")))
            .collect();
        let typed = format!("{}\n", quoted.join(" "));
        let shell: Vec<String> = ["bash", "--norc", "--noprofile", "-i"]
            .map(str::to_owned)
            .to_vec();
        let text = converse(
            &shell,
            &[
                ("bash-", &typed),
                ("ready", "\u{1a}"),
                ("Stopped", "echo shell is ba''ck\n"),
                ("shell is back", "fg\n"),
                ("as-parent", "hello\n"),
                ("foreground Some(true)", "exit\n"),
            ],
        );
        assert!(text.contains("got hello"), "{mode:?} {text}");
        assert!(
            text.contains("ended Exited(0) foreground Some(true)"),
            "{mode:?} {text}"
        );
    }
}

fn terminal_settings_are_restored() {
    let sandbox = Sandbox::new();
    let script = "stty raw -echo; echo ready; kill -9 $$";
    let mut program = parent(
        ConfinementMode::Whole,
        "terminal",
        &sandbox,
        &["sh", "-c", script],
    );
    let quoted: Vec<String> = program
        .drain(..)
        .map(|part| format!("'{}'", part.replace('\'', "'\\''")))
        .collect();
    let outer = format!("{}; stty -a", quoted.join(" "));
    let text = converse(
        &["sh".to_owned(), "-c".to_owned(), outer],
        &[("ended Signalled(9)", ""), ("iexten", "")],
    );
    assert!(
        text.contains(" icanon") && text.contains(" echo "),
        "{text}"
    );
}

fn an_interactive_shell_has_job_control() {
    let sandbox = Sandbox::new();
    let program = parent(
        ConfinementMode::Whole,
        "terminal",
        &sandbox,
        &["bash", "--norc", "--noprofile", "-i"],
    );
    let text = converse(
        &program,
        &[
            ("bash-", "sleep 100\n"),
            ("sleep 100", "\u{1a}"),
            ("Stopped", "kill %1; jobs\n"),
            ("bash-", "echo sti''ll here\n"),
            ("still here", "exit 5\n"),
            ("foreground Some", ""),
        ],
    );
    assert!(!text.contains("no job control"), "{text}");
    assert!(
        text.contains("ended Exited(5) foreground Some(true)"),
        "{text}"
    );
}

fn captured_commands_have_no_terminal() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let script = "if (: < /dev/tty) 2> /dev/null; then echo has one; else echo has none; fi";
        let program = parent(mode, "capture", &sandbox, &["sh", "-c", script]);
        let text = converse(&program, &[("foreground", "")]);
        assert!(text.contains("stdout \"has none"), "{mode:?} {text}");
        let program = parent(mode, "inherit", &sandbox, &["sh", "-c", script]);
        let text = converse(&program, &[("foreground", "")]);
        assert!(text.contains("has one"), "{mode:?} {text}");
    }
}

/// With namespaces, a command sees only the terminals that it creates itself.
fn terminals_of_others_are_inaccessible() {
    need_namespaces();
    let sandbox = Sandbox::new();
    let script = "ls /dev/pts; tty";
    let program = parent(
        ConfinementMode::Whole,
        "inherit",
        &sandbox,
        &["sh", "-c", script],
    );
    let text = converse(&program, &[("foreground", "")]);
    assert!(text.starts_with("ptmx"), "{text}");
}
