//! [`Rule`]: `allow|ask|deny TOOL[(PATTERN)]`, one line of what the user permits.

use std::fmt;
use std::str::FromStr;

use cleveragents_domain::{Code, Diagnose};

use super::pattern::{TextPattern, ToolPattern};

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It may be done.
    Allow,
    /// A person has to agree.
    Ask,
    /// It may not be done.
    Deny,
}

impl Effect {
    /// The effect as written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It does not have the form of one.
    #[error(
        "`{0}` is not a rule: write `allow`, `ask` or `deny`, a tool, and perhaps a pattern in parentheses"
    )]
    Form(String),
    /// The tool is not one.
    #[error("`{tool}` does not name a tool: {why}")]
    Tool {
        /// What was written.
        tool: String,
        /// What is wrong with it.
        why: String,
    },
    /// The pattern is not one.
    #[error("`{pattern}` is not a pattern: {why}")]
    Pattern {
        /// What was written.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Diagnose for RuleError {
    fn code(&self) -> Code {
        Code::InvalidRule
    }

    fn hint(&self) -> Option<String> {
        Some(
            "for example `deny builtin/shell(rm *)` or `allow builtin/file-write(src/**)`"
                .to_owned(),
        )
    }
}

/// One line of what the user permits.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) effect: Effect,
    pub(super) tool: ToolPattern,
    pub(super) pattern: Option<TextPattern>,
}

impl Rule {
    /// What it says.
    pub const fn effect(&self) -> Effect {
        self.effect
    }

    /// The tools it is about.
    pub const fn tool(&self) -> &ToolPattern {
        &self.tool
    }

    pub(super) const fn allowing(tool: ToolPattern, pattern: Option<TextPattern>) -> Self {
        Self {
            effect: Effect::Allow,
            tool,
            pattern,
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let form = || RuleError::Form(text.to_owned());
        let (effect, rest) = text
            .trim()
            .split_once(char::is_whitespace)
            .ok_or_else(form)?;
        let effect = match effect {
            "allow" => Effect::Allow,
            "ask" => Effect::Ask,
            "deny" => Effect::Deny,
            _ => return Err(form()),
        };
        let rest = rest.trim();
        let (tool, pattern) = match rest.split_once('(') {
            None => (rest, None),
            Some((tool, pattern)) => {
                let pattern = pattern.strip_suffix(')').ok_or_else(form)?;
                if pattern.trim().is_empty() {
                    return Err(form());
                }
                (tool.trim_end(), Some(TextPattern::new(pattern)?))
            }
        };
        if tool.contains(char::is_whitespace) {
            return Err(form());
        }
        Ok(Self {
            effect,
            tool: tool.parse()?,
            pattern,
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.effect.as_str(), self.tool)?;
        match &self.pattern {
            Some(pattern) => write!(formatter, "({})", pattern.as_str()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rule, RuleError};

    #[test]
    fn a_rule_survives_printing() {
        for text in [
            "allow builtin/file-write(src/**)",
            "ask builtin/shell",
            "deny builtin/shell(rm *)",
            "deny *",
            "allow builtin/git-*(a(b)c)",
        ] {
            let rule: Rule = text.parse().expect(text);
            assert_eq!(rule.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "allow",
            "permit builtin/shell",
            "allow shell",
            "deny builtin/shell(rm *",
            "deny builtin/shell()",
            "deny builtin/shell rm",
            "allow builtin/shell (a) b",
        ] {
            let outcome: Result<Rule, RuleError> = text.parse();
            assert!(outcome.is_err(), "{text:?}");
        }
    }
}
