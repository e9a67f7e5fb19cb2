//! Types of requests and responses of the API, from which the OpenAPI document is generated.

use cleveragents_application::{ListedPlan, OperationEntry, SearchHit};
use cleveragents_domain::{Event, Message, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A conversation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct SessionDocument {
    /// The id of the conversation, a ULID.
    pub(crate) id: String,
    /// The name, if it has one.
    pub(crate) name: Option<String>,
    /// The actor that answers messages.
    pub(crate) actor: Option<String>,
    /// The namespace that it belongs to.
    pub(crate) namespace: String,
    /// The automation profile its plans start with.
    pub(crate) automation: String,
    /// The number of messages, which is also the number of the next message.
    pub(crate) message_count: u64,
    /// The version of name, actor and settings; also its `ETag`.
    pub(crate) version: u64,
    /// Creation time.
    pub(crate) created_at: String,
    /// Time of the last change, messages included.
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

/// A conversation to create.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSessionDocument {
    /// The name: one line.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The actor that answers messages.
    #[serde(default)]
    pub(crate) actor: Option<String>,
    /// The namespace; optional for callers that may write to only one namespace.
    #[serde(default)]
    pub(crate) namespace: Option<String>,
}

/// A message of a conversation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct MessageDocument {
    /// The id of the message, a ULID.
    pub(crate) id: String,
    /// The number of the message in its conversation, from 0 without gaps.
    pub(crate) sequence: u64,
    /// The author: `user`, `assistant`, `system` or `tool`.
    pub(crate) role: String,
    /// The text.
    pub(crate) content: String,
    /// Arbitrary data of the client.
    pub(crate) metadata: Map<String, Value>,
    /// Creation time.
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

/// A message to append.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessageDocument {
    /// The author: `user`, `assistant`, `system` or `tool`.
    #[schemars(extend("enum" = ["user", "assistant", "system", "tool"]))]
    pub(crate) role: String,
    /// The text.
    #[schemars(length(min = 1))]
    pub(crate) content: String,
    /// Arbitrary data of the client.
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
}

/// Changes to a conversation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedSessionDocument {
    /// The new name: one line.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) name: String,
}

/// A fork of a conversation to create.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkDocument {
    /// The number of the last message to copy; default: all messages.
    #[serde(default)]
    pub(crate) at: Option<u64>,
    /// The name of the fork; default: the name of the original.
    #[serde(default)]
    pub(crate) name: Option<String>,
}

/// A message, or a list of messages. Only its schema is used: the first character of the body decides between the two.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum NewMessagesDocument {
    /// A single message.
    One(NewMessageDocument),
    /// Several messages, stored in one unit of work.
    Many(Vec<NewMessageDocument>),
}

/// The stored messages: an object for a single message, a list for a list. Only its schema is used.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum StoredMessagesDocument {
    /// A single message.
    One(StoredDocument),
    /// Several messages, in the order of the request.
    Many(Vec<StoredDocument>),
}

/// A search result.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct HitDocument {
    /// The id of the conversation.
    pub(crate) session: String,
    /// The name of the conversation.
    pub(crate) session_name: Option<String>,
    /// The id of the message.
    pub(crate) id: String,
    /// The number of the message in its conversation.
    pub(crate) sequence: u64,
    /// The author: `user`, `assistant`, `system` or `tool`.
    pub(crate) role: String,
    /// The words around the match, which is enclosed in the characters U+0002 and U+0003.
    pub(crate) excerpt: String,
    /// The score of the match; higher is better.
    pub(crate) score: f64,
    /// Creation time of the message.
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

/// A message for the actor of a conversation.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTurnDocument {
    /// The message; left out to resume an interrupted turn.
    #[serde(default)]
    pub(crate) prompt: Option<String>,
    /// The actor that answers; default: the actor of the conversation.
    #[serde(default)]
    pub(crate) actor: Option<String>,
}

/// The result of a turn.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct TurnDocument {
    /// `answered`, `waiting` (for the user, who answers with the next turn) or `stopped`.
    pub(crate) state: &'static str,
    /// The answer, or the question to the user.
    pub(crate) text: Option<String>,
}

/// A plan in a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct PlanDocument {
    /// The id of the plan, a ULID.
    pub(crate) id: String,
    /// The name, if it has one.
    pub(crate) name: Option<String>,
    /// The name of the action that it was created from.
    pub(crate) action: String,
    /// The namespace that it belongs to.
    pub(crate) namespace: String,
    /// The phase and the state, such as `execute/processing`.
    pub(crate) stage: String,
    /// True if the plan waits for the user.
    pub(crate) is_waiting: bool,
    /// Creation time.
    pub(crate) created_at: String,
    /// Time of the last change.
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

/// An operation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct OperationDocument {
    /// The name, which is the end of its path.
    pub(crate) name: String,
    /// Description of the operation in one sentence.
    pub(crate) summary: String,
    /// The area of the server that it belongs to.
    pub(crate) scope: String,
    /// The lowest role that may run it.
    pub(crate) role: String,
    /// The JSON schema of its parameters.
    pub(crate) parameters: Value,
    /// The JSON schema of its response.
    pub(crate) data: Value,
    /// True if the operation runs agents, whose events can be streamed.
    pub(crate) runs_agents: bool,
}

impl From<&OperationEntry> for OperationDocument {
    fn from(entry: &OperationEntry) -> Self {
        Self {
            name: entry.name.to_owned(),
            summary: entry.summary.to_owned(),
            scope: entry.requirement.scope.to_string(),
            role: entry.requirement.permission.least_role().to_string(),
            parameters: (entry.request)().to_value(),
            data: (entry.response)().to_value(),
            runs_agents: entry.runs_agents,
        }
    }
}

/// The response of an operation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct DoneDocument {
    /// The response, which the command prints as `data` with `--format json`.
    pub(crate) data: Value,
}

/// A request that was accepted and is processed in the background.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct AcceptedDocument {
    /// The id of the plan.
    pub(crate) id: String,
    /// The path of its status.
    pub(crate) status: String,
}

/// A stored message.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct StoredDocument {
    /// The id of the message.
    pub(crate) id: String,
    /// The number of the message in its conversation.
    pub(crate) sequence: u64,
}

/// A page of a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Page<T> {
    /// The items on this page.
    pub(crate) items: Vec<T>,
    /// The `cursor` of the next page; `null` on the last page.
    pub(crate) next_cursor: Option<String>,
}

/// An event.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct EventDocument<'e> {
    /// Its position in the event log; also the `id` of the server-sent event.
    pub(crate) position: u64,
    /// The kind of event, such as `plan.created`.
    pub(crate) kind: &'static str,
    /// The id of the object that it concerns.
    pub(crate) subject: &'e str,
    /// The namespace of that object; `null` if it belongs to none.
    pub(crate) namespace: Option<&'e str>,
    /// Data of the event.
    pub(crate) payload: &'e Value,
    /// Time of the event.
    pub(crate) occurred_at: String,
}

impl<'e> EventDocument<'e> {
    pub(crate) fn new(event: &'e Event, namespace: Option<&'e str>) -> Self {
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
