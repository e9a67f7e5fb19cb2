//! Definitions that users write in files and register: one trait for the kinds, one service, one error, one set of
//! requests.
//!
//! A kind ([`DefinitionType`]) defines how its texts are parsed and which rules apply to it. [`DefinitionService`]
//! registers, lists, finds and removes definitions of any kind. Features of a single kind are in the module of that
//! kind.

mod error;
mod requests;
mod service;

pub use error::DefinitionError;
pub(crate) use requests::{
    add_request, named_by_configuration, remove_confirmed, remove_request, show_request,
};
pub use service::{AddedDefinition, DefinitionService, RegisteredDefinition};
pub(crate) use service::{NewDefinition, find_definition};

use std::sync::Arc;

use cleveragents_actors::Actor;
use cleveragents_domain::{
    Action, AutomationProfile, DefinitionFileError, DefinitionKind, Name, PoolDefinition,
};
use cleveragents_mcp::ServerDefinition;
use cleveragents_store::definitions::StoredDefinition;
use cleveragents_store::{Reader, UnitOfWork};
use cleveragents_tools::{Safety, ToolSpec};
use serde_json::Value;

use crate::validation::Validation;

/// The JSON schema of the files of a kind.
pub fn definition_schema(kind: DefinitionKind) -> Value {
    match kind {
        DefinitionKind::Action => <Action as DefinitionType>::schema(),
        DefinitionKind::Actor => Arc::<Actor>::schema(),
        DefinitionKind::AutomationProfile => AutomationProfile::schema(),
        DefinitionKind::McpServer => ServerDefinition::schema(),
        DefinitionKind::Pool => <PoolDefinition as DefinitionType>::schema(),
        DefinitionKind::SafetyProfile => Safety::schema(),
        DefinitionKind::Skill => cleveragents_skills::Definition::schema(),
        DefinitionKind::Tool => ToolSpec::schema(),
        DefinitionKind::Validation => Validation::schema(),
    }
}

/// The text of a definition, and its source.
#[derive(Debug, Clone, Copy)]
pub struct DefinitionText<'a> {
    /// Content of the file; variables are replaced whenever it is parsed.
    pub text: &'a str,
    /// The file, or the sender of the text.
    pub source: &'a str,
}

impl<'a> From<&'a StoredDefinition> for DefinitionText<'a> {
    fn from(stored: &'a StoredDefinition) -> Self {
        Self {
            text: &stored.definition,
            source: &stored.source,
        }
    }
}

/// A kind of definitions, implemented by the type that its texts describe.
pub trait DefinitionType: Clone + Send + Sized + 'static {
    /// Kind of the definitions.
    const KIND: DefinitionKind;

    /// Inputs for parsing in addition to the text, such as the values of variables.
    type Reading<'a>: Copy;

    /// Failure of an operation on definitions of this kind.
    type Error: From<DefinitionError>
        + From<Box<DefinitionFileError>>
        + From<cleveragents_store::Error>
        + Send
        + 'static;

    /// Parses a text. `registered` are the definitions of this kind, to which the text may refer.
    fn read(
        text: DefinitionText<'_>,
        registered: &[StoredDefinition],
        reading: Self::Reading<'_>,
    ) -> Result<Self, Box<DefinitionFileError>>;

    /// Parses the texts of all registered definitions.
    fn read_all(
        registered: &[StoredDefinition],
        reading: Self::Reading<'_>,
    ) -> Vec<Result<Self, Box<DefinitionFileError>>> {
        let all = registered.iter();
        all.map(|stored| Self::read(stored.into(), registered, reading))
            .collect()
    }

    /// The JSON schema of files of this kind, for editors.
    fn schema() -> Value;

    /// The complete name.
    fn name(&self) -> String;

    /// A name with its namespace, in lower case; an invalid name is returned unchanged.
    fn complete_name(name: &str) -> String {
        name.parse::<Name>()
            .map_or_else(|_| name.to_owned(), |name| name.to_string())
    }

    /// Known names that are not registered, for suggesting similar names.
    fn built_in_names(_: Self::Reading<'_>) -> Vec<String> {
        Vec::new()
    }

    /// A more specific error for a name that is not registered, if one exists.
    fn explain_missing(
        _: &mut dyn Reader,
        _: &str,
        _: Self::Reading<'_>,
    ) -> Result<Option<Self::Error>, Self::Error> {
        Ok(None)
    }

    /// Refuses a definition that conflicts with the registered ones.
    fn check_new(
        &self,
        _: DefinitionText<'_>,
        _: &[StoredDefinition],
        _: Self::Reading<'_>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Runs in the unit of work that registered a new definition; an error rolls the unit of work back.
    fn on_insert(&self, _: &mut UnitOfWork<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Runs in the unit of work that removed a definition; an error rolls the unit of work back.
    fn on_remove(_: &mut UnitOfWork<'_>, _: &StoredDefinition) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Runs in the unit of work that replaced an older definition; an error rolls the unit of work back.
    fn on_update(&self, _: &mut UnitOfWork<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Fails if a definition of another kind has the name.
    fn check_name_free(_: &mut dyn Reader, _: &str) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Refuses the removal of a definition that others refer to.
    fn check_referrers(
        _: &StoredDefinition,
        _: &[StoredDefinition],
        _: Self::Reading<'_>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Runs in the unit of work that removes a definition, and refuses one that is in use.
    fn check_unused(
        _: &mut dyn Reader,
        _: &StoredDefinition,
        _: &[StoredDefinition],
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}
