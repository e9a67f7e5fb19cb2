//! The first screen of a user without a model: the variable to set for each provider, and commands that need no
//! model.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use cleveragents_domain::Code;
use cleveragents_models::Catalogue;
use serde_json::json;

use crate::context::Context;
use crate::output::{CommandError, Report, Table};

/// Programs that serve models on this machine, and their usual ports.
const LOCAL_SERVERS: [(&str, u16, &str); 4] = [
    ("Ollama", 11434, "ollama/MODEL"),
    ("LM Studio", 1234, "local/MODEL"),
    ("llama.cpp", 8080, "local/MODEL"),
    ("vLLM", 8000, "local/MODEL"),
];

/// Time to wait for a connection on loopback.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);

/// Returns the screen if neither the command (`model`) nor the configuration names a model and no
/// provider key is set.
pub(crate) fn screen(
    context: &Context,
    name: &'static str,
    model: Option<&str>,
) -> Result<Option<Report>, CommandError> {
    if model.is_some() || context.settings.model_default().is_some() {
        return Ok(None);
    }
    let catalogue = context.models(None)?;
    if catalogue.model_of_key().is_some() {
        return Ok(None);
    }
    Ok(Some(report(name, &catalogue)))
}

fn report(name: &'static str, catalogue: &Catalogue) -> Report {
    let choices = catalogue.models_of_keys();
    let mut table = Table::with_columns("Set one of these keys", ["Variable", "Default model"]);
    for (model, variable) in &choices {
        table = table.row([variable.clone().into(), model.to_string().into()]);
    }
    let servers: Vec<_> = LOCAL_SERVERS
        .iter()
        .filter(|(_, port, _)| is_listening(*port))
        .collect();
    let mut report = Report::new(name).table(table).data(json!({
        "keys": choices.iter().map(|(model, variable)| {
            json!({"variable": variable, "model": model})
        }).collect::<Vec<_>>(),
        "local_servers": servers.iter().map(|(program, port, _)| {
            json!({"name": program, "url": format!("http://localhost:{port}")})
        }).collect::<Vec<_>>(),
    }));
    for (program, port, model) in servers {
        report = report.info(match *program {
            "Ollama" => format!(
                "{program} answers on port {port}: `agents config set model.default {model}`"
            ),
            _ => format!(
                "a server answers on port {port} ({program}?): `LOCAL_BASE_URL=http://localhost:{port}/v1 agents --model {model}`"
            ),
        });
    }
    report
        .info("any other model: `agents model list`, then `agents config set model.default PROVIDER/MODEL`")
        .info("to choose among them: `agents setup`; without a model: `agents demo` shows a whole plan")
        .failed(
            Code::NoModel,
            "no model is set",
            "export ANTHROPIC_API_KEY=… (or another key of the table), then run the command again",
        )
}

/// Address of a running Ollama server.
pub(super) fn ollama_url() -> Option<String> {
    let (_, port, _) = LOCAL_SERVERS.iter().find(|(name, ..)| *name == "Ollama")?;
    is_listening(*port).then(|| format!("http://localhost:{port}"))
}

fn is_listening(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok()
}
