//! Patterns for tools, paths and commands.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use cleveragents_domain::nearest;
use globset::{GlobBuilder, GlobMatcher};

use super::RuleError;
use crate::builtin::NAMES;
use crate::name::ToolName;

/// Returns whether a text matches a pattern in which `*` matches any text and `?` one character.
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut in_pattern, mut in_text) = (0, 0);
    // Position of the last `*`, and the end of the text that it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match pattern.get(in_pattern) {
            Some('*') => {
                star = Some((in_pattern, in_text));
                in_pattern += 1;
            }
            Some(letter) if *letter == '?' || *letter == text[in_text] => {
                in_pattern += 1;
                in_text += 1;
            }
            _ => match star {
                Some((star_position, star_end)) => {
                    star = Some((star_position, star_end + 1));
                    in_pattern = star_position + 1;
                    in_text = star_end + 1;
                }
                None => return false,
            },
        }
    }
    pattern[in_pattern..].iter().all(|letter| *letter == '*')
}

/// The name of one tool, or a pattern such as `builtin/git-*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolPattern(String);

impl ToolPattern {
    /// Returns whether the pattern matches a tool.
    pub fn matches(&self, tool: &ToolName) -> bool {
        matches_pattern(&self.0, &tool.canonical().to_string())
    }

    /// Rejects a pattern in the namespace `builtin` that matches no tool, because it is probably a typing error.
    fn checked(self, written: &str) -> Result<Self, RuleError> {
        let prefix = format!("{}/", ToolName::BUILTIN);
        let Some(short) = self.0.strip_prefix(&prefix) else {
            return Ok(self);
        };
        if NAMES.iter().any(|name| matches_pattern(short, name)) {
            return Ok(self);
        }
        Err(RuleError::BuiltIn {
            tool: written.to_owned(),
            nearest: nearest::best(short, NAMES.iter().copied())
                .map(|name| format!("{prefix}{name}")),
        })
    }

    /// Returns whether the pattern contains a literal namespace.
    pub(crate) fn names_namespace(&self) -> bool {
        let namespace = self.0.split_once('/').map(|(namespace, _)| namespace);
        namespace.is_some_and(|namespace| !namespace.contains(['*', '?']))
    }

    /// Returns whether the pattern is the name of one tool, without wildcards.
    pub fn is_exact(&self) -> bool {
        !self.0.contains(['*', '?'])
    }
}

impl From<&ToolName> for ToolPattern {
    fn from(name: &ToolName) -> Self {
        Self(name.canonical().to_string())
    }
}

impl FromStr for ToolPattern {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let wrong = |why: String| RuleError::Tool {
            tool: text.to_owned(),
            why,
        };
        if text == "*" {
            return Ok(Self(text.to_owned()));
        }
        if !text.contains('/') {
            return Err(wrong(format!(
                "write the full name, such as `builtin/{text}`"
            )));
        }
        if text.contains(['*', '?']) {
            let legal = |letter: char| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || "*?/:_-".contains(letter)
            };
            if !text.chars().all(legal) {
                return Err(wrong(
                    "a pattern contains only lowercase letters, digits, `_`, `-`, `*` and `?`"
                        .to_owned(),
                ));
            }
            return Self(text.to_owned()).checked(text);
        }
        let name: ToolName = text
            .parse()
            .map_err(|error: crate::ToolNameError| wrong(error.to_string()))?;
        Self(name.canonical().to_string()).checked(text)
    }
}

impl serde::Serialize for ToolPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The pattern in the parentheses of a rule.
#[derive(Debug, Clone)]
pub(crate) struct TextPattern {
    text: String,
    glob: GlobMatcher,
}

impl TextPattern {
    pub(crate) fn new(text: &str) -> Result<Self, RuleError> {
        let built = GlobBuilder::new(text.strip_prefix("./").unwrap_or(text))
            .literal_separator(true)
            .backslash_escape(true)
            .build();
        // A valid pattern for commands may be invalid for paths, such as `[ -f *`.
        let glob = match built {
            Ok(glob) => glob,
            Err(_) => GlobBuilder::new(&globset::escape(text))
                .build()
                .map_err(|error| RuleError::Pattern {
                    pattern: text.to_owned(),
                    why: error.kind().to_string(),
                })?,
        };
        Ok(Self {
            text: text.to_owned(),
            glob: glob.compile_matcher(),
        })
    }

