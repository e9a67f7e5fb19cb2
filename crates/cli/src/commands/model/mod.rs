//! `model`: lists, shows and tests models.

mod key;

use std::time::Instant;

use cleveragents_application::model_operations::{
    ListModels, LongInputRates, ModelInfo, PriceInfo, ShowModel,
};
use cleveragents_domain::MicroUsd;
use cleveragents_models::{
    CancellationToken, ChatRequest, Completion, KeyState, Model as Port, StreamEvent,
};
use futures_util::StreamExt;
use serde_json::json;

use super::turn_view::retry_line;
use super::{counted, yes_no};
use crate::arguments::{Model, ModelTest};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table, visible_lines, write_err};

pub(crate) use self::key::{ask_and_store_key, has_keyring};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &["model list", "model show"];

pub(crate) fn run(context: &Context, command: Model) -> Result<Report, CommandError> {
    match command {
        Model::List {
            provider,
            available,
        } => {
            let request = ListModels {
                provider,
                available,
            };
            list_report(context, request)
        }
        Model::Show { name } => show(context, name),
        Model::Test(arguments) => test(context, &arguments),
        Model::Key(command) => key::run(context, command),
    }
}

/// Lists models from the configuration, without a database.
pub(crate) fn list_report(context: &Context, request: ListModels) -> Result<Report, CommandError> {
    let listed = match &context.connection {
        Some(_) => context.call(request)?,
        None => request.answer(&context.models(None)?)?,
    };
    let table = Table::new("Models")
        .column("Model", Align::Left)
        .column("Key", Align::Left)
        .column("Context", Align::Right)
        .column("Input $/M", Align::Right)
        .column("Output $/M", Align::Right)
        .column("Images", Align::Left)
        .column("Reasoning", Align::Left)
        .keep(["Model", "Key"])
        .drop_first(["Reasoning", "Images", "Output $/M", "Input $/M", "Context"])
        .empty("No model matches")
        .rows(listed.models.iter().map(list_row));
    let shown = listed.summary.shown;
    Ok(Report::new("model list")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(shown, "model"))))
}

fn list_row(model: &ModelInfo) -> Vec<Cell> {
    let key = match &model.key {
        KeyState::Variable { .. } | KeyState::Keyring { .. } => Cell::Good("set".to_owned()),
        KeyState::NotNeeded => Cell::Muted("not needed".to_owned()),
        KeyState::Missing { .. } => Cell::Warn("missing".to_owned()),
    };
    let price = model.usd_per_million_tokens.as_ref();
    vec![
        model.name.as_str().into(),
        key,
        model.capabilities.context_window.into(),
        price.map(|price| dollars(price.usual.input)).into(),
        price.map(|price| dollars(price.usual.output)).into(),
        yes_no(model.capabilities.vision).into(),
        yes_no(model.capabilities.reasoning).into(),
    ]
}

