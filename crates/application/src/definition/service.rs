//! [`DefinitionService`]: registers, lists, finds and removes definitions of a kind.
//!
//! The text of a file is stored unchanged and parsed on every use, so the file may be deleted.
//!
//! Adding and removing use optimistic locking, because the rules depend on all definitions of the kind and on
//! variables, which a unit of work cannot read. The service checks the rules first. The unit of work writes nothing if
//! the definitions have changed since that check; then the service retries.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cleveragents_domain::{DefinitionFileError, nearest};
use cleveragents_store::definitions::{self, StoredDefinition};
use cleveragents_store::{Engine, Reader, UnitOfWork};

use super::{DefinitionError, DefinitionText, DefinitionType};
use crate::resource::{Outcome, Register};

/// Maximum number of similar names in an error.
const NEAREST: usize = 3;

#[derive(Debug, Clone)]
pub struct RegisteredDefinition<T> {
    /// The stored row with the text and the dates.
    pub stored: StoredDefinition,
    /// The definition as parsed with the current variables and other definitions.
    pub definition: Result<T, Box<DefinitionFileError>>,
}

/// A definition that was just registered.
#[derive(Debug, Clone)]
pub struct AddedDefinition<T> {
    /// The parsed definition.
    pub definition: T,
    /// The stored row with the text and the dates.
    pub stored: StoredDefinition,
    /// Whether the definition is new or replaced another one.
    pub outcome: Outcome,
}

/// The registered definitions of a kind. Cheap to clone.
pub struct DefinitionService<T> {
    engine: Arc<Engine>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for DefinitionService<T> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.engine))
    }
}

impl<T> fmt::Debug for DefinitionService<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DefinitionService")
    }
}

impl<T> DefinitionService<T> {
    /// A service for a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            kind: PhantomData,
        }
    }

    pub(crate) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl<T: DefinitionType> DefinitionService<T> {
    /// The texts of all registered definitions, by name.
    pub fn stored(&self) -> Result<Vec<StoredDefinition>, T::Error> {
        Ok(self
            .engine
            .read(|reader| definitions::list(reader, T::KIND))?)
    }

    /// The text of a registered definition.
    pub fn find_stored(
        &self,
        name: &str,
        reading: T::Reading<'_>,
    ) -> Result<StoredDefinition, T::Error> {
        self.engine
            .read(|reader| find_definition::<T>(reader, name, reading))
    }

    /// The registered definitions by name, including those with invalid texts.
    pub fn list_registered(
        &self,
        reading: T::Reading<'_>,
    ) -> Result<Vec<RegisteredDefinition<T>>, T::Error> {
        let all = self.stored()?;
        let read = T::read_all(&all, reading);
        let registered = all.into_iter().zip(read);
        Ok(registered
            .map(|(stored, definition)| RegisteredDefinition { stored, definition })
            .collect())
    }

    /// A registered definition, even if its text is invalid.
    pub fn get_registered(
        &self,
        name: &str,
        reading: T::Reading<'_>,
    ) -> Result<RegisteredDefinition<T>, T::Error> {
        let (stored, all) = self.engine.read(|reader| {
            let stored = find_definition::<T>(reader, name, reading)?;
            Ok::<_, T::Error>((stored, definitions::list(reader, T::KIND)?))
        })?;
        Ok(RegisteredDefinition {
            definition: T::read((&stored).into(), &all, reading),
            stored,
        })
    }

    /// Registers the definition that a text describes. `source` should be an absolute path if the definition refers to
    /// files next to it.
    pub fn add(
        &self,
        text: &str,
        source: &str,
        register: Register,
        reading: T::Reading<'_>,
    ) -> Result<AddedDefinition<T>, T::Error> {
        let given = DefinitionText { text, source };
        loop {
            let before = self.stored()?;
            let definition = T::read(given, &before, reading)?;
            definition.check_new(given, &before, reading)?;
            let new = NewDefinition {
                definition: definition.clone(),
                name: definition.name(),
                text: text.to_owned(),
                source: source.to_owned(),
            };
            let written = self.engine.write(move |unit| {
                definitions::lock(unit)?;
                if definitions::list(unit, T::KIND)? != before {
                    return Ok::<_, T::Error>(None);
                }
                new.write(unit, register).map(Some)
            })?;
            if let Some((stored, outcome)) = written {
                return Ok(AddedDefinition {
                    definition,
                    stored,
                    outcome,
                });
            }
        }
    }

    /// Registers definitions that were already checked, atomically.
    pub(crate) fn add_all(
        &self,
        all: Vec<NewDefinition<T>>,
        register: Register,
    ) -> Result<Vec<AddedDefinition<T>>, T::Error> {
        self.engine.write(move |unit| {
            let written = all.iter().map(|new| {
                let (stored, outcome) = new.write(unit, register)?;
                Ok(AddedDefinition {
                    definition: new.definition.clone(),
                    stored,
                    outcome,
                })
            });
            written.collect()
        })
    }

    /// Removes a registered definition that nothing uses, even if its text is invalid.
    pub fn remove(
        &self,
        name: &str,
        reading: T::Reading<'_>,
    ) -> Result<StoredDefinition, T::Error> {
        loop {
            let found = self.find_stored(name, reading)?;
            let before = self.stored()?;
            T::check_referrers(&found, &before, reading)?;
            let removed = found.clone();
            let is_removed = self.engine.write(move |unit| {
                definitions::lock(unit)?;
                if definitions::list(unit, T::KIND)? != before {
                    return Ok::<_, T::Error>(false);
                }
                T::check_unused(unit, &found, &before)?;
                let is_removed = definitions::remove(unit, T::KIND, &found.name)?;
                if is_removed {
                    T::on_remove(unit, &found)?;
                }
                Ok(is_removed)
            })?;
            if is_removed {
                return Ok(removed);
            }
        }
    }
}

