//! [`ActionService`]: the actions there are.
//!
//! The text of a file is kept as it is, and its variables are replaced whenever it is read: what they
//! hold is never stored. A plan keeps the action as it was read when the plan was made.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{Action, ActionState, Name, nearest};
use cleveragents_store::definitions::{self, DefinitionKind, StoredDefinition};
use cleveragents_store::{Engine, Reader, plans};
use regex::Regex;

use super::error::{ActionError, ActionFileError};
use crate::resource::{Outcome, Register};

const KIND: DefinitionKind = DefinitionKind::Action;

/// An action as it is registered.
#[derive(Debug)]
pub struct RegisteredAction {
    /// What its file says now, with the variables of now.
    pub action: Result<Action, Box<ActionFileError>>,
    /// Its file and its dates.
    pub stored: StoredDefinition,
    /// How many plans were made from it.
    pub plans: u64,
}

impl RegisteredAction {
    /// Whether plans are made from it.
    pub const fn state(&self) -> ActionState {
        match self.stored.archived_at {
            None => ActionState::Available,
            Some(_) => ActionState::Archived,
        }
    }
}

/// An action that was just registered.
#[derive(Debug)]
pub struct AddedAction {
    /// What its file says.
    pub action: Action,
    /// Its file and its dates.
    pub stored: StoredDefinition,
    /// Whether it is new or took the place of another.
    pub outcome: Outcome,
}

/// Which actions to list.
#[derive(Debug, Clone, Default)]
pub struct ActionFilter {
    /// Only those in this state.
    pub state: Option<ActionState>,
    /// Only those in this namespace.
    pub namespace: Option<String>,
    /// Only those whose name this regular expression finds something in.
    pub pattern: Option<String>,
}

/// Keeps actions. Cheap to clone.
#[derive(Clone)]
pub struct ActionService {
    engine: Arc<Engine>,
}

/// A name with its namespace, in lower case.
fn whole_name(name: &str) -> String {
    name.parse::<Name>()
        .map_or_else(|_| name.to_owned(), |name| name.to_string())
}

/// The definition of the action that a person means.
pub(crate) fn find(reader: &mut dyn Reader, name: &str) -> Result<StoredDefinition, ActionError> {
    match definitions::get(reader, KIND, &whole_name(name))? {
        Some(found) => Ok(found),
        None => Err(ActionError::NotFound {
            name: name.to_owned(),
            nearest: nearest::best(
                name,
                definitions::list(reader, KIND)?
                    .iter()
                    .map(|stored| stored.name.as_str()),
            ),
        }),
    }
}

fn read(
    text: &str,
    source: &str,
    variables: Variables<'_>,
) -> Result<Action, Box<ActionFileError>> {
    Action::read(text, variables).map_err(|fault| {
        Box::new(ActionFileError {
            file: source.to_owned(),
            fault,
        })
    })
}

fn registered(
    stored: StoredDefinition,
    plans: &BTreeMap<String, u64>,
    variables: Variables<'_>,
) -> RegisteredAction {
    RegisteredAction {
        action: read(&stored.definition, &stored.source, variables),
        plans: plans.get(&stored.name).copied().unwrap_or_default(),
        stored,
    }
}

impl ActionService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Registers the action that the text of a file describes. The text is kept, so that the file may
    /// go. One that is replaced comes out of the archive.
    pub fn create(
        &self,
        text: &str,
        source: &str,
        register: Register,
        variables: Variables<'_>,
    ) -> Result<AddedAction, ActionError> {
        let action = read(text, source, variables)?;
        let (name, text, source) = (action.name.clone(), text.to_owned(), source.to_owned());
        let (stored, outcome) = self.engine.write(move |unit| {
            let outcome = if definitions::insert(unit, KIND, &name, &text, &source)? {
                Outcome::Created
            } else if register == Register::Update {
                definitions::update(unit, KIND, &name, &text, &source)?;
                definitions::unarchive(unit, KIND, &name)?;
                Outcome::Updated
            } else {
                return Err(ActionError::Exists(name.clone()));
            };
            Ok((find(unit, &name)?, outcome))
        })?;
        Ok(AddedAction {
            action,
            stored,
            outcome,
        })
    }

    /// One action, archived or not.
    pub fn get(
        &self,
        name: &str,
        variables: Variables<'_>,
    ) -> Result<RegisteredAction, ActionError> {
        let (stored, plans) = self.engine.read(|reader| {
            let stored = find(reader, name)?;
            Ok::<_, ActionError>((stored, plans::count_by_action(reader)?))
        })?;
        Ok(registered(stored, &plans, variables))
    }

    /// An action from which a plan can be made now.
    pub fn available(&self, name: &str, variables: Variables<'_>) -> Result<Action, ActionError> {
        let found = self.get(name, variables)?;
        match found.state() {
            ActionState::Available => Ok(found.action?),
            ActionState::Archived => Err(ActionError::Archived(found.stored.name)),
        }
    }

    /// The registered actions by name, those included whose files cannot be read any more. However
    /// many there are, two statements read them.
    pub fn list(
        &self,
        filter: &ActionFilter,
        variables: Variables<'_>,
    ) -> Result<Vec<RegisteredAction>, ActionError> {
        let pattern = filter
            .pattern
            .as_deref()
            .map(|text| Regex::new(text).map_err(|_| ActionError::Pattern(text.to_owned())))
            .transpose()?;
        let (stored, plans) = self.engine.read(|reader| {
            let stored = definitions::list(reader, KIND)?;
            Ok::<_, ActionError>((stored, plans::count_by_action(reader)?))
        })?;
        let namespace = filter.namespace.as_deref().map(str::to_lowercase);
        let is_wanted = |action: &RegisteredAction| {
            let name = action.stored.name.as_str();
            let own = name.parse::<Name>().ok();
            let own = own.as_ref().map(Name::namespace);
            filter.state.is_none_or(|state| state == action.state())
                && namespace
                    .as_deref()
                    .is_none_or(|namespace| own == Some(namespace))
                && pattern
                    .as_ref()
                    .is_none_or(|pattern| pattern.is_match(name))
        };
        Ok(stored
            .into_iter()
            .map(|stored| registered(stored, &plans, variables))
            .filter(is_wanted)
            .collect())
    }

    /// Takes an action out of use. Plans that were made from it are not touched.
    pub fn archive(&self, name: &str) -> Result<StoredDefinition, ActionError> {
        let name = name.to_owned();
        self.engine.write(move |unit| {
            let found = find(unit, &name)?;
            if !definitions::archive(unit, KIND, &found.name)? {
                return Err(ActionError::Archived(found.name));
            }
            find(unit, &found.name)
        })
    }
}
