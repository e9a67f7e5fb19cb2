//! The operations on work items.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    Attempt, Moscow, NewWorkItem, Priority, Severity, Sighting, StateTransition, StoredReview,
    StoryPoints, WorkItem, WorkItemId, WorkItemKind, WorkItemState,
};
use cleveragents_store::work_items::ItemFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::WorkItemError;
use super::service::{WorkItemEdit as Edit, WorkItemService};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, PageSummary,
    Requirement, Resolver,
};

/// The operations on work items.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<AddWorkItem>(),
    OperationEntry::new::<CloseWorkItem>(),
    OperationEntry::new::<EditWorkItem>(),
    OperationEntry::new::<LinkWorkItem>(),
    OperationEntry::new::<ListWorkItems>(),
    OperationEntry::new::<ShowWorkItem>(),
];

/// Default number of items on a page.
const PAGE: u64 = 50;
/// Maximum number of items on a page.
const MAX_PAGE_SIZE: u64 = 1_000;

fn service(context: &OperationContext) -> WorkItemService {
    WorkItemService::new(context.engine())
}

fn id(reference: &str) -> Result<WorkItemId, OperationError> {
    Ok(reference.parse().map_err(WorkItemError::from)?)
}

/// Completes a project name as in every other place: without a namespace it is in `local/`.
fn project_name(name: &str) -> Result<String, OperationError> {
    let name: cleveragents_domain::Name =
        name.parse()
            .map_err(|error: cleveragents_domain::NameError| {
                OperationError::new(cleveragents_domain::Code::InvalidName, error.to_string())
            })?;
    Ok(name.to_string())
}

/// Lists work items, newest first, or those that match words, best first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListWorkItems {
    #[serde(default)]
    pub project: Option<String>,
    /// Only these states. Without a state, closed items are left out.
    #[serde(default)]
    pub states: Vec<WorkItemState>,
    #[serde(default)]
    pub kinds: Vec<WorkItemKind>,
    #[serde(default)]
    pub priorities: Vec<Priority>,
    #[serde(default)]
    pub label: Option<String>,
    #[serde(default)]
    pub milestone: Option<String>,
    /// Words to search for in titles and descriptions. Other filters except `project` have no effect then.
    #[serde(default)]
    pub search: Option<String>,
    /// Whether closed items are listed too.
    #[serde(default)]
    pub all: bool,
    /// Maximum number of items: 50 when not given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
    /// Only items older than this one, for the next page.
    #[serde(default)]
    pub before: Option<String>,
}

/// The response of `item/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkItemList {
    pub items: Vec<WorkItem>,
    /// Text around the match per item, if words were searched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excerpts: Vec<String>,
    pub summary: PageSummary,
}

impl Operation for ListWorkItems {
    const NAME: &'static str = "item/list";
    const SUMMARY: &'static str = "List or search work items";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Plans, Permission::Read);
    type Response = WorkItemList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        if let Some(project) = &mut self.project {
            resolver.name(project, NamedKind::Definition)?;
        }
        match &mut self.before {
            Some(before) => resolver.work_item(before),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<WorkItemList, OperationError> {
        let limit = self.limit.unwrap_or(PAGE);
        if !(1..=MAX_PAGE_SIZE).contains(&limit) {
            return Err(OperationError::usage(format!(
                "a page has 1 to {MAX_PAGE_SIZE} items, not {limit}"
            )));
        }
        let visible = context.visible(Scope::Plans);
        let project = self.project.as_deref().map(project_name).transpose()?;
        if let Some(words) = &self.search {
            let hits = service(context).search(words, project.as_deref(), &visible, limit)?;
            let shown = hits.len() as u64;
            let (items, excerpts) = hits.into_iter().map(|hit| (hit.item, hit.excerpt)).unzip();
            return Ok(WorkItemList {
                items,
                excerpts,
                summary: PageSummary {
                    shown,
                    matching: shown,
                },
            });
        }
        let filter = ItemFilter {
            project,
            states: self.states,
            kinds: self.kinds,
            priorities: self.priorities,
            label: self.label,
            milestone: self.milestone,
            with_closed: self.all,
            visible,
        };
        let before = self.before.as_deref().map(id).transpose()?;
        let (items, matching) = service(context).list(&filter, before, limit)?;
        Ok(WorkItemList {
            summary: PageSummary {
                shown: items.len() as u64,
                matching,
            },
            items,
            excerpts: Vec::new(),
        })
    }
}

/// Another item and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkedWorkItem {
    pub id: WorkItemId,
    pub state: WorkItemState,
}

