//! [`MessageTurn`]: answers a message of another agent or program in a session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_domain::identity::{Caller, LOCAL_NAMESPACE, Permission, Scope};
use cleveragents_domain::{Code, Diagnose as _, SessionId};
use cleveragents_process::Cancel;
use cleveragents_store::definitions::{self, DefinitionKind};
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};

use crate::observer::NoObserver;
use crate::operation::{FrontEnd, Operation as _, OperationContext, OperationError};
use crate::session::operations::{LocalTurnOptions, TellSession};
use crate::turn::{TurnError, TurnService, Waiting};

/// A message for a session. The caller must already be authorized to write to the session.
///
/// If a turn of the session waits for an answer or was interrupted, that turn is resumed first, and the message answers
/// its question. If the resumed turn asks no question, the message then starts a new turn.
#[derive(Debug, Clone)]
pub struct MessageTurn {
    pub session: SessionId,
    /// The message; `None` resumes a turn that was interrupted or waits for an answer.
    pub prompt: Option<String>,
    /// The actor that answers; by default the actor of the session, otherwise the default actor.
    pub actor: Option<MessageActor>,
}

/// An actor, and the origin of its choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageActor {
    /// Chosen by the caller, who needs permission to use the actor.
    Requested(String),
    /// Chosen by the configuration of the server.
    Configured(String),
}

/// Result of answering a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageOutcome {
    /// The text of the answer.
    Answered(String),
    /// The turn asks this question and waits; the next message answers it.
    Waiting(String),
    /// The turn was cancelled.
    Cancelled,
}

impl MessageTurn {
    /// Answers the message. The observer of the context receives the answer while it streams.
    pub fn run(self, context: &OperationContext) -> Result<MessageOutcome, OperationError> {
        let session = context.sessions().get(self.session)?;
        let session_actor = session.actor.as_ref().map(ToString::to_string);
        let session_actor = session_actor.map(MessageActor::Requested);
        if let Some(MessageActor::Requested(actor)) = self.actor.as_ref().or(session_actor.as_ref())
        {
            check_actor(context, actor)?;
        }
        let Some(prompt) = &self.prompt else {
            return self.turn(context, None, &Arc::default());
        };
        if is_interrupted(context, self.session)? {
            let sender = Arc::new(MessageSender::answering(prompt));
            // An error is not returned, because the session has stored the outcome.
            let resumed = self.turn(context, None, &sender);
            match resumed {
                Ok(open @ (MessageOutcome::Waiting(_) | MessageOutcome::Cancelled)) => {
                    return Ok(open);
                }
                resumed if sender.has_receiver() => return resumed,
                _ => {}
            }
        }
        self.turn(context, Some(prompt.clone()), &Arc::default())
    }

