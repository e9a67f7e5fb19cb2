//! What a turn left whose process died: its results are taken over, and what nobody knows is asked.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cleveragents_domain::{InvocationOutcome, LeaseSubject, LeaseToken, ToolInvocation, Turn};
use cleveragents_models::{ChatMessage, Picture, ToolCall, ToolResult};
use cleveragents_store::{blobs, invocations, turns};
use cleveragents_tools::builtin::NOBODY_TO_ANSWER;
use cleveragents_tools::ports::{Question, Reply};
use cleveragents_tools::untrusted;

use super::error::TurnError;
use super::request::{Interrupted, TurnRequest};
use super::secrets;
use super::service::{Running, TurnService};
use crate::unknown_outcome::{AGAIN, DONE, NOT_DONE};

/// The error of a call that was cut off and is made again. Whoever finds it as the last word on a call was cut off
/// himself before he could begin, and makes it.
const MADE_AGAIN: &str = "interrupted: it is made again";

impl TurnService {
    /// Goes on with a turn where it stopped.
    pub(super) fn resume(
        &self,
        request: &TurnRequest<'_>,
        turn: Turn,
        fence: (LeaseSubject, LeaseToken),
    ) -> Result<(Running, Interrupted), TurnError> {
        let mut running = self.load(turn, fence)?;
        self.show_pictures(request, &mut running)?;
        let interrupted = Interrupted {
            turn: running.turn.id,
            doubtful: self.doubtful(&running)?,
            is_resumed: true,
        };
        request.observer.recovered(&interrupted);
        Ok((running, interrupted))
    }

    /// Ends a turn that was interrupted, since something else is asked now.
    pub(super) fn close(
        &self,
        request: &TurnRequest<'_>,
        turn: Turn,
        fence: (LeaseSubject, LeaseToken),
    ) -> Result<Interrupted, TurnError> {
        let mut running = self.load(turn, fence)?;
        let interrupted = Interrupted {
            turn: running.turn.id,
            doubtful: self.doubtful(&running)?,
            is_resumed: false,
        };
        request.observer.recovered(&interrupted);
        if let Some(calls) = waiting(&running) {
            let known = self.known_results(request, &running, &calls)?;
            let results = calls
                .iter()
                .zip(known)
                .map(|(call, known)| {
                    known.unwrap_or_else(|| ToolResult {
                        pictures: Vec::new(),
                        call_id: call.id.clone(),
                        content: "This call did not run: the turn was interrupted before."
                            .to_owned(),
                        is_error: true,
                    })
                })
                .collect();
            self.add_step(&mut running, ChatMessage::Tool { results }, None)?;
        }
        self.end(&running, Some("the turn was interrupted"))?;
        Ok(interrupted)
    }

