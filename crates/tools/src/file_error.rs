//! [`FileError`]: what is wrong with a file of the user's, where, and what to do.

use std::path::{Path, PathBuf};

use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{Code, Diagnose};
use serde_json::{Value, json};

/// What is wrong with the file of something that users define.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", .file.display())]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
    /// What the file is to describe.
    about: About,
    /// Whether it cannot be read, or says what cannot be.
    kind: Kind,
}

/// What a file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A tool.
    Tool,
    /// A safety profile.
    Safety,
    /// A skill.
    Skill,
    /// An automation profile.
    Profile,
    /// A validation.
    Validation,
}

impl About {
    /// The page with an example.
    const fn page(self) -> &'static str {
        match self {
            Self::Tool | Self::Safety => "docs/tools.md",
            Self::Skill => "docs/skills.md",
            Self::Profile => "docs/automation-profiles.md",
            Self::Validation => "docs/validations.md",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Malformed,
    Rule,
}

impl Diagnose for FileError {
    fn code(&self) -> Code {
        match (self.about, self.kind) {
            (About::Tool, Kind::Malformed) => Code::MalformedTool,
            (About::Tool, Kind::Rule) => Code::InvalidTool,
            (About::Safety, Kind::Malformed) => Code::MalformedSafety,
            (About::Safety, Kind::Rule) => Code::InvalidSafety,
            (About::Skill, Kind::Malformed) => Code::MalformedSkill,
            (About::Skill, Kind::Rule) => Code::InvalidSkill,
            (About::Profile, Kind::Malformed) => Code::MalformedProfile,
            (About::Profile, Kind::Rule) => Code::InvalidProfile,
            (About::Validation, Kind::Malformed) => Code::MalformedValidation,
            (About::Validation, Kind::Rule) => Code::InvalidValidation,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(self.fix.clone())
    }

    fn details(&self) -> Value {
        json!({
            "file": self.file.display().to_string(),
            "line": self.line,
            "column": self.column,
        })
    }
}

/// A complaint that does not know its file yet.
#[derive(Debug)]
pub struct Complaint {
    fault: Fault,
    kind: Kind,
}

impl Complaint {
    /// The file says what cannot be.
    pub fn rule(fault: Fault, fix: impl Into<String>) -> Self {
        Self {
            fault: fault.fixed_by(fix),
            kind: Kind::Rule,
        }
    }

    /// The same at a place, when it has none yet.
    #[must_use]
    pub fn placed(mut self, place: (u64, u64)) -> Self {
        if self.fault.place.is_none_or(|there| there == (0, 0)) {
            self.fault.place = Some(place);
        }
        self
    }

    /// The same in a file, for people.
    pub fn in_file(self, file: &Path, about: About) -> FileError {
        let (line, column) = self.fault.place.unwrap_or((1, 1));
        let fix = match (self.fault.fix, self.fault.nearest) {
            (Some(fix), _) => fix,
            (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
            (None, None) => {
                let page = about.page();
                format!("correct the YAML there; {page} has an example")
            }
        };
        FileError {
            file: file.to_owned(),
            line,
            column,
            message: self.fault.message,
            fix,
            about,
            kind: self.kind,
        }
    }
}

impl From<Fault> for Complaint {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            kind: Kind::Malformed,
        }
    }
}
