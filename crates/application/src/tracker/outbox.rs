//! Writes for trackers, enqueued in the unit of work of the change that they mirror.
//!
//! A project without a source that mirrors its changes enqueues nothing.

use std::collections::BTreeSet;

use cleveragents_domain::{ContentHash, WorkItem, WorkItemId, WorkItemState};
use cleveragents_store::item_sources::{self, ItemSource};
use cleveragents_store::tracker_outbox::{self, NewTrackerWrite};
use cleveragents_store::{Error, UnitOfWork, work_items};
use serde::{Deserialize, Serialize};

use super::labels::MappedFields;
use super::types::NewIssue;

/// Content of a write of the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WritePayload {
    Create {
        issue: NewIssue,
        fields: MappedFields,
    },
    Comment {
        body: String,
    },
    Fields {
        fields: MappedFields,
        is_closed: bool,
        /// Labels of the item, which the issue gets if the tracker knows them.
        #[serde(default)]
        labels: BTreeSet<String>,
    },
    Status {
        pool: String,
        title: String,
        body: String,
    },
}

impl WritePayload {
    const fn action(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Comment { .. } => "comment",
            Self::Fields { .. } => "fields",
            Self::Status { .. } => "status",
        }
    }

    fn json(&self) -> Result<String, Error> {
        serde_json::to_string(self)
            .map_err(|error| Error::stored("a write to a tracker", error.to_string()))
    }
}

/// The typed fields of an item as labels express them.
pub(super) fn fields_of(item: &WorkItem) -> MappedFields {
    MappedFields {
        kind: Some(item.kind.to_string()),
        priority: Some(item.priority.to_string()),
        moscow: item.moscow.map(|moscow| moscow.to_string()),
        points: item.points.map(|points| points.to_string()),
        state: Some(item.state.to_string()),
    }
}

/// The source to which changes of an item are written.
fn mirror_of(unit: &mut UnitOfWork<'_>, item: &WorkItem) -> Result<Option<ItemSource>, Error> {
    match &item.external {
        Some(external) => {
            let source = item_sources::get(unit, &external.source)?;
            Ok(source.filter(|source| source.mirrors))
        }
        None => item_sources::mirror_of(unit, &item.project),
    }
}

/// Whether changes of an item are written to a tracker.
pub(crate) fn is_mirrored(unit: &mut UnitOfWork<'_>, item: &WorkItem) -> Result<bool, Error> {
    Ok(mirror_of(unit, item)?.is_some())
}

/// Enqueues the fields of an item that may have changed in this unit of work.
pub(crate) fn mirror_item_fields(unit: &mut UnitOfWork<'_>, id: WorkItemId) -> Result<(), Error> {
    if let Some(item) = work_items::get(unit, id)? {
        mirror_fields(unit, &item)?;
    }
    Ok(())
}

fn enqueue(
    unit: &mut UnitOfWork<'_>,
    item: &WorkItem,
    source: &ItemSource,
    change_key: &str,
    payload: &WritePayload,
) -> Result<bool, Error> {
    tracker_outbox::enqueue(
        unit,
        &NewTrackerWrite {
            source: &source.name,
            subject: &format!("item:{}", item.id),
            change_key,
            item: Some(item.id),
            action: payload.action(),
            payload: &payload.json()?,
        },
    )
}

/// Enqueues the creation of the issue of an item that has none. Returns whether a write was enqueued.
pub fn mirror_item(unit: &mut UnitOfWork<'_>, item: &WorkItem) -> Result<bool, Error> {
    if item.external.is_some() {
        return Ok(false);
    }
    let Some(source) = item_sources::mirror_of(unit, &item.project)? else {
        return Ok(false);
    };
    let payload = WritePayload::Create {
        issue: NewIssue {
            title: item.title.clone(),
            body: item.body.clone(),
            labels: item.labels.clone(),
            milestone: item.milestone.clone(),
        },
        fields: fields_of(item),
    };
    enqueue(
        unit,
        item,
        &source,
        &format!("create:{}", item.id),
        &payload,
    )
}

/// Enqueues a comment on the issue of an item, after the creation of the issue if it has none. `change_key` names what
/// the comment reports, such as `attempt:ID`; it is commented once.
pub fn mirror_comment(
    unit: &mut UnitOfWork<'_>,
    item: &WorkItem,
    change_key: &str,
    body: &str,
) -> Result<bool, Error> {
    let Some(source) = mirror_of(unit, item)? else {
        return Ok(false);
    };
    mirror_item(unit, item)?;
    let payload = WritePayload::Comment {
        body: body.to_owned(),
    };
    enqueue(
        unit,
        item,
        &source,
        &format!("comment:{change_key}"),
        &payload,
    )
}

/// Enqueues the typed fields and the state of an item as it is in this unit of work.
pub fn mirror_fields(unit: &mut UnitOfWork<'_>, item: &WorkItem) -> Result<bool, Error> {
    let Some(source) = mirror_of(unit, item)? else {
        return Ok(false);
    };
    mirror_item(unit, item)?;
    let payload = WritePayload::Fields {
        fields: fields_of(item),
        is_closed: matches!(
            item.state,
            WorkItemState::Completed | WorkItemState::Duplicate | WorkItemState::WontDo
        ),
        labels: item.labels.clone(),
    };
    let change_key = format!("fields:{}:{}", item.id, item.version);
    enqueue(unit, item, &source, &change_key, &payload)
}

/// Enqueues the record of a pool at the tracker of a project. A text that was enqueued last is not enqueued again, and
/// replaces one that waits.
pub fn mirror_status(
    unit: &mut UnitOfWork<'_>,
    project: &str,
    pool: &str,
    title: &str,
    body: &str,
) -> Result<bool, Error> {
    let Some(source) = item_sources::mirror_of(unit, project)? else {
        return Ok(false);
    };
    let hash = ContentHash::of_parts([title.as_bytes(), body.as_bytes()]);
    if !tracker_outbox::want_status(unit, &source.name, pool, hash)? {
        return Ok(false);
    }
    let subject = format!("pool:{pool}");
    let payload = WritePayload::Status {
        pool: pool.to_owned(),
        title: title.to_owned(),
        body: body.to_owned(),
    };
    let text = payload.json()?;
    if tracker_outbox::replace_status(unit, &source.name, &subject, &text)? {
        return Ok(true);
    }
    // Unique, because the same text may be wanted again after another one.
    let change_key = format!("status:{}", cleveragents_domain::TrackerWriteId::generate());
    tracker_outbox::enqueue(
        unit,
        &NewTrackerWrite {
            source: &source.name,
            subject: &subject,
            change_key: &change_key,
            item: None,
            action: payload.action(),
            payload: &text,
        },
    )
}
