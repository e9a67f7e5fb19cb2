//! A chat with a server through a pipe: messages, answers and exit codes equal those of a local
//! chat.

use cleveragents_testkit::model_server::{ModelServer, openai};
use cleveragents_testkit::{Agents, Answer};

use crate::{Server, agents, token};

/// A model that repeats the last message.
fn echo() -> ModelServer {
    ModelServer::answering(|request| {
        let last = request.json()["messages"]
            .as_array()
            .and_then(|messages| Some(messages.last()?["content"].to_string()))
            .unwrap_or_default();
        openai::text(&["You said ", last.trim_matches('"')])
    })
}

fn home(models: &ModelServer) -> Agents {
    agents()
        .with("OPENAI_BASE_URL", format!("{}/v1", models.url()))
        .with("OPENAI_API_KEY", "test-key-0123456789")
        .with("CLEVERAGENTS_MODEL_DEFAULT", "openai/gpt-5.1")
}

fn chat(agents: &Agents, arguments: &[&str], input: &str) -> Answer {
    agents.run_with(&[&["chat"], arguments].concat(), input.as_bytes())
}

#[test]
fn a_chat_with_a_server_works_like_a_local_chat() {
    let models = echo();
    let (local_home, server_home) = (home(&models), home(&models));
    let secret = token(&server_home, "ada", &["acme=editor"]);
    let server = Server::start(&server_home, &[]);
    let client = agents();
    let connect = ["server", "connect", &server.url, "--token", &secret];
    client.data(&[&connect[..], &["--namespace", "acme"]].concat());

    let input = "one\n/retry\n\ntwo \\\nlines\n";
    let (local, remote) = (chat(&local_home, &[], input), chat(&client, &[], input));
    assert_eq!((&remote.out, remote.code), (&local.out, local.code));
    assert_eq!(remote.out.matches("You said").count(), 3, "{remote:?}");

    // The session is stored on the server and can be continued by its name.
    let shown = server_home.data(&["session", "show", "one"]).to_string();
    assert!(shown.contains("acme"), "{shown}");
    let continued = chat(&client, &["one"], "three\n");
    assert_eq!(continued.code, Some(0), "{continued:?}");
    assert_eq!(server_home.contents("one").len(), 8);
    let compacted = chat(&client, &["one"], "/compact the numbers\n/compact\n");
    assert!(
        compacted.out.contains("Compacted 8 messages") && compacted.out.contains("Nothing to"),
        "{compacted:?}"
    );
    assert_eq!(server_home.contents("one").len(), 8);
    assert_eq!(
        client.data(&["--local", "session", "list"])["summary"]["total"],
        0
    );

    // A failure is reported, and the chat continues.
    for (wrong, expected) in [
        ("/diff\nfour\n", "sandbox"),
        ("/frobnicate\nfour\n", "/help"),
        ("/session nowhere\nfour\n", "nowhere"),
    ] {
        let answer = chat(&client, &[], wrong);
        assert!(answer.err.contains(expected), "{answer:?}");
        assert!(answer.out.contains("four"), "{answer:?}");
        assert_ne!(answer.code, Some(0), "{answer:?}");
    }
    let refused = chat(&client, &["--sandbox", "mine"], "one\n");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let refused = chat(&client, &["nowhere"], "one\n");
    assert_eq!(refused.code, Some(3), "{refused:?}");

    // With JSON each answer is a document.
    let received = chat(&client, &["--format", "json"], "one\ntwo\n");
    let documents = serde_json::Deserializer::from_str(&received.out).into_iter();
    let documents: Vec<serde_json::Value> =
        documents.map(|document| document.expect("JSON")).collect();
    assert_eq!(documents.len(), 2, "{received:?}");
    assert!(
        documents[1]["data"]["response"].to_string().contains("two"),
        "{received:?}"
    );
}