    /// A pattern that matches only this path.
    pub(crate) fn exact_path(path: &str) -> Result<Self, RuleError> {
        Self::new(&globset::escape(path))
    }

    /// A pattern that matches only this command. A `*` in the command becomes `?`, which matches any character.
    pub(crate) fn exact_command(command: &str) -> Result<Self, RuleError> {
        Self::new(&command.replace('*', "?"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches a path, or the whole content of the directory at this path.
    pub(crate) fn fits_path(&self, path: &Path) -> bool {
        let is_folder = |folder| Path::new(folder) == path;
        self.glob.is_match(path) || self.text.strip_suffix("/**").is_some_and(is_folder)
    }

    /// Returns whether the pattern matches a command. `*` matches any text; ` *` at the end also matches the empty
    /// text.
    pub(crate) fn fits_command(&self, command: &str) -> bool {
        matches_pattern(&self.text, command)
            || self
                .text
                .strip_suffix(" *")
                .is_some_and(|program| matches_pattern(program, command))
    }
}

#[cfg(test)]
mod tests {
    use super::{TextPattern, ToolPattern, matches_pattern};
    use proptest::prelude::*;
    use std::path::Path;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*b*b*", "abab", true),
            ("", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_match_a_tool_by_all_its_names() {
        let pattern: ToolPattern = "builtin/read_file".parse().expect("a pattern");
        assert!(pattern.matches(&"builtin/file-read".parse().expect("a name")));
        let pattern: ToolPattern = "builtin/git-*".parse().expect("a pattern");
        assert!(pattern.matches(&"builtin/git_log".parse().expect("a name")));
        assert!(!pattern.matches(&"builtin/shell".parse().expect("a name")));
    }

    #[test]
    fn a_pattern_that_could_never_match_is_refused() {
        for invalid in [
            "shell",
            "",
            "Builtin/shell",
            "builtin/",
            "Builtin/*",
            "a b/*",
            "builtin/shel",
            "builtin/write_*",
        ] {
            assert!(invalid.parse::<ToolPattern>().is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn alternative_spellings_and_tools_of_the_user_are_accepted() {
        for valid in [
            "builtin/write_file",
            "builtin/sh*",
            "local/not-yet",
            "*/shel",
        ] {
            assert!(valid.parse::<ToolPattern>().is_ok(), "{valid:?}");
        }
    }

    #[test]
    fn paths_match_by_component_and_commands_as_a_whole() {
        let sources = TextPattern::new("src/**").expect("a pattern");
        let matches_pattern =
            |pattern: &TextPattern, path: &str| pattern.fits_path(Path::new(path));
        assert!(matches_pattern(&sources, "src/a/b.rs") && matches_pattern(&sources, "src"));
        assert!(!matches_pattern(&sources, "srcs/a") && !matches_pattern(&sources, "lib/src/a"));
        let rust_files = TextPattern::new("*.rs").expect("a pattern");
        assert!(matches_pattern(&rust_files, "a.rs") && !matches_pattern(&rust_files, "a/b.rs"));
        let remove = TextPattern::new("rm *").expect("a pattern");
        assert!(remove.fits_command("rm -rf a/b") && remove.fits_command("rm"));
        assert!(!remove.fits_command("rmdir a"));
    }

    proptest! {
        #[test]
        fn an_exact_pattern_matches_its_own_text_and_round_trips(
            text in "[a-z*?\\[\\]{} -]{1,8}(/[a-z*?\\[\\]{}]{1,4})?", other in "[a-z]{1,6}",
        ) {
            let path = TextPattern::exact_path(&text).expect("a pattern");
            let again = TextPattern::new(path.as_str()).expect("a pattern");
            prop_assert!(path.fits_path(Path::new(&text)) && again.fits_path(Path::new(&text)));
            prop_assert_eq!(again.fits_path(Path::new(&other)), text == other);
            let command = TextPattern::exact_command(&text).expect("a pattern");
            prop_assert!(command.fits_command(&text));
        }

        #[test]
        fn matching_never_panics_and_a_star_matches_everything(pattern in "[ab*?]{0,8}", text in "\\PC{0,12}") {
            let _fits = matches_pattern(&pattern, &text);
            prop_assert!(matches_pattern("*", &text));
            prop_assert!(matches_pattern(&text.replace(['*', '?'], "?"), &text));
        }
    }
}
