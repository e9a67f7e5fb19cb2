//! [`PlanService`]: drives plans, and says what holds for them: invariants, validations, targets, safety.

use std::sync::Arc;

use cleveragents_domain::{
    AutomationGuard, AutomationProfile, LeaseSubject, MadeWith, MicroUsd, Plan, PlanId, PlanPhase,
    ProjectId, Reconciled, ResourceId, Ttl,
};
use cleveragents_sandbox::Landing;
use cleveragents_store::{Engine, plans};
use cleveragents_tools::{AllowList, Guards, SafetyProfile, ToolPattern};

use super::drive::Drive;
use super::error::PlanError;
use super::observer::PlanFrontEnd;
use super::policy::SandboxPolicy;
use crate::action::ActionService;
use crate::automation::AutomationService;
use crate::invariant::{ActionRules, EffectiveQuery, InvariantService};
use crate::lease::{HeldLease, LeaseError, LeaseService};
use crate::project::ProjectService;
use crate::resource::ResourceService;
use crate::run::{RunService, UnknownOutcome};
use crate::runtime::AgentRuntime;
use crate::sandbox::{SandboxService, Target};
use crate::session::SessionService;
use crate::validation::{InEffect, ValidationService};
use crate::watch::Watch;

/// Variables that files ask for.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Whom and what plans have when nobody names another.
#[derive(Debug, Clone, Default)]
pub struct PlanDefaults {
    /// The automation profile.
    pub profile: String,
    /// Actors, as the configuration names them.
    pub actors: DefaultActors,
}

/// The actors of the configuration.
#[derive(Debug, Clone, Default)]
pub struct DefaultActors {
    /// Thinks plans out.
    pub strategy: Option<String>,
    /// Carries plans out.
    pub execution: Option<String>,
    /// Says what plans will take.
    pub estimation: Option<String>,
    /// Brings invariants together.
    pub invariant: Option<String>,
    /// Judges results.
    pub review: Option<String>,
}

/// A plan to be made.
#[derive(Debug, Clone, Default)]
pub struct UseAction {
    /// The action.
    pub action: String,
    /// The values of its arguments.
    pub arguments: Vec<(String, String)>,
    /// The projects.
    pub projects: Vec<String>,
    /// The automation profile, when the person names one.
    pub profile: Option<String>,
    /// Actors that the person names.
    pub actors: DefaultActors,
    /// What the plan must keep true, beside all else.
    pub invariants: Vec<String>,
    /// The most it may cost.
    pub max_cost: Option<MicroUsd>,
    /// Whether it may only look, whatever the action says.
    pub read_only: bool,
}

/// How a plan is driven.
#[derive(Debug, Clone, Default)]
pub struct DriveOptions {
    /// The phase that a person asks for. Gates before others hold.
    pub consent: Option<PlanPhase>,
    /// What to do about a call of which nobody knows whether it was done.
    pub unknown_outcome: UnknownOutcome,
    /// How the result arrives on a branch.
    pub landing: Landing,
    /// The message of the commit.
    pub message: Option<String>,
    /// Whether a plan that changed nothing may be applied.
    pub allow_empty: bool,
}

/// Makes and drives plans. Cheap to clone.
#[derive(Clone)]
pub struct PlanService {
    pub(super) engine: Arc<Engine>,
    pub(super) sandboxes: SandboxService,
    pub(super) runs: RunService,
    pub(super) leases: LeaseService,
    pub(super) projects: ProjectService,
    pub(super) resources: ResourceService,
    pub(super) actions: ActionService,
    pub(super) invariants: InvariantService,
    pub(super) automation: AutomationService,
    pub(super) validations: ValidationService,
    pub(super) policy: SandboxPolicy,
    variables: KeptVariables,
}

