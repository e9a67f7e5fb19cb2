//! [`PermissionRules`]: all rules together, and what they say of one call.
//!
//! What is forbidden stays forbidden: the floor first, then every `deny`. Of the rules that allow or
//! ask the more exact one counts: one with a pattern before one without, one that names its tool before
//! one that names many; `ask` before `allow` when they are equally exact.

use std::path::{Path, PathBuf};

use super::command::{possible_commands, simple_commands, spellings};
use super::floor::Floor;
use super::pattern::{TextPattern, ToolPattern};
use super::rule::{Effect, Rule, RuleError};
use crate::name::ToolName;
use crate::ports::PartPath;
use crate::tool::Subject;

/// What the rules say of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow,
    /// A person has to agree, for this reason.
    Ask(String),
    /// It may not run, for this reason.
    Deny(String),
}

impl Decision {
    const fn weight(&self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask(_) => 1,
            Self::Deny(_) => 2,
        }
    }

    /// The stricter of two.
    fn stricter(self, other: Self) -> Self {
        if other.weight() > self.weight() {
            other
        } else {
            self
        }
    }
}

/// Everything the user permits.
#[derive(Debug, Clone)]
pub struct PermissionRules {
    rules: Vec<Rule>,
    otherwise: Effect,
    floor: Floor,
}

impl Default for PermissionRules {
    /// No rules: everything that profile and guards let through is allowed, down to the floor.
    fn default() -> Self {
        Self::new(Vec::new(), Effect::Allow)
    }
}

impl PermissionRules {
    /// These rules, and what holds for calls that none of them speaks of.
    pub fn new(rules: Vec<Rule>, otherwise: Effect) -> Self {
        Self {
            rules,
            otherwise,
            floor: Floor::default(),
        }
    }

