//! The checks before a call runs, in their order.
//!
//! exists → arguments → plan and phase → safety profile → guards → permission rules → sandbox and
//! checkpoint → approval. The only effect of the checks is a budget reservation, which a later refusal
//! releases.

use serde_json::Value;

use super::call::read_call;
use super::{CallContext, CallRequest, PlanMode, RefusalReason};
use crate::capability::Environment;
use crate::name::ToolName;
use crate::ports::{
    Approval, ApprovalRequest, BudgetRefusal, PortError, Reservation, Spending, redact_value,
};
use crate::registry::{Entry, Registry};
use crate::safety::{Consent, Decision, PermissionRules};
use crate::spec::{Category, Source, ToolSpec, WorkspaceNeed};
use crate::tool::{PrepareContext, PrepareError, PreparedCall, Subject};

/// A call that passed all checks.
pub(super) struct AdmittedCall<'a> {
    pub(super) entry: &'a Entry,
    pub(super) prepared: Box<dyn PreparedCall + 'a>,
    /// Redacted arguments.
    pub(super) arguments: Value,
    pub(super) reservation: Box<dyn Reservation + 'a>,
    pub(super) consent: Consent,
}

/// Reason why a call does not run.
pub(super) enum Stop {
    /// A check refused the call.
    Refused(RefusalReason),
    /// A port failed; contains the action that needed it and the error.
    Broken(&'static str, PortError),
}

impl From<RefusalReason> for Stop {
    fn from(reason: RefusalReason) -> Self {
        Self::Refused(reason)
    }
}

pub(super) fn admit<'a>(
    registry: &'a Registry,
    request: &CallRequest,
    context: &CallContext<'a>,
) -> Result<AdmittedCall<'a>, Stop> {
    let (entry, arguments) = read_call(registry, request, context.redactor)?;
    let spec = entry.tool.spec();
    let replaced = ReplacedTools::new(registry, entry, &arguments);
    check_plan(spec, context)?;
    check_profile(spec, &replaced, context)?;
    let reservation = check_guards(spec, &replaced, context)?;
    let redacted = redact_value(context.redactor, &arguments);
    let prepared = prepare(entry, arguments, context)?;
    let subjects = Subjects {
        own: prepared.subjects(),
        by_tool: prepared.subjects_by_tool(),
    };
    let ask_reason = match subjects.decide(context.rules, &spec.name) {
        Decision::Deny(why) => return Err(RefusalReason::Rule(why).into()),
        Decision::Ask(why) => Some(why),
        Decision::Allow => None,
    };
    check_sandbox(spec, context)?;
    let consent = approve(spec, &replaced, &redacted, &subjects, ask_reason, context)?;
    if context.cancel.is_cancelled() {
        return Err(RefusalReason::Cancelled.into());
    }
    Ok(AdmittedCall {
        entry,
        prepared,
        arguments: redacted,
        reservation,
        consent,
    })
}

/// The tools that a call replaces, such as the file tools for a patch.
struct ReplacedTools<'a> {
    names: Vec<ToolName>,
    /// The replaced tools that are registered.
    specs: Vec<&'a ToolSpec>,
}

impl<'a> ReplacedTools<'a> {
    fn new(registry: &'a Registry, entry: &Entry, arguments: &Value) -> Self {
        let names = entry.tool.acts_as(arguments);
        let specs = registry.list().filter(|spec| names.contains(&spec.name));
        Self {
            specs: specs.collect(),
            names,
        }
    }

    /// Returns whether a list matches the tool or one of the replaced tools; for denylists.
    fn matches_any(&self, own: &ToolName, is_listed: impl Fn(&ToolName) -> bool) -> bool {
        is_listed(own) || self.names.iter().any(is_listed)
    }

    /// Returns whether a list matches the tool or all of the replaced tools; for allowlists.
    fn matches_all(&self, own: &ToolName, is_listed: impl Fn(&ToolName) -> bool) -> bool {
        is_listed(own) || (!self.names.is_empty() && self.names.iter().all(is_listed))
    }
}

/// The subjects of a call that permission rules can match.
struct Subjects {
    own: Vec<Subject>,
    /// Subjects by replaced tool.
    by_tool: Vec<(ToolName, Subject)>,
}

impl Subjects {
    fn decide(&self, rules: &PermissionRules, tool: &ToolName) -> Decision {
        if self.by_tool.is_empty() {
            rules.decide(tool, &self.own)
        } else {
            rules.decide_acting(tool, &self.by_tool)
        }
    }

    /// Rules that allow exactly this call.
    fn always(&self, tool: &ToolName) -> Vec<crate::safety::Rule> {
        if self.by_tool.is_empty() {
            return PermissionRules::always(tool, &self.own);
        }
        let rules = self
            .by_tool
            .iter()
            .map(|(tool, subject)| PermissionRules::always(tool, std::slice::from_ref(subject)));
        let rules: Vec<_> = rules.collect();
        if rules.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        rules.into_iter().flatten().collect()
    }
}

