//! `agents` without a command: a conversation in the working folder.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cleveragents_testkit::{Agents, Answer, TestDatabase};
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
- when: "^endless"
  text: "BEGUN xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
  chunk: 1
  delay_ms: 1000
- when: "^slow"
  text: fine
  first_delay_ms: 1500
- when: "^fails"
  failures: [{status: 401, message: "no such key"}]
  text: never
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

    /// Worktrees and private references of sandboxes in the repository, and the names of open sandboxes.
    fn left_behind(&self) -> String {
        let folder = self.agents.cwd().join("shop");
        let output = |arguments: &[&str]| {
            let mut command = Command::new("git");
            let output = command.current_dir(&folder).args(arguments).output();
            String::from_utf8_lossy(&output.expect("git starts").stdout).into_owned()
        };
        let worktrees = output(&["worktree", "list"]);
        let worktrees: Vec<&str> = worktrees.lines().skip(1).collect();
        let references = output(&["for-each-ref", "--format=%(refname)"]);
        let references: Vec<&str> = references
            .lines()
            .filter(|name| !name.starts_with("refs/heads/"))
            .collect();
        let listed = self.agents.data(&["sandbox", "list"]);
        let open = listed["sandboxes"].as_array().expect("a list").iter();
        let names: Vec<&str> = open.filter_map(|one| one["name"].as_str()).collect();
        [worktrees, references, names].concat().join("\n")
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

/// A conversation without changes leaves nothing in the repository, however it ends.
#[test]
fn an_unchanged_sandbox_is_closed_at_the_end() {
    let shop = Shop::new();
    let answer = shop.ask(&["reads it"]);
    assert_eq!(
        (answer.code, answer.err.as_str()),
        (Some(0), ""),
        "{answer:?}"
    );
    assert_eq!(shop.left_behind(), "", "after an answer");
    let continued = shop.ask(&["reads it", "--continue", "--output-format", "json"]);
    assert_eq!(continued.code, Some(0), "{continued:?}");
    assert_eq!(
        shop.sessions().len(),
        1,
        "the closed conversation continues"
    );
    assert_eq!(shop.left_behind(), "", "after a JSON answer");
    let failed = shop.ask(&["fails"]);
    assert_ne!(failed.code, Some(0), "{failed:?}");
    assert_eq!(shop.left_behind(), "", "after a failure");
    let chat = shop.in_folder("shop", &["-m", MODEL, "reads it now"], Some("reads it\n"));
    assert_eq!(chat.code, Some(0), "{chat:?}");
    assert_eq!(shop.left_behind(), "", "after a chat");
}

#[test]
fn an_interrupted_answer_closes_its_sandbox() {
    let shop = Shop::new();
    let mut command = shop.agents.command(["-m", MODEL, "-p", "endless question"]);
    command.current_dir(shop.agents.cwd().join("shop"));
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    let deadline = Instant::now() + Duration::from_mins(1);
    while shop.left_behind().is_empty() {
        assert!(Instant::now() < deadline, "no sandbox");
        std::thread::sleep(Duration::from_millis(100));
    }
    let id = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &id]).status();
    assert!(killed.expect("kill starts").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(shop.left_behind(), "");
}

#[test]
fn changes_that_wait_are_named_at_the_end_and_at_the_next_start() {
    let shop = Shop::new();
    let answer = shop.ask(&["writes it", "--output-format", "json"]);
    let waiting = "changes wait in sandbox session-";
    assert!(answer.err.contains(waiting), "{answer:?}");
    // A later answer without a change of its own names them too.
    let answer = shop.ask(&["reads it", "--continue"]);
    assert!(
        answer.err.contains(waiting) && answer.err.contains("notes.txt"),
        "{answer:?}"
    );
    let start = shop.in_folder("shop", &["-m", MODEL, "hello you"], Some(""));
    let announced = "1 changed file not applied: `agents --continue`, /diff, /apply";
    assert!(start.err.contains(announced), "{start:?}");
    assert_eq!(start.err.matches("Unfinished here").count(), 1, "{start:?}");
    let session = shop.sessions();
    let changed = session
        .iter()
        .find(|one| one["name"] == "writes it")
        .expect("a session");
    let id = changed["id"].as_str().expect("an id");
    let again = shop.in_folder("shop", &["-m", MODEL, "hello you"], Some(""));
    assert!(
        again.err.contains(&format!("agents --resume {id}")),
        "{again:?}"
    );
    let left = shop.in_folder("shop", &["-m", MODEL, "--resume", id], Some("reads it\n"));
    assert!(
        left.err
            .contains("1 changed file not applied; continue with"),
        "{left:?}"
    );
    // Another folder has no unfinished work, and JSON output has no announcement.
    let bank = shop.agents.cwd().join("bank");
    std::fs::create_dir(&bank).expect("a folder");
    std::fs::write(bank.join("script.yaml"), SCRIPT).expect("a file");
    let other = shop.in_folder("bank", &["-m", MODEL, "hello you"], Some(""));
    assert!(!other.err.contains("Unfinished"), "{other:?}");
    let json = ["--format", "json", "-m", MODEL, "hello you"];
    let json = shop.in_folder("shop", &json, Some(""));
    assert!(!json.err.contains("Unfinished"), "{json:?}");
}

