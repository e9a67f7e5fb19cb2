//! [`Message`] and its [`Part`]s.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::fields::Fields;

/// Base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Sender of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The client.
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

impl Role {
    fn read(value: Option<&Value>) -> Result<Self, Error> {
        match value {
            Some(Value::String(text)) if text == "ROLE_USER" => Ok(Self::User),
            Some(Value::String(text)) if text == "ROLE_AGENT" => Ok(Self::Agent),
            Some(Value::Number(number)) if number.as_i64() == Some(1) => Ok(Self::User),
            Some(Value::Number(number)) if number.as_i64() == Some(2) => Ok(Self::Agent),
            _ => Err(Error::invalid_params(
                "`message.role` must be ROLE_USER or ROLE_AGENT",
            )),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum PartContent {
    Text(String),
    /// Bytes of a file, in standard base64 with padding.
    Raw(String),
    /// URL of a file.
    Url(String),
    /// Any JSON, including `null`.
    Data(Value),
    /// Content of an unknown kind, as another agent sent it.
    Unknown(Map<String, Value>),
}

/// A part of a message or of an artifact.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub content: PartContent,
    /// Name of the file.
    pub filename: Option<String>,
    /// Media type of the content.
    pub media_type: Option<String>,
    /// Facts about the part.
    pub metadata: Option<Map<String, Value>>,
}

impl Part {
    /// Creates a part without facts.
    pub const fn new(content: PartContent) -> Self {
        Self {
            content,
            filename: None,
            media_type: None,
            metadata: None,
        }
    }

    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(PartContent::Text(text.into()))
    }

    /// Creates a JSON part.
    pub const fn data(data: Value) -> Self {
        Self::new(PartContent::Data(data))
    }

    /// The text of a part without file name, media type and metadata, to append to; `None` for other parts.
    pub fn plain_text_mut(&mut self) -> Option<&mut String> {
        let is_plain =
            self.filename.is_none() && self.media_type.is_none() && self.metadata.is_none();
        match &mut self.content {
            PartContent::Text(text) if is_plain => Some(text),
            _ => None,
        }
    }

    /// Bytes of the contained file; `None` when there is none.
    pub fn raw_bytes(&self) -> Option<Vec<u8>> {
        match &self.content {
            PartContent::Raw(raw) => LENIENT.decode(raw).ok(),
            _ => None,
        }
    }

    /// Parses a part that a client sent: exactly one content. Base64 is accepted in both alphabets, with or without
    /// padding.
    pub fn read(value: &Value) -> Result<Self, Error> {
        let Value::Object(object) = value else {
            return Err(Error::invalid_field("parts", "a list of objects"));
        };
        let fields = Fields(object);
        let mut contents = Vec::with_capacity(1);
        for (name, content) in [
            ("text", PartContent::Text as fn(String) -> PartContent),
            ("url", PartContent::Url),
        ] {
            if let Some(value) = fields.get(name) {
                let text = value
                    .as_str()
                    .ok_or_else(|| Error::invalid_field(name, "a text"))?;
                contents.push(content(text.to_owned()));
            }
        }
        if let Some(value) = fields.get("raw") {
            let not_base64 = || Error::invalid_field("raw", "base64");
            let text = value.as_str().ok_or_else(not_base64)?;
            let standard = text.replace('-', "+").replace('_', "/");
            let bytes = LENIENT.decode(standard).map_err(|_| not_base64())?;
            contents.push(PartContent::Raw(STANDARD.encode(bytes)));
        }
        // Data may also be `null`.
        if let Some(data) = object.get("data") {
            contents.push(PartContent::Data(data.clone()));
        }
        let (Some(content), true) = (contents.pop(), contents.is_empty()) else {
            return Err(Error::invalid_params(
                "a part must have exactly one of `text`, `raw`, `url` and `data`",
            ));
        };
        Ok(Self {
            content,
            filename: fields.text("filename")?.map(str::to_owned),
            media_type: fields.text("mediaType")?.map(str::to_owned),
            metadata: fields.object("metadata")?.map(|fields| fields.0.clone()),
        })
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.content {
            PartContent::Text(text) => map.serialize_entry("text", text)?,
            PartContent::Raw(raw) => map.serialize_entry("raw", raw)?,
            PartContent::Url(url) => map.serialize_entry("url", url)?,
            PartContent::Data(data) => map.serialize_entry("data", data)?,
            PartContent::Unknown(members) => {
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
            }
        }
        if let Some(filename) = &self.filename {
            map.serialize_entry("filename", filename)?;
        }
        if let Some(media_type) = &self.media_type {
            map.serialize_entry("mediaType", media_type)?;
        }
        if let Some(metadata) = &self.metadata {
            map.serialize_entry("metadata", metadata)?;
        }
        map.end()
    }
}

/// Parses the stored form, to which [`Part`] serializes. [`Part::read`] parses parts from clients.
impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;

        impl<'de> Visitor<'de> for PartVisitor {
            type Value = Part;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a part of a message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part, A::Error> {
                let mut content = None;
                let (mut filename, mut media_type, mut metadata) = (None, None, None);
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "text" => content = Some(PartContent::Text(map.next_value()?)),
                        "raw" => content = Some(PartContent::Raw(map.next_value()?)),
                        "url" => content = Some(PartContent::Url(map.next_value()?)),
                        "data" => content = Some(PartContent::Data(map.next_value()?)),
                        "filename" => filename = map.next_value()?,
                        "mediaType" => media_type = map.next_value()?,
                        "metadata" => metadata = map.next_value()?,
                        _ => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(Part {
                    content: content.ok_or_else(|| A::Error::custom("a part is empty"))?,
                    filename,
                    media_type,
                    metadata,
                })
            }
        }

