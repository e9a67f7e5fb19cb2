//! Resumes a turn whose process died: reuses its stored results, and asks the user about calls whose
//! outcome is unknown.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cleveragents_domain::{InvocationOutcome, LeaseSubject, LeaseToken, ToolInvocation, Turn};
use cleveragents_models::{ChatMessage, Picture, ToolCall, ToolResult};
use cleveragents_store::{blobs, invocations, turns};
use cleveragents_tools::builtin::is_unanswered;
use cleveragents_tools::ports::{Question, QuestionKind, Reply};
use cleveragents_tools::{ShownOutput, data_for_model, with_model_names};

use super::error::TurnError;
use super::request::{InterruptedTurnSummary, TurnRequest};
use super::secrets;
use super::service::{RunningTurn, TurnService};
use crate::observer::AgentEvent;
use crate::unknown_outcome::{ASSUME_DONE, ASSUME_NOT_DONE, RETRY};

/// The error of an interrupted call that is retried. When the last row of a call has this error, the
/// process died before the retry started, so the call is retried.
const RETRIED: &str = "interrupted: it is made again";

impl TurnService {
    /// Loads an interrupted turn from the store, so that it continues after its last step.
    pub(super) fn resume(
        &self,
        request: &TurnRequest<'_>,
        turn: Turn,
        fence: (LeaseSubject, LeaseToken),
    ) -> Result<(RunningTurn, InterruptedTurnSummary), TurnError> {
        let mut running = self.load(turn, fence)?;
        self.load_pictures(request, &mut running)?;
        let interrupted = InterruptedTurnSummary {
            turn: running.turn.id,
            unknown_outcomes: self.unknown_outcomes(&running)?,
            is_resumed: true,
        };
        let event = AgentEvent::turn_recovered(&interrupted);
        request.observer.event(&event);
        Ok((running, interrupted))
    }

    /// Ends an interrupted turn as failed, because the user asks a new question.
    pub(super) fn close(
        &self,
        request: &TurnRequest<'_>,
        turn: Turn,
        fence: (LeaseSubject, LeaseToken),
    ) -> Result<InterruptedTurnSummary, TurnError> {
        let mut running = self.load(turn, fence)?;
        let interrupted = InterruptedTurnSummary {
            turn: running.turn.id,
            unknown_outcomes: self.unknown_outcomes(&running)?,
            is_resumed: false,
        };
        let event = AgentEvent::turn_recovered(&interrupted);
        request.observer.event(&event);
        if let Some(calls) = unanswered_calls(&running) {
            let known = self.known_results(request, &running, &calls)?;
            let results = calls
                .iter()
                .zip(known)
                .map(|(call, known)| {
                    known.unwrap_or_else(|| {
                        let content = if running.rows.iter().any(|(id, _)| *id == call.id) {
                            "This call was interrupted before its result was stored. It may have had an effect: \
                             check before you repeat it."
                        } else {
                            "This call did not run: the turn was interrupted before."
                        };
                        ToolResult {
                            pictures: Vec::new(),
                            call_id: call.id.clone(),
                            content: content.to_owned(),
                            is_error: true,
                        }
                    })
                })
                .collect();
            self.add_step(&mut running, ChatMessage::Tool { results }, None)?;
        }
        self.end(&running, Some("the turn was interrupted"))?;
        Ok(interrupted)
    }

