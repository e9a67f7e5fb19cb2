//! Registered actions, their state, and the number of plans that use them. A plan stores a copy of its action, made
//! when the plan is created.

use std::collections::BTreeMap;
use std::path::Path;

use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{Action, ActionState, DefinitionFileError, DefinitionKind, Name};
use cleveragents_store::definitions::{self, StoredDefinition};
use cleveragents_store::{Reader, UnitOfWork, plans};
use serde_json::Value;

use crate::definition::{
    DefinitionError, DefinitionService, DefinitionText, DefinitionType, RegisteredDefinition,
    find_definition,
};

/// The registered actions.
pub type ActionService = DefinitionService<Action>;

/// A registered action and its usage.
#[derive(Debug)]
pub struct RegisteredAction {
    /// Definition and dates.
    pub registered: RegisteredDefinition<Action>,
    /// Number of plans created from the action.
    pub plans: u64,
}

impl RegisteredAction {
    fn new(registered: RegisteredDefinition<Action>, plans: &BTreeMap<String, u64>) -> Self {
        let own = plans.get(&registered.stored.name);
        Self {
            plans: own.copied().unwrap_or_default(),
            registered,
        }
    }

    /// `Available` if plans can be created from the action.
    pub const fn state(&self) -> ActionState {
        match self.registered.stored.archived_at {
            None => ActionState::Available,
            Some(_) => ActionState::Archived,
        }
    }
}

/// Filter for the list of actions.
#[derive(Debug, Clone, Default)]
pub struct ActionFilter {
    /// Only actions in this state.
    pub state: Option<ActionState>,
    /// Only actions in this namespace.
    pub namespace: Option<String>,
}

impl ActionFilter {
    fn matches(&self, action: &RegisteredAction) -> bool {
        let name = action.registered.stored.name.parse::<Name>().ok();
        let namespace = name.as_ref().map(Name::namespace);
        self.state.is_none_or(|state| state == action.state())
            && self
                .namespace
                .as_deref()
                .is_none_or(|required| namespace == Some(&*required.to_lowercase()))
    }
}

impl DefinitionType for Action {
    const KIND: DefinitionKind = DefinitionKind::Action;
    type Reading<'a> = Variables<'a>;
    type Error = DefinitionError;

    fn read(
        text: DefinitionText<'_>,
        _: &[StoredDefinition],
        variables: Variables<'_>,
    ) -> Result<Self, Box<DefinitionFileError>> {
        Self::read(text.text, variables).map_err(|fault| {
            let error = fault.in_file(Path::new(text.source), Self::KIND, text.text);
            Box::new(error)
        })
    }

    fn schema() -> Value {
        Self::schema()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    /// Replacing an action removes it from the archive.
    fn on_update(&self, unit: &mut UnitOfWork<'_>) -> Result<(), DefinitionError> {
        definitions::unarchive(unit, Self::KIND, &self.name)?;
        Ok(())
    }
}

/// The stored text of the action with this name.
pub(crate) fn find_action(
    reader: &mut dyn Reader,
    name: &str,
) -> Result<StoredDefinition, DefinitionError> {
    find_definition::<Action>(reader, name, &|_| None)
}

impl DefinitionService<Action> {
    /// An action with the number of its plans, archived or not.
    pub fn get(
        &self,
        name: &str,
        variables: Variables<'_>,
    ) -> Result<RegisteredAction, DefinitionError> {
        let registered = self.get_registered(name, variables)?;
        let plans = self.engine().read(plans::count_by_action)?;
        Ok(RegisteredAction::new(registered, &plans))
    }

    /// Returns an action that is not archived, so that a plan can be created from it.
    pub fn available(
        &self,
        name: &str,
        variables: Variables<'_>,
    ) -> Result<Action, DefinitionError> {
        let found = self.get_registered(name, variables)?;
        match found.stored.archived_at {
            None => Ok(found.definition?),
            Some(_) => Err(DefinitionError::Archived(found.stored.name)),
        }
    }

    /// Registered actions sorted by name, including those with invalid files. Reads them with two SQL statements in
    /// total.
    pub fn list(
        &self,
        filter: &ActionFilter,
        variables: Variables<'_>,
    ) -> Result<Vec<RegisteredAction>, DefinitionError> {
        let plans = self.engine().read(plans::count_by_action)?;
        let all = self.list_registered(variables)?.into_iter();
        Ok(all
            .map(|registered| RegisteredAction::new(registered, &plans))
            .filter(|action| filter.matches(action))
            .collect())
    }

    /// Archives an action, so that no more plans are created from it. Existing plans do not change.
    pub fn archive(&self, name: &str) -> Result<StoredDefinition, DefinitionError> {
        let name = name.to_owned();
        self.engine().write(move |unit| {
            let found = find_action(unit, &name)?;
            if !definitions::archive(unit, DefinitionKind::Action, &found.name)? {
                return Err(DefinitionError::Archived(found.name));
            }
            find_action(unit, &found.name)
        })
    }
}
