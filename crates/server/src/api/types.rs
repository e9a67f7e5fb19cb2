//! What the API takes and gives, from which the OpenAPI document is made.

use cleveragents_application::{ListedPlan, OperationEntry, SearchHit};
use cleveragents_domain::{Event, Message, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::program::Operation;

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
    /// Who says it.
    #[schemars(extend("enum" = ["user", "assistant", "system", "tool"]))]
    pub(crate) role: String,
    /// What is said.
    #[schemars(length(min = 1))]
    pub(crate) content: String,
    /// Facts about it.
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
}

/// A conversation as it shall be.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedSessionDocument {
    /// What people call it: one line.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) name: String,
}

/// A conversation to be made from another.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkDocument {
    /// The number of the last message that is taken; all of them when left out.
    #[serde(default)]
    pub(crate) at: Option<u64>,
    /// What people call the new one; the name of the first when left out.
    #[serde(default)]
    pub(crate) name: Option<String>,
}

/// A message, or a list of them. Only its schema is used: which of the two it is is seen at the first character.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum NewMessagesDocument {
    /// One.
    One(NewMessageDocument),
    /// Several, which are stored together.
    Many(Vec<NewMessageDocument>),
}

/// What was stored: one for a message, a list for a list. Only its schema is used.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum StoredMessagesDocument {
    /// One.
    One(StoredDocument),
    /// Several, in the order in which they were given.
    Many(Vec<StoredDocument>),
}

/// A message that was found.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct HitDocument {
    /// The conversation it is in.
    pub(crate) session: String,
    /// What people call that conversation.
    pub(crate) session_name: Option<String>,
    /// Its id.
    pub(crate) id: String,
    /// Its number.
    pub(crate) sequence: u64,
    /// Who said it.
    pub(crate) role: String,
    /// The words around what was found, which is between the characters U+0002 and U+0003.
    pub(crate) excerpt: String,
    /// How well it matches; better is greater.
    pub(crate) score: f64,
    /// When it was said.
    pub(crate) created_at: String,
}

impl From<&SearchHit> for HitDocument {
    fn from(hit: &SearchHit) -> Self {
        Self {
            session: hit.session.to_string(),
            session_name: hit.session_name.as_ref().map(ToString::to_string),
            id: hit.message.to_string(),
            sequence: hit.sequence.0,
            role: hit.role.as_str().to_owned(),
            excerpt: hit.excerpt.clone(),
            score: hit.score,
            created_at: hit.created_at.to_string(),
        }
    }
}

/// A question for the actor of a conversation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTurnDocument {
    /// What is asked; left out to go on with a turn that was cut off.
    #[serde(default)]
    pub(crate) prompt: Option<String>,
    /// The actor that answers; that of the conversation when left out.
    #[serde(default)]
    pub(crate) actor: Option<String>,
}

/// How a turn ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct TurnDocument {
    /// `answered`, `waiting` (for a person, who answers with the next turn) or `stopped`.
    pub(crate) state: &'static str,
    /// The answer, or what is asked of a person.
    pub(crate) text: Option<String>,
}

/// A plan, as a list shows it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PlanDocument {
    /// Its id.
    pub(crate) id: String,
    /// What people call it.
    pub(crate) name: Option<String>,
    /// What it was made from.
    pub(crate) action: String,
    /// Where it belongs.
    pub(crate) namespace: String,
    /// Its phase and its state, such as `execute/processing`.
    pub(crate) stage: String,
    /// Whether it waits for a person.
    pub(crate) is_waiting: bool,
    /// When it was made.
    pub(crate) created_at: String,
    /// When it last changed.
    pub(crate) updated_at: String,
}

impl From<&ListedPlan> for PlanDocument {
    fn from(plan: &ListedPlan) -> Self {
        Self {
            id: plan.id.to_string(),
            name: plan.name.clone(),
            action: plan.action.clone(),
            namespace: plan.namespace.clone(),
            stage: plan.stage.clone(),
            is_waiting: plan.is_waiting,
            created_at: plan.created_at.to_string(),
            updated_at: plan.updated_at.to_string(),
        }
    }
}

/// Something that can be asked for.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct OperationDocument {
    /// Its name, to be sent as the end of the path.
    pub(crate) name: String,
    /// One sentence about it.
    pub(crate) summary: String,
    /// The part of the server it belongs to.
    pub(crate) scope: String,
    /// The least role that may ask for it.
    pub(crate) role: String,
    /// The JSON schema of its parameters.
    pub(crate) parameters: Value,
    /// The JSON schema of its data, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl From<&OperationEntry> for OperationDocument {
    fn from(entry: &OperationEntry) -> Self {
        Self {
            name: entry.name.to_owned(),
            summary: entry.summary.to_owned(),
            scope: entry.requirement.scope.to_string(),
            role: entry.requirement.permission.least_role().to_string(),
            parameters: (entry.request)().to_value(),
            data: Some((entry.response)().to_value()),
        }
    }
}

impl From<&Operation> for OperationDocument {
    fn from(operation: &Operation) -> Self {
        Self {
            name: operation.name.clone(),
            summary: operation.summary.clone(),
            scope: operation.scope.to_string(),
            role: operation.permission.least_role().to_string(),
            parameters: operation.parameters.clone(),
            data: None,
        }
    }
}

/// What came of an operation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct DoneDocument {
    /// What it gives, as the command gives it with `--format json`.
    pub(crate) data: Value,
    /// The exit code of the command.
    pub(crate) exit_code: u8,
}

/// That something is being done.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AcceptedDocument {
    /// The plan.
    pub(crate) id: String,
    /// Where to look how it goes.
    pub(crate) status: String,
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
