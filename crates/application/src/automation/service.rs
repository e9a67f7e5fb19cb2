//! Registered automation profiles. Profiles may extend each other and the built-in ones.

use std::path::Path;

use cleveragents_domain::yaml::{self, Variables};
use cleveragents_domain::{AutomationProfile, DefinitionFileError, DefinitionKind, Name};
use cleveragents_store::definitions::{self, StoredDefinition};
use cleveragents_store::{Reader, projects};
use serde_json::Value;

use super::file;
use crate::definition::{
    DefinitionError, DefinitionService, DefinitionText, DefinitionType, find_definition,
};

/// The registered automation profiles. The built-in ones are in [`AutomationProfile::built_in`].
pub type AutomationService = DefinitionService<AutomationProfile>;

impl DefinitionType for AutomationProfile {
    const KIND: DefinitionKind = DefinitionKind::AutomationProfile;
    type Reading<'a> = Variables<'a>;
    type Error = DefinitionError;

    fn read(
        text: DefinitionText<'_>,
        registered: &[StoredDefinition],
        variables: Variables<'_>,
    ) -> Result<Self, Box<DefinitionFileError>> {
        let profiles = Profiles {
            registered,
            variables,
        };
        profiles.read(text, &mut Vec::new())
    }

    fn schema() -> Value {
        file::schema()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    /// Completes a name with its namespace. Names of built-in profiles have no namespace and stay
    /// as they are.
    fn complete_name(name: &str) -> String {
        let plain = name.trim().to_lowercase();
        if Self::find_built_in(&plain).is_some() {
            return plain;
        }
        plain
            .parse::<Name>()
            .map_or_else(|_| name.to_owned(), |name| name.to_string())
    }

    fn built_in_names(_: Variables<'_>) -> Vec<String> {
        Self::built_in_names().map(str::to_owned).collect()
    }

    fn explain_missing(
        _: &mut dyn Reader,
        name: &str,
        _: Variables<'_>,
    ) -> Result<Option<DefinitionError>, DefinitionError> {
        let built_in = Self::find_built_in(&Self::complete_name(name));
        Ok(built_in.map(|profile| DefinitionError::BuiltIn {
            kind: Self::KIND,
            name: profile.name,
        }))
    }

    fn check_new(
        &self,
        text: DefinitionText<'_>,
        registered: &[StoredDefinition],
        variables: Variables<'_>,
    ) -> Result<(), DefinitionError> {
        let profiles = Profiles {
            registered,
            variables,
        };
        let base = file::base_of(text.text).map(|base| profiles.base(&base, &mut Vec::new()));
        if let Some(Ok(base)) = base {
            file::check_idle_gates(text.text, Path::new(text.source), self, &base)
                .map_err(Box::new)?;
        }
        check_dependants(&self.name, text, registered, variables)
    }

    fn check_unused(
        reader: &mut dyn Reader,
        found: &StoredDefinition,
        registered: &[StoredDefinition],
    ) -> Result<(), DefinitionError> {
        match user_of(reader, &found.name, registered)? {
            None => Ok(()),
            Some(by) => Err(DefinitionError::InUse {
                kind: Self::KIND,
                name: found.name.clone(),
                by: vec![by],
            }),
        }
    }
}

/// Returns the complete name of an existing profile; an unknown name is an error.
pub(crate) fn require(reader: &mut dyn Reader, name: &str) -> Result<String, DefinitionError> {
    match find_definition::<AutomationProfile>(reader, name, &|_| None) {
        Err(DefinitionError::BuiltIn { name, .. }) => Ok(name),
        found => Ok(found?.name),
    }
}

impl DefinitionService<AutomationProfile> {
    /// A built-in or registered profile, by its name.
    pub fn get(
        &self,
        name: &str,
        variables: Variables<'_>,
    ) -> Result<AutomationProfile, DefinitionError> {
        match AutomationProfile::find_built_in(&AutomationProfile::complete_name(name)) {
            Some(profile) => Ok(profile),
            None => Ok(self.get_registered(name, variables)?.definition?),
        }
    }

