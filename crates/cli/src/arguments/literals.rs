//! Checks that every command in help texts, hints, messages and documents exists and parses.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::help::foreign_hints;
use super::{Arguments, Invocation};

/// Documents that mention commands of earlier versions or of other programs.
const HISTORY: [&str; 2] = ["CHANGELOG.md", "docs/STYLE.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files below a folder with an extension, by path relative to the root.
fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let name = path.strip_prefix(root()).expect("below the root");
                let text = std::fs::read_to_string(&path).expect("a text");
                found.push((name.display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

/// The words of a command line as a shell reads them, up to a pipe, a redirection or the next command.
fn shell_words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '|' | ';' | '&' | '>' | '<' | ')') => break,
            (None, '#') if word.is_none() => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// True for a word that stands for a value or for optional arguments.
fn is_placeholder(word: &str) -> bool {
    word.contains(['{', '…', '<', '[', '$'])
        || word.contains("...")
        || word.chars().any(|letter| letter.is_ascii_uppercase())
            && !word.chars().any(|letter| letter.is_ascii_lowercase())
}

/// Parses a command; `Err` contains the reason if it is not valid.
fn check(line: &str) -> Result<(), String> {
    // `ACTION|NAME` and `[--option]` are notations of synopses.
    let line = line.replace(['[', ']'], "").replace("\\\n", " ");
    let mut words = shell_words(&line);
    words.retain(|word| !matches!(word.as_str(), "…" | "..." | "OPTIONS" | "COMMAND"));
    let parsed = Invocation::parse(&words).or_else(|error| {
        // A value of a message can be an option, or nothing.
        let has_unknown = matches!(error.kind(), ErrorKind::UnknownArgument);
        if has_unknown && words.iter().any(|word| word.starts_with('{')) {
            words.retain(|word| !word.starts_with('{'));
            return Invocation::parse(&words);
        }
        Err(error)
    });
    let Err(error) = parsed else {
        return Ok(());
    };
    let is_value_of_sample = || {
        let value = error.get(ContextKind::InvalidValue);
        matches!(value, Some(ContextValue::String(value)) if value.is_empty() || is_placeholder(value))
    };
    match error.kind() {
        // A text may name a command without all its arguments.
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::TooFewValues => Ok(()),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if is_value_of_sample() => Ok(()),
        ErrorKind::InvalidSubcommand if words.get(1).is_some_and(|word| is_placeholder(word)) => {
            Ok(())
        }
        _ => Err(error.to_string()),
    }
}

/// The commands in code spans of a text, and in lines of a shell.
fn quoted_commands(text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    let commands = spans.filter(|span| span.starts_with("agents "));
    commands.map(|span| span.replace('\n', " ")).collect()
}

/// The commands of lines in code blocks, also after a pipe or another command.
fn block_commands(lines: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut joined = String::new();
    for line in lines {
        joined.push_str(line.trim());
        if let Some(open) = joined.strip_suffix('\\') {
            joined = format!("{open} ");
            continue;
        }
        for part in joined.split("&&").flat_map(|part| part.split("| ")) {
            let part = part.trim().trim_start_matches("$ ");
            let part = part.trim_start_matches("NAME=$(").trim_start_matches("$(");
            // Two spaces precede an explanation.
            let part = part.split("  ").next().unwrap_or_default();
            if part.starts_with("agents ") {
                found.push(part.to_owned());
            }
        }
        joined.clear();
    }
    found
}

fn commands_of_document(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut prose = String::new();
    let mut block: Option<Vec<&str>> = None;
    let mut is_shell = false;
    for line in text.lines() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, block.take()) {
            (Some(_), Some(lines)) => {
                if is_shell {
                    found.extend(block_commands(&lines));
                }
            }
            (Some(language), None) => {
                is_shell = matches!(language.trim(), "" | "sh" | "bash" | "console" | "shell");
                block = Some(Vec::new());
            }
            (None, Some(mut lines)) => {
                lines.push(line);
                block = Some(lines);
            }
            (None, None) => {
                prose.push_str(line);
                prose.push('\n');
            }
        }
    }
    for paragraph in prose.split("\n\n") {
        found.extend(quoted_commands(paragraph));
    }
    found
}

/// Fails with all commands that cannot be typed.
fn assert_typable(commands: impl IntoIterator<Item = (String, String)>, at_least: usize) {
    let commands: BTreeSet<(String, String)> = commands.into_iter().collect();
    let wrong: Vec<String> = commands
        .iter()
        .filter_map(|(place, line)| {
            let reason = check(line).err()?;
            Some(format!("{place}: {line}\n    {}", reason.trim_end()))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(commands.len() >= at_least, "only {} found", commands.len());
}

#[test]
fn commands_of_documents_can_be_typed() {
    let mut documents = files("docs", "md");
    for name in ["README.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root().join(name)).expect("a text");
        documents.push((name.to_owned(), text));
    }
    let commands = documents
        .into_iter()
        .filter(|(name, _)| !HISTORY.contains(&name.as_str()))
        .flat_map(|(name, text)| {
            let commands = commands_of_document(&text).into_iter();
            commands.map(move |command| (name.clone(), command))
        });
    assert_typable(commands, 300);
}

#[test]
fn commands_of_help_texts_can_be_typed() {
    fn collect(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        let texts = [
            command.get_about(),
            command.get_long_about(),
            command.get_after_help(),
            command.get_after_long_help(),
        ];
        let mut texts: Vec<String> = texts
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        for argument in command.get_arguments() {
            let help = [argument.get_help(), argument.get_long_help()];
            texts.extend(help.into_iter().flatten().map(ToString::to_string));
        }
        for text in texts {
            let lines: Vec<&str> = text.lines().collect();
            let commands = quoted_commands(&text).into_iter();
            let commands = commands.chain(block_commands(&lines));
            found.extend(commands.map(|line| (path.to_owned(), line)));
        }
        for child in command.get_subcommands() {
            collect(child, &format!("{path} {}", child.get_name()), found);
        }
    }
    let mut found = Vec::new();
    collect(&Arguments::command(), "agents", &mut found);
    found.extend(foreign_hints().map(|line| ("hint of a foreign command".to_owned(), line)));
    assert_typable(found, 100);
}

/// Commands in backquotes in the string literals of this crate; `{…}` stands for a value.
#[test]
fn commands_of_messages_can_be_typed() {
    let commands = files("crates/cli/src", "rs")
        .into_iter()
        .filter(|(name, _)| !name.ends_with("tests.rs"))
        .flat_map(|(name, text)| {
            let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let lines: Vec<String> = text
                .replace("\\\n", "\u{0}")
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .map(|line| {
                    let parts: Vec<&str> = line.split('\u{0}').map(str::trim_start).collect();
                    parts.concat()
                })
                .collect();
            let commands: Vec<_> = lines
                .iter()
                .flat_map(|line| quoted_commands(&line.replace("\\\"", "\"")))
                .map(|command| (name.clone(), command.replace("{}", "{VALUE}")))
                .collect();
            commands
        });
    assert_typable(commands, 60);
}

#[test]
fn the_check_finds_missing_commands_and_options() {
    for line in [
        "agents plan fly 01J",
        "agents plan apply 01J --loudly",
        "agents flyplan --fast",
        "agents schema weather",
    ] {
        assert!(check(line).is_err(), "{line}");
    }
    for line in [
        "agents plan apply PLAN",
        "agents plan apply",
        "agents 'fix the test'",
        "agents plan list | head",
        "agents schema {of}",
        "agents plan apply [PLAN] [--yes]",
    ] {
        assert_eq!(check(line), Ok(()), "{line}");
    }
}
