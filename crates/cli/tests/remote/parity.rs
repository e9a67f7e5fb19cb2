//! Commands have the same output and exit code on a server and locally.

use cleveragents_testkit::Agents;
use regex::Regex;

use crate::{Server, agents, token};

const ACTOR: &str =
    "name: acme/helper\ntype: llm\ndescription: Helps\nprovider: openai\nmodel: gpt-5\n";

/// Commands in execution order. All names have a namespace, because a local name without a
/// namespace is in `local`.
const COMMANDS: &[&[&str]] = &[
    &[
        "session",
        "create",
        "--namespace",
        "acme",
        "--name",
        "weekly",
    ],
    &[
        "session",
        "create",
        "--namespace",
        "acme",
        "--name",
        "other",
        "--actor",
        "openai/gpt-5",
    ],
    &["session", "list"],
    &["session", "list", "--name", "week", "--sort", "name"],
    &["session", "append", "weekly", "Where do we stand?"],
    &[
        "session",
        "append",
        "weekly",
        "--role",
        "assistant",
        "--metadata",
        "{\"page\": 3}",
        "Two\nlines.",
    ],
    &["session", "append", "weekly", "--role", "nobody", "x"],
    &["session", "messages", "weekly"],
    &[
        "session", "messages", "weekly", "--after", "0", "--limit", "1",
    ],
    &["session", "show", "weekly"],
    &["session", "show", "nowhere"],
    &["session", "rename", "weekly", "monthly"],
    &[
        "session",
        "rename",
        "monthly",
        "yearly",
        "--if-version",
        "99",
    ],
    &["session", "fork", "monthly", "--at", "0", "--name", "fork"],
    &["session", "search", "lines", "--session", "monthly"],
    &["session", "delete", "fork"],
    &["session", "delete", "fork", "--yes"],
    &["session", "frobnicate"],
    &[
        "project",
        "create",
        "acme/shop",
        "--description",
        "A shop",
        "--tag",
        "web",
    ],
    &["project", "create", "acme/shop"],
    &["project", "list"],
    &["project", "show", "acme/shop"],
    &["project", "show", "acme/nothing"],
    &["actor", "add", "--config", "actor.yaml"],
    &["actor", "list", "--custom"],
    &["actor", "show", "acme/helper"],
    &["actor", "add", "--config", "actor.yaml"],
    &["actor", "add", "--config", "missing.yaml"],
    &["tool", "list", "--source", "builtin"],
    &["tool", "show", "builtin/shell"],
    &["automation-profile", "list"],
    &["automation-profile", "show", "supervised"],
    &["validation", "list"],
    &["skill", "list"],
    &["resource", "list"],
    &["plan", "list"],
    &["plan", "show", "nothing"],
    &["plan", "use", "acme/nothing", "acme/shop"],
    &[
        "invariant",
        "add",
        "--project",
        "acme/shop",
        "Prices are never negative",
    ],
    &["invariant", "list"],
    &["actor", "remove", "acme/helper", "--yes"],
    &["project", "delete", "acme/shop", "--yes"],
];

/// Masks values that differ between runs.
pub(crate) fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, replacement) in [
        (r"\b01[0-9A-HJKMNP-TV-Z]{6,24}\b", "[id]"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?Z?", "[time]"),
        // The source of a definition is a file locally, and a caller on the server.
        (
            r#"("config": |Config: )(".*?"|/.*|sent by .*)"#,
            "${1}[source]",
        ),
        (r"duration_ms(\x22?): \d+", "duration_ms$1: [ms]"),
        // The length of a short id depends on the other ids, and with it the width of its column.
        (r"\b(Id|Session) {2,}", "$1  "),
    ] {
        let pattern = Regex::new(pattern).expect("a pattern");
        text = pattern.replace_all(&text, replacement).into_owned();
    }
    text
}

fn outcomes(agents: &Agents, format: &str) -> Vec<(String, String, Option<i32>)> {
    std::fs::write(agents.cwd().join("actor.yaml"), ACTOR).expect("written");
    let outcomes = COMMANDS.iter().map(|command| {
        let answer = agents.run(&[&["--format", format], *command].concat());
        (masked(&answer.out), masked(&answer.err), answer.code)
    });
    outcomes.collect()
}

fn assert_alike(format: &str) {
    let (local_home, host, client) = (agents(), agents(), agents());
    let secret = token(&host, "ada", &["*=owner"]);
    let server = Server::start(&host, &[]);
    client.data(&[
        "server",
        "connect",
        &server.url,
        "--token",
        &secret,
        "--namespace",
        "acme",
    ]);
    let (local, remote) = (outcomes(&local_home, format), outcomes(&client, format));
    for ((command, local), remote) in COMMANDS.iter().zip(local).zip(remote) {
        assert_eq!(local, remote, "{command:?}");
    }
    // The command ran on the server.
    assert_eq!(
        client.data(&["--local", "session", "list"])["summary"]["total"],
        0
    );
    assert_eq!(host.data(&["session", "list"])["summary"]["total"], 2);
    let created = host.data(&[
        "audit",
        "list",
        "--kind",
        "session_created",
        "--identity",
        "ada",
    ]);
    assert!(created["summary"]["total"].as_u64() >= Some(2), "{created}");
}

#[test]
fn machine_output_is_the_same_locally_and_remotely() {
    assert_alike("json");
}

#[test]
fn human_output_is_the_same_locally_and_remotely() {
    assert_alike("plain");
}
