//! Common parts of operations on stored definitions.

use cleveragents_domain::Code;
use cleveragents_models::Redactor;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::OperationError;
use crate::resource::Register;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedDefinition {
    /// Complete name of the removed definition.
    pub removed: String,
    /// File that the definition was read from.
    pub config: String,
}

/// Number of results on a page and in total.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PageSummary {
    /// The number of results on this page.
    pub shown: u64,
    /// The number of matches on all pages.
    pub matching: u64,
}

/// Default maximum number of results on a page.
pub(crate) const fn default_page_size() -> u64 {
    20
}

/// The mode for the flag `update` of a request.
pub(crate) const fn register_mode(update: bool) -> Register {
    if update {
        Register::Update
    } else {
        Register::New
    }
}

/// Refuses a removal that is not confirmed. The details contain the complete name, so that the front end can ask the
/// user.
pub(crate) fn confirm_removal(name: &str, yes: bool) -> Result<(), OperationError> {
    if yes {
        return Ok(());
    }
    let message = format!("removing `{name}` was not confirmed; nothing was changed");
    Err(OperationError::new(Code::ConfirmationNeeded, message)
        .with_hint("confirm it with `yes`")
        .with_details(json!({"name": name})))
}

/// A value with the secrets in its texts redacted.
pub(crate) fn redacted<T: Serialize + DeserializeOwned>(
    secrets: &Redactor,
    value: &T,
) -> Result<T, OperationError> {
    let clean = serde_json::to_value(value).map(|value| secrets.value(&value));
    clean
        .and_then(serde_json::from_value)
        .map_err(|error| OperationError::internal("redacting a value failed").caused_by(error))
}

/// Returns a filter that accepts the names that match a regular expression, or all names if there is no pattern.
pub(crate) fn name_filter(
    pattern: Option<&str>,
) -> Result<impl Fn(&str) -> bool + use<>, OperationError> {
    let pattern = pattern.map(regex::Regex::new).transpose();
    let pattern = pattern.map_err(|error| {
        OperationError::usage("the regular expression is not valid")
            .caused_by(error)
            .with_hint("write one such as '^local/'; put a backslash before a special character")
    })?;
    Ok(move |name: &str| {
        pattern
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(name))
    })
}
