//! The operations on sources of work items. They are for local callers only: a source names folders and credentials of
//! this machine.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::collections::BTreeMap;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{Code, Name, Timestamp};
use cleveragents_store::item_sources::{self, ItemSource};
use cleveragents_store::tracker_outbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::account::{AccessProblem, access_problems, self_approval_problem};
use super::delivery::{DeliverySummary, deliver_outbox};
use super::source::{Trackers, check_source};
use super::sync::{SyncReport, sync_source};
use super::types::TrackerKind;
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};

/// A source with its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ItemSourceInfo {
    pub name: String,
    pub project: String,
    pub kind: TrackerKind,
    /// Address of a repository, or path of a folder.
    pub address: String,
    /// Name of the variable that holds the token.
    pub credential: Option<String>,
    /// Whether changes of items are written to the tracker.
    pub mirrors: bool,
    /// Time of the last complete synchronization.
    pub synced: Option<Timestamp>,
    /// Number of issues of the last complete listing.
    pub total: Option<u64>,
    /// Reason of the failure of the last synchronization.
    pub last_error: Option<String>,
    /// Number of writes that the tracker has not received yet.
    pub waiting_writes: u64,
    /// Number of writes that the tracker refused.
    pub refused_writes: u64,
}

fn info(context: &OperationContext, source: ItemSource) -> Result<ItemSourceInfo, OperationError> {
    let counts = context
        .engine()
        .read(|reader| tracker_outbox::counts(reader, &source.name))?;
    Ok(ItemSourceInfo {
        kind: source.kind.parse()?,
        name: source.name,
        project: source.project,
        address: source.address,
        credential: source.credential,
        mirrors: source.mirrors,
        synced: source.synced_at,
        total: source.total,
        last_error: source.last_error,
        waiting_writes: counts.waiting,
        refused_writes: counts.refused,
    })
}

/// The trackers that the caller's credentials open.
pub(crate) fn trackers(context: &OperationContext) -> Trackers {
    Trackers::new(context.settings().process.credentials.clone())
}

fn existing(context: &OperationContext, name: &str) -> Result<ItemSource, OperationError> {
    let source = context
        .engine()
        .read(|reader| item_sources::get(reader, name))?;
    source.ok_or_else(|| {
        let message = format!("there is no item source `{name}`");
        OperationError::new(Code::ItemSourceNotFound, message)
            .with_hint("list the item sources to see their names")
            .with_details(json!({"source": name}))
    })
}

/// Adds a source of work items and checks what its account may do.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddItemSource {
    /// Lowercase letters, digits, `-` and `_`.
    pub name: String,
    /// Project whose items the source has.
    pub project: String,
    pub kind: TrackerKind,
    /// Address of a repository, or absolute path of a folder.
    pub address: String,
    /// Name of the variable or keyring entry that holds the token.
    #[serde(default)]
    pub credential: Option<String>,
    /// The same for the account that reviews; it has to be another account.
    #[serde(default)]
    pub reviewer_credential: Option<String>,
    /// Labels of values of fields, such as `kind.bug` for the label `defect`.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Whether changes of items are written to the tracker. At most one source of a project has this.
    #[serde(default)]
    pub mirrors: bool,
}

/// The response of `item/source/add`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedItemSource {
    pub source: ItemSourceInfo,
    /// Name of the account, if the tracker has accounts.
    pub account: Option<String>,
    /// Reasons for which work with the tracker would fail later.
    pub problems: Vec<AccessProblem>,
}

