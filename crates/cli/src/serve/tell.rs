//! Answering messages in conversations for callers of a server.

use std::sync::{Mutex, PoisonError};

use cleveragents_application::{Conversation, ConversationTurn, Ending, TurnObserver};
use cleveragents_domain::identity::{Caller, LOCAL_NAMESPACE, Permission, Scope};
use cleveragents_domain::{Code, Diagnose as _, Session};
use cleveragents_models::{CancellationToken, Retry, ToolCall};
use cleveragents_process::Cancel;
use cleveragents_server::{Listener, Tell, Told};
use cleveragents_store::definitions::{self, DefinitionKind};
use cleveragents_tools::CallOutcome;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};

use super::program::Commands;
use crate::arguments::TurnOptions;
use crate::commands::signals;
use crate::commands::turn_view::tool_of;
use crate::context::Context;
use crate::output::{CommandError, Format};

/// Answers a message, or goes on with a turn.
///
/// A turn that waits for a person, or was cut off, is gone on with first, and the message answers what it asks. A
/// message that nothing asked for is a question of its own after it.
pub(super) fn answer(commands: &Commands, tell: &Tell<'_>) -> Result<Told, CommandError> {
    let visible = tell.caller.reach(Scope::Sessions, Permission::Read);
    let context = commands.context(tell.caller, visible, Format::Json, tell.cancel);
    let sessions = context.sessions()?;
    let session = sessions.get(tell.session)?;
    let named = session.actor.as_ref().map(ToString::to_string);
    if let Some(actor) = tell.actor.as_ref().or(named.as_ref())
        && !tell.is_actor_given
    {
        check_actor(&context, tell.caller, actor)?;
    }
    let options = TurnOptions {
        actor: tell.actor.clone(),
        ..TurnOptions::default()
    };
    let conversation = context.conversation(&options)?;
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let _stopping = signals::stop_on_signals(&context, &cancel, &stop)?;
    let turn = Turn {
        conversation: &conversation,
        session: &session,
        watcher: Watcher(tell.listener),
        cancel: &cancel,
        stop: &stop,
    };
    let Some(prompt) = &tell.prompt else {
        return turn.go(None, &Correspondent::default());
    };
    if conversation.interrupted(session.id)?.is_some() {
        let person = Correspondent::with(prompt);
        // What became of it is in the session, whichever way it ended.
        let went = turn.go(None, &person);
        match went {
            Ok(told @ (Told::Waiting { .. } | Told::Stopped)) => return Ok(told),
            went if person.is_heard() => return went,
            _ => tell.listener.reset(),
        }
    }
    turn.go(Some(prompt.clone()), &Correspondent::default())
}

/// Refuses actors that a caller from elsewhere may not choose: what is in `local/`, what answers from files of this
/// machine, and what belongs to a namespace that the caller cannot look at.
fn check_actor(context: &Context, caller: &Caller, actor: &str) -> Result<(), CommandError> {
    if caller.is_local() {
        return Ok(());
    }
    let namespace = actor
        .split_once('/')
        .map_or(LOCAL_NAMESPACE, |(first, _)| first);
    if [LOCAL_NAMESPACE, "scripted", "replay"].contains(&namespace.to_lowercase().as_str()) {
        return Err(CommandError::new(
            Code::LocalOnly,
            format!("the actor `{actor}` is of this machine, and answers nobody from elsewhere"),
        ));
    }
    let registered = context
        .engine()?
        .read(|reader| definitions::get(reader, DefinitionKind::Actor, actor))?;
    if registered.is_some() && !caller.may(Scope::Registry, Permission::Read, namespace) {
        return Err(CommandError::new(
            Code::ActorNotFound,
            format!("there is no actor named `{actor}`"),
        ));
    }
    Ok(())
}

struct Turn<'a> {
    conversation: &'a Conversation,
    session: &'a Session,
    watcher: Watcher<'a>,
    cancel: &'a Cancel,
    stop: &'a CancellationToken,
}

impl Turn<'_> {
    fn go(&self, prompt: Option<String>, person: &Correspondent) -> Result<Told, CommandError> {
        let answered = self.conversation.ask(&ConversationTurn {
            session: self.session,
            prompt,
            observer: &self.watcher,
            approver: person,
            keeps_unfinished: true,
            cancel: self.cancel,
            stop: self.stop,
        });
        match answered {
            Ok(answered) => {
                let mut text = answered.report.answer;
                if answered.report.ending == Ending::Withheld && text.is_empty() {
                    text.push_str("(the provider withheld the answer)");
                }
                Ok(Told::Answered { text })
            }
            Err(error) if self.cancel.is_cancelled() && error.code() == Code::TurnStopped => {
                Ok(Told::Stopped)
            }
            Err(error) if error.code() == Code::ApprovalNeeded => Ok(Told::Waiting {
                question: person.asked().unwrap_or_else(|| error.to_string()),
            }),
            Err(error) => Err(error.into()),
        }
    }
}

/// Passes on what happens in a turn.
struct Watcher<'a>(&'a dyn Listener);

impl TurnObserver for Watcher<'_> {
    fn text(&self, piece: &str) {
        self.0.text(piece);
    }

    fn retrying(&self, _retry: &Retry, shown: bool) {
        if shown {
            self.0.reset();
        }
    }

    fn step(&self, _number: u32) {
        self.0.reset();
    }

    fn calling(&self, call: &ToolCall) {
        self.0.tool(&tool_of(call));
    }

    fn called(&self, _call: &ToolCall, _outcome: &CallOutcome) {}
}

/// The person who wrote the message: what they wrote answers one question, and nothing else they can be asked now.
#[derive(Default)]
struct Correspondent {
    answer: Mutex<Option<String>>,
    asked: Mutex<Option<String>>,
    is_heard: std::sync::atomic::AtomicBool,
}

impl Correspondent {
    fn with(answer: &str) -> Self {
        Self {
            answer: Mutex::new(Some(answer.trim().to_owned())),
            ..Self::default()
        }
    }

    fn is_heard(&self) -> bool {
        self.is_heard.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What was asked and not answered.
    fn asked(&self) -> Option<String> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The answer if there is one, or the question is kept.
    fn ask(&self, question: String) -> Option<String> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = answer.take() {
            self.is_heard
                .store(true, std::sync::atomic::Ordering::Relaxed);
            return Some(text);
        }
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(question);
        None
    }
}

fn says(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.eq_ignore_ascii_case(word))
}

impl Approver for Correspondent {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let question = format!(
            "{} wants to run: {}\nReason to ask: {}\nAnswer `yes` to let it run once, `no`, or why not.",
            request.tool, request.description, request.reason
        );
        match self.ask(question) {
            None => Approval::NobodyThere,
            Some(text) if says(&text, &["y", "yes", "approve", "approved", "ok"]) => Approval::Once,
            Some(text) if says(&text, &["n", "no", "reject", "rejected", ""]) => {
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
        let chosen = |said: &str| {
            let mut options = question.options.iter();
            options.find(|option| option.eq_ignore_ascii_case(said))
        };
        match self.ask(text) {
            Some(said) => Reply::Text(chosen(&said).cloned().unwrap_or(said)),
            None => Reply::NobodyThere,
        }
    }
}