#[test]
fn a_chat_at_a_terminal_names_changes_when_it_starts_stops_and_ends() {
    const PROMPT: &str = "script.yaml>";
    const CTRL_C: &str = "\u{3}";
    const CTRL_D: &str = "\u{4}";
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    std::fs::write(agents.cwd().join("script.yaml"), SCRIPT).expect("a file");
    std::fs::write(agents.cwd().join("notes.txt"), "first\n").expect("a file");
    let waiting = "1 changed file not applied: /diff";
    let leaving = "1 changed file not applied; continue with `agents --continue`";
    let steps = [
        (PROMPT, "writes it\r"),
        ("tokens in", ""),
        (PROMPT, CTRL_D),
        (leaving, ""),
    ];
    let (code, screen) = agents.play(&steps, &["-m", MODEL]);
    assert_eq!(code, Some(0), "{screen}");
    let steps = [
        (waiting, ""),
        (PROMPT, "endless\r"),
        ("BEG", CTRL_C),
        ("stopped; the session", ""),
        (waiting, ""),
        (PROMPT, CTRL_D),
        (leaving, ""),
    ];
    let (code, screen) = agents.play(&steps, &["-m", MODEL, "--continue"]);
    assert_eq!(code, Some(0), "{screen}");
    let steps = [
        ("today ", ""),
        ("  writes it (2 turns, 1 changed file not applied)", ""),
        ("Number: ", "1\r"),
        (waiting, ""),
        (PROMPT, CTRL_D),
    ];
    let (code, screen) = agents.play(&steps, &["-m", MODEL, "--resume"]);
    assert_eq!(code, Some(0), "{screen}");
}

#[test]
fn a_status_line_shows_that_an_answer_is_awaited_on_a_terminal() {
    let mut shop = Shop::new();
    shop.agents = shop.agents.with("TERM", "xterm");
    let script = shop.agents.cwd().join("script.yaml");
    std::fs::write(script, SCRIPT).expect("a file");
    let question = ["-m", MODEL, "-p", "slow question"];
    let shown = shop.agents.run_on_terminal(&question, "");
    assert!(shown.err.contains("Thinking"), "{shown:?}");
    assert_eq!(shown.out, "fine\n", "{shown:?}");
    let piped = shop.ask(&["slow question"]);
    assert_eq!((piped.out.as_str(), piped.err.as_str()), ("fine\n", ""));
}

/// The strategist answers without a strategy, so the plan fails.
#[test]
fn an_unfinished_plan_is_announced_in_its_folder_only() {
    let shop = Shop::new();
    let task = ["do", "change the notes", "--model", MODEL];
    let first = shop.in_folder("shop", &task, None);
    assert_ne!(first.code, Some(0), "{first:?}");
    assert!(!first.err.contains("Unfinished"), "{first:?}");
    let plans = shop.agents.data(&["plan", "list"]);
    let id = plans["plans"][0]["plan_id"]
        .as_str()
        .unwrap_or_else(|| panic!("{plans}"));
    let expected = format!(
        "Unfinished here: plan {id} \"change the notes\" (failed while strategizing): `agents plan execute {id}`"
    );
    let chat = ["-m", MODEL, "hello you"];
    for arguments in [task.as_slice(), &chat] {
        let second = shop.in_folder("shop", arguments, Some(""));
        assert!(second.err.contains("Unfinished here: plan "), "{second:?}");
        assert!(second.err.contains("change the notes"), "{second:?}");
        if arguments == task {
            assert!(second.err.contains(&expected), "{second:?}");
        }
    }
    let bank = shop.agents.cwd().join("bank");
    std::fs::create_dir(&bank).expect("a folder");
    std::fs::write(bank.join("script.yaml"), SCRIPT).expect("a file");
    let other = shop.in_folder("bank", &chat, Some(""));
    assert!(!other.err.contains("Unfinished"), "{other:?}");
}

