//! [`FailedCheck`]: a failed validation, with its command and its output.

use cleveragents_domain::ValidationResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of bytes of an output that [`FailedCheck::bounded`] keeps: half from its start, half from its end.
const MAX_OUTPUT: usize = 64 * 1024;

/// A validation that did not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedCheck {
    /// The name of the validation, or the criterion.
    pub validation: String,
    /// Reason of the failure.
    pub message: String,
    /// The command that ran; `None` for a review or a check that calls a tool.
    pub command: Option<String>,
    /// The exit code; `None` when a signal or the time limit ended it.
    pub exit_code: Option<i64>,
    pub output: String,
}

impl FailedCheck {
    pub(in crate::plan) fn new(result: &ValidationResult, output: String) -> Self {
        let data_field = |name: &str| result.data.as_ref().and_then(|data| data.get(name));
        Self {
            validation: result.validation.clone(),
            message: result.message.clone(),
            command: data_field("command")
                .and_then(Value::as_str)
                .map(str::to_owned),
            exit_code: data_field("exit_code").and_then(Value::as_i64),
            output,
        }
    }

    /// Shortens the output to 64 KiB from its start and its end, and notes the omission.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.output = bounded(&self.output);
        self
    }
}

fn bounded(output: &str) -> String {
    if output.len() <= MAX_OUTPUT {
        return output.to_owned();
    }
    let head = output.floor_char_boundary(MAX_OUTPUT / 2);
    let tail = output.ceil_char_boundary(output.len() - MAX_OUTPUT / 2);
    format!(
        "{}\n[… {} bytes left out; the errors of the plan contain the complete output …]\n{}",
        &output[..head],
        tail - head,
        &output[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::{MAX_OUTPUT, bounded};

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        let short = "é".repeat(MAX_OUTPUT / 2);
        assert_eq!(bounded(&short), short);
        let long = format!("first{}last", "é".repeat(MAX_OUTPUT));
        let shortened = bounded(&long);
        assert!(shortened.starts_with("firsté") && shortened.ends_with("élast"));
        assert!(shortened.contains("bytes left out"));
        assert!(shortened.len() < MAX_OUTPUT + 200);
    }
}
