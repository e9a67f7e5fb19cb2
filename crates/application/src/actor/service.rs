//! Registered actors, and lookup of registered actors, built-in actors and actors that represent models.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_actors::Actor;
use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{DefinitionFileError, DefinitionKind, MicroUsd};
use cleveragents_store::definitions::StoredDefinition;
use cleveragents_store::{Reader, plans, runs};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::resolver::{
    ActorBundle, ActorResolver, ActorText, IsModel, ReferableNames, of_model, whole_name,
};
use crate::definition::{DefinitionError, DefinitionService, DefinitionText, DefinitionType};

/// Inputs for compiling actors.
#[derive(Clone, Copy)]
pub struct ActorWorld<'a> {
    /// Known tools, skills and servers.
    pub referable_names: &'a ReferableNames,
    /// Returns `true` for the name of a model.
    pub is_model: IsModel<'a>,
    /// Returns the value of a variable that a file refers to.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
}

/// An actor that can run.
#[derive(Debug)]
pub struct FoundActor {
    /// The compiled actor.
    pub actor: Arc<Actor>,
    /// The stored row with the file and the dates; `None` if the actor represents a model.
    pub stored: Option<StoredDefinition>,
    /// The files of the actor and of all actors that it refers to.
    pub bundle: ActorBundle,
    /// The hash of the actor's file.
    pub hash: String,
}

/// The registered actors.
pub type ActorService = DefinitionService<Arc<Actor>>;

impl DefinitionType for Arc<Actor> {
    const KIND: DefinitionKind = DefinitionKind::Actor;
    type Reading<'a> = ActorWorld<'a>;
    type Error = DefinitionError;

    fn read(
        text: DefinitionText<'_>,
        registered: &[StoredDefinition],
        world: ActorWorld<'_>,
    ) -> Result<Self, Box<DefinitionFileError>> {
        actor_resolver(registered, world).compile(text.text, text.source)
    }

    /// Compiles all texts with one resolver, so that each actor is compiled only once.
    fn read_all(
        registered: &[StoredDefinition],
        world: ActorWorld<'_>,
    ) -> Vec<Result<Self, Box<DefinitionFileError>>> {
        let known = actor_resolver(registered, world);
        let compile = |stored: &StoredDefinition| known.compile(&stored.definition, &stored.source);
        registered.iter().map(compile).collect()
    }

    fn schema() -> Value {
        cleveragents_actors::schema()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn complete_name(name: &str) -> String {
        whole_name(name)
    }

    fn built_in_names(world: ActorWorld<'_>) -> Vec<String> {
        world.referable_names.built_in.keys().cloned().collect()
    }

    fn explain_missing(
        _: &mut dyn Reader,
        name: &str,
        world: ActorWorld<'_>,
    ) -> Result<Option<DefinitionError>, DefinitionError> {
        let is_built_in = (world.is_model)(name)
            || world
                .referable_names
                .built_in
                .contains_key(&whole_name(name));
        Ok(is_built_in.then(|| DefinitionError::BuiltIn {
            kind: Self::KIND,
            name: name.to_owned(),
        }))
    }

    /// Refuses a new text of an actor if it breaks another actor that refers to this actor.
    fn check_new(
        &self,
        text: DefinitionText<'_>,
        registered: &[StoredDefinition],
        world: ActorWorld<'_>,
    ) -> Result<(), DefinitionError> {
        let old = actor_resolver(registered, world);
        let mut files = texts(registered);
        files.insert(self.name.clone(), text.into());
        for other in registered.iter().filter(|other| other.name != self.name) {
            // An actor that is already invalid is not broken by this change.
            if old.compile(&other.definition, &other.source).is_err() {
                continue;
            }
            let new = ActorResolver::new(
                files.clone(),
                world.referable_names,
                world.is_model,
                world.variables,
            );
            new.compile(&other.definition, &other.source)?;
        }
        Ok(())
    }

    fn check_referrers(
        found: &StoredDefinition,
        registered: &[StoredDefinition],
        world: ActorWorld<'_>,
    ) -> Result<(), DefinitionError> {
        let by = dependants(registered, &found.name, world);
        if by.is_empty() {
            return Ok(());
        }
        Err(DefinitionError::InUse {
            kind: Self::KIND,
            name: found.name.clone(),
            by,
        })
    }

    fn check_unused(
        reader: &mut dyn Reader,
        found: &StoredDefinition,
        _: &[StoredDefinition],
    ) -> Result<(), DefinitionError> {
        let plans = plans::active_of_actor(reader, &|named| whole_name(named) == found.name)?;
        DefinitionError::require_no_plans(Self::KIND, &found.name, plans)
    }
}

impl DefinitionService<Arc<Actor>> {
    /// Finds an actor by name and compiles it.
    pub fn find(&self, name: &str, world: ActorWorld<'_>) -> Result<FoundActor, DefinitionError> {
        let stored = self.stored()?;
        let known = actor_resolver(&stored, world);
        let full_name = whole_name(name);
        let own = stored.iter().find(|stored| stored.name == full_name);
        let is_built_in = world.referable_names.built_in.contains_key(&full_name);
        let key = if own.is_some() || is_built_in {
            &full_name
        } else {
            name
        };
        let Some(actor) = known.get(key)? else {
            return Err(DefinitionError::not_found::<Arc<Actor>>(
                name,
                known.nearest(name),
            ));
        };
        Ok(FoundActor {
            bundle: known.bundle(&actor.name, None),
            hash: own.map_or_else(|| hash(name), |stored| hash(&stored.definition)),
            stored: own.cloned(),
            actor,
        })
    }

