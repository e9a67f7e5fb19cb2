//! `--dry-run` of every command that deletes: the database and all files keep their bytes.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_testkit::Agents;

use super::{agents, files, weekly};

/// Verbs of commands that delete.
const VERBS: [&str; 6] = ["delete", "remove", "discard", "revoke", "clear", "prune"];

/// Commands that delete, with their arguments.
const DELETIONS: [&str; 20] = [
    "actor context clear|notes",
    "actor context remove|notes",
    "actor remove|local/helper",
    "automation-profile remove|local/careful",
    "invariant remove|{invariant}",
    "item source remove|notes",
    "mcp remove|clock",
    "permission remove|ask builtin/git-*",
    "plan checkpoint delete|{plan}|cp_2",
    "pool remove|local/fix",
    "project delete|local/empty",
    "resource remove|local/spare",
    "resource type remove|local/database",
    "sandbox discard|fix",
    "session delete|weekly",
    "skill remove|local/files",
    "token revoke|ci",
    "tool remove|local/count-lines",
    "validation remove|local/check",
    "cleanup run",
];

/// Commands whose effect is outside of the home folder.
const ELSEWHERE: [&str; 1] = ["model key remove"];

/// Commands that do not ask for confirmation.
const WITHOUT_QUESTION: [&str; 3] = ["permission remove", "token revoke", "cleanup run"];

