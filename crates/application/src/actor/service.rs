//! [`ActorService`]: the actors there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_actors::Actor;
use cleveragents_domain::MicroUsd;
use cleveragents_domain::identity::Namespaces;
use cleveragents_store::definitions::{self, DefinitionKind, StoredDefinition};
use cleveragents_store::{Engine, plans, resources, runs};
use sha2::{Digest as _, Sha256};

use super::error::ActorError;
use super::shelf::{ActorText, Bundle, IsModel, Shelf, Supplies, of_model, whole_name};
use crate::resource::{Outcome, Register};

/// What actors are compiled with.
#[derive(Clone, Copy)]
pub struct ActorWorld<'a> {
    /// Tools, skills and servers.
    pub supplies: &'a Supplies,
    /// Which names are those of models.
    pub is_model: IsModel<'a>,
    /// Values that files ask for.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
}

/// An actor as it is registered.
#[derive(Debug)]
pub struct RegisteredActor {
    /// Its file and its dates.
    pub stored: StoredDefinition,
    /// What the file says now, with the variables and the other actors of now.
    pub actor: Result<Arc<Actor>, ActorError>,
}

/// An actor that can run.
#[derive(Debug)]
pub struct FoundActor {
    /// The actor.
    pub actor: Arc<Actor>,
    /// Its file and its dates; nothing when it comes with the models.
    pub stored: Option<StoredDefinition>,
    /// Its file and those of all that it refers to.
    pub bundle: Bundle,
    /// The hash of its file.
    pub hash: String,
}

/// An actor that was just registered.
#[derive(Debug)]
pub struct AddedActor {
    /// What its file says.
    pub actor: Arc<Actor>,
    /// Its file and its dates.
    pub stored: StoredDefinition,
    /// The hash of its file.
    pub hash: String,
    /// Whether it is new or took the place of another.
    pub outcome: Outcome,
}

/// Keeps actors.
#[derive(Clone)]
pub struct ActorService {
    engine: Arc<Engine>,
}

