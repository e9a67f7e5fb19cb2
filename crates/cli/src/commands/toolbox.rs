//! [`Toolbox`]: every tool that actors may be given, and the models they may ask.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_actors::Actor;
use cleveragents_engine::{ActorWorld, ModelSource, Supplies, ToolService, ToolSources};
use cleveragents_models::{Catalogue, Model, ModelName};
use cleveragents_tools::{Registry, ToolName};

use super::tooling;
use crate::context::Context;
use crate::output::CommandError;

/// What is there, without anything being started for it.
pub(crate) struct Toolbox {
    pub(crate) tools: ToolService,
    pub(crate) registry: Arc<Registry>,
    supplies: Supplies,
    is_model: Box<dyn Fn(&str) -> bool>,
}

impl Toolbox {
    pub(crate) fn new(context: &Context) -> Result<Self, CommandError> {
        let tools = ToolService::new(context.engine()?);
        let registry = tooling::registry(context, &tools)?;
        let supplies = Supplies {
            tools: registry.list().map(|spec| spec.name.clone()).collect(),
            skills: BTreeSet::new(),
            servers: BTreeSet::new(),
            server_namespaces: BTreeSet::new(),
        };
        let providers = context.models(None)?.providers();
        Ok(Self {
            tools,
            registry,
            supplies,
            is_model: Box::new(move |name| {
                let name = name.parse::<ModelName>();
                name.is_ok_and(|name| providers.iter().any(|known| known == name.provider()))
            }),
        })
    }

    /// What actors are compiled with.
    pub(crate) fn world<'a>(
        &'a self,
        variables: &'a dyn Fn(&str) -> Option<String>,
    ) -> ActorWorld<'a> {
        ActorWorld {
            supplies: &self.supplies,
            is_model: &*self.is_model,
            variables,
        }
    }

    /// Everything that an actor needs, with `more` skills.
    pub(crate) fn equip(
        &self,
        _actor: &Actor,
        _more: &[String],
    ) -> Result<Equipment, CommandError> {
        Ok(Equipment {
            registry: Arc::clone(&self.registry),
            deferred: BTreeSet::new(),
        })
    }
}

/// The tools of a run.
pub(crate) struct Equipment {
    pub(crate) registry: Arc<Registry>,
    pub(crate) deferred: BTreeSet<ToolName>,
}

impl Equipment {
    /// The tools of a skill that was named for a whole run.
    pub(crate) fn skill_tools(&self, name: &str) -> Result<Vec<ToolName>, CommandError> {
        self.skill(name).map_err(|why| {
            CommandError::new(cleveragents_domain::Code::SkillNotFound, why)
                .with_hint("`agents skill list` shows what there is")
        })
    }
}

impl ToolSources for Equipment {
    fn skill(&self, name: &str) -> Result<Vec<ToolName>, String> {
        Err(format!("there is no skill named `{name}`"))
    }

    fn server(&self, name: &str) -> Result<Vec<ToolName>, String> {
        Err(format!("there is no MCP server named `{name}`"))
    }
}

/// The models of the catalogue, one of which is the usual one.
pub(crate) struct Models<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) usual: Option<&'a ModelName>,
}

impl ModelSource for Models<'_> {
    fn open(&self, name: Option<&str>) -> Result<Arc<dyn Model>, String> {
        let name = match (name, self.usual) {
            (Some(name), _) => name
                .parse::<ModelName>()
                .map_err(|error| error.to_string())?,
            (None, Some(usual)) => usual.clone(),
            (None, None) => {
                return Err(
                    "the actor names no model, and none is the usual one: `agents config set model.default PROVIDER/MODEL`"
                        .to_owned(),
                );
            }
        };
        self.catalogue
            .open(&name)
            .map_err(|error| error.to_string())
    }
}
