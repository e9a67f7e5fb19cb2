//! A chat at a terminal.

use std::os::unix::fs::PermissionsExt as _;

use cleveragents_testkit::Agents;

use super::world::World;

const READY: &str = "/help lists";
/// Part of the line after each answer.
const DONE: &str = "tokens in";
/// Prompt in the sandbox. Tests wait for it, because input typed earlier could be lost.
const PROMPT: &str = "box · script.yaml>";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";

#[test]
fn a_chat_is_rendered_and_keeps_its_line_history() {
    let world = World::new();
    let steps = [
        (READY, ""),
        (PROMPT, "markdown\r"),
        (DONE, ""),
        (PROMPT, "my token=abcdef123456\r"),
        ("contain a secret", ""),
        (DONE, ""),
        (PROMPT, "evil\r"),
        (DONE, ""),
        (PROMPT, CTRL_D),
        ("continue with", ""),
    ];
    let (code, screen) = world.play(&steps, &[]);
    assert_eq!(code, Some(0), "{screen}");
    assert!(
        screen.contains("\u{1b}[1mbold\u{1b}[0m"),
        "colours: {screen:?}"
    );
    for raw in ["\u{1b}[31m", "\u{1b}[2J", "\u{7}", "\u{1b}]0;"] {
        assert!(
            !screen.contains(raw),
            "{raw:?} reached the terminal: {screen:?}"
        );
    }
    let history = world.history();
    assert!(
        history.contains("markdown") && history.contains("evil"),
        "{history}"
    );
    assert!(!history.contains("abcdef123456"), "{history}");
    let file = world.agents.home().join("chat-history");
    let mode = file.metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The next chat shows the earlier messages, and its arrow key recalls the last line of this chat.
    let session = world.session();
    let steps = [
        ("evil", ""),
        (PROMPT, "\u{1b}[A\r"),
        (DONE, ""),
        (PROMPT, "/exit\r"),
    ];
    let (code, screen) = world.play(&steps, &[&session]);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(
        world.questions().last().map(String::as_str),
        Some("evil"),
        "{screen}"
    );
    assert_eq!(world.questions().len(), 4);
}

/// Log lines appear neither inside an answer nor after a prompt or a question.
#[test]
fn log_lines_do_not_interrupt_answers_prompts_and_questions() {
    let world = World::new();
    let options = ["-v", "--rule", "ask builtin/file-write"];
    let steps = [
        (READY, ""),
        (PROMPT, "markdown\r"),
        (DONE, ""),
        (PROMPT, "write it\r"),
        ("or type a reason to refuse:", "n\r"),
        (DONE, ""),
        (PROMPT, CTRL_D),
        ("continue with", ""),
    ];
    let (code, screen) = world.play(&steps, &options);
    assert_eq!(code, Some(0), "{screen}");
    for message in ["model call finished", "tool call failed", "turn finished"] {
        assert!(screen.contains(message), "{message}: {screen}");
    }
    let logged = screen
        .lines()
        .filter(|line| line.contains(" cleveragents_"));
    for line in logged {
        // Erased output, such as a preview, ends with a carriage return or an escape sequence.
        let printed = line
            .rsplit(['\r', '\u{1b}'])
            .find(|part| part.contains(" cleveragents_"));
        let printed = printed.unwrap_or_default();
        let start = printed.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let is_start = printed.len() - start.len() <= 3 && start.starts_with("20");
        assert!(is_start, "{line:?} in {screen}");
    }
}

#[test]
fn ctrl_c_stops_the_turn_and_keeps_the_session() {
    let world = World::new();
    let steps = [
        (READY, ""),
        (PROMPT, "endless\r"),
        ("BEGUN", CTRL_C),
        ("stopped; the session", ""),
        (PROMPT, "hello\r"),
        (DONE, ""),
        (PROMPT, "half a line"),
        ("half a line", CTRL_C),
        (PROMPT, CTRL_C),
        ("Ctrl-C again", ""),
        (PROMPT, CTRL_C),
        ("continue with", ""),
    ];
    let (code, screen) = world.play(&steps, &[]);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(world.questions(), ["endless", "hello"], "{screen}");
    let messages = world.agents.messages(&world.session());
    assert_eq!(messages[0]["state"], "failed");
}

#[test]
fn continued_lines_are_one_message() {
    let world = World::new();
    let steps = [
        (READY, ""),
        (PROMPT, "first\\\rsecond\r"),
        (DONE, ""),
        (PROMPT, "\u{1b}[200~pasted one\npasted two\u{1b}[201~\r"),
        (DONE, ""),
        (PROMPT, "/multi\r"),
        ("/end", "three\rfour\r/end\r"),
        (DONE, ""),
        (PROMPT, "/exit\r"),
    ];
    let (code, screen) = world.play(&steps, &[]);
    assert_eq!(code, Some(0), "{screen}");
    let expected = ["first\nsecond", "pasted one\npasted two", "three\nfour"];
    assert_eq!(world.questions(), expected, "{screen}");
}

