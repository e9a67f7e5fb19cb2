//! Runs SQL on the databases of a sandbox, after the statements that the sandbox has already recorded, and
//! records further statements.

use cleveragents_domain::{CheckpointNumber, CheckpointReason};
use cleveragents_sandbox::{Base, Member, QueryResult, Servers as _};

use super::error::SandboxError;
use super::history::CaptureReport;
use super::service::{OpenSandbox, SandboxService};

/// A query on a database of a sandbox.
#[derive(Debug, Clone)]
pub struct QueryRequest {
    /// Alias of the part; by default the only part that is a database on a server.
    pub part: Option<String>,
    /// SQL statements.
    pub sql: String,
    /// Maximum number of rows that the last statement returns.
    pub limit: usize,
    /// Whether the statements are recorded, and later applied with the sandbox.
    pub record: Recording,
}

/// Whether successful statements are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// The statements are not recorded.
    No,
    /// The statements are appended to the script of the part.
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
    /// Runs the script of a part, then the statements of the request, in one transaction on its database, and
    /// rolls it back. Recording appends the statements to the script.
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
                // Use only the first word of each statement, because a statement may contain sensitive data.
                let words: Vec<_> = answer
                    .statements
                    .iter()
                    .map(|statement| statement.word.as_str())
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
    requested: Option<&str>,
) -> Result<&'a Member, SandboxError> {
    let name = &open.view.sandbox.name;
    let is_database = |member: &&Member| member.base == Base::Postgres;
    let Some(requested) = requested else {
        let databases: Vec<_> = open.view.members.iter().filter(is_database).collect();
        return match databases.as_slice() {
            [only] => Ok(*only),
            several => Err(SandboxError::WhichDatabase {
                name: name.clone(),
                parts: several.iter().map(|member| member.alias.clone()).collect(),
            }),
        };
    };
    let member = open
        .view
        .members
        .iter()
        .find(|member| member.alias == requested);
    match member {
        Some(member) if is_database(&member) => Ok(member),
        Some(_) => Err(SandboxError::NoDatabase {
            name: name.clone(),
            part: requested.to_owned(),
        }),
        None => Err(SandboxError::PartNotFound {
            name: name.to_owned(),
            part: requested.to_owned(),
        }),
    }
}
