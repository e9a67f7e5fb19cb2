//! Queries on the future state of a sandbox's databases, and additions to their scripts.

use cleveragents_domain::{CheckpointNumber, CheckpointReason};
use cleveragents_sandbox::{Base, Member, QueryResult, Servers as _};

use super::error::SandboxError;
use super::history::CaptureReport;
use super::service::{OpenSandbox, SandboxService};

/// A query on a database of a sandbox.
#[derive(Debug, Clone)]
pub struct QueryRequest {
    /// The part; by default the only database on a server.
    pub part: Option<String>,
    /// SQL statements.
    pub sql: String,
    /// Maximum number of rows of the last statement.
    pub limit: usize,
    /// Whether the statements become part of what is applied.
    pub record: Recording,
}

/// Treatment of statements that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// They are not recorded.
    No,
    /// They are added to the script of the part.
    Yes,
}

/// Result of a query.
#[derive(Debug)]
pub struct QueryReport {
    /// Alias of the part.
    pub part: String,
    /// Rows and results of the statements.
    pub answer: QueryResult,
    /// Checkpoint of the state before the statements were recorded, and the recorded changes.
    pub recorded: Option<(CheckpointNumber, CaptureReport)>,
}

impl SandboxService {
    /// Runs statements on the database of a part, after those of its script, and rolls everything
    /// back. Recording only adds them to the script.
    pub fn query(
        &self,
        open: &mut OpenSandbox,
        request: &QueryRequest,
    ) -> Result<QueryReport, SandboxError> {
        let member = database_part(open, request.part.as_deref())?.clone();
        if request.record == Recording::Yes {
            member.require_writable()?;
        }
        let connection = self.servers(&open.view).connect(&member.alias)?;
        let answer = member.query(connection, &request.sql, request.limit)?;
        let recorded = match request.record {
            Recording::No => None,
            Recording::Yes => {
                // Only the first words: a statement may contain data that should not appear in a list.
                let words: Vec<_> = answer
                    .statements
                    .iter()
                    .map(|one| one.word.as_str())
                    .collect();
                let label = format!("query: {}", words.join(", "));
                let checkpoint =
                    self.checkpoint(open, CheckpointReason::BeforeExec, Some(&label))?;
                let path = member.record_sql(&request.sql)?;
                let script = [(member.alias.as_str(), vec![path])];
                let changes = self.capture_paths(open, &script, Some("sandbox/query".into()))?;
                Some((checkpoint, changes))
            }
        };
        Ok(QueryReport {
            part: member.alias,
            answer,
            recorded,
        })
    }
}

/// The requested part, which must be a database on a server.
fn database_part<'a>(
    open: &'a OpenSandbox,
    wanted: Option<&str>,
) -> Result<&'a Member, SandboxError> {
    let name = &open.view.sandbox.name;
    let is_database = |member: &&Member| member.base == Base::Postgres;
    let Some(wanted) = wanted else {
        let databases: Vec<_> = open.view.members.iter().filter(is_database).collect();
        return match databases.as_slice() {
            [only] => Ok(*only),
            several => Err(SandboxError::WhichDatabase {
                name: name.clone(),
                parts: several.iter().map(|member| member.alias.clone()).collect(),
            }),
        };
    };
    let found = open
        .view
        .members
        .iter()
        .find(|member| member.alias == wanted);
    match found {
        Some(member) if is_database(&member) => Ok(member),
        Some(_) => Err(SandboxError::NoDatabase {
            name: name.clone(),
            part: wanted.to_owned(),
        }),
        None => Err(SandboxError::PartNotFound {
            name: name.to_owned(),
            part: wanted.to_owned(),
        }),
    }
}
