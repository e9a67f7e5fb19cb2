//! [`DenyList`]: paths and commands that no permission rule can allow.
//!
//! The deny list is a second line of defence. Confinement keeps all commands inside the sandbox; the deny list refuses
//! clearly destructive commands before they start, and protects the sandbox's internal files.

use std::path::{Path, PathBuf};

use cleveragents_domain::TreePath;

use super::command::{base_name, possible_commands};

/// Programs that destroy a system.
const DESTROYERS: &[&str] = &[
    "mkfs", "shutdown", "reboot", "halt", "poweroff", "wipefs", "fdisk", "parted",
];

/// Programs that can change or remove whole directory trees.
const RECURSIVE: &[&str] = &["rm", "chmod", "chown", "chgrp", "shred"];

/// Paths and commands that no rule can allow.
#[derive(Debug, Clone, Default)]
pub(super) struct DenyList {
    /// Directories that no command may name, such as `CLEVERAGENTS_HOME`.
    pub(super) protected: Vec<PathBuf>,
}

impl DenyList {
    /// Reason why a path may not be accessed; `None` when it may.
    pub(super) fn path(path: &TreePath) -> Option<String> {
        path.names()
            .any(is_git)
            .then(|| format!("`{path}` is inside a `.git` directory; use the git tools instead"))
    }

    /// Reason why a command may not run; `None` when it may.
    pub(super) fn command(&self, text: &str) -> Option<String> {
        if text
            .split_whitespace()
            .collect::<String>()
            .contains(":(){:|:&};:")
        {
            return Some("it is a fork bomb".to_owned());
        }
        let commands = possible_commands(text);
        commands
            .iter()
            .find_map(|words| destroys(words))
            .or_else(|| commands.iter().flatten().find_map(|word| self.word(word)))
    }

    /// Reason why commands may not contain a word; `None` when they may.
    fn word(&self, word: &str) -> Option<String> {
        let names: Vec<&str> = word.split(['/', '=', ':']).collect();
        let is_inside = |folder: &str| {
            names.windows(2).any(|pair| {
                pair[0].eq_ignore_ascii_case(folder) && !matches!(pair[1], "" | "*" | "**")
            })
        };
        if is_inside(".git") {
            return Some(format!("`{word}` is inside a `.git` directory"));
        }
        if names.iter().any(|name| matches!(*name, ".ssh" | ".gnupg")) {
            return Some(format!("`{word}` contains the user's keys"));
        }
        let protected = self.protected.iter().find(|folder| {
            folder
                .to_str()
                .is_some_and(|folder| names_folder(word, folder))
        });
        protected.map(|_| "it names the program's home folder".to_owned())
    }
}

fn is_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Returns whether a word names a directory or a path inside it. A shared prefix is not enough: `/a` does not match
/// `/ab`.
fn names_folder(word: &str, folder: &str) -> bool {
    word.match_indices(folder).any(|(at, _)| {
        word[at + folder.len()..]
            .chars()
            .next()
            .is_none_or(|next| !(next.is_alphanumeric() || "-_.".contains(next)))
    })
}

/// Reason why a simple command may not run; `None` when it may.
fn destroys(words: &[String]) -> Option<String> {
    let program = base_name(words.first()?);
    let arguments = &words[1..];
    let kind = program.split('.').next().unwrap_or(program);
    if DESTROYERS.contains(&kind) {
        return Some(format!("`{program}` can destroy the system"));
    }
    if program == "dd" && arguments.iter().any(|word| word.starts_with("of=/dev/")) {
        return Some("it writes to a device".to_owned());
    }
    let has_flag = |short: char, long: &str| {
        arguments.iter().any(|word| {
            word == long
                || (word.starts_with('-') && !word.starts_with("--") && word.contains(short))
        })
    };
    if program == "rm"
        && arguments
            .iter()
            .any(|word| Path::new(word).iter().any(|name| name == ".git"))
    {
        return Some("it removes a `.git` directory".to_owned());
    }
    let is_recursive = has_flag('r', "--recursive") || has_flag('R', "--recursive");
    let is_sweeping = (RECURSIVE.contains(&program) && is_recursive)
        || (program == "find" && arguments.iter().any(|word| word == "-delete"))
        || arguments.iter().any(|word| word == "--no-preserve-root");
    let everything = arguments.iter().find(|word| is_everything(word));
    match everything {
        Some(word) if is_sweeping => Some(format!("it changes everything below `{word}`")),
        _ => None,
    }
}