/// An item with everything that belongs to it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownWorkItem {
    pub item: WorkItem,
    pub depends_on: Vec<LinkedWorkItem>,
    /// Items that depend on this item.
    pub needed_by: Vec<LinkedWorkItem>,
    /// Changes of its state, oldest first.
    pub transitions: Vec<StateTransition>,
    pub attempts: Vec<Attempt>,
    pub reviews: Vec<StoredReview>,
    /// Reports of the defect, oldest first.
    pub sightings: Vec<Sighting>,
}

/// Shows a work item with its attempts, reviews and history.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowWorkItem {
    /// Id, or prefix of at least 6 characters.
    pub item: String,
}

impl Operation for ShowWorkItem {
    const NAME: &'static str = "item/show";
    const SUMMARY: &'static str = "Show a work item with its attempts, reviews and history";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Plans, Permission::Read);
    type Response = ShownWorkItem;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.work_item(&mut self.item)
    }

    fn run(self, context: &OperationContext) -> Result<ShownWorkItem, OperationError> {
        shown(context, id(&self.item)?)
    }
}

fn shown(context: &OperationContext, item: WorkItemId) -> Result<ShownWorkItem, OperationError> {
    let details = service(context).show(item)?;
    let linked = |links: Vec<(WorkItemId, WorkItemState)>| {
        links
            .into_iter()
            .map(|(id, state)| LinkedWorkItem { id, state })
            .collect()
    };
    Ok(ShownWorkItem {
        item: details.item,
        depends_on: linked(details.depends_on),
        needed_by: linked(details.needed_by),
        transitions: details.transitions,
        attempts: details.attempts,
        reviews: details.reviews,
        sightings: details.sightings,
    })
}

/// Adds a work item.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddWorkItem {
    pub project: String,
    pub title: String,
    #[serde(default)]
    pub body: String,
    pub kind: WorkItemKind,
    #[serde(default)]
    pub priority: Option<Priority>,
    #[serde(default)]
    pub milestone: Option<String>,
    #[serde(default)]
    pub points: Option<u32>,
    #[serde(default)]
    pub moscow: Option<Moscow>,
    #[serde(default)]
    pub severity: Option<Severity>,
    #[serde(default)]
    pub labels: Vec<String>,
    /// Item that it is a part of.
    #[serde(default)]
    pub parent: Option<String>,
    /// Items that have to be completed first.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// Whether it needs no triage.
    #[serde(default)]
    pub verified: bool,
}

impl Operation for AddWorkItem {
    const NAME: &'static str = "item/add";
    const SUMMARY: &'static str = "Add a work item";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Plans, Permission::Write);
    type Response = ShownWorkItem;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.project, NamedKind::Definition)?;
        for other in self.parent.iter_mut().chain(&mut self.depends_on) {
            resolver.work_item(other)?;
        }
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ShownWorkItem, OperationError> {
        let points = self.points.map(StoryPoints::new).transpose();
        let new = NewWorkItem {
            body: self.body,
            state: if self.verified {
                WorkItemState::Verified
            } else {
                WorkItemState::Unverified
            },
            priority: self.priority.unwrap_or(Priority::Medium),
            milestone: self.milestone.filter(|name| !name.trim().is_empty()),
            points: points.map_err(WorkItemError::from)?,
            moscow: self.moscow,
            severity: self.severity,
            labels: self.labels.into_iter().collect(),
            parent: self.parent.as_deref().map(id).transpose()?,
            ..NewWorkItem::new(project_name(&self.project)?, self.kind, self.title)
        };
        let depends_on: Result<Vec<WorkItemId>, OperationError> =
            self.depends_on.iter().map(|other| id(other)).collect();
        let item = service(context).add(new, depends_on?)?;
        shown(context, item.id)
    }
}

