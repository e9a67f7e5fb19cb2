//! Names of existing objects, for completion.

use std::sync::mpsc;
use std::time::Duration;

use cleveragents_application::action_operations::ListActions;
use cleveragents_application::actor_operations::ListActors;
use cleveragents_application::automation_operations::ListProfiles;
use cleveragents_application::model_operations::ListModels;
use cleveragents_application::plan_operations::ListPlans;
use cleveragents_application::pool_operations::ListPools;
use cleveragents_application::project_operations::ListProjects;
use cleveragents_application::resource_operations::ListResources;
use cleveragents_application::run_operations::ListRuns;
use cleveragents_application::session_operations::{ListSessions, SessionOrder};
use cleveragents_application::skill_operations::ListSkills;
use cleveragents_application::tool_operations::ListTools;
use cleveragents_application::tracker_operations::ListItemSources;
use cleveragents_application::validation_operations::{ListValidations, ListedValidation};
use cleveragents_application::work_item_operations::ListWorkItems;
use cleveragents_application::{
    ContextService, McpService, SandboxService, SessionService, TokenService, counted,
};
use cleveragents_domain::Code;

use crate::app::context_without_flags;
use crate::config::{Environment, Home, KEYS};
use crate::context::Context;
use crate::output::{CommandError, Format, Printer, StandardStreams};
use crate::remote::Connection;

/// Maximum time for looking up names. The user waits for each Tab.
const PATIENCE: Duration = Duration::from_millis(700);

/// Maximum number of plans, sessions, runs and items, the newest first.
const PAGE: u64 = 50;

/// Kinds of objects whose names complete arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    Plan,
    Sandbox,
    Session,
    Project,
    Actor,
    ActorContext,
    Pool,
    Resource,
    Action,
    Skill,
    Tool,
    Validation,
    Profile,
    McpServer,
    Run,
    Item,
    ItemSource,
    Token,
    Model,
    Provider,
    /// Key of the configuration.
    Key,
    ErrorCode,
}

impl NameKind {
    /// Whether only the first of several values is such a name.
    pub(super) const fn is_only_first(self) -> bool {
        matches!(self, Self::Plan)
    }

    /// Whether the names are known without a database.
    const fn is_static(self) -> bool {
        matches!(
            self,
            Self::Model | Self::Provider | Self::Key | Self::ErrorCode
        )
    }
}

/// An existing object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExistingName {
    /// The name, or the shortest unique prefix of the id.
    pub(super) name: String,
    /// Complete id, if `name` is its prefix.
    id: Option<String>,
    pub(super) description: String,
}

impl ExistingName {
    /// The value that completes what the user typed.
    pub(super) fn completing(&self, typed: &str) -> Option<String> {
        if self.name.starts_with(typed) {
            return Some(self.name.clone());
        }
        let upper = typed.to_uppercase();
        let id = self.id.as_ref().filter(|id| id.starts_with(&upper));
        id.map(|id| {
            if self.name.starts_with(&upper) {
                self.name.clone()
            } else {
                id.clone()
            }
        })
    }
}

/// An object without an id.
fn named(name: impl Into<String>, description: impl Into<String>) -> ExistingName {
    ExistingName {
        name: name.into(),
        id: None,
        description: description.into(),
    }
}

/// The existing objects of a kind. Empty if they cannot be read, or not in time.
pub(super) fn existing(kind: NameKind, environment: &Environment) -> Vec<ExistingName> {
    let (sender, receiver) = mpsc::channel();
    let environment = environment.clone();
    // The thread ends with the process if a server or database does not answer.
    let started = std::thread::Builder::new().spawn(move || {
        let names = context(&environment).and_then(|context| list(kind, &context).ok());
        let _ended = sender.send(names.unwrap_or_default());
    });
    if started.is_err() {
        return Vec::new();
    }
    receiver.recv_timeout(PATIENCE).unwrap_or_default()
}

