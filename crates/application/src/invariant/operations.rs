//! The operations on invariants.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    Invariant, InvariantId, InvariantScope, PlanId, ReconciledInvariants, SourcedInvariant,
    Timestamp, shortest_prefix,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service::{InvariantQuery, InvariantService, InvariantTarget, NewInvariant};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
    namespace_of, require_confirmation,
};

/// The operations on invariants.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<AddInvariant>(),
    OperationEntry::new::<ListInvariants>(),
    OperationEntry::new::<RemoveInvariant>(),
];

fn service(context: &OperationContext) -> InvariantService {
    InvariantService::new(context.engine())
}

/// The scopes of a request as targets of the service.
fn targets(
    global: bool,
    projects: &[String],
    actions: &[String],
    plans: &[String],
) -> Vec<InvariantTarget> {
    let global = global.then_some(InvariantTarget::Global);
    let projects = projects.iter().cloned().map(InvariantTarget::Project);
    let actions = actions.iter().cloned().map(InvariantTarget::Action);
    let plans = plans.iter().cloned().map(InvariantTarget::Plan);
    let named = projects.chain(actions).chain(plans);
    global.into_iter().chain(named).collect()
}

/// An invariant that a user set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InvariantInfo {
    pub id: InvariantId,
    pub text: String,
    pub scope: InvariantScope,
    /// Always equal to `scope`.
    pub source: InvariantScope,
    /// The project or action by its complete name, or the plan by its id.
    pub source_name: Option<String>,
    /// Whether no other invariant may override this one; only possible for global invariants.
    pub non_overridable: bool,
    /// `false` once the invariant is removed.
    pub active: bool,
    pub created: Timestamp,
    pub removed: Option<Timestamp>,
}

impl From<Invariant> for InvariantInfo {
    fn from(invariant: Invariant) -> Self {
        Self {
            id: invariant.id,
            text: invariant.text,
            scope: invariant.scope,
            source: invariant.scope,
            source_name: invariant.source_name,
            non_overridable: invariant.non_overridable,
            active: invariant.removed_at.is_none(),
            created: invariant.created_at,
            removed: invariant.removed_at,
        }
    }
}

/// Sets an invariant in each of the given scopes, atomically.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddInvariant {
    /// One sentence.
    pub text: String,
    /// For every plan. Only callers on the same machine may set it.
    #[serde(default)]
    pub global: bool,
    /// For plans on these projects, by name or id.
    #[serde(default)]
    pub project: Vec<String>,
    /// For plans of these actions.
    #[serde(default)]
    pub action: Vec<String>,
    /// For these plans, by id or prefix.
    #[serde(default)]
    pub plan: Vec<String>,
    /// No other invariant may override this one; only with `global`.
    #[serde(default)]
    pub non_overridable: bool,
}

/// The response of `registry/invariant/add`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedInvariants {
    /// The first of `invariants`.
    pub invariant: Option<InvariantInfo>,
    pub invariants: Vec<InvariantInfo>,
}

impl Operation for AddInvariant {
    const NAME: &'static str = "registry/invariant/add";
    const SUMMARY: &'static str = "Add an invariant that plans must keep";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = AddedInvariants;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        if self.global {
            resolver.local_only("global")?;
        }
        for project in &mut self.project {
            resolver.name(project, NamedKind::Project)?;
        }
        for action in &mut self.action {
            resolver.name(action, NamedKind::Definition)?;
        }
        for plan in &mut self.plan {
            resolver.plan(plan)?;
        }
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<AddedInvariants, OperationError> {
        let added = service(context).add(NewInvariant {
            targets: targets(self.global, &self.project, &self.action, &self.plan),
            text: self.text,
            non_overridable: self.non_overridable,
        })?;
        let invariants: Vec<InvariantInfo> = added.into_iter().map(Into::into).collect();
        Ok(AddedInvariants {
            invariant: invariants.first().cloned(),
            invariants,
        })
    }
}

/// Lists the invariants that users set, or the effective invariants of plans.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListInvariants {
    /// Invariants that apply to every plan.
    #[serde(default)]
    pub global: bool,
    /// Invariants of these projects, by name or id.
    #[serde(default)]
    pub project: Vec<String>,
    /// Invariants of these actions.
    #[serde(default)]
    pub action: Vec<String>,
    /// Invariants of these plans, by id or prefix.
    #[serde(default)]
    pub plan: Vec<String>,
    /// Only the invariant with this id or prefix.
    #[serde(default)]
    pub id: Option<String>,
    /// All invariants that plans in these scopes must keep, including those of project and action files, and the
    /// overridden ones. Only for callers on the same machine; at most one plan and one action.
    #[serde(default)]
    pub effective: bool,
    /// Only invariants whose text matches this regular expression.
    #[serde(default)]
    pub pattern: Option<String>,
    /// Include the `short_id` of each stored invariant.
    #[serde(default)]
    pub short_ids: bool,
}

