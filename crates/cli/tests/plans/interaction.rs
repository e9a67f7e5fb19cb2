//! Interaction with the user: input typed before a question, the diff at the apply question,
//! questions of models, the output of failed checks, and guidance.

use cleveragents_testkit::PAUSE;
use serde_json::{Value, json};

use super::world::{World, error, git};

const VERDICT: &str = r#"{"criteria": [{"number": 1, "met": true, "evidence": "n.txt is good"}]}"#;

/// The check of these plans: prints thirty lines, and fails until `n.txt` is correct.
const CHECK: &str = "seq 1 30; grep good n.txt";

/// A world with actors that write a wrong file, fix it, and review it; `first` is the first answer
/// of the strategist.
fn modelled(first: Option<Value>) -> World {
    let world = World::new();
    let strategy =
        json!({"summary": "one way", "steps": [{"title": "write it", "description": "d"}]});
    let mut strategist: Vec<Value> = first.into_iter().collect();
    strategist.push(json!({"text": strategy.to_string()}));
    let write = |content: &str| {
        json!([
            {"name": "builtin/file-write", "arguments": {"path": "n.txt", "content": content}},
            {"name": "builtin/file-delete", "arguments": {"path": "a.txt"}},
        ])
    };
    world.scripted_action(
        "local/steps",
        &json!({"at_end": "repeat_last", "answers": strategist}),
        &json!({"at_end": "repeat_last", "answers": [
            {"when": "^Execute step 1 of ", "calls": write("bad\n")},
            {"when": "^Checks failed", "calls": [
                {"name": "builtin/file-write", "arguments": {"path": "n.txt", "content": "good\n"}},
            ]},
            {"when": "^The steps of the plan are done. Apply the guidance", "calls": [
                {"name": "builtin/file-write", "arguments": {"path": "more.txt", "content": "more\n"}},
            ]},
            {"text": "It is written."},
        ]}),
        &format!("- check `{CHECK}`"),
    );
    let reviewer = json!({"at_end": "repeat_last", "answers": [
        {"when": "^Review the result", "calls": [{"name": "builtin/file-read", "arguments": {"path": "n.txt"}}]},
        {"text": VERDICT},
    ]});
    world.file("reviewer.yaml", &reviewer.to_string());
    let actor = json!({
        "name": "local/reviewer", "type": "llm", "description": "reviews",
        "model": "scripted/reviewer.yaml", "system_prompt": "Work.", "tools": ["builtin/file-read"],
    });
    let file = world.file("actor.yaml", &actor.to_string());
    world.agents.data(&["actor", "add", "--config", &file]);
    world
}

/// A thousand random characters, many of them `y` and Enter; none ends or stops the program.
fn noise(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut typed = String::new();
    while typed.chars().count() < 1_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state % 8 {
            0..=2 => typed.push_str("y\r"),
            3 => typed.push_str("yes\n"),
            4 => {
                typed.push(['\u{4}', '\u{8}', '\u{15}', '\u{1b}', '\t'][(state >> 8) as usize % 5]);
            }
            _ => typed.push(
                char::from_u32(0x20 + u32::try_from((state >> 8) % 0x160).unwrap_or(0))
                    .unwrap_or('y'),
            ),
        }
    }
    typed
}

/// Ctrl-C, after a pause in which an answer would have taken effect.
const CTRL_C: &str = "\u{e000}\u{3}";
const PROMPT: &str = "[y/N]: ";

/// A phase: name, output at its start, the questions before it, and the stage in which the plan
/// stopped.
type Phase<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn input_typed_during_a_phase_answers_no_question() {
    let execute = ("Execute it?", "");
    let fix = ("A check failed. Fix it?", "");
    let yes = (PROMPT, "y\r");
    // Output at the start of each phase, the questions before it, and the stage in which the plan
    // stopped.
    let phases: [Phase<'_>; 5] = [
        (
            "strategize",
            "● strategize: processing",
            &[],
            "strategize/complete",
        ),
        (
            "execute",
            "● execute: processing",
            &[execute, yes],
            "execute/processing",
        ),
        (
            "fix",
            "Fixing failed checks (1/",
            &[execute, yes, fix, yes],
            "execute/complete",
        ),
        (
            "review",
            "→ builtin/file-read",
            &[execute, yes, fix, yes],
            "execute/complete",
        ),
        // The question follows soon, and its diff is visible.
        (
            "apply",
            "  deleted  a.txt",
            &[execute, yes, fix, yes],
            "execute/complete",
        ),
    ];
    for (seed, (phase, seen_first, before, stage)) in (1..).zip(phases) {
        let world = modelled(None);
        let typed = noise(seed);
        let mut steps = before.to_vec();
        steps.extend([(seen_first, typed.as_str()), (PROMPT, CTRL_C)]);
        let check = format!("--check={CHECK}");
        let arguments = [
            "--format",
            "plain",
            "do",
            "make it good",
            "--folder",
            "repo",
            &check,
            "--strategy-actor",
            "local/strategist",
            "--execution-actor",
            "local/executor",
            "--review-actor",
            "local/reviewer",
        ];
        let (code, seen) = world.agents.play(&steps, &arguments);
        assert_eq!(code, Some(130), "{phase}: {seen}");
        assert_eq!(
            world.ask("SELECT stage FROM plans"),
            [[stage]],
            "{phase}: {seen}"
        );
        let commits = git(&world.repository(), &["rev-list", "--count", "HEAD"]);
        assert_eq!(commits, "1", "{phase}: {seen}");
    }
}

