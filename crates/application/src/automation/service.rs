//! [`AutomationService`]: the automation profiles there are.

use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::yaml::{self, Variables};
use cleveragents_domain::{AutomationProfile, Name, nearest};
use cleveragents_store::definitions::{self, DefinitionKind, StoredDefinition};
use cleveragents_store::{Engine, Reader, projects};
use cleveragents_tools::FileError;
use serde_json::Value;

use super::error::AutomationError;
use super::file;
use crate::resource::{Outcome, Register};

const KIND: DefinitionKind = DefinitionKind::AutomationProfile;

/// A profile of a user's as it is registered.
#[derive(Debug)]
pub struct RegisteredProfile {
    /// Its file and its dates.
    pub stored: StoredDefinition,
    /// What the file says now, with the variables and the other profiles of now.
    pub profile: Result<AutomationProfile, Box<FileError>>,
}

/// A profile that was just registered.
#[derive(Debug)]
pub struct AddedProfile {
    /// What its file says.
    pub profile: AutomationProfile,
    /// Its file and its dates.
    pub stored: StoredDefinition,
    /// Whether it is new or took the place of another.
    pub outcome: Outcome,
}

/// Keeps automation profiles.
#[derive(Clone)]
pub struct AutomationService {
    engine: Arc<Engine>,
}

/// The whole name of a profile: one of the program's is a word, others are in a namespace.
pub(super) fn whole_name(name: &str) -> String {
    let plain = name.trim().to_lowercase();
    if AutomationProfile::find_built_in(&plain).is_some() {
        return plain;
    }
    plain
        .parse::<Name>()
        .map_or_else(|_| name.to_owned(), |name| name.to_string())
}

fn not_found(name: &str, stored: &[StoredDefinition]) -> AutomationError {
    let mut known: Vec<&str> = AutomationProfile::built_in_names().collect();
    known.extend(stored.iter().map(|stored| stored.name.as_str()));
    AutomationError::NotFound {
        name: name.to_owned(),
        nearest: nearest::best(name, known.into_iter()),
    }
}

/// The whole name of the profile that is meant. One that is not there is refused, never replaced.
pub(crate) fn require(reader: &mut dyn Reader, name: &str) -> Result<String, AutomationError> {
    let whole = whole_name(name);
    if AutomationProfile::find_built_in(&whole).is_some()
        || definitions::get(reader, KIND, &whole)?.is_some()
    {
        return Ok(whole);
    }
    Err(not_found(name, &definitions::list(reader, KIND)?))
}

/// Profiles as they are stored, which may build on each other.
struct Shelf<'s> {
    stored: &'s [StoredDefinition],
    variables: Variables<'s>,
}

impl Shelf<'_> {
    fn read(&self, stored: &StoredDefinition) -> Result<AutomationProfile, Box<FileError>> {
        self.read_text(&stored.definition, &stored.source, &mut Vec::new())
    }

    /// Reads a profile; `above` are the names of those that build on it.
    fn read_text(
        &self,
        text: &str,
        source: &str,
        above: &mut Vec<String>,
    ) -> Result<AutomationProfile, Box<FileError>> {
        let mut find = |name: &str| self.base(name, above);
        file::read(text, Path::new(source), self.variables, &mut find).map_err(Box::new)
    }

    fn base(&self, name: &str, above: &mut Vec<String>) -> Result<AutomationProfile, String> {
        let whole = whole_name(name);
        if let Some(profile) = AutomationProfile::find_built_in(&whole) {
            return Ok(profile);
        }
        let Some(stored) = self.stored.iter().find(|stored| stored.name == whole) else {
            return Err(format!("there is no automation profile named `{name}`"));
        };
        if above.contains(&whole) {
            return Err(format!("`{whole}` builds on itself by way of others"));
        }
        above.push(whole);
        let read = self.read_text(&stored.definition, &stored.source, above);
        above.pop();
        read.map_err(|error| format!("`{name}` cannot be read: {}", error.message))
    }
}

/// What came of an attempt to write.
enum Written {
    /// Somebody changed the profiles since they were read.
    Overtaken,
    Exists,
    Stored(Box<StoredDefinition>, Outcome),
}

