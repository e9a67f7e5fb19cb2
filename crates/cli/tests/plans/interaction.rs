//! Interaction with the user: input typed before a question, the diff at the apply question,
//! questions of models, the output of failed checks, and guidance.

use cleveragents_testkit::PAUSE;
use serde_json::{Value, json};

use super::world::{World, error, git};

const VERDICT: &str = r#"{"criteria": [{"number": 1, "met": true, "evidence": "n.txt is good"}]}"#;

/// The check of these plans: prints thirty lines, and fails until `n.txt` is correct.
const CHECK: &str = "seq 1 30; grep good n.txt";

/// A world with actors that write a wrong file, fix it, and review it. `first` is an optional first
/// answer of the strategist.
fn world_with_models(first: Option<Value>) -> World {
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
    let mut input = String::new();
    while input.chars().count() < 1_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        match state % 8 {
            0..=2 => input.push_str("y\r"),
            3 => input.push_str("yes\n"),
            4 => {
                input.push(['\u{4}', '\u{8}', '\u{15}', '\u{1b}', '\t'][(state >> 8) as usize % 5]);
            }
            _ => input.push(
                char::from_u32(0x20 + u32::try_from((state >> 8) % 0x160).unwrap_or(0))
                    .unwrap_or('y'),
            ),
        }
    }
    input
}

/// Ctrl-C, after a pause in which an answer would have taken effect.
const CTRL_C: &str = "\u{e000}\u{3}";
/// Beginning of the list of keys in a question of a plan.
const PROMPT: &str = "[y/N, ";

/// A phase: name, output at its start, the questions before it, and the stage in which the plan
/// stopped.
type Phase<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn input_typed_during_a_phase_answers_no_question() {
    let execute = ("Execute it?", "");
    let fix = ("A check failed. Fix it?", "");
    let yes = (PROMPT, "y\r");
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
        // Here the diff before the apply question is already visible, and the question follows
        // soon.
        (
            "apply",
            "  deleted  a.txt",
            &[execute, yes, fix, yes],
            "execute/complete",
        ),
    ];
    for (seed, (phase, start_output, questions, stage)) in (1..).zip(phases) {
        let world = world_with_models(None);
        let input = noise(seed);
        let mut steps = questions.to_vec();
        steps.extend([(start_output, input.as_str()), (PROMPT, CTRL_C)]);
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
        let (code, screen) = world.agents.play(&steps, &arguments);
        assert_eq!(code, Some(130), "{phase}: {screen}");
        assert_eq!(
            world.ask("SELECT stage FROM plans"),
            [[stage]],
            "{phase}: {screen}"
        );
        let commits = git(&world.repository(), &["rev-list", "--count", "HEAD"]);
        assert_eq!(commits, "1", "{phase}: {screen}");
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
    let (code, screen) = world.agents.play(&steps, &apply);
    assert_eq!(code, Some(5), "{screen}");
    assert!(
        screen.contains("Not applied. The changes stay in the sandbox."),
        "{screen}"
    );
    for next in ["apply", "diff", "prompt"] {
        let command = format!("agents plan {next} {plan}");
        assert!(screen.contains(&command), "{command}: {screen}");
    }
    assert!(!screen.contains("CA-"), "not an error: {screen}");
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
    let (code, screen) = world.agents.play(&steps, &apply);
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("line 999"), "{screen}");
    assert_eq!(world.stage(&plan), "apply/applied");
}

/// Arguments of a task with the models of [`world_with_models`].
const TASK: [&str; 12] = [
    "--format",
    "plain",
    "do",
    "make it good",
    "--folder",
    "repo",
    "--strategy-actor",
    "local/strategist",
    "--execution-actor",
    "local/executor",
    "--review-actor",
    "local/reviewer",
];

#[test]
fn questions_of_a_task_have_keys_and_take_guidance() {
    let world = world_with_models(None);
    let check = format!("--check={CHECK}");
    let arguments = [&TASK[..], &[check.as_str()]].concat();
    let steps = [
        ("Execute it?", ""),
        (PROMPT, "?\r"),
        ("give guidance to the plan", ""),
        (PROMPT, "d\r"),
        ("## 1. write it", ""),
        (PROMPT, "do it in another way\r"),
        ("● strategize: complete", ""),
        (PROMPT, "y\r"),
        ("A check failed. Fix it?", ""),
        (PROMPT, "d\r"),
        ("\n1\r\n2\r\n3\r\n", ""),
        (PROMPT, "y\r"),
        ("Apply the changes", ""),
        (PROMPT, "t\r"),
        ("What should the plan do differently?", ""),
        ("> ", "write more\r"),
        ("added    more.txt", ""),
        (PROMPT, "n\r"),
    ];
    let (code, screen) = world.agents.play(&steps, &arguments);
    assert_eq!(code, Some(5), "{screen}");
    assert!(screen.contains("Not applied. The changes stay in the sandbox."));
    assert_eq!(
        world.ask("SELECT stage, reversion_count FROM plans"),
        [["execute/complete", "1"]],
        "{screen}"
    );
    // The outline appears once per strategy, and the failed check once.
    assert_eq!(screen.matches("  one way").count(), 2, "{screen}");
    assert_eq!(screen.matches("check failed:").count(), 0, "{screen}");
    assert_eq!(screen.matches("    | 30").count(), 1, "{screen}");
}