/// The response of `registry/invariant/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvariantList {
    /// The kinds of scopes that the request names.
    pub scope: Vec<InvariantScope>,
    pub effective: bool,
    pub pattern: Option<String>,
    pub invariants: Vec<ListedInvariant>,
    /// Only with `effective`.
    #[serde(flatten)]
    pub reconciliation: Option<Reconciliation>,
    pub summary: InvariantListSummary,
}

/// Contradictions between invariants: those that precedence resolved, and those that remain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Reconciliation {
    /// The plan of the request.
    pub plan_id: Option<PlanId>,
    pub conflicts_resolved: Vec<OverriddenInvariant>,
    /// Pairs of equal precedence that contradict each other; they prevent plans from running.
    pub unresolved: Vec<(ListedInvariant, ListedInvariant)>,
}

/// An invariant that a contradicting, stronger invariant overrides.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct OverriddenInvariant {
    pub overridden: ListedInvariant,
    pub by: ListedInvariant,
}

/// A listed invariant.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedInvariant {
    /// `null` when a project or the file of an action defines it.
    pub id: Option<InvariantId>,
    /// The shortest prefix of the id that no other invariant has; only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    pub text: String,
    pub source: InvariantScope,
    /// The project or action by its complete name, or the plan by its id.
    pub source_name: Option<String>,
    /// Whether no other invariant may override this one.
    pub non_overridable: bool,
    /// Missing with `effective`.
    #[serde(flatten)]
    pub stored: Option<StoredInvariantInfo>,
}

/// Times at which an invariant was set and removed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StoredInvariantInfo {
    /// Always equal to `source`.
    pub scope: InvariantScope,
    /// `false` once the invariant is removed.
    pub active: bool,
    pub created: Timestamp,
    pub removed: Option<Timestamp>,
}

/// Counts of the listed invariants.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvariantListSummary {
    pub total: u64,
    /// Only with `effective`.
    #[serde(flatten)]
    pub by_source: Option<InvariantCounts>,
}

/// The number of effective invariants by source.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvariantCounts {
    pub plan: u64,
    pub action: u64,
    pub project: u64,
    pub global: u64,
}

/// The ids of all active invariants, if short ids are requested.
struct ShortIds(Option<Vec<InvariantId>>);

impl ShortIds {
    fn read(service: &InvariantService, is_requested: bool) -> Result<Self, OperationError> {
        if !is_requested {
            return Ok(Self(None));
        }
        let all = service.list(&InvariantQuery::default())?;
        Ok(Self(Some(
            all.into_iter().map(|invariant| invariant.id).collect(),
        )))
    }

    fn short_id(&self, id: InvariantId) -> Option<String> {
        let all = self.0.as_ref()?;
        let index = all.partition_point(|other| *other < id);
        let at = |index: usize| all.get(index).map(ToString::to_string);
        let (before, after) = (index.checked_sub(1).and_then(at), at(index + 1));
        let full_id = id.to_string();
        Some(shortest_prefix(&full_id, before.as_deref(), after.as_deref()).to_owned())
    }

    fn stored(&self, invariant: Invariant) -> ListedInvariant {
        let stored = StoredInvariantInfo {
            scope: invariant.scope,
            active: invariant.removed_at.is_none(),
            created: invariant.created_at,
            removed: invariant.removed_at,
        };
        ListedInvariant {
            stored: Some(stored),
            ..self.sourced(invariant.into())
        }
    }

    fn sourced(&self, invariant: SourcedInvariant) -> ListedInvariant {
        ListedInvariant {
            short_id: invariant.id.and_then(|id| self.short_id(id)),
            id: invariant.id,
            text: invariant.text,
            source: invariant.source,
            source_name: invariant.source_name,
            non_overridable: invariant.non_overridable,
            stored: None,
        }
    }
}

impl ListInvariants {
    fn targets(&self) -> Vec<InvariantTarget> {
        targets(self.global, &self.project, &self.action, &self.plan)
    }

    fn scope(&self) -> Vec<InvariantScope> {
        let requested = [
            (InvariantScope::Global, self.global),
            (InvariantScope::Project, !self.project.is_empty()),
            (InvariantScope::Action, !self.action.is_empty()),
            (InvariantScope::Plan, !self.plan.is_empty()),
        ];
        let requested = requested
            .into_iter()
            .filter(|(_, is_requested)| *is_requested);
        requested.map(|(scope, _)| scope).collect()
    }