#[test]
fn the_apply_question_shows_what_is_applied() {
    let world = World::new();
    world.action(
        "local/one",
        &["delete `a.txt`", "write `second` to `b.txt`"],
    );
    let plan = world.executed("local/one");
    let apply = ["--format", "plain", "plan", "apply", &plan];
    let steps = [("-first", ""), ("deleted  a.txt", ""), (PROMPT, "n\r")];
    let (code, seen) = world.agents.play(&steps, &apply);
    assert_eq!(code, Some(5), "{seen}");
    assert_eq!(world.stage(&plan), "execute/complete");
    let lines: Vec<String> = (0..1_000).map(|line| format!("line {line}")).collect();
    let long = format!("write `{}` to `long.txt`", lines.join("\\n"));
    world.action("local/long", &[&long]);
    let plan = world.executed("local/long");
    let apply = ["--format", "plain", "plan", "apply", &plan];
    let pointer = format!("agents plan diff {plan}");
    let steps = [
        (pointer.as_str(), ""),
        ("added    long.txt", ""),
        (PROMPT, "y\r"),
    ];
    let (code, seen) = world.agents.play(&steps, &apply);
    assert_eq!(code, Some(0), "{seen}");
    assert!(!seen.contains("line 999"), "{seen}");
    assert_eq!(world.stage(&plan), "apply/applied");
}

fn asking() -> Value {
    json!({"calls": [
        {"name": "builtin/ask-user", "arguments": {"question": "Which colour?", "options": ["red", "blue"]}},
    ]})
}

/// Outcome of the strategist's question.
fn asked(world: &World) -> (String, String) {
    let rows = world.ask(
        "SELECT outcome, COALESCE(error, '') FROM tool_invocations WHERE tool = 'builtin/ask-user'",
    );
    assert_eq!(rows.len(), 1, "{rows:?}");
    (rows[0][0].clone(), rows[0][1].clone())
}

#[test]
fn a_question_of_the_strategist_reaches_the_user_and_the_answer_stays_visible() {
    let world = modelled(Some(asking()));
    let arguments = ["--format", "plain", "plan", "use", "local/steps", "local/p"];
    let typed = format!("so{PAUSE}me{PAUSE}thing{PAUSE}\r");
    let steps = [("Which colour?", ""), ("[2] blue", ""), ("> ", &typed)];
    let (code, seen) = world.agents.play(&steps, &arguments);
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(asked(&world).0, "succeeded", "{seen}");
    let (_, answer) = seen.split_once("\n> ").expect("a prompt");
    let (line, _) = answer.split_once('\n').expect("the end of its line");
    assert_eq!(
        line.trim_end(),
        "something",
        "the line of the answer: {line:?}"
    );
}

#[test]
fn a_question_of_the_strategist_without_a_user_is_not_shown_as_answered() {
    let world = modelled(Some(asking()));
    let arguments = [
        "--format",
        "plain",
        "plan",
        "use",
        "local/steps",
        "local/p",
        "--stream",
    ];
    let answer = world.agents.run(&arguments);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let (outcome, why) = asked(&world);
    assert_eq!(outcome, "failed");
    assert!(why.contains("no user is available"), "{why}");
    let line = answer
        .err
        .lines()
        .find(|line| line.contains("builtin/ask-user ✗"));
    assert!(line.is_some(), "{answer:?}");
    assert!(!answer.err.contains("✓ done"), "{answer:?}");
    // A profile that automates every decision asks no user, even at a terminal.
    let world = modelled(Some(asking()));
    let arguments = [
        "--format",
        "plain",
        "plan",
        "use",
        "local/steps",
        "local/p",
        "--automation-profile",
        "auto",
    ];
    let (_, seen) = world.agents.play(&[], &arguments);
    assert_eq!(asked(&world).0, "failed", "{seen}");
}