impl ActorService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The registered actors as their files were.
    pub fn stored(&self) -> Result<Vec<StoredDefinition>, ActorError> {
        Ok(self
            .engine
            .read(|reader| definitions::list(reader, DefinitionKind::Actor))?)
    }

    /// The registered actors, those included whose files cannot be read any more.
    pub fn registered(&self, world: ActorWorld<'_>) -> Result<Vec<RegisteredActor>, ActorError> {
        let stored = self.stored()?;
        let known = shelf(&stored, world);
        Ok(stored
            .into_iter()
            .map(|stored| RegisteredActor {
                actor: known
                    .compile(&stored.definition, &stored.source)
                    .map_err(ActorError::from),
                stored,
            })
            .collect())
    }

    /// An actor by its name, ready to run.
    pub fn find(&self, name: &str, world: ActorWorld<'_>) -> Result<FoundActor, ActorError> {
        let stored = self.stored()?;
        let known = shelf(&stored, world);
        let whole = whole_name(name);
        let own = stored.iter().find(|stored| stored.name == whole);
        let is_built_in = world.supplies.built_in.contains_key(&whole);
        let key = if own.is_some() || is_built_in {
            &whole
        } else {
            name
        };
        let Some(actor) = known.get(key)? else {
            return Err(ActorError::NotFound {
                name: name.to_owned(),
                nearest: known.nearest(name),
            });
        };
        Ok(FoundActor {
            bundle: known.bundle(&actor.name, None),
            hash: own.map_or_else(|| hash(name), |stored| hash(&stored.definition)),
            stored: own.cloned(),
            actor,
        })
    }

    /// The actor of a file that is not registered.
    pub fn compile(
        &self,
        text: &str,
        source: &str,
        world: ActorWorld<'_>,
    ) -> Result<FoundActor, ActorError> {
        let stored = self.stored()?;
        let known = shelf(&stored, world);
        let actor = known.compile(text, source)?;
        let own = ActorText {
            text: text.to_owned(),
            source: source.to_owned(),
        };
        Ok(FoundActor {
            bundle: known.bundle(&actor.name, Some(own)),
            hash: hash(text),
            stored: None,
            actor,
        })
    }

    /// The actor of a run, from the files that the run began with.
    pub fn from_bundle(
        &self,
        bundle: &Bundle,
        world: ActorWorld<'_>,
    ) -> Result<Arc<Actor>, ActorError> {
        let Some(own) = bundle.files.get(&bundle.actor) else {
            return Ok(Arc::new(of_model(&bundle.actor)));
        };
        let known = Shelf::new(
            bundle.files.clone(),
            world.supplies,
            world.is_model,
            world.variables,
        );
        Ok(known.compile(&own.text, &own.source)?)
    }

    /// Registers the actor that the text of a file describes. The text is kept, so that the file may go.
    pub fn add(
        &self,
        text: &str,
        source: &str,
        register: Register,
        world: ActorWorld<'_>,
    ) -> Result<AddedActor, ActorError> {
        // The closure may run on another thread, where neither variables nor models can be asked: it is
        // read here, and there compared with what was read.
        loop {
            let before = self.stored()?;
            let known = shelf(&before, world);
            let actor = known.compile(text, source)?;
            let own = ActorText {
                text: text.to_owned(),
                source: source.to_owned(),
            };
            Self::check_dependants(&before, &actor.name, &own, world)?;
            let (name, definition, place) =
                (actor.name.clone(), text.to_owned(), source.to_owned());
            let written = self.engine.write(move |unit| {
                resources::lock(unit)?;
                if definitions::list(unit, DefinitionKind::Actor)? != before {
                    return Ok::<_, cleveragents_store::Error>(Written::Overtaken);
                }
                let kind = DefinitionKind::Actor;
                let outcome = if definitions::insert(unit, kind, &name, &definition, &place)? {
                    Outcome::Created
                } else if register == Register::Update {
                    definitions::update(unit, kind, &name, &definition, &place)?;
                    Outcome::Updated
                } else {
                    return Ok(Written::Exists);
                };
                Ok(match definitions::get(unit, kind, &name)? {
                    Some(stored) => Written::Stored(Box::new(stored), outcome),
                    None => Written::Overtaken,
                })
            })?;
            match written {
                Written::Overtaken => {}
                Written::Exists => return Err(ActorError::Exists(actor.name.clone())),
                Written::Stored(stored, outcome) => {
                    return Ok(AddedActor {
                        actor,
                        hash: hash(&stored.definition),
                        stored: *stored,
                        outcome,
                    });
                }
            }
        }
    }

    /// Refuses a new text of an actor with which those that refer to it cannot be any more.
    fn check_dependants(
        before: &[StoredDefinition],
        name: &str,
        own: &ActorText,
        world: ActorWorld<'_>,
    ) -> Result<(), ActorError> {
        let old = shelf(before, world);
        let mut files = texts(before);
        files.insert(name.to_owned(), own.clone());
        for other in before.iter().filter(|other| other.name != name) {
            // One that is broken already is not the doing of this change.
            if old.compile(&other.definition, &other.source).is_err() {
                continue;
            }
            let new = Shelf::new(
                files.clone(),
                world.supplies,
                world.is_model,
                world.variables,
            );
            new.compile(&other.definition, &other.source)?;
        }
        Ok(())
    }

    /// Removes a registered actor to which no other one refers.
    pub fn remove(
        &self,
        name: &str,
        world: ActorWorld<'_>,
    ) -> Result<StoredDefinition, ActorError> {
        loop {
            let before = self.stored()?;
            let whole = whole_name(name);
            let Some(found) = before.iter().find(|stored| stored.name == whole).cloned() else {
                if (world.is_model)(name) || world.supplies.built_in.contains_key(&whole) {
                    return Err(ActorError::BuiltIn(name.to_owned()));
                }
                return Err(ActorError::NotFound {
                    name: name.to_owned(),
                    nearest: shelf(&before, world).nearest(name),
                });
            };
            if let Some(by) = Self::dependants(&before, &whole, world).into_iter().next() {
                return Err(ActorError::InUse { name: whole, by });
            }
            let is_removed = self.engine.write(move |unit| {
                resources::lock(unit)?;
                if definitions::list(unit, DefinitionKind::Actor)? != before {
                    return Ok(false);
                }
                let plans = plans::active_of_actor(unit, &|named| whole_name(named) == whole)?;
                if !plans.is_empty() {
                    return Err(ActorError::UsedByPlans {
                        name: whole.clone(),
                        plans,
                    });
                }
                Ok(definitions::remove(unit, DefinitionKind::Actor, &whole)?)
            })?;
            if is_removed {
                return Ok(found);
            }
        }
    }

    /// The registered actors that refer to one.
    pub fn referring(&self, name: &str, world: ActorWorld<'_>) -> Result<Vec<String>, ActorError> {
        Ok(Self::dependants(&self.stored()?, &whole_name(name), world))
    }

    fn dependants(stored: &[StoredDefinition], name: &str, world: ActorWorld<'_>) -> Vec<String> {
        let refers = |other: &&StoredDefinition| {
            let known = shelf(stored, world);
            let _broken_ones_name_what_they_can = known.compile(&other.definition, &other.source);
            known.used().contains(name)
        };
        let others = stored.iter().filter(|other| other.name != name);
        others
            .filter(refers)
            .map(|other| other.name.clone())
            .collect()
    }

    /// How many runs an actor had in the namespaces, and what they cost together.
    pub fn totals(
        &self,
        name: &str,
        namespaces: &Namespaces,
    ) -> Result<(u64, MicroUsd), ActorError> {
        Ok(self
            .engine
            .read(|reader| runs::totals(reader, namespaces, name))?)
    }
}

/// What came of an attempt to write.
enum Written {
    /// Somebody changed the actors since they were read.
    Overtaken,
    /// There is one of this name.
    Exists,
    Stored(Box<StoredDefinition>, Outcome),
}

fn texts(stored: &[StoredDefinition]) -> BTreeMap<String, ActorText> {
    stored
        .iter()
        .map(|stored| {
            let text = ActorText {
                text: stored.definition.clone(),
                source: stored.source.clone(),
            };
            (stored.name.clone(), text)
        })
        .collect()
}

fn shelf<'a>(stored: &[StoredDefinition], world: ActorWorld<'a>) -> Shelf<'a> {
    Shelf::new(
        texts(stored),
        world.supplies,
        world.is_model,
        world.variables,
    )
}

/// The hash of a text, as people see it.
fn hash(text: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(text.as_bytes())))
}
