//! A client for the official conformance suite: connects to the URL that the suite passes, signs in when
//! required, and calls every listed tool. `scripts/mcp-conformance` runs it.

#[path = "../tests/mcp/support.rs"]
#[expect(dead_code, reason = "other items are used by the tests only")]
mod support;

use std::process::ExitCode;
use std::sync::Arc;

use cleveragents_mcp::{
    Auth, FileTokens, McpError, OAuth, Options, Protocol, ServerDefinition, Servers,
};
use cleveragents_tools::{CallOutcome, FailureKind, Source};
use reqwest::Url;
use serde_json::{Map, Value, json};
use support::GateFixture;

/// URL of the client metadata document that the suite accepts.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

#[expect(clippy::print_stderr, reason = "the suite shows standard error")]
fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return code.into();
    }
    let Some(url) = std::env::args()
        .next_back()
        .filter(|last| last.starts_with("http"))
    else {
        eprintln!("usage: conformance-client URL");
        return ExitCode::from(2);
    };
    match run(&url) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(url: &str) -> Result<(), McpError> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::new(folder.path());
    options.tokens = Some(Arc::new(FileTokens::new(folder.path())));
    options.max_offered_tools = usize::MAX;
    let definition = definition(url);
    let servers = Servers::new(options.clone()).expect("a runtime");
    servers.add(definition.clone(), None)?;
    with_sign_in(&servers, || servers.connect("suite").map(drop))?;
    let gate = GateFixture::new(&servers.offer(), None).answering(&[""; 64]);
    for (tool, arguments) in calls(&gate) {
        with_sign_in(&servers, || match gate.call(&tool, &arguments) {
            CallOutcome::Failed(failure) if failure.kind == FailureKind::HumanNeeded => {
                Err(McpError::Authorization {
                    server: "suite".to_owned(),
                    why: failure.message,
                    challenge: None,
                })
            }
            _ => Ok(()),
        })?;
    }
    servers.shutdown();
    Ok(())
}

/// Runs an action, and repeats it after a sign-in if one is required, at most three times.
fn with_sign_in(
    servers: &Servers,
    mut action: impl FnMut() -> Result<(), McpError>,
) -> Result<(), McpError> {
    for _ in 0..3 {
        match action() {
            Err(McpError::Authorization { .. }) => servers.login("suite", visit)?,
            other => return other,
        }
    }
    action()
}

/// The calls to make: the calls that the suite specifies, or one call of every tool.
fn calls(gate: &GateFixture) -> Vec<(String, Value)> {
    let tools = gate.gate.registry().list();
    let tools = tools.filter(|tool| tool.source == Source::Mcp && tool.name.namespace() != "mcp");
    let all_calls: Vec<_> = tools
        .map(|tool| (tool.name.clone(), sample(&tool.input_schema)))
        .collect();
    // One tool of the suite expects the schema of another tool as this client received it.
    if let [(first, _), (echo, _)] = all_calls.as_slice()
        && echo.short() == "json_schema_echo"
        && let Ok(focal) = gate.gate.registry().get(&first.to_string())
    {
        return vec![(echo.to_string(), json!({"schema": focal.input_schema}))];
    }
    let context = context();
    let Some(specified) = context.get("toolCalls").and_then(Value::as_array) else {
        return all_calls
            .into_iter()
            .map(|(name, arguments)| (name.to_string(), arguments))
            .collect();
    };
    specified
        .iter()
        .filter_map(|call| {
            let raw = call.get("name")?.as_str()?;
            let mut arguments = call.get("arguments").cloned().unwrap_or_else(|| json!({}));
            if let Value::Object(fields) = &mut arguments {
                // Leave optional arguments out; the gate treats `null` as a value.
                fields.retain(|_, value| !value.is_null());
            }
            Some((format!("suite/{raw}"), arguments))
        })
        .collect()
}

/// The context that the suite passes to the client.
fn context() -> Value {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    serde_json::from_str(&context).unwrap_or_default()
}

fn definition(url: &str) -> ServerDefinition {
    let mut definition = ServerDefinition::http("suite", url);
    definition.protocol = match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").as_deref() {
        Ok("2026-07-28") => Protocol::V2026,
        Ok("2025-11-25" | "2025-06-18" | "2025-03-26") => Protocol::V2025,
        _ => Protocol::Auto,
    };
    let context = context();
    let text = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let oauth = OAuth {
        client_id: text("client_id"),
        client_secret: text("client_secret").map(cleveragents_mcp::HiddenText::new),
        client_metadata_url: Some(METADATA.to_owned()),
        ..OAuth::default()
    };
    definition.auth = Some(Auth { oauth: Some(oauth) });
    definition
}

/// Simulates a user with a browser: opens the URL and follows redirects.
fn visit(url: &Url) {
    let url = url.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let tls = cleveragents_outbound::tls(url.scheme() == "https").expect("roots");
            let client = reqwest::Client::builder()
                .tls_backend_preconfigured(tls)
                .no_proxy()
                .build()
                .expect("a client");
            let response = client.get(url).send().await;
            drop(response);
        });
    });
}

/// Arguments that match a schema.
fn sample(schema: &Value) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields = properties.into_iter().flatten().map(|(name, schema)| {
        let first = schema.get("enum").and_then(|values| values.get(0)).cloned();
        let value = first.unwrap_or_else(|| match schema.get("type").and_then(Value::as_str) {
            Some("number" | "integer") => json!(5),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => sample(schema),
            _ => json!("sample"),
        });
        (name.clone(), value)
    });
    Value::Object(fields.collect::<Map<_, _>>())
}
