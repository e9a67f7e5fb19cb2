//! Making plans: an action with its values, its projects, who does what, and the profile it runs under.

use cleveragents_domain::{Action, MadeWith, Plan, PlanActors, PlanId, PlanProfile, PlanProject};
use cleveragents_store::plans::NewPlan;
use cleveragents_store::{definitions, invariants, plans, resources};

use super::built_in::{DETERMINISTIC, EXECUTOR, REVIEWER, STRATEGIST};
use super::error::PlanError;
use super::service::{PlanDefaults, PlanService, UseAction, Variables};
use crate::project::find_project;

impl PlanService {
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
        // What else is wrong with a target is found when the plan begins, and may be corrected until then.
        if let Ok(targets) = self.targets_of(&made_with) {
            self.sandboxes.check_targets(&targets)?;
        }
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
        let own = plan_invariants(id, &request.invariants)?;
        let is_used_up = !action.reusable;
        self.engine
            .write(move |unit| {
                // From here on nobody deletes a project that the plan will use.
                resources::lock(unit)?;
                for project in &new.made_with.projects {
                    find_project(unit, &project.name).map_err(PlanError::of)?;
                }
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
}

/// The invariants that the caller sets for this plan alone.
fn plan_invariants(
    id: PlanId,
    texts: &[String],
) -> Result<Vec<invariants::NewInvariant>, PlanError> {
    let mut own = Vec::new();
    for text in texts {
        own.push(invariants::NewInvariant {
            id: cleveragents_domain::InvariantId::generate(),
            text: cleveragents_domain::Invariant::checked_text(text)
                .map_err(|error| PlanError::of(crate::invariant::InvariantError::from(error)))?,
            scope: cleveragents_domain::InvariantScope::Plan,
            source_name: Some(id.to_string()),
            non_overridable: false,
        });
    }
    Ok(own)
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
