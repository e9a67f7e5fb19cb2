//! Invariants that the program checks without a model: invariants that forbid changes of paths, and invariants that
//! name a command that must succeed.

use cleveragents_domain::ReconciledInvariants;
use cleveragents_tools::matches_pattern;

/// An invariant that forbids changing paths: ``never change `db/**` ``.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::plan) struct PathRule {
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
    /// Parses an invariant; `None` if it does not forbid changes of paths.
    pub(in crate::plan) fn parse(text: &str) -> Option<Self> {
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

    /// True if the rule forbids changing a path.
    pub(in crate::plan) fn forbids(&self, path: &str) -> bool {
        self.patterns.iter().any(|pattern| {
            let folder = format!("{}/", pattern.trim_end_matches('/'));
            path == pattern || path.starts_with(&folder) || matches_pattern(pattern, path)
        })
    }
}

/// Describes the first changed path that violates an invariant; `None` without a violation.
pub(in crate::plan) fn path_violation(
    reconciled: &ReconciledInvariants,
    changed: &[String],
) -> Option<String> {
    for invariant in &reconciled.effective {
        let Some(rule) = PathRule::parse(&invariant.text) else {
            continue;
        };
        // Changed paths start with the alias of their project; the paths of a rule may omit the alias.
        let forbidden = changed.iter().find(|path| {
            rule.forbids(path)
                || path
                    .split_once('/')
                    .is_some_and(|(_, inside)| rule.forbids(inside))
        });
        if let Some(path) = forbidden {
            return Some(format!(
                "`{path}` was changed, and the invariant \"{}\" forbids it",
                invariant.text
            ));
        }
    }
    None
}

/// The command of an invariant such as ``check `make lint` ``; `None` for other invariants.
pub(super) fn command(text: &str) -> Option<String> {
    let lower = text.trim().to_lowercase();
    if !lower.starts_with("check `") {
        return None;
    }
    let mut parts = text.split('`').skip(1);
    let command = parts.next()?.trim().to_owned();
    (!command.is_empty()).then_some(command)
}

#[cfg(test)]
mod tests {
    use super::{PathRule, command};

    #[test]
    fn a_rule_forbids_only_its_paths() {
        let rule = PathRule::parse("Never change `db/**` or `Cargo.lock`").expect("a rule");
        for path in ["db/a.sql", "db/x/y", "Cargo.lock"] {
            assert!(rule.forbids(path), "{path}");
        }
        for path in ["dbx", "src/db.rs", "Cargo.toml"] {
            assert!(!rule.forbids(path), "{path}");
        }
        assert!(
            PathRule::parse("do not touch `migrations/`")
                .expect("a rule")
                .forbids("migrations/1.sql")
        );
        for words in ["keep `db` fast", "never change your mind", "never touch `a"] {
            assert_eq!(PathRule::parse(words), None, "{words}");
        }
    }

    #[test]
    fn a_command_is_parsed_between_backticks() {
        assert_eq!(
            command("Check `make lint` always"),
            Some("make lint".to_owned())
        );
        assert_eq!(command("the lint is clean"), None);
    }
}
