//! Calls operations that run plans. Shows progress, asks the user, and stops the plan on signals.

use std::sync::Arc;

use cleveragents_application::{FrontEnd, Operation};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;

use super::watcher::PlanWatcher;
use crate::commands::signals;
use crate::commands::terminal::Terminal;
use crate::context::Context;
use crate::output::CommandError;

/// Calls an operation that shows its progress and asks its questions at this terminal. If `is_stream`, answers of
/// models are shown as they arrive.
pub(crate) fn call<O: Operation>(
    context: &Context,
    request: O,
    is_stream: bool,
) -> Result<O::Response, CommandError> {
    let _notify = context.notify_when_done();
    let cancel = Cancel::new();
    let watcher = Arc::new(PlanWatcher::new(context, is_stream));
    let mut terminal = Terminal::new(&cancel);
    terminal.set_progress(watcher.progress());
    let front_end = FrontEnd {
        approver: Arc::new(terminal),
        observer: Arc::clone(&watcher) as _,
    };
    // With a server, a signal ends this program at once; the server finishes the operation.
    let signals = match &context.connection {
        Some(_) => None,
        None => Some(signals::stop_on_signals(
            &cancel,
            &CancellationToken::new(),
        )?),
    };
    let outcome = context.call_observed(request, &front_end, &cancel);
    watcher.end();
    match signals {
        Some(signals) => signals.conclude(outcome),
        None => outcome,
    }
}
