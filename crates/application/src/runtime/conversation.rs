//! [`Conversation`]: runs turns of sessions. It holds the state that turns share: tools, safety and
//! limits. Each turn locks the session and its sandbox, and releases both when the turn ends.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_actors::{Actor, ActorKind};
use cleveragents_domain::{
    ActorName, Code, MicroUsd, Placeholder, Session, SessionId, Turn, hint, nearest, suggest,
};
use cleveragents_models::{AGENT_PROVIDER, CancellationToken, Model, ModelName};
use cleveragents_process::Cancel;
use cleveragents_tools::Gate;
use cleveragents_tools::ports::Approver;

use super::toolset::{ConnectedTools, ToolRequirements, agents_of};
use super::{AgentRuntime, RememberingApprover, session_mode};
use crate::observer::{AgentEvent, NoApprover, NoObserver, Observer};
use crate::operation::OperationError;
use crate::plan::RolePrompts;
use crate::sandbox::{SandboxView, SourceChanges, session_sandbox};
use crate::session::SessionService;
use crate::session::folder::sessions_of_folder;
use crate::tool::{SandboxWorkspace, SpendScope};
use crate::turn::{
    CompactionReport, PromptImage, ReportTools, TurnError, TurnReport, TurnRequest, TurnService,
    TurnSettings, TurnTools, UnlimitedAllowance, Waiting,
};

/// Maximum number of changed files that a note lists.
const LISTED_FILES: usize = 30;

/// Maximum number of similar names in the error for an unknown model or actor.
const SIMILAR_NAMES: usize = 2;

/// Maximum time that a turn waits for another turn of its session.
const TURN_WAIT: Duration = Duration::from_mins(10);

/// The model that answers in a conversation, and its limits.
#[derive(Debug, Clone, Default)]
pub struct ConversationOptions {
    /// The model or actor that answers. Defaults to the actor of the session, then to the default model.
    pub actor: Option<String>,
    /// Tools run in a sandbox of this project's resources.
    pub project: Option<String>,
    /// Tools run in this sandbox.
    pub sandbox: Option<String>,
    /// Whether each turn starts with the current files of the project. A sandbox without changes is recreated; for a
    /// sandbox with changes, the model receives a list of the files that differ.
    pub follows_files: bool,
    /// Whether tools may only read.
    pub read_only: bool,
    /// Permission rules in addition to the stored rules.
    pub rules: Vec<String>,
    /// Skills and MCP servers.
    pub requirements: ToolRequirements,
    /// Spending limit of the session.
    pub max_cost: Option<MicroUsd>,
}

/// A conversation with a model or a remote agent. See the module documentation.
pub struct Conversation {
    runtime: AgentRuntime,
    options: ConversationOptions,
    sessions: SessionService,
    turns: TurnService,
    gate: Gate,
    /// Tools of skills and servers. Dropping the conversation stops the servers.
    connected: Arc<ConnectedTools>,
}

/// One question to the model.
pub struct ConversationTurn<'a> {
    pub session: &'a Session,
    /// The question; `None` resumes the interrupted turn.
    pub prompt: Option<String>,
    /// The images of the question.
    pub images: Vec<PromptImage>,
    /// Receives the answer while it streams.
    pub observer: &'a dyn Observer,
    /// Asks the user for approvals and answers.
    pub approver: &'a dyn Approver,
    /// Whether a turn that was cancelled or needs an absent user can be resumed; otherwise it ends as
    /// failed.
    pub keeps_unfinished: bool,
    /// Stops the turn.
    pub cancel: &'a Cancel,
    /// Stops the model; cancelled together with `cancel`.
    pub stop: &'a CancellationToken,
}

/// A request to summarize a conversation.
pub struct ConversationCompaction<'a> {
    pub session: &'a Session,
    /// Topic that the summary must contain.
    pub focus: Option<&'a str>,
    pub observer: &'a dyn Observer,
    /// Stops the compaction.
    pub cancel: &'a Cancel,
    /// Stops the model; cancelled together with `cancel`.
    pub stop: &'a CancellationToken,
}

