//! Conservative parsing of shell commands: a text is parsed only if it is a list of simple commands whose
//! words are all certain.
//!
//! [`simple_commands`] is for rules that allow: a pattern must not allow a command that cannot be
//! parsed. [`possible_commands`] is for rules that deny: it finds every command that may be hidden in
//! the text, with false positives rather than false negatives.

use std::iter::Peekable;
use std::str::Chars;

/// Programs whose arguments are or contain another command.
const WRAPPERS: &[&str] = &[
    "ash", "bash", "builtin", "busybox", "chroot", "command", "dash", "doas", "env", "eval",
    "exec", "find", "fish", "flock", "ionice", "ksh", "ltrace", "nice", "nohup", "nsenter",
    "parallel", "runuser", "script", "setsid", "sh", "ssh", "stdbuf", "strace", "su", "sudo",
    "time", "timeout", "toybox", "trap", "unshare", "watch", "xargs", "zsh",
];

/// Words that start something other than a simple command.
const RESERVED: &[&str] = &[
    "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "select", "then", "time", "until", "while",
];

/// Maximum nesting depth of commands in arguments of other commands.
const MAX_DEPTH: usize = 4;

/// The simple commands of a text, each as a list of words. `None` when anything in it is uncertain:
/// variables, substitutions, redirections, groups, control structures, unusual quoting.
pub(crate) fn simple_commands(text: &str) -> Option<Vec<Vec<String>>> {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        commands: Vec::new(),
        words: Vec::new(),
        word: None,
        is_plain: true,
    };
    reader.read()?;
    Some(reader.commands)
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// Whether no part of the word was quoted, so that the shell may interpret it.
    is_plain: bool,
}

impl Reader<'_> {
    fn read(&mut self) -> Option<()> {
        while let Some(letter) = self.rest.next() {
            match letter {
                ' ' | '\t' => self.end_word()?,
                '\n' | ';' => self.end_command()?,
                '|' => {
                    let _either = self.rest.next_if(|next| matches!(next, '|' | '&'));
                    self.end_command()?;
                }
                '&' => {
                    if self.rest.peek() == Some(&'>') {
                        return None;
                    }
                    let _second = self.rest.next_if_eq(&'&');
                    self.end_command()?;
                }
                '>' => self.harmless_redirection()?,
                '\\' => {
                    let next = self.rest.next().filter(|next| *next != '\n')?;
                    self.quoted(next);
                }
                '\'' => loop {
                    self.is_plain = false;
                    self.word.get_or_insert_default();
                    match self.rest.next()? {
                        '\'' => break,
                        inside => self.quoted(inside),
                    }
                },
                '"' => self.double_quoted()?,
                '$' | '`' | '<' | '(' | ')' | '{' | '}' => return None,
                '#' | '!' if self.word.is_none() => return None,
                other if other.is_control() => return None,
                other => self.word.get_or_insert_default().push(other),
            }
        }
        // A line break or `;` at the end is allowed.
        self.end_word()?;
        if !self.words.is_empty() {
            self.end_command()?;
        }
        (!self.commands.is_empty()).then_some(())
    }

    fn quoted(&mut self, letter: char) {
        self.is_plain = false;
        self.word.get_or_insert_default().push(letter);
    }

    fn double_quoted(&mut self) -> Option<()> {
        self.is_plain = false;
        self.word.get_or_insert_default();
        loop {
            match self.rest.next()? {
                '"' => return Some(()),
                '$' | '`' => return None,
                '\\' => {
                    let next = self.rest.next().filter(|next| *next != '\n')?;
                    if !matches!(next, '"' | '\\' | '$' | '`') {
                        self.quoted('\\');
                    }
                    self.quoted(next);
                }
                inside => self.quoted(inside),
            }
        }
    }

    /// Accepts only `2>&1` and `>/dev/null`: other redirections change the effect of a command.
    fn harmless_redirection(&mut self) -> Option<()> {
        match self.word.take() {
            None => {}
            Some(descriptor) if self.is_plain && matches!(descriptor.as_str(), "1" | "2") => {}
            Some(_) => return None,
        }
        let _spaces = std::iter::from_fn(|| self.rest.next_if(|next| *next == ' ')).count();
        let target: String = std::iter::from_fn(|| {
            self.rest
                .next_if(|next| !next.is_whitespace() && !matches!(next, ';' | '|'))
        })
        .collect();
        matches!(target.as_str(), "&1" | "&2" | "/dev/null").then_some(())
    }

    fn end_word(&mut self) -> Option<()> {
        let Some(word) = self.word.take() else {
            return Some(());
        };
        let is_plain = std::mem::replace(&mut self.is_plain, true);
        if self.words.is_empty() {
            let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
                name.chars()
                    .all(|letter| letter.is_alphanumeric() || "_+[]".contains(letter))
            });
            if word.is_empty() || is_assignment || (is_plain && RESERVED.contains(&word.as_str())) {
                return None;
            }
        }
        self.words.push(word);
        Some(())
    }

    fn end_command(&mut self) -> Option<()> {
        self.end_word()?;
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            // `;` directly before the end is fine, `;;` and `&& &&` are not.
            return (self.rest.peek().is_none() && !self.commands.is_empty()).then_some(());
        }
        self.commands.push(words);
        Some(())
    }
}

