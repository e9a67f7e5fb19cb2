//! Everything that is looked at before a call may run, in the order in which it is looked at.
//!
//! exists → arguments → plan and phase → safety profile → guards → permission rules → sandbox and
//! checkpoint → approval. Nothing here has an effect; what was reserved is given back when a later
//! step refuses.

use jsonschema::Validator;
use serde_json::Value;

use super::{CallContext, CallRequest, PlanMode, RefusalReason};
use crate::capability::Environment;
use crate::ports::{
    Approval, ApprovalRequest, BudgetRefusal, PortError, Redact, Reservation, Spending,
    redact_value,
};
use crate::registry::{Entry, Registry, RegistryError};
use crate::safety::{Consent, Decision, PermissionRules};
use crate::spec::{Category, Ground, Source, ToolSpec};
use crate::tool::{Grounds, Prepared, Subject, Unprepared};

/// So many complaints about arguments are told.
const MOST_COMPLAINTS: usize = 5;

/// A call that may run.
pub(super) struct Admitted<'a> {
    pub(super) entry: &'a Entry,
    pub(super) prepared: Box<dyn Prepared + 'a>,
    /// Its arguments, without secrets.
    pub(super) arguments: Value,
    pub(super) reservation: Box<dyn Reservation + 'a>,
    pub(super) consent: Consent,
}

/// Why a call does not run.
pub(super) enum Stop {
    /// It may not.
    Refused(RefusalReason),
    /// This could not be done.
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
) -> Result<Admitted<'a>, Stop> {
    let entry = find(registry, &request.tool)?;
    let spec = entry.tool.spec();
    let arguments = read_arguments(entry, &request.arguments, context.redactor)
        .map_err(RefusalReason::BadArguments)?;
    check_plan(spec, context)?;
    check_profile(spec, context)?;
    let reservation = check_guards(spec, context)?;
    let kept = redact_value(context.redactor, &arguments);
    let prepared = prepare(entry, arguments, context)?;
    let subjects = prepared.subjects();
    let asked = match context.rules.decide(&spec.name, &subjects) {
        Decision::Deny(why) => return Err(RefusalReason::Rule(why).into()),
        Decision::Ask(why) => Some(why),
        Decision::Allow => None,
    };
    check_sandbox(spec, context)?;
    let consent = approve(spec, &kept, &subjects, asked, context)?;
    if context.cancel.is_cancelled() {
        return Err(RefusalReason::Cancelled.into());
    }
    Ok(Admitted {
        entry,
        prepared,
        arguments: kept,
        reservation,
        consent,
    })
}

fn find<'a>(registry: &'a Registry, name: &str) -> Result<&'a Entry, RefusalReason> {
    registry
        .entry(name)
        .map_err(|error| RefusalReason::UnknownTool {
            name: name
                .chars()
                .filter(|letter| !letter.is_control())
                .take(160)
                .collect(),
            nearest: match error {
                RegistryError::NotFound { nearest, .. } => nearest,
                _ => Vec::new(),
            },
        })
}

fn read_arguments(entry: &Entry, text: &str, redactor: &dyn Redact) -> Result<Value, String> {
    // Some models say nothing where there is nothing to say.
    let text = if text.trim().is_empty() { "{}" } else { text };
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let before = excerpt(text, error.line(), error.column(), redactor);
        format!("they are not JSON: {error}{before}")
    })?;
    if !value.is_object() {
        return Err("they are not a JSON object".to_owned());
    }
    match complaints(&entry.input, &value, redactor) {
        None => Ok(value),
        Some(complaints) => Err(complaints),
    }
}

/// The text just before the place of an error, cut only after secrets are out of it.
fn excerpt(text: &str, line: usize, column: usize, redactor: &dyn Redact) -> String {
    const LONGEST: usize = 40;
    let Some(line) = line.checked_sub(1).and_then(|line| text.lines().nth(line)) else {
        return String::new();
    };
    let end = line.floor_char_boundary(column.min(line.len()));
    let before = redactor.redact(&line[..end]);
    let start = before.floor_char_boundary(before.len().saturating_sub(LONGEST));
    format!(", just after `{}`", &before[start..])
}

/// What a schema has to say against a value.
pub(super) fn complaints(
    schema: &Validator,
    value: &Value,
    redactor: &dyn Redact,
) -> Option<String> {
    let told: Vec<String> = schema
        .iter_errors(value)
        .take(MOST_COMPLAINTS)
        .map(|error| {
            let place = error.instance_path().to_string();
            let whole = error.to_string();
            let message: String = redactor.redact(&whole).chars().take(300).collect();
            if place.is_empty() {
                message
            } else {
                format!("at `{place}`: {message}")
            }
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
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
            PlanMode::Normal(_) => {}
        }
    }
    // A tool that asks for a container never runs on the host instead.
    match &spec.capability.environment {
        Environment::Anywhere | Environment::PreferContainer => Ok(()),
        Environment::RequireContainer => Err(RefusalReason::NoContainer("a container".to_owned())),
        Environment::Specific(name) => Err(RefusalReason::NoContainer(format!(
            "the container `{name}`"
        ))),
    }
}