/// The outcome of a turn.
pub struct ConversationAnswer {
    /// The result of the turn.
    pub report: TurnReport,
    /// The stored question, without secrets.
    pub prompt: Option<String>,
    /// The sandbox of the tools.
    pub sandbox: Option<String>,
}

impl Conversation {
    /// Connects the tools of a conversation. Rejects invalid permission rules before the first
    /// request.
    pub fn new(
        runtime: AgentRuntime,
        options: ConversationOptions,
    ) -> Result<Self, OperationError> {
        runtime.rules(&options.rules)?;
        let connected = runtime.connect(options.requirements.clone())?;
        let sessions = runtime.sessions();
        Ok(Self {
            turns: TurnService::new(Arc::clone(&runtime.options().engine), sessions.clone()),
            sessions,
            gate: Gate::new(Arc::clone(&connected.registry)),
            connected,
            options,
            runtime,
        })
    }

    pub const fn runtime(&self) -> &AgentRuntime {
        &self.runtime
    }

    /// The sessions of the database.
    pub const fn sessions(&self) -> &SessionService {
        &self.sessions
    }

    /// The model that answers, and its limits.
    pub const fn options(&self) -> &ConversationOptions {
        &self.options
    }

    /// Changes the model or agent for the next turns. Fails if the API key of the model is missing.
    pub fn use_actor(&mut self, name: &str) -> Result<ModelName, OperationError> {
        let model = self.model_called(name)?;
        self.open(&model)?;
        self.options.actor = Some(name.to_owned());
        Ok(model)
    }

    /// Opens a model or a remote agent.
    pub fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, OperationError> {
        let catalogue = &self.runtime.options().catalogue;
        if name.provider() != AGENT_PROVIDER {
            return Ok(catalogue.open(name)?);
        }
        let actor = self.actor(name.model())?;
        let mut nodes = agents_of(&actor).into_iter();
        match nodes.find_map(|agent| agent.remote.as_ref()) {
            Some(remote) => Ok(catalogue.open_agent(&actor.name, remote)?),
            None => Err(not_a_model(&actor.name)),
        }
    }

    fn actor(&self, name: &str) -> Result<Arc<Actor>, OperationError> {
        Ok(self.runtime.actor(name)?.actor)
    }

    /// The model or agent that answers in a session; `None` for a new session.
    pub fn model_name(&self, session: Option<&Session>) -> Result<ModelName, OperationError> {
        self.model_for(session, None)
    }

    /// The model of the options, of the interrupted turn, of the actor of the session, or the default model, in this
    /// order.
    fn model_for(
        &self,
        session: Option<&Session>,
        interrupted: Option<&Turn>,
    ) -> Result<ModelName, OperationError> {
        if let Some(name) = &self.options.actor {
            return self.model_called(name);
        }
        if let Some(turn) = interrupted {
            return model_name(&turn.model);
        }
        if let Some(actor) = session.and_then(|session| session.actor.as_ref()) {
            return self.model_called(&actor.to_string());
        }
        self.runtime.options().default_model.clone().ok_or_else(|| {
            OperationError::usage("no model is set").with_hint(hint!(
                "name one with {}, or set the default: {}; {} lists the models",
                suggest::session_tell_to(Placeholder("PROVIDER/MODEL")).only_arguments(),
                suggest::config_set("model.default", Placeholder("PROVIDER/MODEL")),
                suggest::model_list()
            ))
        })
    }

