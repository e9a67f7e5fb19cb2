//! [`AgentRuntime`]: assembles models, tools, safety, permission rules, budgets, instructions and
//! sandbox from plain options.
//!
//! Conversations ([`Conversation`]), runs of actors ([`ActorRunner`]) and the phases of plans
//! (`plan/`) all use it. It calls the front end only through the approver and the observer of a
//! request.

mod actor_run;
mod approvals;
mod conversation;
mod models;
mod safety;
mod tool_call;
mod toolset;
mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_actors::Actor;
use cleveragents_domain::{MicroUsd, Timestamp};
use cleveragents_mcp::Variables;
use cleveragents_models::{Catalogue, ModelName, Redactor};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;
use cleveragents_tools::ports::Approver;
use cleveragents_tools::{Effect, PermissionRules, Phase, PlanMode};

use crate::actor::{ActorBundle, ActorService, ActorWorld, FoundActor};
use crate::environment::environment;
use crate::observer::Observer;
use crate::operation::OperationError;
use crate::project::ProjectService;
use crate::resource::ResourceService;
use crate::run::{
    CarriedConversation, ModelSource as _, RunContext, ToolSources as _, UnknownOutcome, WorkState,
};
use crate::sandbox::SandboxService;
use crate::session::SessionService;
use crate::tool::{ProjectRules, SandboxWorkspace, SpendScope, ToolService};
use crate::turn::{DEFAULT_WINDOW, ReportTools, instructions, project_instructions};

pub(crate) use actor_run::stored_actor;
pub use actor_run::{
    ActorRunOptions, ActorRunReport, ActorRunRequest, ActorRunner, RunFrontEnd, RunPlace,
    answer_text, parse_usd,
};
pub use approvals::RememberingApprover;
pub use conversation::{
    Conversation, ConversationAnswer, ConversationCompaction, ConversationOptions, ConversationTurn,
};
pub use safety::{EffectiveSafety, SafetyLayer, SafetySelection, find_safety_profile};
pub use tool_call::ToolCallRequest;
pub use toolset::{
    ConnectedTools, ToolRequirements, Toolset, ToolsetOptions, WarningHandler, agents_of,
    for_each_node, mcp_server_homes, mcp_server_options,
};

use models::CatalogueModels;

/// Options of a runtime. A front end fills them from its configuration.
pub struct RuntimeOptions {
    /// The database.
    pub engine: Arc<Engine>,
    /// The catalogue of models.
    pub catalogue: Catalogue,
    /// The model of actors and conversations that do not name a model.
    pub default_model: Option<ModelName>,
    /// The data folder of the program. No tool may access it.
    pub home: PathBuf,
    /// The folder of the sandboxes.
    pub sandboxes: PathBuf,
    /// The folder against which relative paths of commands and MCP servers are resolved.
    pub working_folder: PathBuf,
    /// Values of `${VARIABLE}` in definitions.
    pub variables: Variables,
    /// Maximum size of a message of a session, in bytes.
    pub max_message_bytes: usize,
    /// Spending limit of a session or run.
    pub budget_per_session: Option<MicroUsd>,
    /// Spending limit of one day.
    pub budget_per_day: Option<MicroUsd>,
    /// The safety profile and guards of everything that this runtime runs.
    pub safety: EffectiveSafety,
    /// Warns the user about omitted tools and servers, such as a server that did not start.
    pub warn: WarningHandler,
}

/// Models, tools and limits of agents. See the module documentation.
pub struct AgentRuntime {
    options: RuntimeOptions,
    toolset: Toolset,
    /// Connected tools by requirements, so that the next step reuses running servers.
    connected: Mutex<BTreeMap<ToolRequirements, Arc<ConnectedTools>>>,
    /// Warnings about the rules of projects that were shown.
    warned: Mutex<BTreeSet<String>>,
}

/// A request to run one actor, and its limits.
pub struct AgentRequest<'a> {
    pub actor: &'a Actor,
    /// The label of the budget of the run, such as `plan 01J9…`.
    pub budget_name: String,
    /// Spending limits in addition to the limits of the actor and the safety profile. The smallest limit
    /// applies.
    pub cost_limits: Vec<Option<MicroUsd>>,
    /// Budgets that the run shares with others: labels and limits. A call is made only if it fits in all of them.
    pub shared_budgets: Vec<(String, Option<MicroUsd>)>,
    /// The plan that the run belongs to.
    pub plan: Option<cleveragents_domain::PlanId>,
    /// Skills and servers in addition to those that the actor names.
    pub requirements: ToolRequirements,
    /// Patterns of tools that every agent of the actor has in addition to its own.
    pub extra_tools: &'a [String],
    pub workspace: Option<&'a SandboxWorkspace>,
    /// The capabilities that the plan or session allows.
    pub mode: PlanMode,
    /// Restrictions in addition to the safety of the runtime, such as the profile of a plan.
    pub safety: Vec<EffectiveSafety>,
    /// Permission rules in addition to the stored rules.
    pub rules: &'a [String],
    /// Instructions that every model request contains, even when a long conversation is shortened.
    pub instructions: Vec<String>,
    /// The system prompt for summaries of long conversations; `None` for the built-in prompt.
    pub summary_prompt: Option<String>,
    /// Tools with which agents report their results.
    pub reports: ReportTools<'a>,
    /// The conversation that the run continues.
    pub carried: Option<CarriedConversation>,
    /// The state of the work, for reminders and for prompts that continue a failed turn.
    pub work: Option<&'a dyn WorkState>,
    /// Overrides the temperature of the actor.
    pub temperature: Option<f64>,
    /// Asks the user for approvals and answers.
    pub approver: &'a dyn Approver,
    /// Receives progress events.
    pub observer: &'a dyn Observer,
    /// Stops the run.
    pub cancel: &'a Cancel,
    /// Treatment of tool calls whose outcome is unknown.
    pub unknown_outcome: UnknownOutcome,
}

