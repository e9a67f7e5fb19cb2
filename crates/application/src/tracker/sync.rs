//! [`sync_source`]: imports the issues of a tracker as work items of a project.
//!
//! The listing is complete before anything is written, and one unit of work writes everything. An issue that is missing
//! in the listing is looked up before its item is changed. Texts are stored as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cleveragents_domain::{
    Code, Diagnose, ExternalItem, Hint, MAX_BODY_LENGTH, MAX_TITLE_LENGTH, Moscow, NewWorkItem,
    Priority, StoryPoints, TrackerWriteId, TransitionCause, WorkItem, WorkItemKind, WorkItemState,
    checked_labels,
};
use cleveragents_store::item_sources::{self, ItemSource};
use cleveragents_store::work_items::{self, ChangeOrigin};
use cleveragents_store::{Engine, Error, UnitOfWork, tracker_outbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Tracker;
use super::error::TrackerError;
use super::labels::{LabelMapping, MappedFields};
use super::listing::incomplete;
use super::source::mapping_of;
use super::types::{TrackerIssue, TrackerListing};

/// The result of a synchronization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncReport {
    /// Issues that the tracker has, open and closed.
    pub total: u64,
    /// New items.
    pub created: u64,
    /// Items whose text, labels or fields changed.
    pub changed: u64,
    /// Items whose issue was closed or reopened at the tracker.
    pub moved: u64,
    /// Items whose issue does not exist any more; they wait for a decision.
    pub gone: u64,
    /// Items with the same revision as before.
    pub unchanged: u64,
    /// Closed issues without an item, and records of pools.
    pub ignored: u64,
}