fn check_plan(spec: &ToolSpec, context: &CallContext<'_>) -> Result<(), RefusalReason> {
    let tool = || spec.name.to_string();
    if spec.capability.is_writing() {
        match context.mode {
            PlanMode::ReadOnly => return Err(RefusalReason::ReadOnlyPlan { tool: tool() }),
            PlanMode::Normal(phase) if !phase.allows_writing() => {
                return Err(RefusalReason::ReadOnlyPhase {
                    tool: tool(),
                    phase,
                });
            }
            PlanMode::Trial(_) if spec.category == Category::ShellOperations => {
                if context.workspace.is_none() || !spec.capability.checkpointable {
                    return Err(RefusalReason::MissingSandbox { tool: tool() });
                }
            }
            PlanMode::Trial(phase) => {
                return Err(RefusalReason::TrialPhase {
                    tool: tool(),
                    phase,
                });
            }
            PlanMode::Normal(_) => {}
        }
    }
    // A tool that requires a container never falls back to the host.
    match &spec.capability.environment {
        Environment::Anywhere | Environment::PreferContainer => Ok(()),
        Environment::RequireContainer => Err(RefusalReason::NoContainer("a container".to_owned())),
        Environment::Specific(name) => Err(RefusalReason::NoContainer(format!(
            "the container `{name}`"
        ))),
    }
}

fn check_profile(
    spec: &ToolSpec,
    replaced: &ReplacedTools<'_>,
    context: &CallContext<'_>,
) -> Result<(), RefusalReason> {
    let profile = context.profile;
    let refused = |why: String| Err(RefusalReason::Profile(why));
    if spec.capability.is_unsafe && !profile.allow_unsafe_tools {
        return refused(format!("`{}` is declared unsafe", spec.name));
    }
    if !profile.allow_changes && spec.capability.is_writing() {
        return refused(format!(
            "it allows no changes, and `{}` makes changes",
            spec.name
        ));
    }
    let categories = profile.allowed_categories.as_deref();
    if categories.is_some_and(|allowed| !allowed.contains(&spec.category)) {
        return refused(format!(
            "it does not allow tools of the category `{}`",
            spec.category.as_str()
        ));
    }
    let denied = |name: &ToolName| {
        let mut patterns = profile.denied_tools.iter();
        patterns.any(|pattern| pattern.matches(name))
    };
    if replaced.matches_any(&spec.name, denied) {
        return refused(format!("it denies `{}`", spec.name));
    }
    let allowed = |name: &ToolName| profile.allowed_tools.allows(name);
    if !replaced.matches_all(&spec.name, allowed) {
        return refused(format!(
            "`{}` is not on its list of allowed tools",
            spec.name
        ));
    }
    Ok(())
}

fn check_guards<'a>(
    spec: &'a ToolSpec,
    replaced: &ReplacedTools<'_>,
    context: &CallContext<'a>,
) -> Result<Box<dyn Reservation + 'a>, Stop> {
    let guards = context.guards;
    let denied = |name: &ToolName| {
        let mut patterns = guards.denylist.iter();
        patterns.any(|pattern| pattern.matches(name))
    };
    if replaced.matches_any(&spec.name, denied) {
        return Err(RefusalReason::Denylist(spec.name.to_string()).into());
    }
    if !replaced.matches_all(&spec.name, |name| guards.allowlist.allows(name)) {
        return Err(RefusalReason::NotOnAllowlist(spec.name.to_string()).into());
    }
    let spending = Spending {
        tool: &spec.name,
        cost: spec.cost,
        limits: guards.spending_limits(context.profile),
    };
    context
        .budget
        .reserve(&spending)
        .map_err(|refusal| match refusal {
            BudgetRefusal::Calls { limit } => RefusalReason::CallLimit { limit }.into(),
            BudgetRefusal::Money { limit, used } => RefusalReason::Budget { limit, used }.into(),
            BudgetRefusal::Failed(source) => Stop::Broken("reserving the cost", source),
        })
}

fn prepare<'a>(
    entry: &'a Entry,
    arguments: Value,
    context: &CallContext<'a>,
) -> Result<Box<dyn PreparedCall + 'a>, RefusalReason> {
    let spec = entry.tool.spec();
    let missing = || RefusalReason::MissingSandbox {
        tool: spec.name.to_string(),
    };
    if spec.workspace_need == WorkspaceNeed::Required && context.workspace.is_none() {
        return Err(missing());
    }
    let prepare_context = PrepareContext {
        workspace: context.workspace,
    };
    entry
        .tool
        .prepare(arguments, prepare_context)
        .map_err(|why| match why {
            PrepareError::Arguments(message) => RefusalReason::BadArguments(message),
            PrepareError::BadPath { path, why } => RefusalReason::OutsideSandbox { path, why },
            PrepareError::ReadOnlyPart(alias) => RefusalReason::ReadOnlyPart(alias),
            PrepareError::NoWorkspace => missing(),
        })
}

