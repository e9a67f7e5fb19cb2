//! [`InvariantService`]: the invariants that users set, and those that apply to a plan.

use std::sync::Arc;

use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{
    Action, ActionValues, Invariant, InvariantId, InvariantScope, PlanId, PlanInputs,
    ReconciledInvariants, SourcedInvariant, reconcile,
};
use cleveragents_store::invariants::{self, InvariantFilter};
use cleveragents_store::plans::{self, PlanSources};
use cleveragents_store::{Engine, Reader, projects, resources};
use regex::Regex;

use super::error::InvariantError;
use crate::ActionService;
use crate::action::find_action;
use crate::definition::DefinitionError;
use crate::project::find_project;
use crate::reference::{find_referenced, unnamed};

/// Optional prefix of an invariant id in a reference.
const PREFIX: &str = "inv_";

/// A scope of invariants, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvariantTarget {
    /// All plans.
    Global,
    /// The plans of a project: its name, id or prefix of its id.
    Project(String),
    /// The plans of an action, by its name.
    Action(String),
    /// A single plan: its id or a prefix of it.
    Plan(String),
}

/// An invariant to add, as given by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInvariant {
    /// One sentence.
    pub text: String,
    /// Scopes of the invariant. Each scope gets its own row; either all rows are added or none.
    pub targets: Vec<InvariantTarget>,
    /// Whether no other invariant can override the global one.
    pub non_overridable: bool,
}

/// Filter for the list of invariants.
#[derive(Debug, Clone, Default)]
pub struct InvariantQuery {
    /// Only invariants of these scopes; all when empty.
    pub targets: Vec<InvariantTarget>,
    /// Only invariants whose text matches this regular expression.
    pub pattern: Option<String>,
}

/// The invariants that an action itself defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRules {
    /// Full name of the action.
    pub name: String,
    /// The sentences; with the values of a plan in their placeholders, if a plan is given.
    pub invariants: Vec<String>,
}

impl From<&Action> for ActionRules {
    fn from(action: &Action) -> Self {
        Self {
            name: action.name.clone(),
            invariants: action.invariants.clone(),
        }
    }
}

/// Scope for which the effective invariants are computed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EffectiveQuery {
    pub plan: Option<PlanId>,
    pub action: Option<ActionRules>,
    /// Projects: names, ids, or prefixes of ids.
    pub projects: Vec<String>,
}

/// Manages invariants. Cheap to clone.
#[derive(Clone)]
pub struct InvariantService {
    engine: Arc<Engine>,
}

/// The stored form of a scope.
type ScopeAndTarget = (InvariantScope, Option<String>);

/// Resolves a scope to its stored form. Fails if its project, action or plan does not exist.
fn resolve_target(
    reader: &mut dyn Reader,
    target: &InvariantTarget,
) -> Result<ScopeAndTarget, InvariantError> {
    Ok(match target {
        InvariantTarget::Global => (InvariantScope::Global, None),
        InvariantTarget::Project(reference) => {
            let found = find_project(reader, reference)?;
            (InvariantScope::Project, Some(found.name.to_string()))
        }
        InvariantTarget::Action(name) => {
            let found = find_action(reader, name)?;
            (InvariantScope::Action, Some(found.name))
        }
        InvariantTarget::Plan(reference) => {
            let found = find_plan(reader, reference)?;
            (InvariantScope::Plan, Some(found.plan.to_string()))
        }
    })
}

/// The plan with an id or prefix.
fn find_plan(reader: &mut dyn Reader, reference: &str) -> Result<PlanSources, InvariantError> {
    find_referenced(
        reader,
        reference,
        unnamed,
        |reader, prefix, limit| Ok(plans::sources(reader, prefix, limit)?),
        |found| match found.len() {
            0 => InvariantError::PlanNotFound(reference.to_owned()),
            _ => InvariantError::AmbiguousPlan {
                reference: reference.to_owned(),
                candidates: found.into_iter().map(|found| found.plan).collect(),
            },
        },
    )
}