const FILES: [(&str, &str); 9] = [
    (
        "action.yaml",
        "name: local/write\ndescription: Write three files\nstrategy_actor: builtin/deterministic\n\
         definition_of_done: |\n  - write `one` to `one.txt`\n  - write `two` to `two.txt`\n  \
         - write `three` to `three.txt`\n",
    ),
    (
        "actor.yaml",
        "name: local/helper\ntype: llm\ndescription: Helps\nmodel: openai/gpt-5\n",
    ),
    (
        "careful.yaml",
        "name: local/careful\ndescription: Asks\nextends: trusted\nedit_code: 0.6\n",
    ),
    (
        "check.yaml",
        "name: local/check\ndescription: Looks\ncommand: 'true'\n",
    ),
    (
        "count.yaml",
        "name: local/count-lines
description: Counts the lines of a file
input_schema:
  type: object
  properties: {path: {type: string}}
  required: [path]
  additionalProperties: false
output_schema: {type: object, required: [lines]}
read_only: true
timeout: 30
code: |
  with open(input[\"path\"]) as file:
      return {\"lines\": sum(1 for _ in file)}
",
    ),
    (
        "database.yaml",
        "cleveragents:\n  version: \"3.0\"\nresource_type:\n  name: database\n  description: A database\n  \
         cli_args:\n    - name: connection-string\n      required: true\n      description: Where it is\n  \
         sandbox_strategy: transaction_rollback\n",
    ),
    (
        "notes.json",
        "{\"name\": \"notes\", \"messages\": [{\"role\": \"user\", \"content\": \"Where do we stand?\"}]}",
    ),
    (
        "pool.yaml",
        "name: local/fix\nrole: fix\nproject: local/code\ntiers: [{name: cheap, actor: local/cheap}]\n",
    ),
    (
        "cheap.yaml",
        "name: local/cheap\ntype: llm\ndescription: Cheap\nmodel: openai/gpt-5\n",
    ),
];

/// A home with one object of each kind, and the ids of those without a name.
fn home_with_everything() -> (Agents, BTreeMap<&'static str, String>) {
    let agents = agents();
    weekly(&agents);
    for (name, text) in FILES {
        std::fs::write(agents.cwd().join(name), text).expect("a file");
    }
    let skill = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/skills/files.yaml"
    );
    for folder in ["code", "spare", "issues"] {
        std::fs::create_dir(agents.cwd().join(folder)).expect("a folder");
    }
    let run = |line: &str| {
        let words: Vec<&str> = line.split('|').flat_map(|part| part.split(' ')).collect();
        agents.data(&words)
    };
    run("resource add fs-directory code --path code");
    run("resource add fs-directory spare --path spare");
    run("resource type add --config database.yaml");
    run("project create local/code --resource local/code");
    run("project create local/empty");
    run("actor add --config actor.yaml");
    run("actor add --config cheap.yaml");
    run("actor context import notes.json");
    run("automation-profile add --config careful.yaml");
    run("validation add --config check.yaml");
    run("tool add --config count.yaml");
    run(&format!("skill add {skill}"));
    run("mcp add clock -- false");
    run("pool add --config pool.yaml");
    run("item source add notes --project local/code --kind markdown ./issues");
    run("token create ci --grant acme=viewer");
    run("sandbox create fix --path spare");
    agents.data(&["permission", "add", "ask builtin/git-*"]);
    let added = agents.data(&["invariant", "add", "--global", "Keep the tests"]);
    let invariant = added["invariants"][0]["id"].as_str().expect("an id");
    run("action create --config action.yaml");
    let plan = run("plan use local/write local/code");
    let plan = plan["plan_id"].as_str().expect("an id").to_owned();
    agents.data(&["plan", "execute", &plan]);
    let ids = BTreeMap::from([("{invariant}", invariant.to_owned()), ("{plan}", plan)]);
    (agents, ids)
}

/// Words of a row: the command, and its arguments.
fn words<'a>(row: &'a str, ids: &'a BTreeMap<&str, String>) -> Vec<&'a str> {
    let (command, arguments) = row.split_once('|').unwrap_or((row, ""));
    let arguments = arguments.split('|').filter(|word| !word.is_empty());
    let arguments = arguments.map(|word| ids.get(word).map_or(word, String::as_str));
    command.split(' ').chain(arguments).collect()
}

/// Bytes of all files of the user and of the home folder, apart from SQLite's index of its log.
fn bytes(agents: &Agents) -> BTreeMap<String, Vec<u8>> {
    let folder = agents.home().parent().expect("a parent");
    let mut all = files(folder);
    all.retain(|path, _| !path.ends_with("-shm"));
    all
}

#[test]
fn every_command_that_deletes_is_rehearsed_here() {
    let listed = agents().run(&["help", "--all"]).out;
    let commands = listed
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .map(|line| {
            let words = line.split_whitespace();
            let name = words.take_while(|word| word.chars().all(|c| c.is_lowercase() || c == '-'));
            name.collect::<Vec<_>>()
        });
    let found: BTreeSet<String> = commands
        .filter(|words| words.last().is_some_and(|verb| VERBS.contains(verb)))
        .map(|words| words.join(" "))
        .collect();
    let rows = DELETIONS
        .iter()
        .map(|row| row.split('|').next().unwrap_or(row));
    let tested: BTreeSet<String> = rows.chain(ELSEWHERE).map(str::to_owned).collect();
    let missing: Vec<&String> = found.difference(&tested).collect();
    assert!(missing.is_empty(), "not tested: {missing:?}");
    assert!(found.len() > 15, "{found:?}");
}

#[test]
fn a_dry_run_changes_nothing_and_names_what_would_go() {
    let (agents, ids) = home_with_everything();
    for row in DELETIONS {
        let words = words(row, &ids);
        let before = bytes(&agents);
        let rehearsed =
            agents.run(&[words.as_slice(), &["--dry-run", "--format", "json"]].concat());
        assert_eq!(rehearsed.code, Some(0), "{row}: {rehearsed:?}");
        let after = bytes(&agents);
        let changed: Vec<&String> = before
            .keys()
            .chain(after.keys())
            .filter(|path| before.get(*path) != after.get(*path))
            .collect();
        assert!(changed.is_empty(), "{row}: {changed:?}");
        if let Some(name) = words.last().filter(|_| row.contains('|')) {
            assert!(rehearsed.out.contains(name), "{row}: {rehearsed:?}");
        }
        let plain = agents.run(&[words.as_slice(), &["--dry-run", "--format", "plain"]].concat());
        let says_so = ["nothing was changed", "Nothing to remove", "would free"];
        let shown = format!("{}{}", plain.out, plain.err);
        assert!(
            says_so.iter().any(|text| shown.contains(text)),
            "{row}: {plain:?}"
        );
    }
    // The same commands without --dry-run delete, so the comparison above can fail.
    for row in DELETIONS {
        let words = words(row, &ids);
        let before = bytes(&agents);
        let asks = !WITHOUT_QUESTION
            .iter()
            .any(|command| row.starts_with(command));
        let confirmation: &[&str] = if asks { &["--yes"] } else { &[] };
        agents.data(&[words.as_slice(), confirmation].concat());
        if row != "cleanup run" {
            assert_ne!(before, bytes(&agents), "{row}");
        }
    }
}

#[test]
fn a_dry_run_fails_where_the_deletion_would() {
    let (agents, _) = home_with_everything();
    for line in [
        "project delete nothing",
        "resource remove local/code",
        "token revoke nothing",
        "sandbox discard nothing",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let rehearsed = agents.run(&[words.as_slice(), &["--dry-run"]].concat());
        let real = agents.run(&[words.as_slice(), &["--yes"]].concat());
        assert_ne!(rehearsed.code, Some(0), "{line}: {rehearsed:?}");
        if !line.starts_with("token") {
            assert_eq!(rehearsed.code, real.code, "{line}: {real:?}");
        }
    }
}
