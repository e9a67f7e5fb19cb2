//! Converts suggested operations to commands. No other module knows the command syntax of hints.

use cleveragents_domain::{ArgumentValue, Hint, Suggestion};
use serde::Deserialize as _;
use serde_json::{Map, Value};

/// Renders a hint for users of the command line.
pub(crate) fn hint_text(hint: &Hint) -> String {
    hint.render(
        |suggestion| match command_line(suggestion) {
            Some(line) => format!("`{line}`"),
            None => suggestion.neutral(),
        },
        |suggestion| {
            let row = row(suggestion);
            let words = row.and_then(|row| argument_words(suggestion, row.parameters));
            words.map_or_else(|| suggestion.neutral(), |words| join_words(&words))
        },
    )
}

/// The command of a suggestion, for copying to a shell. `None` for operations without a command: a server may be
/// newer than this program.
pub(crate) fn command_line(suggestion: &Suggestion) -> Option<String> {
    words(suggestion).map(|words| join_words(&words))
}

/// Converts suggestions to commands.
pub(crate) fn commands(suggestions: &[Suggestion]) -> Vec<String> {
    suggestions.iter().map(command).collect()
}

/// Converts a suggestion to a command, or to the name and arguments of its operation if it has no command.
pub(crate) fn command(suggestion: &Suggestion) -> String {
    command_line(suggestion).unwrap_or_else(|| suggestion.neutral())
}

/// Converts a suggestion, or a list of suggestions, to commands. Other values stay unchanged: earlier versions stored
/// the commands themselves.
pub(crate) fn write_commands(value: &mut Value) {
    if let Ok(suggestion) = Suggestion::deserialize(&*value) {
        *value = command(&suggestion).into();
    } else if let Ok(suggestions) = Vec::<Suggestion>::deserialize(&*value) {
        *value = commands(&suggestions).into();
    }
}

/// Converts the recovery suggestions of a plan's failure to commands.
pub(crate) fn write_recovery(error: &mut Map<String, Value>) {
    for key in ["recovery", "recovery_command"] {
        if let Some(value) = error.get_mut(key) {
            write_commands(value);
        }
    }
    let suggestions = error.shift_remove("recovery_suggestions");
    let suggestions = suggestions.and_then(|list| serde_json::from_value(list).ok());
    if let (Some(suggestions), Some(Value::String(text))) =
        (suggestions, error.get_mut("recovery_hint"))
    {
        *text = hint_text(&Hint::from_neutral(text, suggestions));
    }
}

/// Command of one operation.
struct CommandRow {
    operation: &'static str,
    /// The words of the command.
    command: &'static str,
    /// Arguments of the command, in order. `<name>` is a positional argument; `--name` is the option for the argument
    /// `name`; `--option=name` is the option `--option` for the argument `name`; `--` ends the options.
    parameters: &'static str,
}

const fn row_of(
    operation: &'static str,
    command: &'static str,
    parameters: &'static str,
) -> CommandRow {
    CommandRow {
        operation,
        command,
        parameters,
    }
}

