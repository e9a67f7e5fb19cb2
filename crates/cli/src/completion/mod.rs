//! Completion of command lines in a shell, with the names of existing plans, sandboxes and other objects.
//!
//! The script of a shell calls `agents __complete SHELL INDEX -- WORDS...` on each Tab. The call opens the database
//! for reading only, never migrates it, creates no file, and prints nothing when something fails.

mod names;
mod scripts;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;

use clap::{Arg, Command};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter, complete,
};

use self::names::NameKind;
use self::scripts::Shell;
pub(crate) use self::scripts::{CompletionShell, script};
use crate::arguments::command_line;
use crate::config::Environment;

/// First argument of the calls that a completion script makes.
const REQUEST: &str = "__complete";

/// Answers the call of a completion script. Returns `false` if the arguments are not such a call.
pub(crate) fn respond(arguments: &[OsString], environment: &Environment) -> bool {
    let [_, request, rest @ ..] = arguments else {
        return false;
    };
    if request != REQUEST {
        return false;
    }
    if let Some(text) = answer(rest, environment) {
        let _closed = std::io::stdout().lock().write_all(text.as_bytes());
    }
    true
}

/// The lines for the shell; `None` if there is nothing to complete.
fn answer(arguments: &[OsString], environment: &Environment) -> Option<String> {
    let [shell, index, separator, words @ ..] = arguments else {
        return None;
    };
    let shell = Shell::from_name(shell.to_str()?)?;
    let index: usize = index.to_str()?.parse().ok()?;
    if separator != "--" {
        return None;
    }
    let typed = shell.typed(words, index);
    let mut command = with_names(command_line(), &mut Vec::new(), environment);
    let folder = environment.working_folder();
    let last = typed.words.len().checked_sub(1)?;
    let current = typed.words.last().cloned().unwrap_or_default();
    let found = complete(&mut command, typed.words.clone(), last, folder).ok()?;
    Some(shell.render(&without_options(found, &current), typed.prefix_length))
}

/// Leaves out options unless the word begins with a dash or only options are possible.
fn without_options(
    candidates: Vec<CompletionCandidate>,
    current: &OsStr,
) -> Vec<CompletionCandidate> {
    let is_option = |candidate: &CompletionCandidate| {
        candidate.get_value().as_encoded_bytes().starts_with(b"-")
    };
    if current.as_encoded_bytes().starts_with(b"-") || candidates.iter().all(is_option) {
        return candidates;
    }
    let mut candidates = candidates;
    candidates.retain(|candidate| !is_option(candidate));
    candidates
}

/// Adds the names of existing objects to the arguments of a command and of its subcommands. `path` holds the names of
/// the command's groups.
fn with_names(command: Command, path: &mut Vec<String>, environment: &Environment) -> Command {
    let group = path.clone();
    let command = command.mut_args(|argument| match values_of(&group, &argument) {
        Some(Values::Names(kind)) => argument.add(ArgValueCompleter::new(LiveNames {
            kind,
            environment: environment.clone(),
        })),
        Some(Values::Paths) => argument.add(ArgValueCompleter::new(PathCompleter::any())),
        None => argument,
    });
    command.mut_subcommands(|subcommand| {
        path.push(subcommand.get_name().to_owned());
        let subcommand = with_names(subcommand, path, environment);
        path.pop();
        subcommand
    })
}

/// Values that complete an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Names(NameKind),
    Paths,
}

/// Value names of arguments that name an object, with the kind of the object.
const BY_VALUE: [(&str, NameKind); 27] = [
    ("PLAN", NameKind::Plan),
    ("[PLAN] GUIDANCE", NameKind::Plan),
    ("[PLAN] TASK", NameKind::Plan),
    ("[PLAN] PATH", NameKind::Plan),
    ("[PLAN] CHECKPOINT", NameKind::Plan),
    ("DECISION|PLAN", NameKind::Plan),
    ("PLAN_ID", NameKind::Plan),
    ("SANDBOX", NameKind::Sandbox),
    ("SESSION", NameKind::Session),
    ("PROJECT", NameKind::Project),
    ("ACTOR", NameKind::Actor),
    ("POOL", NameKind::Pool),
    ("RESOURCE", NameKind::Resource),
    ("RESOURCE[:ALIAS]", NameKind::Resource),
    ("PARENT", NameKind::Resource),
    ("CHILD", NameKind::Resource),
    ("ACTION", NameKind::Action),
    ("SKILL", NameKind::Skill),
    ("RUN", NameKind::Run),
    ("ITEM", NameKind::Item),
    ("TOKEN", NameKind::Token),
    ("VALIDATION", NameKind::Validation),
    ("PROFILE", NameKind::Profile),
    ("SERVER", NameKind::McpServer),
    ("MODEL", NameKind::Model),
    ("PROVIDER", NameKind::Provider),
    ("KEY", NameKind::Key),
];

/// Value names of arguments that are paths on this machine.
const PATHS: [&str; 4] = ["DIR", "FILE", "FOLDER", "PATH"];

/// Groups whose argument `NAME` names an object of this kind.
const BY_GROUP: [(&[&str], NameKind); 11] = [
    (&["actor", "context"], NameKind::ActorContext),
    (&["actor"], NameKind::Actor),
    (&["item", "source"], NameKind::ItemSource),
    (&["action"], NameKind::Action),
    (&["automation-profile"], NameKind::Profile),
    (&["mcp"], NameKind::McpServer),
    (&["pool"], NameKind::Pool),
    (&["skill"], NameKind::Skill),
    (&["tool"], NameKind::Tool),
    (&["validation"], NameKind::Validation),
    (&["project"], NameKind::Project),
];

