//! [`ContextService`]: named conversations that runs of actors continue.

use std::sync::Arc;

use cleveragents_domain::{
    Code, Diagnose, EventKind, Hint, Message, Metadata, NewMessage, Placeholder, Role, Sequence,
    SessionId, TokenUsage, hint, nearest, suggest,
};
use cleveragents_store::contexts::{self, Context};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{Engine, Error, UnitOfWork, messages, resources, sessions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::session::{SessionError, SessionService};

/// Failure of the context service.
#[derive(Debug, thiserror::Error)]
pub enum ContextServiceError {
    /// No context has this name.
    #[error("there is no context named `{name}`")]
    NotFound {
        /// The given name.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// A context with this name exists already.
    #[error("a context named `{0}` exists already")]
    Exists(String),
    /// The name is not allowed.
    #[error("`{0}` cannot name a context: use at most 100 letters, digits, `_`, `-` or `.`")]
    Name(String),
    /// The file is not a context.
    #[error("the file is not a context: {0}")]
    Malformed(String),
    /// A message cannot be stored.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Diagnose for ContextServiceError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::ContextNotFound,
            Self::Exists(_) => Code::ContextExists,
            Self::Name(_) | Self::Malformed(_) => Code::MalformedContext,
            Self::Session(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound {
                nearest: Some(name),
                ..
            } => Some(hint!(
                "did you mean `{}`? {} lists all",
                name,
                suggest::actor_context_list()
            )),
            Self::NotFound { .. } => Some(hint!(
                "{} lists all; {} creates one",
                suggest::actor_context_list(),
                suggest::actor_run_with_context(Placeholder("NAME"))
            )),
            Self::Exists(name) => Some(hint!(
                "choose another name with --name, or remove it first: {}",
                suggest::actor_context_remove(name)
            )),
            Self::Name(_) => Some("choose another name".into()),
            Self::Malformed(_) => Some(hint!(
                "{} writes one, as JSON or as YAML",
                suggest::actor_context_export(Placeholder("NAME"))
            )),
            Self::Session(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedContext {
    pub name: String,
    /// Messages, oldest first.
    pub messages: Vec<ContextMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextMessage {
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// Text of the message.
    pub content: String,
}

/// Manages the contexts of actors.
#[derive(Clone)]
pub struct ContextService {
    engine: Arc<Engine>,
    sessions: SessionService,
}

impl ContextService {
    /// A service for a store.
    pub const fn new(engine: Arc<Engine>, sessions: SessionService) -> Self {
        Self { engine, sessions }
    }

    /// All contexts, sorted by name.
    pub fn list(&self) -> Result<Vec<Context>, ContextServiceError> {
        Ok(self.engine.read(contexts::list)?)
    }

    /// Returns the context with this name.
    pub fn get(&self, name: &str) -> Result<Context, ContextServiceError> {
        if let Some(found) = self.engine.read(|reader| contexts::get(reader, name))? {
            return Ok(found);
        }
        let known: Vec<String> = self.list()?.into_iter().map(|found| found.name).collect();
        Err(ContextServiceError::NotFound {
            name: name.to_owned(),
            nearest: nearest::best(name, known.iter().map(String::as_str)),
        })
    }

    /// Messages of a context in the format of runs; empty if the context does not exist yet.
    pub fn messages_for_run(&self, name: &str) -> Result<Vec<Value>, ContextServiceError> {
        check_name(name)?;
        let Some(found) = self.engine.read(|reader| contexts::get(reader, name))? else {
            return Ok(Vec::new());
        };
        let messages = self.messages(found.session)?;
        Ok(messages
            .into_iter()
            .map(|message| json!({"role": message.role, "content": message.content}))
            .collect())
    }

    fn messages(&self, session: SessionId) -> Result<Vec<ContextMessage>, ContextServiceError> {
        let all = self
            .sessions
            .messages(session, Sequence(0), i64::MAX.unsigned_abs())?;
        Ok(all
            .into_iter()
            .map(|Message { role, content, .. }| ContextMessage {
                role: role.as_str().to_owned(),
                content,
            })
            .collect())
    }

    /// Appends messages to a context atomically; creates the context if it does not exist.
    pub fn add(&self, name: &str, messages: &[ContextMessage]) -> Result<(), ContextServiceError> {
        check_name(name)?;
        let messages = self.validated_messages(messages)?;
        let key = name.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let session = match contexts::get(unit, &key)? {
                Some(found) => found.session,
                None => create_context(unit, &key)?,
            };
            messages::append(unit, session, &messages, AppendEvents::Each)?;
            Ok::<(), Error>(())
        })?;
        Ok(())
    }

    fn validated_messages(
        &self,
        messages: &[ContextMessage],
    ) -> Result<Vec<AppendedMessage>, ContextServiceError> {
        messages
            .iter()
            .map(|message| {
                let role = role(&message.role)?;
                let content = message.content.clone();
                let message: NewMessage = self.sessions.message(role, content, Metadata::new())?;
                Ok(AppendedMessage::from(message))
            })
            .collect()
    }

    /// Removes all messages of a context but keeps the context. Returns the number of removed messages.
    pub fn clear(&self, name: &str) -> Result<u64, ContextServiceError> {
        let found = self.get(name)?;
        let key = name.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            // Deleting the conversation deletes its messages and the context.
            sessions::delete(unit, found.session)?;
            create_context(unit, &key)
        })?;
        Ok(found.messages)
    }

    /// Removes a context with all its messages.
    pub fn remove(&self, name: &str) -> Result<Context, ContextServiceError> {
        let found = self.get(name)?;
        let session = found.session;
        self.engine
            .write(move |unit| sessions::delete(unit, session))?;
        Ok(found)
    }

    /// A context in the export format.
    pub fn export(&self, name: &str) -> Result<ExportedContext, ContextServiceError> {
        let found = self.get(name)?;
        Ok(ExportedContext {
            name: found.name,
            messages: self.messages(found.session)?,
        })
    }

    /// Stores a context from a file, atomically.
    pub fn import(&self, context: &ExportedContext) -> Result<Context, ContextServiceError> {
        check_name(&context.name)?;
        let messages = self.validated_messages(&context.messages)?;
        let key = context.name.clone();
        let is_new = self.engine.write(move |unit| {
            resources::lock(unit)?;
            if contexts::get(unit, &key)?.is_some() {
                return Ok::<bool, Error>(false);
            }
            let session = create_context(unit, &key)?;
            messages::append(unit, session, &messages, AppendEvents::Each)?;
            Ok(true)
        })?;
        if is_new {
            self.get(&context.name)
        } else {
            Err(ContextServiceError::Exists(context.name.clone()))
        }
    }
}

/// Parses an exported context; JSON is valid YAML.
pub fn read_context(text: &str) -> Result<ExportedContext, ContextServiceError> {
    let context: ExportedContext = cleveragents_domain::yaml::read(text).map_err(|fault| {
        let place = fault
            .place
            .map(|(line, column)| format!("line {line}, column {column}: "))
            .unwrap_or_default();
        ContextServiceError::Malformed(format!("{place}{fault}"))
    })?;
    for message in &context.messages {
        role(&message.role)?;
    }
    Ok(context)
}

fn role(name: &str) -> Result<Role, ContextServiceError> {
    match name {
        "assistant" => Ok(Role::Assistant),
        "system" => Ok(Role::System),
        "user" => Ok(Role::User),
        other => Err(ContextServiceError::Malformed(format!(
            "there is no role `{other}`; write user, assistant or system"
        ))),
    }
}

fn check_name(name: &str) -> Result<(), ContextServiceError> {
    let legal = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let is_first_legal = name.chars().next().is_some_and(char::is_alphanumeric);
    if is_first_legal && name.chars().all(legal) && name.chars().count() <= 100 {
        Ok(())
    } else {
        Err(ContextServiceError::Name(name.to_owned()))
    }
}

/// Creates a context. The caller must have taken the registry lock before it checked that the name is free.
fn create_context(unit: &mut UnitOfWork<'_>, name: &str) -> Result<SessionId, Error> {
    let session = SessionId::generate();
    let new = NewSession {
        owner: Some(contexts::owner(name)),
        name: None,
        actor: None,
        namespace: "local".to_owned(),
        automation: "supervised".to_owned(),
        usage: TokenUsage::default(),
        forked_from: None,
        created_at: None,
    };
    sessions::insert(unit, session, &new, EventKind::SessionCreated)?;
    contexts::insert(unit, name, session)?;
    Ok(session)
}
