//! [`WorkItemService`]: the commands of users on work items. Each command decides and writes in one unit of work.

use std::sync::Arc;

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    Attempt, Moscow, NewWorkItem, Priority, SearchQuery, Severity, Sighting, StateTransition,
    StoredReview, StoryPoints, TransitionCause, WorkItem, WorkItemId, WorkItemKind, WorkItemState,
    check_prefix, checked_body, checked_labels, checked_title,
};
use cleveragents_store::work_items::{ChangeOrigin, DependencyInsert, ItemFilter, ItemHit};
use cleveragents_store::{Engine, Reader, UnitOfWork, attempts, work_items};

use super::error::WorkItemError;

/// An item with everything that belongs to it.
#[derive(Debug, Clone)]
pub struct WorkItemDetails {
    pub item: WorkItem,
    pub depends_on: Vec<(WorkItemId, WorkItemState)>,
    pub needed_by: Vec<(WorkItemId, WorkItemState)>,
    pub transitions: Vec<StateTransition>,
    pub attempts: Vec<Attempt>,
    pub reviews: Vec<StoredReview>,
    pub sightings: Vec<Sighting>,
}

/// Values to change; `None` keeps the present one. An empty milestone removes it.
#[derive(Debug, Clone, Default)]
pub struct WorkItemEdit {
    pub title: Option<String>,
    pub body: Option<String>,
    pub kind: Option<WorkItemKind>,
    pub priority: Option<Priority>,
    pub milestone: Option<String>,
    pub points: Option<u32>,
    pub moscow: Option<Moscow>,
    pub severity: Option<Severity>,
    pub add_labels: Vec<String>,
    pub remove_labels: Vec<String>,
    pub state: Option<WorkItemState>,
    pub reason: Option<String>,
    /// Version that the values are based on; the change is refused if the stored version differs.
    pub version: Option<u64>,
}

/// Commands on work items. Cheap to clone.
#[derive(Clone)]
pub struct WorkItemService {
    engine: Arc<Engine>,
}

impl WorkItemService {
    /// A service for a store; everything it writes carries the identity of the engine.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The item with this id, or with an id that has this prefix.
    pub fn resolve(&self, reference: &str) -> Result<WorkItem, WorkItemError> {
        let prefix = check_prefix(reference)?;
        let mut found = self
            .engine
            .read(|reader| work_items::with_prefix(reader, &prefix, 5))?;
        match found.len() {
            0 => Err(WorkItemError::NotFound(reference.to_owned())),
            1 => Ok(found.remove(0)),
            _ => Err(WorkItemError::Ambiguous {
                reference: reference.to_owned(),
                candidates: found.iter().map(|item| item.id).collect(),
            }),
        }
    }

    /// An item with its links, attempts, reviews and history, read at one moment.
    pub fn show(&self, id: WorkItemId) -> Result<WorkItemDetails, WorkItemError> {
        self.engine.read(|reader| {
            Ok(WorkItemDetails {
                item: find(reader, id)?,
                depends_on: work_items::dependencies(reader, id)?,
                needed_by: work_items::dependents(reader, id)?,
                transitions: work_items::transitions(reader, id)?,
                attempts: attempts::of_item(reader, id)?,
                reviews: attempts::reviews(reader, id)?,
                sightings: work_items::sightings(reader, id)?,
            })
        })
    }

    /// Items that match a filter, newest first, and the number of matches.
    pub fn list(
        &self,
        filter: &ItemFilter,
        before: Option<WorkItemId>,
        limit: u64,
    ) -> Result<(Vec<WorkItem>, u64), WorkItemError> {
        self.engine.read(|reader| {
            Ok((
                work_items::page(reader, filter, before, limit)?,
                work_items::count(reader, filter)?,
            ))
        })
    }

    /// Items whose title or description contains the words of a query, best first.
    pub fn search(
        &self,
        query: &str,
        project: Option<&str>,
        visible: &Namespaces,
        limit: u64,
    ) -> Result<Vec<ItemHit>, WorkItemError> {
        let query = SearchQuery::parse(query)?;
        Ok(self
            .engine
            .read(|reader| work_items::search(reader, &query, project, visible, limit))?)
    }

    /// Stores a new item and its dependencies.
    pub fn add(
        &self,
        new: NewWorkItem,
        depends_on: Vec<WorkItemId>,
    ) -> Result<WorkItem, WorkItemError> {
        if !matches!(
            new.state,
            WorkItemState::Unverified | WorkItemState::Verified
        ) {
            return Err(WorkItemError::Refused(format!(
                "a new item is unverified or verified, not {}",
                new.state
            )));
        }
        let new = NewWorkItem {
            title: checked_title(&new.title)?,
            body: checked_body(&new.body)?,
            labels: checked_labels(new.labels.iter().map(String::as_str))?,
            ..new
        };
        self.engine.write(move |unit| {
            let by = unit.identity().to_owned();
            let origin = ChangeOrigin::new(TransitionCause::Person, &by);
            let id = work_items::insert(unit, &new, &origin)?.ok_or_else(|| {
                WorkItemError::Refused(
                    "an open item has the same fingerprint or external id".to_owned(),
                )
            })?;
            let item = find(unit, id)?;
            for on in &depends_on {
                add_dependency(unit, &item, *on, &by)?;
            }
            Ok(item)
        })
    }

