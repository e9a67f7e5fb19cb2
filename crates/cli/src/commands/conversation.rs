//! [`Conversation`]: the one way in which commands take a turn of a session.
//!
//! It holds what stays the same between turns: models, tools, rules and bounds. What a turn needs alone,
//! the session and its sandbox, is taken for that turn and given back after it.

mod told;

use std::sync::Arc;
use std::time::Duration;

use cleveragents_actors::{Actor, ActorKind};
use cleveragents_domain::{ActorName, MicroUsd, Session, SessionId, Turn};
use cleveragents_engine::{
    ActorService, NoObserver, SandboxWorkspace, SessionService, SpendScope, ToolService, TurnError,
    TurnObserver, TurnReport, TurnRequest, TurnService, TurnSettings, TurnTools, Unlimited,
    Waiting, instructions, project_instructions,
};
use cleveragents_models::{AGENT_PROVIDER, CancellationToken, Catalogue, Model, ModelName};
use cleveragents_process::Cancel;
use cleveragents_tools::Gate;
use cleveragents_tools::ports::Approver;

use super::toolbox::{Equipment, Needs, Toolbox, agents};
use super::tooling::{self, InForce, Terminal};
use crate::arguments::TurnOptions;
use crate::context::Context;
use crate::output::CommandError;

pub(crate) use told::{
    Told, called_line, calling_line, recovered_line, retry_line, short, tool_of, turn_json,
};

/// How long to wait for another turn of the session.
const PATIENCE: Duration = Duration::from_mins(10);

/// What turns are taken with.
pub(crate) struct Conversation<'c> {
    context: &'c Context,
    options: TurnOptions,
    max_cost: Option<MicroUsd>,
    pub(crate) catalogue: Catalogue,
    pub(crate) sessions: SessionService,
    tools: ToolService,
    turns: TurnService,
    gate: Gate,
    /// Tools of skills and servers, which run as long as the conversation.
    equipment: Equipment,
    safety: InForce,
}

/// One question, and who watches and stops the answer.
pub(crate) struct Asked<'a> {
    pub(crate) session: &'a Session,
    /// `None` goes on with the turn that was interrupted.
    pub(crate) prompt: Option<String>,
    pub(crate) observer: &'a dyn TurnObserver,
    /// Who is asked instead of the person at the terminal. A turn that they cannot answer now stays, and is gone on
    /// with later.
    pub(crate) approver: Option<&'a dyn Approver>,
    pub(crate) cancel: &'a Cancel,
    /// Cancelled together with `cancel`.
    pub(crate) stop: &'a CancellationToken,
}

/// What came of a question.
pub(crate) struct Answered {
    pub(crate) report: TurnReport,
    /// The question as it was stored: without secrets.
    pub(crate) prompt: Option<String>,
    /// The sandbox in which tools acted.
    pub(crate) sandbox: Option<String>,
}

impl<'c> Conversation<'c> {
    pub(crate) fn new(context: &'c Context, options: TurnOptions) -> Result<Self, CommandError> {
        let max_cost = options.max_cost.as_deref().map(amount).transpose()?;
        let catalogue = context.models(options.record.as_deref())?;
        let engine = context.engine()?;
        let sessions = context.sessions()?;
        let tools = ToolService::new(Arc::clone(&engine));
        // A rule that cannot be read is told before anything is asked.
        tooling::rules(context, &tools, &options.rule)?;
        let safety = tooling::in_force(context, &options.safety)?;
        let needs = Needs {
            skills: options.skill.iter().cloned().collect(),
            servers: options.mcp.iter().cloned().collect(),
        };
        let equipment = Toolbox::new(context)?.equip(&needs)?;
        Ok(Self {
            context,
            max_cost,
            catalogue,
            turns: TurnService::new(engine, sessions.clone()),
            sessions,
            gate: Gate::new(Arc::clone(&equipment.registry)),
            equipment,
            tools,
            safety,
            options,
        })
    }

    pub(crate) const fn options(&self) -> &TurnOptions {
        &self.options
    }