/// Every command that a text may run, as lists of words: the simple commands, commands in arguments of
/// others, and, if the text cannot be parsed, every suffix of its words.
pub(crate) fn possible_commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    collect(text, 0, &mut commands);
    commands
}

fn collect(text: &str, depth: usize, found: &mut Vec<Vec<String>>) {
    if depth > MAX_DEPTH {
        return;
    }
    let Some(commands) = simple_commands(text) else {
        for piece in pieces(text) {
            suffixes(&piece, found);
        }
        return;
    };
    for words in commands {
        let has_inner_command = words.first().is_some_and(|program| is_wrapper(program));
        found.push(words.clone());
        if !has_inner_command {
            continue;
        }
        suffixes(&words[1..], found);
        for word in &words[1..] {
            if word.contains(|letter: char| letter.is_whitespace() || ";|&$`".contains(letter)) {
                collect(word, depth + 1, found);
            }
        }
    }
}

fn is_wrapper(program: &str) -> bool {
    WRAPPERS.contains(&base_name(program))
}

/// The file name of a program's path.
pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn suffixes(words: &[String], found: &mut Vec<Vec<String>>) {
    found.extend((0..words.len()).map(|start| words[start..].to_vec()));
}

/// Splits a text at everything that may separate commands, into words without quotes.
fn pieces(text: &str) -> Vec<Vec<String>> {
    let text = without_braces(&text.replace("\\\n", ""))
        .replace("$IFS", " ")
        .replace("$'", "'")
        .replace("$\"", "\"");
    text.split([';', '|', '&', '\n', '\r', '(', ')', '{', '}', '`', '<', '>'])
        .map(|piece| {
            piece
                .split([' ', '\t', ','])
                .map(|word| word.replace(['\'', '"', '\\'], ""))
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
        })
        .filter(|words| !words.is_empty())
        .collect()
}

/// Replaces `${NAME}` by `$NAME`.
fn without_braces(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::with_capacity(text.len());
    while let Some(start) = rest.find("${") {
        let inside = &rest[start + 2..];
        let length = inside
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .unwrap_or(inside.len());
        plain.push_str(&rest[..start]);
        if inside[length..].starts_with('}') {
            plain.push('$');
            plain.push_str(&inside[..length]);
            rest = &inside[length + 1..];
        } else {
            plain.push_str("${");
            rest = inside;
        }
    }
    plain.push_str(rest);
    plain
}