#[test]
fn ctrl_g_opens_the_line_in_the_editor_and_ctrl_r_searches_earlier_lines() {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    let script = agents.cwd().join("editor");
    std::fs::write(
        &script,
        "sed -i 's/teh/the/' \"$1\"\necho 'second line' >> \"$1\"\n",
    )
    .expect("a file");
    let world = World::with_agents(agents.with("EDITOR", format!("sh {}", script.display())));
    let steps = [
        (READY, ""),
        (PROMPT, "teh message\u{7}"),
        ("second line", "\r"),
        (DONE, ""),
        (PROMPT, "another\r"),
        (DONE, ""),
        (PROMPT, "\u{12}sage"),
        ("reverse-i-search)`sage", "\r"),
        (DONE, ""),
        (PROMPT, "/exit\r"),
    ];
    let (code, screen) = world.play(&steps, &[]);
    assert_eq!(code, Some(0), "{screen}");
    let edited = "the message\nsecond line";
    assert_eq!(world.questions(), [edited, "another", edited], "{screen}");
}

/// An editor that fails leaves the line as it was.
#[test]
fn without_an_editor_ctrl_g_keeps_the_line() {
    let world = World::with_agents(
        Agents::new(env!("CARGO_BIN_EXE_agents")).with("VISUAL", "false --wait"),
    );
    let steps = [
        (READY, ""),
        (PROMPT, "hello\u{7}"),
        ("`false --wait` ended with", ""),
        (PROMPT, "\r"),
        (DONE, ""),
        (PROMPT, "/exit\r"),
    ];
    let (code, screen) = world.play(&steps, &[]);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(world.questions(), ["hello"], "{screen}");
}

#[test]
fn the_user_is_asked_during_a_turn() {
    let world = World::new();
    let options = ["--rule", "ask builtin/file-write"];
    let steps = [
        (READY, ""),
        (PROMPT, "write it\r"),
        ("or type a reason to refuse:", "n\r"),
        (DONE, ""),
        (PROMPT, "write it\r"),
        ("or type a reason to refuse:", CTRL_C),
        ("stopped; the session", ""),
        (PROMPT, "write it\r"),
        ("or type a reason to refuse:", "y\r"),
        (DONE, ""),
        (PROMPT, "/apply\r"),
        ("+second", ""),
        ("[y/N]:", "n\r"),
        ("Not applied", ""),
        (PROMPT, "/apply\r"),
        ("[y/N]:", "y\r"),
        ("applied:", ""),
        (PROMPT, CTRL_D),
    ];
    let (code, screen) = world.play(&steps, &options);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(world.real_notes(), "second\n", "{screen}");
    let calls = screen.matches("✓ done").count();
    assert_eq!(calls, 1, "only the approved call ran: {screen}");
}

#[test]
fn without_colours_the_markdown_marks_stay() {
    let world = World::new();
    let agents = world.agents.with("NO_COLOR", "1");
    let steps = [
        (READY, ""),
        (PROMPT, "markdown\r"),
        (DONE, ""),
        (PROMPT, CTRL_D),
    ];
    let (_, screen) = agents.play(&steps, &World::arguments(&[]));
    assert!(
        screen.contains("# Title") && screen.contains("**bold**"),
        "{screen:?}"
    );
    assert!(!screen.contains("\u{1b}[1m"), "{screen:?}");
}

/// A turn that takes longer than `ui.notify-after` rings the bell, or shows a desktop notification,
/// when it asks and when it ends.
#[test]
fn a_long_turn_notifies_the_user_at_the_terminal_only() {
    let script = "at_end: repeat_last\nanswers:\n- {text: slow, first_delay_ms: 1200}\n";
    let world = |setting: &str| {
        let agents = Agents::new(env!("CARGO_BIN_EXE_agents"))
            .with("CLEVERAGENTS_UI_NOTIFY", setting)
            .with("CLEVERAGENTS_UI_NOTIFY_AFTER", "1");
        let world = World::with_agents(agents);
        std::fs::write(world.agents.cwd().join("script.yaml"), script).expect("a file");
        world
    };
    let steps = [
        (READY, ""),
        (PROMPT, "hello\r"),
        (DONE, ""),
        (PROMPT, "/exit\r"),
    ];
    for (setting, sequence) in [
        ("off", None),
        ("bell", Some("\u{7}")),
        ("desktop", Some("\u{1b}]9;agents: finished\u{7}")),
    ] {
        let (code, screen) = world(setting).play(&steps, &[]);
        assert_eq!(code, Some(0), "{screen}");
        assert_eq!(
            screen.matches('\u{7}').count(),
            usize::from(sequence.is_some()),
            "{screen:?}"
        );
        assert!(
            screen.contains(sequence.unwrap_or_default()),
            "{setting}: {screen:?}"
        );
    }
    let answer = world("bell").feed(&[], "hello\n");
    assert_eq!(answer.out, "slow\n");
    assert!(!answer.err.contains('\u{7}'), "{answer:?}");
}

#[test]
fn the_help_fits_on_a_screen() {
    let world = World::new();
    let answer = world.feed(&[], "/help\n");
    let lines: Vec<&str> = answer.out.lines().collect();
    assert!(lines.len() <= 24, "{answer:?}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{answer:?}"
    );
    for wanted in [
        "/compact",
        "!COMMAND",
        "@FILE",
        "Ctrl-G",
        "Ctrl-R",
        "Alt-Enter",
    ] {
        assert!(answer.out.contains(wanted), "{wanted}: {answer:?}");
    }
}

#[test]
fn undo_names_redo_of_the_chat() {
    let world = World::new();
    let answer = world.feed(&[], "write it\n/undo\n/redo\n/diff\n");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let all = format!("{}{}", answer.out, answer.err);
    assert!(all.contains("/redo restores the changes"), "{all}");
    assert!(!all.contains("agents sandbox redo"), "{all}");
    assert!(all.contains("+second"), "{all}");
}
