//! `session tell`: a question, answered by a model that acts through tools.

mod shown;

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{MicroUsd, Session, Turn};
use cleveragents_engine::{
    SandboxWorkspace, SpendScope, ToolService, TurnError, TurnRequest, TurnService, TurnSettings,
    TurnTools, Waiting, instructions,
};
use cleveragents_models::{CancellationToken, ModelName};
use cleveragents_process::Cancel;
use cleveragents_tools::Gate;

use super::append::read_text;
use crate::arguments::SessionTell;
use crate::commands::tooling::{self, Terminal};
use crate::context::Context;
use crate::output::{CommandError, Report};
use shown::Watcher;

/// How long to wait for another turn of the session.
const PATIENCE: Duration = Duration::from_mins(10);

pub(super) fn run(context: &Context, arguments: &SessionTell) -> Result<Report, CommandError> {
    let sessions = context.sessions()?;
    let session = sessions.get(sessions.resolve(&arguments.session)?)?;
    let prompt = match arguments.prompt.as_deref() {
        _ if arguments.resume => None,
        Some("-") => Some(read_text(context)?),
        other => Some(other.unwrap_or_default().to_owned()),
    };
    let catalogue = context.models(arguments.record.as_deref())?;
    let engine = context.engine()?;
    let tools = ToolService::new(Arc::clone(&engine));
    let rules = tooling::rules(context, &tools, &arguments.rule)?;
    let safety = tooling::in_force(context, &arguments.safety)?;
    let most = safety.guards.total_cost(&safety.profile);
    let scopes = scopes(context, arguments, &session, most)?;
    let turns = TurnService::new(engine, sessions);
    let gate = Gate::new(tooling::registry(context, &tools)?);
    let terminal = Terminal::new(tools);
    let watcher = Watcher::new(context.printer, arguments.stream);
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = tooling::stop_on_signals(&cancel, &stop)?;
    // Dropped after the sandbox, which the next turn of the session takes at once.
    let mut taken = turns.take(
        session.id,
        &Waiting {
            patience: PATIENCE,
            observer: &watcher,
            cancel: &cancel,
        },
    )?;
    let left = taken.interrupted().filter(|_| arguments.resume);
    if arguments.resume && left.is_none() {
        return Err(TurnError::NothingToResume(session.id).into());
    }
    let model = catalogue.open(&model_name(context, arguments, &session, left)?)?;
    let (sandbox, project) = (arguments.sandbox.as_deref(), arguments.project.as_deref());
    // A turn that is gone on with stays in its own sandbox.
    let own = left.and_then(|turn| turn.sandbox.as_deref());
    let sandbox = sandbox.or_else(|| own.filter(|_| project.is_none()));
    // Each session has a sandbox of its own, whatever the project.
    let workspace = tooling::workspace(context, sandbox, project, |_| {
        format!("session-{}", session.id).to_ascii_lowercase()
    })?;
    let request = TurnRequest {
        prompt: prompt.clone(),
        model,
        actor: session.actor.clone(),
        system: vec![instructions(workspace.as_ref())],
        tools: TurnTools {
            gate: &gate,
            mode: tooling::mode(arguments.read_only),
            profile: &safety.profile,
            guards: &safety.guards,
            rules: &rules,
            workspace: workspace.as_ref(),
            approver: &terminal,
        },
        scopes,
        redactor: catalogue.redactor(),
        settings: TurnSettings::default(),
        observer: &watcher,
        cancel: &cancel,
        stop,
    };
    let outcome = turns.tell(&mut taken, &request);
    signals.close();
    watcher.end();
    let report = outcome?;
    let sandbox = workspace.as_ref().map(SandboxWorkspace::name);
    Ok(shown::report(
        &session,
        prompt.as_deref(),
        &report,
        sandbox,
        arguments.stream,
        watcher.elapsed(),
    ))
}

/// Who answers: the one named, the one that was interrupted, the session's actor, or the usual one.
fn model_name(
    context: &Context,
    arguments: &SessionTell,
    session: &Session,
    left: Option<&Turn>,
) -> Result<ModelName, CommandError> {
    let named = arguments.actor.as_ref();
    if let Some(name) = named.or_else(|| left.map(|turn| &turn.model)) {
        return Ok(name.parse()?);
    }
    if let Some(actor) = &session.actor {
        return Ok(actor.to_string().parse()?);
    }
    context.settings.model_default().cloned().ok_or_else(|| {
        CommandError::usage("no model is named").with_hint(
            "name one with --actor PROVIDER/MODEL, or for always: `agents config set model.default PROVIDER/MODEL`; \
             `agents model list` shows what there is",
        )
    })
}

/// What is counted, and what may be spent.
fn scopes(
    context: &Context,
    arguments: &SessionTell,
    session: &Session,
    most: Option<MicroUsd>,
) -> Result<Vec<SpendScope>, CommandError> {
    let asked = arguments
        .max_cost
        .as_deref()
        .map(|text| {
            let dollars: Option<f64> = text.trim_start_matches('$').parse().ok();
            dollars
                .and_then(MicroUsd::from_usd_rounded_up)
                .ok_or_else(|| {
                    CommandError::usage(format!("`{text}` is not an amount of US dollars"))
                        .with_hint("write it like 0.50")
                })
        })
        .transpose()?;
    let configured = context.settings.budget_per_session();
    Ok(vec![
        SpendScope {
            name: format!("session {}", session.id),
            limit: [asked, configured, most].into_iter().flatten().min(),
        },
        tooling::day_scope(context),
    ])
}
