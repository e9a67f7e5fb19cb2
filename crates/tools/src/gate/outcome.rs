//! [`CallOutcome`]: the result of a call, and its text for the model.

use std::fmt::{self, Write as _};
use std::time::Duration;

use cleveragents_domain::{CheckpointNumber, Code, ToolInvocationId};

use super::RefusalReason;
use crate::model_tools::{model_name, with_model_names};
use crate::name::ToolName;
use crate::output::ShownOutput;
use crate::ports::CapturedChanges;
use crate::tool::FailureKind;
use crate::untrusted;

/// An image returned by a tool.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Media type, such as `image/png`.
    pub media_type: &'static str,
    /// Encoded bytes of the image.
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

/// A successful call.
#[derive(Debug, Clone)]
pub struct CallSuccess {
    /// Row of the call in the ledger.
    pub invocation: ToolInvocationId,
    /// The tool that ran.
    pub tool: ToolName,
    /// Output of the tool, truncated for the model.
    pub shown: ShownOutput,
    /// Image that replaces the output.
    pub picture: Option<Picture>,
    /// Note from the tool's implementation, shown outside the data.
    pub note: Option<String>,
    /// Changes that it made in the sandbox.
    pub captured: CapturedChanges,
    /// Checkpoint taken before the call.
    pub checkpoint: Option<CheckpointNumber>,
    /// Duration of the call.
    pub elapsed: Duration,
}

/// A call that ran and failed.
#[derive(Debug, Clone)]
pub struct CallFailure {
    /// Row of the call in the ledger.
    pub invocation: ToolInvocationId,
    /// The tool that ran.
    pub tool: ToolName,
    /// Kind of failure.
    pub kind: FailureKind,
    /// Error message.
    pub message: String,
    /// Output before the failure, truncated for the model.
    pub shown: ShownOutput,
    /// Last lines of its log, redacted.
    pub log: String,
    /// Changes that it made before the failure.
    pub captured: CapturedChanges,
    /// Checkpoint taken before the call.
    pub checkpoint: Option<CheckpointNumber>,
    /// Duration of the call.
    pub elapsed: Duration,
}

/// A call that did not run.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Row of the call in the ledger.
    pub invocation: ToolInvocationId,
    /// The tool, as the model named it.
    pub tool: String,
    /// Reason of the refusal.
    pub reason: RefusalReason,
}

#[derive(Debug, Clone)]
pub enum CallOutcome {
    /// The tool succeeded.
    Succeeded(CallSuccess),
    /// The tool ran and failed.
    Failed(CallFailure),
    /// The gate refused the call; the tool did not run.
    Refused(Refusal),
}

impl CallOutcome {
    /// Row of the call in the ledger.
    pub const fn invocation(&self) -> ToolInvocationId {
        match self {
            Self::Succeeded(done) => done.invocation,
            Self::Failed(failed) => failed.invocation,
            Self::Refused(refusal) => refusal.invocation,
        }
    }

    /// Whether the tool succeeded.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded(_))
    }

    /// Whether the call needs a user, and none was available.
    pub const fn needs_human(&self) -> bool {
        match self {
            Self::Succeeded(_) => false,
            Self::Failed(failed) => matches!(failed.kind, FailureKind::HumanNeeded),
            Self::Refused(refusal) => {
                matches!(refusal.reason, RefusalReason::NoApprover { .. })
            }
        }
    }

    /// Permission rules that would allow a call that was refused because no user was available.
    pub fn allowing_rules(&self) -> &[String] {
        match self {
            Self::Refused(refusal) => match &refusal.reason {
                RefusalReason::NoApprover { rules, .. } => rules,
                _ => &[],
            },
            Self::Succeeded(_) | Self::Failed(_) => &[],
        }
    }

    /// Error code for front ends; `None` for a success.
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Succeeded(_) => None,
            Self::Failed(_) if self.needs_human() => Some(Code::ApprovalNeeded),
            Self::Failed(_) => Some(Code::ToolFailed),
            Self::Refused(refusal) => Some(refusal.reason.code()),
        }
    }

    /// The text for the model. Untrusted content is marked as data.
    pub fn for_model(&self) -> String {
        match self {
            Self::Succeeded(done) => {
                let mut text = match &done.picture {
                    Some(picture) => picture.to_string(),
                    None => data_for_model(&done.tool.to_string(), &done.shown, done.invocation),
                };
                if let Some(note) = &done.note {
                    let line_end = if text.is_empty() { "" } else { "\n" };
                    let note = with_model_names(note);
                    let _never_fails = write!(text, "{line_end}{note}");
                } else if text.is_empty() {
                    "Succeeded without output.".clone_into(&mut text);
                }
                text
            }
            Self::Failed(failed) => {
                let message = with_model_names(&failed.message);
                let mut text = format!("`{}` failed: {message}", model_name(&failed.tool));
                let tool = failed.tool.to_string();
                let data = data_for_model(&tool, &failed.shown, failed.invocation);
                if !data.is_empty() {
                    let _never_fails = write!(text, "\n{data}");
                }
                if !failed.log.is_empty() {
                    let log = untrusted::wrap(&model_name(&failed.tool), &failed.log);
                    let _never_fails = write!(text, "\nEnd of its log:\n{log}");
                }
                text
            }
            Self::Refused(refusal) => format!(
                "The call of `{}` was refused and did not run: {}. {}",
                one_line(&refusal.tool),
                refusal.reason.for_model(),
                refusal.reason.advice()
            ),
        }
    }

    /// The result without the parts that differ between calls, to detect repetitions.
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

/// The output of a tool, marked as data unless the user wrote it, with the call that reads the omitted part.
pub fn data_for_model(tool: &str, shown: &ShownOutput, invocation: ToolInvocationId) -> String {
    if shown.total == 0 {
        return String::new();
    }
    let Some(lines) = shown.left_out_lines else {
        return untrusted::mark(tool, &shown.head);
    };
    let (total, bytes) = (shown.total_lines, shown.left_out);
    let line_end = if shown.head.ends_with('\n') { "" } else { "\n" };
    let content = format!(
        "{}{line_end}[… {lines} of {total} omitted …]\n{}",
        shown.head, shown.tail
    );
    let place = if lines.first == lines.last {
        format!("\"byte\": {}", shown.head.len())
    } else {
        format!("\"offset\": {}", lines.first)
    };
    format!(
        "{}\nOmitted: {lines} of {total}, {bytes} of {} bytes. Read them with read_file: \
         {{\"path\": \"{invocation}\", {place}}}",
        untrusted::mark(tool, &content),
        shown.total
    )
}

/// A name from the model, made safe to repeat in a message.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(160)
        .collect()
}