/// Changes fields or the state of a work item. Fields that are not given stay as they are.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditWorkItem {
    /// Id, or prefix of at least 6 characters.
    pub item: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub body: Option<String>,
    #[serde(default)]
    pub kind: Option<WorkItemKind>,
    #[serde(default)]
    pub priority: Option<Priority>,
    /// An empty text removes it.
    #[serde(default)]
    pub milestone: Option<String>,
    #[serde(default)]
    pub points: Option<u32>,
    #[serde(default)]
    pub moscow: Option<Moscow>,
    #[serde(default)]
    pub severity: Option<Severity>,
    #[serde(default)]
    pub add_labels: Vec<String>,
    #[serde(default)]
    pub remove_labels: Vec<String>,
    /// New state. An item that waited for the user starts a new round of attempts.
    #[serde(default)]
    pub state: Option<WorkItemState>,
    /// Reason of the new state.
    #[serde(default)]
    pub reason: Option<String>,
    /// Version that the values are based on; the change is refused if the stored version differs.
    #[serde(default)]
    pub version: Option<u64>,
}

impl Operation for EditWorkItem {
    const NAME: &'static str = "item/edit";
    const SUMMARY: &'static str = "Change fields or the state of a work item";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Plans, Permission::Write);
    type Response = ShownWorkItem;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.work_item(&mut self.item)
    }

    fn run(self, context: &OperationContext) -> Result<ShownWorkItem, OperationError> {
        let edit = Edit {
            title: self.title,
            body: self.body,
            kind: self.kind,
            priority: self.priority,
            milestone: self.milestone,
            points: self.points,
            moscow: self.moscow,
            severity: self.severity,
            add_labels: self.add_labels,
            remove_labels: self.remove_labels,
            state: self.state,
            reason: self.reason,
            version: self.version,
        };
        let item = service(context).edit(id(&self.item)?, edit)?;
        shown(context, item.id)
    }
}

/// Links a work item to one that it depends on, or to its parent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkWorkItem {
    /// Id, or prefix of at least 6 characters.
    pub item: String,
    /// Item that has to be completed first.
    #[serde(default)]
    pub depends_on: Option<String>,
    /// Item that it is a part of.
    #[serde(default)]
    pub parent: Option<String>,
    /// Remove the link instead of adding it.
    #[serde(default)]
    pub remove: bool,
}

impl Operation for LinkWorkItem {
    const NAME: &'static str = "item/link";
    const SUMMARY: &'static str = "Add or remove a dependency or a parent of a work item";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Plans, Permission::Write);
    type Response = ShownWorkItem;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.work_item(&mut self.item)?;
        for other in self.depends_on.iter_mut().chain(&mut self.parent) {
            resolver.work_item(other)?;
        }
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ShownWorkItem, OperationError> {
        let (items, item) = (service(context), id(&self.item)?);
        if self.depends_on.is_none() && self.parent.is_none() {
            return Err(OperationError::usage("name the other item of the link"));
        }
        if let Some(on) = &self.depends_on {
            items.link(item, id(on)?, self.remove)?;
        }
        if let Some(parent) = &self.parent {
            let parent = id(parent)?;
            items.set_parent(item, (!self.remove).then_some(parent))?;
        }
        shown(context, item)
    }
}

/// Closes a work item.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseWorkItem {
    /// Id, or prefix of at least 6 characters.
    pub item: String,
    /// `completed`, `wont_do` or `duplicate`: completed when not given.
    #[serde(default)]
    pub as_state: Option<WorkItemState>,
    /// The item that it duplicates.
    #[serde(default)]
    pub duplicate_of: Option<String>,
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for CloseWorkItem {
    const NAME: &'static str = "item/close";
    const SUMMARY: &'static str = "Close a work item as completed, rejected or a duplicate";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Plans, Permission::Write);
    type Response = ShownWorkItem;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.work_item(&mut self.item)?;
        match &mut self.duplicate_of {
            Some(of) => resolver.work_item(of),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<ShownWorkItem, OperationError> {
        let duplicate_of = self.duplicate_of.as_deref().map(id).transpose()?;
        let to = match (self.as_state, duplicate_of) {
            (Some(state), _) => state,
            (None, Some(_)) => WorkItemState::Duplicate,
            (None, None) => WorkItemState::Completed,
        };
        let item = service(context).close(id(&self.item)?, to, duplicate_of, self.reason)?;
        shown(context, item.id)
    }
}
