//! A chat with input from a pipe.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use cleveragents_testkit::Agents;
use serde_json::Value;

use super::world::World;

#[test]
fn each_line_is_a_question_in_one_session_named_by_the_first() {
    let world = World::new();
    let answer = world.feed(&[], "How are you?\n\nmarkdown now\n");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(answer.out, "fine\n# Title\n\nsome **bold** text\n");
    assert_eq!(world.sessions()[0]["name"], "How are you?");
    assert_eq!(world.questions(), ["How are you?", "markdown now"]);
    // The session continues by its name.
    let again = world.feed(&["How are you?"], "And now?");
    assert_eq!(
        (again.code, again.out.as_str()),
        (Some(0), "fine\n"),
        "{again:?}"
    );
    assert_eq!(world.questions().len(), 3);
}

#[test]
fn questions_of_several_lines_are_one_message() {
    let world = World::new();
    let input = "one\\\ntwo\n```\nthree\n\nfour\\\n```\n/multi\nfive\n```\n/end\nsix\\";
    let answer = world.feed(&[], input);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(
        world.questions(),
        ["one\ntwo", "three\n\nfour\\", "five\n```", "six"]
    );
}

#[test]
fn a_failure_is_reported_and_sets_the_exit_code_of_the_chat() {
    let world = World::new();
    let answer = world.feed(&[], "/modle x\nfail now\nstill there?\n");
    assert_eq!(answer.out, "fine\n", "{answer:?}");
    assert!(
        answer.err.contains("/model`"),
        "the nearest command is named: {answer:?}"
    );
    assert!(answer.err.contains("no such key"), "{answer:?}");
    assert_eq!(
        answer.code,
        Some(1),
        "exit code of the last failure: {answer:?}"
    );
    let states: Vec<Value> = world.agents.messages(&world.session());
    assert_eq!(states[0]["state"], "failed", "{states:?}");
}

#[test]
fn without_a_model_no_session_is_created_and_a_model_can_be_chosen() {
    let world = World::new();
    let answer = world.agents.run_with(&["chat"], b"hello\n");
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(
        answer.err.contains("CA-0101") && answer.err.contains("hint"),
        "{answer:?}"
    );
    assert!(world.sessions().is_empty());
    let named = b"/model missing/x\n/model scripted/script.yaml\nhello\n";
    let answer = world.agents.run_with(&["chat"], named);
    assert_eq!(
        answer.out, "[OK] scripted/script.yaml answers from now on\nfine\n",
        "{answer:?}"
    );
    assert_ne!(answer.code, Some(0), "the unknown model is a failure");
}

#[test]
fn json_output_is_one_document_per_line_for_every_turn_and_command() {
    let world = World::new();
    let input = "hello\nfail\n/cost\n/nothing\nwrite it\n/session\n/history 1\n/help\n";
    let answer = world.feed(&["--format", "json"], input);
    let documents: Vec<Value> = answer
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a document on each line"))
        .collect();
    let commands: Vec<&str> = documents
        .iter()
        .map(|document| document["command"].as_str().expect("text"))
        .collect();
    assert_eq!(
        commands,
        [
            "chat",
            "chat",
            "chat cost",
            "chat",
            "chat",
            "session show",
            "session show",
            "chat help"
        ]
    );
    assert_eq!(documents[0]["data"]["response"], "fine");
    assert_eq!(
        documents[1]["data"]["error"]["message"]
            .as_str()
            .map(|text| text.contains("no such key")),
        Some(true)
    );
    assert_eq!(
        documents[4]["data"]["tool_calls"][0]["outcome"],
        "succeeded"
    );
    assert_eq!(documents[4]["data"]["files_changed"][0], "code/notes.txt");
    assert_eq!(answer.err, "", "nothing is printed to standard error");
    assert_eq!(answer.code, Some(2));
}

#[test]
fn the_sandbox_is_shown_rolled_back_and_applied() {
    let world = World::new();
    let refused = world.feed(&[], "write it\n/diff\n/apply\n");
    assert!(refused.out.contains("-first\n+second\n"), "{refused:?}");
    assert_eq!(
        refused.code,
        Some(5),
        "the apply is not confirmed: {refused:?}"
    );
    assert!(
        refused
            .err
            .contains("changed in sandbox box: code/notes.txt"),
        "{refused:?}"
    );
    assert_eq!(world.real_notes(), "first\n");
    // `/undo` does not roll back turns of an earlier chat in a sandbox that the user named.
    let refused_undo = world.feed(&[], "/undo\n");
    assert_eq!(refused_undo.code, Some(2), "{refused_undo:?}");
    let undone = world.feed(&[], "write it\n/undo\n/diff\nwrite it\n/apply --yes\n");
    assert!(
        undone.out.contains("Rolled back to checkpoint"),
        "{undone:?}"
    );
    assert!(undone.out.contains("applied"), "{undone:?}");
    assert_eq!(world.real_notes(), "second\n", "{undone:?}");
}