impl AgentRuntime {
    /// Reads the registered tools, skills and servers. Does not start servers.
    pub fn new(options: RuntimeOptions) -> Result<Self, OperationError> {
        let toolset = Toolset::new(&ToolsetOptions {
            engine: &options.engine,
            catalogue: &options.catalogue,
            home: &options.home,
            working_folder: &options.working_folder,
            variables: &options.variables,
            warn: &options.warn,
        })?;
        Ok(Self {
            toolset,
            options,
            connected: Mutex::default(),
            warned: Mutex::default(),
        })
    }

    /// The options of this runtime.
    pub const fn options(&self) -> &RuntimeOptions {
        &self.options
    }

    /// The registered tools, skills and servers.
    pub const fn toolset(&self) -> &Toolset {
        &self.toolset
    }

    /// Removes secrets from text that is stored or displayed.
    pub fn redactor(&self) -> Redactor {
        self.options.catalogue.redactor()
    }

    /// The tools, skills, servers, models and variables that actor files may refer to.
    pub fn actor_world(&self) -> ActorWorld<'_> {
        self.toolset.actor_world()
    }

    /// Loads a registered actor, a built-in actor, or the actor of a model.
    pub fn actor(&self, name: &str) -> Result<FoundActor, OperationError> {
        Ok(self.actors().find(name, self.actor_world())?)
    }

    /// Loads the actor of an earlier run from the files that the run started with.
    pub fn bundled_actor(&self, bundle: &ActorBundle) -> Result<Arc<Actor>, OperationError> {
        Ok(self.actors().from_bundle(bundle, self.actor_world())?)
    }

    /// Context window of an actor with a single agent, in tokens. `None` when the actor has several
    /// agents or a remote agent, or when its model cannot be opened or cannot call tools.
    pub(crate) fn input_tokens(&self, actor: &Actor) -> Option<u64> {
        let agents = toolset::agents_of(actor);
        let [agent] = agents.as_slice() else {
            return None;
        };
        if agent.remote.is_some() {
            return None;
        }
        let models = CatalogueModels {
            catalogue: &self.options.catalogue,
            default: self.options.default_model.as_ref(),
        };
        let model = models.open(agent.model.as_deref()).ok()?;
        let capabilities = model.capabilities();
        if !capabilities.tools {
            return None;
        }
        let output = capabilities.output_tokens(agent.max_output_tokens);
        let window = capabilities.input_tokens(output).unwrap_or(DEFAULT_WINDOW);
        let limit = agent.memory.max_tokens.unwrap_or(window);
        Some(window.min(limit))
    }

    pub(crate) fn actors(&self) -> ActorService {
        ActorService::new(Arc::clone(&self.options.engine))
    }

    pub(crate) fn tools(&self) -> ToolService {
        ToolService::new(Arc::clone(&self.options.engine))
    }

    pub(crate) fn sessions(&self) -> SessionService {
        SessionService::new(
            Arc::clone(&self.options.engine),
            self.options.max_message_bytes,
        )
    }

    fn sandboxes(&self) -> SandboxService {
        SandboxService::new(
            Arc::clone(&self.options.engine),
            self.options.sandboxes.clone(),
        )
    }

    fn projects(&self) -> ProjectService {
        ProjectService::new(Arc::clone(&self.options.engine))
    }

    fn resources(&self) -> ResourceService {
        ResourceService::new(Arc::clone(&self.options.engine))
    }

    /// The stored permission rules and the rules of a request. No rule can allow access to the data
    /// folder of the program.
    pub fn rules(&self, given: &[String]) -> Result<PermissionRules, OperationError> {
        let rules = self.tools().rules(given, Effect::Allow)?;
        Ok(rules.protecting([self.options.home.clone()]))
    }

    /// Adds the rules in the files of the projects in a sandbox. They can only tighten `rules`.
    pub(crate) fn tightened(
        &self,
        mut rules: PermissionRules,
        workspace: Option<&SandboxWorkspace>,
    ) -> Result<PermissionRules, OperationError> {
        let members = workspace.map(|workspace| workspace.view().members.as_slice());
        for member in members.unwrap_or_default() {
            let project = ProjectRules::read(&member.location)?;
            for warning in project.warnings() {
                let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
                if warned.insert(warning.clone()) {
                    (self.options.warn)(&warning.into());
                }
            }
            rules = rules.tightened_by(project.rules.into_iter().map(|rule| rule.rule));
        }
        Ok(rules)
    }

    /// The budget of the current day (UTC).
    pub fn day_budget(&self) -> SpendScope {
        let now = Timestamp::now().to_string();
        let day = now.get(..10).unwrap_or(&now);
        SpendScope {
            name: format!("day {day}"),
            limit: self.options.budget_per_day,
        }
    }

    /// Reads skills and starts servers, or reuses running servers.
    pub fn connect(&self, needs: ToolRequirements) -> Result<Arc<ConnectedTools>, OperationError> {
        let mut connected = self
            .connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = connected.get(&needs) {
            return Ok(Arc::clone(running));
        }
        let tools = Arc::new(self.toolset.connect(&needs)?);
        connected.insert(needs, Arc::clone(&tools));
        Ok(tools)
    }

    /// The standing instructions of the program, the environment, the skills, the code in the sandbox,
    /// and the request, in this order.
    pub(crate) fn instructions(
        &self,
        workspace: Option<&SandboxWorkspace>,
        skills: Option<String>,
        request_instructions: &[String],
    ) -> Vec<String> {
        let redactor = self.redactor();
        let mut all = vec![instructions(workspace)];
        let is_shown = |rules: PermissionRules| {
            let mut rules = rules.rules();
            rules.all(|rule| rule.effect() != Effect::Deny)
        };
        let rules = self.rules(&[]);
        let rules = rules.and_then(|rules| self.tightened(rules, workspace));
        let lists_files = rules.is_ok_and(is_shown);
        let others = std::iter::once(environment(workspace, lists_files))
            .chain(skills)
            .chain(workspace.and_then(project_instructions));
        all.extend(others.map(|text| redactor.text(&text).into_owned()));
        all.extend(request_instructions.iter().cloned());
        all
    }

    /// Assembles the run context of a request and calls `run` with it.
    pub fn run<T>(
        &self,
        request: &AgentRequest<'_>,
        run: impl FnOnce(&RunContext<'_>) -> T,
    ) -> Result<T, OperationError> {
        let mut needs = self.toolset.requirements(request.actor);
        needs
            .skills
            .extend(request.requirements.skills.iter().cloned());
        needs
            .servers
            .extend(request.requirements.servers.iter().cloned());
        let connected = self.connect(needs)?;
        let mut safety = self.options.safety.clone();
        for narrower in &request.safety {
            safety.narrow(narrower);
        }
        let rules = self.tightened(self.rules(request.rules)?, request.workspace)?;
        let extra_tools = toolset::extra_tools(&connected, request)?;
        let mut limits = request.cost_limits.clone();
        limits.push(request.actor.graph.limits.max_cost);
        limits.push(safety.guards.total_cost(&safety.profile));
        let mut scopes = vec![SpendScope {
            name: request.budget_name.clone(),
            limit: limits.into_iter().flatten().min(),
        }];
        let shared = request.shared_budgets.iter().cloned();
        scopes.extend(shared.map(|(name, limit)| SpendScope { name, limit }));
        scopes.push(self.day_budget());
        let skills: Vec<String> = request.requirements.skills.iter().cloned().collect();
        let approver = RememberingApprover::new(self.tools(), request.approver);
        let context = RunContext {
            models: &CatalogueModels {
                catalogue: &self.options.catalogue,
                default: self.options.default_model.as_ref(),
            },
            registry: &connected.registry,
            sources: &*connected,
            deferred: &connected.deferred,
            extra_tools: &extra_tools,
            plan: request.plan,
            mode: request.mode,
            profile: &safety.profile,
            guards: &safety.guards,
            rules: &rules,
            workspace: request.workspace,
            approver: &approver,
            scopes,
            instructions: self.instructions(
                request.workspace,
                connected.disclosure(&skills),
                &request.instructions,
            ),
            summary_prompt: request.summary_prompt.clone(),
            reports: request.reports,
            carried: request.carried.clone(),
            work: request.work,
            temperature: request.temperature,
            redactor: self.redactor(),
            observer: request.observer,
            cancel: request.cancel,
            unknown_outcome: request.unknown_outcome,
        };
        Ok(run(&context))
    }
}

/// The plan mode that sets the permissions of the tools of a session or an actor run.
pub const fn session_mode(is_read_only: bool) -> PlanMode {
    if is_read_only {
        PlanMode::ReadOnly
    } else {
        PlanMode::Normal(Phase::Session)
    }
}
