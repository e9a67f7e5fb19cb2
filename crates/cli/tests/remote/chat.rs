//! A chat with a server through a pipe: messages, answers and exit codes are those of a local chat.

use cleveragents_testkit::model_server::{ModelServer, openai};
use cleveragents_testkit::{Agents, Answer};

use crate::{Server, agents, token};

/// A model that repeats the last message.
fn echo() -> ModelServer {
    ModelServer::answering(|request| {
        let asked = request.json()["messages"]
            .as_array()
            .and_then(|messages| Some(messages.last()?["content"].to_string()))
            .unwrap_or_default();
        openai::text(&["You said ", asked.trim_matches('"')])
    })
}

fn home(models: &ModelServer) -> Agents {
    agents()
        .with("OPENAI_BASE_URL", format!("{}/v1", models.url()))
        .with("OPENAI_API_KEY", "test-key-0123456789")
        .with("CLEVERAGENTS_MODEL_DEFAULT", "openai/gpt-5.1")
}

fn chat(agents: &Agents, arguments: &[&str], printed: &str) -> Answer {
    agents.run_with(&[&["chat"], arguments].concat(), printed.as_bytes())
}

#[test]
fn a_chat_with_a_server_works_like_a_local_chat() {
    let models = echo();
    let (here, host) = (home(&models), home(&models));
    let secret = token(&host, "ada", &["acme=editor"]);
    let server = Server::start(&host, &[]);
    let away = agents();
    let connect = ["server", "connect", &server.url, "--token", &secret];
    away.data(&[&connect[..], &["--namespace", "acme"]].concat());

    let printed = "one\n/retry\n\ntwo \\\nlines\n";
    let (local, remote) = (chat(&here, &[], printed), chat(&away, &[], printed));
    assert_eq!((&remote.out, remote.code), (&local.out, local.code));
    assert_eq!(remote.out.matches("You said").count(), 3, "{remote:?}");

    // It is stored there, and continued by name.
    let shown = host.data(&["session", "show", "one"]).to_string();
    assert!(shown.contains("acme"), "{shown}");
    let more = chat(&away, &["one"], "three\n");
    assert_eq!(more.code, Some(0), "{more:?}");
    assert_eq!(host.contents("one").len(), 8);
    assert_eq!(
        away.data(&["--local", "session", "list"])["summary"]["total"],
        0
    );

    // A failure is reported, and the chat continues.
    for (wrong, word) in [
        ("/diff\nfour\n", "sandbox"),
        ("/frobnicate\nfour\n", "/help"),
        ("/session nowhere\nfour\n", "nowhere"),
    ] {
        let answer = chat(&away, &[], wrong);
        assert!(answer.err.contains(word), "{answer:?}");
        assert!(answer.out.contains("four"), "{answer:?}");
        assert_ne!(answer.code, Some(0), "{answer:?}");
    }
    let refused = chat(&away, &["--sandbox", "mine"], "one\n");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let refused = chat(&away, &["nowhere"], "one\n");
    assert_eq!(refused.code, Some(3), "{refused:?}");

    // With JSON each answer is a document.
    let received = chat(&away, &["--format", "json"], "one\ntwo\n");
    let documents = serde_json::Deserializer::from_str(&received.out).into_iter();
    let documents: Vec<serde_json::Value> = documents.map(|one| one.expect("JSON")).collect();
    assert_eq!(documents.len(), 2, "{received:?}");
    assert!(
        documents[1]["data"]["response"].to_string().contains("two"),
        "{received:?}"
    );
}
