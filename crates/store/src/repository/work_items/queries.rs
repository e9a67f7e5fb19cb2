//! Lists, search and the snapshot of open items.

use std::collections::BTreeSet;

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    Fingerprint, ItemFacts, Moscow, Priority, SearchQuery, StoryPoints, Timestamp, WorkItem,
    WorkItemId, WorkItemKind, WorkItemState,
};

use super::super::search::expression;
use super::super::visible;
use super::{columns, labels, named, named_or_null, points, read};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::transaction::Reader;
use crate::value::{Row, params};

/// The facts about an open item that the scheduler reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenItem {
    pub id: WorkItemId,
    pub project: String,
    pub kind: WorkItemKind,
    pub state: WorkItemState,
    pub state_since: Timestamp,
    pub priority: Priority,
    pub milestone: Option<String>,
    pub points: Option<StoryPoints>,
    pub moscow: Option<Moscow>,
    pub labels: BTreeSet<String>,
    pub change_pool: Option<String>,
    pub is_captured: bool,
    pub round: u64,
    pub created_at: Timestamp,
}

impl OpenItem {
    /// The columns that pools read.
    pub fn facts(&self) -> ItemFacts<'_> {
        ItemFacts {
            project: &self.project,
            kind: self.kind,
            state: self.state,
            priority: self.priority,
            milestone: self.milestone.as_deref(),
            points: self.points,
            labels: &self.labels,
        }
    }
}

fn read_open(mut row: Row) -> Result<OpenItem, Error> {
    Ok(OpenItem {
        id: row.take()?,
        project: row.take()?,
        kind: named(
            &mut row,
            "the kind of a work item",
            WorkItemKind::from_stored,
        )?,
        state: named(
            &mut row,
            "the state of a work item",
            WorkItemState::from_stored,
        )?,
        state_since: row.take()?,
        priority: named(
            &mut row,
            "the priority of a work item",
            Priority::from_stored,
        )?,
        milestone: row.take()?,
        points: points(&mut row)?,
        moscow: named_or_null(
            &mut row,
            "the MoSCoW value of a work item",
            Moscow::from_stored,
        )?,
        labels: labels(&mut row)?,
        change_pool: row.take()?,
        is_captured: row.take()?,
        round: row.take()?,
        created_at: row.take()?,
    })
}

/// All items of a project that are not closed.
pub fn open_items(reader: &mut dyn Reader, project: &str) -> Result<Vec<OpenItem>, Error> {
    let mut items = Vec::new();
    reader.query_each(
        "SELECT item_id, project, kind, state, state_since, priority, milestone, points, moscow, labels, change_pool, \
         is_captured, round, created_at FROM work_items \
         WHERE project = ?1 AND state NOT IN ('completed', 'duplicate', 'wont_do')",
        params![project],
        &mut |row| {
            items.push(read_open(row)?);
            Ok(())
        },
    )?;
    Ok(items)
}

/// Dependencies between open items of a project: the waiting item and the open item that it waits for.
pub fn open_dependencies(
    reader: &mut dyn Reader,
    project: &str,
) -> Result<Vec<(WorkItemId, WorkItemId)>, Error> {
    let rows = reader.query(
        "SELECT link.item_id, link.depends_on FROM work_items item \
         JOIN work_item_dependencies link ON link.item_id = item.item_id \
         JOIN work_items other ON other.item_id = link.depends_on \
         WHERE item.project = ?1 AND item.state NOT IN ('completed', 'duplicate', 'wont_do') \
         AND other.state NOT IN ('completed', 'duplicate', 'wont_do')",
        params![project],
    )?;
    let read = |mut row: Row| Ok((row.take()?, row.take()?));
    rows.into_iter().map(read).collect()
}

/// The titles of the items of a project that are not closed.
pub fn open_titles(
    reader: &mut dyn Reader,
    project: &str,
) -> Result<Vec<(WorkItemId, String)>, Error> {
    let rows = reader.query(
        "SELECT item_id, title FROM work_items \
         WHERE project = ?1 AND state NOT IN ('completed', 'duplicate', 'wont_do')",
        params![project],
    )?;
    let read = |mut row: Row| Ok((row.take()?, row.take()?));
    rows.into_iter().map(read).collect()
}