    /// A model by its name, or a remote agent by the name of its actor. Other registered actors cannot
    /// answer in sessions.
    fn model_called(&self, name: &str) -> Result<ModelName, OperationError> {
        let full: Option<ActorName> = name.parse().ok();
        let full = full.map_or_else(|| name.to_owned(), |full| full.to_string());
        let stored = self.runtime.actors().stored()?;
        if stored.iter().any(|actor| actor.name == full) {
            return match self.actor(&full)?.kind {
                ActorKind::A2a => model_name(&format!("{AGENT_PROVIDER}/{full}")),
                _ => Err(not_a_model(&full)),
            };
        }
        let name = model_name(name)?;
        // Require the name of the actor, because permissions are checked against it.
        if name.provider() == AGENT_PROVIDER {
            return Err(
                OperationError::usage(format!("`{name}` is not the name of an actor"))
                    .with_hint(format!("write `{}`", name.model())),
            );
        }
        let providers = self.runtime.options().catalogue.providers();
        // Opening the model reports a misspelt provider.
        if nearest::best(name.provider(), providers.iter().map(String::as_str)).is_none() {
            let actors: Vec<String> = stored.into_iter().map(|actor| actor.name).collect();
            let models = self.runtime.options().catalogue.list();
            let models: Vec<String> = models.iter().map(|model| model.name.to_string()).collect();
            return Err(unknown_model(&name, &actors, &models));
        }
        Ok(name)
    }

    /// The name of the sandbox of the next turn of a session.
    pub fn sandbox_name(&self, session: SessionId) -> Option<String> {
        match (&self.options.sandbox, &self.options.project) {
            (Some(name), _) => Some(name.clone()),
            (None, Some(_)) => Some(session_sandbox(session)),
            (None, None) => None,
        }
    }

    /// The sessions with a sandbox of a folder, most recently used first.
    pub fn sessions_of_folder(&self, folder: &Path) -> Result<Vec<Session>, OperationError> {
        sessions_of_folder(&self.runtime.sandboxes(), &self.sessions, folder)
    }

