//! Queries the future state of a member's database, and writes its script.

use std::io::Read as _;

use cleveragents_domain::{FileKind, FileMode, TreePath};

use super::session::{Access, Session};
use super::{Connection, FIRST, SCRIPT, Script, StatementRun};
use crate::apply::READ_ONLY;
use crate::error::{Error, PathContext as _};
use crate::member::Member;

/// Name that messages use for SQL that is not part of the script.
const GIVEN: &str = "the given SQL";

#[derive(Debug)]
pub struct QueryResult {
    /// The columns of the last statement.
    pub columns: Vec<String>,
    /// First rows of the last statement, as text; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// Result of each given statement.
    pub statements: Vec<StatementRun>,
    /// Number of statements of the member's script that ran before the given statements.
    pub earlier: usize,
}

impl Member {
    pub(crate) fn script_path() -> Result<TreePath, Error> {
        TreePath::from_bytes(SCRIPT).map_err(|error| Error::Damaged(error.to_string()))
    }

    /// Writes the initial script.
    pub(crate) fn create_script(&self) -> Result<(), Error> {
        self.write_script(FIRST)
    }

    fn write_script(&self, text: &str) -> Result<(), Error> {
        let mode = FileMode::new(FileKind::File, 0o644);
        let path = Self::script_path()?;
        self.work_root()?
            .write_file(&path, mode, &mut text.as_bytes())
            .during("writing", &self.root.join(SCRIPT))
    }

    /// The current script; empty if the file does not exist.
    fn read_script(&self) -> Result<String, Error> {
        let place = self.root.join(SCRIPT);
        let path = Self::script_path()?;
        let root = self.work_root()?;
        let Some(stat) = root.stat(&path).during("reading", &place)? else {
            return Ok(String::new());
        };
        if stat.mode.map(FileMode::kind) != Some(FileKind::File) {
            return Err(Error::SqlNotAdmitted {
                name: SCRIPT,
                line: 1,
                reason: "cannot be read: it is not a file".to_owned(),
            });
        }
        let mut text = Vec::new();
        let mut file = root.open_file(&path).during("reading", &place)?;
        file.read_to_end(&mut text).during("reading", &place)?;
        String::from_utf8(text).map_err(|error| {
            let text = error.as_bytes();
            let line = super::script::line_of(text, error.utf8_error().valid_up_to());
            Error::SqlNotAdmitted {
                name: SCRIPT,
                line,
                reason: "is not UTF-8".to_owned(),
            }
        })
    }

    /// Refuses to write the script of a read-only database.
    pub fn require_writable(&self) -> Result<(), Error> {
        if !self.is_read_only {
            return Ok(());
        }
        Err(Error::CannotApply {
            alias: self.alias.clone(),
            problems: vec![(Self::script_path()?, READ_ONLY.to_owned())],
        })
    }

    /// Runs the script of this member and then `sql`, in a transaction that is always rolled back. Returns at most
    /// `limit` rows of the last statement.
    pub fn query(
        &self,
        connection: Connection,
        sql: &str,
        limit: usize,
    ) -> Result<QueryResult, Error> {
        let script = Script::parse(SCRIPT, self.read_script()?.as_bytes())?;
        let extra = Script::parse(GIVEN, sql.as_bytes())?;
        let access = if self.is_read_only {
            Access::Read
        } else {
            Access::Write
        };
        let mut session = Session::begin(connection, access)?;
        let outcome = session
            .run(&script, 0)
            .and_then(|(earlier, _)| Ok((earlier, session.run(&extra, limit)?)))
            .and_then(|done| session.check(&extra).map(|()| done));
        session.roll_back();
        let (earlier, (statements, rows)) = outcome?;
        Ok(QueryResult {
            columns: rows.columns,
            rows: rows.values,
            statements,
            earlier: earlier.len(),
        })
    }

    /// Appends SQL to the script and returns the changed path.
    pub fn record_sql(&self, sql: &str) -> Result<TreePath, Error> {
        let text = self.read_script()?;
        let script = Script::parse(SCRIPT, text.as_bytes())?;
        let extra = Script::parse(GIVEN, sql.as_bytes())?;
        self.write_script(&script.followed_by(&text, &extra))?;
        Self::script_path()
    }
}