#[test]
fn the_output_of_a_failed_check_is_shown_whole_and_the_fix_is_approved_from_a_pipe() {
    let world = modelled(None);
    let plan = world.plan("local/steps", &[]);
    let live = world
        .agents
        .run(&["--format", "plain", "plan", "execute", &plan, "--stream"]);
    assert_eq!(live.code, Some(5), "{live:?}");
    let approve = format!("agents plan approve {plan}");
    assert!(live.err.contains(&approve), "{live:?}");
    assert!(live.err.contains(&format!("    $ {CHECK}")), "{live:?}");
    for line in ["    | 11\n", "    | 30\n"] {
        assert!(live.err.contains(line), "{line}: {live:?}");
    }
    assert!(
        !live.err.contains("| 10\n"),
        "only its end is shown: {live:?}"
    );
    let lines: Vec<String> = (1..=30).map(|line| format!("{line}\n")).collect();
    let whole = lines.concat();
    let shown = world
        .agents
        .run(&["--format", "plain", "plan", "errors", &plan])
        .out;
    assert!(
        shown.contains(&whole) && shown.contains(&format!("$ {CHECK}")),
        "{shown}"
    );
    assert!(shown.contains("exit code 1"), "{shown}");
    let assert_reported = |check: &Value| {
        assert_eq!(check["command"], CHECK, "{check}");
        assert_eq!(check["exit_code"], 1, "{check}");
        assert_eq!(check["output"], whole.as_str(), "{check}");
    };
    let data = |verb: &str| world.agents.data(&["plan", verb, &plan]);
    assert_reported(&data("errors")["history"][0]);
    for verb in ["status", "show", "explain"] {
        assert_reported(&data(verb)["failed_checks"][0]);
    }
    let log = data("log");
    let events = log["events"].as_array().expect("a list");
    let failed: Vec<&Value> = events
        .iter()
        .filter(|event| !event["failed_check"].is_null())
        .collect();
    assert_eq!(failed.len(), 1, "{log}");
    assert_reported(&failed[0]["failed_check"]);
    // Repeating the command is not an approval.
    let again = world.run(&["plan", "execute", &plan]);
    assert_eq!(again.code, Some(5), "{again:?}");
    assert_eq!(error(&again)["code"], "CA-1144");
    world.agents.data(&["plan", "approve", &plan]);
    world.agents.data(&["plan", "execute", &plan]);
    assert_eq!(world.stage(&plan), "execute/complete");
    assert_eq!(world.tree(&plan)["n.txt"], "good\n");
    assert_eq!(data("status")["failed_checks"], json!([]));
}

/// Last message of a command that succeeded.
fn message(world: &World, arguments: &[&str]) -> String {
    let answer = world.run(arguments);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let messages = answer.json()["messages"].clone();
    let last = messages.as_array().and_then(|all| all.last().cloned());
    last.expect("a message")["text"]
        .as_str()
        .expect("text")
        .to_owned()
}

#[test]
fn executing_guidance_on_finished_work_reports_the_result() {
    let world = modelled(None);
    let plan = world.plan("local/steps", &[]);
    world.run(&["plan", "execute", &plan]);
    world.agents.data(&["plan", "approve", &plan]);
    world.agents.data(&["plan", "execute", &plan]);
    let execute = ["plan", "execute", &plan];
    assert!(message(&world, &execute).contains("nothing was done"));
    world.agents.data(&["plan", "prompt", &plan, "write more"]);
    assert_eq!(message(&world, &execute), "Plan executed");
    assert_eq!(world.tree(&plan)["more.txt"], "more\n");
    assert!(message(&world, &execute).contains("nothing was done"));
}