fn context(environment: &Environment) -> Option<Context> {
    let home = Home::find(environment).ok()?;
    let streams = StandardStreams::detect(environment);
    let mut context =
        context_without_flags(environment, &home, Printer::new(Format::Plain, &streams))?;
    context.connection = Connection::configured(&context).ok()?;
    Some(context)
}

/// Reads the names of a kind.
fn list(kind: NameKind, context: &Context) -> Result<Vec<ExistingName>, CommandError> {
    if kind.is_static() {
        return static_names(kind, context);
    }
    Ok(match kind {
        NameKind::Plan => plans(context)?,
        NameKind::Session => sessions(context)?,
        NameKind::Run => runs(context)?,
        NameKind::Item => items(context)?,
        NameKind::Sandbox => {
            let engine = context.read_only_engine()?;
            let sandboxes = SandboxService::new(engine, context.home.sandboxes()).list(false)?;
            let sandboxes = sandboxes.into_iter().map(|view| view.sandbox);
            sandboxes
                .map(|sandbox| named(sandbox.name, sandbox.origin))
                .collect()
        }
        NameKind::Project => {
            let listed = context
                .call_read_only(ListProjects {})?
                .projects
                .into_iter();
            let description = |text: Option<String>| text.unwrap_or_default();
            listed
                .map(|listed| named(listed.project.name, description(listed.project.description)))
                .collect()
        }
        NameKind::ActorContext => {
            let engine = context.read_only_engine()?;
            let limit = context.settings.max_message_bytes();
            let sessions = SessionService::new(engine.clone(), limit);
            let contexts = ContextService::new(engine, sessions).list()?.into_iter();
            contexts
                .map(|context| named(context.name, counted(context.messages, "message")))
                .collect()
        }
        NameKind::Resource => {
            let listed = context.call_read_only(ListResources::default())?;
            let resources = listed.resources.into_iter();
            resources
                .map(|resource| named(resource.name, resource.location.unwrap_or_default()))
                .collect()
        }
        NameKind::McpServer => {
            let servers = McpService::new(context.read_only_engine()?).list()?;
            let servers = servers.into_iter();
            servers
                .map(|server| named(server.stored.name, String::new()))
                .collect()
        }
        NameKind::ItemSource => {
            let listed = context.call_read_only(ListItemSources {})?;
            let sources = listed.sources.into_iter();
            sources
                .map(|source| named(source.name, source.address))
                .collect()
        }
        NameKind::Token => {
            let tokens = TokenService::new(context.read_only_engine()?).list(false)?;
            let tokens = tokens.into_iter();
            tokens
                .map(|token| named(token.name, String::new()))
                .collect()
        }
        _ => definitions(kind, context)?,
    })
}

/// Names of registered definitions.
fn definitions(kind: NameKind, context: &Context) -> Result<Vec<ExistingName>, CommandError> {
    Ok(match kind {
        NameKind::Actor => {
            let listed = context.call_read_only(ListActors { custom: true })?;
            let actors = listed.actors.into_iter();
            actors
                .map(|actor| named(actor.name, actor.description.unwrap_or_default()))
                .collect()
        }
        NameKind::Pool => {
            let pools = context.call_read_only(ListPools {})?.pools.into_iter();
            pools
                .map(|pool| named(pool.name, pool.state.as_str()))
                .collect()
        }
        NameKind::Action => {
            let listed = context.call_read_only(ListActions::default())?;
            let actions = listed.actions.into_iter();
            actions
                .map(|action| {
                    let definition = action.definition;
                    let text = definition.map_or_else(String::new, |found| found.description);
                    named(action.name, text)
                })
                .collect()
        }
        NameKind::Skill => {
            let listed = context.call_read_only(ListSkills {})?;
            let skills = listed.skills.into_iter();
            skills
                .map(|skill| named(skill.name, skill.description.unwrap_or_default()))
                .collect()
        }
        NameKind::Tool => {
            let listed = context.call_read_only(ListTools::default())?;
            let tools = listed.tools.into_iter();
            tools
                .map(|tool| named(tool.name, tool.description.unwrap_or_default()))
                .collect()
        }
        NameKind::Validation => {
            let listed = context.call_read_only(ListValidations::default())?;
            let validations = listed.validations.into_iter();
            validations
                .map(|validation| match validation {
                    ListedValidation::Readable(validation) => {
                        named(validation.name, validation.description)
                    }
                    ListedValidation::Broken { name, problem } => named(name, problem),
                })
                .collect()
        }
        NameKind::Profile => {
            let listed = context.call_read_only(ListProfiles::default())?;
            let profiles = listed.automation_profiles.into_iter();
            profiles
                .map(|profile| {
                    let definition = profile.definition;
                    let text = definition.map_or_else(String::new, |found| found.description);
                    named(profile.name, text)
                })
                .collect()
        }
        _ => Vec::new(),
    })
}

