//! Reads a message: the text for the model, and the options for this program.

use cleveragents_a2a::{Message, Part, PartContent};
use serde_json::{Map, Value};

/// The member of the metadata, or of a data part, with options for this program: actor, action, namespace.
const OPTIONS: &str = "cleveragents";

/// The text of parts, for a model; `None` if a file is not valid UTF-8. Options for this program are omitted.
pub fn prompt_text(parts: &[Part]) -> Option<String> {
    let mut texts = Vec::new();
    for part in parts {
        match &part.content {
            PartContent::Text(text) | PartContent::Url(text) => texts.push(text.clone()),
            PartContent::Raw(_) => texts.push(String::from_utf8(part.raw_bytes()?).ok()?),
            PartContent::Data(data) if data.get(OPTIONS).is_none() => texts.push(data.to_string()),
            PartContent::Data(_) | PartContent::Unknown(_) => {}
        }
    }
    Some(texts.join("\n"))
}

/// The options for this program in a message: `cleveragents` of the metadata, or of a data part.
pub fn task_options(message: &Message) -> Option<&Map<String, Value>> {
    let data = message.parts.iter().filter_map(|part| match &part.content {
        PartContent::Data(data) => data.as_object(),
        _ => None,
    });
    let mut all = message.metadata.iter().chain(data);
    all.find(|fields| fields.contains_key(OPTIONS))?
        .get(OPTIONS)?
        .as_object()
}

#[cfg(test)]
mod tests {
    use super::{prompt_text, task_options};
    use cleveragents_a2a::{Fields, Message, Part};
    use serde_json::{Value, json};

    fn read(value: &Value) -> Message {
        Message::read(Fields(value.as_object().expect("an object"))).expect("a message")
    }

    #[test]
    fn parts_become_the_prompt() {
        let message = read(&json!({"messageId": "m", "role": "ROLE_USER", "parts": [
            {"text": "a"}, {"raw": "w6Q"}, {"data": {"k": 1}}, {"data": {"cleveragents": {}}},
            {"url": "https://x.example/f"},
        ]}));
        assert_eq!(
            prompt_text(&message.parts).as_deref(),
            Some("a\nä\n{\"k\":1}\nhttps://x.example/f")
        );
        let binary = Part::read(&json!({"raw": "/w=="})).expect("a part");
        assert_eq!(prompt_text(&[binary]), None);
    }

    #[test]
    fn options_come_from_the_metadata_or_from_a_data_part() {
        let options = json!({"actor": "acme/a"});
        let parts = json!([{"text": "a"}, {"data": {"cleveragents": options}}]);
        let in_part = read(&json!({"messageId": "m", "role": "ROLE_USER", "parts": parts}));
        let in_metadata = read(&json!({
            "messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}],
            "metadata": {"cleveragents": options},
        }));
        for message in [in_part, in_metadata] {
            assert_eq!(task_options(&message), options.as_object());
        }
        let without =
            read(&json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]}));
        assert_eq!(task_options(&without), None);
    }
}
