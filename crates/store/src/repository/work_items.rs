//! Work items. The state of an item only changes through a statement that names the state it was read in, so of two
//! concurrent transitions the second one fails.

mod links;
mod queries;

use std::collections::BTreeSet;

use cleveragents_domain::{
    ContentHash, EventKind, ExternalItem, Finding, Moscow, Name, NewEvent, NewWorkItem, OpenChange,
    PlanId, Priority, Severity, StoryPoints, Timestamp, TransitionCause, WorkItem, WorkItemId,
    WorkItemKind, WorkItemState,
};
use serde::Serialize;
use serde_json::json;

pub use links::{
    DependencyInsert, dependencies, dependents, insert_dependency, remove_dependency, sightings,
    transitions, transitions_since,
};
pub use queries::{
    ItemFilter, ItemHit, OpenItem, count, count_by_state, count_in_state, known, of_source,
    open_dependencies, open_items, open_titles, page, search, with_external, with_prefix,
};

use super::stored_json;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "item_id, project, kind, title, body, state, state_since, reason, resumes_to, priority, milestone, points, \
         moscow, severity, labels, location, fingerprint, source, external_id, external_revision, external_url, \
         parent_id, duplicate_of, change_pool, change_plan, change_head, is_captured, round, version, created_at, \
         updated_at"
    };
}
pub(super) use columns;

pub(super) fn json_text<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::stored("a work item", error.to_string()))
}

