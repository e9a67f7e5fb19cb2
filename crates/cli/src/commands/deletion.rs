//! Confirmation, rehearsal and report of commands that delete.

use std::sync::Arc;

use cleveragents_store::Engine;

use super::confirm;
use crate::arguments::{Deletion, Rehearsal};
use crate::context::Context;
use crate::output::{CommandError, Report};

impl Deletion {
    pub(crate) const fn dry_run(self) -> bool {
        self.rehearsal.dry_run
    }

    /// Asks the user for confirmation, unless it was given or nothing will change.
    pub(crate) fn confirm(self, question: &str) -> Result<(), CommandError> {
        confirm(question, self.yes || self.dry_run())
    }

    /// Ends the report of a deletion, or of its rehearsal.
    pub(crate) fn conclude(self, report: Report, done: impl Into<String>) -> Report {
        self.rehearsal.conclude(report, done)
    }
}

impl Rehearsal {
    /// The database; for a rehearsal, one that stays as it is.
    pub(crate) fn engine(self, context: &Context) -> Result<Arc<Engine>, CommandError> {
        let engine = context.engine()?;
        Ok(if self.dry_run {
            engine.rehearsing()
        } else {
            engine
        })
    }

    /// Ends the report of a deletion, or of its rehearsal.
    pub(crate) fn conclude(self, report: Report, done: impl Into<String>) -> Report {
        if self.dry_run {
            report
                .rehearsed()
                .info("dry run: this would be removed; nothing was changed")
        } else {
            report.ok(done)
        }
    }
}