/// The spellings of a command that patterns may match: with and without the path of the program.
pub(crate) fn spellings(words: &[String]) -> Vec<String> {
    let joined = words.join(" ");
    let Some(program) = words.first() else {
        return vec![joined];
    };
    let base = base_name(program);
    if base == program {
        return vec![joined];
    }
    let rest = &words[1..];
    let short: Vec<&str> = std::iter::once(base)
        .chain(rest.iter().map(String::as_str))
        .collect();
    vec![joined, short.join(" ")]
}

#[cfg(test)]
mod tests {
    use super::{possible_commands, simple_commands};
    use proptest::prelude::*;

    fn simple(text: &str) -> Option<Vec<String>> {
        let commands = simple_commands(text)?;
        Some(commands.into_iter().map(|words| words.join(" ")).collect())
    }

    #[test]
    fn simple_commands_are_parsed() {
        for (text, expected) in [
            ("cargo test", vec!["cargo test"]),
            ("  cargo   test\n", vec!["cargo test"]),
            ("a; b && c || d | e", vec!["a", "b", "c", "d", "e"]),
            ("a\nb &", vec!["a", "b"]),
            ("echo 'a;b' \"c|d\" e\\;f", vec!["echo a;b c|d e;f"]),
            ("'r'm -rf x", vec!["rm -rf x"]),
            ("\\rm x", vec!["rm x"]),
            ("make 2>&1 | tail -5", vec!["make", "tail -5"]),
            ("make >/dev/null 2> /dev/null", vec!["make"]),
            (
                "grep -r foo --exclude-dir=.git",
                vec!["grep -r foo --exclude-dir=.git"],
            ),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(simple(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn uncertain_commands_are_not_parsed() {
        for text in [
            "",
            " ",
            ";",
            "a;;b",
            "a && && b",
            "&& a",
            "echo $(rm x)",
            "echo `rm x`",
            "echo $X",
            "echo \"$X\"",
            "echo \"`rm`\"",
            "a > file",
            "a >> file",
            "a < file",
            "a << E",
            "a <(b)",
            "(a)",
            "{ a; }",
            "{rm,-rf,/}",
            "if a; then b; fi",
            "for x in y; do z; done",
            "X=1 a",
            "X= a",
            "a 'b",
            "a \"b",
            "a \\",
            "a \\\n b",
            "# a",
            "! a",
            "a &> b",
            "$'rm' x",
            "a\rb",
            "a\0b",
            "[[ a ]] && b",
            "function f",
            "a 3>&1",
            "a >&3",
            "\"\" a",
            "X+=1 a",
            "a 2>/dev/null2",
            "a >/dev/null&b",
            "echo ${IFS}",
        ] {
            assert_eq!(simple(text), None, "{text:?}");
        }
    }

    #[test]
    fn hidden_commands_are_found() {
        for text in [
            "rm -rf x",
            "a; rm -rf x",
            "a&&rm -rf x",
            "a|rm -rf x",
            "a\nrm -rf x",
            "$(rm -rf x)",
            "`rm -rf x`",
            "echo \"$(rm -rf x)\"",
            "sh -c 'rm -rf x'",
            "bash -c \"a; rm -rf x\"",
            "env A=1 rm -rf x",
            "sudo -u root rm -rf x",
            "A=1 rm -rf x",
            "xargs rm -rf x",
            "find . -exec rm -rf x ;",
            "(rm -rf x)",
            "{ rm -rf x; }",
            "r'm' -rf x",
            "\\rm -rf x",
            "r\\\nm -rf x",
            "if true; then rm -rf x; fi",
            "a & rm -rf x",
            "rm${IFS}-rf x",
            "eval 'rm -rf x'",
            "trap 'rm -rf x' EXIT",
            "sh -c \"sh -c 'rm -rf x'\"",
            "{rm,-rf,x}",
            "nohup rm -rf x &",
            "time rm -rf x",
            "a <(rm -rf x)",
            "$'rm' -rf x",
            "! rm -rf x",
            "f() { rm -rf x; }; f",
        ] {
            assert!(
                possible_commands(text)
                    .iter()
                    .any(|words| words.starts_with(&["rm".into(), "-rf".into(), "x".into()])),
                "{text:?}: {:?}",
                possible_commands(text)
            );
        }
    }

    #[test]
    fn plain_arguments_are_not_commands() {
        for text in [
            "git rm x",
            "echo rm x",
            "cargo run -- rm x",
            "grep 'rm x' file",
        ] {
            let commands = possible_commands(text);
            assert!(
                commands.iter().all(|words| words[0] != "rm"),
                "{text}: {commands:?}"
            );
        }
    }

    /// The commands that bash runs for a text, each as a list of words. None of them exists, so bash passes each to a
    /// function that records it.
    fn run_by_bash(text: &str) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("record");
        // One write for each command, because the commands of a pipe run at the same time.
        let script = r#"command_not_found_handle() {
                local words; printf -v words '%s\x1f' "$@"; printf '%s\x1e' "$words" >&9
            }
            exec 9>>"$2"; eval "$1"; wait"#;
        let status = std::process::Command::new("/bin/bash")
            .args(["--norc", "--noprofile", "-c", script, "bash", text])
            .arg(&record)
            .env_clear()
            .env("PATH", "/nonexistent")
            .current_dir(folder.path())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        status.expect("bash runs");
        let record = std::fs::read_to_string(record).unwrap_or_default();
        let commands = record.split_terminator('\x1e');
        let words = |command: &str| {
            let words = command.split_terminator('\x1f');
            words.map(str::to_owned).collect()
        };
        commands.map(words).collect()
    }

    #[test]
    fn bash_runs_the_parsed_commands() {
        for text in [
            "aa bb",
            "  aa   bb\n",
            "aa; bb && cc | dd",
            "aa\nbb &",
            "aa 'a;b' \"c|d\" e\\;f ''",
            "'a'a -rf x",
            "\\aa x",
            "aa 2>&1 | bb -5",
            "aa >/dev/null 2> /dev/null",
            "aa \"\\a\\\\\" b\\ c",
            "aa b#c d!e =f g=h",
        ] {
            let mut parsed = simple_commands(text).expect("parsed");
            let mut run = run_by_bash(text);
            // The commands of a pipe run at the same time, so their order varies.
            parsed.sort();
            run.sort();
            assert_eq!(run, parsed, "{text:?}");
        }
    }

    proptest! {
        /// The parser that is used for rules that allow must return exactly the words that bash runs.
        #[test]
        fn bash_runs_only_the_parsed_commands(tokens in prop::collection::vec(
            prop::sample::select(vec![
                "a", "ab", "b", " ", " ", "\t", "\n", ";", "&", "&&", "|", "||", "|&", "'", "\"",
                "\\", "\\\n", "$", "`", "(", ")", "{", "}", "<", ">", "2>&1", ">/dev/null", "2>",
                ">&", "&>", "#", "!", "=", "1", ",", "é", "if", "then", "fi", "time", "coproc", "$IFS",
            ]),
            1..14,
        )) {
            let text: String = tokens.concat();
            if let Some(mut parsed) = simple_commands(&text) {
                for command in run_by_bash(&text) {
                    let place = parsed.iter().position(|known| *known == command);
                    prop_assert!(place.is_some(), "{text:?} runs {command:?}, not {parsed:?}");
                    place.map(|place| parsed.remove(place));
                }
            }
        }

        #[test]
        fn parsing_never_panics(text in "[a-z;&|$(){}'\"\\\\<>` \n#!=]{0,30}") {
            let _simple = simple_commands(&text);
            let _possible = possible_commands(&text);
        }

        #[test]
        fn quoted_words_are_parsed_verbatim(word in "[^'\0-\x1f]{1,12}", other in "[a-z]{7,9}") {
            let commands = simple_commands(&format!("{other} '{word}'"));
            prop_assert_eq!(commands, Some(vec![vec![other, word]]));
        }
    }
}