impl Operation for AddItemSource {
    const NAME: &'static str = "item/source/add";
    const SUMMARY: &'static str = "Add a source of work items";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Registry, Permission::Manage);
    type Response = AddedItemSource;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("address")
    }

    fn run(self, context: &OperationContext) -> Result<AddedItemSource, OperationError> {
        let project: Name = self
            .project
            .parse()
            .map_err(crate::project::ProjectError::Name)?;
        // The project has to exist.
        context.projects().view(&project.to_string())?;
        let labels = serde_json::to_string(&self.labels)
            .map_err(|error| OperationError::internal("labels are no JSON").caused_by(error))?;
        let source = ItemSource {
            name: self.name,
            project: project.to_string(),
            kind: self.kind.to_string(),
            address: self.address,
            credential: self.credential,
            labels,
            mirrors: self.mirrors,
            created_at: Timestamp::now(),
            synced_at: None,
            total: None,
            last_error: None,
        };
        check_source(&source)?;
        let trackers = trackers(context);
        let access = trackers.open(&source)?.access()?;
        let mut problems = access_problems(&access);
        if !source.mirrors {
            problems.retain(|problem| problem.problem != "read-only");
        }
        if let Some(reviewer) = &self.reviewer_credential {
            check_source(&ItemSource {
                credential: Some(reviewer.clone()),
                ..source.clone()
            })?;
            let reviewer = trackers.open_as(&source, reviewer)?.access()?;
            problems.extend(self_approval_problem(&access, &reviewer));
        }
        let stored = source.clone();
        if !context
            .engine()
            .write(move |unit| item_sources::insert(unit, &stored))?
        {
            let message = format!(
                "a source `{}` exists, or project `{}` has another source that changes are written to",
                source.name, source.project
            );
            return Err(OperationError::new(Code::ItemSourceExists, message)
                .with_hint("choose another name, or remove the other source"));
        }
        Ok(AddedItemSource {
            source: info(context, source)?,
            account: access.account,
            problems,
        })
    }
}

/// Lists the sources of work items.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListItemSources {}

/// The response of `item/source/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ItemSourceList {
    pub sources: Vec<ItemSourceInfo>,
}

impl Operation for ListItemSources {
    const NAME: &'static str = "item/source/list";
    const SUMMARY: &'static str = "List sources of work items";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Registry, Permission::Read);
    type Response = ItemSourceList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("source")
    }

    fn run(self, context: &OperationContext) -> Result<ItemSourceList, OperationError> {
        let visible = context.visible(Scope::Registry);
        let sources = context
            .engine()
            .read(|reader| item_sources::list(reader, &visible))?;
        let sources = sources.into_iter().map(|source| info(context, source));
        Ok(ItemSourceList {
            sources: sources.collect::<Result<_, _>>()?,
        })
    }
}

/// Removes a source of work items. Its items stay.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveItemSource {
    pub name: String,
    /// Also discard pending writes.
    #[serde(default)]
    pub yes: bool,
    /// Returns what would be removed, and changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The response of `item/source/remove`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RemovedItemSource {
    pub removed: String,
    /// Number of writes that were discarded.
    pub discarded_writes: u64,
}

impl Operation for RemoveItemSource {
    const NAME: &'static str = "item/source/remove";
    const SUMMARY: &'static str = "Remove a source of work items";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Registry, Permission::Manage);
    type Response = RemovedItemSource;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("source")
    }

    fn run(self, context: &OperationContext) -> Result<RemovedItemSource, OperationError> {
        existing(context, &self.name)?;
        let (name, yes) = (self.name.clone(), self.yes);
        let engine = context.rehearsing(self.dry_run).engine();
        let discarded = engine.write(move |unit| {
            let waiting = tracker_outbox::counts(unit, &name)?.waiting;
            if waiting > 0 && !yes {
                let message =
                    format!("source `{name}` has {waiting} pending writes; nothing was changed");
                return Err(OperationError::new(Code::ConfirmationNeeded, message)
                    .with_hint("confirm it with `yes`"));
            }
            item_sources::remove(unit, &name)?;
            Ok(waiting)
        })?;
        Ok(RemovedItemSource {
            removed: self.name,
            discarded_writes: discarded,
        })
    }
}

/// Imports the issues of a source as work items, and sends pending writes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SyncItems {
    /// Name of the source.
    pub source: String,
}

/// The response of `item/sync`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SyncedItems {
    pub source: String,
    pub report: SyncReport,
    pub writes: DeliverySummary,
}

impl Operation for SyncItems {
    const NAME: &'static str = "item/sync";
    const SUMMARY: &'static str = "Synchronize work items with their tracker";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Registry, Permission::Write);
    type Response = SyncedItems;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("source")
    }

    fn run(self, context: &OperationContext) -> Result<SyncedItems, OperationError> {
        let source = existing(context, &self.source)?;
        let trackers = trackers(context);
        let tracker = trackers.open(&source)?;
        let writes = deliver_outbox(&context.engine(), &trackers, context.cancel())?;
        let report = sync_source(&context.engine(), &source, &*tracker)?;
        Ok(SyncedItems {
            source: source.name,
            report,
            writes,
        })
    }
}
