//! [`PermissionRules`]: all rules, and their decision about one call.
//!
//! The deny list is checked first, then every `deny`; neither can be overridden. Among `allow` and `ask`,
//! the most specific rule decides. A rule with a pattern is more specific than a rule without a pattern;
//! then a rule that names one tool is more specific than a rule that matches several. `ask` wins over
//! `allow` at equal specificity.
//!
//! The rules of a project are evaluated separately, and the stricter of both decisions counts. A project can therefore
//! never allow anything that the user's rules do not allow.

use std::path::{Path, PathBuf};

use super::command::{possible_commands, simple_commands, spellings};
use super::deny_list::DenyList;
use super::pattern::{TextPattern, ToolPattern};
use super::rule::{Effect, Rule, RuleError};
use crate::name::ToolName;
use crate::ports::PartPath;
use crate::tool::Subject;

/// The decision of the rules about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Allow,
    /// The call needs approval, for this reason.
    Ask(String),
    /// The call is refused, for this reason.
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

    /// The stricter of two decisions.
    fn stricter(self, other: Self) -> Self {
        if other.weight() > self.weight() {
            other
        } else {
            self
        }
    }
}

#[derive(Debug, Clone)]
pub struct PermissionRules {
    rules: Vec<Rule>,
    default_effect: Effect,
    deny_list: DenyList,
    project: Vec<Rule>,
}

impl Default for PermissionRules {
    /// Without rules, everything that the profile, the guards and the deny list allow is allowed.
    fn default() -> Self {
        Self::new(Vec::new(), Effect::Allow)
    }
}

impl PermissionRules {
    /// Creates rules, with the effect for calls that no rule matches.
    pub fn new(rules: Vec<Rule>, default_effect: Effect) -> Self {
        Self {
            rules,
            default_effect,
            deny_list: DenyList::default(),
            project: Vec::new(),
        }
    }

