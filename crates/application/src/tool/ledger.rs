//! [`StoreLedger`]: records every tool call as a row, before it has any effect.

use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::{
    ContentHash, EventKind, InvocationOutcome, NewEvent, Timestamp, ToolInvocation,
    ToolInvocationId, TurnId,
};
use cleveragents_store::{Engine, Error, UnitOfWork, blobs, invocations, leases};
use cleveragents_tools::ports::{
    FinishedCall, Ledger, OutputPage, PortError, RefusedCall, Scope, StartedCall, Window,
};
use serde_json::{Value, json};

use crate::lease::FencingToken;

/// A write that must be committed before the next call or together with it.
pub(crate) type PrecedingWrite =
    Arc<dyn Fn(&mut UnitOfWork<'_>) -> Result<(), Error> + Send + Sync>;

/// Records calls in the store.
pub struct StoreLedger {
    engine: Arc<Engine>,
    turn: Option<TurnId>,
    /// The lease that must be held when a call starts or ends.
    fence: Option<FencingToken>,
    /// The write to run in the unit of work that stores the next call.
    preceding: Mutex<Option<PrecedingWrite>>,
}

impl StoreLedger {
    /// A ledger for the calls of a turn, or for single calls.
    pub const fn new(engine: Arc<Engine>, turn: Option<TurnId>) -> Self {
        Self {
            engine,
            turn,
            fence: None,
            preceding: Mutex::new(None),
        }
    }

    /// Requires a lease: if the lease is lost, no call starts or ends.
    #[must_use]
    pub(crate) fn under(self, fence: FencingToken) -> Self {
        Self {
            fence: Some(fence),
            ..self
        }
    }

    /// Schedules a write for the commit that stores the next call: if the write fails, the call is not stored and
    /// does not run. [`StoreLedger::flush`] must be called before the ledger is dropped.
    pub(crate) fn put_ahead(&self, write: PrecedingWrite) {
        *self
            .preceding
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(write);
    }

    /// Performs the scheduled write, if there is one.
    pub(crate) fn flush(&self) -> Result<(), Error> {
        let is_scheduled = self
            .preceding
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some();
        if is_scheduled {
            self.write(|_| Ok(()))?;
        }
        Ok(())
    }

    /// Performs a write in one unit of work with the scheduled write. Concurrent callers wait, so that no call is
    /// stored before the scheduled write.
    fn write(
        &self,
        mut work: impl FnMut(&mut UnitOfWork<'_>) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let mut preceding = self
            .preceding
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let fence = self.fence.clone();
        let Some(first) = preceding.clone() else {
            drop(preceding);
            return self.engine.write(move |unit| {
                require(unit, fence.as_ref())?;
                work(unit)
            });
        };
        self.engine.write(move |unit| {
            require(unit, fence.as_ref())?;
            first(unit)?;
            work(unit)
        })?;
        *preceding = None;
        Ok(())
    }

    fn row(
        &self,
        id: ToolInvocationId,
        scope: &Scope,
        (call_id, tool): (&str, &str),
        arguments: &Value,
    ) -> ToolInvocation {
        ToolInvocation {
            id,
            plan: scope.plan,
            session: scope.session,
            turn: self.turn,
            call_id: Some(storable(call_id)),
            tool: storable(tool),
            arguments: storable_json(arguments),
            outcome: InvocationOutcome::Running,
            output: None,
            log: None,
            media_type: None,
            error: None,
            reason: None,
            is_repeatable: false,
            started_at: Timestamp::now(),
            finished_at: None,
        }
    }
}

fn require(unit: &mut UnitOfWork<'_>, fence: Option<&FencingToken>) -> Result<(), Error> {
    match fence {
        Some((subject, token)) => leases::require(unit, subject, *token),
        None => Ok(()),
    }
}

/// Text without NUL, which PostgreSQL cannot store.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(crate) fn storable_json(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(storable(text)),
        Value::Array(items) => items.iter().map(storable_json).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (storable(name), storable_json(value)))
            .collect(),
        other => other.clone(),
    }
}

