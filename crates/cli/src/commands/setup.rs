//! `setup`: chooses the default model and stores its key.

use std::fmt::Write as _;
use std::time::Duration;

use cleveragents_application::model_operations::ShowModel;
use cleveragents_domain::Code;
use cleveragents_models::{CancellationToken, Catalogue, KeyState, ModelName};
use cleveragents_process::Cancel;
use serde::Deserialize;
use serde_json::json;

use super::{can_confirm, config, first_run, model, signals, terminal};
use crate::arguments::Setup;
use crate::config::keys;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

/// Time to wait for the list of models of a server on this machine.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// A model that the user can choose.
struct ModelChoice {
    model: String,
    /// Source of its key, or the variable to set.
    note: String,
    is_ready: bool,
}

pub(crate) fn run(context: &Context, arguments: &Setup) -> Result<Report, CommandError> {
    let catalogue = context.models(None)?;
    let name = match &arguments.model {
        Some(name) => name.clone(),
        None => choose(&catalogue)?,
    };
    let name: ModelName = name.parse()?;
    let request = ShowModel {
        name: name.to_string(),
    };
    let chosen = request.answer(&catalogue)?;
    let mut key = chosen.key.clone();
    if let KeyState::Missing { names } = &key
        && can_confirm()
        && model::has_keyring()
        && !arguments.dry_run
    {
        model::ask_and_store_key(context, &chosen.provider)?;
        let name = names.first().cloned().unwrap_or_default();
        key = KeyState::Keyring { name };
    }
    let before = context.settings.model_default().map(ToString::to_string);
    if !arguments.dry_run {
        config::set_in_home(context, keys::MODEL_DEFAULT.name, &chosen.name)?;
    }
    Ok(report(
        context,
        &chosen.name,
        &key,
        before,
        arguments.dry_run,
    ))
}

fn report(
    context: &Context,
    model: &str,
    key: &KeyState,
    before: Option<String>,
    is_dry_run: bool,
) -> Report {
    let file = context.home.config_file();
    let shown = match key {
        KeyState::Variable { name } => Cell::Good(format!("from {name}")),
        KeyState::Keyring { name } => Cell::Good(format!("{name} from the keyring")),
        KeyState::NotNeeded => Cell::Muted("not needed".to_owned()),
        KeyState::Missing { names } => Cell::Warn(format!("missing: {}", names.join(" or "))),
    };
    let report = Report::new("setup")
        .data(json!({
            "model": model,
            "previous": before,
            "key": key,
            "file": crate::output::path_text(&file),
            "dry_run": is_dry_run,
        }))
        .panel(
            Panel::new("Setup")
                .row("Default model", model.to_owned())
                .row("Before", before)
                .row("Key", shown)
                .row("File", file.display().to_string()),
        );
    let report = if is_dry_run {
        report.ok(format!("{model} would answer by default; nothing changed"))
    } else {
        report.ok(format!("{model} answers by default"))
    };
    match key {
        KeyState::Missing { names } => report.warn(format!(
            "{model} cannot be used yet: `export {}=…`",
            names.first().map_or("KEY", String::as_str)
        )),
        _ => report
            .info("test it: `agents model test`")
            .info("then, in a folder with code: `agents`, or `agents do 'TASK' --check 'COMMAND'`"),
    }
}

/// Asks the user for a model. Models that can be used at once come first.
fn choose(catalogue: &Catalogue) -> Result<String, CommandError> {
    let choices = choices(catalogue)?;
    let ready = choices.first().filter(|choice| choice.is_ready);
    if !can_confirm() {
        let model = ready.map_or("PROVIDER/MODEL", |choice| choice.model.as_str());
        return Err(CommandError::new(
            Code::ConfirmationNeeded,
            "the choice of a model needs a terminal",
        )
        .with_hint(format!("`agents setup --model {model}`")));
    }
    let mut question = "Which model should answer by default?\n".to_owned();
    let width = choices.iter().map(|choice| choice.model.len()).max();
    let width = width.unwrap_or_default();
    for (number, choice) in (1_usize..).zip(&choices) {
        let ModelChoice { model, note, .. } = choice;
        let _never_fails = writeln!(question, "  [{number}] {model:width$}  {note}");
    }
    let enter = if ready.is_some() { "; Enter: 1" } else { "" };
    let prompt = format!("Answer (1-{}, or PROVIDER/MODEL{enter}): ", choices.len());
    let (cancel, stop) = (Cancel::new(), CancellationToken::new());
    let signals = signals::stop_on_signals(&cancel, &stop)?;
    let answer = terminal::ask(&question, &prompt, &cancel);
    let chosen = match answer.as_deref() {
        Some("") => ready.map(|choice| choice.model.clone()),
        Some(answer) => {
            let number = answer.parse::<usize>().ok();
            let listed = number.and_then(|number| choices.get(number.checked_sub(1)?));
            Some(listed.map_or_else(|| answer.to_owned(), |choice| choice.model.clone()))
        }
        None => None,
    };
    signals.conclude(chosen.ok_or_else(|| {
        CommandError::new(
            Code::ConfirmationNeeded,
            "no model was chosen; nothing changed",
        )
        .with_hint("`agents setup --model PROVIDER/MODEL`")
    }))
}

fn choices(catalogue: &Catalogue) -> Result<Vec<ModelChoice>, CommandError> {
    let (mut ready, mut others) = (Vec::new(), Vec::new());
    for (name, variable) in catalogue.models_of_keys() {
        let model = name.to_string();
        let request = ShowModel {
            name: model.clone(),
        };
        match request.answer(catalogue)?.key {
            KeyState::Missing { .. } => others.push(ModelChoice {
                model,
                note: format!("needs {variable}"),
                is_ready: false,
            }),
            KeyState::Variable { name } => ready.push(ModelChoice {
                model,
                note: format!("{name} is set"),
                is_ready: true,
            }),
            KeyState::Keyring { name } => ready.push(ModelChoice {
                model,
                note: format!("{name} is in the keyring"),
                is_ready: true,
            }),
            KeyState::NotNeeded => {}
        }
    }
    ready.extend(ollama_models().into_iter().map(|model| ModelChoice {
        model: format!("ollama/{model}"),
        note: "on this machine".to_owned(),
        is_ready: true,
    }));
    ready.extend(others);
    Ok(ready)
}

/// Names of the models of a running Ollama server; empty if it cannot be asked.
fn ollama_models() -> Vec<String> {
    #[derive(Deserialize)]
    struct ModelsResponse {
        models: Vec<OllamaModel>,
    }
    #[derive(Deserialize)]
    struct OllamaModel {
        name: String,
    }
    let Some(url) = first_run::ollama_url() else {
        return Vec::new();
    };
    let ask = async {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(LIST_TIMEOUT)
            .build()
            .ok()?;
        let answer = client.get(format!("{url}/api/tags")).send().await.ok()?;
        let body = answer.bytes().await.ok()?;
        serde_json::from_slice::<ModelsResponse>(&body).ok()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let listed = runtime.ok().and_then(|runtime| runtime.block_on(ask));
    let models = listed.map(|listed| listed.models).unwrap_or_default();
    models.into_iter().map(|model| model.name).collect()
}
