//! [`InvariantService`]: the invariants that people set, and which hold for a plan.

use std::sync::Arc;

use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{
    Action, ActionValues, Invariant, InvariantId, InvariantScope, MadeWith, PlanId, Reconciled,
    SourcedInvariant, check_prefix, reconcile,
};
use cleveragents_store::invariants::{self, InvariantFilter};
use cleveragents_store::plans::{self, PlanSources};
use cleveragents_store::{Engine, Reader, projects, resources};
use regex::Regex;

use super::error::InvariantError;
use crate::action::find_action;
use crate::project::find_project;
use crate::{ActionError, ActionService};

/// How many candidates an ambiguous reference is answered with.
const CANDIDATES: u64 = 20;

/// What is put in front of the ids of invariants in some places.
const PREFIX: &str = "inv_";

/// A place in which invariants hold, as a person names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvariantTarget {
    /// Everywhere.
    Global,
    /// A project: its name, its id or the beginning of that.
    Project(String),
    /// An action by its name.
    Action(String),
    /// A plan: its id or the beginning of it.
    Plan(String),
}

/// What a person says must stay true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInvariant {
    /// The sentence.
    pub text: String,
    /// Where it holds: in each of these an invariant of its own is set, or in none.
    pub targets: Vec<InvariantTarget>,
    /// Whether no other may take the place of the global one.
    pub non_overridable: bool,
}

/// Which invariants to list.
#[derive(Debug, Clone, Default)]
pub struct InvariantQuery {
    /// Those of any of these places; of all when there is none.
    pub targets: Vec<InvariantTarget>,
    /// Only those in whose text this regular expression finds something.
    pub pattern: Option<String>,
}

/// What an action itself says must stay true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionRules {
    /// The action by its whole name.
    pub name: String,
    /// The sentences, with the values of a plan in their places where there is one.
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

/// For what the invariants that hold are asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EffectiveQuery {
    /// A plan.
    pub plan: Option<PlanId>,
    /// Its action.
    pub action: Option<ActionRules>,
    /// Its projects: names, ids, or beginnings of ids.
    pub projects: Vec<String>,
}

/// Keeps invariants. Cheap to clone.
#[derive(Clone)]
pub struct InvariantService {
    engine: Arc<Engine>,
}

/// A place as it is stored.
type Place = (InvariantScope, Option<String>);

