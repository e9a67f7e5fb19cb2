//! Calls operations that run agents. The user answers questions at the terminal; signals stop the run.

use std::sync::Arc;

use cleveragents_application::{FrontEnd, Observer, Operation};
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;

use super::signals;
use super::terminal::Terminal;
use crate::context::Context;
use crate::output::CommandError;

/// Calls an operation locally or on the configured server. `observer` receives its events.
pub(crate) fn call<O: Operation>(
    context: &Context,
    request: O,
    observer: Arc<dyn Observer>,
) -> Result<O::Response, CommandError> {
    let cancel = Cancel::new();
    let front_end = FrontEnd {
        approver: Arc::new(Terminal::new(&cancel)),
        observer,
    };
    let signals = signals::stop_on_signals(&cancel, &CancellationToken::new())?;
    signals.conclude(context.call_observed(request, &front_end, &cancel))
}
