//! What every command needs that calls tools: the person to ask, secrets to take out, rules, money,
//! the sandbox to act in, and an end by signals.

mod person;
mod safety;
mod signals;

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use cleveragents_domain::{Code, Timestamp};
use cleveragents_engine::{
    LeftOut, SandboxError, SandboxWorkspace, SpendScope, Target, ToolError, ToolService,
};
use cleveragents_models::{Catalogue, Redactor};
use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_tools::ports::Redact;
use cleveragents_tools::{CallOutcome, Effect, PermissionRules, Phase, PlanMode, Registry};
use serde_json::Value;

use crate::context::Context;
use crate::output::{CommandError, visible_lines};

pub(crate) use person::{Terminal, ask};
pub(crate) use safety::{InForce, in_force, listed, named};
pub(crate) use signals::{heed_signals, stop_on_signals};

/// Replaces the secrets of the environment, the keyring and the configuration.
pub(crate) struct Secrets(Redactor);

impl Secrets {
    pub(crate) fn of(catalogue: &Catalogue) -> Self {
        Self(catalogue.redactor())
    }

    /// A value without secrets.
    pub(crate) fn out_of(&self, value: &Value) -> Value {
        self.0.value(value)
    }
}

impl Redact for Secrets {
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.text(text)
    }

    fn unfinished(&self, text: &str) -> usize {
        self.0.unfinished(text)
    }
}

/// The remembered rules and those of the command line, above the floor.
pub(crate) fn rules(
    context: &Context,
    tools: &ToolService,
    given: &[String],
) -> Result<PermissionRules, ToolError> {
    let rules = tools.rules(given, Effect::Allow)?;
    Ok(rules.protecting([context.home.path().to_owned()]))
}

/// What may be done: everything a session may, or only looking.
pub(crate) const fn mode(is_read_only: bool) -> PlanMode {
    if is_read_only {
        PlanMode::ReadOnly
    } else {
        PlanMode::Normal(Phase::Session)
    }
}

/// What today may cost.
pub(crate) fn day_scope(context: &Context) -> SpendScope {
    let now = Timestamp::now().to_string();
    let day = now.get(..10).unwrap_or(&now);
    SpendScope {
        name: format!("day {day}"),
        limit: context.settings.budget_per_day(),
    }
}

/// The sandbox that tools act in: the one named, or one of a project's resources, which is called
/// what `name_it` makes of the project's id and made when it is not there. `cancel` also ends looks at
/// its files.
pub(crate) fn workspace(
    context: &Context,
    cancel: &Cancel,
    sandbox: Option<&str>,
    project: Option<&str>,
    name_it: impl FnOnce(&str) -> String,
) -> Result<Option<SandboxWorkspace>, CommandError> {
    let service = context.sandboxes()?.interrupted_by(cancel);
    let name = match (sandbox, project) {
        (Some(name), _) => name.to_owned(),
        (None, Some(project)) => {
            let (project, links) = context.projects()?.view(project)?;
            let name = name_it(&project.id.to_string().to_ascii_lowercase());
            let mut targets = Target::of_project(&context.resources()?, &links)?;
            if targets.is_empty() {
                let message = format!("the project `{}` links no resource", project.name);
                return Err(CommandError::new(Code::LocationNotFound, message)
                    .with_hint("link one: `agents project link-resource PROJECT RESOURCE`"));
            }
            Target::make_distinct(&mut targets);
            let is_there = match service.find(&name) {
                // One that was applied or discarded gives its name to the next.
                Ok(found) => !found.sandbox.state.is_over(),
                Err(SandboxError::NotFound(_)) => false,
                Err(error) => return Err(error.into()),
            };
            if !is_there {
                service.create(&name, &format!("project {}", project.name), &targets)?;
            }
            name
        }
        (None, None) => return Ok(None),
    };
    let open = service.open(&name)?;
    Ok(Some(SandboxWorkspace::new(
        service,
        open,
        WhenMissing::Warn,
    )?))
}

/// The paths that calls changed, each once.
pub(crate) fn files_changed<'o>(
    outcomes: impl IntoIterator<Item = &'o CallOutcome>,
) -> Vec<String> {
    let mut paths: Vec<String> = outcomes
        .into_iter()
        .flat_map(|outcome| match outcome {
            CallOutcome::Succeeded(done) => done.captured.changes.as_slice(),
            CallOutcome::Failed(failed) => failed.captured.changes.as_slice(),
            CallOutcome::Refused(_) => &[],
        })
        .map(|(alias, change)| format!("{alias}/{}", change.path))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// How a call ended in a word, and why when it did not succeed.
pub(crate) fn ending(outcome: &CallOutcome) -> (&'static str, Option<String>) {
    match outcome {
        CallOutcome::Succeeded(_) => ("succeeded", None),
        CallOutcome::Failed(failed) => ("failed", Some(failed.message.clone())),
        CallOutcome::Refused(refusal) => ("refused", Some(refusal.reason.to_string())),
    }
}

/// The tools that can be called. Those that cannot be read any more are named on standard error.
pub(crate) fn registry(context: &Context, tools: &ToolService) -> Result<Arc<Registry>, ToolError> {
    let callable = tools.registry(&context.variables())?;
    for LeftOut { name, why } in &callable.left_out {
        let warning = format!(
            "warning: the tool {name} is left out, its file cannot be read: {why}\n  \
             mend it with `agents tool add --config FILE --update`, or `agents tool remove {name}`\n"
        );
        // Nobody may be there to read it.
        let _told = std::io::stderr().write_all(visible_lines(&warning).as_bytes());
    }
    Ok(Arc::new(callable.registry))
}
