//! [`ProjectRules`]: the permission rules in the file of a project. They can only tighten the rules of the user.
//!
//! The file is part of the project, so anybody who can change the project can change it. It is read from the user's own
//! folder, never from a sandbox, where an agent could have changed it.

use std::path::{Path, PathBuf};

use cleveragents_domain::Code;
use cleveragents_sandbox::{Links, read_regular};
use cleveragents_tools::{Effect, Rule};
use serde_json::json;
use toml_edit::{Document, Item};

use crate::operation::OperationError;
use crate::text_file::{MAX_TEXT_FILE_BYTES, read_text};

/// The file, within the folder of the project.
const FILE: &str = ".cleveragents/rules.toml";

/// The key with the list of rules.
const KEY: &str = "rules";

#[derive(Debug, Clone)]
pub struct ProjectRule {
    pub rule: Rule,
    /// The line of the file, from 1.
    pub line: usize,
}

/// The rules in the file of a project.
#[derive(Debug, Clone, Default)]
pub struct ProjectRules {
    /// The file; `None` if the project has none.
    pub file: Option<PathBuf>,
    /// The rules that ask or deny.
    pub rules: Vec<ProjectRule>,
    /// The rules that allow. They have no effect.
    pub refused: Vec<ProjectRule>,
}

impl ProjectRules {
    /// Reads the file of the project at a folder. A file that cannot be read or parsed is an error: without it, the
    /// project would be less protected than its owner wants.
    pub fn read(folder: &Path) -> Result<Self, OperationError> {
        Ok(Self::read_existing(folder)?.unwrap_or_default())
    }

    /// Reads the file of the nearest folder that has one: this folder, or one that contains it.
    pub fn find(folder: &Path) -> Result<Self, OperationError> {
        for folder in folder.ancestors() {
            if let Some(found) = Self::read_existing(folder)? {
                return Ok(found);
            }
        }
        Ok(Self::default())
    }

    /// `None` if the folder has no such file.
    fn read_existing(folder: &Path) -> Result<Option<Self>, OperationError> {
        let file = folder.join(FILE);
        let bytes = read_regular(&file, Links::Refuse, MAX_TEXT_FILE_BYTES).map_err(|error| {
            let message = format!("the rules `{}` cannot be read: {error}", file.display());
            OperationError::new(Code::InvalidRule, message)
                .caused_by(error)
                .with_hint(
                    "a project's rules are a regular file of at most 1 MiB; replace or remove it",
                )
        })?;
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        let text = read_text(&*bytes, &file, "the file with rules", Code::InvalidRule)?;
        Self::parse(&text, &file).map(Some)
    }

    fn parse(text: &str, file: &Path) -> Result<Self, OperationError> {
        let failed = |start: usize, reason: &str| {
            let (name, line) = (file.display(), line_at(text, start));
            OperationError::new(
                Code::InvalidRule,
                format!("`{name}`, line {line}: {reason}"),
            )
            .with_details(json!({"file": file, "line": line}))
            .with_hint("for example `rules = [\"deny builtin/shell(git push *)\"]`")
        };
        let document = Document::parse(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            failed(start, error.message())
        })?;
        let mut found = Self {
            file: Some(file.to_owned()),
            ..Self::default()
        };
        let other = document.iter().find(|(key, _)| *key != KEY);
        if let Some((key, item)) = other {
            let start = item.span().map_or(0, |span| span.start);
            return Err(failed(
                start,
                &format!("`{key}` is not a key of this file; write `{KEY}`"),
            ));
        }
        let Some(item) = document.get(KEY) else {
            return Ok(found);
        };
        let start = item.span().map_or(0, |span| span.start);
        let list =
            Item::as_array(item).ok_or_else(|| failed(start, "it is not a list of rules"))?;
        for value in list {
            let start = value.span().map_or(start, |span| span.start);
            let text_of_rule = value.as_str();
            let text_of_rule = text_of_rule.ok_or_else(|| failed(start, "it is not a text"))?;
            let rule = complete_rule(text_of_rule);
            let rule: Rule = rule.map_err(|error| failed(start, &error.to_string()))?;
            let rule = ProjectRule {
                rule,
                line: line_at(text, start),
            };
            if rule.rule.effect() == Effect::Allow {
                found.refused.push(rule);
            } else {
                found.rules.push(rule);
            }
        }
        Ok(found)
    }

    /// A warning for each rule that has no effect.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let name = self.file.as_ref().map(|file| file.display().to_string());
        let name = name.unwrap_or_default();
        self.refused.iter().map(move |refused| {
            format!(
                "`{name}`, line {}: `{}` has no effect, because the file of a project can only ask or deny",
                refused.line, refused.rule
            )
        })
    }
}

