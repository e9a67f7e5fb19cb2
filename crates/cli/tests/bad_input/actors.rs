//! Actors, contexts and runs: commands and files that are refused, with nothing changed.

use std::fmt::Write as _;
use std::path::Path;

use cleveragents_testkit::{Agents, TestDatabase, at_once};
use serde_json::Value;

use super::{agents, refuse};

/// Commands on actors and contexts, with exit code, error code and part of the hint.
const ACTORS: &str = "
actor add | 2 CA-0101 |
actor add --config none.yaml | 1 CA-0105 |
actor add --config folder | 1 CA-0105 |
actor add --config good.yaml | 4 CA-1002 | actor update
actor add --config big.yaml | 2 CA-1003 |
actor add --config latin.yaml | 2 CA-0107 | UTF-8
actor add --config namespace.yaml | 2 CA-1004 | local/
actor update --config new.yaml | 3 CA-1001 | actor add
actor update --config none.yaml | 1 CA-0105 |
actor list --custm | 2 CA-0101 | --custom
actor show local/godo | 3 CA-1001 | local/good
actor show '' | 3 CA-1001 | actor list
actor show 'a b' | 3 CA-1001 | actor list
actor show missing/gpt-5 | 3 CA-1001 | actor list
actor remove local/godo --yes | 3 CA-1001 | local/good
actor remove local/good --yes | 4 CA-1006 | local/above
actor remove local/above --yes | 4 CA-1006 | actor.default.general
actor remove wild --yes | 4 CA-1006 | actor.default.review
actor remove openai/gpt-4o --yes | 4 CA-1005 | openai/gpt-4o
actor remove local/other | 5 CA-0106 | --yes
actor set-default local/godo | 3 CA-1001 | local/good
actor set-default local/good --role estimation | 2 CA-1008 | response_format
actor set-default local/good --role king | 2 CA-0101 |
actor graph | 2 CA-0101 |
actor graph local/godo | 3 CA-1001 | local/good
actor graph good --as png | 2 CA-0101 |
actor graph good --config good.yaml | 2 CA-0101 |
actor graph good --output folder | 1 CA-0105 |
actor graph good --output none/x.svg | 1 CA-0105 |
actor context show weekl | 3 CA-1029 | weekly
actor context clear weekly | 5 CA-0106 | --yes
actor context clear | 2 CA-0101 |
actor context remove none --yes | 3 CA-1029 | context list
actor context export none | 3 CA-1029 |
actor context import good.yaml | 2 CA-1031 | context export
actor context import latin.yaml | 2 CA-0107 | UTF-8
";