    fn turn(
        &self,
        context: &OperationContext,
        prompt: Option<String>,
        sender: &Arc<MessageSender>,
    ) -> Result<MessageOutcome, OperationError> {
        let approver = Arc::clone(sender);
        let observer = Arc::clone(&context.front_end().observer);
        let context = context
            .clone()
            .with_front_end(FrontEnd { approver, observer });
        let actor = self.actor.as_ref().map(|actor| match actor {
            MessageActor::Requested(name) | MessageActor::Configured(name) => name.clone(),
        });
        let request = TellSession {
            session: self.session.to_string(),
            resume: prompt.is_none(),
            prompt,
            actor,
            local: LocalTurnOptions {
                keeps_unfinished: true,
                ..LocalTurnOptions::default()
            },
            ..TellSession::default()
        };
        match request.run(&context) {
            Ok(result) if result.is_withheld && result.response.is_empty() => Ok(
                MessageOutcome::Answered("(the provider withheld the answer)".to_owned()),
            ),
            Ok(result) => Ok(MessageOutcome::Answered(result.response)),
            Err(error) if context.cancel().is_cancelled() && error.code() == Code::TurnStopped => {
                Ok(MessageOutcome::Cancelled)
            }
            Err(error) if error.code() == Code::ApprovalNeeded => {
                let question = sender.open_question();
                let question = question.unwrap_or_else(|| error.to_string());
                Ok(MessageOutcome::Waiting(question))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether a turn of the session was interrupted or waits for an answer; `false` while another turn runs.
fn is_interrupted(context: &OperationContext, session: SessionId) -> Result<bool, OperationError> {
    let turns = TurnService::new(context.engine(), context.sessions());
    let waiting = Waiting {
        patience: Duration::ZERO,
        observer: &NoObserver,
        cancel: &Cancel::new(),
    };
    match turns.take(session, &waiting) {
        Ok(turn_lock) => Ok(turn_lock.interrupted().is_some()),
        Err(TurnError::Busy(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Refuses actors that a remote caller may not choose: those in `local/`, models that are files of
/// this machine, and registered actors of a namespace that the caller may not read.
fn check_actor(context: &OperationContext, actor: &str) -> Result<(), OperationError> {
    let caller: &Caller = context.caller();
    if caller.is_local() {
        return Ok(());
    }
    let namespace = actor
        .split_once('/')
        .map_or(LOCAL_NAMESPACE, |(first, _)| first);
    if [LOCAL_NAMESPACE, "scripted", "replay"].contains(&namespace.to_lowercase().as_str()) {
        let message = format!("the actor `{actor}` belongs to the machine of the server");
        return Err(OperationError::new(Code::LocalOnly, message));
    }
    let engine = context.engine();
    let registered =
        engine.read(|reader| definitions::get(reader, DefinitionKind::Actor, actor))?;
    if registered.is_some() && !caller.may(Scope::Registry, Permission::Read, namespace) {
        let message = format!("there is no actor named `{actor}`");
        return Err(OperationError::new(Code::ActorNotFound, message));
    }
    Ok(())
}

/// The approver of a message: the message answers one question, and every other question stays
/// open.
#[derive(Default)]
struct MessageSender {
    answer: Mutex<Option<String>>,
    question: Mutex<Option<String>>,
    has_receiver: AtomicBool,
}

impl MessageSender {
    fn answering(answer: &str) -> Self {
        Self {
            answer: Mutex::new(Some(answer.trim().to_owned())),
            ..Self::default()
        }
    }

    /// Whether the message answered a question.
    fn has_receiver(&self) -> bool {
        self.has_receiver.load(Ordering::Relaxed)
    }

    /// The last question without an answer.
    fn open_question(&self) -> Option<String> {
        let question = self.question.lock();
        question.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the message as the answer to the first question. A later question is stored as open.
    fn ask(&self, question: String) -> Option<String> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = answer.take() {
            self.has_receiver.store(true, Ordering::Relaxed);
            return Some(text);
        }
        let mut open = self.question.lock().unwrap_or_else(PoisonError::into_inner);
        *open = Some(question);
        None
    }
}

fn is_one_of(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

impl Approver for MessageSender {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let question = format!(
            "{} wants to run: {}\nReason: {}\nAnswer `yes` to allow it once, or `no`, optionally \
             with a reason.",
            request.tool, request.description, request.reason
        );
        match self.ask(question) {
            None => Approval::NoUser,
            Some(text) if is_one_of(&text, &["y", "yes", "approve", "approved", "ok"]) => {
                Approval::Once
            }
            Some(text) if is_one_of(&text, &["n", "no", "reject", "rejected", ""]) => {
                Approval::Refused(None)
            }
            Some(text) => Approval::Refused(Some(text)),
        }
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        let mut text = question.text.to_owned();
        for option in question.options {
            text.push_str("\n- ");
            text.push_str(option);
        }
        match self.ask(text) {
            Some(answer) => {
                let mut options = question.options.iter();
                let chosen = options.find(|option| option.eq_ignore_ascii_case(&answer));
                Reply::Text(chosen.cloned().unwrap_or(answer))
            }
            None => Reply::NoUser,
        }
    }
}
