//! Sources of work items: the trackers whose issues a project has as items.

use cleveragents_domain::Timestamp;
use cleveragents_domain::identity::Namespaces;

use super::visible;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// A source of work items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemSource {
    pub name: String,
    /// Full name of the project.
    pub project: String,
    /// `forgejo`, `github` or `markdown`.
    pub kind: String,
    /// Address of a repository, or path of a folder.
    pub address: String,
    /// Name of the variable that holds the token.
    pub credential: Option<String>,
    /// JSON object: labels of values of typed fields.
    pub labels: String,
    /// Whether changes of items are written to the tracker.
    pub mirrors: bool,
    pub created_at: Timestamp,
    pub synced_at: Option<Timestamp>,
    /// Number of issues of the last complete listing.
    pub total: Option<u64>,
    /// Reason of the failure of the last synchronization.
    pub last_error: Option<String>,
}

macro_rules! columns {
    () => {
        "name, project, kind, address, credential, labels, mirrors, created_at, synced_at, total, last_error"
    };
}

fn read(mut row: Row) -> Result<ItemSource, Error> {
    Ok(ItemSource {
        name: row.take()?,
        project: row.take()?,
        kind: row.take()?,
        address: row.take()?,
        credential: row.take()?,
        labels: row.take()?,
        mirrors: row.take()?,
        created_at: row.take()?,
        synced_at: row.take()?,
        total: row.take()?,
        last_error: row.take()?,
    })
}

/// Stores a source. Returns `false` when a source of this name exists, or the project has another source that changes
/// are written to.
pub fn insert(unit: &mut UnitOfWork<'_>, source: &ItemSource) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO item_sources (name, namespace, project, kind, address, credential, labels, mirrors, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
        params![
            source.name.as_str(),
            super::work_items::namespace(&source.project),
            source.project.as_str(),
            source.kind.as_str(),
            source.address.as_str(),
            source.credential.as_deref(),
            source.labels.as_str(),
            source.mirrors,
            now,
        ],
    )?;
    Ok(touched == 1)
}

/// One source.
pub fn get(reader: &mut dyn Reader, name: &str) -> Result<Option<ItemSource>, Error> {
    let row = reader.query_first(
        concat!("SELECT ", columns!(), " FROM item_sources WHERE name = ?1"),
        params![name],
    )?;
    row.map(read).transpose()
}

/// Sources in these namespaces, by name.
pub fn list(reader: &mut dyn Reader, namespaces: &Namespaces) -> Result<Vec<ItemSource>, Error> {
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM item_sources WHERE ?1 = '*' OR (?1 = '-' AND namespace <> 'local') \
             OR REPLACE(?1, ',' || namespace || ',', '') <> ?1 ORDER BY name"
        ),
        params![visible(namespaces)],
    )?;
    rows.into_iter().map(read).collect()
}

/// The source of a project that changes are written to.
pub fn mirror_of(reader: &mut dyn Reader, project: &str) -> Result<Option<ItemSource>, Error> {
    let row = reader.query_first(
        concat!(
            "SELECT ",
            columns!(),
            " FROM item_sources WHERE project = ?1 AND mirrors = 1"
        ),
        params![project],
    )?;
    row.map(read).transpose()
}

/// Removes a source with its undelivered writes. Items keep their external ids.
pub fn remove(unit: &mut UnitOfWork<'_>, name: &str) -> Result<bool, Error> {
    let touched = unit.execute("DELETE FROM item_sources WHERE name = ?1", params![name])?;
    Ok(touched == 1)
}

/// Records a synchronization: the number of listed issues.
pub fn record_sync(unit: &mut UnitOfWork<'_>, name: &str, total: u64) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE item_sources SET synced_at = ?2, total = ?3, last_error = NULL WHERE name = ?1",
        params![name, now, total],
    )?;
    Ok(touched == 1)
}

/// Records a failed synchronization; the last complete listing stays.
pub fn record_failure(unit: &mut UnitOfWork<'_>, name: &str, error: &str) -> Result<(), Error> {
    unit.execute(
        "UPDATE item_sources SET last_error = ?2 WHERE name = ?1",
        params![name, error],
    )?;
    Ok(())
}