/// Variables that files ask for, kept.
pub type KeptVariables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl PlanService {
    /// A service over a store and its sandboxes.
    pub fn new(
        engine: Arc<Engine>,
        sessions: SessionService,
        sandboxes: SandboxService,
        variables: KeptVariables,
    ) -> Self {
        Self {
            variables,
            policy: SandboxPolicy::default(),
            runs: RunService::new(Arc::clone(&engine), sessions),
            leases: LeaseService::new(Arc::clone(&engine)),
            projects: ProjectService::new(Arc::clone(&engine)),
            resources: ResourceService::new(Arc::clone(&engine)),
            actions: ActionService::new(Arc::clone(&engine)),
            invariants: InvariantService::new(Arc::clone(&engine)),
            automation: AutomationService::new(Arc::clone(&engine)),
            validations: ValidationService::new(Arc::clone(&engine)),
            sandboxes,
            engine,
        }
    }

    /// A plan by its id.
    pub fn get(&self, id: PlanId) -> Result<Plan, PlanError> {
        self.engine
            .read(|reader| plans::get(reader, id))?
            .ok_or(PlanError::NotFound(id))
    }

    /// Takes the lease of a plan, or says who has it.
    pub(super) fn take(&self, id: PlanId) -> Result<HeldLease, PlanError> {
        match self
            .leases
            .acquire(LeaseSubject::new("plan", id), Ttl::default())
        {
            Err(LeaseError::Held { owner, .. }) => Err(PlanError::Busy {
                plan: id,
                owner: owner.to_string(),
            }),
            other => Ok(other?),
        }
    }

    /// Who works on a plan.
    pub fn owner(&self, id: PlanId) -> Result<Option<String>, PlanError> {
        let worker = self.leases.worker(&LeaseSubject::new("plan", id))?;
        Ok(worker.map(|lease| lease.owner.to_string()))
    }

    /// Drives a plan as far as it goes: through the phase that is asked for, and through those after it as
    /// far as its automation profile lets it.
    pub fn drive(
        &self,
        id: PlanId,
        options: &DriveOptions,
        runtime: &AgentRuntime,
        front_end: PlanFrontEnd<'_>,
    ) -> Result<Plan, PlanError> {
        let _plan = tracing::error_span!("plan", plan = %id).entered();
        let lease = self.take(id)?;
        self.finish_rollback(id, &lease)?;
        let mut plan = self.get(id)?;
        let stop = front_end.cancel.child();
        let _guard = lease.guard(&stop);
        let _until_the_end = Watch::over(
            {
                let engine = Arc::clone(&self.engine);
                // A database that cannot be read now is read again a moment later.
                move || {
                    let plan = engine.read(|reader| plans::get(reader, id));
                    matches!(plan, Ok(Some(plan)) if plan.is_cancelled)
                }
            },
            stop.clone(),
        );
        let drive = Drive {
            service: self,
            runtime,
            approver: front_end.approver,
            watcher: front_end.observer,
            cancel: &stop,
            lease: &lease,
            options,
        };
        if options.consent == Some(PlanPhase::Execute) && drive.only_waits_to_be_applied(&plan)? {
            // One that needs nobody's word to be applied goes on: whoever drove it may have died here.
            return Ok(plan);
        }
        if plan.waiting.is_some() && options.consent.is_some() {
            drive.write(move |unit| plans::wait_no_more(unit, id))?;
            plan = self.get(id)?;
        }
        if let Some(consent) = options.consent {
            plan = drive.make_ready(plan, consent)?;
        }
        let driven = drive.go(plan, options.consent);
        match &driven {
            Ok(plan) => tracing::info!(stage = %plan.stage, "plan paused or finished"),
            Err(error) => tracing::info!(%error, "plan stopped"),
        }
        if matches!(driven, Err(PlanError::Stopped { is_over: true, .. })) {
            self.clean_up(&self.get(id)?)?;
        }
        driven
    }

    /// The invariants that hold for a plan, brought together.
    pub fn reconciled(&self, plan: &Plan) -> Result<Reconciled, PlanError> {
        self.invariants
            .effective(&Self::invariants_of(plan))
            .map_err(PlanError::of)
    }

    /// By what the invariants of a plan are found.
    pub(super) fn invariants_of(plan: &Plan) -> EffectiveQuery {
        let action = plan.made_with.action.as_ref();
        let projects = plan.made_with.projects.iter();
        EffectiveQuery {
            plan: Some(plan.id),
            action: action.map(ActionRules::from),
            projects: projects.map(|project| project.name.clone()).collect(),
        }
    }

    /// Refuses to go on while invariants contradict each other.
    pub(super) fn check_invariants(&self, plan: &Plan) -> Result<Reconciled, PlanError> {
        let reconciled = self.reconciled(plan)?;
        if let Some((one, other)) = reconciled.unresolved.first() {
            return Err(PlanError::Invariant {
                plan: plan.id,
                reason: format!("`{}` and `{}` contradict each other", one.text, other.text),
            });
        }
        Ok(reconciled)
    }

    /// What a plan works on.
    pub(super) fn targets(&self, plan: &Plan) -> Result<Vec<Target>, PlanError> {
        self.targets_of(&plan.made_with)
    }

    /// The targets of a plan that is about to be made.
    pub(super) fn targets_of(&self, made_with: &MadeWith) -> Result<Vec<Target>, PlanError> {
        let mut links = Vec::new();
        for project in &made_with.projects {
            let found = self
                .projects
                .targets(&project.name)
                .map_err(PlanError::of)?;
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
            target.is_read_only |= made_with.read_only;
        }
        Ok(targets)
    }

    /// The validations that hold for a plan.
    pub fn validations_in_effect(&self, plan: &Plan) -> Result<Vec<InEffect>, PlanError> {
        let (projects, resources) = self.worked_on(plan)?;
        self.validations
            .for_plan(plan.id, &projects, &resources, &*self.variables)
            .map_err(PlanError::of)
    }

    /// The projects of a plan, and the resources that are linked to them.
    pub(super) fn worked_on(
        &self,
        plan: &Plan,
    ) -> Result<(Vec<ProjectId>, Vec<ResourceId>), PlanError> {
        let mut projects = Vec::new();
        let mut resources = Vec::new();
        for project in &plan.made_with.projects {
            let (project, links) = self.projects.view(&project.name).map_err(PlanError::of)?;
            projects.push(project.id);
            resources.extend(links.into_iter().map(|link| link.resource.id));
        }
        Ok((projects, resources))
    }

    /// What the profile of a plan demands of calls.
    pub fn safety(&self, plan: &Plan) -> Result<(SafetyProfile, Guards), PlanError> {
        let profile = &plan.made_with.profile.snapshot;
        let safety = SafetyProfile {
            require_sandbox: profile.require_sandbox,
            require_checkpoints: profile.require_checkpoints,
            allow_unsafe_tools: profile.allow_unsafe_tools,
            max_cost_per_plan: plan.made_with.max_cost_micro_usd.map(MicroUsd),
            ..SafetyProfile::demanding_nothing()
        };
        Ok((safety, guards_of(profile)?))
    }
}

/// The guards of a profile, as the gate of tools knows them.
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

pub(super) fn over(plan: &Plan) -> PlanError {
    PlanError::NotReady {
        plan: plan.id,
        stage: plan.stage,
        reason: "it is over".to_owned(),
        hint:
            "`agents plan list` shows the others; `agents plan use ACTION PROJECT` makes a new one"
                .to_owned(),
    }
}