/// Plans, the newest first, with the words of their tasks.
fn plans(context: &Context) -> Result<Vec<ExistingName>, CommandError> {
    let listed = context.call_read_only(ListPlans::default())?;
    let plans = listed
        .plans
        .into_iter()
        .take(usize::try_from(PAGE).unwrap_or(usize::MAX));
    Ok(plans
        .map(|plan| ExistingName {
            description: format!("{} ({})", plan.task, plan.state.as_str()),
            id: Some(plan.plan_id.to_string()),
            name: plan.id,
        })
        .collect())
}

/// Sessions, the last changed first: by name, or by id if they have none.
fn sessions(context: &Context) -> Result<Vec<ExistingName>, CommandError> {
    let listed = context.call_read_only(ListSessions {
        name: None,
        actor: None,
        namespace: None,
        since: None,
        sort: SessionOrder::default(),
        reverse: false,
        limit: Some(PAGE),
        offset: 0,
        short_ids: true,
    })?;
    let sessions = listed.sessions.into_iter();
    Ok(sessions
        .map(|session| {
            let id = session.id.to_string();
            let short = session.short_id.unwrap_or_else(|| id.clone());
            ExistingName {
                name: session.name.unwrap_or(short),
                id: Some(id),
                description: counted(session.messages, "message"),
            }
        })
        .collect())
}

fn runs(context: &Context) -> Result<Vec<ExistingName>, CommandError> {
    let listed = context.call_read_only(ListRuns {
        actor: None,
        state: None,
        limit: PAGE,
        offset: 0,
    })?;
    let runs = listed.runs.into_iter().map(|listed| listed.run);
    Ok(runs
        .map(|run| {
            named(
                run.id.to_string(),
                format!("{} ({})", run.actor, run.state.as_str()),
            )
        })
        .collect())
}

fn items(context: &Context) -> Result<Vec<ExistingName>, CommandError> {
    let listed = context.call_read_only(ListWorkItems {
        limit: Some(PAGE),
        ..ListWorkItems::default()
    })?;
    let items = listed.items.into_iter();
    Ok(items
        .map(|item| named(item.id.to_string(), item.title))
        .collect())
}

/// Names that need no database.
fn static_names(kind: NameKind, context: &Context) -> Result<Vec<ExistingName>, CommandError> {
    Ok(match kind {
        NameKind::Key => KEYS
            .iter()
            .map(|key| named(key.name, key.description))
            .collect(),
        NameKind::ErrorCode => Code::ALL
            .iter()
            .map(|code| named(code.as_str(), code.title()))
            .collect(),
        NameKind::Model | NameKind::Provider => {
            let request = ListModels {
                provider: None,
                available: kind == NameKind::Model,
            };
            let listed = request.answer(&context.models(None)?)?;
            if kind == NameKind::Provider {
                let providers = listed.providers.into_iter();
                return Ok(providers.map(|name| named(name, String::new())).collect());
            }
            let models = listed.models.into_iter();
            models
                .map(|model| named(model.name, String::new()))
                .collect()
        }
        _ => Vec::new(),
    })
}