    /// The interrupted turn of a session, whose process died. `None` while another turn runs.
    pub fn interrupted(&self, session: SessionId) -> Result<Option<Turn>, OperationError> {
        let waiting = Waiting {
            patience: Duration::ZERO,
            observer: &NoObserver,
            cancel: &Cancel::new(),
        };
        match self.turns.take(session, &waiting) {
            Ok(locked_session) => Ok(locked_session.interrupted().cloned()),
            Err(TurnError::Busy(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Answers a question, or resumes the interrupted turn.
    pub fn ask(&self, turn: &ConversationTurn<'_>) -> Result<ConversationAnswer, OperationError> {
        let session = turn.session;
        // Read the rules for each turn, because the user may have allowed more calls for always.
        let rules = self.runtime.rules(&self.options.rules)?;
        // Must be dropped after the sandbox, because the next turn of the session opens the sandbox
        // immediately.
        let mut locked_session = self.turns.take(
            session.id,
            &Waiting {
                patience: TURN_WAIT,
                observer: turn.observer,
                cancel: turn.cancel,
            },
        )?;
        let interrupted = locked_session
            .interrupted()
            .filter(|_| turn.prompt.is_none());
        if turn.prompt.is_none() && interrupted.is_none() {
            return Err(TurnError::NothingToResume(session.id).into());
        }
        let model = self.open(&self.model_for(Some(session), interrupted)?)?;
        if !turn.images.is_empty() && !model.capabilities().vision {
            let message = format!("the model `{}` does not accept images", model.name());
            return Err(
                OperationError::new(Code::ModelNotCapable, message).with_hint(hint!(
                    "use another model ({} shows which accept images), or put the path in backticks to send it as text",
                    suggest::model_list()
                )),
            );
        }
        let mut prompt = turn.prompt.clone();
        if self.options.follows_files
            && let Some(question) = &mut prompt
            && let Some(note) = self.follow_files(session, turn)?
        {
            question.push_str(&note);
        }
        let project = self.options.project.as_deref();
        // A resumed turn uses its previous sandbox.
        let previous_sandbox = interrupted.and_then(|turn| turn.sandbox.as_deref());
        let sandbox = self.options.sandbox.as_deref();
        let sandbox = sandbox.or_else(|| previous_sandbox.filter(|_| project.is_none()));
        // Each session has its own sandbox, even when sessions share a project.
        let workspace = self.runtime.workspace(turn.cancel, sandbox, project, |_| {
            session_sandbox(session.id)
        })?;
        let rules = self.runtime.tightened(rules, workspace.as_ref())?;
        let options = self.runtime.options();
        let prompts = self.prompts(workspace.as_ref().map(SandboxWorkspace::view));
        // Only a model with tools and files receives the instructions for engineering work.
        let role = workspace
            .as_ref()
            .map(|_| prompts.text("chat").to_owned())
            .filter(|_| model.capabilities().tools);
        let standard = TurnSettings::default();
        let approver = RememberingApprover::new(self.runtime.tools(), turn.approver);
        let request = TurnRequest {
            plan: None,
            prompt: prompt.clone(),
            images: turn.images.clone(),
            model,
            actor: session.actor.clone(),
            system: self.runtime.instructions(
                workspace.as_ref(),
                self.connected.announcement(),
                role.as_slice(),
            ),
            tools: TurnTools {
                gate: &self.gate,
                mode: session_mode(self.options.read_only),
                profile: &options.safety.profile,
                guards: &options.safety.guards,
                rules: &rules,
                workspace: workspace.as_ref(),
                approver: &approver,
                deferred: &self.connected.deferred,
            },
            reports: ReportTools::default(),
            scopes: self.budgets(session),
            redactor: self.runtime.redactor(),
            settings: TurnSettings {
                keeps_unfinished: turn.keeps_unfinished,
                answer_limit: Some(standard.max_steps.into()),
                summary_prompt: prompts.text("summary").to_owned(),
                ..standard
            },
            allowance: &UnlimitedAllowance,
            observer: turn.observer,
            cancel: turn.cancel,
            stop: turn.stop.clone(),
        };
        let prompt = prompt.as_deref();
        Ok(ConversationAnswer {
            report: self.turns.run(&mut locked_session, &request)?,
            prompt: prompt.map(|prompt| request.redactor.text(prompt).into_owned()),
            sandbox: workspace
                .as_ref()
                .map(SandboxWorkspace::name)
                .map(str::to_owned),
        })
    }

    /// Summarizes the conversation now, as a long conversation is summarized automatically. Later
    /// requests contain the summary instead of the messages, which stay in the store. `focus` names
    /// what the summary must contain. `None` if no message follows the newest summary.
    pub fn compact(
        &self,
        compaction: &ConversationCompaction<'_>,
    ) -> Result<Option<CompactionReport>, OperationError> {
        let session = compaction.session;
        let model = self.open(&self.model_for(Some(session), None)?)?;
        if model.name().provider() == AGENT_PROVIDER {
            let message = format!(
                "`{}` keeps the conversation itself, so it cannot be compacted here",
                model.name().model()
            );
            return Err(OperationError::usage(message));
        }
        let mut locked_session = self.turns.take(
            session.id,
            &Waiting {
                patience: TURN_WAIT,
                observer: compaction.observer,
                cancel: compaction.cancel,
            },
        )?;
        let sandbox = self.sandbox_name(session.id);
        let sandbox = sandbox.and_then(|name| self.runtime.sandboxes().find(&name).ok());
        let prompts = self.prompts(sandbox.as_ref());
        let options = self.runtime.options();
        let rules = self.runtime.rules(&self.options.rules)?;
        let request = TurnRequest {
            plan: None,
            prompt: None,
            images: Vec::new(),
            model,
            actor: session.actor.clone(),
            system: Vec::new(),
            tools: TurnTools {
                gate: &self.gate,
                mode: session_mode(true),
                profile: &options.safety.profile,
                guards: &options.safety.guards,
                rules: &rules,
                workspace: None,
                approver: &NoApprover,
                deferred: &self.connected.deferred,
            },
            reports: ReportTools::default(),
            scopes: self.budgets(session),
            redactor: self.runtime.redactor(),
            settings: TurnSettings {
                summary_prompt: prompts.text("summary").to_owned(),
                ..TurnSettings::default()
            },
            allowance: &UnlimitedAllowance,
            observer: compaction.observer,
            cancel: compaction.cancel,
            stop: compaction.stop.clone(),
        };
        Ok(self
            .turns
            .compact_session(&mut locked_session, &request, compaction.focus)?)
    }

    /// Brings the sandbox of a session up to date with the user's files. Returns a note for the model if the sandbox has
    /// changes and therefore stays as it is.
    fn follow_files(
        &self,
        session: &Session,
        turn: &ConversationTurn<'_>,
    ) -> Result<Option<String>, OperationError> {
        let Some(name) = self.sandbox_name(session.id) else {
            return Ok(None);
        };
        let sandboxes = self.runtime.sandboxes().interrupted_by(turn.cancel);
        let changed = match sandboxes.follow_source(&name)? {
            SourceChanges::None => return Ok(None),
            SourceChanges::Discarded => {
                let text = "your files changed since the last turn; this turn starts with them";
                turn.observer.event(&AgentEvent::Note {
                    text: text.to_owned(),
                });
                return Ok(None);
            }
            SourceChanges::Outdated(changed) => changed,
        };
        let mut listed: Vec<&str> = changed
            .iter()
            .take(LISTED_FILES)
            .map(String::as_str)
            .collect();
        let more = format!("and {} more", changed.len().saturating_sub(LISTED_FILES));
        if changed.len() > LISTED_FILES {
            listed.push(&more);
        }
        let listed = listed.join(", ");
        turn.observer.event(&AgentEvent::Note {
            text: format!(
                "your files changed since the sandbox was created, and its changes are not applied yet: {listed}"
            ),
        });
        Ok(Some(format!(
            "\n\n[The user changed these files outside of your copy since it was made, so your copy has older versions: {listed}]"
        )))
    }

    /// The prompts of conversations, with overrides from the resources in the sandbox and from the data
    /// folder of the program.
    fn prompts(&self, sandbox: Option<&SandboxView>) -> RolePrompts {
        let members = sandbox.map(|sandbox| sandbox.members.as_slice());
        let folders: Vec<&Path> = members
            .unwrap_or_default()
            .iter()
            .map(|member| member.location.as_path())
            .collect();
        RolePrompts::read(&self.runtime.options().home, &folders)
    }

    fn budgets(&self, session: &Session) -> Vec<SpendScope> {
        let options = self.runtime.options();
        let safety = &options.safety;
        let limits = [
            self.options.max_cost,
            options.budget_per_session,
            safety.guards.total_cost(&safety.profile),
        ];
        vec![
            SpendScope {
                name: format!("session {}", session.id),
                limit: limits.into_iter().flatten().min(),
            },
            self.runtime.day_budget(),
        ]
    }
}

fn model_name(text: &str) -> Result<ModelName, OperationError> {
    text.parse().map_err(OperationError::from_service)
}

/// The error for a name that is neither a registered actor nor the name of a model.
fn unknown_model(name: &ModelName, actors: &[String], models: &[String]) -> OperationError {
    let message = format!("there is no model or actor `{name}`");
    let known = models.iter().chain(actors).map(String::as_str);
    let similar = nearest::all(&name.to_string(), known, SIMILAR_NAMES);
    OperationError::new(Code::ActorNotFound, message).with_hint(if similar.is_empty() {
        hint!(
            "`{}` is not a known provider: {} shows the models, {} the actors",
            name.provider(),
            suggest::model_list(),
            suggest::actor_list()
        )
    } else {
        hint!(
            "did you mean `{}`? {} shows the models, {} the actors",
            similar.join("` or `"),
            suggest::model_list(),
            suggest::actor_list()
        )
    })
}

/// The error for an actor that cannot answer in a session.
fn not_a_model(name: &str) -> OperationError {
    let message = format!("`{name}` is an actor with its own file, not a model");
    OperationError::usage(message).with_hint(hint!(
        "run it: {} keeps a conversation with it",
        suggest::actor_run_in_context(name, Placeholder("PROMPT"), Placeholder("NAME"))
    ))
}
