//! `session tell`: sends a message to a model that calls tools.

mod view;

use std::sync::Arc;

use cleveragents_application::session_operations::{TellSession, TurnMode};

use super::append::read_text;
use crate::arguments::SessionTell;
use crate::commands::images::prompt_images;
use crate::commands::interactive;
use crate::context::Context;
use crate::output::{CommandError, Report};
use view::TurnWatcher;

pub(super) fn run(context: &Context, arguments: SessionTell) -> Result<Report, CommandError> {
    let mut options = arguments.turn.request();
    options.local.images = prompt_images(context, arguments.prompt.as_deref())?;
    let prompt = match arguments.prompt.as_deref() {
        _ if arguments.resume => None,
        Some("-") => Some(read_text(context)?),
        other => Some(other.unwrap_or_default().to_owned()),
    };
    let request = TellSession {
        session: arguments.session,
        prompt,
        resume: arguments.resume,
        ..options
    };
    let watcher = Arc::new(TurnWatcher::new(context, arguments.stream));
    let result = interactive::call(context, request, Arc::clone(&watcher) as _);
    watcher.end();
    let mut result = result?;
    result.session.mode = if arguments.stream {
        TurnMode::Stream
    } else {
        TurnMode::Whole
    };
    Ok(view::report(result, arguments.stream))
}
