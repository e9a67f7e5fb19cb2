//! Messages of a conversation with a model, tool calls and their results.
//!
//! All of these are stored with the messages of a session, so their JSON format is stable: fields
//! are only ever added, and with a default.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ChatMessage {
    /// A message of the user, or of the program on their behalf.
    User {
        /// Texts and images, in order.
        parts: Vec<UserPart>,
    },
    /// An answer of a model.
    Assistant(AssistantMessage),
    /// Results of the tool calls of the previous answer.
    Tool {
        /// One result for each call.
        results: Vec<ToolResult>,
    },
}

impl ChatMessage {
    /// Creates a user message from one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User {
            parts: vec![UserPart::Text(text.into())],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPart {
    Text(String),
    Image {
        /// Media type, such as `image/png`.
        media_type: String,
        /// Bytes of the file; base64 when stored.
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
    },
}

/// An answer of a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Answer text for the user.
    #[serde(default)]
    pub text: String,
    /// Reasoning blocks: readable text, or sealed data of the provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Reasoning>,
    /// Requested tool calls, in the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
}

/// A reasoning block. While tools are being called, providers require it unchanged in the next request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// Readable text; empty when the block is sealed.
    #[serde(default)]
    pub text: String,
    /// Provider that created the block. The block is never sent to another provider.
    pub provider: String,
    /// Opaque data by which the provider recognises the block, such as a signature or encrypted content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Value>,
    /// Number of bytes of the answer text before the block.
    #[serde(default)]
    pub after_text: usize,
    /// Number of tool calls before the block.
    #[serde(default)]
    pub after_calls: usize,
}

/// A tool call requested by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id that the result must contain.
    pub id: String,
    /// Name of the tool, as it was offered to the model.
    pub name: String,
    /// Arguments exactly as the model wrote them: JSON, unless the model made a mistake.
    pub arguments: String,
    /// Signature that the provider requires with the call in the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call_id: String,
    /// Content for the model.
    pub content: String,
    /// Whether the tool failed or was refused.
    #[serde(default)]
    pub is_error: bool,
    /// Images of the result. They are stored with the call, not with the message.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
}

/// An image returned by a tool.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Bytes of the file.
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

/// A tool offered to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Name: letters, digits, `_` and `-`.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON schema of its arguments, an object.
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

    /// The format in which sessions store messages; a change here breaks stored data.
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
