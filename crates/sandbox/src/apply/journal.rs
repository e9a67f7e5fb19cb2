//! [`Journal`]: all steps of an apply, saved before the first one starts.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::TreePath;
use serde::{Deserialize, Serialize};

use super::repository::RefChange;
use super::steps::Steps;
use crate::database::DatabaseChange;
use crate::error::{Error, PathContext as _};
use crate::kill_points;
use crate::objects::Objects;
use crate::server::{Outcome, ServerChange, Servers, StatementRun};

/// Progress of an apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    /// Files are being staged and locks taken; the real resources are unchanged.
    Preparing,
    /// The apply will be completed.
    Committing,
    /// The apply is being rolled back.
    Undoing,
    /// The apply is complete; only the staging folders still exist.
    Done,
}

/// All steps of an apply.
#[derive(Debug, Serialize, Deserialize)]
pub struct Journal {
    phase: Phase,
    #[serde(with = "crate::path_text")]
    scratch: PathBuf,
    #[serde(with = "crate::path_text")]
    objects: PathBuf,
    databases: Vec<DatabaseChange>,
    trees: Vec<Steps>,
    references: Vec<RefChange>,
    /// Change on a database server. At most one, because two servers cannot commit atomically. Its outcome decides
    /// whether all other changes are completed or rolled back.
    #[serde(default)]
    server: Option<ServerChange>,
}

/// Outcome of recovering an interrupted apply.
#[derive(Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The apply was completed.
    Finished,
    /// The apply was rolled back, except for these paths: other processes have changed them since, so they are left
    /// unchanged.
    RolledBack(Vec<TreePath>),
}

impl Journal {
    pub(super) fn new(scratch: &Path, objects: &Path) -> Self {
        Self {
            phase: Phase::Preparing,
            scratch: scratch.to_owned(),
            objects: objects.to_owned(),
            databases: Vec::new(),
            trees: Vec::new(),
            references: Vec::new(),
            server: None,
        }
    }

    pub(super) const fn has_server(&self) -> bool {
        self.server.is_some()
    }

    pub(super) fn set_server(&mut self, change: ServerChange) {
        self.server = Some(change);
    }

    /// Alias of the member whose database server ran statements, and the result of each statement.
    pub(super) fn statements_done(&self) -> Option<(&String, &[StatementRun])> {
        let server = self.server.as_ref()?;
        Some((&server.alias, &server.done))
    }

    pub(super) fn add_steps(&mut self, steps: Steps) {
        self.trees.push(steps);
    }

    pub(super) fn add_reference(&mut self, change: RefChange) {
        self.references.push(change);
    }

    pub(super) fn add_database(&mut self, change: DatabaseChange) {
        self.databases.push(change);
    }