const ROWS: &[CommandRow] = &[
    row_of("actor/context/export", "actor context export", "<name>"),
    row_of("actor/context/list", "actor context list", ""),
    row_of("actor/context/remove", "actor context remove", "<name>"),
    row_of(
        "actor/run",
        "actor run",
        "<name> <prompt> --context --set --unsafe=allow_unsafe",
    ),
    row_of("actor/set-default", "actor set-default", "<name>"),
    row_of("cleanup/run", "cleanup run", ""),
    row_of("config/set", "config set", "<key> <value>"),
    row_of("config/unset", "config unset", "<key>"),
    row_of("db/check", "db check", ""),
    row_of("db/upgrade", "db upgrade", ""),
    row_of("diagnostics", "diagnostics", "--repair"),
    row_of("diagnostics/run", "diagnostics", ""),
    row_of("do", "do", "<task>"),
    row_of("item/list", "item list", ""),
    row_of("item/show", "item show", "<item>"),
    row_of("mcp/add", "mcp add", "<name> --update --read --write"),
    row_of("mcp/import", "mcp import", "<file>"),
    row_of("mcp/list", "mcp list", ""),
    row_of("mcp/login", "mcp login", "<name>"),
    row_of("mcp/remove", "mcp remove", "<name>"),
    row_of("mcp/show", "mcp show", "<name> --offline"),
    row_of("mcp/test", "mcp test", "<name>"),
    row_of("permission/add", "permission add", "<rule>"),
    row_of("permission/list", "permission list", ""),
    row_of("plan/apply", "plan apply", "<reference> --allow-empty"),
    row_of("plan/approve", "plan approve", "<reference> --answer"),
    row_of("plan/cancel", "plan cancel", "<reference>"),
    row_of(
        "plan/checkpoint/list",
        "plan checkpoint list",
        "<reference>",
    ),
    row_of("plan/conflicts", "plan conflicts", "<reference>"),
    row_of("plan/diff", "plan diff", "<reference>"),
    row_of("plan/errors", "plan errors", "<reference>"),
    row_of(
        "plan/execute",
        "plan execute",
        "<reference> --retry=redo --skip",
    ),
    row_of("plan/help", "help plan", ""),
    row_of("plan/list", "plan list", ""),
    row_of("plan/log", "plan log", "<reference>"),
    row_of("plan/prompt", "plan prompt", "<reference> <guidance>"),
    row_of("plan/redo", "plan redo", "<reference>"),
    row_of("plan/reject", "plan reject", "<reference>"),
    row_of(
        "plan/resolve",
        "plan resolve",
        "<reference> <path> --child --take=side",
    ),
    row_of("plan/revert", "plan revert", "<reference>"),
    row_of(
        "plan/rollback",
        "plan rollback",
        "<reference> <checkpoint> --yes",
    ),
    row_of("plan/show", "plan show", "<reference> --as=document"),
    row_of("plan/status", "plan status", "<reference>"),
    row_of("plan/tree", "plan tree", "<reference>"),
    row_of(
        "plan/use",
        "plan use",
        "<action> <projects> --arg=arguments",
    ),
    row_of("plan/wait", "plan wait", "<reference>"),
    row_of("pool/add", "pool add", "--update"),
    row_of("pool/list", "pool list", ""),
    row_of("pool/resume", "pool resume", "<name>"),
    row_of("pool/status", "pool status", ""),
    row_of("project/create/help", "project create --help", ""),
    row_of("registry/action/archive", "action archive", "<name>"),
    row_of(
        "registry/action/create",
        "action create",
        "--config=text --update",
    ),
    row_of("registry/action/list", "action list", ""),
    row_of("registry/action/show", "action show", "<name>"),
    row_of("registry/actor/add", "actor add", "--config=text"),
    row_of("registry/actor/list", "actor list", ""),
    row_of("registry/actor/show", "actor show", ""),
    row_of("registry/actor/update", "actor update", "--config=text"),
    row_of(
        "registry/automation-profile/add",
        "automation-profile add",
        "--update",
    ),
    row_of(
        "registry/automation-profile/list",
        "automation-profile list",
        "",
    ),
    row_of("registry/invariant/add", "invariant add", "--global <text>"),
    row_of("registry/invariant/list", "invariant list", ""),
    row_of("registry/invariant/remove", "invariant remove", "<id>"),
    row_of("registry/model/list", "model list", ""),
    row_of("registry/model/show", "model show", "<name>"),
    row_of(
        "registry/project/link-resource",
        "project link-resource",
        "<reference> <resource> --alias",
    ),
    row_of("registry/project/list", "project list", ""),
    row_of("registry/project/show", "project show", "<reference>"),
    row_of(
        "registry/project/unlink-resource",
        "project unlink-resource",
        "<reference> <resource>",
    ),
    row_of("registry/resource-type/list", "resource type list", ""),
    row_of(
        "registry/resource-type/show",
        "resource type show",
        "<name>",
    ),
    row_of("registry/resource/link-child", "resource link-child", ""),
    row_of("registry/resource/list", "resource list", ""),
    row_of("registry/resource/remove", "resource remove", "<reference>"),
    row_of("registry/resource/show", "resource show", "<reference>"),
    row_of("registry/resource/tree", "resource tree", "<reference>"),
    row_of(
        "registry/resource/unlink-child",
        "resource unlink-child",
        "<parent> <child>",
    ),
    row_of("registry/skill/list", "skill list", ""),
    row_of("registry/skill/tools", "skill tools", "<name>"),
    row_of("registry/tool/add", "tool add", "--config=text --update"),
    row_of("registry/tool/list", "tool list", ""),
    row_of("registry/tool/remove", "tool remove", "<name>"),
    row_of("registry/validation/add", "validation add", "--update"),
    row_of(
        "registry/validation/attachments",
        "validation attachments",
        "--validation",
    ),
    row_of(
        "registry/validation/detach",
        "validation detach",
        "<attachment>",
    ),
    row_of("registry/validation/list", "validation list", ""),
    row_of("registry/validation/show", "validation show", "<name>"),
    row_of(
        "resource/add",
        "resource add",
        "<type_name> <name> --update",
    ),
    row_of("resource/add/help", "resource add TYPE --help", ""),
    row_of("resource/type/add", "resource type add", "--update"),
    row_of("run/cancel", "run cancel", "<run>"),
    row_of("run/list", "run list", ""),
    row_of("run/resume", "run resume", "<run> --answer"),
    row_of("run/show", "run show", "<run>"),
    row_of("safety/list", "safety list", ""),
    row_of("sandbox", "sandbox", ""),
    row_of("sandbox/create", "sandbox create", "<name> --path"),
    row_of("sandbox/diff", "sandbox diff", "<reference>"),
    row_of("sandbox/discard", "sandbox discard", "<reference>"),
    row_of("sandbox/exec", "sandbox exec", "<reference> -- <command>"),
    row_of("sandbox/list", "sandbox list", "--all"),
    row_of("sandbox/query", "sandbox query", ""),
    row_of("sandbox/rollback", "sandbox rollback", "<reference> --to"),
    row_of("sandbox/show", "sandbox show", "<reference>"),
    row_of("schema", "schema", "<of>"),
    row_of("session/append", "session append", "--metadata"),
    row_of("session/export", "session export", ""),
    row_of("session/import", "session import", "--unverified"),
    row_of("session/list", "session list", ""),
    row_of("session/messages", "session messages", "<reference>"),
    row_of("session/search", "session search", "<query>"),
    row_of("session/tell", "session tell", "--actor"),
    row_of("skill/add", "skill add", "--update"),
    row_of("token/create", "token create", "--grant --expires"),
    row_of("token/list", "token list", ""),
    row_of("token/revoke", "token revoke", "<token>"),
    row_of("tool/calls", "tool calls", ""),
];