    /// Lets another model or agent answer from now on, and says which.
    pub(crate) fn use_actor(&mut self, name: &str) -> Result<ModelName, CommandError> {
        let model = self.model_called(name)?;
        // Without its key it is told now, not after the next question.
        self.open(&model)?;
        self.options.actor = Some(name.to_owned());
        Ok(model)
    }

    /// Opens a model, or an agent on another machine.
    pub(crate) fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, CommandError> {
        if name.provider() != AGENT_PROVIDER {
            return Ok(self.catalogue.open(name)?);
        }
        let actor = self.actor(name.model())?;
        let mut nodes = agents(&actor).into_iter();
        match nodes.find_map(|agent| agent.remote.as_ref()) {
            Some(remote) => Ok(self.catalogue.open_agent(&actor.name, remote)?),
            None => Err(not_a_model(&actor.name)),
        }
    }

    /// A registered actor.
    fn actor(&self, name: &str) -> Result<Arc<Actor>, CommandError> {
        let toolbox = Toolbox::new(self.context)?;
        let variables = self.context.variables();
        let actors = ActorService::new(self.context.engine()?);
        Ok(actors.find(name, toolbox.world(&variables))?.actor)
    }

    /// Who answers in a session, or in one that is not there yet.
    pub(crate) fn model_name(&self, session: Option<&Session>) -> Result<ModelName, CommandError> {
        self.model_for(session, None)
    }

    /// The one named, the one that was interrupted, the session's actor, or the usual one.
    fn model_for(
        &self,
        session: Option<&Session>,
        left: Option<&Turn>,
    ) -> Result<ModelName, CommandError> {
        if let Some(name) = &self.options.actor {
            return self.model_called(name);
        }
        if let Some(turn) = left {
            return Ok(turn.model.parse()?);
        }
        if let Some(actor) = session.and_then(|session| session.actor.as_ref()) {
            return self.model_called(&actor.to_string());
        }
        self.context.settings.model_default().cloned().ok_or_else(|| {
            CommandError::usage("no model is named").with_hint(
                "name one with --actor PROVIDER/MODEL, or for always: `agents config set model.default PROVIDER/MODEL`; \
                 `agents model list` shows what there is",
            )
        })
    }

    /// A model by its name, or an agent on another machine by that of its actor. Other actors with a file of their
    /// own answer elsewhere.
    fn model_called(&self, name: &str) -> Result<ModelName, CommandError> {
        let actors = ActorService::new(self.context.engine()?);
        let whole: Option<ActorName> = name.parse().ok();
        let whole = whole.map_or_else(|| name.to_owned(), |whole| whole.to_string());
        if actors.stored()?.iter().any(|actor| actor.name == whole) {
            return match self.actor(&whole)?.kind {
                ActorKind::A2a => Ok(format!("{AGENT_PROVIDER}/{whole}").parse()?),
                _ => Err(not_a_model(&whole)),
            };
        }
        let name: ModelName = name.parse()?;
        // What may be asked is decided by the name of the actor.
        if name.provider() == AGENT_PROVIDER {
            return Err(
                CommandError::usage(format!("`{name}` is not the name of an actor"))
                    .with_hint(format!("write `{}`", name.model())),
            );
        }
        Ok(name)
    }

    /// The name of the sandbox in which the next turn of a session acts.
    pub(crate) fn sandbox_name(&self, session: SessionId) -> Option<String> {
        match (&self.options.sandbox, &self.options.project) {
            (Some(name), _) => Some(name.clone()),
            (None, Some(_)) => Some(own_sandbox(session)),
            (None, None) => None,
        }
    }