/// The line of a position, from 1.
fn line_at(text: &str, position: usize) -> usize {
    let before = text.get(..position).unwrap_or(text);
    before.matches('\n').count() + 1
}

/// Parses a rule in which the namespace of a built-in tool may be left out: `deny shell(git push *)`.
pub fn complete_rule(text: &str) -> Result<Rule, cleveragents_tools::RuleError> {
    let text = text.trim();
    let written = text.parse::<Rule>();
    if written.is_ok() {
        return written;
    }
    let (effect, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let tool = rest.trim_start();
    let name = tool.split('(').next().unwrap_or_default();
    if name.contains('/') {
        return written;
    }
    let completed = format!("{effect} builtin/{tool}").parse::<Rule>();
    completed.or(written)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cleveragents_domain::{Code, Diagnose as _};

    use super::{ProjectRules, complete_rule};

    fn parse(text: &str) -> Result<ProjectRules, crate::operation::OperationError> {
        ProjectRules::parse(text, Path::new("/shop/.cleveragents/rules.toml"))
    }

    #[test]
    fn rules_that_allow_are_refused_with_their_line() {
        let text = "# Rules\nrules = [\n  \"deny shell(git push *)\",\n  \"allow builtin/shell\",\n  \"ask builtin/git-*\",\n]\n";
        let read = parse(text).expect("rules");
        let kept: Vec<String> = read
            .rules
            .iter()
            .map(|rule| rule.rule.to_string())
            .collect();
        assert_eq!(
            kept,
            ["deny builtin/shell(git push *)", "ask builtin/git-*"]
        );
        let warnings: Vec<String> = read.warnings().collect();
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].contains("rules.toml`, line 4: `allow builtin/shell` has no effect"),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_an_error_with_its_line() {
        for (text, line) in [
            ("rules = [\n\"deny\"\n]", 2),
            ("rules = [\n\n7]", 3),
            ("rules = 7", 1),
            ("\nrule = []", 2),
            ("rules = [", 1),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.code(), Code::InvalidRule, "{text}");
            assert!(
                error.to_string().contains(&format!("line {line}")),
                "{error}"
            );
        }
        assert!(parse("").expect("empty").rules.is_empty());
    }

    #[test]
    fn a_file_that_is_not_regular_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let nested = folder.path().join("a/b");
        std::fs::create_dir_all(&nested).expect("folders");
        std::fs::create_dir(folder.path().join(".cleveragents")).expect("a folder");
        let place = folder.path().join(super::FILE);
        assert!(
            ProjectRules::find(&nested)
                .expect("no rules")
                .file
                .is_none()
        );
        let target = folder.path().join("other.toml");
        std::fs::write(&target, "rules = [\"deny shell\"]").expect("a file");
        std::os::unix::fs::symlink(&target, &place).expect("a link");
        let refused = |what: &str| {
            for found in [
                ProjectRules::find(&nested),
                ProjectRules::read(folder.path()),
            ] {
                assert_eq!(found.expect_err(what).code(), Code::InvalidRule, "{what}");
            }
            std::fs::remove_file(&place).expect("removed");
        };
        refused("a link");
        let fifo = std::process::Command::new("mkfifo").arg(&place).status();
        assert!(fifo.expect("mkfifo runs").success());
        refused("a pipe");
        let size = usize::try_from(super::MAX_TEXT_FILE_BYTES).expect("a small size") + 1;
        std::fs::write(&place, "#".repeat(size)).expect("a file");
        refused("a large file");
        std::fs::rename(&target, &place).expect("a regular file");
        assert_eq!(ProjectRules::find(&nested).expect("rules").rules.len(), 1);
    }

    #[test]
    fn the_namespace_of_built_in_tools_may_be_left_out() {
        for (text, expected) in [
            ("deny shell(git push *)", "deny builtin/shell(git push *)"),
            ("ask git-*", "ask builtin/git-*"),
            (
                "allow  file-write(src/**)",
                "allow builtin/file-write(src/**)",
            ),
            ("deny *", "deny *"),
            ("deny local/note", "deny local/note"),
        ] {
            assert_eq!(complete_rule(text).expect(text).to_string(), expected);
        }
        for text in ["deny", "deny shel(x)", "permit shell", ""] {
            assert!(complete_rule(text).is_err(), "{text}");
        }
    }
}
