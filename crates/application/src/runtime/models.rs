//! [`CatalogueModels`]: opens the models that actors name.

use std::sync::Arc;

use cleveragents_domain::RemoteAgent;
use cleveragents_models::{Catalogue, Model, ModelName};

use crate::run::ModelSource;

/// The models of a catalogue, with a default for actors that do not name a model.
pub(super) struct CatalogueModels<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) default: Option<&'a ModelName>,
}

impl ModelSource for CatalogueModels<'_> {
    fn open(&self, name: Option<&str>) -> Result<Arc<dyn Model>, String> {
        let name = match (name, self.default) {
            (Some(name), _) => name
                .parse::<ModelName>()
                .map_err(|error| error.to_string())?,
            (None, Some(default)) => default.clone(),
            (None, None) => {
                return Err(
                    "the actor names no model, and the configuration key `model.default` is not set"
                        .to_owned(),
                );
            }
        };
        self.catalogue
            .open(&name)
            .map_err(|error| error.to_string())
    }

    fn agent(&self, name: &str, agent: &RemoteAgent) -> Result<Arc<dyn Model>, String> {
        self.catalogue
            .open_agent(name, agent)
            .map_err(|error| error.to_string())
    }
}