#[test]
fn undo_rolls_back_exactly_one_turn() {
    let world = World::new();
    let answer = world.feed(&[], "write it\nrewrite it\n/undo\n/diff\n");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("-first\n+second\n"), "{answer:?}");
}

/// `/undo` also hides the messages of the turn and of later turns from the model; `/redo` restores both.
#[test]
fn undo_and_redo_include_the_conversation() {
    let undone = |world: &World| -> Vec<bool> {
        let messages = world.agents.messages(&world.session());
        messages
            .iter()
            .map(|message| message["metadata"]["undone"] == true)
            .collect()
    };
    let world = World::new();
    let answer = world.feed(&[], "hello\nwrite it\nhello\n/undo\n");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let marks = undone(&world);
    assert_eq!(marks[..2], [false, false], "{marks:?}");
    assert!(
        marks.len() > 6 && marks[2..].iter().all(|mark| *mark),
        "{marks:?}"
    );
    let world = World::new();
    let answer = world.feed(&[], "write it\nrewrite it\n/undo\n/undo\n/redo\n/diff\n");
    assert!(answer.out.contains("-first\n+second\n"), "{answer:?}");
    let marks = undone(&world);
    let first_turn = marks.iter().take_while(|mark| !**mark).count();
    assert!(first_turn >= 4 && first_turn < marks.len(), "{marks:?}");
    assert!(marks[first_turn..].iter().all(|mark| *mark), "{marks:?}");
}

#[test]
fn an_answer_is_saved_to_a_new_file_and_retried() {
    let world = World::new();
    let answer = world.feed(
        &[],
        "/retry\nmarkdown\n/save answer.md\n/save answer.md\n/retry\n/new\n/cost\n",
    );
    let saved = std::fs::read_to_string(world.agents.cwd().join("answer.md")).expect("saved");
    assert_eq!(saved, "# Title\n\nsome **bold** text\n\n");
    assert!(
        answer.err.contains("does not exist"),
        "the file is never overwritten: {answer:?}"
    );
    assert_eq!(world.questions(), ["markdown", "markdown"]);
    assert_eq!(
        answer.code,
        Some(2),
        "a new chat has cost nothing: {answer:?}"
    );
}

#[test]
fn control_characters_of_a_model_are_escaped() {
    let world = World::with_agents(Agents::new(env!("CARGO_BIN_EXE_agents")).with("NO_COLOR", "1"));
    for format in ["plain", "rich", "color", "table"] {
        let answer = world.feed(&["--format", format], "evil\n/history\n");
        let is_raw = |letter: char| letter.is_control() && letter != '\n';
        assert!(!answer.out.contains(is_raw), "{format}: {:?}", answer.out);
        assert!(!answer.err.contains(is_raw), "{format}: {:?}", answer.err);
        assert!(
            answer.out.contains("\\x1b[31m"),
            "{format}: the escape sequence is shown as text: {answer:?}"
        );
    }
    let coloured = World::new().feed(&["--format", "color"], "markdown\n");
    assert!(
        coloured.out.contains("\u{1b}[1m"),
        "the program's own colours are printed: {coloured:?}"
    );
}

#[test]
fn a_secret_is_not_used_as_session_name() {
    let world = World::new();
    world.feed(&[], "my key is sk-0123456789abcdefghij\n");
    assert_eq!(world.sessions()[0]["name"], Value::Null);
}

#[test]
fn binary_and_oversized_lines_are_refused() {
    let world = World::new();
    let arguments = World::arguments(&[]);
    let answer = world.agents.run_with(&arguments, b"\xff\xfe\nhello\n");
    assert_eq!(
        (answer.out.as_str(), answer.code),
        ("fine\n", Some(2)),
        "{answer:?}"
    );
    let long = world.agents.run_with(&arguments, &vec![b'x'; 3 << 20]);
    assert_ne!(long.code, Some(0), "{long:?}");
    assert_eq!(
        world.sessions().len(),
        1,
        "the oversized line creates no session"
    );
}