    /// Reads the journal of an interrupted apply; `None` if there is none.
    pub fn load(place: &Path) -> Result<Option<Self>, Error> {
        let text = match std::fs::read_to_string(place) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).during("reading", place),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| Error::Damaged(format!("the journal `{}`: {error}", place.display())))
    }

    fn save(&self, place: &Path) -> Result<(), Error> {
        let folder = place.parent().unwrap_or_else(|| Path::new("."));
        let write_atomically = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            let mut buffer = std::io::BufWriter::with_capacity(1 << 16, &mut file);
            serde_json::to_writer(&mut buffer, self)?;
            buffer.flush()?;
            drop(buffer);
            file.as_file().sync_all()?;
            file.persist(place).map_err(|error| error.error)?;
            std::fs::File::open(folder)?.sync_all()
        };
        write_atomically().during("writing", place)?;
        kill_points::boundary();
        Ok(())
    }

    fn advance(&mut self, phase: Phase, place: &Path) -> Result<(), Error> {
        self.phase = phase;
        self.save(place)
    }

    /// Executes all steps. If one fails, rolls back the executed steps.
    pub(super) fn execute(&mut self, place: &Path, servers: &dyn Servers) -> Result<(), Error> {
        // If this fails, no step has started, so no rollback is needed.
        self.save(place)?;
        let prepared = self.prepare(servers);
        if let Err(error) = prepared.and_then(|()| self.advance(Phase::Committing, place)) {
            return self.abort(place, error);
        }
        if let Err(error) = self.forward() {
            return self.roll_back_with_cause(place, error);
        }
        match self.commit(servers) {
            // All changes are applied. If the cleanup fails, the next command repeats it.
            Ok(Outcome::Committed) => self.finish(place).map_err(|error| {
                Error::Stuck(format!(
                    "all changes are applied, but the cleanup failed: {error}"
                ))
            }),
            Ok(Outcome::Aborted) => {
                let cause = "the server did not commit the statements".to_owned();
                self.roll_back_with_cause(place, Error::RolledBack(cause))
            }
            Err(error) => Err(outcome_unknown(error)),
        }
    }

    /// Commits on the server. This comes last because every other change can still be rolled back.
    fn commit(&mut self, servers: &dyn Servers) -> Result<Outcome, Error> {
        match &mut self.server {
            Some(server) => server.commit(servers),
            None => Ok(Outcome::Committed),
        }
    }

    fn prepare(&mut self, servers: &dyn Servers) -> Result<(), Error> {
        let objects = Objects::open(&self.objects).during("opening", &self.objects)?;
        for steps in &mut self.trees {
            steps.stage(&objects)?;
            kill_points::boundary();
        }
        for reference in &self.references {
            reference.lock()?;
            kill_points::boundary();
        }
        for database in &self.databases {
            if !database.is_untouched()? {
                return Err(Error::Raced(format!(
                    "the database `{}` was changed by another process",
                    database.location.display()
                )));
            }
        }
        // The server comes last, because its locks block other clients.
        if let Some(server) = &mut self.server {
            server.prepare(servers)?;
        }
        Ok(())
    }

    fn roll_back(&mut self) {
        if let Some(server) = &mut self.server {
            server.roll_back();
        }
    }

    /// Removes prepared files and locks. Does not touch the real resources, which are unchanged so far.
    fn abandon(&self) -> Result<(), Error> {
        for reference in &self.references {
            reference.unlock()?;
            kill_points::boundary();
        }
        for steps in &self.trees {
            steps.clean()?;
            kill_points::boundary();
        }
        Ok(())
    }

    /// Aborts an apply before it changes a real resource, and returns the cause.
    fn abort(&mut self, place: &Path, cause: Error) -> Result<(), Error> {
        self.roll_back();
        self.abandon()
            .map_err(|error| Error::Stuck(format!("{cause}; then: {error}")))?;
        remove_journal(place)?;
        Err(rolled_back_error(cause))
    }

    /// Executes all steps. Databases come first, because they are the most likely to fail.
    fn forward(&self) -> Result<(), Error> {
        for database in &self.databases {
            database.forward()?;
        }
        for steps in &self.trees {
            steps.forward()?;
        }
        for reference in &self.references {
            reference.forward()?;
        }
        Ok(())
    }

    fn finish(&mut self, place: &Path) -> Result<(), Error> {
        self.advance(Phase::Done, place)?;
        for steps in &self.trees {
            steps.clean()?;
            kill_points::boundary();
        }
        for reference in &self.references {
            reference.refresh();
        }
        Ok(())
    }

    fn backward(&mut self, place: &Path) -> Result<Vec<TreePath>, Error> {
        self.advance(Phase::Undoing, place)?;
        let mut unrestored = Vec::new();
        for reference in self.references.iter().rev() {
            reference.backward()?;
        }
        for steps in self.trees.iter().rev() {
            unrestored.extend(steps.backward()?);
        }
        for database in self.databases.iter().rev() {
            database.backward()?;
        }
        for steps in &self.trees {
            // The staging folder is kept if it contains old content that was not restored.
            if unrestored.is_empty() {
                steps.clean()?;
            }
        }
        Ok(unrestored)
    }

    /// Rolls back all changes and returns the cause.
    fn roll_back_with_cause(&mut self, place: &Path, cause: Error) -> Result<(), Error> {
        self.roll_back();
        let unrestored = self
            .backward(place)
            .map_err(|error| Error::Stuck(format!("{cause}; then: {error}")))?;
        if !unrestored.is_empty() {
            let names: Vec<_> = unrestored.iter().map(ToString::to_string).collect();
            return Err(Error::Stuck(format!(
                "{cause}; these paths were changed by another process and are left unchanged: {}",
                names.join(", ")
            )));
        }
        remove_journal(place)?;
        Err(rolled_back_error(cause))
    }

    /// Outcome of the server's transaction; `Committed` if no server takes part.
    fn outcome(&self, servers: &dyn Servers) -> Result<Outcome, Error> {
        match &self.server {
            Some(server) => server.outcome(servers).map_err(outcome_unknown),
            None => Ok(Outcome::Committed),
        }
    }

    /// Completes or rolls back an apply whose process died.
    pub fn recover(mut self, place: &Path, servers: &dyn Servers) -> Result<Recovery, Error> {
        let is_finished = match self.phase {
            Phase::Done => {
                self.finish(place)?;
                true
            }
            Phase::Committing => match (self.outcome(servers)?, self.has_server()) {
                (Outcome::Aborted, _) => false,
                (Outcome::Committed, is_committed_on_server) => match self.forward() {
                    Ok(()) => {
                        self.finish(place)?;
                        true
                    }
                    // The server has committed, so a rollback is impossible.
                    Err(error) if is_committed_on_server => {
                        return Err(Error::Stuck(error.to_string()));
                    }
                    Err(_) => false,
                },
            },
            Phase::Undoing => false,
            Phase::Preparing => {
                self.abandon()
                    .map_err(|error| Error::Stuck(error.to_string()))?;
                remove_journal(place)?;
                return Ok(Recovery::RolledBack(Vec::new()));
            }
        };
        if is_finished {
            return Ok(Recovery::Finished);
        }
        let unrestored = self
            .backward(place)
            .map_err(|error| Error::Stuck(error.to_string()))?;
        remove_journal(place)?;
        Ok(Recovery::RolledBack(unrestored))
    }

    /// Folder in which the apply was planned.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }
}

