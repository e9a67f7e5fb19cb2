//! [`DefinitionKind`]: the kinds of definition files that users write, and [`DefinitionFileError`]: an error in such a
//! file.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::yaml::Fault;
use crate::{Code, Diagnose, Hint, hint, suggest};

/// The kind of a definition. Tools and validations share one namespace of names; every other kind has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DefinitionKind {
    /// A template of plans.
    Action,
    /// A model with instructions, a tool, or a graph of them.
    Actor,
    /// Approvals that plans need.
    AutomationProfile,
    /// A server that implements the Model Context Protocol.
    McpServer,
    /// Workers with one role on the items of a project.
    Pool,
    /// The permissions of tools. Read from files only, never registered.
    SafetyProfile,
    /// Tools and instructions that belong together.
    Skill,
    /// A custom tool.
    Tool,
    /// A check of the results of plans.
    Validation,
}

impl DefinitionKind {
    /// Name of the kind in the database and in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Actor => "actor",
            Self::AutomationProfile => "automation_profile",
            Self::McpServer => "mcp_server",
            Self::Pool => "pool",
            Self::SafetyProfile => "safety_profile",
            Self::Skill => "skill",
            Self::Tool => "tool",
            Self::Validation => "validation",
        }
    }

    /// Name of the kind in sentences.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::AutomationProfile => "automation profile",
            Self::McpServer => "MCP server",
            Self::SafetyProfile => "safety profile",
            other => other.as_str(),
        }
    }

    /// The noun with its article.
    pub const fn with_article(self) -> &'static str {
        match self {
            Self::Action => "an action",
            Self::Actor => "an actor",
            Self::AutomationProfile => "an automation profile",
            Self::McpServer => "an MCP server",
            Self::Pool => "a pool",
            Self::SafetyProfile => "a safety profile",
            Self::Skill => "a skill",
            Self::Tool => "a tool",
            Self::Validation => "a validation",
        }
    }

    /// The code for a file that cannot be parsed.
    pub const fn malformed(self) -> Code {
        match self {
            Self::Action => Code::MalformedAction,
            Self::Actor => Code::MalformedActor,
            Self::AutomationProfile => Code::MalformedProfile,
            Self::McpServer => Code::MalformedMcp,
            Self::Pool => Code::MalformedPool,
            Self::SafetyProfile => Code::MalformedSafety,
            Self::Skill => Code::MalformedSkill,
            Self::Tool => Code::MalformedTool,
            Self::Validation => Code::MalformedValidation,
        }
    }

    /// The code for a file with an invalid definition.
    pub const fn invalid(self) -> Code {
        match self {
            Self::Action => Code::InvalidAction,
            Self::Actor => Code::InvalidActor,
            Self::AutomationProfile => Code::InvalidProfile,
            Self::McpServer => Code::InvalidMcp,
            Self::Pool => Code::InvalidPool,
            Self::SafetyProfile => Code::InvalidSafety,
            Self::Skill => Code::InvalidSkill,
            Self::Tool => Code::InvalidTool,
            Self::Validation => Code::InvalidValidation,
        }
    }

    /// The hint for an error without a more specific fix.
    fn general_fix(self) -> Hint {
        let page = match self {
            Self::Action => {
                return hint!(
                    "correct the file at this line; {} prints its schema",
                    suggest::schema("action")
                );
            }
            Self::Actor => {
                return "correct the YAML at this line; docs/reference/actors.md has examples"
                    .into();
            }
            Self::McpServer => {
                return "correct the file at this line; docs/reference/mcp.md has examples".into();
            }
            Self::AutomationProfile => "docs/reference/automation-profiles.md",
            Self::Pool => "docs/reference/pools.md",
            Self::SafetyProfile | Self::Tool => "docs/reference/tools.md",
            Self::Skill => "docs/reference/skills.md",
            Self::Validation => "docs/reference/validations.md",
        };
        hint!("correct the YAML at this line; {} has an example", page)
    }
}

impl fmt::Display for DefinitionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.noun())
    }
}

/// An error in a definition, without the name of its file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionFault {
    /// The text cannot be parsed.
    #[error(transparent)]
    Malformed(Fault),
    /// The text can be parsed, but the definition is invalid.
    #[error(transparent)]
    Rule(Fault),
}

impl DefinitionFault {
    /// A broken rule.
    pub fn rule(fault: Fault, fix: impl Into<Hint>) -> Self {
        Self::Rule(fault.fixed_by(fix))
    }

    /// The error message and the position.
    pub const fn fault(&self) -> &Fault {
        match self {
            Self::Malformed(fault) | Self::Rule(fault) => fault,
        }
    }

    /// Sets line and column, unless they are set.
    #[must_use]
    pub fn at_place(mut self, place: (u64, u64)) -> Self {
        let (Self::Malformed(fault) | Self::Rule(fault)) = &mut self;
        if fault.place.is_none_or(|known| known == (0, 0)) {
            fault.place = Some(place);
        }
        self
    }