/// A cleanup removes the sandboxes of killed processes a day later, but none with changes.
#[test]
fn a_cleanup_removes_idle_unchanged_sandboxes_only() {
    let shop = Shop::new();
    shop.ask(&["writes it"]);
    let tell = |name: &str, text: &str| {
        let arguments = ["session", "create", "--name", name];
        shop.agents.data(&arguments);
        let project = shop.agents.data(&["project", "list"]);
        let project = project["projects"][0]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        let options = [
            "session",
            "tell",
            text,
            "--session",
            name,
            "--project",
            &project,
            "--actor",
            MODEL,
        ];
        let told = shop.in_folder("shop", &options, None);
        assert_eq!(told.code, Some(0), "{told:?}");
    };
    tell("idle", "reads it");
    let status = || shop.agents.data(&["cleanup", "status"])["sandboxes"].clone();
    assert_eq!(status()["count"], 0, "younger than a day");
    let aged = "UPDATE sandboxes SET updated_at = updated_at - 90000000000; \
                UPDATE sessions SET updated_at = updated_at - 90000000000";
    TestDatabase::write_file(&shop.agents.database(), aged);
    let idle = status();
    assert_eq!(idle["count"], 1, "{idle}");
    assert!(idle["bytes"].as_u64() > Some(0), "{idle}");
    let dry = shop.agents.data(&["cleanup", "run", "--dry-run"]);
    assert_eq!((&dry["removed"], &dry["sandboxes"]), (&false.into(), &idle));
    let removed = shop.agents.data(&["cleanup", "run"]);
    assert_eq!(removed["sandboxes"], idle, "{removed}");
    assert_eq!(status()["count"], 0);
    let left = shop.left_behind();
    let open = left.lines().filter(|line| line.starts_with("session-"));
    assert_eq!(open.count(), 1, "the sandbox with changes stays: {left}");
    let diff =
        |name: &str| shop.in_folder("shop", &["-m", MODEL, "--resume", name], Some("/diff\n"));
    assert!(diff("writes it").out.contains("+by the model"));
    let unchanged = diff("idle");
    assert!(unchanged.out.contains("No changes"), "{unchanged:?}");
    assert!(!unchanged.err.contains("CA-"), "{unchanged:?}");
}

/// The process of a turn is killed: the next start names the conversation.
#[test]
fn an_interrupted_turn_is_announced() {
    let shop = Shop::new();
    let mut command = shop.agents.command(["-m", MODEL, "-p", "endless question"]);
    command
        .current_dir(shop.agents.cwd().join("shop"))
        .stdin(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let deadline = Instant::now() + Duration::from_mins(1);
    while shop.left_behind().is_empty() {
        assert!(Instant::now() < deadline, "no sandbox");
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_millis(500));
    let running = shop.in_folder("shop", &["-m", MODEL, "hello you"], Some(""));
    assert!(
        !running.err.contains("Unfinished"),
        "a running turn: {running:?}"
    );
    child.kill().expect("killed");
    child.wait().expect("ended");
    let start = shop.in_folder("shop", &["-m", MODEL, "hello you"], Some(""));
    assert!(
        start.err.contains("was interrupted: `agents --resume"),
        "{start:?}"
    );
}

#[test]
fn an_unknown_model_is_reported_with_similar_names() {
    let shop = Shop::new();
    let arguments = ["-m", "nosuch/model", "-p", "hello"];
    let unknown = shop.in_folder("shop", &arguments, None);
    let expected = "there is no model or actor `nosuch/model`";
    assert!(unknown.err.contains(expected), "{unknown:?}");
    assert!(unknown.err.contains("agents model list"), "{unknown:?}");
    assert_eq!(shop.left_behind(), "");
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