/// The place that a person means; what it names must be there.
fn place(reader: &mut dyn Reader, target: &InvariantTarget) -> Result<Place, InvariantError> {
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

/// The plan that a person means: a whole id or the beginning of one.
fn find_plan(reader: &mut dyn Reader, reference: &str) -> Result<PlanSources, InvariantError> {
    let missing = || InvariantError::PlanNotFound(reference.to_owned());
    let prefix = check_prefix(reference).map_err(|_| missing())?;
    let mut found = plans::sources(reader, &prefix, CANDIDATES)?;
    match found.len() {
        0 => Err(missing()),
        1 => Ok(found.remove(0)),
        _ => Err(InvariantError::AmbiguousPlan {
            reference: reference.to_owned(),
            candidates: found.into_iter().map(|found| found.plan).collect(),
        }),
    }
}

/// The invariant that a person means: a whole id or the beginning of one, of those that hold.
fn find(reader: &mut dyn Reader, reference: &str) -> Result<Invariant, InvariantError> {
    let missing = || InvariantError::NotFound(reference.to_owned());
    let id = reference.strip_prefix(PREFIX).unwrap_or(reference);
    let prefix = check_prefix(id).map_err(|_| missing())?;
    let mut found = invariants::with_prefix(reader, &prefix, CANDIDATES)?;
    match found.len() {
        0 => Err(missing()),
        1 => Ok(found.remove(0)),
        _ => Err(InvariantError::Ambiguous {
            reference: reference.to_owned(),
            candidates: found
                .into_iter()
                .map(|found| (found.id, found.text))
                .collect(),
        }),
    }
}

/// A place in words.
fn phrase((scope, source_name): &Place) -> String {
    match source_name {
        None => "everywhere".to_owned(),
        Some(name) => format!("for {scope} `{name}`"),
    }
}

impl InvariantService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Sets an invariant in each of the places, or in none.
    pub fn add(&self, new: NewInvariant) -> Result<Vec<Invariant>, InvariantError> {
        let text = Invariant::checked_text(&new.text)?;
        if new.targets.is_empty() {
            return Err(InvariantError::Nowhere);
        }
        if new.non_overridable && new.targets.iter().any(|to| *to != InvariantTarget::Global) {
            return Err(InvariantError::NotGlobal);
        }
        self.engine.write(move |unit| {
            // No project goes away between the look at it and the row that names it.
            resources::lock(unit)?;
            let mut places: Vec<Place> = Vec::new();
            for target in &new.targets {
                let place = place(unit, target)?;
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
                        place: phrase(&place),
                    });
                }
                let stored = invariants::get(unit, row.id)?;
                added.push(stored.ok_or_else(|| InvariantError::NotFound(row.id.to_string()))?);
            }
            Ok(added)
        })
    }

    /// The invariants that people set and that hold, in the order in which they were set.
    pub fn list(&self, query: &InvariantQuery) -> Result<Vec<Invariant>, InvariantError> {
        let pattern = pattern(query.pattern.as_deref())?;
        let mut found = self.engine.read(|reader| {
            let mut places = Vec::new();
            for target in &query.targets {
                places.push(place(reader, target)?);
            }
            Ok::<_, InvariantError>(invariants::list(reader, &InvariantFilter { places })?)
        })?;
        found.retain(|invariant| fits(pattern.as_ref(), &invariant.text));
        Ok(found)
    }

    /// The invariant that a person means, of those that hold.
    pub fn get(&self, reference: &str) -> Result<Invariant, InvariantError> {
        self.engine.read(|reader| find(reader, reference))
    }

    /// Lets an invariant hold no more. Gives it as it is kept.
    pub fn remove(&self, reference: &str) -> Result<Invariant, InvariantError> {
        let reference = reference.to_owned();
        self.engine.write(move |unit| {
            let found = find(unit, &reference)?;
            let missing = || InvariantError::NotFound(reference.clone());
            if !invariants::remove(unit, &found)? {
                // Somebody else removed it meanwhile.
                return Err(missing());
            }
            invariants::get(unit, found.id)?.ok_or_else(missing)
        })
    }

    /// Which invariants hold for a plan, an action or projects: what people set, what the projects say
    /// and what the action says, reconciled.
    pub fn effective(&self, query: &EffectiveQuery) -> Result<Reconciled, InvariantError> {
        self.engine.read(|reader| Self::effective_in(reader, query))
    }

    /// The same within a unit of work.
    pub(crate) fn effective_in(
        reader: &mut dyn Reader,
        query: &EffectiveQuery,
    ) -> Result<Reconciled, InvariantError> {
        let mut places: Vec<Place> = vec![(InvariantScope::Global, None)];
        let mut all: Vec<SourcedInvariant> = Vec::new();
        let said = |scope, name: &str, text: &String| SourcedInvariant {
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
            all.extend(own.map(|text| said(InvariantScope::Project, &name, text)));
            places.push((InvariantScope::Project, Some(name)));
        }
        if let Some(action) = &query.action {
            let own = action.invariants.iter();
            all.extend(own.map(|text| said(InvariantScope::Action, &action.name, text)));
            places.push((InvariantScope::Action, Some(action.name.clone())));
        }
        if let Some(plan) = query.plan {
            places.push((InvariantScope::Plan, Some(plan.to_string())));
        }
        let set = invariants::list(reader, &InvariantFilter { places })?;
        all.extend(set.into_iter().map(SourcedInvariant::from));
        Ok(reconcile(all))
    }

    /// Leaves only what this regular expression finds something in.
    pub fn narrow(mut all: Reconciled, text: Option<&str>) -> Result<Reconciled, InvariantError> {
        let pattern = pattern(text)?;
        let fits = |invariant: &SourcedInvariant| fits(pattern.as_ref(), &invariant.text);
        all.effective.retain(fits);
        all.conflicts
            .retain(|conflict| fits(&conflict.overridden) || fits(&conflict.by));
        all.unresolved
            .retain(|(left, right)| fits(left) || fits(right));
        Ok(all)
    }

    /// What to ask for the invariants of places as a person names them. A plan brings its action, as it
    /// was when the plan was made and with the plan's values, and those of its projects that are still
    /// there.
    pub fn query(
        &self,
        targets: &[InvariantTarget],
        variables: Variables<'_>,
    ) -> Result<EffectiveQuery, InvariantError> {
        let mut query = EffectiveQuery::default();
        let mut named: Option<String> = None;
        for target in targets {
            match target {
                InvariantTarget::Global => {}
                InvariantTarget::Project(reference) => query.projects.push(reference.clone()),
                InvariantTarget::Action(name) => named = Some(name.clone()),
                InvariantTarget::Plan(reference) => {
                    let (sources, made_with) = self.engine.read(|reader| {
                        let mut sources = find_plan(reader, reference)?;
                        let plan = plans::get(reader, sources.plan)?;
                        let mut there = Vec::new();
                        for name in std::mem::take(&mut sources.projects) {
                            let project = match name.parse() {
                                Ok(parsed) => projects::with_name(reader, &parsed)?,
                                Err(_) => None,
                            };
                            there.extend(project.map(|project| project.name.to_string()));
                        }
                        sources.projects = there;
                        Ok::<_, InvariantError>((sources, plan.map(|plan| plan.made_with)))
                    })?;
                    query.plan = Some(sources.plan);
                    query.projects.extend(sources.projects);
                    query.action = made_with.as_ref().and_then(rules_of);
                }
            }
        }
        if let Some(name) = named {
            let actions = ActionService::new(Arc::clone(&self.engine));
            let found = actions.get(&name, variables)?;
            let action = found.action.map_err(ActionError::from)?;
            query.action = Some(ActionRules::from(&action));
        }
        Ok(query)
    }
}

/// What the action of a plan says, with the plan's values in its places.
fn rules_of(made_with: &MadeWith) -> Option<ActionRules> {
    let action = made_with.action.as_ref()?;
    let values = ActionValues {
        values: made_with.arguments.clone(),
        order: made_with.arguments_order.clone(),
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

fn fits(pattern: Option<&Regex>, text: &str) -> bool {
    pattern.is_none_or(|pattern| pattern.is_match(text))
}
