//! [`ContextService`]: conversations with a name, which runs of actors go on with.

use std::sync::Arc;

use cleveragents_domain::{
    Code, Diagnose, EventKind, Message, Metadata, NewMessage, Role, Sequence, SessionId,
    TokenUsage, nearest,
};
use cleveragents_store::contexts::{self, Context};
use cleveragents_store::messages::{Announce, Appended};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{Engine, Error, UnitOfWork, messages, resources, sessions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::session::{SessionError, SessionService};

/// Why a context cannot be had or changed.
#[derive(Debug, thiserror::Error)]
pub enum ContextServiceError {
    /// There is none of this name.
    #[error("there is no context named `{name}`")]
    NotFound {
        /// The name as it was given.
        name: String,
        /// One that is much like it.
        nearest: Option<String>,
    },
    /// There is one of this name.
    #[error("a context named `{0}` exists already")]
    Exists(String),
    /// The name is none.
    #[error("`{0}` cannot name a context: write letters, digits, `_`, `-` or `.`, 100 at most")]
    Name(String),
    /// The file is not a context.
    #[error("the file does not hold a context: {0}")]
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

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound {
                nearest: Some(name),
                ..
            } => Some(format!(
                "did you mean `{name}`? `agents actor context list` shows all"
            )),
            Self::NotFound { .. } => Some(
                "`agents actor context list` shows all; `agents actor run --context NAME` makes one"
                    .to_owned(),
            ),
            Self::Exists(name) => Some(format!(
                "choose another name with --name, or remove it first: `agents actor context remove {name}`"
            )),
            Self::Name(_) => Some("choose another name".to_owned()),
            Self::Malformed(_) => Some(
                "`agents actor context export NAME` writes one, as JSON or as YAML".to_owned(),
            ),
            Self::Session(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }
}

/// A context as it is exported.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedContext {
    /// What it is called.
    pub name: String,
    /// What was said, oldest first.
    pub messages: Vec<ExportedMessage>,
}

/// A message of an exported context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedMessage {
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// What was said.
    pub content: String,
}

/// Keeps contexts of actors.
#[derive(Clone)]
pub struct ContextService {
    engine: Arc<Engine>,
    sessions: SessionService,
}

impl ContextService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>, sessions: SessionService) -> Self {
        Self { engine, sessions }
    }

    /// Every context, by name.
    pub fn list(&self) -> Result<Vec<Context>, ContextServiceError> {
        Ok(self.engine.read(contexts::list)?)
    }

    /// One context.
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

    /// What was said in a context, as runs see it; nothing in one that is not there yet.
    pub fn said(&self, name: &str) -> Result<Vec<Value>, ContextServiceError> {
        check(name)?;
        let Some(found) = self.engine.read(|reader| contexts::get(reader, name))? else {
            return Ok(Vec::new());
        };
        let said = self.messages(found.session)?;
        Ok(said
            .into_iter()
            .map(|message| json!({"role": message.role, "content": message.content}))
            .collect())
    }

    fn messages(&self, session: SessionId) -> Result<Vec<ExportedMessage>, ContextServiceError> {
        let all = self
            .sessions
            .messages(session, Sequence(0), i64::MAX.unsigned_abs())?;
        Ok(all
            .into_iter()
            .map(|Message { role, content, .. }| ExportedMessage {
                role: role.as_str().to_owned(),
                content,
            })
            .collect())
    }

    /// Adds what was said to a context, all of it or nothing; the context is made when it is not there.
    pub fn add(&self, name: &str, said: &[ExportedMessage]) -> Result<(), ContextServiceError> {
        check(name)?;
        let said = self.checked(said)?;
        let key = name.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            let session = match contexts::get(unit, &key)? {
                Some(found) => found.session,
                None => make(unit, &key)?,
            };
            messages::append(unit, session, &said, Announce::Each)?;
            Ok::<(), Error>(())
        })?;
        Ok(())
    }

    fn checked(&self, said: &[ExportedMessage]) -> Result<Vec<Appended>, ContextServiceError> {
        said.iter()
            .map(|message| {
                let role = role(&message.role)?;
                let content = message.content.clone();
                let message: NewMessage = self.sessions.message(role, content, Metadata::new())?;
                Ok(Appended::from(message))
            })
            .collect()
    }

    /// Takes all messages out of a context, which stays.
    pub fn clear(&self, name: &str) -> Result<u64, ContextServiceError> {
        let found = self.get(name)?;
        let key = name.to_owned();
        self.engine.write(move |unit| {
            resources::lock(unit)?;
            // The conversation goes with its messages, and the context with it.
            sessions::delete(unit, found.session)?;
            make(unit, &key)
        })?;
        Ok(found.messages)
    }

    /// Removes a context with all that was said in it.
    pub fn remove(&self, name: &str) -> Result<Context, ContextServiceError> {
        let found = self.get(name)?;
        let session = found.session;
        self.engine
            .write(move |unit| sessions::delete(unit, session))?;
        Ok(found)
    }

    /// A context, to be written to a file.
    pub fn export(&self, name: &str) -> Result<ExportedContext, ContextServiceError> {
        let found = self.get(name)?;
        Ok(ExportedContext {
            name: found.name,
            messages: self.messages(found.session)?,
        })
    }

    /// Stores a context from a file, whole or not at all.
    pub fn import(&self, context: &ExportedContext) -> Result<Context, ContextServiceError> {
        check(&context.name)?;
        let said = self.checked(&context.messages)?;
        let key = context.name.clone();
        let is_new = self.engine.write(move |unit| {
            resources::lock(unit)?;
            if contexts::get(unit, &key)?.is_some() {
                return Ok::<bool, Error>(false);
            }
            let session = make(unit, &key)?;
            messages::append(unit, session, &said, Announce::Each)?;
            Ok(true)
        })?;
        if is_new {
            self.get(&context.name)
        } else {
            Err(ContextServiceError::Exists(context.name.clone()))
        }
    }
}

/// Reads an exported context: JSON is YAML too.
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

fn check(name: &str) -> Result<(), ContextServiceError> {
    let legal = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let begins = name.chars().next().is_some_and(char::is_alphanumeric);
    if begins && name.chars().all(legal) && name.chars().count() <= 100 {
        Ok(())
    } else {
        Err(ContextServiceError::Name(name.to_owned()))
    }
}

/// Makes a context. Whoever looked before whether there is one holds the lock of the registry.
fn make(unit: &mut UnitOfWork<'_>, name: &str) -> Result<SessionId, Error> {
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