    /// Reads rules, one a line; empty lines and those that begin with `#` are skipped.
    pub fn parse(text: &str, otherwise: Effect) -> Result<Self, RuleError> {
        let rules = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self::new(rules, otherwise))
    }

    /// The same with folders that no command may name, such as the program's own home.
    #[must_use]
    pub fn protecting(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.floor.protected.extend(folders);
        self
    }

    /// The same with more rules.
    #[must_use]
    pub fn with(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// The rules as they were given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What they say of a call.
    pub fn decide(&self, tool: &ToolName, subjects: &[Subject]) -> Decision {
        if subjects.is_empty() {
            return self.general(tool);
        }
        subjects
            .iter()
            .map(|subject| self.decide_one(tool, subject))
            .fold(Decision::Allow, Decision::stricter)
    }

    fn decide_one(&self, tool: &ToolName, subject: &Subject) -> Decision {
        let floor = match subject {
            Subject::Path { path, .. } => Floor::path(&path.path),
            Subject::Command(text) => self.floor.command(text),
            Subject::Part { .. } | Subject::Text(_) => None,
        };
        if let Some(why) = floor {
            return Decision::Deny(format!("{why}; this is never allowed"));
        }
        let about: Vec<&Rule> = self
            .rules
            .iter()
            .filter(|rule| rule.tool.matches(tool))
            .collect();
        let denied = about
            .iter()
            .find(|rule| rule.effect == Effect::Deny && concerns(rule, subject));
        if let Some(rule) = denied {
            return Decision::Deny(format!("the rule `{rule}` forbids `{subject}`"));
        }
        let Subject::Command(text) = subject else {
            return self.most_exact(
                about.into_iter().filter(|rule| concerns(rule, subject)),
                subject,
            );
        };
        match simple_commands(text) {
            Some(commands) => commands
                .iter()
                .map(|words| {
                    let single = Subject::Command(words.join(" "));
                    let concerned = about.iter().copied().filter(|rule| match rule.effect {
                        Effect::Allow => allows_command(rule, words),
                        Effect::Ask | Effect::Deny => concerns(rule, &single),
                    });
                    self.most_exact(concerned, &single)
                })
                .fold(Decision::Allow, Decision::stricter),
            None if about.iter().any(|rule| rule.pattern.is_some()) => Decision::Ask(
                "the command is more than simple commands, so no rule about commands can be sure of it"
                    .to_owned(),
            ),
            None => self.general(tool),
        }
    }

    /// What holds for a tool whatever it is given.
    fn general(&self, tool: &ToolName) -> Decision {
        let about = self
            .rules
            .iter()
            .filter(|rule| rule.tool.matches(tool) && rule.pattern.is_none());
        match about.clone().find(|rule| rule.effect == Effect::Deny) {
            Some(rule) => Decision::Deny(format!("the rule `{rule}` forbids it")),
            None => self.most_exact(about, &Subject::Text(tool.to_string())),
        }
    }

    /// The decision of the most exact of rules that allow or ask.
    fn most_exact<'r>(&self, rules: impl Iterator<Item = &'r Rule>, subject: &Subject) -> Decision {
        let exactness = |rule: &Rule| {
            let asks = rule.effect == Effect::Ask;
            (rule.pattern.is_some(), rule.tool.is_exact(), asks)
        };
        let best = rules.max_by_key(|rule| exactness(rule));
        match best.map_or(self.otherwise, |rule| rule.effect) {
            Effect::Allow => Decision::Allow,
            Effect::Ask => Decision::Ask(best.map_or_else(
                || format!("no rule speaks of `{subject}`"),
                |rule| format!("the rule `{rule}` demands it"),
            )),
            Effect::Deny => Decision::Deny(format!("no rule allows `{subject}`")),
        }
    }

    /// Whether a rule allows a tool whatever it is given, by its name or that of its namespace. `allow *`
    /// speaks of no tool in particular.
    pub(crate) fn allows_by_name(&self, tool: &ToolName) -> bool {
        self.rules.iter().any(|rule| {
            rule.effect == Effect::Allow
                && rule.pattern.is_none()
                && rule.tool.names_namespace()
                && rule.tool.matches(tool)
        })
    }

    /// The rule that allows every tool of the server that a tool belongs to.
    pub(crate) fn always_for_server(tool: &ToolName) -> Option<Rule> {
        let name = tool.canonical().to_string();
        let (namespace, _) = name.rsplit_once('/')?;
        let pattern = format!("{namespace}/*").parse().ok()?;
        Some(Rule::allowing(pattern, None))
    }

    /// The rules that allow exactly a call's subjects, for "always"; none where that cannot be put
    /// into a rule.
    pub(crate) fn always(tool: &ToolName, subjects: &[Subject]) -> Vec<Rule> {
        let allow = |pattern| Rule::allowing(ToolPattern::from(tool), pattern);
        if subjects.is_empty() {
            return vec![allow(None)];
        }
        let rules = subjects.iter().map(|subject| match subject {
            Subject::Path { path, .. } => {
                let text = path.path.as_path().to_str()?;
                Some(vec![allow(Some(TextPattern::exact_path(text).ok()?))])
            }
            Subject::Part { alias, .. } => {
                Some(vec![allow(Some(TextPattern::exact_path(alias).ok()?))])
            }
            Subject::Command(text) => simple_commands(text)?
                .iter()
                .map(|words| {
                    Some(allow(Some(
                        TextPattern::exact_command(&words.join(" ")).ok()?,
                    )))
                })
                .collect(),
            Subject::Text(text) => Some(vec![allow(Some(TextPattern::exact_command(text).ok()?))]),
        });
        let all: Option<Vec<Vec<Rule>>> = rules.collect();
        all.unwrap_or_default().into_iter().flatten().collect()
    }
}

/// Whether a rule speaks of a subject. Of a command it does when it may be anywhere in it.
fn concerns(rule: &Rule, subject: &Subject) -> bool {
    let Some(pattern) = &rule.pattern else {
        return true;
    };
    match subject {
        Subject::Path { path, .. } => fits_path(pattern, path),
        Subject::Part { alias, .. } => [alias.as_str(), "."]
            .into_iter()
            .any(|name| pattern.fits_path(Path::new(name))),
        Subject::Command(text) => possible_commands(text)
            .iter()
            .flat_map(|words| spellings(words))
            .any(|spelling| pattern.fits_command(&spelling)),
        Subject::Text(text) => pattern.fits_command(text),
    }
}

/// Whether a rule that allows speaks of exactly this simple command.
fn allows_command(rule: &Rule, words: &[String]) -> bool {
    rule.pattern
        .as_ref()
        .is_none_or(|pattern| pattern.fits_command(&words.join(" ")))
}

fn fits_path(pattern: &TextPattern, path: &PartPath) -> bool {
    pattern.fits_path(path.path.as_path())
        || pattern.fits_path(&Path::new(&path.alias).join(path.path.as_path()))
}

#[cfg(test)]
#[path = "rules/tests.rs"]
mod tests;
