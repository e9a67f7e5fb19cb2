//! `model`: output of each command, and redaction of keys.

use cleveragents_testkit::Agents;
use cleveragents_testkit::model_server::{ModelServer, Response, anthropic, openai};

use super::{agents, assert_shown, shown, transcript};

const KEY: &str = "sk-test-0123456789abcdefghijkl";

const SCRIPT: &str = "price: {input: 1, output: 2}
answers:
- text: ready
  usage: {input_tokens: 1000, output_tokens: 500}
";

fn write_script(agents: &Agents) {
    std::fs::write(agents.cwd().join("answers.yaml"), SCRIPT).expect("a file");
}

/// Masks times, which differ between runs.
fn without_times(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_time = ["Time to first token:", "Total time:"]
            .iter()
            .any(|label| line.starts_with(label));
        let start = line.find("_seconds\":").or_else(|| is_time.then_some(0));
        lines.push(
            match start.and_then(|start| line[start..].find(": ").map(|end| start + end)) {
                Some(end) => format!(
                    "{}: [time]{}",
                    &line[..end],
                    if line.ends_with(',') { "," } else { "" }
                ),
                None => line.to_owned(),
            },
        );
    }
    lines.join("\n")
}

#[test]
fn model_list() {
    let arguments = ["model", "list", "--provider", "anthropic"];
    assert_shown("model_list", &shown(|_| (), &arguments));
    let none = ["model", "list", "--provider", "groq", "--available"];
    assert_shown("model_list_of_nothing", &shown(|_| (), &none));
}

#[test]
fn only_models_with_a_key_are_available() {
    let data = agents().data(&["model", "list"]);
    assert_eq!(
        data["models"].as_array().map(Vec::len),
        data["summary"]["total"]
            .as_u64()
            .map(|total| usize::try_from(total).expect("few"))
    );
    let agents = agents().with("ANTHROPIC_API_KEY", KEY);
    let available = agents.data(&["model", "list", "--available"]);
    let models = available["models"].as_array().expect("a list");
    assert!(!models.is_empty() && models.len() < 20);
    for model in models {
        assert_eq!(model["provider"], "anthropic");
        assert_eq!(model["key"]["name"], "ANTHROPIC_API_KEY");
    }
    assert!(!available.to_string().contains(KEY));
}

#[test]
fn model_show() {
    let with_key = || agents().with("GEMINI_API_KEY", KEY);
    let text = ["plain", "json"].map(|format| {
        let arguments = ["--format", format, "model", "show", "gemini/gemini-2.5-pro"];
        let agents = with_key();
        transcript(&agents, &arguments, &agents.run(&arguments))
    });
    assert_shown("model_show", &text.join("\n"));
    assert!(!text.concat().contains(KEY));
    let missing = ["model", "show", "openai/some-new-model"];
    assert_shown("model_show_of_an_unknown_one", &shown(|_| (), &missing));
}

#[test]
fn model_test_with_a_script() {
    let arguments = ["model", "test", "scripted/answers.yaml"];
    assert_shown(
        "model_test",
        &without_times(&shown(write_script, &arguments)),
    );
}

