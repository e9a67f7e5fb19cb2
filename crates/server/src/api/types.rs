//! What the API takes and gives, from which the OpenAPI document is made.

use cleveragents_domain::{Event, Message, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A conversation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SessionDocument {
    /// Its id.
    pub(crate) id: String,
    /// What people call it.
    pub(crate) name: Option<String>,
    /// The actor that answers in it.
    pub(crate) actor: Option<String>,
    /// Where it belongs.
    pub(crate) namespace: String,
    /// The automation profile its plans start with.
    pub(crate) automation: String,
    /// How many messages it holds, which is also the number of the next one.
    pub(crate) message_count: u64,
    /// The version of name, actor and settings; also its `ETag`.
    pub(crate) version: u64,
    /// When it was made.
    pub(crate) created_at: String,
    /// When it last changed, messages included.
    pub(crate) updated_at: String,
}

impl From<&Session> for SessionDocument {
    fn from(session: &Session) -> Self {
        Self {
            id: session.id.to_string(),
            name: session.name.as_ref().map(ToString::to_string),
            actor: session.actor.as_ref().map(ToString::to_string),
            namespace: session.namespace.clone(),
            automation: session.automation.clone(),
            message_count: session.message_count,
            version: session.version.0,
            created_at: session.created_at.to_string(),
            updated_at: session.updated_at.to_string(),
        }
    }
}

/// A conversation to be made.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSessionDocument {
    /// What people call it.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The actor that answers in it.
    #[serde(default)]
    pub(crate) actor: Option<String>,
    /// Where it belongs; may be left out by who can write to one namespace only.
    #[serde(default)]
    pub(crate) namespace: Option<String>,
}

/// A message of a conversation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MessageDocument {
    /// Its id.
    pub(crate) id: String,
    /// Its number, from 0 and without gap.
    pub(crate) sequence: u64,
    /// Who said it.
    pub(crate) role: String,
    /// What was said.
    pub(crate) content: String,
    /// Facts about it.
    pub(crate) metadata: Map<String, Value>,
    /// When it was said.
    pub(crate) created_at: String,
}

impl From<&Message> for MessageDocument {
    fn from(message: &Message) -> Self {
        Self {
            id: message.id.to_string(),
            sequence: message.sequence.0,
            role: message.role.as_str().to_owned(),
            content: message.content.clone(),
            metadata: message.metadata.clone(),
            created_at: message.created_at.to_string(),
        }
    }
}

/// A message to be appended.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessageDocument {
    /// Who says it: `user`, `assistant`, `system` or `tool`.
    pub(crate) role: String,
    /// What is said.
    pub(crate) content: String,
    /// Facts about it.
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
}

/// A message that is stored.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct StoredDocument {
    /// Its id.
    pub(crate) id: String,
    /// Its number.
    pub(crate) sequence: u64,
}

/// A page of a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Page<T> {
    /// What is on the page.
    pub(crate) items: Vec<T>,
    /// What to send as `cursor` for the next page; nothing on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// Something that happened.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EventDocument<'e> {
    /// Its place in the log; also the `id` of the server-sent event.
    pub(crate) position: u64,
    /// What happened, such as `plan.created`.
    pub(crate) kind: &'static str,
    /// The id of what it happened to.
    pub(crate) subject: &'e str,
    /// Where that belongs; nothing when it belongs nowhere.
    pub(crate) namespace: Option<&'e str>,
    /// Facts about it.
    pub(crate) payload: &'e Value,
    /// When.
    pub(crate) occurred_at: String,
}

impl<'e> EventDocument<'e> {
    /// An event of a namespace.
    pub(crate) fn of(event: &'e Event, namespace: Option<&'e str>) -> Self {
        Self {
            position: event.position.0,
            kind: event.kind.as_str(),
            subject: &event.subject,
            namespace,
            payload: &event.payload,
            occurred_at: event.occurred_at.to_string(),
        }
    }
}
