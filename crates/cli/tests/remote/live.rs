//! Commands show progress while they run, locally and on a server.

use std::io::Read as _;
use std::process::{Child, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_domain::StageTransition;
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options};
use cleveragents_testkit::model_server::{ModelServer, Step, openai};
use cleveragents_testkit::{Agents, plans};
use regex::Regex;

use crate::world::World;
use crate::{Server, agents};

/// A model that sends `Hello`, waits for `go`, and continues.
fn model(go: &Arc<AtomicBool>) -> ModelServer {
    let go = Arc::clone(go);
    ModelServer::answering(move |_| {
        let mut response = openai::text(&["Hello", " there"]);
        let wait = Step::Until(Arc::clone(&go));
        let position = response.steps.iter().position(|step| {
            matches!(step, Step::Send(bytes) if String::from_utf8_lossy(bytes).contains("there"))
        });
        response
            .steps
            .insert(position.expect("a second piece"), wait);
        response
    })
}

/// A home whose model requests go to this endpoint.
fn home(models: &ModelServer) -> Agents {
    agents()
        .with("OPENAI_BASE_URL", format!("{}/v1", models.url()))
        .with("OPENAI_API_KEY", "test-key-0123456789")
        .with("CLEVERAGENTS_MODEL_DEFAULT", "openai/gpt-5.1")
}

/// Reads the output of a command until it contains a text, and returns the output so far.
fn read_until(child: &mut Child, text: &str) -> String {
    let out = child.stdout.as_mut().expect("a pipe");
    let mut message = Vec::new();
    let mut byte = [0];
    while !String::from_utf8_lossy(&message).contains(text) {
        if out.read(&mut byte).expect("output") == 0 {
            let mut errors = String::new();
            let mut err = child.stderr.take().expect("a pipe");
            err.read_to_string(&mut errors).expect("text");
            panic!(
                "the program ended: {}{errors}",
                String::from_utf8_lossy(&message)
            );
        }
        message.push(byte[0]);
    }
    String::from_utf8_lossy(&message).into_owned()
}

/// Masks values that differ between runs.
fn masked(text: &str) -> String {
    let ids = Regex::new("[0-9A-HJKMNP-TV-Z]{26}").expect("a pattern");
    let times = Regex::new(r"\d+\.\d+").expect("a pattern");
    let text = ids.replace_all(text, "ID");
    times.replace_all(&text, "N").into_owned()
}

