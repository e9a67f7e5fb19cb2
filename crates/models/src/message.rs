//! What is said to a model and what it says: messages, tool calls and their results.
//!
//! All of these are stored with the messages of a session, so their JSON form is a promise:
//! fields are only ever added, and with a default.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    /// What the person, or the program in their name, says.
    User {
        /// Texts and images, in order.
        parts: Vec<UserPart>,
    },
    /// What a model answered.
    Assistant(AssistantMessage),
    /// What tools gave back for the calls of the answer before.
    Tool {
        /// One result for each call.
        results: Vec<ToolResult>,
    },
}

impl ChatMessage {
    /// A message of the user that is one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            parts: vec![UserPart::Text(text.into())],
        }
    }
}

/// A piece of a user's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPart {
    /// A text.
    Text(String),
    /// A picture.
    Image {
        /// What it is, such as `image/png`.
        media_type: String,
        /// Its bytes; base64 when stored.
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
    },
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The answer for the person.
    #[serde(default)]
    pub text: String,
    /// What it thought on the way, as far as the provider shows or seals it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Reasoning>,
    /// The tools it wants to be called, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
}

/// A stretch of thought. Providers want it back unchanged while tools are being called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// What can be read of it; empty when it is sealed.
    #[serde(default)]
    pub text: String,
    /// The provider that made it. It is never sent to another.
    pub provider: String,
    /// What the provider needs to recognise it (a signature, sealed content); opaque to us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Value>,
    /// How many bytes of the text came before it.
    #[serde(default)]
    pub after_text: usize,
    /// How many calls came before it.
    #[serde(default)]
    pub after_calls: usize,
}

/// A wish of a model to have a tool called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What its result must name.
    pub id: String,
    /// The name of the tool, as it was offered to the model.
    pub name: String,
    /// The arguments exactly as the model wrote them: JSON, unless the model made a mistake.
    pub arguments: String,
    /// A signature that the provider wants back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call_id: String,
    /// What the model reads.
    pub content: String,
    /// Whether the tool failed or was refused.
    #[serde(default)]
    pub is_error: bool,
    /// Pictures that it gave. They are kept with the call and not with the message.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
}

/// A picture that a tool gave.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// What it is, such as `image/png`.
    pub media_type: String,
    /// Its bytes.
    pub data: Vec<u8>,
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "[{}, {} bytes]",
            self.media_type,
            self.data.len()
        )
    }
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Its name: letters, digits, `_` and `-`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments, an object.
    pub input_schema: Value,
}

mod base64_bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{AssistantMessage, ChatMessage, Reasoning, ToolCall, ToolResult, UserPart};
    use serde_json::json;

    /// The form in which sessions keep messages; a change here breaks what is stored.
    #[test]
    fn the_stored_form_is_stable() {
        let messages = vec![
            ChatMessage::User {
                parts: vec![
                    UserPart::Text("look".to_owned()),
                    UserPart::Image {
                        media_type: "image/png".to_owned(),
                        data: vec![0, 255, 16],
                    },
                ],
            },
            ChatMessage::Assistant(AssistantMessage {
                text: "I read".to_owned(),
                reasoning: vec![Reasoning {
                    text: "hm".to_owned(),
                    provider: "anthropic".to_owned(),
                    seal: Some(json!({"signature": "s"})),
                    after_text: 6,
                    after_calls: 0,
                }],
                calls: vec![ToolCall {
                    id: "c1".to_owned(),
                    name: "read".to_owned(),
                    arguments: "{\"path\": ".to_owned(),
                    signature: None,
                }],
            }),
            ChatMessage::Tool {
                results: vec![ToolResult {
                    pictures: Vec::new(),
                    call_id: "c1".to_owned(),
                    content: "bad".to_owned(),
                    is_error: true,
                }],
            },
        ];
        let stored = json!([
            {"role": "user", "parts": [
                {"text": "look"},
                {"image": {"media_type": "image/png", "data": "AP8Q"}},
            ]},
            {"role": "assistant", "text": "I read",
             "reasoning": [{"text": "hm", "provider": "anthropic", "seal": {"signature": "s"},
                            "after_text": 6, "after_calls": 0}],
             "calls": [{"id": "c1", "name": "read", "arguments": "{\"path\": "}]},
            {"role": "tool", "results": [{"call_id": "c1", "content": "bad", "is_error": true}]},
        ]);
        assert_eq!(serde_json::to_value(&messages).expect("JSON"), stored);
        let back: Vec<ChatMessage> = serde_json::from_value(stored).expect("messages");
        assert_eq!(back, messages);
    }
}