#[test]
fn guidance_without_a_model_stays_pending() {
    let world = World::new();
    world.action("local/one", &["write `one` to `one.txt`"]);
    let plan = world.plan("local/one", &[]);
    // Before the steps, which are calls, and after them.
    for count in 1..=2 {
        let reported = world.agents.data(&["plan", "prompt", &plan, "be careful"]);
        assert_eq!(reported["queue"], json!({"pending": count, "applied": 0}));
        let answer = world.run(&["plan", "execute", &plan]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let warns = answer.json()["messages"].to_string();
        assert!(warns.contains("cannot read it"), "{warns}");
    }
}

#[test]
fn progress_counts_finished_steps() {
    let world = World::new();
    let strategy = json!({"summary": "look", "steps": [{"title": "look", "description": "d"}]});
    world.scripted_action(
        "local/idle",
        &json!({"at_end": "repeat_last", "answers": [{"text": strategy.to_string()}]}),
        &json!({"at_end": "repeat_last", "answers": [{"text": "I did nothing."}]}),
        "nothing is to be done",
    );
    let progress = |plan: &str| {
        let done = world.agents.data(&["plan", "execute", plan]);
        let rows = done["progress"].as_array().expect("a list").clone();
        rows.iter()
            .map(|row| row["status"].as_str().expect("a word").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        progress(&world.plan("local/idle", &[])),
        ["done", "none", "none", "none"]
    );
    world.action("local/one", &["write `one` to `one.txt`", "check `true`"]);
    assert_eq!(progress(&world.plan("local/one", &[])), ["done"; 4]);
}

/// An actor that makes this call first and then answers.
fn run_actor(world: &World, call: &Value) -> String {
    let script =
        json!({"at_end": "repeat_last", "answers": [{"calls": [call]}, {"text": "It is so."}]});
    world.file("asks.yaml", &script.to_string());
    let actor = json!({
        "name": "local/asks", "type": "llm", "description": "asks", "model": "scripted/asks.yaml",
        "system_prompt": "Work.", "tools": ["builtin/*"],
    });
    let file = world.file("actor.yaml", &actor.to_string());
    world.agents.data(&["actor", "add", "--config", &file]);
    world
        .agents
        .data(&["sandbox", "create", "s", "--resource", "local/repo"]);
    let arguments = [
        "actor",
        "run",
        "local/asks",
        "go",
        "--sandbox",
        "s",
        "--rule",
        "ask builtin/file-write",
    ];
    let waits = world.run(&arguments);
    assert_eq!(waits.code, Some(5), "{waits:?}");
    let run = world.ask("SELECT run_id FROM runs")[0][0].clone();
    assert!(
        error(&waits)["hint"]
            .to_string()
            .contains(&format!("agents run resume {run} --answer")),
        "{waits:?}"
    );
    run
}

#[test]
fn a_run_that_waits_shows_its_question_and_is_answered_without_a_terminal() {
    let world = World::new();
    let question = asking()["calls"][0].clone();
    let run = run_actor(&world, &question);
    let expected = json!({"kind": "question", "text": "Which colour?", "options": ["red", "blue"]});
    assert_eq!(
        world.agents.data(&["run", "show", &run])["questions"],
        json!([expected])
    );
    assert_eq!(
        world.agents.data(&["run", "list"])["runs"][0]["question"],
        expected
    );
    let list = world.agents.run(&["--format", "plain", "run", "list"]).out;
    assert!(list.contains("Which colour?"), "{list}");
    let both = world.run(&["run", "resume", &run, "--answer", "x", "--redo"]);
    assert_eq!(both.code, Some(2), "{both:?}");
    let done = world.agents.data(&["run", "resume", &run, "--answer", "2"]);
    assert_eq!(done["response"]["text"], "It is so.");
    let shown = world.agents.data(&["run", "show", &run]);
    assert_eq!(shown["questions"], json!([]));
    let calls = world.ask("SELECT output_hash FROM tool_invocations WHERE outcome = 'succeeded'");
    assert_eq!(calls.len(), 1);
    let late = world.run(&["run", "resume", &run, "--answer", "2"]);
    assert_ne!(late.code, Some(0), "{late:?}");
}

#[test]
fn a_call_that_waits_for_approval_is_approved_or_refused_without_a_terminal() {
    for (answer, outcome, is_written) in
        [("yes", "succeeded", true), ("not today", "refused", false)]
    {
        let world = World::new();
        let call =
            json!({"name": "builtin/file-write", "arguments": {"path": "n.txt", "content": "x\n"}});
        let run = run_actor(&world, &call);
        let question = world.agents.data(&["run", "show", &run])["questions"][0].clone();
        assert_eq!(question["kind"], "approval", "{question}");
        assert_eq!(question["arguments"]["path"], "n.txt", "{question}");
        world
            .agents
            .data(&["run", "resume", &run, "--answer", answer]);
        let calls = world.ask(
            "SELECT outcome FROM tool_invocations WHERE tool = 'builtin/file-write' ORDER BY invocation_id DESC",
        );
        assert_eq!(calls[0][0], outcome, "{answer}");
        let diff = world.agents.data(&["sandbox", "diff", "s"]).to_string();
        assert_eq!(diff.contains("n.txt"), is_written, "{answer}: {diff}");
    }
}