#[test]
fn a_provider_model_is_called_and_the_exchange_can_be_replayed() {
    for (name, variable, path, response) in [
        (
            "openai/gpt-5.1",
            "OPENAI",
            "/v1",
            openai::text(&["rea", "dy"]),
        ),
        (
            "anthropic/claude-sonnet-4-5",
            "ANTHROPIC",
            "",
            anthropic::text(&["rea", "dy"]),
        ),
    ] {
        let limited = openai::error(429, "rate_limit", "slow").header("retry-after", "0");
        let server = ModelServer::start(vec![limited, response]);
        let agents = agents()
            .with(
                &format!("{variable}_BASE_URL"),
                format!("{}{path}", server.url()),
            )
            .with(&format!("{variable}_API_KEY"), KEY);
        let tested = agents.data(&["model", "test", name, "--record", "exchange.jsonl"]);
        assert_eq!(
            (&tested["answer"], &tested["attempts"]),
            (&"ready".into(), &2.into())
        );
        assert!(tested["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0));
        let recording = std::fs::read_to_string(agents.cwd().join("exchange.jsonl"));
        assert!(!recording.expect("a recording").contains(KEY));
        drop(server);
        let replayed = agents.data(&["model", "test", "replay/exchange.jsonl"]);
        assert_eq!(replayed["answer"], "ready");
        let other = agents.run(&["model", "test", "replay/exchange.jsonl", "--prompt", "else"]);
        assert!(
            other.code == Some(1) && other.err.contains("CA-0820"),
            "{other:?}"
        );
    }
}

#[test]
fn the_configured_model_is_called_by_default() {
    let agents = agents();
    write_script(&agents);
    let answer = agents.run(&["model", "test"]);
    assert!(
        answer.code == Some(2) && answer.err.contains("model.default"),
        "{answer:?}"
    );
    agents.data(&["config", "set", "model.default", "scripted/answers.yaml"]);
    assert_eq!(agents.data(&["model", "test"])["answer"], "ready");
}

#[test]
fn providers_can_be_described_in_a_file() {
    let server = ModelServer::start(vec![openai::whole("yes", &[])]);
    let agents = agents();
    std::fs::create_dir(agents.home()).expect("a home");
    let file = agents.home().join("models.yaml");
    let text = format!("providers:\n  mine: {{base_url: '{}'}}\n", server.url());
    std::fs::write(&file, text).expect("a file");
    let tested = agents.data(&["model", "test", "mine/any", "--no-stream"]);
    assert_eq!(
        (&tested["answer"], &tested["cost_usd"]),
        (&"yes".into(), &serde_json::Value::Null)
    );
    std::fs::write(&file, "providers:\n  mine: {base_ulr: x}\n").expect("a file");
    let answer = agents.run(&["model", "list"]);
    assert!(
        answer.code == Some(2) && answer.err.contains("models.yaml:2:"),
        "{answer:?}"
    );
    assert!(answer.err.contains("`base_url`"), "{answer:?}");
}

/// A failure reports its error code, exit code and hint, but never the key.
#[test]
fn failures_have_codes_and_never_show_the_key() {
    let refusing = |status: u16| {
        ModelServer::start(vec![
            openai::error(status, "x", &format!("bad key {KEY}"));
            2
        ])
    };
    for (arguments, code, error) in [
        (vec!["model", "show", "gpt"], 2, "CA-0816"),
        (vec!["model", "test", "opneai/x"], 3, "CA-0815"),
        (vec!["model", "list", "--provider", "nobody"], 3, "CA-0815"),
        (vec!["model", "test", "groq/x"], 1, "CA-0814"),
        (vec!["model", "test", "azure/x"], 2, "CA-0817"),
        (vec!["model", "test", "scripted/none.yaml"], 1, "CA-0105"),
    ] {
        let answer = agents().run(&arguments);
        assert_eq!(answer.code, Some(code), "{arguments:?}: {answer:?}");
        assert!(
            answer.err.contains(error) && answer.err.contains("hint: "),
            "{answer:?}"
        );
    }
    for (status, code, error) in [
        (401, 1, "CA-0801"),
        (404, 3, "CA-0802"),
        (400, 1, "CA-0807"),
        (503, 1, "CA-0805"),
    ] {
        for format in ["plain", "json"] {
            let server = refusing(status);
            let agents = agents()
                .with("OPENAI_BASE_URL", server.url())
                .with("OPENAI_API_KEY", KEY)
                .with("CLEVERAGENTS_MODEL_RETRIES", "0");
            let answer = agents.run(&["--format", format, "model", "test", "openai/x"]);
            let output = format!("{}{}", answer.out, answer.err);
            assert_eq!(answer.code, Some(code), "{output}");
            assert!(
                output.contains(error) && output.contains("[REDACTED]") && !output.contains(KEY),
                "{output}"
            );
        }
    }
    let server = ModelServer::start(vec![Response::json(200, "{}")]);
    let agents = agents().with("OLLAMA_HOST", server.url());
    let answer = agents.run(&["model", "test", "ollama/x"]);
    assert!(
        answer.code == Some(1) && answer.err.contains("CA-0813"),
        "{answer:?}"
    );
}