fn combined_output(beginning: &str, output: &Output) -> String {
    masked(&format!(
        "{beginning}{}--- stderr\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

#[test]
fn an_answer_is_streamed_as_in_a_local_command() {
    let go = Arc::new(AtomicBool::new(false));
    let models = model(&go);
    let home = home(&models);
    let file = "name: acme/greeter\ntype: llm\nmodel: openai/gpt-5.1\n";
    std::fs::write(home.cwd().join("greeter.yaml"), file).expect("a file");
    home.data(&["actor", "add", "--config", "greeter.yaml"]);
    let server = Server::start(&home, &["--insecure-local"]);
    let client = agents().with("CLEVERAGENTS_SERVER_URL", server.url.as_str());
    for command in [
        &["session", "tell", "--session", "SESSION", "--stream", "hi"][..],
        &["actor", "run", "acme/greeter", "hi", "--stream"][..],
    ] {
        let mut outputs = Vec::new();
        for caller in [&client, &home] {
            go.store(false, Ordering::SeqCst);
            let session = home.create_session();
            let command = command.iter().map(|word| match *word {
                "SESSION" => session.as_str(),
                word => word,
            });
            let mut child = caller.command(command).spawn().expect("the program starts");
            // The model has sent only this part.
            let beginning = read_until(&mut child, "Hello");
            assert!(!beginning.contains("there"), "{beginning}");
            go.store(true, Ordering::SeqCst);
            let output = child.wait_with_output().expect("the program ends");
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            outputs.push(combined_output(&beginning, &output));
        }
        assert!(outputs[0].contains("Hello there"), "{}", outputs[0]);
        assert_eq!(outputs[0], outputs[1]);
    }
    // Machine formats print one document, locally and remotely.
    let session = home.create_session();
    let received = client.data(&["session", "tell", "--session", &session, "--stream", "hi"]);
    assert_eq!(received["response"], "Hello there");
    // Failures are reported as in local commands.
    let arguments = ["session", "tell", "--session", "nowhere", "--stream", "hi"];
    assert_eq!(client.run(&arguments), home.run(&arguments));
}

#[test]
fn the_progress_of_a_plan_is_shown_as_in_a_local_command() {
    let world = World::new();
    world.action(
        "local/two",
        &["write `one` to `a.txt`", "write `two` to `b.txt`"],
    );
    let server = Server::start(&world.agents, &["--insecure-local"]);
    let client = agents().with("CLEVERAGENTS_SERVER_URL", server.url.as_str());
    let outputs = [&client, &world.agents].map(|caller| {
        let plan = world.plan("local/two", &[]);
        let answer = caller.run(&["plan", "execute", &plan, "--stream"]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        // The progress on standard error is the same, locally and remotely.
        masked(&answer.err)
    });
    assert!(outputs[0].contains("execute: complete"), "{}", outputs[0]);
    assert_eq!(outputs[0], outputs[1]);
}

fn engine(home: &Agents) -> Arc<Engine> {
    let url = DatabaseUrl::file(&home.database(), home.home());
    EngineCache::new(Options::default())
        .open(&url)
        .expect("the database opens")
}

#[test]
fn the_log_of_a_plan_is_followed_until_it_finishes() {
    let home = agents();
    home.data(&["db", "upgrade"]);
    let server = Server::start(&home, &["--insecure-local"]);
    let client = agents().with("CLEVERAGENTS_SERVER_URL", server.url.as_str());
    let engine = engine(&home);
    let plan = plans::store(&engine, &plans::new_plan("watched"));
    let id = plan.to_string();
    for format in ["plain", "json"] {
        let is_first = format == "plain";
        let arguments = ["--format", format, "plan", "log", &id, "--follow"];
        let mut child = client
            .command(arguments)
            .spawn()
            .expect("the program starts");
        let mut message = read_until(&mut child, "\n");
        if is_first {
            plans::advance(&engine, plan, &[StageTransition::StartStrategize]);
            message.push_str(&read_until(&mut child, "\n"));
            plans::advance(&engine, plan, &[StageTransition::Cancel]);
        }
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        message.push_str(&String::from_utf8_lossy(&output.stdout));
        assert_eq!(message, home.run(&arguments).out, "{format}");
        assert!(message.lines().count() > 2, "{message}");
    }
    let yaml = ["--format", "yaml", "plan", "log", &id, "--follow"];
    assert_eq!(client.run(&yaml).code, home.run(&yaml).code);
}

#[test]
fn following_a_log_continues_after_a_server_restart() {
    let home = agents();
    home.data(&["db", "upgrade"]);
    let server = Server::start(&home, &["--insecure-local"]);
    let url = server.url.clone();
    let client = agents().with("CLEVERAGENTS_SERVER_URL", server.url.as_str());
    let engine = engine(&home);
    let plan = plans::store(&engine, &plans::new_plan("watched"));
    let id = plan.to_string();
    let mut child = client
        .command(["plan", "log", &id, "--follow"])
        .spawn()
        .expect("the program starts");
    let mut message = read_until(&mut child, "\n");
    assert_eq!(server.end(), Some(0));
    plans::advance(&engine, plan, &[StageTransition::StartStrategize]);
    let _restarted = Server::start_again(&home, &url, &["--insecure-local"]);
    message.push_str(&read_until(&mut child, "\n"));
    plans::advance(&engine, plan, &[StageTransition::Cancel]);
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    message.push_str(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(message, home.run(&["plan", "log", &id, "--follow"]).out);
}
