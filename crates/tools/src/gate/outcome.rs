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

/// Tools whose output is one line for each changed path. It is not marked as data, because a request contains the
/// output of every earlier call.
const CHANGING_TOOLS: [&str; 8] = [
    "builtin/apply-patch",
    "builtin/dir-create",
    "builtin/dir-delete",
    "builtin/file-copy",
    "builtin/file-delete",
    "builtin/file-edit",
    "builtin/file-move",
    "builtin/file-write",
];

/// Tools whose failure states that there was no output.
const COMMAND_TOOLS: [&str; 2] = ["builtin/shell", "builtin/shell-network"];

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
    /// Id of the record of the call in the ledger.
    pub invocation: ToolInvocationId,
    /// The tool that ran.
    pub tool: ToolName,
    /// Output of the tool, truncated for the model.
    pub shown: ShownOutput,
    /// Image that replaces the output.
    pub picture: Option<Picture>,
    /// Note that the tool adds for the model, shown after the output and not marked as untrusted data.
    pub note: Option<String>,
    /// Changes that the call made in the sandbox.
    pub captured: CapturedChanges,
    /// Checkpoint taken before the call.
    pub checkpoint: Option<CheckpointNumber>,
    pub elapsed: Duration,
}

impl CallSuccess {
    /// Returns whether the output only confirms the call, in our words and with paths that the model gave.
    fn is_confirmation(&self) -> bool {
        CHANGING_TOOLS.contains(&self.tool.to_string().as_str()) && self.shown.left_out == 0
    }
}

/// A call that ran and failed.
#[derive(Debug, Clone)]
pub struct CallFailure {
    /// Id of the record of the call in the ledger.
    pub invocation: ToolInvocationId,
    /// The tool that ran.
    pub tool: ToolName,
    pub kind: FailureKind,
    /// Error message.
    pub message: String,
    /// Output before the failure, truncated for the model.
    pub shown: ShownOutput,
    /// Last lines of the tool's log, redacted.
    pub log: String,
    /// Changes that the call made before the failure.
    pub captured: CapturedChanges,
    /// Checkpoint taken before the call.
    pub checkpoint: Option<CheckpointNumber>,
    pub elapsed: Duration,
}

/// A call that did not run.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Id of the record of the call in the ledger.
    pub invocation: ToolInvocationId,
    /// The tool, as the model named it.
    pub tool: String,
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
    /// Id of the record of the call in the ledger.
    pub const fn invocation(&self) -> ToolInvocationId {
        match self {
            Self::Succeeded(success) => success.invocation,
            Self::Failed(failure) => failure.invocation,
            Self::Refused(refusal) => refusal.invocation,
        }
    }

    /// Returns whether the tool succeeded.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded(_))
    }

    /// Returns whether the call needed a user, but no user was available.
    pub const fn needs_human(&self) -> bool {
        match self {
            Self::Succeeded(_) => false,
            Self::Failed(failure) => matches!(failure.kind, FailureKind::HumanNeeded),
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
            Self::Succeeded(success) => {
                let mut text = match &success.picture {
                    Some(picture) => picture.to_string(),
                    None if success.is_confirmation() => success.shown.head.trim_end().to_owned(),
                    None => data_for_model(
                        &success.tool.to_string(),
                        &success.shown,
                        success.invocation,
                    ),
                };
                if let Some(note) = &success.note {
                    let line_end = if text.is_empty() { "" } else { "\n" };
                    let note = with_model_names(note);
                    let _never_fails = write!(text, "{line_end}{note}");
                } else if text.is_empty() {
                    "Succeeded without output.".clone_into(&mut text);
                }
                text
            }
            Self::Failed(failure) => {
                let message = with_model_names(&failure.message);
                let mut text = format!("`{}` failed: {message}", model_name(&failure.tool));
                let tool = failure.tool.to_string();
                let data = data_for_model(&tool, &failure.shown, failure.invocation);
                if !data.is_empty() {
                    let _never_fails = write!(text, "\n{data}");
                } else if failure.log.is_empty() && COMMAND_TOOLS.contains(&tool.as_str()) {
                    text.push_str(", without output");
                }
                if !failure.log.is_empty() {
                    let log = untrusted::wrap(&model_name(&failure.tool), &failure.log);
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

    /// The result without the parts that differ between equal calls, to detect repetitions.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Succeeded(success) => {
                let note = success.note.as_deref().unwrap_or_default();
                format!("{}{}{note}", success.shown.head, success.shown.tail)
            }
            Self::Failed(failure) => {
                format!(
                    "{}\n{}{}",
                    failure.message, failure.shown.head, failure.shown.tail
                )
            }
            Self::Refused(refusal) => refusal.reason.to_string(),
        }
    }
}

/// The output of a tool for the model, marked as data unless the tool is trusted. A truncated output ends with the call
/// that reads the omitted part.
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

/// Removes control characters from a name that the model wrote, and truncates it, so that a message can contain it.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(160)
        .collect()
}