/// Failure of a synchronization.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error(transparent)]
    Tracker(#[from] TrackerError),
    #[error(transparent)]
    Store(#[from] Error),
}

impl Diagnose for SyncError {
    fn code(&self) -> Code {
        match self {
            Self::Tracker(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Tracker(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Tracker(error) => error.details(),
            Self::Store(error) => error.details(),
        }
    }
}

/// Start of the stored revision of a closed issue.
const CLOSED: &str = "closed ";

/// The revision of an issue as its item stores it: with its state, so that reopening is recognized.
pub(super) fn stored_revision(issue: &TrackerIssue) -> String {
    let state = if issue.is_closed { CLOSED } else { "open " };
    format!("{state}{}", issue.revision)
}

/// Reads the complete listing of a source and stores its changes. A failure is recorded at the source.
pub fn sync_source(
    engine: &Arc<Engine>,
    source: &ItemSource,
    tracker: &dyn Tracker,
) -> Result<SyncReport, SyncError> {
    let outcome = synchronize(engine, source, tracker);
    if let Err(SyncError::Tracker(error)) = &outcome {
        let (name, text) = (source.name.clone(), error.to_string());
        engine.write(move |unit| item_sources::record_failure(unit, &name, &text))?;
    }
    outcome
}

fn synchronize(
    engine: &Arc<Engine>,
    source: &ItemSource,
    tracker: &dyn Tracker,
) -> Result<SyncReport, SyncError> {
    let mapping = mapping_of(source)?;
    // Read before the listing: an item that is created meanwhile is in neither.
    let known = engine.read(|reader| work_items::of_source(reader, &source.name))?;
    let listing = tracker.list()?;
    let listed: BTreeSet<&str> = listing
        .issues
        .iter()
        .map(|issue| issue.id.as_str())
        .collect();
    let mut gone = BTreeSet::new();
    for item in &known {
        let Some(external) = &item.external else {
            continue;
        };
        if listed.contains(external.id.as_str()) || item.state.is_terminal() {
            continue;
        }
        if tracker.get(&external.id.parse()?)?.is_some() {
            let reason = format!("issue `{}` exists and is not listed", external.id);
            return Err(incomplete(&reason).into());
        }
        gone.insert(external.id.clone());
    }
    let source = source.clone();
    let report = engine.write(move |unit| {
        let mut changes = SourceChanges {
            unit,
            source: &source,
            mapping: &mapping,
            origin: ChangeOrigin::new(TransitionCause::Tracker, source.name.as_str()),
            report: SyncReport::default(),
        };
        changes.store(&listing, &gone)?;
        Ok::<SyncReport, SyncError>(changes.report)
    })?;
    Ok(report)
}

/// The unit of work of a synchronization.
struct SourceChanges<'a, 'u> {
    unit: &'a mut UnitOfWork<'u>,
    source: &'a ItemSource,
    mapping: &'a LabelMapping,
    origin: ChangeOrigin,
    report: SyncReport,
}

impl SourceChanges<'_, '_> {
    fn store(
        &mut self,
        listing: &TrackerListing,
        gone: &BTreeSet<String>,
    ) -> Result<(), SyncError> {
        self.report.total = listing.total;
        if !item_sources::record_sync(self.unit, &self.source.name, listing.total)? {
            return Err(TrackerError::InvalidSource {
                reason: format!("the source `{}` was removed meanwhile", self.source.name),
            }
            .into());
        }
        let items = work_items::of_source(self.unit, &self.source.name)?;
        let mut known: BTreeMap<String, WorkItem> = items
            .into_iter()
            .filter_map(|item| Some((item.external.as_ref()?.id.clone(), item)))
            .collect();
        let records = tracker_outbox::status_issues(self.unit, &self.source.name)?;
        for issue in &listing.issues {
            match known.remove(issue.id.as_str()) {
                Some(item) => self.update(&item, issue)?,
                None if records.iter().any(|record| record == issue.id.as_str()) => {
                    self.report.ignored += 1;
                }
                None => self.add(issue)?,
            }
        }
        for item in known.into_values() {
            let external = item.external.as_ref().map(|external| external.id.as_str());
            let is_gone = external.is_some_and(|id| gone.contains(id));
            if is_gone && item.state.can_become(WorkItemState::NeedsPerson) {
                let origin = self
                    .origin
                    .clone()
                    .because("its issue does not exist at the tracker any more");
                work_items::transition(self.unit, &item, WorkItemState::NeedsPerson, &origin)?;
                self.report.gone += 1;
            }
        }
        Ok(())
    }

    /// Handles an issue without an item: completes the pending write that created it, or adds a new item.
    fn add(&mut self, issue: &TrackerIssue) -> Result<(), SyncError> {
        let id = issue.write_key.as_deref().map(str::parse::<TrackerWriteId>);
        let write = match id {
            Some(Ok(id)) => tracker_outbox::waiting(self.unit, id)?,
            _ => None,
        };
        if let Some(write) = write.filter(|write| write.source == self.source.name) {
            if let Some(item) = write.item {
                let (external, url) = (issue.id.as_str(), issue.address.as_deref());
                let revision = stored_revision(issue);
                let source = &self.source.name;
                tracker_outbox::link_item(self.unit, item, source, external, &revision, url)?;
            }
            self.report.ignored += 1;
            return Ok(());
        }
        if issue.is_closed {
            self.report.ignored += 1;
            return Ok(());
        }
        let fields = self.mapping.fields_of(&issue.labels);
        let kind = parsed(fields.kind.as_ref(), WorkItemKind::from_stored);
        let mut new = NewWorkItem::new(
            self.source.project.as_str(),
            kind.unwrap_or(WorkItemKind::Task),
            title_of(issue),
        );
        new.body = body_of(issue);
        new.labels = labels_of(issue);
        new.milestone.clone_from(&issue.milestone);
        let priority = parsed(fields.priority.as_ref(), Priority::from_stored);
        new.priority = priority.unwrap_or(new.priority);
        new.moscow = parsed(fields.moscow.as_ref(), Moscow::from_stored);
        new.points = parsed(fields.points.as_ref(), points);
        if fields.state.as_deref() == Some(WorkItemState::Verified.as_str()) {
            new.state = WorkItemState::Verified;
        }
        new.external = Some(self.external_of(issue));
        let created = work_items::insert(self.unit, &new, &self.origin)?;
        self.report.created += u64::from(created.is_some());
        Ok(())
    }

    fn external_of(&self, issue: &TrackerIssue) -> ExternalItem {
        ExternalItem {
            source: self.source.name.clone(),
            id: issue.id.to_string(),
            revision: stored_revision(issue),
            url: issue.address.clone(),
        }
    }

    /// An item whose issue may have changed.
    fn update(&mut self, item: &WorkItem, issue: &TrackerIssue) -> Result<(), SyncError> {
        let revision = stored_revision(issue);
        let earlier = item.external.as_ref().map(|external| &external.revision);
        if earlier == Some(&revision) {
            self.report.unchanged += 1;
            return Ok(());
        }
        let was_closed = earlier.is_some_and(|revision| revision.starts_with(CLOSED));
        let mut changed = item.clone();
        changed.title = title_of(issue);
        changed.body = body_of(issue);
        changed.labels = labels_of(issue);
        changed.milestone.clone_from(&issue.milestone);
        self.take_fields(item, &mut changed, issue);
        changed.external = Some(self.external_of(issue));
        if !work_items::update(self.unit, &changed, &self.source.name)? {
            return Err(Error::Internal("an item changed within a unit of work".to_owned()).into());
        }
        self.report.changed += 1;
        let item = WorkItem {
            version: item.version + 1,
            ..changed
        };
        self.follow_state(&item, issue, was_closed)
    }

    /// Takes values of fields whose labels changed at the tracker. Other values are decided here.
    fn take_fields(&self, item: &WorkItem, changed: &mut WorkItem, issue: &TrackerIssue) {
        let before = self.mapping.fields_of(&item.labels);
        let after = self.mapping.fields_of(&issue.labels);
        let newer = |field: fn(&MappedFields) -> &Option<String>| {
            let (before, after) = (field(&before), field(&after));
            after.clone().filter(|_| before != after)
        };
        if let Some(kind) = parsed(newer(|f| &f.kind).as_ref(), WorkItemKind::from_stored) {
            changed.kind = kind;
        }
        if let Some(priority) = parsed(newer(|f| &f.priority).as_ref(), Priority::from_stored) {
            changed.priority = priority;
        }
        if let Some(moscow) = parsed(newer(|f| &f.moscow).as_ref(), Moscow::from_stored) {
            changed.moscow = Some(moscow);
        }
        if let Some(points) = parsed(newer(|f| &f.points).as_ref(), points) {
            changed.points = Some(points);
        }
    }

    /// Follows an issue that was closed or reopened at the tracker.
    fn follow_state(
        &mut self,
        item: &WorkItem,
        issue: &TrackerIssue,
        was_closed: bool,
    ) -> Result<(), SyncError> {
        let (next, reason) = if issue.is_closed && !item.state.is_terminal() {
            (
                WorkItemState::Completed,
                "its issue was closed at the tracker",
            )
        } else if !issue.is_closed && was_closed && item.state.is_terminal() {
            // A write that waits would close it again.
            if tracker_outbox::has_waiting(self.unit, item.id)? {
                return Ok(());
            }
            (
                WorkItemState::Unverified,
                "its issue was reopened at the tracker",
            )
        } else {
            return Ok(());
        };
        if item.state.can_become(next) {
            let origin = self.origin.clone().because(reason);
            work_items::transition(self.unit, item, next, &origin)?;
            self.report.moved += 1;
        }
        Ok(())
    }
}

fn parsed<T>(value: Option<&String>, parse: fn(&str) -> Option<T>) -> Option<T> {
    value.and_then(|value| parse(value))
}

fn points(text: &str) -> Option<StoryPoints> {
    StoryPoints::new(text.parse().ok()?).ok()
}

/// A title that can be stored: one line of limited length.
fn title_of(issue: &TrackerIssue) -> String {
    let words = issue.title.replace('\0', " ");
    let title = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let title: String = title.chars().take(MAX_TITLE_LENGTH).collect();
    if title.is_empty() {
        return format!("Issue {}", issue.id);
    }
    title
}

fn body_of(issue: &TrackerIssue) -> String {
    let body = issue.body.replace('\0', " ");
    body.chars().take(MAX_BODY_LENGTH).collect()
}

/// The labels that can be stored.
fn labels_of(issue: &TrackerIssue) -> BTreeSet<String> {
    let labels = issue.labels.iter();
    labels
        .filter_map(|label| checked_labels([label.as_str()]).ok())
        .flatten()
        .collect()
}