/// Number of items of a project in one state.
pub fn count_in_state(
    reader: &mut dyn Reader,
    project: &str,
    state: WorkItemState,
) -> Result<u64, Error> {
    let row = reader.query_first(
        "SELECT count(*) FROM work_items WHERE project = ?1 AND state = ?2",
        params![project, state.as_str()],
    )?;
    row.map_or(Ok(0), |mut row| row.take())
}

/// Number of items of a project in each state.
pub fn count_by_state(
    reader: &mut dyn Reader,
    project: &str,
) -> Result<Vec<(WorkItemState, u64)>, Error> {
    let rows = reader.query(
        "SELECT state, count(*) FROM work_items WHERE project = ?1 GROUP BY state",
        params![project],
    )?;
    let read = |mut row: Row| {
        let state = named(
            &mut row,
            "the state of a work item",
            WorkItemState::from_stored,
        )?;
        Ok((state, row.take()?))
    };
    rows.into_iter().map(read).collect()
}

/// Filter for lists. Empty lists accept everything.
#[derive(Debug, Clone, Default)]
pub struct ItemFilter {
    pub project: Option<String>,
    pub states: Vec<WorkItemState>,
    pub kinds: Vec<WorkItemKind>,
    pub priorities: Vec<Priority>,
    pub label: Option<String>,
    pub milestone: Option<String>,
    /// Whether closed items are listed when no state is named.
    pub with_closed: bool,
    pub visible: Namespaces,
}

/// Names as a parameter: each between commas, or nothing for all.
fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names
        .into_iter()
        .flat_map(|name| [",", name, ","])
        .collect()
}

macro_rules! filter {
    () => {
        "(?1 = '*' OR (?1 = '-' AND namespace <> 'local') OR REPLACE(?1, ',' || namespace || ',', '') <> ?1) \
         AND (?2 = '' OR project = ?2) \
         AND (?3 = '' OR REPLACE(?3, ',' || state || ',', '') <> ?3) \
         AND (?3 <> '' OR ?8 = 1 OR state NOT IN ('completed', 'duplicate', 'wont_do')) \
         AND (?4 = '' OR REPLACE(?4, ',' || kind || ',', '') <> ?4) \
         AND (?5 = '' OR REPLACE(?5, ',' || priority || ',', '') <> ?5) \
         AND (?6 = '' OR REPLACE(labels, ?6, '') <> labels) \
         AND (?7 = '' OR milestone = ?7)"
    };
}

fn filter_params(filter: &ItemFilter) -> Result<[String; 7], Error> {
    // A label in the JSON list is a quoted text.
    let label = match &filter.label {
        Some(label) => super::json_text(label)?,
        None => String::new(),
    };
    Ok([
        visible(&filter.visible),
        filter.project.clone().unwrap_or_default(),
        names(filter.states.iter().map(|state| state.as_str())),
        names(filter.kinds.iter().map(|kind| kind.as_str())),
        names(filter.priorities.iter().map(|priority| priority.as_str())),
        label,
        filter.milestone.clone().unwrap_or_default(),
    ])
}

/// Items that match a filter, newest first, after the item `before`.
pub fn page(
    reader: &mut dyn Reader,
    filter: &ItemFilter,
    before: Option<WorkItemId>,
    limit: u64,
) -> Result<Vec<WorkItem>, Error> {
    let [
        visible,
        project,
        states,
        kinds,
        priorities,
        label,
        milestone,
    ] = filter_params(filter)?;
    let before = before.map(|before| before.to_string()).unwrap_or_default();
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM work_items WHERE ",
            filter!(),
            " AND (?9 = '' OR item_id < ?9) ORDER BY item_id DESC LIMIT ?10"
        ),
        params![
            visible,
            project,
            states,
            kinds,
            priorities,
            label,
            milestone,
            filter.with_closed,
            before,
            limit
        ],
    )?;
    rows.into_iter().map(read).collect()
}

/// Number of items that match a filter.
pub fn count(reader: &mut dyn Reader, filter: &ItemFilter) -> Result<u64, Error> {
    let [
        visible,
        project,
        states,
        kinds,
        priorities,
        label,
        milestone,
    ] = filter_params(filter)?;
    let row = reader.query_first(
        concat!("SELECT count(*) FROM work_items WHERE ", filter!()),
        params![
            visible,
            project,
            states,
            kinds,
            priorities,
            label,
            milestone,
            filter.with_closed
        ],
    )?;
    row.map_or(Ok(0), |mut row| row.take())
}

