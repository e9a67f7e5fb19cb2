//! `agents` without a command: a conversation in the working folder.

use std::path::Path;
use std::process::{Command, Stdio};

use cleveragents_testkit::{Agents, Answer};
use serde_json::Value;

/// A model that calls a tool for questions that start with `writes` or `reads`, and answers other questions with a
/// text.
const SCRIPT: &str = r#"
at_end: repeat_last
price: {input: 1, output: 4}
answers:
- when: "^writes"
  text: I change it.
  calls: [{name: builtin/file-write, arguments: {path: notes.txt, content: "by the model\n"}}]
- when: "^reads"
  text: I read it.
  calls: [{name: builtin/file-read, arguments: {path: notes.txt}}]
- when: "^secret"
  text: noted
- text: fine
"#;

const MODEL: &str = "scripted/script.yaml";

/// A home, and a repository `shop` with `notes.txt` and a subfolder.
struct Shop {
    agents: Agents,
}

impl Shop {
    fn new() -> Self {
        let shop = Self {
            agents: Agents::new(env!("CARGO_BIN_EXE_agents")),
        };
        let folder = shop.agents.cwd().join("shop");
        std::fs::create_dir_all(folder.join("src")).expect("a folder");
        std::fs::write(folder.join("notes.txt"), "first\n").expect("a file");
        std::fs::write(folder.join("script.yaml"), SCRIPT).expect("a file");
        std::fs::write(folder.join("src/script.yaml"), SCRIPT).expect("a file");
        git(&folder, &["init", "-q"]);
        git(&folder, &["add", "."]);
        git(&folder, &["commit", "-q", "-m", "first"]);
        shop
    }

    fn in_folder(&self, folder: &str, arguments: &[&str], input: Option<&str>) -> Answer {
        let mut command = self.agents.command(arguments);
        command.current_dir(self.agents.cwd().join(folder));
        let Some(input) = input else {
            return Answer::from_output(&command.output().expect("the program starts"));
        };
        let file = self.agents.cwd().join("input");
        std::fs::write(&file, input).expect("a file");
        command.stdin(Stdio::from(std::fs::File::open(file).expect("a file")));
        Answer::from_output(&command.output().expect("the program starts"))
    }

    /// The answer to one question in the folder `shop`.
    fn ask(&self, arguments: &[&str]) -> Answer {
        self.in_folder("shop", &[&["-m", MODEL, "-p"], arguments].concat(), None)
    }

    fn notes(&self) -> String {
        std::fs::read_to_string(self.agents.cwd().join("shop/notes.txt")).expect("a file")
    }

    fn sessions(&self) -> Vec<Value> {
        let listed = self.agents.data(&["session", "list"]);
        listed["sessions"].as_array().expect("a list").clone()
    }

    fn questions(&self, session: &Value) -> Vec<String> {
        let messages = self.agents.messages(session["id"].as_str().expect("an id"));
        let asked = messages.iter().filter(|message| message["role"] == "user");
        asked
            .map(|message| message["content"].as_str().expect("text").to_owned())
            .collect()
    }
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(arguments)
        .status()
        .expect("git starts");
    assert!(status.success(), "{arguments:?}");
}

#[test]
fn a_question_is_answered_once_and_only_the_answer_is_printed() {
    let shop = Shop::new();
    let answer = shop.ask(&["what is this?"]);
    assert_eq!(
        (answer.code, answer.out.as_str(), answer.err.as_str()),
        (Some(0), "fine\n", ""),
        "{answer:?}"
    );
    let sessions = shop.sessions();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["name"], "what is this?");
    // Standard input is appended to the question.
    let arguments = ["-m", MODEL, "-p", "review this"];
    let answer = shop.in_folder("shop", &arguments, Some("the diff\n"));
    assert_eq!(answer.out, "fine\n", "{answer:?}");
    let sessions = shop.sessions();
    let asked: Vec<_> = sessions
        .iter()
        .flat_map(|one| shop.questions(one))
        .collect();
    assert!(
        asked.contains(&"review this\n\nthe diff".to_owned()),
        "{asked:?}"
    );
    let nothing = shop.in_folder("shop", &["-m", MODEL, "-p"], Some(" \n"));
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
    assert_eq!(shop.sessions().len(), 2, "no session without a question");
}

