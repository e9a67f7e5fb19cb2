//! Turns.

use serde_json::json;

use crate::harness::{Server, wait_until};

#[test]
fn an_answer_is_sent_at_once_or_streamed() {
    let server = Server::start();
    let editor = server.caller(&["acme=editor"]);
    let path = format!("{}/turns", server.session("acme"));
    let complete = editor
        .post(&path, &json!({"prompt": "one two three"}))
        .expect(200);
    assert_eq!(
        complete.json(),
        json!({"state": "answered", "text": "one two three"})
    );
    let other_path = format!("{}/turns", server.session("acme"));
    let waiting = editor
        .post(&other_path, &json!({"prompt": "ask which?"}))
        .expect(200);
    assert_eq!(
        waiting.json(),
        json!({"state": "waiting", "text": "which?"})
    );
    editor
        .post(&path, &json!({"prompt": "fail"}))
        .problem(422, "CA-0805");

    let body = json!({"prompt": "one two three"}).to_string();
    let streaming = editor.with("accept", "text/event-stream");
    let mut stream = streaming.send("POST", &path, Some("application/json"), body.as_bytes());
    assert_eq!(stream.head().expect("an answer").0, 200);
    let received: Vec<_> = std::iter::from_fn(|| stream.block())
        .map(|sent| (sent.event.expect("a name"), sent.data.expect("data")))
        .filter(|(name, _)| name != "reset")
        .collect();
    let text = |text: &str| ("text".to_owned(), json!({"text": text}));
    let end = json!({"state": "answered", "text": "one two three"});
    assert_eq!(
        received,
        [
            text("one "),
            text("two "),
            text("three"),
            ("end".to_owned(), end)
        ]
    );
    let body = json!({"prompt": "fail"}).to_string();
    let mut stream = streaming.send("POST", &path, Some("application/json"), body.as_bytes());
    assert_eq!(stream.head().expect("an answer").0, 200);
    let blocks = std::iter::from_fn(|| stream.block());
    let last = blocks.last().expect("a problem");
    assert_eq!(last.event.as_deref(), Some("problem"));
    assert_eq!(last.data.expect("data")["code"], "CA-0805");
}

#[test]
fn the_turn_of_a_disconnected_client_finishes() {
    let server = Server::start();
    let path = format!("{}/turns", server.session("acme"));
    let body = json!({"prompt": "hold on"}).to_string();
    let client = server.local();
    let plain = client.send("POST", &path, Some("application/json"), body.as_bytes());
    let streamed = client.with("accept", "text/event-stream").send(
        "POST",
        &path,
        Some("application/json"),
        body.as_bytes(),
    );
    wait_until("both run", || server.gauge("running") == 2);
    drop((plain, streamed));
    server.double.release();
    wait_until("nothing runs", || server.gauge("running") == 0);
}

#[test]
fn work_above_the_limits_is_rejected_and_queued_work_runs() {
    let server = Server::with(|options| {
        options.max_running = 1;
        options.max_waiting = 1;
    });
    let path = format!("{}/turns", server.session("acme"));
    let hold = json!({"prompt": "hold on"});
    let start_turn = || {
        let (client, path, hold) = (server.local(), path.clone(), hold.clone());
        std::thread::spawn(move || client.post(&path, &hold).status)
    };
    let first = start_turn();
    wait_until("one runs", || server.gauge("running") == 1);
    let second = start_turn();
    wait_until("one waits", || server.gauge("waiting") == 1);
    let refused = server.local().post(&path, &hold);
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.problem(503, "CA-1219");
    server.double.release();
    assert_eq!(first.join().expect("ends"), 200);
    assert_eq!(second.join().expect("ends"), 200);
}

#[test]
fn a_stopping_server_finishes_running_work_and_rejects_new_work() {
    let mut server = Server::start();
    let path = format!("{}/turns", server.session("acme"));
    let client = server.local();
    let running = {
        let (client, path) = (client.clone(), path.clone());
        std::thread::spawn(move || client.post(&path, &json!({"prompt": "hold on"})))
    };
    wait_until("it runs", || server.gauge("running") == 1);
    // A connection from before the shutdown still gets its response.
    let mut connection = client.connect();
    let mut ready = || {
        connection
            .write(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .expect("it is sent");
        connection.answer("GET").status
    };
    assert_eq!(ready(), 200);
    server.begin_shutdown();
    wait_until("the server is stopping", || ready() == 503);
    server.double.release();
    let answer = running.join().expect("ends").expect(200);
    assert_eq!(answer.json()["text"], "on");
    server.shut_down();
}
