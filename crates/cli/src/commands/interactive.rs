//! Calls operations that run agents. The user answers questions at the terminal; signals stop the run.

use std::sync::Arc;

use cleveragents_application::{FrontEnd, Observer, Operation};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;

use super::signals;
use super::terminal::Terminal;
use crate::context::Context;
use crate::output::{CommandError, Progress};

/// Calls an operation locally or on the configured server. `observer` receives its events.
pub(crate) fn call<O: Operation>(
    context: &Context,
    request: O,
    observer: Arc<dyn Observer>,
) -> Result<O::Response, CommandError> {
    call_with_progress(context, request, observer, &Progress::silent())
}

/// Like [`call`], but hides `progress` while the user answers a question.
pub(crate) fn call_with_progress<O: Operation>(
    context: &Context,
    request: O,
    observer: Arc<dyn Observer>,
    progress: &Progress,
) -> Result<O::Response, CommandError> {
    let _notify = context.notify_when_done();
    let cancel = Cancel::new();
    let mut terminal = Terminal::new(&cancel);
    terminal.set_progress(progress.display());
    let front_end = FrontEnd {
        approver: Arc::new(terminal),
        observer,
    };
    let signals = signals::stop_on_signals(&cancel, &CancellationToken::new())?;
    signals.conclude(context.call_observed(request, &front_end, &cancel))
}
