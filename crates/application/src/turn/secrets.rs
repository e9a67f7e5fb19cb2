//! Removes secrets from the answers of models before they are stored or displayed.
//!
//! A call still runs with the original arguments of the model, which are kept only in memory. After a
//! crash, a call with a secret can therefore not run, and the model receives an error for it.

use std::borrow::Cow;
use std::collections::HashMap;

use cleveragents_models::{AssistantMessage, MASK, Redactor, ToolCall, ToolResult};
use cleveragents_tools::ports::Redact;
use serde_json::Value;

/// Implements the [`Redact`] port of the tools with a [`Redactor`].
pub(crate) struct Secrets<'a>(pub(crate) &'a Redactor);

impl Redact for Secrets<'_> {
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.text(text)
    }

    fn unfinished(&self, text: &str) -> usize {
        self.0.unfinished(text)
    }
}

/// Removes the secrets of an answer. Returns the original arguments, by call id, of the calls that
/// contained a secret.
pub(super) fn take_out(
    message: &mut AssistantMessage,
    redactor: &Redactor,
) -> HashMap<String, String> {
    let clean = |text: &mut String| {
        if let Cow::Owned(cleaned) = redactor.text(text) {
            *text = cleaned;
        }
    };
    clean(&mut message.text);
    for thought in &mut message.reasoning {
        clean(&mut thought.text);
    }
    let mut written = HashMap::new();
    for call in &mut message.calls {
        clean(&mut call.name);
        if let Some(cleaned) = clean_arguments(&call.arguments, redactor) {
            let raw = std::mem::replace(&mut call.arguments, cleaned);
            written.insert(call.id.clone(), raw);
        }
    }
    written
}

/// Arguments without secrets, as JSON; `None` when they contain no secret.
fn clean_arguments(arguments: &str, redactor: &Redactor) -> Option<String> {
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => {
            let cleaned = redactor.value(&value);
            (cleaned != value).then(|| cleaned.to_string())
        }
        Err(_) => match redactor.text(arguments) {
            Cow::Borrowed(_) => None,
            Cow::Owned(cleaned) => Some(cleaned),
        },
    }
}

/// The result of a call whose original arguments are lost because they contained a secret.
pub(super) fn lost(call: &ToolCall) -> Option<ToolResult> {
    call.arguments.contains(MASK).then(|| ToolResult {
        pictures: Vec::new(),
        call_id: call.id.clone(),
        content: "This call did not run: its arguments contained a secret, and secrets are not \
            stored. Make the call again if it is needed."
            .to_owned(),
        is_error: true,
    })
}

#[cfg(test)]
mod tests {
    use super::{lost, take_out};
    use cleveragents_models::{AssistantMessage, Redactor, Secret, ToolCall};

    const KEY: &str = "sk-0123456789abcdefghij";

    fn call(id: &str, arguments: String) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: "tool".to_owned(),
            arguments,
            signature: None,
        }
    }

    #[test]
    fn a_call_runs_with_its_original_arguments_and_is_stored_without_its_secret() {
        let written = format!(r#"{{"command":"export TOKEN=\"{KEY}\""}}"#);
        let mut message = AssistantMessage {
            text: format!("I use {KEY}."),
            calls: vec![
                call("plain", r#"{ "password": "changeme" }"#.to_owned()),
                call("secret", written.clone()),
                call("broken", format!("{{\"x\": \"{KEY}")),
            ],
            ..AssistantMessage::default()
        };
        let raw = take_out(&mut message, &Redactor::new([Secret::new(KEY)]));
        assert!(!format!("{message:?}").contains(KEY), "{message:?}");
        assert_eq!(message.calls[0].arguments, r#"{ "password": "changeme" }"#);
        let stored: serde_json::Value =
            serde_json::from_str(&message.calls[1].arguments).expect("still JSON");
        assert!(
            stored["command"]
                .as_str()
                .expect("text")
                .starts_with("export")
        );
        assert_eq!(raw["secret"], written);
        assert_eq!(raw.len(), 2);
        assert!(lost(&message.calls[0]).is_none());
        assert!(lost(&message.calls[1]).is_some());
    }
}
