//! [`FileError`]: what is wrong with the file of an actor, where, and what to do.

use std::path::{Path, PathBuf};

use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{Code, Diagnose};
use serde_json::{Value, json};

use super::tree::Place;

/// What is wrong with the file of an actor.
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
    kind: Kind,
}

/// Whether a file cannot be read, or says what cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Malformed,
    Rule,
}

impl Diagnose for FileError {
    fn code(&self) -> Code {
        match self.kind {
            Kind::Malformed => Code::MalformedActor,
            Kind::Rule => Code::InvalidActor,
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
pub(crate) struct Complaint {
    place: (u64, u64),
    message: String,
    fix: String,
    kind: Kind,
}

impl Complaint {
    /// The file cannot be read there.
    pub(crate) fn malformed(
        place: Place,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            place: (place.line.into(), place.column.into()),
            message: message.into(),
            fix: fix.into(),
            kind: Kind::Malformed,
        }
    }

    /// The file says what cannot be.
    pub(crate) fn rule(place: Place, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            kind: Kind::Rule,
            ..Self::malformed(place, message, fix)
        }
    }

    pub(crate) fn in_file(self, file: &Path) -> FileError {
        FileError {
            file: file.to_owned(),
            line: self.place.0.max(1),
            column: self.place.1.max(1),
            message: self.message,
            fix: self.fix,
            kind: self.kind,
        }
    }
}

impl From<Fault> for Complaint {
    fn from(fault: Fault) -> Self {
        let fix = match (fault.fix, fault.nearest) {
            (Some(fix), _) => fix,
            (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
            (None, None) => "correct the YAML there; docs/actors.md has examples".to_owned(),
        };
        Self {
            place: fault.place.unwrap_or((1, 1)),
            message: fault.message,
            fix,
            kind: Kind::Malformed,
        }
    }
}

/// "did you mean …", or what can be written instead.
pub(crate) fn meant<'w>(
    word: &str,
    known: impl Iterator<Item = &'w str> + Clone,
    otherwise: impl FnOnce() -> String,
) -> String {
    match cleveragents_domain::nearest::best(word, known) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => otherwise(),
    }
}