/// Placeholders for sentences, which a shell needs in quotes.
const SENTENCES: &[&str] = &["ANSWER", "GUIDANCE", "PROMPT"];

/// One word in a command line.
enum CommandWord<'a> {
    /// Written unchanged.
    Plain(&'a str),
    /// Quoted if a shell requires it.
    Value(&'a str),
    /// Always quoted.
    Sentence(&'a str),
}

fn row(suggestion: &Suggestion) -> Option<&'static CommandRow> {
    let mut rows = ROWS.iter();
    rows.find(|row| row.operation == suggestion.operation)
}

fn words(suggestion: &Suggestion) -> Option<Vec<CommandWord<'_>>> {
    let row = row(suggestion)?;
    let mut words = vec![CommandWord::Plain("agents")];
    words.extend(row.command.split(' ').map(CommandWord::Plain));
    words.extend(argument_words(suggestion, row.parameters)?);
    Some(words)
}

/// The arguments in the order of the command line. `None` when the command does not accept one of them.
fn argument_words<'a>(
    suggestion: &'a Suggestion,
    parameters: &'static str,
) -> Option<Vec<CommandWord<'a>>> {
    let mut words = Vec::new();
    let mut used = 0;
    for parameter in parameters.split_terminator(' ') {
        if parameter == "--" {
            words.push(CommandWord::Plain(parameter));
            continue;
        }
        let (option, name) = if let Some(name) = parameter.strip_prefix('<') {
            (None, name.trim_end_matches('>').to_owned())
        } else if let Some((option, name)) = parameter.split_once('=') {
            (Some(option), name.to_owned())
        } else {
            let name = parameter.trim_start_matches('-').replace('-', "_");
            (Some(parameter), name)
        };
        let Some(value) = suggestion.arguments.get(&name) else {
            continue;
        };
        used += 1;
        words.extend(option.map(CommandWord::Plain));
        match value {
            ArgumentValue::Flag(_) => {}
            ArgumentValue::Text(text) => words.push(CommandWord::Value(text)),
            ArgumentValue::Placeholder { placeholder } => {
                words.push(if SENTENCES.contains(&placeholder.as_str()) {
                    CommandWord::Sentence(placeholder)
                } else {
                    CommandWord::Plain(placeholder)
                });
            }
        }
    }
    (used == suggestion.arguments.len()).then_some(words)
}