fn check_profile(spec: &ToolSpec, context: &CallContext<'_>) -> Result<(), RefusalReason> {
    let profile = context.profile;
    let refused = |why: String| Err(RefusalReason::Profile(why));
    if spec.capability.is_unsafe && !profile.allow_unsafe_tools {
        return refused(format!("`{}` calls itself unsafe", spec.name));
    }
    if !profile.allow_changes && spec.capability.is_writing() {
        return refused(format!(
            "nothing may be changed, and `{}` changes things",
            spec.name
        ));
    }
    let categories = profile.allowed_categories.as_deref();
    if categories.is_some_and(|allowed| !allowed.contains(&spec.category)) {
        return refused(format!(
            "tools of the category `{}` are not allowed",
            spec.category.as_str()
        ));
    }
    if profile
        .denied_tools
        .iter()
        .any(|pattern| pattern.matches(&spec.name))
    {
        return refused(format!("it denies `{}`", spec.name));
    }
    if !profile.allowed_tools.allows(&spec.name) {
        return refused(format!("`{}` is not among the tools it allows", spec.name));
    }
    Ok(())
}

fn check_guards<'a>(
    spec: &'a ToolSpec,
    context: &CallContext<'a>,
) -> Result<Box<dyn Reservation + 'a>, Stop> {
    let guards = context.guards;
    let is_meant = |pattern: &crate::ToolPattern| pattern.matches(&spec.name);
    if guards.denylist.iter().any(is_meant) {
        return Err(RefusalReason::Denylist(spec.name.to_string()).into());
    }
    if !guards.allowlist.allows(&spec.name) {
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
            BudgetRefusal::Failed(source) => Stop::Broken("reserving its cost", source),
        })
}

fn prepare<'a>(
    entry: &'a Entry,
    arguments: Value,
    context: &CallContext<'a>,
) -> Result<Box<dyn Prepared + 'a>, RefusalReason> {
    let spec = entry.tool.spec();
    let missing = || RefusalReason::MissingSandbox {
        tool: spec.name.to_string(),
    };
    if spec.ground == Ground::Workspace && context.workspace.is_none() {
        return Err(missing());
    }
    let grounds = Grounds {
        workspace: context.workspace,
    };
    entry
        .tool
        .prepare(arguments, grounds)
        .map_err(|why| match why {
            Unprepared::Arguments(message) => RefusalReason::BadArguments(message),
            Unprepared::Outside { path, why } => RefusalReason::OutsideSandbox { path, why },
            Unprepared::ReadOnlyPart(alias) => RefusalReason::ReadOnlyPart(alias),
            Unprepared::NoWorkspace => missing(),
        })
}

fn check_sandbox(spec: &ToolSpec, context: &CallContext<'_>) -> Result<(), RefusalReason> {
    if !spec.capability.is_writing() {
        return Ok(());
    }
    let tool = || spec.name.to_string();
    // What a server did elsewhere no sandbox holds and no checkpoint undoes: the user is asked instead,
    // unless its definition says `needs_approval: false`.
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
        "what it does cannot be taken back"
    } else if !workspace.has_checkpoints() {
        "the sandbox has none"
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

/// Asks a person, where one is demanded.
fn approve(
    spec: &ToolSpec,
    arguments: &Value,
    subjects: &[Subject],
    asked: Option<String>,
    context: &CallContext<'_>,
) -> Result<Consent, RefusalReason> {
    let mut reasons: Vec<String> = asked.into_iter().collect();
    let is_mcp = spec.source == Source::Mcp;
    if spec.capability.needs_approval && is_mcp {
        if !context.rules.allows_by_name(&spec.name) {
            let why =
                "is a tool of an MCP server that may change something, and nothing can undo it";
            reasons.push(format!("`{}` {why}", spec.name));
        }
    } else if spec.capability.needs_approval {
        reasons.push(format!("`{}` demands it for every call", spec.name));
    }
    if context.profile.require_human_approval && spec.category != Category::Conversation {
        reasons.push("the safety profile demands it for every call".to_owned());
    }
    if context.guards.require_approval_for_writes && spec.capability.is_writing() {
        reasons.push("a guard demands it for every change".to_owned());
    }
    if reasons.is_empty() {
        return Ok(Consent::NotAsked);
    }
    let reason = reasons.join("; ");
    let reason = context.redactor.redact(&reason).into_owned();
    // A rule that would hold a secret is not offered.
    let always = if is_mcp {
        PermissionRules::always(&spec.name, &[])
    } else {
        PermissionRules::always(&spec.name, subjects)
    };
    let always_server = is_mcp
        .then(|| PermissionRules::always_for_server(&spec.name))
        .flatten();
    let holds_secret = always.iter().any(|rule| {
        let text = rule.to_string();
        context.redactor.redact(&text) != text
    });
    let request = ApprovalRequest {
        tool: &spec.name,
        description: &spec.description,
        arguments,
        reason: &reason,
        always: if holds_secret { &[] } else { &always },
        always_server: always_server.as_ref(),
    };
    match context.approver.approve(&request) {
        Approval::Once | Approval::Always | Approval::AlwaysServer => Ok(Consent::Given),
        Approval::Refused(note) => Err(RefusalReason::ApprovalRefused { note }),
        Approval::NobodyThere if is_mcp => {
            let rules: Vec<String> = always
                .iter()
                .chain(&always_server)
                .map(|rule| format!("`agents permission add '{rule}'`"))
                .collect();
            let rules = rules.join(" or ");
            let reason = format!("{reason}; {rules} allows it without asking");
            Err(RefusalReason::NobodyToApprove { reason })
        }
        Approval::NobodyThere => Err(RefusalReason::NobodyToApprove { reason }),
    }
}