/// Items whose id starts with `prefix`, at most `limit`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<WorkItem>, Error> {
    // `~` sorts after every character of an id.
    let end = format!("{prefix}~");
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM work_items WHERE item_id >= ?1 AND item_id < ?2 ORDER BY item_id LIMIT ?3"
        ),
        params![prefix, end, limit],
    )?;
    rows.into_iter().map(read).collect()
}

/// The item of a tracker's item.
pub fn with_external(
    reader: &mut dyn Reader,
    source: &str,
    external_id: &str,
) -> Result<Option<WorkItem>, Error> {
    let row = reader.query_first(
        concat!(
            "SELECT ",
            columns!(),
            " FROM work_items WHERE source = ?1 AND external_id = ?2"
        ),
        params![source, external_id],
    )?;
    row.map(read).transpose()
}

/// All items of a source, in the order of their creation.
pub fn of_source(reader: &mut dyn Reader, source: &str) -> Result<Vec<WorkItem>, Error> {
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM work_items WHERE source = ?1 ORDER BY position"
        ),
        params![source],
    )?;
    rows.into_iter().map(read).collect()
}

/// The items of a project with a fingerprint, newest first.
pub fn known(
    reader: &mut dyn Reader,
    project: &str,
    fingerprint: Fingerprint,
) -> Result<Vec<WorkItem>, Error> {
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM work_items WHERE project = ?1 AND fingerprint = ?2 ORDER BY position DESC"
        ),
        params![project, fingerprint],
    )?;
    rows.into_iter().map(read).collect()
}

/// A match of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemHit {
    pub item: WorkItem,
    /// Text around the match, with [`MATCH_MARKS`](crate::search::MATCH_MARKS) around each match.
    pub excerpt: String,
}

/// Matching items, best first.
pub fn search(
    reader: &mut dyn Reader,
    query: &SearchQuery,
    project: Option<&str>,
    namespaces: &Namespaces,
    limit: u64,
) -> Result<Vec<ItemHit>, Error> {
    let dialect = reader.dialect();
    let rows = reader.query(
        search_statement(dialect),
        params![
            visible(namespaces),
            expression(dialect, query),
            project.unwrap_or_default(),
            limit
        ],
    )?;
    let mut hits = Vec::with_capacity(rows.len());
    for mut row in rows {
        let (id, excerpt): (WorkItemId, String) = (row.take()?, row.take()?);
        if let Some(item) = super::get(reader, id)? {
            hits.push(ItemHit { item, excerpt });
        }
    }
    Ok(hits)
}

const fn search_statement(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "SELECT item.item_id, snippet(work_item_search, -1, char(2), char(3), '…', 24) \
             FROM work_item_search JOIN work_items item ON item.position = work_item_search.rowid \
             WHERE work_item_search MATCH ?2 AND (?3 = '' OR item.project = ?3) \
             AND (?1 = '*' OR (?1 = '-' AND item.namespace <> 'local') \
             OR REPLACE(?1, ',' || item.namespace || ',', '') <> ?1) \
             ORDER BY bm25(work_item_search, 4.0, 1.0), item.position LIMIT ?4"
        }
        Dialect::Postgres => {
            "SELECT item.item_id, ts_headline('simple', left(item.title || ' ' || item.body, 100000), query, marks) \
             FROM to_tsquery('simple', ?2) query, \
             concat('StartSel=', chr(2), ',StopSel=', chr(3), ',MaxWords=24,MinWords=8') marks, work_items item \
             WHERE to_tsvector('simple', searchable(item.title || ' ' || item.body)) @@ query \
             AND (?3 = '' OR item.project = ?3) \
             AND (?1 = '*' OR (?1 = '-' AND item.namespace <> 'local') \
             OR REPLACE(?1, ',' || item.namespace || ',', '') <> ?1) \
             ORDER BY ts_rank(to_tsvector('simple', searchable(item.title || ' ' || item.body)), query) DESC, \
             item.position LIMIT ?4"
        }
    }
}
