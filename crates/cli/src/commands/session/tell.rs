//! `session tell`: a question, answered by a model that acts through tools.

mod shown;

use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;

use super::append::read_text;
use crate::arguments::SessionTell;
use crate::commands::conversation::{Asked, Conversation, Told};
use crate::commands::tooling;
use crate::context::Context;
use crate::output::{CommandError, Report};
use shown::Watcher;

pub(super) fn run(context: &Context, arguments: &SessionTell) -> Result<Report, CommandError> {
    let sessions = context.sessions()?;
    let session = sessions.get(sessions.resolve(&arguments.session)?)?;
    let prompt = match arguments.prompt.as_deref() {
        _ if arguments.resume => None,
        Some("-") => Some(read_text(context)?),
        other => Some(other.unwrap_or_default().to_owned()),
    };
    let conversation = Conversation::new(context, arguments.turn.clone())?;
    let watcher = Watcher::new(context, arguments.stream);
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = tooling::stop_on_signals(context, &cancel, &stop)?;
    let answered = conversation.ask(&Asked {
        session: &session,
        prompt,
        observer: &watcher,
        approver: None,
        cancel: &cancel,
        stop: &stop,
    });
    watcher.end();
    let answered = signals.conclude(answered)?;
    Ok(shown::report(
        &Told {
            session: &session,
            prompt: answered.prompt.as_deref(),
            report: &answered.report,
            sandbox: answered.sandbox.as_deref(),
            mode: if arguments.stream { "stream" } else { "whole" },
            elapsed: watcher.elapsed(),
        },
        arguments.stream,
    ))
}
