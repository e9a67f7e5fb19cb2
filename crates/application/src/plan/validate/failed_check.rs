//! [`FailedCheck`]: a validation that did not pass, with its command and its complete output.

use cleveragents_domain::ValidationResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes of an output that [`FailedCheck::bounded`] keeps, half of them from its start.
const BOUND: usize = 64 * 1024;

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
        let fact = |name: &str| result.data.as_ref().and_then(|data| data.get(name));
        Self {
            validation: result.validation.clone(),
            message: result.message.clone(),
            command: fact("command").and_then(Value::as_str).map(str::to_owned),
            exit_code: fact("exit_code").and_then(Value::as_i64),
            output,
        }
    }

    /// The same with at most 64 KiB of output: its start and its end.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.output = bounded(&self.output);
        self
    }
}

fn bounded(output: &str) -> String {
    if output.len() <= BOUND {
        return output.to_owned();
    }
    let head = output.floor_char_boundary(BOUND / 2);
    let tail = output.ceil_char_boundary(output.len() - BOUND / 2);
    format!(
        "{}\n[… {} bytes left out; the errors of the plan have everything …]\n{}",
        &output[..head],
        tail - head,
        &output[tail..]
    )
}

#[cfg(test)]
mod tests {
    use super::{BOUND, bounded};

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        let short = "é".repeat(BOUND / 2);
        assert_eq!(bounded(&short), short);
        let long = format!("first{}last", "é".repeat(BOUND));
        let kept = bounded(&long);
        assert!(kept.starts_with("firsté") && kept.ends_with("élast"));
        assert!(kept.contains("bytes left out"));
        assert!(kept.len() < BOUND + 200);
    }
}