        deserializer.deserialize_map(PartVisitor)
    }
}

/// A message between a client and an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct Message {
    pub message_id: String,
    pub role: Role,
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

impl Message {
    /// Creates a message without context and task.
    pub fn new(message_id: impl Into<String>, role: Role, parts: Vec<Part>) -> Self {
        Self {
            message_id: message_id.into(),
            role,
            parts,
            context_id: None,
            task_id: None,
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
        }
    }

    /// Sets the context and the task.
    #[must_use]
    pub fn in_task(mut self, context_id: Option<&str>, task_id: Option<&str>) -> Self {
        self.context_id = context_id.map(str::to_owned);
        self.task_id = task_id.map(str::to_owned);
        self
    }

    /// Parses a message that a client sent.
    pub fn read(fields: Fields<'_>) -> Result<Self, Error> {
        let message_id = fields
            .id("messageId")?
            .ok_or_else(|| Error::invalid_params("`message.messageId` is missing"))?
            .to_owned();
        let role = Role::read(fields.get("role"))?;
        let parts = fields
            .list("parts")?
            .iter()
            .map(Part::read)
            .collect::<Result<Vec<_>, _>>()?;
        if parts.is_empty() {
            return Err(Error::invalid_params("`message.parts` is empty"));
        }
        Ok(Self {
            message_id,
            role,
            parts,
            extensions: texts(fields, "extensions")?,
            reference_task_ids: texts(fields, "referenceTaskIds")?,
            context_id: fields.id("contextId")?.map(str::to_owned),
            task_id: fields.id("taskId")?.map(str::to_owned),
            metadata: fields.object("metadata")?.map(|fields| fields.0.clone()),
        })
    }
}

fn texts(fields: Fields<'_>, name: &str) -> Result<Vec<String>, Error> {
    let items = fields.list(name)?.iter();
    items
        .map(|item| item.as_str().map(str::to_owned))
        .collect::<Option<_>>()
        .ok_or_else(|| Error::invalid_field(name, "a list of texts"))
}

#[cfg(test)]
mod tests {
    use super::{Fields, Message, Part};
    use serde_json::{Value, json};

    fn read(value: &Value) -> Result<Message, super::Error> {
        Message::read(Fields(value.as_object().expect("an object")))
    }

    #[test]
    fn both_spellings_are_read_and_one_is_written() {
        let message = read(&json!({
            "message_id": "m", "role": 1, "context_id": "c", "task_id": null, "unknown": 1,
            "parts": [{"text": "hi", "media_type": "text/plain", "url": null, "kind": "text"}],
            "reference_task_ids": ["t"],
        }))
        .expect("a message");
        assert_eq!(
            json!(message.in_task(Some("c"), Some("t"))),
            json!({
                "messageId": "m", "role": "ROLE_USER", "contextId": "c", "taskId": "t",
                "parts": [{"text": "hi", "mediaType": "text/plain"}], "referenceTaskIds": ["t"],
            })
        );
    }

    #[test]
    fn invalid_messages_are_refused() {
        let valid = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": ""}]});
        assert!(read(&valid).is_ok());
        let changes: [(&str, Value); 10] = [
            ("messageId", json!("")),
            ("messageId", json!("a\u{0}b")),
            ("role", json!("ROLE_UNSPECIFIED")),
            ("role", json!("user")),
            ("parts", json!([])),
            ("parts", json!([{}])),
            ("parts", json!([{"text": "a", "raw": "YQ=="}])),
            ("parts", json!([{"raw": "%"}])),
            ("parts", json!(["a"])),
            ("extensions", json!([1])),
        ];
        for (name, value) in changes {
            let mut message = valid.clone();
            message[name] = value;
            assert!(read(&message).is_err(), "{message}");
        }
    }

    #[test]
    fn base64_is_read_in_every_form_and_written_in_one() {
        for encoded in ["w6Q", "w6Q=", "_-8", "/+8="] {
            let part = Part::read(&json!({"raw": encoded})).expect("a part");
            let bytes = part.raw_bytes().expect("bytes");
            assert_eq!(bytes.len(), 2, "{encoded}");
            let serialized = json!(part);
            assert_eq!(
                serialized["raw"].as_str().map(str::len),
                Some(4),
                "{serialized}"
            );
        }
    }

    /// Messages stored by an earlier version.
    #[test]
    fn stored_messages_are_read_back_unchanged() {
        for stored in [
            r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"},{"data":null},{"raw":"YQ==","filename":"a","mediaType":"text/plain"},{"url":"https://x.example/f","metadata":{"k":[1]}}],"contextId":"c","taskId":"t","metadata":{"cleveragents":{"actor":"a"}},"extensions":["urn:x"],"referenceTaskIds":["o"]}"#,
            r#"{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"?"}],"contextId":"c","taskId":"t"}"#,
        ] {
            let message: Message = serde_json::from_str(stored).expect("a message");
            assert_eq!(serde_json::to_string(&message).expect("JSON"), stored);
        }
    }
}
