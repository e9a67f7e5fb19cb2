//! `session tell`: a question, answered by a model that acts through tools.

mod shown;

use std::sync::Arc;

use cleveragents_domain::{MicroUsd, Session};
use cleveragents_engine::{
    SandboxWorkspace, SpendScope, ToolService, TurnRequest, TurnService, TurnSettings, TurnTools,
    instructions,
};
use cleveragents_models::{CancellationToken, ModelName};
use cleveragents_process::Cancel;
use cleveragents_tools::{Gate, Guards, SafetyProfile};

use super::append::read_text;
use crate::arguments::SessionTell;
use crate::commands::tooling::{self, Secrets, Terminal};
use crate::context::Context;
use crate::output::{CommandError, Report};
use shown::Watcher;

pub(super) fn run(context: &Context, arguments: &SessionTell) -> Result<Report, CommandError> {
    let sessions = context.sessions()?;
    let session = sessions.get(sessions.resolve(&arguments.session)?)?;
    let prompt = match arguments.prompt.as_deref() {
        _ if arguments.resume => None,
        Some("-") => Some(read_text(context)?),
        other => Some(other.unwrap_or_default().to_owned()),
    };
    let catalogue = context.models(arguments.record.as_deref())?;
    let name = model_name(context, arguments, &session)?;
    let model = catalogue.open(&name)?;
    let price = catalogue.entry(&name)?.price;
    let scopes = scopes(context, arguments, &session)?;
    let engine = context.engine()?;
    let tools = ToolService::new(Arc::clone(&engine));
    let rules = tooling::rules(context, &tools, &arguments.rule)?;
    let (sandbox, project) = (arguments.sandbox.as_deref(), arguments.project.as_deref());
    // Each session has a sandbox of its own, whatever the project.
    let workspace = tooling::workspace(context, sandbox, project, |_| {
        format!("session-{}", session.id).to_ascii_lowercase()
    })?;
    let gate = Gate::new(Arc::new(tools.registry(&context.variables())?));
    let terminal = Terminal::new(tools);
    let watcher = Watcher::new(context.printer, arguments.stream);
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = tooling::stop_on_signals(&cancel, &stop)?;
    let profile = SafetyProfile::default();
    let guards = Guards::default();
    let outcome = TurnService::new(engine, sessions).tell(&TurnRequest {
        session: session.id,
        prompt: prompt.clone(),
        model,
        price,
        actor: session.actor.clone(),
        system: vec![instructions(workspace.as_ref())],
        tools: TurnTools {
            gate: &gate,
            mode: tooling::mode(arguments.read_only),
            profile: &profile,
            guards: &guards,
            rules: &rules,
            workspace: workspace.as_ref(),
            approver: &terminal,
        },
        scopes,
        redactor: &Secrets::of(&catalogue),
        settings: TurnSettings {
            stream: true,
            ..TurnSettings::default()
        },
        observer: &watcher,
        cancel: &cancel,
        stop,
    });
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

/// Who answers: the one named, the session's actor, or the usual one.
fn model_name(
    context: &Context,
    arguments: &SessionTell,
    session: &Session,
) -> Result<ModelName, CommandError> {
    if let Some(name) = &arguments.actor {
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
            limit: [asked, configured].into_iter().flatten().min(),
        },
        tooling::day_scope(context),
    ])
}