    /// The turn of a session whose process died; `None` also while another one is running.
    pub(crate) fn interrupted(&self, session: SessionId) -> Result<Option<Turn>, CommandError> {
        let waiting = Waiting {
            patience: Duration::ZERO,
            observer: &NoObserver,
            cancel: &Cancel::new(),
        };
        match self.turns.take(session, &waiting) {
            Ok(taken) => Ok(taken.interrupted().cloned()),
            Err(TurnError::Busy(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers a question, or goes on with the turn that was interrupted.
    pub(crate) fn ask(&self, asked: &Asked<'_>) -> Result<Answered, CommandError> {
        let session = asked.session;
        // Read each time: a person may have allowed something for always.
        let rules = tooling::rules(self.context, &self.tools, &self.options.rule)?;
        let terminal = Terminal::new(self.context, self.tools.clone(), asked.cancel);
        // Dropped after the sandbox, which the next turn of the session takes at once.
        let mut taken = self.turns.take(
            session.id,
            &Waiting {
                patience: PATIENCE,
                observer: asked.observer,
                cancel: asked.cancel,
            },
        )?;
        let left = taken.interrupted().filter(|_| asked.prompt.is_none());
        if asked.prompt.is_none() && left.is_none() {
            return Err(TurnError::NothingToResume(session.id).into());
        }
        let model = self.open(&self.model_for(Some(session), left)?)?;
        let project = self.options.project.as_deref();
        // A turn that is gone on with stays in its own sandbox.
        let own = left.and_then(|turn| turn.sandbox.as_deref());
        let sandbox = self.options.sandbox.as_deref();
        let sandbox = sandbox.or_else(|| own.filter(|_| project.is_none()));
        // Each session has a sandbox of its own, whatever the project.
        let own = |_: &str| own_sandbox(session.id);
        let workspace = tooling::workspace(self.context, asked.cancel, sandbox, project, own)?;
        let request = TurnRequest {
            plan: None,
            prompt: asked.prompt.clone(),
            model,
            actor: session.actor.clone(),
            system: self.system(workspace.as_ref()),
            tools: TurnTools {
                gate: &self.gate,
                mode: tooling::mode(self.options.read_only),
                profile: &self.safety.profile,
                guards: &self.safety.guards,
                rules: &rules,
                workspace: workspace.as_ref(),
                approver: asked.approver.unwrap_or(&terminal),
                deferred: &self.equipment.deferred,
            },
            scopes: self.scopes(session),
            redactor: self.catalogue.redactor(),
            settings: TurnSettings {
                keeps_unfinished: asked.approver.is_some(),
                ..TurnSettings::default()
            },
            allowance: &Unlimited,
            observer: asked.observer,
            cancel: asked.cancel,
            stop: asked.stop.clone(),
        };
        let prompt = asked.prompt.as_deref();
        Ok(Answered {
            report: self.turns.tell(&mut taken, &request)?,
            prompt: prompt.map(|prompt| request.redactor.text(prompt).into_owned()),
            sandbox: workspace
                .as_ref()
                .map(SandboxWorkspace::name)
                .map(str::to_owned),
        })
    }

    /// The standing instructions: ours, of the skills, of the code that is worked on.
    fn system(&self, workspace: Option<&SandboxWorkspace>) -> Vec<String> {
        let redactor = self.catalogue.redactor();
        let mut system = vec![instructions(workspace)];
        let others = self.equipment.announcement().into_iter();
        let others = others.chain(workspace.and_then(project_instructions));
        system.extend(others.map(|text| redactor.text(&text).into_owned()));
        system
    }

    /// What is counted, and what may be spent.
    fn scopes(&self, session: &Session) -> Vec<SpendScope> {
        let configured = self.context.settings.budget_per_session();
        let safety = self.safety.guards.total_cost(&self.safety.profile);
        vec![
            SpendScope {
                name: format!("session {}", session.id),
                limit: [self.max_cost, configured, safety]
                    .into_iter()
                    .flatten()
                    .min(),
            },
            tooling::day_scope(self.context),
        ]
    }
}

/// An actor that cannot answer in a session.
fn not_a_model(name: &str) -> CommandError {
    let message = format!("`{name}` is an actor with a file of its own, not a model");
    CommandError::usage(message).with_hint(format!(
        "run it: `agents actor run {name} 'PROMPT' --context NAME` keeps a conversation with it"
    ))
}

/// What the sandbox is called that belongs to a session.
fn own_sandbox(session: SessionId) -> String {
    format!("session-{session}").to_ascii_lowercase()
}

pub(crate) fn amount(text: &str) -> Result<MicroUsd, CommandError> {
    let dollars: Option<f64> = text.trim_start_matches('$').parse().ok();
    dollars
        .and_then(MicroUsd::from_usd_rounded_up)
        .ok_or_else(|| {
            CommandError::usage(format!("`{text}` is not an amount of US dollars"))
                .with_hint("write it like 0.50")
        })
}