/// Takes a column with one of the names of an enumeration.
pub(super) fn named<T>(
    row: &mut Row,
    what: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<T, Error> {
    let text: String = row.take()?;
    parse(&text).ok_or_else(|| Error::stored(what, format!("is `{text}`")))
}

pub(super) fn named_or_null<T>(
    row: &mut Row,
    what: &'static str,
    parse: fn(&str) -> Option<T>,
) -> Result<Option<T>, Error> {
    let text: Option<String> = row.take()?;
    text.map(|text| parse(&text).ok_or_else(|| Error::stored(what, format!("is `{text}`"))))
        .transpose()
}

pub(super) fn points(row: &mut Row) -> Result<Option<StoryPoints>, Error> {
    let points: Option<u32> = row.take()?;
    points
        .map(|points| {
            StoryPoints::new(points)
                .map_err(|error| Error::stored("the points of a work item", error.to_string()))
        })
        .transpose()
}

pub(super) fn labels(row: &mut Row) -> Result<BTreeSet<String>, Error> {
    let text: String = row.take()?;
    if text == "[]" {
        return Ok(BTreeSet::new());
    }
    stored_json("the labels of a work item", &text)
}

pub(super) fn read(mut row: Row) -> Result<WorkItem, Error> {
    Ok(WorkItem {
        id: row.take()?,
        project: row.take()?,
        kind: named(
            &mut row,
            "the kind of a work item",
            WorkItemKind::from_stored,
        )?,
        title: row.take()?,
        body: row.take()?,
        state: named(
            &mut row,
            "the state of a work item",
            WorkItemState::from_stored,
        )?,
        state_since: row.take()?,
        reason: row.take()?,
        resumes_to: named_or_null(
            &mut row,
            "the state after the pause of a work item",
            WorkItemState::from_stored,
        )?,
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
        severity: named_or_null(
            &mut row,
            "the severity of a work item",
            Severity::from_stored,
        )?,
        labels: labels(&mut row)?,
        location: row
            .take::<Option<String>>()?
            .map(|text| stored_json("the location of a work item", &text))
            .transpose()?,
        fingerprint: row.take()?,
        external: read_external(&mut row)?,
        parent: row.take()?,
        duplicate_of: row.take()?,
        change: read_change(&mut row)?,
        is_captured: row.take()?,
        round: row.take()?,
        version: row.take()?,
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

fn read_external(row: &mut Row) -> Result<Option<ExternalItem>, Error> {
    let (source, id): (Option<String>, Option<String>) = (row.take()?, row.take()?);
    let (revision, url): (Option<String>, Option<String>) = (row.take()?, row.take()?);
    Ok(source.zip(id).map(|(source, id)| ExternalItem {
        source,
        id,
        revision: revision.unwrap_or_default(),
        url,
    }))
}

fn read_change(row: &mut Row) -> Result<Option<OpenChange>, Error> {
    let pool: Option<String> = row.take()?;
    let (plan, head): (Option<PlanId>, Option<String>) = (row.take()?, row.take()?);
    Ok(pool.map(|pool| OpenChange { pool, plan, head }))
}

/// Namespace of a project, which is the namespace of its items.
pub fn namespace(project: &str) -> String {
    project
        .parse::<Name>()
        .map_or_else(|_| "local".to_owned(), |name| name.namespace().to_owned())
}

pub(super) fn emit(
    unit: &mut UnitOfWork<'_>,
    kind: EventKind,
    item: WorkItemId,
    project: &str,
    mut payload: serde_json::Value,
) {
    payload["project"] = project.into();
    payload["namespace"] = namespace(project).into();
    unit.emit(NewEvent {
        kind,
        subject: item.to_string(),
        payload,
    });
}

/// Origin of a change and its reason.
#[derive(Debug, Clone)]
pub struct ChangeOrigin {
    pub cause: TransitionCause,
    /// User, pool or source.
    pub by: String,
    pub reason: Option<String>,
}

impl ChangeOrigin {
    /// Without a reason.
    pub fn new(cause: TransitionCause, by: impl Into<String>) -> Self {
        Self {
            cause,
            by: by.into(),
            reason: None,
        }
    }

    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// Stores an item with its first transition. Returns `None` when an open item has the same fingerprint, or any item
/// the same external id.
pub fn insert(
    unit: &mut UnitOfWork<'_>,
    new: &NewWorkItem,
    origin: &ChangeOrigin,
) -> Result<Option<WorkItemId>, Error> {
    let (id, now) = (WorkItemId::generate(), unit.now());
    let external = new.external.as_ref();
    let touched = unit.execute(
        "INSERT INTO work_items (item_id, namespace, project, kind, title, body, state, state_since, reason, priority, \
         milestone, points, moscow, severity, labels, location, fingerprint, evidence_hash, source, external_id, \
         external_revision, external_url, parent_id, created_at, updated_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, \
         ?23, ?8, ?8) ON CONFLICT DO NOTHING",
        params![
            id,
            namespace(&new.project),
            new.project.as_str(),
            new.kind.as_str(),
            new.title.as_str(),
            new.body.as_str(),
            new.state.as_str(),
            now,
            origin.reason.as_deref(),
            new.priority.as_str(),
            new.milestone.as_deref(),
            new.points.map(StoryPoints::get),
            new.moscow.map(Moscow::as_str),
            new.severity.map(Severity::as_str),
            json_text(&new.labels)?,
            new.location.as_ref().map(json_text).transpose()?,
            new.fingerprint,
            new.evidence_hash,
            external.map(|external| external.source.as_str()),
            external.map(|external| external.id.as_str()),
            external.map(|external| external.revision.as_str()),
            external.and_then(|external| external.url.as_deref()),
            new.parent,
        ],
    )?;
    if touched == 0 {
        return Ok(None);
    }
    links::insert_transition(unit, id, None, new.state, origin)?;
    emit(
        unit,
        EventKind::WorkItemCreated,
        id,
        &new.project,
        json!({"kind": new.kind, "state": new.state, "by": origin.by}),
    );
    Ok(Some(id))
}

/// One item.
pub fn get(reader: &mut dyn Reader, id: WorkItemId) -> Result<Option<WorkItem>, Error> {
    let row = reader.query_first(
        concat!("SELECT ", columns!(), " FROM work_items WHERE item_id = ?1"),
        params![id],
    )?;
    row.map(read).transpose()
}

/// Moves an item to another state. Returns `false` when the item is no longer in the state `from`. A transition that
/// the table of transitions does not contain is an error.
pub fn transition(
    unit: &mut UnitOfWork<'_>,
    item: &WorkItem,
    to: WorkItemState,
    origin: &ChangeOrigin,
) -> Result<bool, Error> {
    let from = item.state;
    if !from.can_become(to) {
        return Err(Error::Internal(format!(
            "a work item in the state {from} cannot become {to}"
        )));
    }
    let now = unit.now();
    // A closed item has no open change, and neither has one that starts from the beginning.
    let keeps_change = to.has_open_change() || to.waits_for_person();
    let touched = unit.execute(
        "UPDATE work_items SET state = ?3, state_since = ?4, updated_at = ?4, reason = ?5, resumes_to = ?6, \
         change_pool = CASE WHEN ?7 = 1 THEN change_pool END, change_plan = CASE WHEN ?7 = 1 THEN change_plan END, \
         change_head = CASE WHEN ?7 = 1 THEN change_head END, version = version + 1 \
         WHERE item_id = ?1 AND state = ?2",
        params![
            item.id,
            from.as_str(),
            to.as_str(),
            now,
            origin.reason.as_deref(),
            (to == WorkItemState::Paused).then_some(from.as_str()),
            keeps_change,
        ],
    )?;
    if touched == 0 {
        return Ok(false);
    }
    links::insert_transition(unit, item.id, Some(from), to, origin)?;
    emit(
        unit,
        EventKind::WorkItemStateChanged,
        item.id,
        &item.project,
        json!({"from": from, "to": to, "cause": origin.cause, "by": origin.by, "reason": origin.reason}),
    );
    Ok(true)
}

/// Starts a new round: earlier attempts do not count any more.
pub fn start_round(unit: &mut UnitOfWork<'_>, item: WorkItemId) -> Result<(), Error> {
    unit.execute(
        "UPDATE work_items SET round = round + 1, version = version + 1 WHERE item_id = ?1",
        params![item],
    )?;
    Ok(())
}

/// Sets the open change of an item.
pub fn set_change(
    unit: &mut UnitOfWork<'_>,
    item: WorkItemId,
    change: &OpenChange,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE work_items SET change_pool = ?2, change_plan = ?3, change_head = ?4, version = version + 1 \
         WHERE item_id = ?1",
        params![
            item,
            change.pool.as_str(),
            change.plan,
            change.head.as_deref()
        ],
    )?;
    Ok(())
}

/// Records that a failing test was captured for an item.
pub fn set_captured(unit: &mut UnitOfWork<'_>, item: WorkItemId) -> Result<(), Error> {
    unit.execute(
        "UPDATE work_items SET is_captured = 1, version = version + 1 WHERE item_id = ?1",
        params![item],
    )?;
    Ok(())
}

/// Names the item that an item duplicates.
pub fn set_duplicate_of(
    unit: &mut UnitOfWork<'_>,
    item: WorkItemId,
    of: WorkItemId,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE work_items SET duplicate_of = ?2, version = version + 1 WHERE item_id = ?1",
        params![item, of],
    )?;
    Ok(())
}

/// Replaces the editable fields of an item with those of `item`: kind, title, body, priority, milestone, points,
/// MoSCoW, severity, labels, parent and external item. Returns `false` when the stored version is not the one of
/// `item`.
pub fn update(unit: &mut UnitOfWork<'_>, item: &WorkItem, by: &str) -> Result<bool, Error> {
    let now = unit.now();
    let external = item.external.as_ref();
    let touched = unit.execute(
        "UPDATE work_items SET kind = ?3, title = ?4, body = ?5, priority = ?6, milestone = ?7, points = ?8, \
         moscow = ?9, severity = ?10, labels = ?11, parent_id = ?12, source = ?13, external_id = ?14, \
         external_revision = ?15, external_url = ?16, updated_at = ?17, version = version + 1 \
         WHERE item_id = ?1 AND version = ?2",
        params![
            item.id,
            item.version,
            item.kind.as_str(),
            item.title.as_str(),
            item.body.as_str(),
            item.priority.as_str(),
            item.milestone.as_deref(),
            item.points.map(StoryPoints::get),
            item.moscow.map(Moscow::as_str),
            item.severity.map(Severity::as_str),
            json_text(&item.labels)?,
            item.parent,
            external.map(|external| external.source.as_str()),
            external.map(|external| external.id.as_str()),
            external.map(|external| external.revision.as_str()),
            external.and_then(|external| external.url.as_deref()),
            now,
        ],
    )?;
    if touched > 0 {
        emit(
            unit,
            EventKind::WorkItemChanged,
            item.id,
            &item.project,
            json!({"by": by}),
        );
    }
    Ok(touched > 0)
}

/// Place where a finding was filed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FiledFinding {
    /// A new item.
    New(WorkItemId),
    /// A sighting of an open item.
    Sighting(WorkItemId),
    /// A sighting of an item that was rejected on the same evidence; it stays rejected.
    Rejected(WorkItemId),
}

impl FiledFinding {
    /// The item that holds the finding.
    pub const fn item(self) -> WorkItemId {
        match self {
            Self::New(item) | Self::Sighting(item) | Self::Rejected(item) => item,
        }
    }
}

/// Files a finding: as a sighting of the item with its fingerprint, or as a new item. Of any number of concurrent
/// reports of one defect, one creates the item and the others are sightings of it.
pub fn file_finding(
    unit: &mut UnitOfWork<'_>,
    new: &NewWorkItem,
    finding: &Finding,
    plan: Option<PlanId>,
    origin: &ChangeOrigin,
) -> Result<FiledFinding, Error> {
    let fingerprint = finding.fingerprint();
    if let Some(filed) = known_finding(unit, &new.project, finding)? {
        links::insert_sighting(unit, filed.item(), &new.project, finding, plan)?;
        return Ok(filed);
    }
    let new = NewWorkItem {
        fingerprint: Some(fingerprint),
        evidence_hash: Some(finding.evidence_hash()),
        location: Some(finding.location.clone()),
        severity: Some(finding.severity),
        ..new.clone()
    };
    let filed = match insert(unit, &new, origin)? {
        Some(item) => FiledFinding::New(item),
        // Another transaction has created the item meanwhile.
        None => known_finding(unit, &new.project, finding)?
            .ok_or_else(|| Error::Internal("a finding is neither new nor known".to_owned()))?,
    };
    links::insert_sighting(unit, filed.item(), &new.project, finding, plan)?;
    Ok(filed)
}

/// Records a finding as a sighting if its defect is known. Returns `None`, and stores nothing, if it is not.
pub fn record_sighting(
    unit: &mut UnitOfWork<'_>,
    project: &str,
    finding: &Finding,
    plan: Option<PlanId>,
) -> Result<Option<FiledFinding>, Error> {
    let filed = known_finding(unit, project, finding)?;
    if let Some(filed) = filed {
        links::insert_sighting(unit, filed.item(), project, finding, plan)?;
    }
    Ok(filed)
}

/// The item of a known defect: an open one, or one that was rejected on the same evidence.
fn known_finding(
    reader: &mut dyn Reader,
    project: &str,
    finding: &Finding,
) -> Result<Option<FiledFinding>, Error> {
    let rows = reader.query(
        "SELECT item_id, state, evidence_hash, duplicate_of FROM work_items \
         WHERE project = ?1 AND fingerprint = ?2 ORDER BY position DESC",
        params![project, finding.fingerprint()],
    )?;
    let evidence = finding.evidence_hash();
    let mut rejected = None;
    for mut row in rows {
        let id: WorkItemId = row.take()?;
        let state = named(
            &mut row,
            "the state of a work item",
            WorkItemState::from_stored,
        )?;
        let known: Option<ContentHash> = row.take()?;
        let original: Option<WorkItemId> = row.take()?;
        match state {
            WorkItemState::WontDo if known == Some(evidence) => {
                rejected.get_or_insert(FiledFinding::Rejected(id));
            }
            WorkItemState::Duplicate if known == Some(evidence) => {
                rejected.get_or_insert_with(|| FiledFinding::Sighting(original.unwrap_or(id)));
            }
            WorkItemState::Completed | WorkItemState::WontDo | WorkItemState::Duplicate => {}
            _ => return Ok(Some(FiledFinding::Sighting(id))),
        }
    }
    Ok(rejected)
}

/// Time of the last change of any item of a project, for tests of staleness.
pub fn last_change(reader: &mut dyn Reader, project: &str) -> Result<Option<Timestamp>, Error> {
    let row = reader.query_first(
        "SELECT max(updated_at) FROM work_items WHERE project = ?1",
        params![project],
    )?;
    row.map_or(Ok(None), |mut row| row.take())
}