fn check_sandbox(spec: &ToolSpec, context: &CallContext<'_>) -> Result<(), RefusalReason> {
    if !spec.capability.is_writing() {
        return Ok(());
    }
    let tool = || spec.name.to_string();
    // A sandbox cannot contain, and a checkpoint cannot roll back, changes that an MCP server makes elsewhere.
    // The user approves the call instead, unless the definition sets `needs_approval: false`.
    if spec.source == Source::Mcp && !spec.capability.checkpointable {
        return Ok(());
    }
    let Some(workspace) = context.workspace else {
        return if context.profile.require_sandbox {
            Err(RefusalReason::MissingSandbox { tool: tool() })
        } else if context.profile.require_checkpoints {
            Err(RefusalReason::MissingCheckpoint {
                tool: tool(),
                why: "there is no sandbox".to_owned(),
            })
        } else {
            Ok(())
        };
    };
    let why = if !spec.capability.checkpointable {
        "its changes cannot be rolled back"
    } else if !workspace.has_checkpoints() {
        "the sandbox does not support checkpoints"
    } else {
        return Ok(());
    };
    if context.profile.require_checkpoints {
        return Err(RefusalReason::MissingCheckpoint {
            tool: tool(),
            why: why.to_owned(),
        });
    }
    Ok(())
}

/// Asks the user for approval where it is required.
fn approve(
    spec: &ToolSpec,
    replaced: &ReplacedTools<'_>,
    arguments: &Value,
    subjects: &Subjects,
    ask_reason: Option<String>,
    context: &CallContext<'_>,
) -> Result<Consent, RefusalReason> {
    let mut reasons: Vec<String> = ask_reason.into_iter().collect();
    let is_mcp = spec.source == Source::Mcp;
    let is_network = ["shell-network", "fetch-url"]
        .iter()
        .any(|name| spec.name == ToolName::builtin(name));
    if spec.capability.needs_approval && is_mcp {
        if !context.rules.allows_by_name(&spec.name) {
            let why = "is a tool of an MCP server whose changes cannot be rolled back";
            reasons.push(format!("`{}` {why}", spec.name));
        }
    } else if spec.capability.needs_approval && is_network {
        if !context.rules.allows_explicitly(&spec.name, &subjects.own) {
            reasons.push("it uses the network".to_owned());
        }
    } else if spec.capability.needs_approval {
        reasons.push(format!("`{}` requires it for every call", spec.name));
    }
    let requiring_tools = replaced
        .specs
        .iter()
        .filter(|spec| spec.capability.needs_approval);
    reasons
        .extend(requiring_tools.map(|spec| format!("`{}` requires it for every call", spec.name)));
    if context.profile.require_human_approval && spec.category != Category::Conversation {
        reasons.push("the safety profile requires it for every call".to_owned());
    }
    if context.guards.require_approval_for_writes && spec.capability.is_writing() {
        reasons.push("a guard requires it for every change".to_owned());
    }
    if reasons.is_empty() {
        return Ok(Consent::NotRequired);
    }
    let reason = reasons.join("; ");
    let reason = context.redactor.redact(&reason).into_owned();
    // A rule that would contain a secret is not offered.
    let always = if is_mcp {
        PermissionRules::always(&spec.name, &[])
    } else if is_network {
        PermissionRules::always(&spec.name, &subjects.own)
    } else {
        subjects.always(&spec.name)
    };
    let always_server = is_mcp
        .then(|| PermissionRules::always_for_server(&spec.name))
        .flatten();
    let has_secret = always.iter().any(|rule| {
        let text = rule.to_string();
        context.redactor.redact(&text) != text
    });
    let request = ApprovalRequest {
        tool: &spec.name,
        description: &spec.description,
        arguments,
        reason: &reason,
        always: if has_secret { &[] } else { &always },
        always_server: always_server.as_ref(),
    };
    match context.approver.approve(&request) {
        Approval::Once | Approval::Always | Approval::AlwaysServer => Ok(Consent::Given),
        Approval::Refused(note) => Err(RefusalReason::ApprovalRefused { note }),
        Approval::NoUser => {
            let rules = always.iter().chain(&always_server);
            let rules = rules
                .filter(|_| is_mcp || is_network)
                .map(ToString::to_string);
            Err(RefusalReason::NoApprover {
                reason,
                rules: rules.collect(),
            })
        }
    }
}