#[test]
fn the_turn_of_a_killed_program_is_resumed() {
    let world = World::new();
    let mut child = world
        .agents
        .command(World::arguments(&[]))
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(b"endless\n")
        .expect("the program reads its input");
    let mut opening = [0; 5];
    let out = child.stdout.as_mut().expect("a pipe");
    BufReader::new(out)
        .read_exact(&mut opening)
        .expect("the chat answers");
    child.kill().expect("killed");
    child.wait().expect("the program ends");
    std::fs::write(
        world.agents.cwd().join("other.yaml"),
        "answers: [{text: resumed}]",
    )
    .expect("a file");
    let session = world.session();
    let arguments = ["chat", &session, "--actor", "scripted/other.yaml"];
    let answer = world.agents.run_with(&arguments, b"/resume\n/resume\n");
    assert_eq!(answer.out, "resumed\n", "{answer:?}");
    assert!(
        answer.err.contains("resuming the interrupted turn"),
        "{answer:?}"
    );
    assert!(
        answer.err.contains("was interrupted"),
        "the second `/resume` finds no interrupted turn: {answer:?}"
    );
    assert_eq!(world.questions(), ["endless"]);
}

#[test]
fn a_signal_ends_a_piped_chat_and_keeps_its_messages() {
    let world = World::new();
    let mut child = world
        .agents
        .command(World::arguments(&[]))
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(b"hello\nendless\nnever asked\n")
        .expect("the program reads its input");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("the chat answers");
    assert_eq!(line, "fine\n");
    let mut opening = [0; 5];
    out.read_exact(&mut opening)
        .expect("the chat answers again");
    let pid = child.id().to_string();
    let signalled = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(signalled.expect("kill runs").success());
    assert_eq!(child.wait().expect("the program ends").code(), Some(130));
    assert_eq!(world.questions(), ["hello", "endless"]);
}

#[test]
fn compact_replaces_the_conversation_by_a_summary_for_later_processes_too() {
    let world = World::new();
    let answer = world.feed(
        &[],
        "/compact\nhello\nsecond question\n/compact the names\n/compact\n",
    );
    assert!(answer.err.contains("no message yet"), "{answer:?}");
    assert!(
        answer.out.contains("Compacted 4 messages, about "),
        "{answer:?}"
    );
    assert!(answer.out.contains("Nothing to compact"), "{answer:?}");
    let session = world.session();
    let record = ["--record", "sent.jsonl", session.as_str()];
    let answer = world.feed(&record, "and now?\n");
    assert_eq!(answer.out, "fine\n", "{answer:?}");
    let sent = std::fs::read_to_string(world.agents.cwd().join("sent.jsonl")).expect("a file");
    assert!(
        sent.contains("This summary replaces the beginning") && !sent.contains("second question"),
        "{sent}"
    );
    let contents: Vec<String> = world.questions();
    assert_eq!(contents, ["hello", "second question", "and now?"]);
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and more";

#[test]
fn images_that_a_message_names_are_sent_to_the_model() {
    let world = World::new();
    let folder = world.agents.cwd();
    std::fs::write(folder.join("x.png"), PNG).expect("a file");
    let record = ["--record", "sent.jsonl"];
    let answer = world.feed(&record, "what is this? @x.png\n@gone.png\n");
    assert_eq!(answer.out, "fine\n", "{answer:?}");
    assert!(answer.err.contains("x.png (image/png, "), "{answer:?}");
    assert!(
        answer.err.contains("`gone.png` does not exist") && answer.err.contains("without @"),
        "{answer:?}"
    );
    let sent = std::fs::read_to_string(folder.join("sent.jsonl")).expect("a file");
    assert!(sent.contains("iVBORw0KGgog"), "{sent}");
    assert_eq!(world.questions(), ["what is this? @x.png\n[image]"]);
}

#[test]
fn an_image_for_a_model_without_vision_is_refused_before_it_is_stored() {
    let world = World::new();
    let folder = world.agents.cwd();
    std::fs::write(folder.join("x.png"), PNG).expect("a file");
    let script = "{capabilities: {vision: false}, answers: [{text: fine}]}";
    std::fs::write(folder.join("blind.yaml"), script).expect("a file");
    for arguments in [
        &[
            "-p",
            "what is this? @x.png",
            "--model",
            "scripted/blind.yaml",
        ][..],
        &[
            "--model",
            "scripted/blind.yaml",
            "-p",
            "explain ./x.png and '@x.png' @x.png",
        ],
    ] {
        let answer = world.agents.run(arguments);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert!(
            answer.err.contains("CA-0821") && answer.err.contains("does not accept images"),
            "{answer:?}"
        );
    }
    let text = ["-p", "what is `@x.png`?", "--model", "scripted/blind.yaml"];
    assert_eq!(world.agents.run(&text).out, "fine\n");
    let seen = ["-p", "what is @x.png?", "--model", "scripted/script.yaml"];
    assert_eq!(world.agents.run(&seen).out, "fine\n");
}