    fn load(
        &self,
        turn: Turn,
        fence: (LeaseSubject, LeaseToken),
    ) -> Result<RunningTurn, TurnError> {
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
        Ok(RunningTurn {
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

    /// Restores the images in the results of a loaded turn. The images are stored with the calls.
    fn load_pictures(
        &self,
        request: &TurnRequest<'_>,
        running: &mut RunningTurn,
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

    /// The last row of each of the calls, by call id.
    fn rows_of(
        &self,
        running: &RunningTurn,
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

    fn unknown_outcomes(&self, running: &RunningTurn) -> Result<Vec<String>, TurnError> {
        let Some(calls) = unanswered_calls(running) else {
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

    /// The results of calls that do not have to run: stored results, and the user's decisions about
    /// calls whose outcome is unknown. `None` for calls that must run, such as the calls of a new
    /// answer.
    pub(super) fn known_results(
        &self,
        request: &TurnRequest<'_>,
        running: &RunningTurn,
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
                    self.resolve_unknown_outcome(request, row)
                }
                // The call had no effect and is retried, because a user may be present now.
                Some(row) if needs_absent_user(row) => Ok(None),
                Some(row) if row.error.as_deref() == Some(RETRIED) => Ok(None),
                Some(row) => Ok(Some(self.stored_result(request, row)?)),
            })
            .zip(calls)
            .map(|(result, call)| match result? {
                None => Ok(secrets::lost(call)),
                result => Ok(result),
            })
            .collect()
    }

    fn resolve_unknown_outcome(
        &self,
        request: &TurnRequest<'_>,
        row: &ToolInvocation,
    ) -> Result<Option<ToolResult>, TurnError> {
        let content = if row.is_repeatable {
            None
        } else {
            let text = format!(
                "The call of `{}` with {} was interrupted before its result was stored. What \
                 should be done about it?",
                row.tool, row.arguments
            );
            let options = [RETRY, ASSUME_DONE, ASSUME_NOT_DONE].map(str::to_owned);
            let reply = request.tools.approver.question(&Question {
                kind: QuestionKind::UnknownOutcome,
                text: &text,
                options: &options,
            });
            match reply {
                Reply::Text(answer) if answer == RETRY => None,
                Reply::Text(answer) if answer == ASSUME_DONE => Some(
                    "The program was interrupted during this call. The user confirms that it was \
                     done; its result is lost."
                        .to_owned(),
                ),
                Reply::Text(answer) if answer == ASSUME_NOT_DONE => Some(
                    "The program was interrupted during this call. The user confirms that it was \
                     not done."
                        .to_owned(),
                ),
                Reply::NoUser if request.settings.keeps_unfinished => {
                    let reason = format!(
                        "the call of `{}` was interrupted and its outcome is unknown: retry it \
                         or skip it",
                        row.tool
                    );
                    return Err(TurnError::HumanNeeded {
                        reason,
                        rules: Vec::new(),
                    });
                }
                _ => Some(
                    "The program was interrupted during this call. Its outcome is unknown: check \
                     before you call it again."
                        .to_owned(),
                ),
            }
        };
        let mut interrupted_row = row.clone();
        interrupted_row.outcome = InvocationOutcome::Failed;
        let why = match &content {
            None => RETRIED,
            Some(_) => "interrupted: the outcome is unknown",
        };
        interrupted_row.error = Some(why.to_owned());
        self.engine
            .write(move |unit| invocations::finish(unit, &interrupted_row))?;
        Ok(content.map(|content| ToolResult {
            pictures: Vec::new(),
            call_id: row.call_id.clone().unwrap_or_default(),
            content,
            is_error: true,
        }))
    }

    /// The result of a finished call, from its row.
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
            .map(|error| with_model_names(&format!("`{}`: {error}\n", row.tool)))
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
            let shown = ShownOutput::truncate(&output, request.settings.shown_bytes);
            // Only models receive text between tags; a remote agent receives plain text.
            if request.model.capabilities().tools {
                content.push_str(&data_for_model(&row.tool, &shown, row.id));
            } else {
                content.push_str(&shown.head);
                content.push_str(&shown.tail);
            }
        }
        if content.is_empty() {
            "Succeeded without output.".clone_into(&mut content);
        }
        Ok(ToolResult {
            pictures,
            call_id: row.call_id.clone().unwrap_or_default(),
            content,
            is_error: row.outcome != InvocationOutcome::Succeeded,
        })
    }
}

/// Whether a call was refused or got no answer because no user was present. A resumed turn repeats
/// such a call.
pub(crate) fn needs_absent_user(row: &ToolInvocation) -> bool {
    match row.outcome {
        InvocationOutcome::Refused => row.reason.as_deref() == Some("nobody_to_approve"),
        InvocationOutcome::Failed => {
            row.tool == "builtin/ask-user" && row.error.as_deref().is_some_and(is_unanswered)
        }
        _ => false,
    }
}

/// The calls of the last answer that have no results yet.
fn unanswered_calls(running: &RunningTurn) -> Option<Vec<ToolCall>> {
    match running.steps.last().map(Arc::as_ref) {
        Some(ChatMessage::Assistant(answer)) if !answer.calls.is_empty() => {
            Some(answer.calls.clone())
        }
        _ => None,
    }
}