/// Returns whether a word means the whole system, a home directory, or a top-level directory of the system.
fn is_everything(word: &str) -> bool {
    let home = ["~", "$HOME"];
    let bare = word.trim_end_matches('*').trim_end_matches('/');
    if home.contains(&bare)
        || bare
            .strip_prefix('~')
            .is_some_and(|user| !user.contains('/') && word.starts_with('~'))
    {
        return true;
    }
    // After normalization, an absolute path of at most one component: `/`, `/*`, `/etc`, `/home/*`, `//usr/../etc`.
    if !word.starts_with('/') {
        return false;
    }
    let mut depth = Vec::new();
    for name in bare.split('/').filter(|name| !matches!(*name, "" | ".")) {
        if name == ".." {
            depth.pop();
        } else {
            depth.push(name);
        }
    }
    depth.len() <= 1 && !matches!(depth.first(), Some(&"tmp"))
}

#[cfg(test)]
mod tests {
    use super::DenyList;

    fn deny_list() -> DenyList {
        DenyList {
            protected: vec!["/home/ada/.cleveragents".into()],
        }
    }

    #[test]
    fn destructive_commands_are_refused_in_every_spelling() {
        for text in [
            "rm -rf /",
            "rm -rf /*",
            "rm -r -f ~",
            "rm -fr $HOME",
            "rm -rf \"$HOME\"/*",
            "rm -rf ${HOME}",
            "sudo rm -rf /etc",
            "/bin/rm -rf /",
            "\\rm -rf /",
            "a; rm -rf /",
            "echo $(rm -rf /)",
            "sh -c 'rm -rf /'",
            "rm --recursive --force /",
            "rm -rf --no-preserve-root /",
            "rm -rf //",
            "rm -rf /usr/../",
            "chmod -R 777 /",
            "find / -delete",
            "mkfs.ext4 /dev/sda",
            "dd if=a of=/dev/sda",
            ":(){ :|:& };:",
            ": () { : | : & } ; :",
            "true && reboot",
            "rm -rf ~root",
            "rm -rf .git",
            "cat ~/.ssh/id_rsa",
            "cat $HOME/.ssh/id_rsa",
            "cp x /home/ada/.ssh",
            "echo x > .git/hooks/pre-commit",
            "cat .git/config",
            "cat /home/ada/.cleveragents/config.toml",
            "ls /home/ada/.cleveragents",
            "sqlite3 '/home/ada/.cleveragents'/cleveragents.db",
            "rm${IFS}-rf${IFS}/",
        ] {
            assert!(deny_list().command(text).is_some(), "{text}");
        }
    }

    #[test]
    fn ordinary_commands_are_not_refused() {
        for text in [
            "rm -rf target",
            "rm -rf /tmp/x/y",
            "rm -rf ./a/b",
            "cargo test",
            "git rm x",
            "git status",
            "grep -r foo --exclude-dir=.git .",
            "find . -not -path './.git/*' -name '*.rs'",
            "cat .gitignore",
            "ls .github/workflows",
            "find . -name x -delete",
            "echo rm -rf /tmp/a",
            "ls /home/ada/.cleveragents-old",
            "chmod -R u+w target",
            "rm file",
            "echo 'a/b'",
        ] {
            assert_eq!(deny_list().command(text), None, "{text}");
        }
    }

    #[test]
    fn git_directories_are_refused_for_file_tools() {
        for (path, is_refused) in [
            (".git", true),
            (".git/config", true),
            ("sub/.git/hooks/x", true),
            (".GIT/config", true),
            (".gitignore", false),
            (".github/x", false),
            ("a.git/x", false),
        ] {
            assert_eq!(
                DenyList::path(&path.parse().expect("a path")).is_some(),
                is_refused,
                "{path}"
            );
        }
    }
}