/// Commands whose argument `NAME` is the name of a new object.
const CREATING: [&str; 3] = ["add", "create", "import"];

/// The values that complete an argument of the command at `path`.
fn values_of(path: &[String], argument: &Arg) -> Option<Values> {
    let names = argument.get_value_names()?;
    let name = names.first()?.as_str();
    if (name == "COMMAND" && argument.is_last_set()) || PATHS.contains(&name) {
        return Some(Values::Paths);
    }
    if path == ["explain"] && name == "CODE" {
        return Some(Values::Names(NameKind::ErrorCode));
    }
    // The child of a plan, not of a resource.
    if path.first().is_some_and(|group| group == "plan") && name == "CHILD" {
        return None;
    }
    if name == "NAME" {
        return names_of_group(path, argument).map(Values::Names);
    }
    let mut rows = BY_VALUE.iter();
    let (_, kind) = rows.find(|(value, _)| *value == name)?;
    Some(Values::Names(*kind))
}

fn names_of_group(path: &[String], argument: &Arg) -> Option<NameKind> {
    let is_profile = argument.get_long() == Some("automation-profile");
    let is_actor = argument
        .get_long()
        .is_some_and(|name| name == "actor" || name.ends_with("-actor"));
    if is_profile {
        return Some(NameKind::Profile);
    }
    if is_actor {
        return Some(NameKind::Actor);
    }
    if argument.get_long() == Some("project") {
        return Some(NameKind::Project);
    }
    let (verb, groups) = path.split_last()?;
    if CREATING.contains(&verb.as_str()) || argument.get_long().is_some() {
        return None;
    }
    let mut rows = BY_GROUP.iter();
    let (_, kind) = rows.find(|(group, _)| groups == *group)?;
    Some(*kind)
}

/// Completes an argument with the names of existing objects.
struct LiveNames {
    kind: NameKind,
    environment: Environment,
}

impl ValueCompleter for LiveNames {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(current) = current.to_str() else {
            return Vec::new();
        };
        let names = names::existing(self.kind, &self.environment);
        let names = names
            .iter()
            .filter_map(|name| Some((name.completing(current)?, name)));
        names
            .map(|(value, name)| {
                let help = (!name.description.is_empty()).then(|| name.description.clone().into());
                CompletionCandidate::new(value).help(help)
            })
            .collect()
    }

    fn complete_at(&self, argument: usize, current: &OsStr) -> Vec<CompletionCandidate> {
        // Arguments such as `[PLAN] GUIDANCE` begin with the object.
        if argument == 0 || !self.kind.is_only_first() {
            self.complete(current)
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CREATING, command_line, values_of};

    /// Value names of texts, numbers, patterns and names of new objects, which have no completion.
    const FREE: &str = "ADDRESS ATTACHMENT_ID BYTES CATEGORY CHILD CODE COMMAND DECISION FOCUS FORMAT GUIDANCE HASH ID IDENTITY JSON KEY=VALUE \
        KIND LABEL MESSAGE MIB N NAME NAME=VALUE NAME[=VALUE] NAMESPACE NAMESPACE=ROLE NUMBER OFFSET PART PATTERN PATHS PORT \
        PROFILE|FILE PROMPT REGEX ROWS RULE S ROLE SCOPE SECONDS SEQ SIDE SOURCE SQL STEPS SUBJECT TAG TASK TEXT TIME TITLE TYPE URL \
        USD VALUE VALUE=LABEL VARIABLE VERSION WORDS CHECKPOINT";

    #[test]
    fn every_argument_has_a_completion_or_is_free_text() {
        fn walk(command: &clap::Command, path: &mut Vec<String>, missing: &mut BTreeSet<String>) {
            for argument in command.get_arguments() {
                let takes_value = argument.get_action().takes_values();
                let has_values = !argument.get_possible_values().is_empty()
                    || argument.get_value_hint() != clap::ValueHint::Unknown;
                let name = argument
                    .get_value_names()
                    .and_then(|names| names.first())
                    .map_or_else(|| argument.get_id().to_string(), ToString::to_string);
                let is_free =
                    name == "NAME AND FLAGS" || FREE.split_whitespace().any(|free| free == name);
                if takes_value && !has_values && !is_free && values_of(path, argument).is_none() {
                    missing.insert(format!("{} {name}", path.join(" ")));
                }
            }
            for subcommand in command.get_subcommands() {
                path.push(subcommand.get_name().to_owned());
                walk(subcommand, path, missing);
                path.pop();
            }
        }
        let mut command = command_line();
        command.build();
        let mut missing = BTreeSet::new();
        walk(&command, &mut Vec::new(), &mut missing);
        assert_eq!(missing, BTreeSet::new());
    }

    #[test]
    fn names_of_new_objects_are_not_completed() {
        let mut command = command_line();
        command.build();
        for group in ["actor", "pool", "project", "skill"] {
            let group = command.find_subcommand(group).expect("a group");
            for verb in group.get_subcommands() {
                if !CREATING.contains(&verb.get_name()) {
                    continue;
                }
                let path = [group.get_name().to_owned(), verb.get_name().to_owned()];
                let names = verb.get_positionals().filter(|argument| {
                    argument
                        .get_value_names()
                        .is_some_and(|names| names.first().is_some_and(|name| name == "NAME"))
                });
                for argument in names {
                    assert_eq!(values_of(&path, argument), None, "{path:?}");
                }
            }
        }
    }
}