#[test]
fn an_answer_is_one_json_document_or_a_stream_of_events_and_a_result() {
    let shop = Shop::new();
    let answer = shop.ask(&["reads it", "--output-format", "json"]);
    let document = answer.json();
    assert_eq!(document["data"]["response"], "fine", "{document}");
    let answer = shop.ask(&["reads it", "--output-format", "stream-json"]);
    let lines: Vec<Value> = answer
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let kinds: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect();
    assert_eq!(kinds.len(), lines.len(), "{lines:?}");
    assert_eq!(kinds.last(), Some(&"result"), "{kinds:?}");
    assert!(kinds.contains(&"tool_call_finished"), "{kinds:?}");
    assert_eq!(lines[lines.len() - 1]["response"], "fine");
    let failed = shop.ask(&["hello", "--output-format", "stream-json", "-m", "missing/x"]);
    assert_ne!(failed.code, Some(0), "{failed:?}");
}

#[test]
fn changes_stay_in_a_copy_and_each_turn_starts_with_the_present_files() {
    let shop = Shop::new();
    let answer = shop.ask(&["writes it"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(
        answer.err.contains("notes.txt") && answer.err.contains("agents sandbox apply"),
        "{answer:?}"
    );
    assert_eq!(shop.notes(), "first\n", "the user's file is unchanged");
    // If the user's files change too, the copy keeps the change of the model, and the turn lists the changed files of
    // the user.
    std::fs::write(shop.agents.cwd().join("shop/src/new.txt"), "new\n").expect("a file");
    let again = shop.ask(&["reads it", "--continue"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(shop.sessions().len(), 1, "the same conversation");
    let result = shop.ask(&["reads it", "--continue", "--output-format", "stream-json"]);
    assert!(result.out.contains("src/new.txt"), "{result:?}");
    let sessions = shop.sessions();
    let id = sessions[0]["id"].as_str().expect("an id");
    let messages = shop.agents.messages(id);
    let read = messages.iter().rfind(|message| message["role"] == "tool");
    let read = read.expect("a result").to_string();
    assert!(read.contains("by the model"), "its own change: {read}");
}

#[test]
fn a_conversation_of_the_folder_continues_also_without_a_tool_call_and_from_a_subfolder() {
    let shop = Shop::new();
    shop.ask(&["hello"]);
    let below = ["-m", MODEL, "-p", "-c", "and now?"];
    let answer = shop.in_folder("shop/src", &below, None);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let sessions = shop.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(shop.questions(&sessions[0]), ["hello", "and now?"]);
    // Another folder has no conversation to continue. The program reports this and starts a new one.
    std::fs::create_dir(shop.agents.cwd().join("bank")).expect("a folder");
    std::fs::write(shop.agents.cwd().join("bank/script.yaml"), SCRIPT).expect("a file");
    let other = shop.in_folder("bank", &["-m", MODEL, "-p", "-c", "hello"], None);
    assert!(other.err.contains("no conversation in"), "{other:?}");
    assert_eq!(shop.sessions().len(), 2);
    // Names are found from any folder, but two conversations have this name.
    let named = shop.in_folder(
        "bank",
        &["-m", MODEL, "-p", "third", "--resume", "hello"],
        None,
    );
    assert_eq!(named.code, Some(2), "two have this name: {named:?}");
    let id = sessions[0]["id"].as_str().expect("an id");
    let by_id = shop.in_folder("shop", &["-m", MODEL, "-p", "third", "--resume", id], None);
    assert_eq!(by_id.code, Some(0), "{by_id:?}");
    assert_eq!(shop.questions(&sessions[0]).len(), 3);
}

/// `/undo` rolls back the last change also if an earlier process made it. After `/apply` the chat has no open sandbox:
/// its commands are refused, and the next message creates a new one.
#[test]
fn changes_of_an_earlier_process_are_undone_and_an_apply_is_committed_with_the_question() {
    let shop = Shop::new();
    let chat = |input: &str| {
        let answer = shop.in_folder("shop", &["-m", MODEL, "--continue"], Some(input));
        format!("{}{}", answer.out, answer.err)
    };
    shop.ask(&["writes it"]);
    let shown = chat("/diff\n");
    assert!(shown.contains("+by the model"), "{shown}");
    let undone = chat("/undo\n/diff\n");
    assert!(!undone.contains("+by the model"), "{undone}");
    assert!(!undone.contains("CA-"), "{undone}");
    let redone = chat("/redo\n/diff\n");
    assert!(redone.contains("+by the model"), "{redone}");

    let applied = chat("/apply --yes\n/redo\n/undo\nhello\n/undo\n");
    assert_eq!(shop.notes(), "by the model\n", "{applied}");
    let problem = "the changes of this chat are applied to your files";
    assert_eq!(applied.matches(problem).count(), 2, "{applied}");
    let log = Command::new("git")
        .current_dir(shop.agents.cwd().join("shop"))
        .args(["log", "-1", "--format=%s"])
        .output()
        .expect("git starts");
    assert_eq!(String::from_utf8_lossy(&log.stdout), "writes it\n");
}

#[test]
fn a_secret_in_the_question_is_not_in_the_name_of_the_session() {
    let shop = Shop::new();
    shop.ask(&["secret: my token=ghp_0123456789abcdefghijABCDEFGHIJ456789"]);
    let listed = shop.agents.data(&["session", "list"]).to_string();
    assert!(!listed.contains("ghp_"), "{listed}");
}

#[test]
fn without_a_model_the_first_screen_lists_keys_and_nothing_is_stored() {
    let shop = Shop::new();
    let answer = shop.in_folder("shop", &["-p", "hello"], None);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    let shown = format!("{}{}", answer.out, answer.err);
    for expected in [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "agents demo",
        "CA-0823",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(shop.sessions().is_empty());
    let projects = shop.agents.data(&["project", "list"]);
    assert_eq!(projects["projects"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_conversation_without_a_terminal_reads_its_questions_and_needs_one_to_choose() {
    let shop = Shop::new();
    let bare = shop.in_folder("shop", &[], None);
    assert_eq!(bare.code, Some(2), "{bare:?}");
    assert!(bare.err.contains("agents 'TASK'"), "the help: {bare:?}");
    let task = ["-m", MODEL, "what is this?"];
    let answer = shop.in_folder("shop", &task, Some("and this?\n"));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(answer.out, "fine\nfine\n", "{answer:?}");
    let choose = shop.in_folder("shop", &["-m", MODEL, "--resume"], None);
    assert_eq!(choose.code, Some(5), "{choose:?}");
    assert!(choose.err.contains("agents --continue"), "{choose:?}");
}

#[test]
fn one_unknown_word_is_not_a_task() {
    let shop = Shop::new();
    for (word, tip) in [
        ("statsu", "agents status"),
        ("login", "agents model key set"),
        ("exec", "agents -p"),
        ("zzzzzz", "agents 'zzzzzz"),
    ] {
        let answer = shop.in_folder("shop", &[word], None);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.contains(tip), "{word}: {answer:?}");
    }
    let words = shop.in_folder("shop", &["sesion", "list"], None);
    assert_eq!(words.code, Some(2), "{words:?}");
    assert!(words.err.contains("agents session"), "{words:?}");
    let misplaced = shop.in_folder("shop", &["-c", "status"], None);
    assert_eq!(misplaced.code, Some(2), "{misplaced:?}");
    assert!(shop.sessions().is_empty());
}