    fn load(&self, turn: Turn, fence: (LeaseSubject, LeaseToken)) -> Result<Running, TurnError> {
        let (steps, rows) = self.engine.read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                turns::steps(reader, turn.id)?,
                invocations::of_turn(reader, turn.id)?,
            ))
        })?;
        let noted = steps.last().and_then(turns::noted).cloned();
        let steps = steps
            .into_iter()
            .map(|step| {
                serde_json::from_value(step).map_err(|error| {
                    cleveragents_store::Error::stored("a step of a turn", error.to_string())
                })
            })
            .collect::<Result<Vec<ChatMessage>, _>>()?;
        Ok(Running {
            rows: rows
                .iter()
                .filter_map(|row| Some((row.call_id.clone()?, row.id)))
                .collect(),
            turn,
            stored: steps.len(),
            steps: steps.into_iter().map(Arc::new).collect(),
            written: HashMap::new(),
            is_loaded: true,
            noted,
            fence,
        })
    }

    /// Gives the results of a loaded turn their pictures again, which are kept with the calls.
    fn show_pictures(
        &self,
        request: &TurnRequest<'_>,
        running: &mut Running,
    ) -> Result<(), TurnError> {
        let rows = self
            .engine
            .read(|reader| invocations::of_turn(reader, running.turn.id))?;
        let rows: HashMap<&str, &ToolInvocation> = rows
            .iter()
            .filter(|row| row.media_type.is_some())
            .filter_map(|row| Some((row.call_id.as_deref()?, row)))
            .collect();
        for step in &mut running.steps {
            let ChatMessage::Tool { results } = Arc::make_mut(step) else {
                continue;
            };
            for result in results {
                if let Some(row) = rows.get(result.call_id.as_str()) {
                    result.pictures = self.stored_result(request, row)?.pictures;
                }
            }
        }
        Ok(())
    }

    /// The rows of the calls that the last answer made: of several for one call, the last.
    fn rows_of(
        &self,
        running: &Running,
        calls: &[ToolCall],
    ) -> Result<HashMap<String, ToolInvocation>, TurnError> {
        let rows = self
            .engine
            .read(|reader| invocations::of_turn(reader, running.turn.id))?;
        Ok(rows
            .into_iter()
            .filter_map(|row| Some((row.call_id.clone()?, row)))
            .filter(|(id, _)| calls.iter().any(|call| call.id == *id))
            .collect())
    }

    fn doubtful(&self, running: &Running) -> Result<Vec<String>, TurnError> {
        let Some(calls) = waiting(running) else {
            return Ok(Vec::new());
        };
        let mut tools: Vec<String> = self
            .rows_of(running, &calls)?
            .into_values()
            .filter(|row| row.outcome == InvocationOutcome::Running && !row.is_repeatable)
            .map(|row| row.tool)
            .collect();
        tools.sort();
        Ok(tools)
    }

    /// Results that need no call: those that are stored, and those that a person gives for calls of
    /// which nobody knows what came. `None` for calls that are to run, as all are that were asked for just now.
    pub(super) fn known_results(
        &self,
        request: &TurnRequest<'_>,
        running: &Running,
        calls: &[ToolCall],
    ) -> Result<Vec<Option<ToolResult>>, TurnError> {
        if !running.is_loaded {
            return Ok(vec![None; calls.len()]);
        }
        let rows = self.rows_of(running, calls)?;
        calls
            .iter()
            .map(|call| match rows.get(&call.id) {
                None => Ok(None),
                Some(row) if row.outcome == InvocationOutcome::Running => {
                    self.settle_doubt(request, row)
                }
                // It had no effect, and somebody may be there now.
                Some(row) if is_for_a_person(row) => Ok(None),
                Some(row) if row.error.as_deref() == Some(MADE_AGAIN) => Ok(None),
                Some(row) => Ok(Some(self.stored_result(request, row)?)),
            })
            .zip(calls)
            .map(|(result, call)| match result? {
                None => Ok(secrets::lost(call)),
                result => Ok(result),
            })
            .collect()
    }

    fn settle_doubt(
        &self,
        request: &TurnRequest<'_>,
        row: &ToolInvocation,
    ) -> Result<Option<ToolResult>, TurnError> {
        let content = if row.is_repeatable {
            None
        } else {
            let text = format!(
                "The call of `{}` with {} was begun, and the program ended before it knew the result. \
                 What shall be done about it?",
                row.tool, row.arguments
            );
            let options = [AGAIN, DONE, NOT_DONE].map(str::to_owned);
            let reply = request.tools.approver.question(&Question {
                text: &text,
                options: &options,
            });
            match reply {
                Reply::Text(answer) if answer == AGAIN => None,
                Reply::Text(answer) if answer == DONE => Some(
                    "The program was interrupted during this call. A person says that it was done; \
                     what it answered is lost."
                        .to_owned(),
                ),
                Reply::Text(answer) if answer == NOT_DONE => Some(
                    "The program was interrupted during this call. A person says that it was not done."
                        .to_owned(),
                ),
                Reply::NobodyThere if request.settings.keeps_unfinished => {
                    return Err(TurnError::HumanNeeded(format!(
                        "the call of `{}` was begun and cut off, and nobody knows whether it took effect: say \
                         --redo or --skip",
                        row.tool
                    )));
                }
                _ => Some(
                    "The program was interrupted during this call. It is not known whether it took \
                     effect: look before you call it again."
                        .to_owned(),
                ),
            }
        };
        let mut ended = row.clone();
        ended.outcome = InvocationOutcome::Failed;
        let why = match &content {
            None => MADE_AGAIN,
            Some(_) => "interrupted: it is not known whether it took effect",
        };
        ended.error = Some(why.to_owned());
        self.engine
            .write(move |unit| invocations::finish(unit, &ended))?;
        Ok(content.map(|content| ToolResult {
            pictures: Vec::new(),
            call_id: row.call_id.clone().unwrap_or_default(),
            content,
            is_error: true,
        }))
    }

    /// The result of a call that ended, from its row.
    fn stored_result(
        &self,
        request: &TurnRequest<'_>,
        row: &ToolInvocation,
    ) -> Result<ToolResult, TurnError> {
        let output = match row.output {
            Some(hash) => self.engine.read(|reader| blobs::get(reader, hash))?,
            None => None,
        };
        let mut content = row
            .error
            .as_ref()
            .map(|error| format!("`{}`: {error}\n", row.tool))
            .unwrap_or_default();
        let mut pictures = Vec::new();
        if let (Some(data), Some(media_type)) = (&output, &row.media_type) {
            let _never_fails = write!(content, "[{media_type}, {} bytes]", data.len());
            if request.model.capabilities().vision {
                pictures.push(Picture {
                    media_type: media_type.clone(),
                    data: data.clone(),
                });
            }
        } else if let Some(output) = output {
            let text = String::from_utf8_lossy(&output);
            let end = text.floor_char_boundary(request.settings.shown_bytes);
            // Marks are for models; an agent on another machine is told what a person said.
            if request.model.capabilities().tools {
                content.push_str(&untrusted::mark(&row.tool, &text[..end]));
            } else {
                content.push_str(&text[..end]);
            }
            if end < text.len() {
                let _never_fails = write!(
                    content,
                    "\nOf {} bytes the first {end} are shown. Read on with builtin/output-read: \
                     {{\"invocation\": \"{}\", \"offset\": {end}}}",
                    output.len(),
                    row.id
                );
            }
        }
        if content.is_empty() {
            "Done, without output.".clone_into(&mut content);
        }
        Ok(ToolResult {
            pictures,
            call_id: row.call_id.clone().unwrap_or_default(),
            content,
            is_error: row.outcome != InvocationOutcome::Succeeded,
        })
    }
}

/// Whether a call was refused, or asked in vain, for want of a person. It is made again when one is there.
pub(crate) fn is_for_a_person(row: &ToolInvocation) -> bool {
    match row.outcome {
        InvocationOutcome::Refused => row.reason.as_deref() == Some("nobody_to_approve"),
        InvocationOutcome::Failed => {
            row.tool == "builtin/ask-user" && row.error.as_deref() == Some(NOBODY_TO_ANSWER)
        }
        _ => false,
    }
}

/// The calls of the last answer that wait for results.
fn waiting(running: &Running) -> Option<Vec<ToolCall>> {
    match running.steps.last().map(Arc::as_ref) {
        Some(ChatMessage::Assistant(answer)) if !answer.calls.is_empty() => {
            Some(answer.calls.clone())
        }
        _ => None,
    }
}