    /// Changes fields and the state of an item.
    pub fn edit(&self, id: WorkItemId, edit: WorkItemEdit) -> Result<WorkItem, WorkItemError> {
        self.engine.write(move |unit| {
            let by = unit.identity().to_owned();
            let before = find(unit, id)?;
            if edit
                .version
                .is_some_and(|version| version != before.version)
            {
                return Err(WorkItemError::Changed(id));
            }
            let edited = edited(before.clone(), &edit)?;
            if edited != before && !work_items::update(unit, &edited, &by)? {
                return Err(WorkItemError::Changed(id));
            }
            if let Some(to) = edit.state
                && to != before.state
            {
                if to.is_terminal() {
                    return Err(WorkItemError::Refused(format!(
                        "to set the state {to}, close the item"
                    )));
                }
                let item = find(unit, id)?;
                move_by_person(unit, &item, to, edit.reason.clone(), &by)?;
            }
            find(unit, id)
        })
    }

    /// Closes an item as completed, rejected or a duplicate.
    pub fn close(
        &self,
        id: WorkItemId,
        to: WorkItemState,
        duplicate_of: Option<WorkItemId>,
        reason: Option<String>,
    ) -> Result<WorkItem, WorkItemError> {
        if !to.is_terminal() || (to == WorkItemState::Duplicate) != duplicate_of.is_some() {
            return Err(WorkItemError::Refused(
                "an item is closed as completed, as rejected, or as the duplicate of another item"
                    .to_owned(),
            ));
        }
        self.engine.write(move |unit| {
            let by = unit.identity().to_owned();
            let item = find(unit, id)?;
            if let Some(of) = duplicate_of {
                let original = find(unit, of)?;
                if of == id || original.project != item.project {
                    return Err(WorkItemError::Refused(format!(
                        "{of} cannot be the original: it must be another item of the project {}",
                        item.project
                    )));
                }
                work_items::set_duplicate_of(unit, id, of)?;
            }
            move_by_person(unit, &item, to, reason.clone(), &by)?;
            find(unit, id)
        })
    }

    /// Adds or removes a dependency. Returns whether that changed something.
    pub fn link(
        &self,
        id: WorkItemId,
        on: WorkItemId,
        remove: bool,
    ) -> Result<bool, WorkItemError> {
        self.engine.write(move |unit| {
            let by = unit.identity().to_owned();
            let item = find(unit, id)?;
            if remove {
                return Ok(work_items::remove_dependency(unit, &item, on, &by)?);
            }
            add_dependency(unit, &item, on, &by)
        })
    }

    /// Sets or removes the item that an item is a part of.
    pub fn set_parent(
        &self,
        id: WorkItemId,
        parent: Option<WorkItemId>,
    ) -> Result<(), WorkItemError> {
        self.engine.write(move |unit| {
            let by = unit.identity().to_owned();
            let mut item = find(unit, id)?;
            // A chain of parents never comes back to its beginning.
            let mut above = parent;
            while let Some(next) = above {
                if next == id {
                    return Err(WorkItemError::Cycle {
                        item: id,
                        on: parent.unwrap_or(id),
                    });
                }
                above = find(unit, next)?.parent;
            }
            item.parent = parent;
            if work_items::update(unit, &item, &by)? {
                return Ok(());
            }
            Err(WorkItemError::Changed(id))
        })
    }
}

fn find(reader: &mut dyn Reader, id: WorkItemId) -> Result<WorkItem, WorkItemError> {
    work_items::get(reader, id)?.ok_or_else(|| WorkItemError::NotFound(id.to_string()))
}

fn add_dependency(
    unit: &mut UnitOfWork<'_>,
    item: &WorkItem,
    on: WorkItemId,
    by: &str,
) -> Result<bool, WorkItemError> {
    find(unit, on)?;
    match work_items::insert_dependency(unit, item, on, by)? {
        DependencyInsert::Inserted => Ok(true),
        DependencyInsert::Known => Ok(false),
        DependencyInsert::Cycle => Err(WorkItemError::Cycle { item: item.id, on }),
    }
}

/// Moves an item for the user. Reopening starts a new round; a pause ends in the state before it.
fn move_by_person(
    unit: &mut UnitOfWork<'_>,
    item: &WorkItem,
    to: WorkItemState,
    reason: Option<String>,
    by: &str,
) -> Result<(), WorkItemError> {
    let refusal = || WorkItemError::Transition {
        item: item.id,
        from: item.state,
        to,
    };
    let is_resumed = item.state == WorkItemState::Paused && !to.is_terminal();
    if !item.state.can_become(to) || (is_resumed && item.resumes_to != Some(to)) {
        return Err(refusal());
    }
    let origin = ChangeOrigin {
        reason,
        ..ChangeOrigin::new(TransitionCause::Person, by)
    };
    if !work_items::transition(unit, item, to, &origin)? {
        return Err(WorkItemError::Changed(item.id));
    }
    let is_reopened = item.state == WorkItemState::NeedsPerson || item.state.is_terminal();
    if is_reopened && !to.is_terminal() {
        work_items::start_round(unit, item.id)?;
    }
    Ok(())
}

fn edited(mut item: WorkItem, edit: &WorkItemEdit) -> Result<WorkItem, WorkItemError> {
    if let Some(title) = &edit.title {
        item.title = checked_title(title)?;
    }
    if let Some(body) = &edit.body {
        item.body = checked_body(body)?;
    }
    item.kind = edit.kind.unwrap_or(item.kind);
    item.priority = edit.priority.unwrap_or(item.priority);
    if let Some(milestone) = &edit.milestone {
        let milestone = milestone.trim();
        item.milestone = (!milestone.is_empty()).then(|| milestone.to_owned());
    }
    if let Some(points) = edit.points {
        item.points = Some(StoryPoints::new(points)?);
    }
    item.moscow = edit.moscow.or(item.moscow);
    item.severity = edit.severity.or(item.severity);
    for label in checked_labels(edit.remove_labels.iter().map(String::as_str))? {
        item.labels.remove(&label);
    }
    item.labels
        .extend(checked_labels(edit.add_labels.iter().map(String::as_str))?);
    Ok(item)
}