    /// Parses one rule per line; empty lines and lines that start with `#` are skipped.
    pub fn parse(text: &str, default_effect: Effect) -> Result<Self, RuleError> {
        let rules = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self::new(rules, default_effect))
    }

    /// Adds directories that no command may name, such as `CLEVERAGENTS_HOME`.
    #[must_use]
    pub fn protecting(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.deny_list.protected.extend(folders);
        self
    }

    /// Adds rules.
    #[must_use]
    pub fn with(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Adds the rules of a project. They never make a decision less strict.
    #[must_use]
    pub fn tightened_by(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.project.extend(rules);
        self
    }

    /// The rules in the order in which they were added, then those of projects.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(&self.project)
    }

    /// The stricter of the decisions of the user's and of the projects' rules.
    fn strictest(&self, decide: impl Fn(&Self) -> Decision) -> Decision {
        let own = decide(self);
        if self.project.is_empty() {
            return own;
        }
        own.stricter(decide(&Self::new(self.project.clone(), Effect::Allow)))
    }

    /// Decides about a call.
    pub fn decide(&self, tool: &ToolName, subjects: &[Subject]) -> Decision {
        self.strictest(|rules| rules.decide_own(tool, subjects))
    }

    /// Decides about a call without the rules of projects.
    fn decide_own(&self, tool: &ToolName, subjects: &[Subject]) -> Decision {
        if subjects.is_empty() {
            return self.general(tool);
        }
        subjects
            .iter()
            .map(|subject| self.decide_one(tool, subject))
            .fold(Decision::Allow, Decision::stricter)
    }

    /// Decides about a call of `tool` that replaces calls of other tools. `subjects` contains each replaced tool with
    /// its subject. Rules for the replaced tools apply. A rule that names `tool` itself takes precedence, unless a rule
    /// for a replaced tool denies the subject.
    pub(crate) fn decide_acting(
        &self,
        tool: &ToolName,
        subjects: &[(ToolName, Subject)],
    ) -> Decision {
        self.strictest(|rules| rules.decide_acting_own(tool, subjects))
    }

    /// As [`Self::decide_acting`], without the rules of projects.
    fn decide_acting_own(&self, tool: &ToolName, subjects: &[(ToolName, Subject)]) -> Decision {
        let own_rules: Vec<Rule> = self
            .rules
            .iter()
            .filter(|rule| rule.tool.is_exact() && rule.tool.matches(tool))
            .cloned()
            .collect();
        let decide = |(acting, subject): &(ToolName, Subject)| {
            let others = self.decide_one(acting, subject);
            if matches!(others, Decision::Deny(_))
                || !own_rules.iter().any(|rule| rule_matches(rule, subject))
            {
                return others;
            }
            let own_rules = Self::new(own_rules.clone(), self.default_effect);
            own_rules.decide_one(tool, subject)
        };
        subjects
            .iter()
            .map(decide)
            .fold(Decision::Allow, Decision::stricter)
    }

    fn decide_one(&self, tool: &ToolName, subject: &Subject) -> Decision {
        let unconditional = match subject {
            Subject::Path { path, .. } => DenyList::path(&path.path),
            Subject::Command(text) => self.deny_list.command(text),
            Subject::Part { .. } | Subject::Text(_) => None,
        };
        if let Some(why) = unconditional {
            return Decision::Deny(format!("{why}; no rule can allow this"));
        }
        let applicable: Vec<&Rule> = self
            .rules
            .iter()
            .filter(|rule| rule.tool.matches(tool))
            .collect();
        let denied = applicable
            .iter()
            .find(|rule| rule.effect == Effect::Deny && rule_matches(rule, subject));
        if let Some(rule) = denied {
            return Decision::Deny(format!("the rule `{rule}` denies `{subject}`"));
        }
        let Subject::Command(text) = subject else {
            return self.most_specific(
                applicable
                    .into_iter()
                    .filter(|rule| rule_matches(rule, subject)),
                subject,
            );
        };
        match simple_commands(text) {
            Some(commands) => commands
                .iter()
                .map(|words| {
                    let single = Subject::Command(words.join(" "));
                    let matching = applicable.iter().copied().filter(|rule| match rule.effect {
                        Effect::Allow => allows_command(rule, words),
                        Effect::Ask | Effect::Deny => rule_matches(rule, &single),
                    });
                    self.most_specific(matching, &single)
                })
                .fold(Decision::Allow, Decision::stricter),
            None if applicable.iter().any(|rule| rule.pattern.is_some()) => Decision::Ask(
                "the command uses shell syntax that permission rules cannot match".to_owned(),
            ),
            None => self.general(tool),
        }
    }

    /// The decision for a tool with any arguments.
    fn general(&self, tool: &ToolName) -> Decision {
        let applicable = self
            .rules
            .iter()
            .filter(|rule| rule.tool.matches(tool) && rule.pattern.is_none());
        match applicable.clone().find(|rule| rule.effect == Effect::Deny) {
            Some(rule) => Decision::Deny(format!("the rule `{rule}` denies it")),
            None => self.most_specific(applicable, &Subject::Text(tool.to_string())),
        }
    }

    /// The decision of the most specific `allow` or `ask` rule.
    fn most_specific<'r>(
        &self,
        rules: impl Iterator<Item = &'r Rule>,
        subject: &Subject,
    ) -> Decision {
        let exactness = |rule: &Rule| {
            let asks = rule.effect == Effect::Ask;
            (rule.pattern.is_some(), rule.tool.is_exact(), asks)
        };
        let best = rules.max_by_key(|rule| exactness(rule));
        match best.map_or(self.default_effect, |rule| rule.effect) {
            Effect::Allow => Decision::Allow,
            Effect::Ask => Decision::Ask(best.map_or_else(
                || format!("no rule matches `{subject}`"),
                |rule| format!("the rule `{rule}` requires it"),
            )),
            Effect::Deny => Decision::Deny(format!("no rule allows `{subject}`")),
        }
    }

    /// Returns whether a rule allows a tool with any arguments, by its name or namespace. `allow *` does not
    /// count.
    pub(crate) fn allows_by_name(&self, tool: &ToolName) -> bool {
        self.rules.iter().any(|rule| {
            rule.effect == Effect::Allow
                && rule.pattern.is_none()
                && rule.tool.names_namespace()
                && rule.tool.matches(tool)
        })
    }

    /// Returns whether rules that name exactly this tool allow all subjects of a call. Rules for several tools, such as
    /// `allow builtin/*`, do not count.
    pub(crate) fn allows_explicitly(&self, tool: &ToolName, subjects: &[Subject]) -> bool {
        let own_rules: Vec<Rule> = self
            .rules
            .iter()
            .filter(|rule| rule.tool.is_exact() && rule.tool.matches(tool))
            .cloned()
            .collect();
        let named = Self::new(own_rules, Effect::Ask);
        !subjects.is_empty()
            && subjects
                .iter()
                .all(|subject| named.decide_one(tool, subject) == Decision::Allow)
    }

    /// Returns whether a rule that names exactly this tool allows some of its calls.
    pub fn allows_some(&self, tool: &ToolName) -> bool {
        self.rules.iter().any(|rule| {
            rule.effect == Effect::Allow && rule.tool.is_exact() && rule.tool.matches(tool)
        })
    }

    /// The rule that allows every tool of the same MCP server.
    pub(crate) fn always_for_server(tool: &ToolName) -> Option<Rule> {
        let name = tool.canonical().to_string();
        let (namespace, _) = name.rsplit_once('/')?;
        let pattern = format!("{namespace}/*").parse().ok()?;
        Some(Rule::allowing(pattern, None))
    }

    /// The rules that allow exactly the subjects of a call, for "always"; empty when no rule can
    /// express that.
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

/// Returns whether a rule matches a subject. For a command, a match anywhere in the command is enough.
fn rule_matches(rule: &Rule, subject: &Subject) -> bool {
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

/// Returns whether an `allow` rule matches exactly this simple command.
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
mod tests;