fn question_call() -> Value {
    json!({"calls": [
        {"name": "builtin/ask-user", "arguments": {"question": "Which colour?", "options": ["red", "blue"]}},
    ]})
}

/// Outcome of the strategist's question.
fn question_outcome(world: &World) -> (String, String) {
    let rows = world.ask(
        "SELECT outcome, COALESCE(error, '') FROM tool_invocations WHERE tool = 'builtin/ask-user'",
    );
    assert_eq!(rows.len(), 1, "{rows:?}");
    (rows[0][0].clone(), rows[0][1].clone())
}

#[test]
fn a_question_of_the_strategist_reaches_the_user_and_the_answer_stays_visible() {
    let world = world_with_models(Some(question_call()));
    let arguments = ["--format", "plain", "plan", "use", "local/steps", "local/p"];
    let input = format!("so{PAUSE}me{PAUSE}thing{PAUSE}\r");
    let steps = [
        ("Which colour?", ""),
        ("[2] blue", ""),
        ("own words): ", &input),
    ];
    let (code, screen) = world.agents.play(&steps, &arguments);
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!(question_outcome(&world).0, "succeeded", "{screen}");
    let (_, answer) = screen.split_once("own words): ").expect("a prompt");
    let (line, _) = answer.split_once('\n').expect("the end of its line");
    assert_eq!(
        line.trim_end(),
        "something",
        "the line of the answer: {line:?}"
    );
}

#[test]
fn a_question_of_the_strategist_without_a_user_is_not_shown_as_answered() {
    let world = world_with_models(Some(question_call()));
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
    let (outcome, reason) = question_outcome(&world);
    assert_eq!(outcome, "failed");
    assert!(reason.contains("no user is available"), "{reason}");
    let line = answer
        .err
        .lines()
        .find(|line| line.contains("builtin/ask-user ✗"));
    assert!(line.is_some(), "{answer:?}");
    assert!(!answer.err.contains("✓ done"), "{answer:?}");
    // A profile that automates every decision asks no user, even at a terminal.
    let world = world_with_models(Some(question_call()));
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
    let (_, screen) = world.agents.play(&[], &arguments);
    assert_eq!(question_outcome(&world).0, "failed", "{screen}");
}

#[test]
fn the_output_of_a_failed_check_is_shown_whole_and_the_fix_is_approved_from_a_pipe() {
    let world = world_with_models(None);
    let plan = world.plan("local/steps", &[]);
    let streamed = world
        .agents
        .run(&["--format", "plain", "plan", "execute", &plan, "--stream"]);
    assert_eq!(streamed.code, Some(5), "{streamed:?}");
    let approve = format!("agents plan approve {plan}");
    assert!(streamed.err.contains(&approve), "{streamed:?}");
    assert!(
        streamed.err.contains(&format!("    $ {CHECK}")),
        "{streamed:?}"
    );
    for line in ["    | 11\n", "    | 30\n"] {
        assert!(streamed.err.contains(line), "{line}: {streamed:?}");
    }
    assert!(
        !streamed.err.contains("| 10\n"),
        "only the end of the output is shown: {streamed:?}"
    );
    let lines: Vec<String> = (1..=30).map(|line| format!("{line}\n")).collect();
    let full_output = lines.concat();
    let shown = world
        .agents
        .run(&["--format", "plain", "plan", "errors", &plan])
        .out;
    assert!(
        shown.contains(&full_output) && shown.contains(&format!("$ {CHECK}")),
        "{shown}"
    );
    assert!(shown.contains("exit code 1"), "{shown}");
    let assert_reported = |check: &Value| {
        assert_eq!(check["command"], CHECK, "{check}");
        assert_eq!(check["exit_code"], 1, "{check}");
        assert_eq!(check["output"], full_output.as_str(), "{check}");
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
    let world = world_with_models(None);
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
    // The first guidance comes before the steps, which are tool calls, the second after them.
    for count in 1..=2 {
        let reported = world.agents.data(&["plan", "prompt", &plan, "be careful"]);
        assert_eq!(reported["queue"], json!({"pending": count, "applied": 0}));
        let answer = world.run(&["plan", "execute", &plan]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let warnings = answer.json()["messages"].to_string();
        assert!(warnings.contains("cannot read it"), "{warnings}");
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
        let executed = world.agents.data(&["plan", "execute", plan]);
        let rows = executed["progress"].as_array().expect("a list").clone();
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

/// Runs an actor that makes this call first and then answers. Returns the id of the waiting run.
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
    let waiting = world.run(&arguments);
    assert_eq!(waiting.code, Some(5), "{waiting:?}");
    let run = world.ask("SELECT run_id FROM runs")[0][0].clone();
    assert!(
        error(&waiting)["hint"]
            .to_string()
            .contains(&format!("agents run resume {run} --answer")),
        "{waiting:?}"
    );
    run
}

#[test]
fn a_run_that_waits_shows_its_question_and_is_answered_without_a_terminal() {
    let world = World::new();
    let question = question_call()["calls"][0].clone();
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
    let resumed = world.agents.data(&["run", "resume", &run, "--answer", "2"]);
    assert_eq!(resumed["response"]["text"], "It is so.");
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
