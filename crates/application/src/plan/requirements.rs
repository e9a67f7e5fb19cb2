//! [`PlanRequirements`]: the invariants, validations, targets and safety requirements of a plan.

use std::sync::Arc;

use cleveragents_domain::{
    AutomationGuard, AutomationProfile, MicroUsd, Plan, PlanInputs, ProjectId,
    ReconciledInvariants, ResourceId,
};
use cleveragents_store::Engine;
use cleveragents_tools::{AllowList, Guards, SafetyProfile, ToolPattern};

use super::error::PlanError;
use super::service::KeptVariables;
use crate::invariant::{ActionRules, EffectiveQuery, InvariantService};
use crate::project::ProjectService;
use crate::resource::ResourceService;
use crate::sandbox::Target;
use crate::validation::{EffectiveValidation, ValidationService};

/// Looks up the requirements of plans. Cheap to clone.
#[derive(Clone)]
pub(super) struct PlanRequirements {
    projects: ProjectService,
    resources: ResourceService,
    invariants: InvariantService,
    validations: ValidationService,
    variables: KeptVariables,
}

impl PlanRequirements {
    pub(super) fn new(engine: &Arc<Engine>, variables: KeptVariables) -> Self {
        Self {
            projects: ProjectService::new(Arc::clone(engine)),
            resources: ResourceService::new(Arc::clone(engine)),
            invariants: InvariantService::new(Arc::clone(engine)),
            validations: ValidationService::new(Arc::clone(engine)),
            variables,
        }
    }

    /// The effective invariants of a plan.
    pub(super) fn reconciled(&self, plan: &Plan) -> Result<ReconciledInvariants, PlanError> {
        self.invariants
            .effective(&invariant_query(plan))
            .map_err(PlanError::from_service)
    }

    /// The effective invariants of a plan. Fails if two of them contradict each other.
    pub(super) fn check_invariants(&self, plan: &Plan) -> Result<ReconciledInvariants, PlanError> {
        let reconciled = self.reconciled(plan)?;
        if let Some((first, second)) = reconciled.unresolved.first() {
            return Err(PlanError::Invariant {
                plan: plan.id,
                reason: format!(
                    "`{}` and `{}` contradict each other",
                    first.text, second.text
                ),
            });
        }
        Ok(reconciled)
    }

    /// The resources that a plan works on.
    pub(super) fn targets(&self, plan: &Plan) -> Result<Vec<Target>, PlanError> {
        self.targets_of(&plan.inputs)
    }

    /// The resources that a plan created with these inputs works on.
    pub(super) fn targets_of(&self, inputs: &PlanInputs) -> Result<Vec<Target>, PlanError> {
        let mut links = Vec::new();
        for project in &inputs.projects {
            let found = self
                .projects
                .targets(&project.name)
                .map_err(PlanError::from_service)?;
            if found.is_empty() {
                return Err(PlanError::EmptyProject(project.name.clone()));
            }
            links.extend(found.into_iter().map(|mut link| {
                link.read_only |= project.read_only;
                link
            }));
        }
        let mut targets = Target::of_project(&self.resources, &links)?;
        Target::make_distinct(&mut targets);
        for target in &mut targets {
            target.is_read_only |= inputs.read_only;
        }
        Ok(targets)
    }

    /// The validations attached to the plan, its projects and their resources.
    pub(super) fn validations_in_effect(
        &self,
        plan: &Plan,
    ) -> Result<Vec<EffectiveValidation>, PlanError> {
        // The result of a child plan is validated with the result of its parent.
        let (projects, resources) = if plan.is_subplan() {
            (Vec::new(), Vec::new())
        } else {
            self.projects_and_resources(plan)?
        };
        self.validations
            .for_plan(plan.id, &projects, &resources, &*self.variables)
            .map_err(PlanError::from_service)
    }

    /// The projects of a plan, and the resources that are linked to them.
    pub(super) fn projects_and_resources(
        &self,
        plan: &Plan,
    ) -> Result<(Vec<ProjectId>, Vec<ResourceId>), PlanError> {
        let mut projects = Vec::new();
        let mut resources = Vec::new();
        for project in &plan.inputs.projects {
            let (project, links) = self
                .projects
                .view(&project.name)
                .map_err(PlanError::from_service)?;
            projects.push(project.id);
            resources.extend(links.into_iter().map(|link| link.resource.id));
        }
        Ok((projects, resources))
    }

    /// The names of the resources that a plan works on. A deleted project is listed by its own name.
    pub(super) fn resource_names(&self, plan: &Plan) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for project in &plan.inputs.projects {
            let found = match self.projects.view(&project.name) {
                Ok((_, targets)) => targets
                    .into_iter()
                    .map(|target| target.resource.name.to_string())
                    .collect(),
                Err(_) => vec![project.name.clone()],
            };
            for name in found {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }
}

/// The query for the effective invariants of a plan.
pub(super) fn invariant_query(plan: &Plan) -> EffectiveQuery {
    let action = plan.inputs.action.as_ref();
    let projects = plan.inputs.projects.iter();
    EffectiveQuery {
        plan: Some(plan.id),
        action: action.map(ActionRules::from),
        projects: projects.map(|project| project.name.clone()).collect(),
    }
}

/// The safety requirements of a plan's automation profile.
pub(super) fn profile_safety(plan: &Plan) -> Result<(SafetyProfile, Guards), PlanError> {
    let profile = &plan.inputs.profile.snapshot;
    let safety = SafetyProfile {
        require_sandbox: profile.require_sandbox,
        require_checkpoints: profile.require_checkpoints,
        allow_unsafe_tools: profile.allow_unsafe_tools,
        max_cost_per_plan: plan.inputs.max_cost_micro_usd.map(MicroUsd),
        ..SafetyProfile::unrestricted()
    };
    Ok((safety, guards_of(profile)?))
}

/// Converts the guards of a profile to the types of the tool gate.
fn guards_of(profile: &AutomationProfile) -> Result<Guards, PlanError> {
    let Some(AutomationGuard {
        tool_denylist,
        tool_allowlist,
        max_tool_calls_per_step,
        max_total_cost,
        require_approval_for_writes,
        require_approval_for_apply: _,
    }) = &profile.guards
    else {
        return Ok(Guards::default());
    };
    let patterns = |names: &[String]| {
        names
            .iter()
            .map(|name| name.parse::<ToolPattern>())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| PlanError::Usage(error.to_string()))
    };
    Ok(Guards {
        denylist: patterns(tool_denylist)?,
        allowlist: match tool_allowlist {
            Some(names) => AllowList::only(patterns(names)?),
            None => AllowList::default(),
        },
        max_tool_calls_per_step: *max_tool_calls_per_step,
        max_total_cost: *max_total_cost,
        require_approval_for_writes: *require_approval_for_writes,
    })
}
