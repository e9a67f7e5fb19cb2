//! Usage of a run, computed from the stored requests and calls. Failed steps count too.

use cleveragents_actors::ports::StepUsage;
use cleveragents_domain::{RunId, SessionId, Turn};
use cleveragents_models::ChatMessage;
use cleveragents_store::{Error, Reader, invocations, runs, sessions, turns};
use serde::Deserialize as _;
use serde_json::Value;

use crate::turn::needs_absent_user;

/// Usage of a run, including failed and unfinished steps.
pub(super) fn of_run(reader: &mut dyn Reader, run: RunId) -> Result<StepUsage, Error> {
    let mut usage = StepUsage::default();
    for session in runs::sessions(reader, run)? {
        usage = usage.plus(of_session(reader, session)?);
    }
    Ok(usage)
}

/// Usage of one conversation of a run.
pub(super) fn of_session(reader: &mut dyn Reader, session: SessionId) -> Result<StepUsage, Error> {
    let usage = sessions::get(reader, session)?
        .map(|session| session.usage)
        .unwrap_or_default();
    let mut model_calls = 0;
    for Turn { id, .. } in turns::of_session(reader, session)? {
        let steps = turns::steps(reader, id)?;
        model_calls += steps.iter().filter(|step| answered(step).is_some()).count() as u64;
    }
    let calls = invocations::of_session(reader, session)?;
    Ok(StepUsage {
        usage,
        model_calls,
        // A call that waits for approval has not run yet.
        tool_calls: calls.iter().filter(|row| !needs_absent_user(row)).count() as u64,
    })
}

/// The text of a step, when it is an answer of the model.
pub(super) fn answered(step: &Value) -> Option<String> {
    match ChatMessage::deserialize(step) {
        Ok(ChatMessage::Assistant(answer)) => Some(answer.text),
        _ => None,
    }
}
