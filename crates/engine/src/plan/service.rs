//! [`PlanService`]: makes plans, drives them, and lets people have a say.

use std::sync::Arc;

use cleveragents_domain::{
    Action, AutomationGuard, AutomationProfile, DecisionId, DecisionType, LeaseSubject, MadeWith,
    MicroUsd, Move, NewDecision, Plan, PlanActors, PlanId, PlanPhase, PlanProfile, PlanProject,
    PlanStage, PlanStrategy, REVERSION_LIMIT, Reconciled, Ttl, Waiting,
};
use cleveragents_process::Cancel;
use cleveragents_sandbox::Landing;
use cleveragents_store::plans::{Along, NewPlan};
use cleveragents_store::{
    Engine, UnitOfWork, decisions, definitions, invariants, leases, plan_steps, plans,
};
use cleveragents_tools::{AllowList, Guards, SafetyProfile, ToolPattern};
use serde_json::{Value, json};

use super::built_in::{DETERMINISTIC, EXECUTOR, REVIEWER, STRATEGIST};
use super::drive::Drive;
use super::error::PlanError;
use super::gates::subject;
use super::world::{PlanWatcher, PlanWorld};
use crate::action::ActionService;
use crate::automation::AutomationService;
use crate::invariant::{ActionRules, EffectiveQuery, InvariantService};
use crate::lease::{HeldLease, LeaseError, LeaseService};
use crate::project::ProjectService;
use crate::resource::ResourceService;
use crate::run::{Doubt, RunService};
use crate::sandbox::{SandboxService, Target};
use crate::session::SessionService;
use crate::validation::{InEffect, ValidationService};
use crate::watch::Watch;