fn join_words(words: &[CommandWord<'_>]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| match word {
            CommandWord::Plain(text) => (*text).to_owned(),
            CommandWord::Value(text) if is_plain(text) => (*text).to_owned(),
            CommandWord::Value(text) | CommandWord::Sentence(text) => {
                format!("'{}'", text.replace('\'', r"'\''"))
            }
        })
        .collect();
    words.join(" ")
}

/// True if a shell reads the unquoted text as one word.
fn is_plain(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "@%+=:,./_-".contains(letter);
    !text.is_empty() && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::error::ErrorKind;
    use cleveragents_application::find_operation;
    use cleveragents_domain::{ArgumentValue, Placeholder, Suggestion, hint, suggest};

    use serde_json::json;

    use super::{CommandWord, ROWS, command_line, hint_text, words, write_recovery};
    use crate::arguments::Invocation;

    /// Values of parameters that do not accept arbitrary text.
    const SAMPLES: &[(&str, &str)] = &[
        ("document", "markdown"),
        ("metadata", "{}"),
        ("of", "action"),
        ("side", "ours"),
    ];

    /// Every suggestion, with values that commands accept.
    fn all() -> Vec<Suggestion> {
        let mut all = suggest::all();
        for suggestion in &mut all {
            for (name, sample) in SAMPLES {
                if let Some(value) = suggestion.arguments.get_mut(*name) {
                    *value = ArgumentValue::from(sample);
                }
            }
        }
        all
    }

    #[test]
    fn every_suggestion_is_a_command_that_exists() {
        for suggestion in all() {
            let words = words(&suggestion)
                .unwrap_or_else(|| panic!("no row has all arguments of {}", suggestion.neutral()));
            let words = words.iter().map(|word| match word {
                CommandWord::Plain(text)
                | CommandWord::Value(text)
                | CommandWord::Sentence(text) => *text,
            });
            let Err(error) = Invocation::parse(words) else {
                continue;
            };
            // A hint may name a command without all its required arguments.
            let is_known = matches!(
                error.kind(),
                ErrorKind::MissingRequiredArgument
                    | ErrorKind::MissingSubcommand
                    | ErrorKind::DisplayHelp
                    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            );
            assert!(is_known, "{}: {error}", suggestion.neutral());
        }
    }

    /// The name of an operation that is not available over the network consists of the words of its command.
    #[test]
    fn suggestions_name_operations_and_their_parameters() {
        for suggestion in suggest::all() {
            let name = suggestion.operation.as_str();
            let arguments = suggestion.arguments.keys();
            if let Ok(entry) = find_operation(name) {
                let schema = (entry.request)();
                let properties = &schema.as_value()["properties"];
                // Named contexts and unsafe tools are only for local callers.
                let is_local = |argument: &str| {
                    name == "actor/run" && ["context", "allow_unsafe"].contains(&argument)
                };
                let unknown: Vec<_> = arguments
                    .filter(|argument| !is_local(argument))
                    .filter(|argument| properties.get(argument.as_str()).is_none())
                    .collect();
                assert!(unknown.is_empty(), "{name} has no {unknown:?}");
            } else {
                let row = ROWS.iter().find(|row| row.operation == name);
                let command = row.expect("a row").command;
                let words = name.strip_suffix("/help").unwrap_or(name).replace('/', " ");
                assert!(command.contains(&words), "{name} is {command}");
            }
        }
    }

    #[test]
    fn every_row_is_suggested_somewhere() {
        let suggested: BTreeSet<String> = suggest::all()
            .into_iter()
            .map(|suggestion| suggestion.operation)
            .collect();
        let rows: BTreeSet<String> = ROWS.iter().map(|row| row.operation.to_owned()).collect();
        assert_eq!(rows, suggested);
        assert_eq!(rows.len(), ROWS.len(), "an operation has two rows");
    }

    #[test]
    fn commands_can_be_copied_to_a_shell() {
        for (suggestion, line) in [
            (suggest::plan_execute("01J"), "agents plan execute 01J"),
            (
                suggest::session_search("it's here"),
                r"agents session search 'it'\''s here'",
            ),
            (
                suggest::plan_prompt("01J", Placeholder("GUIDANCE")),
                "agents plan prompt 01J 'GUIDANCE'",
            ),
            (
                suggest::plan_prompt("", Placeholder("TEXT")),
                "agents plan prompt '' TEXT",
            ),
            (
                suggest::mcp_add_read("time", Placeholder("FOLDER")),
                "agents mcp add time --update --read FOLDER",
            ),
            (
                suggest::sandbox_exec("fix", Placeholder("COMMAND")),
                "agents sandbox exec fix -- COMMAND",
            ),
        ] {
            assert_eq!(command_line(&suggestion).as_deref(), Some(line));
        }
    }

    #[test]
    fn hints_name_commands_and_options() {
        let hint = hint!(
            "{} retries it, `{}` assumes it succeeded",
            suggest::plan_execute_redo("01J"),
            suggest::plan_skip().only_arguments()
        );
        let text = "`agents plan execute 01J --retry` retries it, `--skip` assumes it succeeded";
        assert_eq!(hint_text(&hint), text);
    }

    #[test]
    fn operations_of_newer_servers_keep_their_names() {
        let mut newer = suggest::plan_execute("01J");
        newer.operation = "plan/fly".to_owned();
        assert_eq!(hint_text(&newer.into()), "`plan/fly` (reference=01J)");
        let mut newer = suggest::plan_execute("01J");
        let value = ArgumentValue::from("high");
        newer.arguments.insert("altitude".to_owned(), value);
        let text = "`plan/execute` (altitude=high, reference=01J)";
        assert_eq!(hint_text(&newer.into()), text);
    }

    #[test]
    fn the_recovery_of_a_plan_is_shown_as_commands() {
        let hint = hint!("{} shows more", suggest::plan_errors("01J"));
        let mut stored = json!({
            "message": "boom",
            "recovery_hint": hint.neutral(),
            "recovery_suggestions": hint.suggestions(),
            "recovery_command": suggest::plan_execute("01J"),
            "recovery": [suggest::plan_execute("01J"), suggest::plan_cancel("01J")],
            "step": null,
        });
        let expected = json!({
            "message": "boom",
            "recovery_hint": "`agents plan errors 01J` shows more",
            "recovery_command": "agents plan execute 01J",
            "recovery": ["agents plan execute 01J", "agents plan cancel 01J"],
            "step": null,
        });
        for _ in 0..2 {
            // The second call receives the form that earlier versions stored.
            write_recovery(stored.as_object_mut().expect("an object"));
            assert_eq!(stored.to_string(), expected.to_string());
        }
    }
}
