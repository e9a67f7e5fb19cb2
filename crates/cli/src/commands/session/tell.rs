//! `session tell`: a question, answered by a model that acts through tools.

mod shown;

use cleveragents_application::ConversationTurn;
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;

use super::append::read_text;
use crate::arguments::SessionTell;
use crate::commands::signals;
use crate::commands::terminal::Terminal;
use crate::commands::turn_view::TurnView;
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
    let conversation = context.conversation(&arguments.turn)?;
    let watcher = Watcher::new(context, arguments.stream);
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = signals::stop_on_signals(context, &cancel, &stop)?;
    let terminal = Terminal::new(context, &cancel);
    let answered = conversation.ask(&ConversationTurn {
        session: &session,
        prompt,
        observer: &watcher,
        approver: &terminal,
        keeps_unfinished: false,
        cancel: &cancel,
        stop: &stop,
    });
    watcher.end();
    let answered = signals.conclude(answered)?;
    Ok(shown::report(
        &TurnView {
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
