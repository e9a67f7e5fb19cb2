//! `model …`: which models there are, and whether one answers.

mod key;

use std::time::Instant;

use cleveragents_domain::{Code, MicroUsd};
use cleveragents_models::{
    CancellationToken, Catalogue, ChatRequest, Completion, KeyState, Model as Port, ModelEntry,
    ModelName, Price, Rates, StreamEvent,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::turn_view::retry_line;
use super::{counted, yes_no};
use crate::arguments::{Model, ModelTest};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table, visible_lines};

pub(crate) fn run(context: &Context, command: Model) -> Result<Report, CommandError> {
    match command {
        Model::List {
            provider,
            available,
        } => list(context, provider.as_deref(), available),
        Model::Show { name } => show(context, &name),
        Model::Test(arguments) => test(context, &arguments),
        Model::Key(command) => key::run(context, command),
    }
}

fn list(
    context: &Context,
    provider: Option<&str>,
    available: bool,
) -> Result<Report, CommandError> {
    let catalogue = context.models(None)?;
    let provider = provider.map(str::to_lowercase);
    if let Some(name) = &provider {
        known_provider(&catalogue, name)?;
    }
    let all = catalogue.list();
    let of_provider = |entry: &&ModelEntry| {
        provider
            .as_deref()
            .is_none_or(|provider| entry.name.provider() == provider)
    };
    let matching: Vec<&ModelEntry> = all.iter().filter(of_provider).collect();
    let ready = matching.iter().filter(|entry| entry.is_available()).count();
    let total = matching.len();
    let shown: Vec<&ModelEntry> = matching
        .into_iter()
        .filter(|entry| !available || entry.is_available())
        .collect();
    let table = Table::new("Models")
        .column("Model", Align::Left)
        .column("Key", Align::Left)
        .column("Context", Align::Right)
        .column("Input $/M", Align::Right)
        .column("Output $/M", Align::Right)
        .column("Images", Align::Left)
        .column("Reasoning", Align::Left)
        .empty("No model matches")
        .rows(shown.iter().map(|entry| list_row(entry)));
    let entries: Vec<Value> = shown.iter().map(|entry| entry_json(entry)).collect();
    Ok(Report::new("model list")
        .data(json!({
            "models": entries,
            "providers": catalogue.providers(),
            "summary": {"total": total, "available": ready, "shown": shown.len()},
        }))
        .table(table)
        .ok(format!("{} listed", counted(shown.len(), "model"))))
}

fn known_provider(catalogue: &Catalogue, name: &str) -> Result<(), CommandError> {
    let known = catalogue.providers();
    if known.iter().any(|known| known == name) {
        return Ok(());
    }
    let message = format!("there is no provider `{name}`");
    Err(CommandError::new(Code::UnknownProvider, message)
        .with_hint(format!("use one of {}", known.join(", ")))
        .with_details(json!({"provider": name, "providers": known})))
}

fn list_row(entry: &ModelEntry) -> Vec<Cell> {
    let key = match &entry.key {
        KeyState::Variable { .. } | KeyState::Keyring { .. } => Cell::Good("set".to_owned()),
        KeyState::NotNeeded => Cell::Muted("not needed".to_owned()),
        KeyState::Missing { .. } => Cell::Warn("missing".to_owned()),
    };
    let rate = |rate: fn(&Rates) -> MicroUsd| -> Cell {
        let price = entry
            .price
            .as_ref()
            .map(|price| dollars(rate(&price.usual)));
        price.into()
    };
    vec![
        entry.name.to_string().into(),
        key,
        entry.capabilities.context_window.into(),
        rate(|rates| rates.input),
        rate(|rates| rates.output),
        yes_no(entry.capabilities.vision).into(),
        yes_no(entry.capabilities.reasoning).into(),
    ]
}