fn announce(unit: &mut UnitOfWork<'_>, kind: EventKind, row: &ToolInvocation) {
    unit.emit(NewEvent {
        kind,
        subject: row.id.to_string(),
        payload: json!({
            "tool": row.tool,
            "session": row.session,
            "plan": row.plan,
            "turn": row.turn,
            "outcome": row.outcome,
            "reason": row.reason,
        }),
    });
}

impl Ledger for StoreLedger {
    fn begin(&self, started: &StartedCall<'_>) -> Result<(), PortError> {
        let names = (started.call_id, started.tool.to_string());
        let mut row = self.row(
            started.id,
            started.scope,
            (names.0, &names.1),
            started.arguments,
        );
        row.is_repeatable =
            started.is_trial || started.capability.idempotent || !started.capability.is_writing();
        self.write(move |unit| {
            invocations::insert(unit, &row)?;
            announce(unit, EventKind::ToolInvoked, &row);
            Ok(())
        })
        .map_err(PortError::new)
    }

    fn finish(&self, finished: &mut FinishedCall<'_>) -> Result<(), PortError> {
        let (id, outcome) = (finished.id, finished.outcome);
        let error = finished.error.map(storable);
        let mut output = Vec::new();
        finished
            .output
            .reader()
            .and_then(|mut reader| reader.read_to_end(&mut output))
            .map_err(|error| {
                PortError::new(Error::Internal(format!("an output was lost: {error}")))
            })?;
        let changes = finished.captured.changes.len();
        let log = storable(finished.log);
        let media_type = finished.media_type.map(str::to_owned);
        let fence = self.fence.clone();
        self.engine
            .write(move |unit| {
                require(unit, fence.as_ref())?;
                let Some(mut row) = invocations::get(unit, id)? else {
                    return Err(Error::stored("a tool call", "disappeared while it ran"));
                };
                let hash = match output.as_slice() {
                    [] => None,
                    output => Some(blobs::put(unit, output)?),
                };
                row.outcome = outcome;
                row.output = hash;
                row.log = match log.as_str() {
                    "" => None,
                    log => Some(blobs::put(unit, log.as_bytes())?),
                };
                row.media_type.clone_from(&media_type);
                row.error.clone_from(&error);
                if !invocations::finish(unit, &row)? {
                    return Err(Error::stored(
                        "a tool call",
                        "was finished by another process while it ran",
                    ));
                }
                unit.emit(NewEvent {
                    kind: EventKind::ToolFinished,
                    subject: row.id.to_string(),
                    payload: json!({
                        "tool": row.tool,
                        "session": row.session,
                        "plan": row.plan,
                        "turn": row.turn,
                        "outcome": row.outcome,
                        "changes": changes,
                    }),
                });
                Ok(())
            })
            .map_err(PortError::new)
    }

    fn refuse(&self, refused: &RefusedCall<'_>) -> Result<(), PortError> {
        let names = (refused.call_id, refused.tool);
        let mut row = self.row(refused.id, refused.scope, names, refused.arguments);
        row.outcome = InvocationOutcome::Refused;
        row.error = Some(storable(&refused.reason.to_string()));
        row.reason = Some(refused.reason.kind().to_owned());
        row.finished_at = Some(row.started_at);
        self.write(move |unit| {
            invocations::insert(unit, &row)?;
            announce(unit, EventKind::ToolRefused, &row);
            Ok(())
        })
        .map_err(PortError::new)
    }

    fn output(
        &self,
        scope: &Scope,
        invocation: ToolInvocationId,
        window: Window,
    ) -> Result<Option<OutputPage>, PortError> {
        let content = self
            .engine
            .read(|reader| {
                let row = invocations::get(reader, invocation)?
                    .filter(|row| row.session == scope.session && row.plan == scope.plan);
                let hash: Option<ContentHash> = row.and_then(|row| row.output);
                match hash {
                    Some(hash) => blobs::get(reader, hash),
                    None => Ok(None),
                }
            })
            .map_err(PortError::new)?;
        Ok(content.map(|content| {
            let start = usize::try_from(window.from).unwrap_or(usize::MAX);
            let start = start.min(content.len());
            let end = start.saturating_add(window.bytes).min(content.len());
            OutputPage {
                total: content.len() as u64,
                bytes: content[start..end].to_vec(),
            }
        }))
    }
}