    /// The text of a registered profile; `None` for a built-in one.
    pub fn file(&self, name: &str) -> Result<Option<StoredDefinition>, DefinitionError> {
        match self.find_stored(name, &|_| None) {
            Err(DefinitionError::BuiltIn { .. }) => Ok(None),
            found => found.map(Some),
        }
    }
}

/// Stored profiles, which may extend each other.
struct Profiles<'s> {
    registered: &'s [StoredDefinition],
    variables: Variables<'s>,
}

impl Profiles<'_> {
    /// Parses a profile; `extended_by` contains the names of the profiles that extend it.
    fn read(
        &self,
        text: DefinitionText<'_>,
        extended_by: &mut Vec<String>,
    ) -> Result<AutomationProfile, Box<DefinitionFileError>> {
        let mut find = |name: &str| self.base(name, extended_by);
        file::read(text.text, Path::new(text.source), self.variables, &mut find).map_err(Box::new)
    }

    fn base(&self, name: &str, extended_by: &mut Vec<String>) -> Result<AutomationProfile, String> {
        let complete = AutomationProfile::complete_name(name);
        if let Some(profile) = AutomationProfile::find_built_in(&complete) {
            return Ok(profile);
        }
        let mut registered = self.registered.iter();
        let Some(stored) = registered.find(|stored| stored.name == complete) else {
            return Err(format!("there is no automation profile named `{name}`"));
        };
        if extended_by.contains(&complete) {
            return Err(format!(
                "`{complete}` extends itself through other profiles"
            ));
        }
        extended_by.push(complete);
        let read = self.read(stored.into(), extended_by);
        extended_by.pop();
        read.map_err(|error| format!("`{name}` cannot be read: {}", error.message))
    }
}

/// Refuses a new text of a profile if profiles that extend it would become invalid.
fn check_dependants(
    name: &str,
    text: DefinitionText<'_>,
    before: &[StoredDefinition],
    variables: Variables<'_>,
) -> Result<(), DefinitionError> {
    let mut after = before.to_vec();
    let Some(own) = after.iter_mut().find(|stored| stored.name == name) else {
        return Ok(());
    };
    text.text.clone_into(&mut own.definition);
    text.source.clone_into(&mut own.source);
    let read = |stored: &StoredDefinition, registered: &[StoredDefinition]| {
        <AutomationProfile as DefinitionType>::read(stored.into(), registered, variables)
    };
    for (old, new) in before.iter().zip(&after) {
        // A profile that is already invalid is not broken by this change.
        if read(old, before).is_ok() {
            read(new, &after)?;
        }
    }
    Ok(())
}

/// Describes an object that uses the profile; `None` if none uses it.
fn user_of(
    reader: &mut dyn Reader,
    name: &str,
    stored: &[StoredDefinition],
) -> Result<Option<String>, DefinitionError> {
    let is_profile = |other: &str| AutomationProfile::complete_name(other) == name;
    for project in projects::list(reader)? {
        if project
            .rules
            .automation_profile
            .as_deref()
            .is_some_and(is_profile)
        {
            return Ok(Some(format!("the project `{}`", project.name)));
        }
    }
    for action in definitions::list(reader, DefinitionKind::Action)? {
        if profile_of_action(&action.definition).is_some_and(|profile| is_profile(&profile)) {
            return Ok(Some(format!("the action `{}`", action.name)));
        }
    }
    let extends_profile = |other: &&StoredDefinition| {
        other.name != name && file::base_of(&other.definition).is_some_and(|base| is_profile(&base))
    };
    Ok(stored
        .iter()
        .find(extends_profile)
        .map(|other| format!("the automation profile `{}`", other.name)))
}

/// Profile that the text of an action names, at the top level or within `action`.
fn profile_of_action(text: &str) -> Option<String> {
    let top: Value = yaml::read(text).ok()?;
    let fields = top.get("action").unwrap_or(&top);
    fields
        .get("automation_profile")?
        .as_str()
        .map(str::to_owned)
}