/// A parsed and checked definition that is not stored yet.
pub(crate) struct NewDefinition<T> {
    pub(crate) definition: T,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) source: String,
}

impl<T: DefinitionType> NewDefinition<T> {
    fn write(
        &self,
        unit: &mut UnitOfWork<'_>,
        register: Register,
    ) -> Result<(StoredDefinition, Outcome), T::Error> {
        let name = self.name.as_str();
        let outcome = if definitions::insert(unit, T::KIND, name, &self.text, &self.source)? {
            self.definition.on_insert(unit)?;
            Outcome::Created
        } else if register == Register::Update
            && definitions::update(unit, T::KIND, name, &self.text, &self.source)?
        {
            self.definition.on_update(unit)?;
            Outcome::Updated
        } else {
            T::check_name_free(unit, name)?;
            return Err(DefinitionError::Exists {
                kind: T::KIND,
                name: name.to_owned(),
            }
            .into());
        };
        let stored = definitions::get(unit, T::KIND, name)?;
        let stored = stored.ok_or_else(|| DefinitionError::not_found::<T>(name, Vec::new()))?;
        Ok((stored, outcome))
    }
}

/// Returns the registered definition with this name. An unknown name is an error that lists similar names.
pub(crate) fn find_definition<T: DefinitionType>(
    reader: &mut dyn Reader,
    name: &str,
    reading: T::Reading<'_>,
) -> Result<StoredDefinition, T::Error> {
    let complete = T::complete_name(name);
    if let Some(found) = definitions::get(reader, T::KIND, &complete)? {
        return Ok(found);
    }
    if let Some(error) = T::explain_missing(reader, name, reading)? {
        return Err(error);
    }
    let mut known = T::built_in_names(reading);
    let stored = definitions::list(reader, T::KIND)?;
    known.extend(stored.into_iter().map(|stored| stored.name));
    let nearest = nearest::all(name, known.iter().map(String::as_str), NEAREST);
    Err(DefinitionError::not_found::<T>(name, nearest).into())
}