/// `actor run` commands that fail before a run exists, with the columns of [`ACTORS`].
const INVALID_STARTS: &str = "
actor run | 2 CA-0101 | prompt
actor run good | 2 CA-0101 | prompt
actor run good '' | 2 CA-0101 | prompt
actor run good - | 2 CA-0101 | prompt
actor run local/godo hi | 3 CA-1001 | local/good
actor run good hi --prompt ho | 2 CA-0101 |
actor run good hi --input { | 2 CA-0101 | {\"key\"
actor run good hi --input [1] | 2 CA-0101 | {\"key\"
actor run good hi --set team | 2 CA-0101 | team=core
actor run good hi --set =x | 2 CA-0101 | team=core
actor run good hi --skill none | 3 CA-1061 | skill list
actor run good hi --mcp none | 3 CA-1041 | mcp list
actor run good hi --tool 'a b' | 2 CA-0906 |
actor run good hi --tool builtin/none | 2 CA-0906 |
actor run good hi --temperature warm | 2 CA-0101 |
actor run good hi --temperature 2.5 | 2 CA-0101 | --help
actor run good hi --temperature NaN | 2 CA-0101 | --help
actor run good hi --context 'a b' | 2 CA-1031 |
actor run good hi --load-context none | 1 CA-0105 |
actor run good hi --load-context good.yaml | 2 CA-1031 | context export
actor run good hi --context a --load-context b | 2 CA-0101 |
actor run wild hi | 1 CA-1007 | --unsafe
actor run good hi --sandbox none | 3 CA-0640 |
actor run good hi --project none | 3 CA-0631 |
actor run good hi --rule 'may all' | 2 CA-0906 |
actor run good hi --max-cost lots | 2 CA-0101 | 0.50
actor run good hi --safety none | 3 CA-0922 |
actor run --config none.yaml hi | 1 CA-0105 |
actor run --config latin.yaml hi | 2 CA-0107 | UTF-8
actor run good hi --config good.yaml | 2 CA-0101 | --config
";

/// Commands on runs, with the columns of [`ACTORS`]. The test replaces the placeholders with ids.
const RUNS: &str = "
run show 01ZZZZZZ | 3 CA-1021 | run list
run show 01 | 3 CA-1021 | six or more
run show '' | 3 CA-1021 | six or more
run show nö | 3 CA-1021 | six or more
run show {common} | 3 CA-1021 | run list
run resume 01ZZZZZZ | 3 CA-1021 | run list
run resume {complete} | 4 CA-1025 | run show
run resume {failed} --redo --skip | 2 CA-0101 |
run cancel 01ZZZZZZ | 3 CA-1021 | run list
run cancel {complete} | 4 CA-1025 | run show
run cancel {failed} | 4 CA-1025 | run show
run replay 01ZZZZZZ | 3 CA-1021 | run list
run replay {failed} | 4 CA-1025 | run resume
run list --state done | 2 CA-0101 |
run list --limit many | 2 CA-0101 |
";

fn write(agents: &Agents, name: &str, text: impl AsRef<[u8]>) {
    std::fs::write(agents.cwd().join(name), text).expect("a file");
}

fn add(agents: &Agents, name: &str, text: &str) {
    let file = format!("{name}.yaml");
    write(
        agents,
        &file,
        format!("name: local/{name}\ndescription: d\n{text}"),
    );
    agents.data(&["actor", "add", "--config", &file]);
}

/// A home with actors, a context, a complete run and a failed run; returns their ids.
fn agents_with_data() -> (Agents, String, String) {
    let agents = agents();
    write(&agents, "fine.yaml", "answers:\n- {when: ., text: fine}\n");
    let model = "type: llm\nmodel: scripted/fine.yaml\n";
    add(&agents, "good", model);
    add(&agents, "other", model);
    add(&agents, "wild", &format!("unsafe: true\n{model}"));
    add(
        &agents,
        "fails",
        "type: llm\nmodel: scripted/nowhere.yaml\n",
    );
    let graph = "type: graph\nnodes: {a: {actor_ref: local/good}}\n";
    add(&agents, "above", graph);
    agents.data(&["actor", "set-default", "local/above"]);
    agents.data(&["actor", "set-default", "local/wild", "--role", "review"]);
    let answered = agents.data(&["actor", "run", "local/good", "hi", "--context", "weekly"]);
    let failed = agents.run(&["--format", "json", "actor", "run", "local/fails", "hi"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let id = |value: &Value| value.as_str().expect("an id").to_owned();
    let complete = id(&answered["run"]["id"]);
    let failed = id(&failed.json()["data"]["error"]["details"]["run"]);

    let unregistered = format!("name: local/new\n{model}");
    write(&agents, "new.yaml", &unregistered);
    write(
        &agents,
        "namespace.yaml",
        unregistered.replace("local/new", "openai/new"),
    );
    write(
        &agents,
        "big.yaml",
        format!("{unregistered}#{}\n", "x".repeat(2 << 20)),
    );
    write(
        &agents,
        "latin.yaml",
        b"name: local/x\ndescription: caf\xe9\n",
    );
    std::fs::create_dir(agents.cwd().join("folder")).expect("a folder");
    (agents, complete, failed)
}

/// All rows that commands on actors and runs can change, followed by the configuration file.
fn stored(agents: &Agents) -> Vec<Vec<String>> {
    let tables = [
        "definitions",
        "actor_contexts",
        "runs",
        "run_steps",
        "sessions",
        "messages",
        "turns",
        "tool_invocations",
        "leases",
        "budgets",
        "reservations",
        "events",
    ];
    let mut rows: Vec<Vec<String>> = tables
        .iter()
        .flat_map(|table| {
            let query = format!("SELECT '{table}', * FROM {table} ORDER BY 2, 3");
            TestDatabase::read_file(&agents.database(), &query)
        })
        .collect();
    assert!(rows.len() > 8, "the home has data: {rows:?}");
    rows.push(vec![
        std::fs::read_to_string(agents.config_file()).expect("a file"),
    ]);
    rows
}

/// Splits a command into words; single quotes keep spaces and empty words.
fn split_words(command: &str) -> Vec<&str> {
    let parts = command.split('\'').enumerate();
    parts
        .flat_map(|(number, part)| {
            if number % 2 == 1 {
                vec![part]
            } else {
                part.split_whitespace().collect()
            }
        })
        .collect()
}

/// Asserts that each command of a table is refused as listed and changes nothing.
fn assert_refused(agents: &Agents, cases: &str) {
    let before = stored(agents);
    for case in cases.trim().lines() {
        let mut columns = case.split(" |");
        let mut column = || columns.next().expect("three columns").trim();
        let (command, expected, hint) = (split_words(column()), column(), column());
        let (exit, code) = expected.split_once(' ').expect("exit code and error");
        let error = refuse(agents, &command).with(exit.parse().expect("a number"), code);
        let reported = error["hint"].as_str().unwrap_or_default();
        assert!(reported.contains(hint), "{case}: {error}");
        assert_eq!(stored(agents), before, "{case}");
    }
}

#[test]
fn invalid_commands_on_actors_are_refused() {
    let (agents, ..) = agents_with_data();
    assert_refused(&agents, ACTORS);
}

#[test]
fn a_run_that_cannot_start_stores_nothing() {
    let (agents, ..) = agents_with_data();
    assert_refused(&agents, INVALID_STARTS);
}

#[test]
fn invalid_commands_on_runs_are_refused() {
    let (agents, complete, failed) = agents_with_data();
    // The prefix that both ids share is ambiguous.
    let common: String = complete
        .chars()
        .zip(failed.chars())
        .take_while(|(one, other)| one == other)
        .map(|(one, _)| one)
        .collect();
    let cases = RUNS
        .replace("{complete}", &complete)
        .replace("{failed}", &failed)
        .replace("{common}", &common);
    assert_refused(&agents, &cases);
}

/// The parser tests check each message. Here the program must report file, line and column, and
/// register nothing.
#[test]
fn every_broken_file_is_refused_with_position_and_hint() {
    let (agents, ..) = agents_with_data();
    // Actors that some of the files refer to.
    add(&agents, "reviewer", "type: llm\nmodel: openai/a\n");
    add(&agents, "deep", "type: graph\nnodes: {a: {prompt: x}}\n");
    let before = stored(&agents);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../actors/tests/broken");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() >= 60, "only {} files", files.len());
    let failures = at_once(4, |thread| {
        let mut failures = String::new();
        for file in files.iter().skip(thread).step_by(4) {
            if let Err(reason) = check_position(&agents, file) {
                writeln!(failures, "{}: {reason}", file.display()).expect("a text");
            }
        }
        failures
    });
    assert_eq!(failures.concat(), "");
    assert_eq!(stored(&agents), before, "nothing is registered");
}

/// Adds an actor from a corpus file and checks the reported position. The first line of the file is
/// `# expects: LINE:COLUMN: …`.
fn check_position(agents: &Agents, file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let expected = text
        .strip_prefix("# expects: ")
        .ok_or("the first line does not start with `# expects: `")?;
    let position: Vec<&str> = expected.splitn(3, ':').take(2).collect();
    let path = file.to_str().ok_or("the name is not UTF-8")?;
    let answer = agents.run(&["--format", "json", "actor", "add", "--config", path]);
    if answer.code != Some(2) {
        return Err(format!("{answer:?}"));
    }
    let error = answer.json()["data"]["error"].clone();
    let message = error["message"].as_str().unwrap_or_default();
    let has_position = message.starts_with(&format!("{path}:{}: ", position.join(":")));
    let has_details = [&error["details"]["line"], &error["details"]["column"]]
        .iter()
        .zip(&position)
        .all(|(number, expected)| number.to_string() == **expected);
    let has_code = matches!(error["code"].as_str(), Some("CA-1003" | "CA-1004"));
    let has_hint = error["hint"].as_str().is_some_and(|hint| !hint.is_empty());
    if has_position && has_details && has_code && has_hint {
        Ok(())
    } else {
        Err(format!("{error}"))
    }
}
