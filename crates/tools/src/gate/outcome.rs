//! [`CallOutcome`]: what came of a call, and the text in which the model reads it.

use std::fmt::{self, Write as _};
use std::time::Duration;

use cleveragents_domain::{CheckpointNumber, Code, ToolInvocationId};

use super::RefusalReason;
use crate::name::ToolName;
use crate::output::Shown;
use crate::ports::Captured;
use crate::tool::FailureKind;
use crate::untrusted;

/// A picture that a tool gave.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// What it is, such as `image/png`.
    pub media_type: &'static str,
    /// Its bytes.
    pub data: Vec<u8>,
}

impl fmt::Display for Picture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "[{}, {} bytes]",
            self.media_type,
            self.data.len()
        )
    }
}

impl fmt::Debug for Picture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A call that did what it was to do.
#[derive(Debug, Clone)]
pub struct Succeeded {
    /// Its row.
    pub invocation: ToolInvocationId,
    /// The tool.
    pub tool: ToolName,
    /// What it said.
    pub shown: Shown,
    /// A picture that it gave, instead of what it said.
    pub picture: Option<Picture>,
    /// A word of the program's own beside it.
    pub note: Option<String>,
    /// What it changed.
    pub captured: Captured,
    /// The state before it.
    pub checkpoint: Option<CheckpointNumber>,
    /// How long it took.
    pub elapsed: Duration,
}

/// A call that ran and failed.
#[derive(Debug, Clone)]
pub struct Failed {
    /// Its row.
    pub invocation: ToolInvocationId,
    /// The tool.
    pub tool: ToolName,
    /// How it failed.
    pub kind: FailureKind,
    /// Why, as a sentence.
    pub message: String,
    /// What it said before.
    pub shown: Shown,
    /// The last lines of what it logged, without secrets.
    pub log: String,
    /// What it changed before.
    pub captured: Captured,
    /// The state before it.
    pub checkpoint: Option<CheckpointNumber>,
    /// How long it took.
    pub elapsed: Duration,
}

/// A call that did not run.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Its row.
    pub invocation: ToolInvocationId,
    /// The tool as the model named it.
    pub tool: String,
    /// Why not.
    pub reason: RefusalReason,
}

/// What came of a call.
#[derive(Debug, Clone)]
pub enum CallOutcome {
    /// It did what it was to do.
    Succeeded(Succeeded),
    /// It ran and failed.
    Failed(Failed),
    /// It did not run.
    Refused(Refusal),
}

impl CallOutcome {
    /// Its row in the ledger.
    pub const fn invocation(&self) -> ToolInvocationId {
        match self {
            Self::Succeeded(done) => done.invocation,
            Self::Failed(failed) => failed.invocation,
            Self::Refused(refusal) => refusal.invocation,
        }
    }

    /// Whether it did what it was to do.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded(_))
    }

    /// Whether a person is needed to go on and none was there.
    pub const fn needs_human(&self) -> bool {
        match self {
            Self::Succeeded(_) => false,
            Self::Failed(failed) => matches!(failed.kind, FailureKind::HumanNeeded),
            Self::Refused(refusal) => {
                matches!(refusal.reason, RefusalReason::NobodyToApprove { .. })
            }
        }
    }

    /// The code under which a front end shows it; `None` for a success.
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Succeeded(_) => None,
            Self::Failed(_) if self.needs_human() => Some(Code::ApprovalNeeded),
            Self::Failed(_) => Some(Code::ToolFailed),
            Self::Refused(refusal) => Some(refusal.reason.code()),
        }
    }

    /// The text that the model reads. What comes from outside is marked as data.
    pub fn for_model(&self) -> String {
        match self {
            Self::Succeeded(done) => {
                let mut text = match &done.picture {
                    Some(picture) => picture.to_string(),
                    None => data(&done.tool, &done.shown, done.invocation),
                };
                if let Some(note) = &done.note {
                    let line_end = if text.is_empty() { "" } else { "\n" };
                    let _never_fails = write!(text, "{line_end}{note}");
                } else if text.is_empty() {
                    "Done, without output.".clone_into(&mut text);
                }
                text
            }
            Self::Failed(failed) => {
                let mut text = format!("`{}` failed: {}", failed.tool, failed.message);
                let said = data(&failed.tool, &failed.shown, failed.invocation);
                if !said.is_empty() {
                    let _never_fails = write!(text, "\n{said}");
                }
                if !failed.log.is_empty() {
                    let log = untrusted::wrap(&failed.tool.to_string(), &failed.log);
                    let _never_fails = write!(text, "\nThe end of its log:\n{log}");
                }
                text
            }
            Self::Refused(refusal) => format!(
                "The call of `{}` was refused and did not run: {}. {}",
                one_line(&refusal.tool),
                refusal.reason,
                refusal.reason.advice()
            ),
        }
    }

    /// What was said, without the parts that differ from call to call, to notice repetitions.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Succeeded(done) => {
                let note = done.note.as_deref().unwrap_or_default();
                format!("{}{}{note}", done.shown.head, done.shown.tail)
            }
            Self::Failed(failed) => {
                format!(
                    "{}\n{}{}",
                    failed.message, failed.shown.head, failed.shown.tail
                )
            }
            Self::Refused(refusal) => refusal.reason.to_string(),
        }
    }
}

/// What a tool said, marked as data unless the user said it, with a note where something was left out.
fn data(tool: &ToolName, shown: &Shown, invocation: ToolInvocationId) -> String {
    if shown.total == 0 {
        return String::new();
    }
    let source = tool.to_string();
    if shown.left_out == 0 {
        return untrusted::mark(&source, &shown.head);
    }
    let from = shown.head.len();
    let (left_out, total) = (shown.left_out, shown.total);
    let content = format!(
        "{}\n[… {left_out} bytes left out …]\n{}",
        shown.head, shown.tail
    );
    format!(
        "{}\nOf {total} bytes {left_out} were left out. Read them with builtin/output-read: \
         {{\"invocation\": \"{invocation}\", \"offset\": {from}}}",
        untrusted::mark(&source, &content)
    )
}

/// A name as the model gave it, safe to repeat in a sentence.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(160)
        .collect()
}