/// Removes the journal of an apply that was rolled back.
fn remove_journal(place: &Path) -> Result<(), Error> {
    match std::fs::remove_file(place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.during("removing", place),
    }
}

/// Error for an apply whose outcome is unknown because the server cannot be reached.
fn outcome_unknown(error: Error) -> Error {
    match error {
        Error::Stuck(_) => error,
        other => Error::Stuck(format!(
            "the outcome of the transaction on the database server is unknown: {other}"
        )),
    }
}

/// Converts a cause into the error for an apply that was rolled back.
fn rolled_back_error(cause: Error) -> Error {
    match cause {
        // Returned before anything was changed, or already reporting the rollback.
        Error::RepositoryBusy { .. }
        | Error::Raced(_)
        | Error::CannotApply { .. }
        | Error::Sql { .. }
        | Error::SqlNotAdmitted { .. }
        | Error::Unreachable { .. }
        | Error::RolledBack(_)
        | Error::Stuck(_) => cause,
        other => Error::RolledBack(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Journal, Phase};

    #[test]
    fn a_journal_without_the_server_field_is_readable() {
        let text = r#"{"phase":"committing","scratch":"/s","objects":"/o","databases":[],"trees":[],"references":[]}"#;
        let journal: Journal = serde_json::from_str(text).expect("it is read");
        assert_eq!(journal.phase, Phase::Committing);
        assert!(!journal.has_server());
    }
}