    /// Compiles the actor of a file that is not registered.
    pub fn compile(
        &self,
        text: &str,
        source: &str,
        world: ActorWorld<'_>,
    ) -> Result<FoundActor, DefinitionError> {
        let stored = self.stored()?;
        let known = actor_resolver(&stored, world);
        let actor = known.compile(text, source)?;
        let own = DefinitionText { text, source };
        Ok(FoundActor {
            bundle: known.bundle(&actor.name, Some(own.into())),
            hash: hash(text),
            stored: None,
            actor,
        })
    }

    /// Compiles the actor of a run from the files stored at its start.
    pub fn from_bundle(
        &self,
        bundle: &ActorBundle,
        world: ActorWorld<'_>,
    ) -> Result<Arc<Actor>, DefinitionError> {
        let Some(own) = bundle.files.get(&bundle.actor) else {
            return Ok(Arc::new(of_model(&bundle.actor)));
        };
        let known = ActorResolver::new(
            bundle.files.clone(),
            world.referable_names,
            world.is_model,
            world.variables,
        );
        Ok(known.compile(&own.text, &own.source)?)
    }

    /// Names of the registered actors that refer to this actor.
    pub fn referring(
        &self,
        name: &str,
        world: ActorWorld<'_>,
    ) -> Result<Vec<String>, DefinitionError> {
        Ok(dependants(&self.stored()?, &whole_name(name), world))
    }

    /// Number of runs of an actor in the given namespaces, and the total cost of these runs.
    pub fn totals(
        &self,
        name: &str,
        namespaces: &Namespaces,
    ) -> Result<(u64, MicroUsd), DefinitionError> {
        Ok(self
            .engine()
            .read(|reader| runs::totals(reader, namespaces, name))?)
    }
}

fn dependants(stored: &[StoredDefinition], name: &str, world: ActorWorld<'_>) -> Vec<String> {
    let refers = |other: &&StoredDefinition| {
        let known = actor_resolver(stored, world);
        // The resolver also records the references of an actor that fails to compile.
        let _compiled = known.compile(&other.definition, &other.source);
        known.used().contains(name)
    };
    let others = stored.iter().filter(|other| other.name != name);
    others
        .filter(refers)
        .map(|other| other.name.clone())
        .collect()
}

fn texts(stored: &[StoredDefinition]) -> BTreeMap<String, ActorText> {
    stored
        .iter()
        .map(|stored| (stored.name.clone(), DefinitionText::from(stored).into()))
        .collect()
}

fn actor_resolver<'a>(stored: &[StoredDefinition], world: ActorWorld<'a>) -> ActorResolver<'a> {
    ActorResolver::new(
        texts(stored),
        world.referable_names,
        world.is_model,
        world.variables,
    )
}

/// SHA-256 of a text, in the format `sha256:HEX`.
pub(super) fn hash(text: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(text.as_bytes())))
}
