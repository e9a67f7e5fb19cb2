//! Invariants that a program can check by itself: those that forbid changes of paths, and those that name a
//! command that must succeed.

use cleveragents_tools::fits;

/// An invariant that forbids changing paths: ``never change `db/**` ``.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathRule {
    patterns: Vec<String>,
}

const FORBIDDING: [&str; 6] = [
    "never",
    "do not",
    "don't",
    "must not",
    "no plan may",
    "nobody may",
];
const CHANGING: [&str; 8] = [
    "change", "touch", "modify", "edit", "delete", "remove", "write", "rename",
];

impl PathRule {
    /// The rule that a sentence is, when it is one.
    pub(super) fn of(text: &str) -> Option<Self> {
        let lower = text.to_lowercase();
        let words = lower.split('`').next().unwrap_or_default();
        let forbids = FORBIDDING.iter().any(|word| words.contains(word));
        let changes = CHANGING.iter().any(|word| words.contains(word));
        let patterns: Vec<String> = text
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        let is_closed = text.matches('`').count().is_multiple_of(2);
        (forbids && changes && is_closed && !patterns.is_empty()).then_some(Self { patterns })
    }

    /// Whether it forbids changing a path.
    pub(super) fn forbids(&self, path: &str) -> bool {
        self.patterns.iter().any(|pattern| {
            let folder = format!("{}/", pattern.trim_end_matches('/'));
            path == pattern || path.starts_with(&folder) || fits(pattern, path)
        })
    }
}

/// The command of an invariant that names one: ``check `make lint` ``.
pub(super) fn command(text: &str) -> Option<String> {
    let rest = text.trim().to_lowercase();
    if !rest.starts_with("check `") {
        return None;
    }
    let mut pieces = text.split('`').skip(1);
    let command = pieces.next()?.trim().to_owned();
    (!command.is_empty()).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::{PathRule, command};

    #[test]
    fn a_rule_forbids_its_paths_and_no_others() {
        let rule = PathRule::of("Never change `db/**` or `Cargo.lock`").expect("a rule");
        for path in ["db/a.sql", "db/x/y", "Cargo.lock"] {
            assert!(rule.forbids(path), "{path}");
        }
        for path in ["dbx", "src/db.rs", "Cargo.toml"] {
            assert!(!rule.forbids(path), "{path}");
        }
        assert!(
            PathRule::of("do not touch `migrations/`")
                .expect("a rule")
                .forbids("migrations/1.sql")
        );
        for words in ["keep `db` fast", "never change your mind", "never touch `a"] {
            assert_eq!(PathRule::of(words), None, "{words}");
        }
    }

    #[test]
    fn a_command_is_named_between_backticks() {
        assert_eq!(
            command("Check `make lint` always"),
            Some("make lint".to_owned())
        );
        assert_eq!(command("the lint is clean"), None);
    }
}
