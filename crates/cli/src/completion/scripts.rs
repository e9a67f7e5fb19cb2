//! Completion scripts, and what a shell sends and receives.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use clap::ValueEnum;
use clap_complete::engine::CompletionCandidate;
use unicode_width::UnicodeWidthStr as _;

use crate::arguments::command_line;

/// Maximum width of a description in a list of candidates.
const DESCRIPTION_WIDTH: usize = 50;

/// Shells with a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    #[value(name = "powershell")]
    PowerShell,
}

/// Shells whose scripts call this program on each Tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Script for Bash 4.1 or newer. A single candidate that ends a folder or an option is not followed by a space.
const BASH: &str = r#"_agents() {
    local IFS=$'\n'
    mapfile -t COMPREPLY < <(agents __complete bash "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=] ]]; then
        compopt -o nospace
    fi
}
complete -o nosort -F _agents agents 2>/dev/null || complete -F _agents agents
"#;

const ZSH: &str = r#"#compdef agents
_agents() {
    local -a found open
    local line
    for line in "${(@f)$(agents __complete zsh "$((CURRENT - 1))" -- "${words[@]}" 2>/dev/null)}"; do
        [[ -z $line ]] && continue
        if [[ ${line%%:*} == *[/=] ]]; then
            open+=("$line")
        else
            found+=("$line")
        fi
    done
    (( ${#open} )) && _describe -V 'agents' open -S ''
    (( ${#found} )) && _describe -V 'agents' found
}
if [[ $funcstack[1] == _agents ]]; then
    _agents "$@"
else
    compdef _agents agents
fi
"#;

const FISH: &str = "function __agents_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)
    agents __complete fish (count $words) -- $words (commandline --current-token) 2>/dev/null
end
complete --keep-order --no-files --command agents --arguments '(__agents_complete)'
";

/// The completion script of a shell.
pub(crate) fn script(shell: CompletionShell) -> Vec<u8> {
    let fixed = match shell {
        CompletionShell::Bash => return BASH.into(),
        CompletionShell::Zsh => return ZSH.into(),
        CompletionShell::Fish => return FISH.into(),
        CompletionShell::Elvish => clap_complete::Shell::Elvish,
        CompletionShell::PowerShell => clap_complete::Shell::PowerShell,
    };
    let mut text = Vec::new();
    clap_complete::generate(fixed, &mut command_line(), "agents", &mut text);
    text
}

/// Words up to the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypedWords {
    /// The last one is the word to complete.
    pub(super) words: Vec<OsString>,
    /// Bytes at the start of the last word that the shell does not replace.
    pub(super) prefix_length: usize,
}

impl Shell {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            _ => None,
        }
    }

    /// The words up to the cursor. `index` is the number of the word at the cursor.
    pub(super) fn typed(self, words: &[OsString], index: usize) -> TypedWords {
        let mut words: Vec<OsString> = words.iter().take(index + 1).cloned().collect();
        words.resize(index + 1, OsString::new());
        if self != Self::Bash {
            return TypedWords {
                words,
                prefix_length: 0,
            };
        }
        // Bash splits words at `=` and `:`, and keeps their quotes.
        let mut joined: Vec<OsString> = Vec::new();
        let mut prefix_length = 0;
        let mut glue = false;
        for word in words {
            let is_separator = word == "=" || word == ":";
            let word = unquoted(&word);
            match joined.last_mut() {
                Some(last) if (is_separator || glue) && !last.is_empty() => {
                    prefix_length = last.len() + usize::from(is_separator);
                    last.push(&word);
                }
                _ => {
                    prefix_length = 0;
                    joined.push(word);
                }
            }
            glue = is_separator;
        }
        TypedWords {
            words: joined,
            prefix_length,
        }
    }

    /// The lines that the script reads.
    pub(super) fn render(self, candidates: &[CompletionCandidate], prefix_length: usize) -> String {
        let shown: Vec<(String, String)> = candidates
            .iter()
            .map(|candidate| {
                let value = candidate.get_value().to_string_lossy();
                let value = value.get(prefix_length..).unwrap_or(&value).to_owned();
                let help = candidate.get_help().map(ToString::to_string);
                let help = help.unwrap_or_default();
                (value, shortened(help.lines().next().unwrap_or_default()))
            })
            // A name with control characters could imitate other candidates.
            .filter(|(value, _)| !value.chars().any(char::is_control))
            .collect();
        // Bash shows no descriptions, so they are part of its candidates; a single candidate is inserted.
        let explains = shown.len() > 1
            && candidates
                .iter()
                .all(|candidate| candidate.get_id().is_none())
            && shown.iter().any(|(_, help)| !help.is_empty());
        let width = shown
            .iter()
            .map(|(value, _)| value.width())
            .max()
            .unwrap_or(0);
        let mut text = String::new();
        for (value, help) in shown {
            match self {
                Self::Bash if explains && !help.is_empty() => {
                    let gap = " ".repeat(width.saturating_sub(value.width()));
                    let _never_fails = write!(text, "{value}{gap}  ({help})");
                }
                Self::Bash => text.push_str(&quoted(&value)),
                Self::Zsh => {
                    text.push_str(&value.replace('\\', "\\\\").replace(':', "\\:"));
                    if !help.is_empty() {
                        text.push(':');
                        text.push_str(&help.replace('\\', "\\\\"));
                    }
                }
                Self::Fish => {
                    text.push_str(&value);
                    if !help.is_empty() {
                        text.push('\t');
                        text.push_str(&help);
                    }
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Cuts a description so that it fits the list of a terminal, and replaces control characters.
fn shortened(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect();
    if text.width() <= DESCRIPTION_WIDTH {
        return text;
    }
    let mut cut = String::new();
    for character in text.chars() {
        if cut.width() + 1 >= DESCRIPTION_WIDTH {
            break;
        }
        cut.push(character);
    }
    format!("{}…", cut.trim_end())
}

/// The word without the quotes and backslashes that Bash keeps.
fn unquoted(word: &OsStr) -> OsString {
    let Some(text) = word.to_str() else {
        return word.to_owned();
    };
    let mut plain = String::new();
    let mut escaped = false;
    for character in text.chars() {
        match character {
            '\\' if !escaped => escaped = true,
            '\'' | '"' if !escaped => {}
            other => {
                plain.push(other);
                escaped = false;
            }
        }
    }
    plain.into()
}

/// The value as a word of Bash.
fn quoted(value: &str) -> String {
    let is_plain =
        |character: char| character.is_alphanumeric() || "-_./=:@%+,".contains(character);
    let mut text = String::new();
    for character in value.chars() {
        if !is_plain(character) {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap_complete::engine::CompletionCandidate;

    use super::Shell;

    fn words(line: &[&str]) -> Vec<OsString> {
        line.iter().map(OsString::from).collect()
    }

    #[test]
    fn bash_splits_words_at_equals_signs() {
        let typed = Shell::Bash.typed(&words(&["agents", "do", "x", "--mode", "=", "pl"]), 5);
        assert_eq!(typed.words, words(&["agents", "do", "x", "--mode=pl"]));
        assert_eq!(typed.prefix_length, "--mode=".len());
        let typed = Shell::Bash.typed(&words(&["agents", "do", "x", "--mode", "="]), 4);
        assert_eq!(typed.words, words(&["agents", "do", "x", "--mode="]));
        let found = [CompletionCandidate::new("--mode=plan")];
        assert_eq!(Shell::Bash.render(&found, typed.prefix_length), "plan\n");
    }

    #[test]
    fn quotes_of_the_line_are_not_part_of_a_word() {
        let typed = Shell::Bash.typed(&words(&["agents", "session", "show", "\"weekly pl"]), 3);
        assert_eq!(typed.words.last(), Some(&OsString::from("weekly pl")));
        let found = [CompletionCandidate::new("weekly planning")];
        assert_eq!(Shell::Bash.render(&found, 0), "weekly\\ planning\n");
    }

    #[test]
    fn a_single_candidate_is_inserted_without_its_description() {
        let explained = |name: &str| {
            CompletionCandidate::new(name.to_owned()).help(Some("fix the test".to_owned().into()))
        };
        assert_eq!(Shell::Bash.render(&[explained("01JX3Q")], 0), "01JX3Q\n");
        let both = Shell::Bash.render(&[explained("01JX3Q"), explained("01JX4")], 0);
        assert_eq!(both, "01JX3Q  (fix the test)\n01JX4   (fix the test)\n");
        let zsh = Shell::Zsh.render(&[explained("a:b")], 0);
        assert_eq!(zsh, "a\\:b:fix the test\n");
        let fish = Shell::Fish.render(&[explained("a")], 0);
        assert_eq!(fish, "a\tfix the test\n");
    }

    #[test]
    fn names_with_control_characters_are_left_out() {
        let found = [
            CompletionCandidate::new("a\nb"),
            CompletionCandidate::new("c"),
        ];
        assert_eq!(Shell::Bash.render(&found, 0), "c\n");
    }
}