/// A rate without needless zeros: `1.25`, `0.005`, `10`.
fn dollars(rate: MicroUsd) -> String {
    let text = format!("{}.{:06}", rate.0 / 1_000_000, rate.0 % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn rates_json(rates: &Rates) -> Value {
    json!({
        "input": rates.input.as_usd(),
        "output": rates.output.as_usd(),
        "cached_input": rates.cached_input.as_usd(),
        "cache_write": rates.cache_write.as_usd(),
    })
}

fn price_json(price: &Price) -> Value {
    let mut value = rates_json(&price.usual);
    if let Some((above, rates)) = &price.long_input {
        value["long_input"] = rates_json(rates);
        value["long_input"]["above"] = (*above).into();
    }
    value
}

fn entry_json(entry: &ModelEntry) -> Value {
    json!({
        "name": entry.name,
        "provider": entry.name.provider(),
        "model": entry.name.model(),
        "available": entry.is_available(),
        "capabilities": entry.capabilities,
        "usd_per_million_tokens": entry.price.as_ref().map(price_json),
        "protocol": entry.protocol,
        "base_url": entry.base_url,
        "key": entry.key,
    })
}

fn show(context: &Context, name: &str) -> Result<Report, CommandError> {
    let name: ModelName = name.parse()?;
    let entry = context.models(None)?.entry(&name)?;
    let can = entry.capabilities;
    let key = match &entry.key {
        KeyState::Variable { name } => Cell::Good(format!("from {name}")),
        KeyState::Keyring { name } => Cell::Good(format!("{name} from the keyring")),
        KeyState::NotNeeded => Cell::Muted("not needed".to_owned()),
        KeyState::Missing { names } => Cell::Warn(format!("missing: set {}", names.join(" or "))),
    };
    let mut prices = Panel::new("Price in dollars for a million tokens");
    prices = match &entry.price {
        None => prices.row("Price", Cell::Muted("unknown".to_owned())),
        Some(price) => priced(prices, price),
    };
    let protocol = entry.protocol.map(cleveragents_models::Protocol::as_str);
    let report = Report::new("model show")
        .data(entry_json(&entry))
        .panel(
            Panel::new("Model")
                .row("Name", entry.name.to_string())
                .row("Provider", entry.name.provider())
                .row("Protocol", protocol)
                .row("Base URL", entry.base_url.clone())
                .row("Key", key),
        )
        .panel(
            Panel::new("Capabilities")
                .row("Tools", yes_no(can.tools))
                .row("Streaming", yes_no(can.streaming))
                .row("Images", yes_no(can.vision))
                .row("JSON schema", yes_no(can.json_schema))
                .row("Reasoning", yes_no(can.reasoning))
                .row("Context window", can.context_window)
                .row("Longest input", can.max_input)
                .row("Longest answer", can.max_output)
                .row("Maximum number of tools", can.max_tools),
        )
        .panel(prices);
    Ok(if entry.is_available() {
        report.ok("Model shown")
    } else {
        report.warn("The model cannot be asked yet; see key and base URL")
    })
}

fn priced(panel: Panel, price: &Price) -> Panel {
    let usual = &price.usual;
    let panel = panel
        .row("Input", dollars(usual.input))
        .row("Cached input", dollars(usual.cached_input))
        .row("Cache write", dollars(usual.cache_write))
        .row("Output", dollars(usual.output));
    match &price.long_input {
        None => panel,
        Some((above, rates)) => panel.row(
            format!("With more than {above} tokens of input"),
            format!("{} in, {} out", dollars(rates.input), dollars(rates.output)),
        ),
    }
}

/// A measured answer.
struct Measured {
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
                CommandError::usage("no model is named and none is configured").with_hint(
                    "give PROVIDER/MODEL, or run `agents config set model.default PROVIDER/MODEL`",
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
        .map_err(|error| CommandError::internal("the runtime cannot be made").caused_by(&error))?;
    let measured = runtime.block_on(measure(context, &*model, request))?;
    Ok(test_report(&measured))
}

async fn measure(
    context: &Context,
    model: &dyn Port,
    request: ChatRequest,
) -> Result<Measured, CommandError> {
    let begun = Instant::now();
    let mut first_seconds = None;
    let mut events = model.stream(request, CancellationToken::new());
    while let Some(event) = events.next().await {
        let event = event?;
        if let StreamEvent::Retrying(retry) = &event {
            if context.printer.format().is_human() {
                let line = retry_line(retry, false);
                context.live.err(&format!("{}\n", visible_lines(&line)));
            }
            first_seconds = None;
            continue;
        }
        let so_far = begun.elapsed().as_secs_f64();
        let first_seconds = *first_seconds.get_or_insert(so_far);
        if let StreamEvent::Finished(completion) = event {
            return Ok(Measured {
                completion: *completion,
                first_seconds,
                total_seconds: so_far,
            });
        }
    }
    Err(CommandError::internal("the answer ended without an end"))
}

fn test_report(measured: &Measured) -> Report {
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
                .row("First token after", Cell::Seconds(measured.first_seconds))
                .row("Whole answer after", Cell::Seconds(measured.total_seconds))
                .row("Attempts", u64::from(*attempts))
                .row("Input tokens", usage.input_tokens)
                .row("Cached of these", usage.cached_input_tokens)
                .row("Output tokens", usage.output_tokens)
                .row("Thought of these", usage.reasoning_tokens)
                .row(
                    "Cost",
                    cost.map_or_else(|| Cell::Muted("unknown".to_owned()), Cell::Money),
                ),
        )
        .text(message.text.clone())
        .ok("The model answered")
}
