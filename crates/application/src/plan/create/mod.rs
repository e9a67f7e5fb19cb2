//! [`PlanCreation`]: creates plans from actions: arguments, projects, actors and automation profile.

mod one_off;

use cleveragents_domain::{
    Action, Plan, PlanActors, PlanId, PlanInputs, PlanProfile, PlanProject, PlanReport,
};
use cleveragents_store::plans::NewPlan;
use cleveragents_store::{definitions, invariants, plans, resources};

pub use one_off::one_off_action;

use super::built_in::{DETERMINISTIC, EXECUTOR, REVIEWER, STRATEGIST};
use super::error::PlanError;
use super::plan_store::PlanStore;
use super::requirements::PlanRequirements;
use super::service::{PlanDefaults, UseAction, Variables};
use crate::action::ActionService;
use crate::automation::AutomationService;
use crate::definition::DefinitionError;
use crate::invariant::InvariantError;
use crate::project::{ProjectService, find_project};
use crate::sandbox::SandboxService;

/// Creates plans. Cheap to clone.
#[derive(Clone)]
pub(super) struct PlanCreation {
    pub(super) store: PlanStore,
    pub(super) actions: ActionService,
    pub(super) automation: AutomationService,
    pub(super) projects: ProjectService,
    pub(super) requirements: PlanRequirements,
    pub(super) sandboxes: SandboxService,
}