/// Rate without trailing zeros: `1.25`, `0.005`, `10`.
fn dollars(rate: f64) -> String {
    let text = format!("{rate:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn show(context: &Context, name: String) -> Result<Report, CommandError> {
    let request = ShowModel { name };
    let model = match &context.connection {
        Some(_) => context.call(request)?,
        None => request.answer(&context.models(None)?)?,
    };
    let capabilities = model.capabilities;
    let key = match &model.key {
        KeyState::Variable { name } => Cell::Good(format!("from {name}")),
        KeyState::Keyring { name } => Cell::Good(format!("{name} from the keyring")),
        KeyState::NotNeeded => Cell::Muted("not needed".to_owned()),
        KeyState::Missing { names } => Cell::Warn(format!("missing: set {}", names.join(" or "))),
    };
    let mut prices = Panel::new("Price in US dollars per million tokens");
    prices = match &model.usd_per_million_tokens {
        None => prices.row("Price", Cell::Muted("unknown".to_owned())),
        Some(price) => add_prices(prices, price),
    };
    let protocol = model.protocol.map(cleveragents_models::Protocol::as_str);
    let is_available = model.available;
    let report = Report::new("model show")
        .panel(
            Panel::new("Model")
                .row("Name", model.name.clone())
                .row("Provider", model.provider.clone())
                .row("Protocol", protocol)
                .row("Base URL", model.base_url.clone())
                .row("Key", key),
        )
        .panel(
            Panel::new("Capabilities")
                .row("Tools", yes_no(capabilities.tools))
                .row("Streaming", yes_no(capabilities.streaming))
                .row("Images", yes_no(capabilities.vision))
                .row("JSON schema", yes_no(capabilities.json_schema))
                .row("Reasoning", yes_no(capabilities.reasoning))
                .row("Context window", capabilities.context_window)
                .row("Maximum input", capabilities.max_input)
                .row("Maximum output", capabilities.max_output)
                .row("Maximum number of tools", capabilities.max_tools),
        )
        .panel(prices)
        .data(model);
    Ok(if is_available {
        report.ok("Model shown")
    } else {
        report.warn("The model cannot be used yet; check key and base URL")
    })
}

fn add_prices(panel: Panel, price: &PriceInfo) -> Panel {
    let usual = &price.usual;
    let panel = panel
        .row("Input", dollars(usual.input))
        .row("Cached input", dollars(usual.cached_input))
        .row("Cache write", dollars(usual.cache_write))
        .row("Output", dollars(usual.output));
    match &price.long_input {
        None => panel,
        Some(LongInputRates { rates, above }) => panel.row(
            format!("Above {above} input tokens"),
            format!("{} in, {} out", dollars(rates.input), dollars(rates.output)),
        ),
    }
}

/// Response of a model with measured times.
struct MeasuredResponse {
    completion: Completion,
    first_seconds: f64,
    total_seconds: f64,
}

fn test(context: &Context, arguments: &ModelTest) -> Result<Report, CommandError> {
    let name = match (&arguments.name, context.settings.model_default()) {
        (Some(name), _) => name.parse()?,
        (None, Some(name)) => name.clone(),
        (None, None) => {
            return Err(
                CommandError::usage("no model is given and none is configured").with_hint(
                    "add PROVIDER/MODEL, or run `agents config set model.default PROVIDER/MODEL`",
                ),
            );
        }
    };
    let model = context
        .models(arguments.record.as_deref())?
        .open_only(&name)?;
    let mut request = ChatRequest::prompt(&arguments.prompt);
    request.stream = !arguments.no_stream;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            CommandError::internal("the runtime cannot be created").caused_by(&error)
        })?;
    let measured = runtime.block_on(measure(context, &*model, request))?;
    Ok(test_report(&measured))
}

async fn measure(
    context: &Context,
    model: &dyn Port,
    request: ChatRequest,
) -> Result<MeasuredResponse, CommandError> {
    let start = Instant::now();
    let mut first_seconds = None;
    let mut events = model.stream(request, CancellationToken::new());
    while let Some(event) = events.next().await {
        let event = event?;
        if let StreamEvent::Retrying(retry) = &event {
            if context.printer.format().is_human() {
                let line = retry_line(&retry.to_string(), false);
                write_err(&format!("{}\n", visible_lines(&line)));
            }
            first_seconds = None;
            continue;
        }
        let elapsed_seconds = start.elapsed().as_secs_f64();
        let first_seconds = *first_seconds.get_or_insert(elapsed_seconds);
        if let StreamEvent::Finished(completion) = event {
            return Ok(MeasuredResponse {
                completion: *completion,
                first_seconds,
                total_seconds: elapsed_seconds,
            });
        }
    }
    Err(CommandError::internal(
        "the stream ended without a final event",
    ))
}

fn test_report(measured: &MeasuredResponse) -> Report {
    let Completion {
        message,
        usage,
        cost_micro_usd: cost,
        stop,
        model,
        attempts,
    } = &measured.completion;
    Report::new("model test")
        .data(json!({
            "model": model,
            "answer": message.text,
            "stop": stop,
            "time_to_first_token_seconds": measured.first_seconds,
            "total_seconds": measured.total_seconds,
            "usage": usage,
            "cost_usd": cost.map(MicroUsd::as_usd),
            "attempts": attempts,
        }))
        .panel(
            Panel::new("Model test")
                .row("Model", model.to_string())
                .row("Time to first token", Cell::Seconds(measured.first_seconds))
                .row("Total time", Cell::Seconds(measured.total_seconds))
                .row("Attempts", u64::from(*attempts))
                .row("Input tokens", usage.input_tokens)
                .row("Cached input tokens", usage.cached_input_tokens)
                .row("Output tokens", usage.output_tokens)
                .row("Reasoning tokens", usage.reasoning_tokens)
                .row(
                    "Cost",
                    cost.map_or_else(|| Cell::Muted("unknown".to_owned()), Cell::Money),
                ),
        )
        .text(message.text.clone())
        .ok("The model responded")
}