impl AutomationService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    fn stored(&self) -> Result<Vec<StoredDefinition>, AutomationError> {
        Ok(self.engine.read(|reader| definitions::list(reader, KIND))?)
    }

    /// The registered profiles, those included whose files cannot be read any more. Those of the
    /// program are [`AutomationProfile::built_in`].
    pub fn list(
        &self,
        variables: Variables<'_>,
    ) -> Result<Vec<RegisteredProfile>, AutomationError> {
        let stored = self.stored()?;
        let known = Shelf {
            stored: &stored,
            variables,
        };
        let read = stored.iter().map(|one| RegisteredProfile {
            profile: known.read(one),
            stored: one.clone(),
        });
        Ok(read.collect())
    }

    /// A profile by its name. One that is not there is refused, never replaced by another.
    pub fn get(
        &self,
        name: &str,
        variables: Variables<'_>,
    ) -> Result<AutomationProfile, AutomationError> {
        let whole = whole_name(name);
        if let Some(profile) = AutomationProfile::find_built_in(&whole) {
            return Ok(profile);
        }
        let stored = self.stored()?;
        let known = Shelf {
            stored: &stored,
            variables,
        };
        match stored.iter().find(|stored| stored.name == whole) {
            Some(found) => Ok(known.read(found)?),
            None => Err(not_found(name, &stored)),
        }
    }

    /// The file of a registered profile; one of the program has none.
    pub fn file(&self, name: &str) -> Result<Option<StoredDefinition>, AutomationError> {
        let whole = whole_name(name);
        if AutomationProfile::find_built_in(&whole).is_some() {
            return Ok(None);
        }
        let mut stored = self.stored()?;
        match stored.iter().position(|stored| stored.name == whole) {
            Some(place) => Ok(Some(stored.swap_remove(place))),
            None => Err(not_found(name, &stored)),
        }
    }

    /// Registers the profile that the text of a file describes. The text is kept, so that the file
    /// may go.
    pub fn add(
        &self,
        text: &str,
        source: &str,
        register: Register,
        variables: Variables<'_>,
    ) -> Result<AddedProfile, AutomationError> {
        // Variables cannot be asked in the unit of work: what was read is compared there with what is.
        loop {
            let before = self.stored()?;
            let known = Shelf {
                stored: &before,
                variables,
            };
            let profile = known.read_text(text, source, &mut Vec::new())?;
            let base = file::base_of(text).map(|base| known.base(&base, &mut Vec::new()));
            if let Some(Ok(base)) = base {
                file::check_idle_gates(text, Path::new(source), &profile, &base)
                    .map_err(Box::new)?;
            }
            check_dependants(&before, &profile.name, text, source, variables)?;
            let (name, definition, place) =
                (profile.name.clone(), text.to_owned(), source.to_owned());
            let written = self.engine.write(move |unit| {
                definitions::lock(unit)?;
                if definitions::list(unit, KIND)? != before {
                    return Ok::<_, cleveragents_store::Error>(Written::Overtaken);
                }
                let outcome = if definitions::insert(unit, KIND, &name, &definition, &place)? {
                    Outcome::Created
                } else if register == Register::Update {
                    definitions::update(unit, KIND, &name, &definition, &place)?;
                    Outcome::Updated
                } else {
                    return Ok(Written::Exists);
                };
                Ok(match definitions::get(unit, KIND, &name)? {
                    Some(stored) => Written::Stored(Box::new(stored), outcome),
                    None => Written::Overtaken,
                })
            })?;
            match written {
                Written::Overtaken => {}
                Written::Exists => return Err(AutomationError::Exists(profile.name)),
                Written::Stored(stored, outcome) => {
                    return Ok(AddedProfile {
                        profile,
                        stored: *stored,
                        outcome,
                    });
                }
            }
        }
    }

    /// Removes a registered profile that nothing uses: no project, no action, no other profile.
    pub fn remove(&self, name: &str) -> Result<StoredDefinition, AutomationError> {
        let (whole, given) = (whole_name(name), name.to_owned());
        if AutomationProfile::find_built_in(&whole).is_some() {
            return Err(AutomationError::BuiltIn(whole));
        }
        self.engine.write(move |unit| {
            definitions::lock(unit)?;
            let stored = definitions::list(unit, KIND)?;
            let Some(found) = stored.iter().find(|stored| stored.name == whole) else {
                return Err(not_found(&given, &stored));
            };
            if let Some(by) = user_of(unit, &whole, &stored)? {
                return Err(AutomationError::InUse {
                    name: whole.clone(),
                    by,
                });
            }
            definitions::remove(unit, KIND, &whole)?;
            Ok(found.clone())
        })
    }
}

/// Refuses a new text of a profile with which those that build on it cannot be any more.
fn check_dependants(
    before: &[StoredDefinition],
    name: &str,
    text: &str,
    source: &str,
    variables: Variables<'_>,
) -> Result<(), AutomationError> {
    let mut after = before.to_vec();
    let Some(own) = after.iter_mut().find(|stored| stored.name == name) else {
        return Ok(());
    };
    text.clone_into(&mut own.definition);
    source.clone_into(&mut own.source);
    let (old, new) = (
        Shelf {
            stored: before,
            variables,
        },
        Shelf {
            stored: &after,
            variables,
        },
    );
    for (was, will_be) in before.iter().zip(&after) {
        // One that is broken already is not the doing of this change.
        if old.read(was).is_ok() {
            new.read(will_be)?;
        }
    }
    Ok(())
}

/// What uses a profile, in words.
fn user_of(
    reader: &mut dyn Reader,
    name: &str,
    stored: &[StoredDefinition],
) -> Result<Option<String>, AutomationError> {
    let is_it = |other: &str| whole_name(other) == name;
    for project in projects::list(reader)? {
        if project
            .rules
            .automation_profile
            .as_deref()
            .is_some_and(is_it)
        {
            return Ok(Some(format!("the project `{}`", project.name)));
        }
    }
    for action in definitions::list(reader, DefinitionKind::Action)? {
        if profile_of_action(&action.definition).is_some_and(|profile| is_it(&profile)) {
            return Ok(Some(format!("the action `{}`", action.name)));
        }
    }
    let builds_on_it = |other: &&StoredDefinition| {
        other.name != name && file::base_of(&other.definition).is_some_and(|base| is_it(&base))
    };
    Ok(stored
        .iter()
        .find(builds_on_it)
        .map(|other| format!("the automation profile `{}`", other.name)))
}

/// The profile that the text of an action names, in its wrapper or without one.
fn profile_of_action(text: &str) -> Option<String> {
    let top: Value = yaml::read(text).ok()?;
    let fields = top.get("action").unwrap_or(&top);
    fields
        .get("automation_profile")?
        .as_str()
        .map(str::to_owned)
}