impl PlanCreation {
    /// The projects of a request, and the first automation profile that they define.
    fn named_projects(
        &self,
        references: &[String],
    ) -> Result<(Vec<PlanProject>, Option<String>), PlanError> {
        let mut projects: Vec<PlanProject> = Vec::new();
        let mut project_profile = None;
        for reference in references {
            let (project, links) = self
                .projects
                .view(reference)
                .map_err(PlanError::from_service)?;
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
            project_profile = project_profile.or_else(|| project.rules.automation_profile.clone());
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
        Ok((projects, project_profile))
    }

    /// Creates a plan from an action, without starting it.
    pub(super) fn create(
        &self,
        request: &UseAction,
        defaults: &PlanDefaults,
        variables: Variables<'_>,
    ) -> Result<Plan, PlanError> {
        let action = self
            .actions
            .available(&request.action, variables)
            .map_err(PlanError::from_service)?;
        let values = action
            .resolve(&request.arguments)
            .map_err(PlanError::from_service)?;
        let (projects, project_profile) = self.named_projects(&request.projects)?;
        let (name, source) = match (
            &request.profile,
            &action.automation_profile,
            project_profile,
        ) {
            (Some(name), ..) => (name.clone(), "CLI flag"),
            (None, Some(name), _) => (name.clone(), "action"),
            (None, None, Some(name)) => (name, "project"),
            (None, None, None) => (defaults.profile.clone(), "global"),
        };
        let snapshot = self
            .automation
            .get(&name, variables)
            .map_err(PlanError::from_service)?;
        let rendered = |text: &str| action.render(text, &values);
        let inputs = PlanInputs {
            arguments: values.values.clone(),
            arguments_order: values.order.clone(),
            projects,
            actors: actors(request, &action, defaults),
            profile: PlanProfile {
                name: snapshot.name.clone(),
                source: source.to_owned(),
                snapshot,
            },
            read_only: action.read_only
                || request.read_only
                || request.report.is_some_and(PlanReport::is_whole_result),
            max_cost_micro_usd: request.max_cost.map(|cost| cost.0),
            report: request.report,
            action: Some(Action {
                invariants: action
                    .invariants
                    .iter()
                    .map(|text| rendered(text))
                    .collect(),
                parts: action.render_parts(&values),
                ..action.clone()
            }),
        };
        // If the targets cannot be resolved, the plan reports the error when it starts; until then the user can fix it.
        if let Ok(targets) = self.requirements.targets_of(&inputs) {
            self.sandboxes.check_targets(&targets)?;
        }
        let new = new_plan(&action, inputs, rendered);
        let id = new.id;
        let invariants = plan_invariants(id, &request.invariants)?;
        if !self.insert(new, invariants, !action.reusable)? {
            return Err(PlanError::from_service(DefinitionError::Archived(
                action.name.clone(),
            )));
        }
        self.store.get(id)
    }

    /// Stores a plan. Returns `false` if its action is not reusable and another plan already used it.
    fn insert(
        &self,
        new: NewPlan,
        plan_invariants: Vec<invariants::NewInvariant>,
        archives_action: bool,
    ) -> Result<bool, PlanError> {
        self.store.write(move |unit| {
            // The lock prevents the deletion of the plan's projects until the plan is stored.
            resources::lock(unit)?;
            for project in &new.inputs.projects {
                find_project(unit, &project.name).map_err(PlanError::from_service)?;
            }
            let kind = definitions::DefinitionKind::Action;
            if archives_action && !definitions::archive(unit, kind, &new.action)? {
                return Ok(false);
            }
            plans::insert(unit, &new)?;
            for invariant in &plan_invariants {
                invariants::insert(unit, invariant)?;
            }
            Ok(true)
        })
    }
}

/// The row of a new plan. `render` inserts the arguments into a text of the action.
fn new_plan(action: &Action, inputs: PlanInputs, render: impl Fn(&str) -> String) -> NewPlan {
    let id = PlanId::generate();
    let short = id.to_string().to_ascii_lowercase();
    let action_name = action.name.rsplit('/').next().unwrap_or(&action.name);
    let description = action.long_description.as_ref();
    NewPlan {
        id,
        name: Some(format!(
            "local/{action_name}-{}",
            short.get(..8).unwrap_or(&short)
        )),
        action: action.name.clone(),
        above: None,
        description: render(description.unwrap_or(&action.description)),
        definition_of_done: render(&action.definition_of_done),
        inputs,
    }
}

/// The invariants that the caller sets for this plan only.
fn plan_invariants(
    id: PlanId,
    texts: &[String],
) -> Result<Vec<invariants::NewInvariant>, PlanError> {
    let mut new = Vec::new();
    for text in texts {
        new.push(invariants::NewInvariant {
            id: cleveragents_domain::InvariantId::generate(),
            text: cleveragents_domain::Invariant::checked_text(text)
                .map_err(|error| PlanError::from_service(InvariantError::from(error)))?,
            scope: cleveragents_domain::InvariantScope::Plan,
            source_name: Some(id.to_string()),
            non_overridable: false,
        });
    }
    Ok(new)
}

/// The actors of a plan: from the request, else the action, else the configuration, else built in.
fn actors(request: &UseAction, action: &Action, defaults: &PlanDefaults) -> PlanActors {
    let chosen =
        |requested: &Option<String>, of_action: &Option<String>, default: &Option<String>| {
            requested
                .as_ref()
                .or(of_action.as_ref())
                .or(default.as_ref())
                .cloned()
        };
    let (requested, of_action, default) = (&request.actors, &action.actors, &defaults.actors);
    let strategy = chosen(&requested.strategy, &of_action.strategy, &default.strategy);
    let execution = chosen(
        &requested.execution,
        &of_action.execution,
        &default.execution,
    );
    let strategy = strategy.unwrap_or_else(|| STRATEGIST.to_owned());
    let execution = execution.unwrap_or_else(|| {
        if strategy == DETERMINISTIC {
            DETERMINISTIC.to_owned()
        } else {
            EXECUTOR.to_owned()
        }
    });
    let review = chosen(&requested.review, &of_action.review, &default.review).or_else(|| {
        // A plan that the built-in executor runs is also reviewed by a model.
        (execution == EXECUTOR).then(|| REVIEWER.to_owned())
    });
    let unless_none = |name: Option<String>| {
        name.filter(|name| !matches!(name.as_str(), "__optional__" | "none"))
    };
    PlanActors {
        strategy,
        execution,
        estimation: unless_none(chosen(
            &requested.estimation,
            &of_action.estimation,
            &default.estimation,
        )),
        invariant: unless_none(chosen(
            &requested.invariant,
            &of_action.invariant,
            &default.invariant,
        )),
        review: unless_none(review),
    }
}