/// Variables that files ask for.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

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
    pub doubt: Doubt,
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

    /// The projects that a person names, and the profile that the first of them which has one asks for.
    fn named_projects(
        &self,
        named: &[String],
    ) -> Result<(Vec<PlanProject>, Option<String>), PlanError> {
        let mut projects: Vec<PlanProject> = Vec::new();
        let mut of_projects = None;
        for reference in named {
            let (project, links) = self.projects.view(reference).map_err(PlanError::of)?;
            if links.is_empty() {
                return Err(PlanError::EmptyProject(project.name.to_string()));
            }
            if projects
                .iter()
                .any(|known| known.name == project.name.to_string())
            {
                return Err(PlanError::Usage(format!(
                    "the project `{}` is named twice",
                    project.name
                )));
            }
            of_projects = of_projects.or_else(|| project.rules.automation_profile.clone());
            projects.push(PlanProject {
                name: project.name.to_string(),
                alias: project.name.name().to_owned(),
                read_only: false,
            });
        }
        if projects.is_empty() {
            return Err(PlanError::Usage(
                "a plan needs a project to work on".to_owned(),
            ));
        }
        Ok((projects, of_projects))
    }

    /// Makes a plan from an action. Nothing is done for it yet.
    pub fn create(
        &self,
        request: &UseAction,
        defaults: &PlanDefaults,
        variables: Variables<'_>,
    ) -> Result<Plan, PlanError> {
        let action = self
            .actions
            .available(&request.action, variables)
            .map_err(PlanError::of)?;
        let values = action.resolve(&request.arguments).map_err(PlanError::of)?;
        let (projects, of_projects) = self.named_projects(&request.projects)?;
        let (name, source) = match (&request.profile, &action.automation_profile, of_projects) {
            (Some(name), ..) => (name.clone(), "CLI flag"),
            (None, Some(name), _) => (name.clone(), "action"),
            (None, None, Some(name)) => (name, "project"),
            (None, None, None) => (defaults.profile.clone(), "global"),
        };
        let snapshot = self
            .automation
            .get(&name, variables)
            .map_err(PlanError::of)?;
        let rendered = |text: &str| action.render(text, &values);
        let made_with = MadeWith {
            arguments: values.values.clone(),
            arguments_order: values.order.clone(),
            projects,
            actors: actors(request, &action, defaults),
            profile: PlanProfile {
                name: snapshot.name.clone(),
                source: source.to_owned(),
                snapshot,
            },
            read_only: action.read_only || request.read_only,
            max_cost_micro_usd: request.max_cost.map(|cost| cost.0),
            action: Some(Action {
                invariants: action
                    .invariants
                    .iter()
                    .map(|text| rendered(text))
                    .collect(),
                ..action.clone()
            }),
        };
        let id = PlanId::generate();
        let short = id.to_string().to_ascii_lowercase();
        let word = action.name.rsplit('/').next().unwrap_or(&action.name);
        let new = NewPlan {
            id,
            name: Some(format!("local/{word}-{}", short.get(..8).unwrap_or(&short))),
            action: action.name.clone(),
            above: None,
            description: rendered(
                action
                    .long_description
                    .as_ref()
                    .unwrap_or(&action.description),
            ),
            definition_of_done: rendered(&action.definition_of_done),
            made_with,
        };
        let mut own = Vec::new();
        for text in &request.invariants {
            own.push(invariants::NewInvariant {
                id: cleveragents_domain::InvariantId::generate(),
                text: cleveragents_domain::Invariant::checked_text(text).map_err(|error| {
                    PlanError::of(crate::invariant::InvariantError::from(error))
                })?,
                scope: cleveragents_domain::InvariantScope::Plan,
                source_name: Some(id.to_string()),
                non_overridable: false,
            });
        }
        let is_used_up = !action.reusable;
        self.engine
            .write(move |unit| {
                if is_used_up
                    && !definitions::archive(
                        unit,
                        definitions::DefinitionKind::Action,
                        &new.action,
                    )?
                {
                    // Another plan was faster.
                    return Ok::<_, PlanError>(false);
                }
                plans::insert(unit, &new)?;
                for invariant in &own {
                    invariants::insert(unit, invariant)?;
                }
                Ok(true)
            })
            .and_then(|is_made| {
                if is_made {
                    self.get(id)
                } else {
                    Err(PlanError::of(crate::action::ActionError::Archived(
                        action.name.clone(),
                    )))
                }
            })
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
        world: &dyn PlanWorld,
        watcher: &dyn PlanWatcher,
        cancel: &Cancel,
    ) -> Result<Plan, PlanError> {
        let lease = self.take(id)?;
        self.finish_rollback(id, &lease)?;
        let mut plan = self.get(id)?;
        let stop = cancel.child();
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
            world,
            watcher,
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
        drive.go(plan, options.consent)
    }

    /// Ends a plan: at once when nobody works on it, otherwise whoever does is asked to.
    /// Says whether it is over already.
    pub fn cancel(&self, id: PlanId, reason: &str) -> Result<bool, PlanError> {
        let plan = self.get(id)?;
        if plan.stage.is_terminal() {
            return Err(over(&plan));
        }
        let why = reason.to_owned();
        match self.take(id) {
            Ok(lease) => {
                self.finish_rollback(id, &lease)?;
                // An apply that was cut off is brought to its end first: it may be past its turning point.
                if let Some(sandbox) = plan.sandbox.as_deref()
                    && plan.stage == PlanStage::ApplyProcessing
                {
                    self.settle_apply(&plan, sandbox, &lease)?;
                }
                let fence = (lease.subject().clone(), lease.token());
                let moved = self.engine.write(move |unit| {
                    leases::require(unit, &fence.0, fence.1)?;
                    let along = Along {
                        reason: Some(why.clone()),
                        ..Along::default()
                    };
                    plans::advance(unit, id, Move::Cancel, &along)
                })?;
                match moved {
                    Some(_) => Ok(true),
                    None => Err(over(&self.get(id)?)),
                }
            }
            Err(PlanError::Busy { .. }) => {
                if self
                    .engine
                    .write(move |unit| plans::request_cancel(unit, id, &why))?
                {
                    Ok(false)
                } else {
                    Err(over(&self.get(id)?))
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Answers what a plan waits for.
    pub fn answer(
        &self,
        id: PlanId,
        is_yes: bool,
        text: Option<&str>,
        person: &str,
    ) -> Result<Plan, PlanError> {
        let plan = self.get(id)?;
        let Some(waiting) = plan.waiting.clone() else {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "it waits for nobody's word".to_owned(),
                hint: format!("`agents plan status {id}` shows where it is"),
            });
        };
        let what = match &waiting {
            Waiting::Gate { gate, .. } => {
                let gate = cleveragents_domain::AutomationGate::ALL
                    .into_iter()
                    .find(|known| known.as_str() == gate);
                gate.map(|gate| subject(gate, &plan))
            }
            Waiting::Call { subject, .. } | Waiting::Question { subject, .. } => {
                Some(subject.clone())
            }
            Waiting::Doubt { .. } | Waiting::Guidance { .. } => None,
        };
        let Some(what) = what else {
            return Err(PlanError::Waits {
                plan: id,
                waiting: Box::new(waiting),
            });
        };
        let verdict = match (&waiting, is_yes, text) {
            (Waiting::Question { .. }, true, None) => {
                return Err(PlanError::Usage(
                    "the plan asked a question: give the answer with --answer".to_owned(),
                ));
            }
            (Waiting::Question { .. }, true, Some(_)) => "answered",
            (_, true, _) => "approved",
            (_, false, _) => "rejected",
        };
        let decision = Self::said(&plan, &waiting.sentence(), verdict, text);
        let (text, person) = (text.map(str::to_owned), person.to_owned());
        self.engine.write(move |unit| {
            // Of two answers the second finds nothing to answer.
            let Some(now) = plans::locked(unit, id)? else {
                return Ok(());
            };
            if now.waiting.as_ref() != Some(&waiting) {
                return Err(PlanError::NotReady {
                    plan: id,
                    stage: now.stage,
                    reason: "somebody else answered already".to_owned(),
                    hint: format!("`agents plan status {id}` shows where it is"),
                });
            }
            plan_steps::answer(unit, id, &what, verdict, text.as_deref(), &person)?;
            if let Some(decision) = &decision {
                decisions::insert(unit, id, decision)?;
            }
            plans::wait_no_more(unit, id)?;
            Ok(())
        })?;
        self.get(id)
    }

    /// A decision that tells what a person said; nothing before there is a root for it.
    pub(super) fn said(
        plan: &Plan,
        question: &str,
        chosen: &str,
        why: Option<&str>,
    ) -> Option<NewDecision> {
        Some(NewDecision {
            id: DecisionId::generate(),
            parent: Some(plan.decision_root?),
            kind: DecisionType::UserIntervention,
            phase: plan.stage.phase(),
            question: question.to_owned(),
            chosen: chosen.to_owned(),
            alternatives: Vec::new(),
            confidence: None,
            rationale: why.unwrap_or_default().to_owned(),
            reasoning: None,
            snapshot: cleveragents_domain::ContextSnapshot::default(),
            artifacts: Vec::new(),
            influenced_by: Vec::new(),
        })
    }

    /// Tells a plan something, for its next step.
    pub fn prompt(&self, id: PlanId, guidance: &str) -> Result<(Plan, NewDecision), PlanError> {
        let plan = self.get(id)?;
        if plan.stage.is_terminal() {
            return Err(over(&plan));
        }
        let guidance = guidance.trim();
        if guidance.is_empty() {
            return Err(PlanError::Usage("the guidance is empty".to_owned()));
        }
        let Some(decision) = Self::said(&plan, "How shall the plan go on?", guidance, None) else {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "it has not begun, so there is nothing to guide".to_owned(),
                hint: format!("begin with `agents plan execute {id}`"),
            });
        };
        let (text, stored) = (guidance.to_owned(), decision.clone());
        self.engine.write(move |unit| {
            decisions::insert(unit, id, &stored)?;
            plan_steps::guide(unit, id, &text, stored.id)?;
            plans::wait_no_more(unit, id)
        })?;
        Ok((self.get(id)?, decision))
    }

    /// Puts another strategy in the place of the present one, before it is carried out.
    pub fn edit(&self, id: PlanId, document: &str) -> Result<Plan, PlanError> {
        let strategy =
            PlanStrategy::from_markdown(document).map_err(|fault| PlanError::Strategy {
                message: fault.message,
                line: fault.line,
            })?;
        let lease = self.take(id)?;
        let plan = self.get(id)?;
        if plan.stage != PlanStage::StrategizeComplete {
            return Err(PlanError::NotReady {
                plan: id,
                stage: plan.stage,
                reason: "its strategy can be changed between strategizing and executing only"
                    .to_owned(),
                hint: format!("go back to it with `agents plan revert {id}`"),
            });
        }
        let Some(decision) = Self::said(&plan, "Which strategy?", "the strategy was edited", None)
        else {
            return Err(PlanError::NotFound(id));
        };
        let fence = (lease.subject().clone(), lease.token());
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            plans::set_strategy(unit, id, Some(&strategy))?;
            decisions::insert(unit, id, &decision)?;
            plans::wait_no_more(unit, id)?;
            edited(unit, id, strategy.steps.len());
            Ok::<_, cleveragents_store::Error>(())
        })?;
        self.get(id)
    }

    /// Takes a plan back to its strategy, which is made anew with what was learned.
    pub fn revert(&self, id: PlanId, reason: &str) -> Result<Plan, PlanError> {
        let lease = self.take(id)?;
        self.finish_rollback(id, &lease)?;
        let plan = self.get(id)?;
        self.revert_held(&plan, reason, &lease)
    }

    pub(super) fn revert_held(
        &self,
        plan: &Plan,
        reason: &str,
        lease: &HeldLease,
    ) -> Result<Plan, PlanError> {
        let id = plan.id;
        if plan.reversions >= REVERSION_LIMIT {
            return Err(PlanError::ReversionLimit {
                plan: id,
                limit: REVERSION_LIMIT,
            });
        }
        if Move::Revert.from(plan.stage).is_none() {
            return Err(if plan.stage.is_terminal() {
                over(plan)
            } else {
                PlanError::NotReady {
                    plan: id,
                    stage: plan.stage,
                    reason: "there is nothing to go back from".to_owned(),
                    hint: format!("`agents plan execute {id}` goes on"),
                }
            });
        }
        let root = plan.decision_root;
        let reversion = root.map(|root| NewDecision {
            id: DecisionId::generate(),
            parent: Some(root),
            kind: DecisionType::Reversion,
            phase: plan.stage.phase(),
            question: format!("How to go on from {}?", plan.stage),
            chosen: "back to the strategy".to_owned(),
            alternatives: Vec::new(),
            confidence: None,
            rationale: reason.to_owned(),
            reasoning: None,
            snapshot: cleveragents_domain::ContextSnapshot::default(),
            artifacts: Vec::new(),
            influenced_by: Vec::new(),
        });
        let old: Vec<DecisionId> = self
            .engine
            .read(|reader| decisions::of_plan(reader, id))?
            .into_iter()
            .filter(|decision| decision.holds() && Some(decision.said.id) != root)
            .filter(|decision| {
                !matches!(
                    decision.said.kind,
                    DecisionType::InvariantEnforced
                        | DecisionType::UserIntervention
                        | DecisionType::Reversion
                )
            })
            .map(|decision| decision.said.id)
            .collect();
        let fence = (lease.subject().clone(), lease.token());
        let along = Along {
            reason: Some(reason.to_owned()),
            begins_attempt: true,
            is_reversion: true,
            ..Along::default()
        };
        let moved = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            let moved = plans::advance(unit, id, Move::Revert, &along)?;
            if let (Some(_), Some(reversion)) = (&moved, &reversion) {
                decisions::insert(unit, id, reversion)?;
                decisions::supersede(unit, id, &old, reversion.id)?;
            }
            Ok::<_, cleveragents_store::Error>(moved)
        })?;
        moved.ok_or_else(|| over(plan))
    }

    /// Leaves a plan to a worker.
    pub fn queue(&self, id: PlanId, how: &Value) -> Result<Plan, PlanError> {
        let plan = self.get(id)?;
        if plan.stage.is_terminal() {
            return Err(over(&plan));
        }
        let how = how.clone();
        self.engine.write(move |unit| {
            plans::wait_no_more(unit, id)?;
            plans::queue(unit, id, Some(&how))
        })?;
        self.get(id)
    }

    /// The plan is no longer left to a worker.
    pub fn unqueue(&self, id: PlanId) -> Result<(), PlanError> {
        Ok(self
            .engine
            .write(move |unit| plans::queue(unit, id, None))?)
    }

    /// The invariants that hold for a plan, brought together.
    pub fn reconciled(&self, plan: &Plan) -> Result<Reconciled, PlanError> {
        let action = plan.made_with.action.as_ref();
        self.invariants
            .effective(&EffectiveQuery {
                plan: Some(plan.id),
                action: action.map(ActionRules::from),
                projects: plan
                    .made_with
                    .projects
                    .iter()
                    .map(|project| project.name.clone())
                    .collect(),
            })
            .map_err(PlanError::of)
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
        let mut links = Vec::new();
        for project in &plan.made_with.projects {
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
            target.is_read_only |= plan.made_with.read_only;
        }
        Ok(targets)
    }

    /// The validations that hold for a plan.
    pub fn validations_in_effect(&self, plan: &Plan) -> Result<Vec<InEffect>, PlanError> {
        let mut projects = Vec::new();
        let mut resources = Vec::new();
        for project in &plan.made_with.projects {
            let (project, links) = self.projects.view(&project.name).map_err(PlanError::of)?;
            projects.push(project.id);
            resources.extend(links.into_iter().map(|link| link.resource.id));
        }
        self.validations
            .for_plan(plan.id, &projects, &resources, &*self.variables)
            .map_err(PlanError::of)
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

/// Who does what: the person, the action, the configuration, the program.
fn actors(request: &UseAction, action: &Action, defaults: &PlanDefaults) -> PlanActors {
    let chosen = |own: &Option<String>, of_action: &Option<String>, usual: &Option<String>| {
        own.as_ref()
            .or(of_action.as_ref())
            .or(usual.as_ref())
            .cloned()
    };
    let (own, named, usual) = (&request.actors, &action.actors, &defaults.actors);
    let strategy = chosen(&own.strategy, &named.strategy, &usual.strategy);
    let execution = chosen(&own.execution, &named.execution, &usual.execution);
    let strategy = strategy.unwrap_or_else(|| STRATEGIST.to_owned());
    let execution = execution.unwrap_or_else(|| {
        if strategy == DETERMINISTIC {
            DETERMINISTIC.to_owned()
        } else {
            EXECUTOR.to_owned()
        }
    });
    let review = chosen(&own.review, &named.review, &usual.review).or_else(|| {
        // Whoever has a model to work with has one to look at the result, too.
        (execution == EXECUTOR).then(|| REVIEWER.to_owned())
    });
    let unless_none = |name: Option<String>| {
        name.filter(|name| !matches!(name.as_str(), "__optional__" | "none"))
    };
    PlanActors {
        strategy,
        execution,
        estimation: unless_none(chosen(
            &own.estimation,
            &named.estimation,
            &usual.estimation,
        )),
        invariant: unless_none(chosen(&own.invariant, &named.invariant, &usual.invariant)),
        review: unless_none(review),
    }
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

fn edited(unit: &mut UnitOfWork<'_>, id: PlanId, steps: usize) {
    unit.emit(cleveragents_domain::NewEvent {
        kind: cleveragents_domain::EventKind::PlanEdited,
        subject: id.to_string(),
        payload: json!({"steps": steps}),
    });
}
