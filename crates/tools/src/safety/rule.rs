//! [`Rule`]: one permission rule, `allow|ask|deny TOOL[(PATTERN)]`.

use std::fmt;
use std::str::FromStr;

use cleveragents_domain::{Code, Diagnose, Hint, hint, suggest};

use super::pattern::{TextPattern, ToolPattern};

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The call may run.
    Allow,
    /// The call needs approval.
    Ask,
    /// The call is refused.
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

/// Errors of parsing a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The syntax is wrong.
    #[error(
        "`{0}` is not a rule: write `allow`, `ask` or `deny`, a tool, and optionally a pattern in parentheses"
    )]
    Form(String),
    /// The name or pattern of the tool is invalid.
    #[error("`{tool}` does not name a tool: {why}")]
    Tool {
        /// The text as written.
        tool: String,
        /// The error.
        why: String,
    },
    /// No built-in tool matches the name or pattern.
    #[error("`{tool}` does not name a tool: no built-in tool matches{}", did_you_mean(.nearest.as_deref()))]
    BuiltIn {
        /// The text as written.
        tool: String,
        /// A tool with a similar name.
        nearest: Option<String>,
    },
    /// The pattern in parentheses is invalid.
    #[error("`{pattern}` is not a pattern: {why}")]
    Pattern {
        /// The text as written.
        pattern: String,
        /// The error.
        why: String,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

impl Diagnose for RuleError {
    fn code(&self) -> Code {
        Code::InvalidRule
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::BuiltIn { nearest: None, .. } => {
                hint!("{} lists all tools", suggest::tool_list())
            }
            _ => "for example `deny builtin/shell(rm *)` or `allow builtin/file-write(src/**)`"
                .into(),
        })
    }
}

/// One permission rule.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(super) effect: Effect,
    pub(super) tool: ToolPattern,
    pub(super) pattern: Option<TextPattern>,
}

impl Rule {
    pub const fn effect(&self) -> Effect {
        self.effect
    }

    /// The tools to which the rule applies.
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
    fn printed_rules_round_trip() {
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
    fn invalid_rules_are_rejected() {
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