/// The active invariant with an id or prefix.
fn find(reader: &mut dyn Reader, reference: &str) -> Result<Invariant, InvariantError> {
    find_referenced(
        reader,
        reference.strip_prefix(PREFIX).unwrap_or(reference),
        unnamed,
        |reader, prefix, limit| Ok(invariants::with_prefix(reader, prefix, limit)?),
        |found| match found.len() {
            0 => InvariantError::NotFound(reference.to_owned()),
            _ => InvariantError::Ambiguous {
                reference: reference.to_owned(),
                candidates: found
                    .into_iter()
                    .map(|found| (found.id, found.text))
                    .collect(),
            },
        },
    )
}

fn describe_scope((scope, source_name): &ScopeAndTarget) -> String {
    match source_name {
        None => "everywhere".to_owned(),
        Some(name) => format!("for {scope} `{name}`"),
    }
}

impl InvariantService {
    /// A service for a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Adds an invariant to each of the scopes, atomically.
    pub fn add(&self, new: NewInvariant) -> Result<Vec<Invariant>, InvariantError> {
        let text = Invariant::checked_text(&new.text)?;
        if new.targets.is_empty() {
            return Err(InvariantError::Nowhere);
        }
        if new.non_overridable
            && new
                .targets
                .iter()
                .any(|target| *target != InvariantTarget::Global)
        {
            return Err(InvariantError::NotGlobal);
        }
        self.engine.write(move |unit| {
            // The lock keeps the project from being deleted between the check and the insert.
            resources::lock(unit)?;
            let mut places: Vec<ScopeAndTarget> = Vec::new();
            for target in &new.targets {
                let place = resolve_target(unit, target)?;
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            let mut added = Vec::new();
            for place in places {
                let row = invariants::NewInvariant {
                    id: InvariantId::generate(),
                    text: text.clone(),
                    scope: place.0,
                    source_name: place.1.clone(),
                    non_overridable: new.non_overridable,
                };
                if !invariants::insert(unit, &row)? {
                    return Err(InvariantError::Exists {
                        place: describe_scope(&place),
                    });
                }
                let stored = invariants::get(unit, row.id)?;
                added.push(stored.ok_or_else(|| InvariantError::NotFound(row.id.to_string()))?);
            }
            Ok(added)
        })
    }

    /// The active invariants that users set, oldest first.
    pub fn list(&self, query: &InvariantQuery) -> Result<Vec<Invariant>, InvariantError> {
        let pattern = pattern(query.pattern.as_deref())?;
        let mut found = self.engine.read(|reader| {
            let mut places = Vec::new();
            for target in &query.targets {
                places.push(resolve_target(reader, target)?);
            }
            Ok::<_, InvariantError>(invariants::list(reader, &InvariantFilter { places })?)
        })?;
        found.retain(|invariant| matches_pattern(pattern.as_ref(), &invariant.text));
        Ok(found)
    }

    /// The active invariant with an id or prefix.
    pub fn get(&self, reference: &str) -> Result<Invariant, InvariantError> {
        self.engine.read(|reader| find(reader, reference))
    }

    /// Deactivates an invariant and returns its stored row.
    pub fn remove(&self, reference: &str) -> Result<Invariant, InvariantError> {
        let reference = reference.to_owned();
        self.engine.write(move |unit| {
            let found = find(unit, &reference)?;
            let missing = || InvariantError::NotFound(reference.clone());
            if !invariants::remove(unit, &found)? {
                // Another process has removed the invariant meanwhile.
                return Err(missing());
            }
            invariants::get(unit, found.id)?.ok_or_else(missing)
        })
    }

    /// The invariants that apply to a plan, an action or projects: those that users set and those of
    /// the projects and the action, reconciled.
    pub fn effective(
        &self,
        query: &EffectiveQuery,
    ) -> Result<ReconciledInvariants, InvariantError> {
        self.engine.read(|reader| Self::effective_in(reader, query))
    }

    /// Like [`effective`](Self::effective), but with a given reader.
    pub(crate) fn effective_in(
        reader: &mut dyn Reader,
        query: &EffectiveQuery,
    ) -> Result<ReconciledInvariants, InvariantError> {
        let mut places: Vec<ScopeAndTarget> = vec![(InvariantScope::Global, None)];
        let mut all: Vec<SourcedInvariant> = Vec::new();
        let sourced = |scope, name: &str, text: &String| SourcedInvariant {
            id: None,
            text: text.clone(),
            source: scope,
            source_name: Some(name.to_owned()),
            non_overridable: false,
        };
        for reference in &query.projects {
            let found = find_project(reader, reference)?;
            let name = found.name.to_string();
            let own = found.rules.invariants.iter();
            all.extend(own.map(|text| sourced(InvariantScope::Project, &name, text)));
            places.push((InvariantScope::Project, Some(name)));
        }
        if let Some(action) = &query.action {
            let own = action.invariants.iter();
            all.extend(own.map(|text| sourced(InvariantScope::Action, &action.name, text)));
            places.push((InvariantScope::Action, Some(action.name.clone())));
        }
        if let Some(plan) = query.plan {
            places.push((InvariantScope::Plan, Some(plan.to_string())));
        }
        let set = invariants::list(reader, &InvariantFilter { places })?;
        all.extend(set.into_iter().map(SourcedInvariant::from));
        Ok(reconcile(all))
    }

    /// Keeps only invariants whose text matches this regular expression.
    pub fn narrow(
        mut all: ReconciledInvariants,
        text: Option<&str>,
    ) -> Result<ReconciledInvariants, InvariantError> {
        let pattern = pattern(text)?;
        let matches_pattern =
            |invariant: &SourcedInvariant| matches_pattern(pattern.as_ref(), &invariant.text);
        all.effective.retain(matches_pattern);
        all.conflicts.retain(|conflict| {
            matches_pattern(&conflict.overridden) || matches_pattern(&conflict.by)
        });
        all.unresolved
            .retain(|(left, right)| matches_pattern(left) || matches_pattern(right));
        Ok(all)
    }

    /// Builds a query from scopes as the user names them. A plan adds its projects that still exist, and its own copy
    /// of the action with the plan's argument values.
    pub fn query(
        &self,
        targets: &[InvariantTarget],
        variables: Variables<'_>,
    ) -> Result<EffectiveQuery, InvariantError> {
        let mut query = EffectiveQuery::default();
        let mut action_name: Option<String> = None;
        for target in targets {
            match target {
                InvariantTarget::Global => {}
                InvariantTarget::Project(reference) => query.projects.push(reference.clone()),
                InvariantTarget::Action(name) => action_name = Some(name.clone()),
                InvariantTarget::Plan(reference) => {
                    let (sources, inputs) = self.engine.read(|reader| {
                        let mut sources = find_plan(reader, reference)?;
                        let plan = plans::get(reader, sources.plan)?;
                        let mut existing = Vec::new();
                        for name in std::mem::take(&mut sources.projects) {
                            let project = match name.parse() {
                                Ok(parsed) => projects::with_name(reader, &parsed)?,
                                Err(_) => None,
                            };
                            existing.extend(project.map(|project| project.name.to_string()));
                        }
                        sources.projects = existing;
                        Ok::<_, InvariantError>((sources, plan.map(|plan| plan.inputs)))
                    })?;
                    query.plan = Some(sources.plan);
                    query.projects.extend(sources.projects);
                    query.action = inputs.as_ref().and_then(rules_of);
                }
            }
        }
        if let Some(name) = action_name {
            let actions = ActionService::new(Arc::clone(&self.engine));
            let found = actions.get_registered(&name, variables)?;
            let action = found.definition.map_err(DefinitionError::from)?;
            query.action = Some(ActionRules::from(&action));
        }
        Ok(query)
    }
}

/// The invariants of a plan's action, with the plan's values in their placeholders.
fn rules_of(inputs: &PlanInputs) -> Option<ActionRules> {
    let action = inputs.action.as_ref()?;
    let values = ActionValues {
        values: inputs.arguments.clone(),
        order: inputs.arguments_order.clone(),
    };
    let texts = action.invariants.iter();
    Some(ActionRules {
        name: action.name.clone(),
        invariants: texts.map(|text| action.render(text, &values)).collect(),
    })
}

fn pattern(text: Option<&str>) -> Result<Option<Regex>, InvariantError> {
    let compile =
        |text: &str| Regex::new(text).map_err(|_| InvariantError::Pattern(text.to_owned()));
    text.map(compile).transpose()
}

fn matches_pattern(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_none_or(|pattern| pattern.is_match(text))
}
