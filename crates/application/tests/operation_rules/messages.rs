//! Turns that answer messages of remote callers in their sessions.

use std::sync::{Arc, Mutex};

use cleveragents_application::{
    AgentEvent, FrontEnd, MessageActor, MessageOutcome, MessageTurn, Observer, OperationError,
};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, Diagnose as _, SessionId};
use serde_json::json;

use crate::support::{TestOperations, caller, test_operations};

/// Records the text of the model, and the names of the tools that it calls.
#[derive(Default)]
struct Recorder(Mutex<String>);

impl Observer for Recorder {
    fn event(&self, event: &AgentEvent) {
        let mut seen = self.0.lock().expect("not poisoned");
        match event {
            AgentEvent::Text { text, .. } => seen.push_str(text),
            AgentEvent::ToolCallStarted { tool, .. } => seen.extend(["[", tool, "]"]),
            _ => {}
        }
    }
}

impl TestOperations {
    fn session(&self, caller: &Caller) -> SessionId {
        let made = self
            .run(caller, "session/create", &json!({}))
            .expect("made");
        let id = made["session"]["id"].as_str().expect("an id");
        id.parse().expect("an id")
    }

    fn answer(
        &self,
        caller: &Caller,
        session: SessionId,
        prompt: Option<&str>,
        actor: MessageActor,
    ) -> (Result<MessageOutcome, OperationError>, String) {
        let recorder = Arc::new(Recorder::default());
        let context = self.application.for_caller(caller.clone());
        let context = context.with_front_end(FrontEnd {
            observer: Arc::clone(&recorder) as _,
            ..FrontEnd::default()
        });
        let message = MessageTurn {
            session,
            prompt: prompt.map(str::to_owned),
            actor: Some(actor),
        };
        let outcome = message.run(&context);
        let seen = recorder.0.lock().expect("not poisoned").clone();
        (outcome, seen)
    }
}

#[test]
fn remote_callers_cannot_choose_local_or_foreign_actors() {
    let operations = test_operations();
    let admin = caller(&["acme=admin"]);
    let text = "name: other/x\ntype: llm\nprovider: openai\nmodel: gpt-5\ndescription: d\n";
    let add = json!({"text": text});
    let other = caller(&["other=admin"]);
    operations
        .run(&other, "registry/actor/add", &add)
        .expect("added");
    let answer = |caller: &Caller, actor: MessageActor| {
        let session = operations.session(&admin);
        let (outcome, _) = operations.answer(caller, session, Some("hello"), actor);
        outcome.expect_err("no model is configured").code()
    };
    let requested = |name: &str| MessageActor::Requested(name.to_owned());
    for actor in [
        "scripted/s.yaml",
        "Scripted/s.yaml",
        "replay/r",
        "local/x",
        "x",
    ] {
        assert_eq!(answer(&admin, requested(actor)), Code::LocalOnly, "{actor}");
    }
    assert_eq!(answer(&admin, requested("other/x")), Code::ActorNotFound);
    let local_caller = Caller::local("ada");
    assert_ne!(
        answer(&local_caller, requested("scripted/s.yaml")),
        Code::LocalOnly
    );
    // The configuration of the server may name an actor that remote callers cannot request.
    let configured = MessageActor::Configured("scripted/s.yaml".to_owned());
    assert_ne!(answer(&admin, configured), Code::LocalOnly);
}

#[test]
fn the_next_message_answers_the_question_of_a_turn() {
    let operations = test_operations();
    let script = "answers:\n\
        - when: '^Paint the house$'\n  calls:\n  \
        - {name: builtin/ask-user, arguments: {question: 'Which colour?', options: [red, blue]}}\n\
        - when: 'green'\n  text: It is green now.\n\
        - when: '^Thanks$'\n  text: You are welcome.\n";
    std::fs::write(operations.folder.path().join("script.yaml"), script).expect("written");
    let editor = caller(&["acme=editor"]);
    let session = operations.session(&editor);
    let answer = |prompt: Option<&str>| {
        let actor = MessageActor::Configured("scripted/script.yaml".to_owned());
        let (outcome, seen) = operations.answer(&editor, session, prompt, actor);
        (outcome.expect("a turn"), seen)
    };

    let (outcome, seen) = answer(Some("Paint the house"));
    let MessageOutcome::Waiting(question) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(question.contains("Which colour?"), "{question}");
    assert!(question.contains("- blue"), "{question}");
    assert_eq!(seen, "[builtin/ask-user]");
    // A turn that is resumed without an answer still waits.
    assert!(matches!(answer(None).0, MessageOutcome::Waiting(_)));
    // The next message is the answer, not a new question.
    let (outcome, _) = answer(Some("green"));
    let green = MessageOutcome::Answered("It is green now.".to_owned());
    assert_eq!(outcome, green);
    let (outcome, seen) = answer(Some("Thanks"));
    let thanks = MessageOutcome::Answered("You are welcome.".to_owned());
    assert_eq!(outcome, thanks);
    assert_eq!(seen, "You are welcome.");

    let reference = json!({"reference": session.to_string()});
    let listed = operations.run(&editor, "session/messages", &reference);
    let listed = listed.expect("listed");
    let questions: Vec<&str> = listed["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|message| message["role"] == "user")
        .filter_map(|message| message["content"].as_str())
        .collect();
    assert_eq!(questions, ["Paint the house", "Thanks"]);
}
