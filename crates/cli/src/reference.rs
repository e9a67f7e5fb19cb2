//! Generates the pages of `docs/reference/` on commands and configuration keys from the types of the command line.
//! `CLEVERAGENTS_WRITE_DOCS=1 cargo test -p cleveragents-cli --lib reference` writes them.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};

use crate::arguments::Arguments;
use crate::config::{Fallback, KEYS, Key, Kind, Scope};

const COMMANDS_HEAD: &str = "# Commands

Every command with its arguments and options, as `--help` prints them. The test `crates/cli/src/reference.rs` writes
this page. [Output and exit codes](cli.md) describes formats, exit codes and JSON.

Every command also takes:

";

/// Escapes a text for the cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The help of an option or argument, in one line.
fn help_line(argument: &clap::Arg) -> String {
    let mut text = argument
        .get_help()
        .map_or_else(String::new, ToString::to_string);
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let takes_value = argument.get_action().takes_values();
    if takes_value && !values.is_empty() && !argument.is_hide_possible_values_set() {
        let _written = write!(text, " ({})", values.join(", "));
    }
    cell(&text)
}

/// Option or argument with its value, as users write it.
fn form(argument: &clap::Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let is_list = matches!(argument.get_action(), clap::ArgAction::Append)
        || argument
            .get_num_args()
            .is_some_and(|count| count.max_values() > names.len().max(1));
    let mut value = String::new();
    if argument.get_action().takes_values() {
        for name in names {
            value.push(' ');
            value.push_str(name);
        }
        if is_list && !value.ends_with('…') && !value.ends_with("...") {
            value.push_str("...");
        }
    }
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (Some(short), None) => format!("-{short}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        (None, None) => value.trim().to_owned(),
    }
}

/// Adds a line for each option and argument that is not hidden.
fn rows<'a>(arguments: impl Iterator<Item = &'a clap::Arg>, text: &mut String) {
    for argument in arguments.filter(|argument| !argument.is_hide_set()) {
        let _written = writeln!(text, "- `{}`: {}", form(argument), help_line(argument));
    }
}

/// Writes a section for each runnable command at or below `command`, with its full name.
fn leaves(command: &Command, path: &str, text: &mut String) {
    let mut subcommands = command
        .get_subcommands()
        .filter(|subcommand| subcommand.get_name() != "help" && !subcommand.is_hide_set())
        .peekable();
    if subcommands.peek().is_some() {
        for command in subcommands {
            leaves(command, &format!("{path} {}", command.get_name()), text);
        }
        if command.is_subcommand_required_set() {
            return;
        }
    }
    let about = command
        .get_about()
        .map_or_else(String::new, ToString::to_string);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _written = write!(text, "\n## {path}\n\n{about}\n\n```text\n{usage}\n```\n\n");
    rows(
        command
            .get_arguments()
            .filter(|argument| !argument.is_global_set() && !is_standard(argument)),
        text,
    );
    let trimmed_length = text.trim_end().len();
    text.truncate(trimmed_length);
    text.push('\n');
}

fn is_standard(argument: &clap::Arg) -> bool {
    ["help", "version"].contains(&argument.get_id().as_str())
}

fn commands_page() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut text = COMMANDS_HEAD.to_owned();
    rows(
        command
            .get_arguments()
            .filter(|argument| argument.is_global_set() && !is_standard(argument)),
        &mut text,
    );
    for subcommand in command.get_subcommands() {
        if subcommand.get_name() != "help" && !subcommand.is_hide_set() {
            leaves(
                subcommand,
                &format!("agents {}", subcommand.get_name()),
                &mut text,
            );
        }
    }
    text
}

/// Allowed values of a key, for its table.
fn values(key: &Key) -> String {
    let list = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        words.join(", ")
    };
    match key.kind {
        Kind::Integer { minimum, maximum } => format!("{minimum} to {maximum}"),
        Kind::Flag => list(&["true", "false"]),
        Kind::Choice(words) => list(words),
        Kind::Words(words) => format!("some of {}, comma-separated, or `none`", list(words)),
        _ => key.allowed(),
    }
}

fn default(key: &Key) -> String {
    match key.default {
        // The settings turn verification on when the key is not set.
        Fallback::Automatic if key.name == "server.tls-verify" => "`true`".to_owned(),
        Fallback::Automatic if key.kind == Kind::Flag => "`false`".to_owned(),
        Fallback::Automatic => String::new(),
        Fallback::DatabaseFile => "`cleveragents.db` in the home folder".to_owned(),
        Fallback::Text(text) => format!("`{text}`"),
        Fallback::Integer(number) => number.to_string(),
    }
}

fn keys_table() -> String {
    let mut text = "| Key | Values | Default | Meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for key in KEYS {
        let mark = match key.scope {
            Scope::Project => " (P)",
            Scope::Person => "",
        };
        let _written = writeln!(
            text,
            "| `{}`{mark} | {} | {} | {} |",
            key.name,
            cell(&values(key)),
            default(key),
            cell(key.description)
        );
    }
    text
}

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name)
}

/// Compares a page with the generated text, or writes the page if `CLEVERAGENTS_WRITE_DOCS` is set.
fn check(name: &str, generate: impl Fn(&str) -> String) {
    let file = page(name);
    let documented = std::fs::read_to_string(&file).unwrap_or_default();
    let text = generate(&documented);
    if std::env::var_os("CLEVERAGENTS_WRITE_DOCS").is_some() {
        std::fs::write(&file, &text).expect("the page is written");
        return;
    }
    assert!(
        documented == text,
        "docs/reference/{name} is out of date; CLEVERAGENTS_WRITE_DOCS=1 writes it"
    );
}

#[test]
fn the_page_of_commands_is_up_to_date() {
    check("commands.md", |_| commands_page());
}

#[test]
fn the_table_of_configuration_keys_is_up_to_date() {
    const START: &str = "<!-- keys: written by crates/cli/src/reference.rs -->\n";
    const END: &str = "<!-- end of keys -->\n";
    check("configuration.md", |documented| {
        let (before, rest) = documented.split_once(START).expect("a start mark");
        let (_, after) = rest.split_once(END).expect("an end mark");
        format!("{before}{START}{}{END}{after}", keys_table())
    });
}