    /// The error for the user who wrote the file. `text` is the content of the file, for the lines around the error.
    pub fn in_file(self, file: &Path, kind: DefinitionKind, text: &str) -> DefinitionFileError {
        let code = match &self {
            Self::Malformed(_) => kind.malformed(),
            Self::Rule(_) => kind.invalid(),
        };
        let (Self::Malformed(fault) | Self::Rule(fault)) = self;
        let (line, column) = fault.place.unwrap_or((1, 1));
        let fix = match (fault.fix, fault.nearest) {
            (Some(fix), _) => fix,
            (None, Some(nearest)) => hint!("did you mean `{}`?", nearest),
            (None, None) => kind.general_fix(),
        };
        let (line, column) = (line.max(1), column.max(1));
        DefinitionFileError {
            file: file.to_owned(),
            line,
            column,
            message: fault.message,
            fix,
            code,
            frame: code_frame(text, line, column),
        }
    }
}

impl From<Fault> for DefinitionFault {
    fn from(fault: Fault) -> Self {
        Self::Malformed(fault)
    }
}

impl From<DefinitionFault> for Fault {
    fn from(fault: DefinitionFault) -> Self {
        match fault {
            DefinitionFault::Malformed(fault) | DefinitionFault::Rule(fault) => fault,
        }
    }
}

/// An error in a definition file: its position, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", .file.display())]
pub struct DefinitionFileError {
    pub file: PathBuf,
    /// From 1.
    pub line: u64,
    /// In characters, from 1.
    pub column: u64,
    /// Reason why the definition is invalid.
    pub message: String,
    /// Suggested fix.
    pub fix: Hint,
    code: Code,
    /// The lines around the error, with a mark at the column. Empty if the text is not available.
    pub frame: String,
}

impl Diagnose for DefinitionFileError {
    fn code(&self) -> Code {
        self.code
    }

    fn hint(&self) -> Option<Hint> {
        Some(self.fix.clone())
    }

    fn details(&self) -> Value {
        let mut details = json!({
            "file": self.file.display().to_string(),
            "line": self.line,
            "column": self.column,
        });
        if !self.frame.is_empty() {
            details["frame"] = self.frame.clone().into();
        }
        details
    }
}

/// Number of lines that a frame shows before the line of the error, and after it.
const CONTEXT_LINES: u64 = 2;

/// Maximum number of characters that a frame shows of a line.
const MAX_WIDTH: usize = 120;

/// Returns the lines around a position with their numbers, and a mark under the column.
fn code_frame(text: &str, line: u64, column: u64) -> String {
    use fmt::Write as _;
    let first = line.saturating_sub(CONTEXT_LINES).max(1);
    let last = line.saturating_add(CONTEXT_LINES);
    let digits = last.to_string().len();
    let mut frame = String::new();
    let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
    for (number, shown) in (first..=last).zip(text.lines().skip(skipped)) {
        let shown: String = shown
            .chars()
            .take(MAX_WIDTH)
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(frame, "{number:>digits$} | {}", shown.trim_end());
        if number == line {
            let before = usize::try_from(column - 1).unwrap_or(usize::MAX);
            let before = before.min(shown.chars().count());
            let _ = writeln!(frame, "{:digits$} | {:before$}^", "", "");
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::{DefinitionFault, DefinitionKind};
    use crate::yaml::Fault;
    use crate::{Code, Diagnose as _};
    use std::path::Path;

    fn fault(place: Option<(u64, u64)>) -> Fault {
        Fault {
            place,
            ..Fault::new("it is wrong")
        }
    }

    #[test]
    fn a_file_error_names_its_position_and_shows_the_lines_around_it() {
        let text = "a: 1\nb: 2\ncolour: red\nd: 4\ne: 5\nf: 6\n";
        let fault = DefinitionFault::from(Fault {
            nearest: Some("color".to_owned()),
            ..fault(Some((3, 1)))
        });
        let error = fault.in_file(Path::new("x.yaml"), DefinitionKind::Tool, text);
        assert_eq!(error.to_string(), "x.yaml:3:1: it is wrong");
        assert_eq!(error.code(), Code::MalformedTool);
        assert_eq!(error.fix.neutral(), "did you mean `color`?");
        assert_eq!(
            error.frame,
            "1 | a: 1\n2 | b: 2\n3 | colour: red\n  | ^\n4 | d: 4\n5 | e: 5\n"
        );
        assert_eq!(error.details()["frame"], error.frame);
    }

    #[test]
    fn a_frame_accepts_any_text_and_any_position() {
        for (text, place) in [
            ("", (1, 1)),
            ("x", (u64::MAX, u64::MAX)),
            ("é\u{1b}[2J", (1, 400)),
            ("a\nb", (0, 0)),
        ] {
            let fault = DefinitionFault::rule(fault(Some(place)), "fix it");
            let error = fault.in_file(Path::new("x"), DefinitionKind::Skill, text);
            assert!(!error.frame.contains('\u{1b}'), "{:?}", error.frame);
            assert!(error.line >= 1 && error.column >= 1);
            assert_eq!(error.code(), Code::InvalidSkill);
        }
    }
}
