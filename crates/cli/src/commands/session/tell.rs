//! `session tell`: a question, answered by a model that acts through tools.

mod person;
mod shown;

use std::borrow::Cow;
use std::sync::Arc;

use cleveragents_domain::{Code, MicroUsd, Session, Timestamp};
use cleveragents_engine::{
    SandboxError, SandboxWorkspace, SpendScope, Target, ToolService, TurnRequest, TurnService,
    TurnSettings, TurnTools, instructions,
};
use cleveragents_models::{CancellationToken, ModelName, Redactor};
use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_tools::ports::Redact;
use cleveragents_tools::{Effect, Gate, Guards, Phase, PlanMode, SafetyProfile};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::append::read_text;
use crate::arguments::SessionTell;
use crate::context::Context;
use crate::output::{CommandError, Report};
use person::Terminal;
use shown::Watcher;

/// Takes out the keys of the environment, and what looks like one.
struct Secrets(Redactor);

impl Redact for Secrets {
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.text(text)
    }
}

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
    let rules = tools
        .rules(&arguments.rule, Effect::Allow)?
        .protecting([context.home.path().to_owned()]);
    let workspace = workspace(context, arguments, &session)?;
    let gate = Gate::new(Arc::new(tools.registry(&context.variables())?));
    let terminal = Terminal::new(tools);
    let watcher = Watcher::new(context.printer, arguments.stream);
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = stop_on_signals(&cancel, &stop)?;
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
            mode: if arguments.read_only {
                PlanMode::ReadOnly
            } else {
                PlanMode::Normal(Phase::Session)
            },
            profile: &profile,
            guards: &guards,
            rules: &rules,
            workspace: workspace.as_ref(),
            approver: &terminal,
        },
        scopes,
        redactor: &Secrets(catalogue.redactor()),
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
    let day = Timestamp::now().to_string();
    let day = day.get(..10).unwrap_or(&day);
    Ok(vec![
        SpendScope {
            name: format!("session {}", session.id),
            limit: [asked, configured].into_iter().flatten().min(),
        },
        SpendScope {
            name: format!("day {day}"),
            limit: context.settings.budget_per_day(),
        },
    ])
}

/// The sandbox that tools act in; made when the project has none for this session yet.
fn workspace(
    context: &Context,
    arguments: &SessionTell,
    session: &Session,
) -> Result<Option<SandboxWorkspace>, CommandError> {
    let service = context.sandboxes()?;
    let name = match (&arguments.sandbox, &arguments.project) {
        (Some(name), _) => name.clone(),
        (None, Some(project)) => {
            let id = session.id.to_string().to_ascii_lowercase();
            let name = format!("session-{id}");
            let (project, links) = context.projects()?.view(project)?;
            let mut targets = Target::of_project(&context.resources()?, &links)?;
            if targets.is_empty() {
                let message = format!("the project `{}` links no resource", project.name);
                return Err(CommandError::new(Code::LocationNotFound, message)
                    .with_hint("link one: `agents project link-resource PROJECT RESOURCE`"));
            }
            Target::make_distinct(&mut targets);
            match service.find(&name) {
                Ok(_) => {}
                Err(SandboxError::NotFound(_)) => {
                    service.create(&name, &format!("project {}", project.name), &targets)?;
                }
                Err(error) => return Err(error.into()),
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

/// The first Ctrl-C stops the turn; the session keeps what was done.
fn stop_on_signals(
    cancel: &Cancel,
    stop: &CancellationToken,
) -> Result<signal_hook::iterator::Handle, CommandError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| CommandError::internal("signals cannot be watched").caused_by(&error))?;
    let handle = signals.handle();
    let (cancel, stop) = (cancel.clone(), stop.clone());
    std::thread::spawn(move || {
        for _ in signals.forever() {
            cancel.cancel();
            stop.cancel();
        }
    });
    Ok(handle)
}