    /// The invariants that users set and that the caller may read.
    fn list_stored(self, context: &OperationContext) -> Result<InvariantList, OperationError> {
        let service = service(context);
        let query = InvariantQuery {
            targets: self.targets(),
            pattern: self.pattern.clone(),
        };
        let mut found = service.list(&query)?;
        if let Some(id) = &self.id {
            let id = service.get(id)?.id;
            found.retain(|invariant| invariant.id == id);
        }
        let visible = context.visible(Scope::Registry);
        let names_its_plan = context.caller().is_local() || !self.plan.is_empty();
        found.retain(
            |invariant| match (invariant.scope, &invariant.source_name) {
                (InvariantScope::Project | InvariantScope::Action, Some(name)) => {
                    visible.contains(namespace_of(name))
                }
                // The caller is authorized for the plans and the invariant that the request names.
                (InvariantScope::Plan, _) => names_its_plan || self.id.is_some(),
                _ => true,
            },
        );
        let short_ids = ShortIds::read(&service, self.short_ids)?;
        Ok(InvariantList {
            scope: self.scope(),
            effective: false,
            pattern: self.pattern,
            summary: InvariantListSummary {
                total: found.len() as u64,
                by_source: None,
            },
            invariants: found
                .into_iter()
                .map(|invariant| short_ids.stored(invariant))
                .collect(),
            reconciliation: None,
        })
    }

    /// All invariants that plans in the given scopes must keep.
    fn list_effective(self, context: &OperationContext) -> Result<InvariantList, OperationError> {
        if self.plan.len() > 1 || self.action.len() > 1 {
            let message = "the effective invariants are requested for more than one plan or action";
            return Err(OperationError::usage(message)
                .with_hint("name one plan or one action, and any number of projects"));
        }
        let service = service(context);
        let query = service.query(&self.targets(), context.variables())?;
        let effective = service.effective(&query)?;
        let found = InvariantService::narrow(effective, self.pattern.as_deref())?;
        let short_ids = ShortIds::read(&service, self.short_ids)?;
        let ReconciledInvariants {
            effective,
            conflicts,
            unresolved,
        } = found;
        let count = |scope: InvariantScope| {
            let of_scope = effective.iter().filter(|known| known.source == scope);
            of_scope.count() as u64
        };
        let summary = InvariantListSummary {
            total: effective.len() as u64,
            by_source: Some(InvariantCounts {
                plan: count(InvariantScope::Plan),
                action: count(InvariantScope::Action),
                project: count(InvariantScope::Project),
                global: count(InvariantScope::Global),
            }),
        };
        let listed = |invariant: SourcedInvariant| short_ids.sourced(invariant);
        let conflicts = conflicts.into_iter().map(|conflict| OverriddenInvariant {
            overridden: listed(conflict.overridden),
            by: listed(conflict.by),
        });
        let unresolved = unresolved.into_iter();
        Ok(InvariantList {
            scope: self.scope(),
            effective: true,
            reconciliation: Some(Reconciliation {
                plan_id: query.plan,
                conflicts_resolved: conflicts.collect(),
                unresolved: unresolved
                    .map(|(left, right)| (listed(left), listed(right)))
                    .collect(),
            }),
            pattern: self.pattern,
            invariants: effective.into_iter().map(listed).collect(),
            summary,
        })
    }
}

impl Operation for ListInvariants {
    const NAME: &'static str = "registry/invariant/list";
    const SUMMARY: &'static str = "List invariants";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = InvariantList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        if self.effective {
            resolver.local_only("effective")?;
        }
        for project in &mut self.project {
            resolver.read_name(project, NamedKind::Project)?;
        }
        for action in &mut self.action {
            resolver.read_name(action, NamedKind::Definition)?;
        }
        for plan in &mut self.plan {
            resolver.plan(plan)?;
        }
        match &mut self.id {
            Some(id) => resolver.invariant(id),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<InvariantList, OperationError> {
        if self.effective {
            self.list_effective(context)
        } else {
            self.list_stored(context)
        }
    }
}

/// Removes an invariant that a user set. Plans no longer have to keep it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveInvariant {
    /// Id, or prefix of at least 6 characters.
    pub id: String,
    /// Confirms the removal; without it nothing is removed.
    #[serde(default)]
    pub yes: bool,
    /// Returns what would be removed, and changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The response of `registry/invariant/remove`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RemovedInvariant {
    pub removed: InvariantInfo,
}

impl Operation for RemoveInvariant {
    const NAME: &'static str = "registry/invariant/remove";
    const SUMMARY: &'static str = "Remove an invariant";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = RemovedInvariant;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.invariant(&mut self.id)
    }

    fn run(self, context: &OperationContext) -> Result<RemovedInvariant, OperationError> {
        require_confirmation(self.yes)?;
        let removed = service(&context.rehearsing(self.dry_run)).remove(&self.id)?;
        Ok(RemovedInvariant {
            removed: removed.into(),
        })
    }
}
