//! The user's own files with passwords, tokens and keys are read, edited and rewritten byte for
//! byte. Secrets of the environment do not appear anywhere.

use std::fmt::Write as _;
use std::sync::Mutex;

use cleveragents_testkit::model_server::{ModelServer, ReceivedRequest};
use serde_json::json;

use super::form::{Shape, WireFormat};
use super::world::{ConversationFixture, READ, WRITE, agents, every_file};

const EDIT: &str = "builtin_S_file-edit";
const FILES: usize = 200;

/// Secrets of the environment.
const TOKEN: &str = "ghp_Zx81kQw93LmPs72VbNt64RcYd05HjFgKaUeoI";
const PASSWORD: &str = "T0p!secret-of-the-environment";

/// Text of a file in the corpus, with credentials that are not in the environment.
fn text_of(number: usize) -> String {
    let key = format!("{number:04}AbCdEfGhIjKlMnOpQrStUvWxYz012345");
    let line = match number % 10 {
        0 => format!("password=\"changeme\"  # {number}"),
        1 => format!("headers = {{'Authorization': 'Bearer {key}'}}"),
        2 => format!("PWD=/srv\nexport API_KEY={key}"),
        3 => format!("DATABASE_URL=postgres://admin:s3cr3t{number}@db.example/app"),
        4 => format!("-----BEGIN RSA PRIVATE KEY-----\nMIIE{key}\n-----END RSA PRIVATE KEY-----"),
        5 => format!("{{\"token\": \"ghp_{key}\", \"password\": \"hunter{number}\"}}"),
        6 => format!("curl 'https://api.example/v1?key={key}&x=1'"),
        7 => format!("sk-proj-{key} AKIAIOSFODNN7EXAMPL{}", number % 7),
        8 => format!("auth = \"Bearer \" + token  # é {key}"),
        _ => format!("secret: xoxb-{key}\r\npasswd = 'p{number}'\t"),
    };
    format!("# file {number}\n{line}\nlast = {number}\n")
}

fn name_of(number: usize) -> String {
    match number % 4 {
        0 => format!("conf/{number}.env"),
        1 => format!("src/f{number}.py"),
        2 => format!(".env.{number}"),
        _ => format!("keys/{number}.pem"),
    }
}

/// The text after the edit of the test.
fn edited_text(number: usize) -> String {
    let text = text_of(number);
    let last = format!("last = {number}\n");
    text.replace(&last, &format!("last = {number}  # looked at\n"))
}

/// Content between the data marks of a result.
fn content_of(result: &str) -> &str {
    let (_, rest) = result.split_once('\n').expect("a mark");
    let (content, _) = rest.rsplit_once("</data-").expect("its end");
    content
}

/// Reads all files, rewrites one half unchanged, edits a line of credentials in the other half, and
/// repeats secrets that it should not know, letter by letter.
fn model(form: WireFormat) -> ModelServer {
    let reading: Mutex<Option<Vec<String>>> = Mutex::new(None);
    ModelServer::answering(move |request: &ReceivedRequest| {
        let results = form.results(request);
        if results.is_empty() {
            let calls: Vec<(String, String)> = (0..FILES)
                .map(name_of)
                .chain(["deploy.env".to_owned()])
                .enumerate()
                .map(|(number, path)| (format!("r{number}"), json!({"path": path}).to_string()))
                .collect();
            let calls: Vec<_> = calls
                .iter()
                .map(|(id, arguments)| (id.as_str(), READ, arguments.as_str()))
                .collect();
            return form.calls(Shape::Pieces, &calls);
        }
        let mut read = reading.lock().expect("not poisoned");
        if read.is_none() {
            let contents: Vec<String> = results
                .iter()
                .map(|result| content_of(&result.content).to_owned())
                .collect();
            let mut calls = Vec::new();
            for (number, content) in contents.iter().enumerate() {
                let path = if number < FILES {
                    name_of(number)
                } else {
                    "deploy.env".to_owned()
                };
                if number % 2 == 0 {
                    let arguments = json!({"path": path, "content": content});
                    calls.push((format!("w{number}"), WRITE, arguments.to_string()));
                } else {
                    let line = content.lines().nth(1).expect("a line");
                    let last = format!("last = {number}\n");
                    let arguments = json!({"path": path, "edits": [
                        {"old_text": line, "new_text": format!("{line}!")},
                        {"old_text": format!("{line}!"), "new_text": line},
                        {"old_text": last, "new_text": format!("last = {number}  # looked at\n")},
                    ]});
                    calls.push((format!("e{number}"), EDIT, arguments.to_string()));
                }
            }
            *read = Some(contents);
            let calls: Vec<_> = calls
                .iter()
                .map(|(id, tool, arguments)| (id.as_str(), *tool, arguments.as_str()))
                .collect();
            return form.calls(Shape::Pieces, &calls);
        }
        let message = format!("It is {TOKEN} and {PASSWORD}.");
        let letters: Vec<String> = message.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        form.text_response(Shape::Pieces, &letters)
    })
}

fn assert_hidden(label: &str, bytes: &[u8]) {
    for secret in [TOKEN, PASSWORD] {
        let (left, right) = secret.split_at(secret.len() / 2);
        for part in [left, right] {
            let has_part = bytes
                .windows(part.len())
                .any(|window| window == part.as_bytes());
            assert!(!has_part, "a secret of the environment is in {label}");
        }
    }
}

#[test]
fn two_hundred_files_of_credentials_keep_their_credentials() {
    let form = WireFormat::OpenAi;
    let agents = agents()
        .with("DEPLOY", TOKEN)
        .with("DB_PASSWORD", PASSWORD)
        // A common word is not a secret, although the name of its variable suggests it.
        .with("ADMIN_PASSWORD", "changeme");
    let real = agents.cwd().join("code");
    for number in 0..FILES {
        let path = real.join(name_of(number));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text_of(number)).expect("a file");
    }
    let mut deploy = String::new();
    writeln!(deploy, "# deploy\nTOKEN={TOKEN}\nPASS={PASSWORD}").expect("a text");
    std::fs::write(real.join("deploy.env"), &deploy).expect("a file");
    let fixture = ConversationFixture::at(agents, form, model(form));
    let mut arguments = fixture.arguments(&["--stream", "look at everything"]);
    arguments[1] = "plain";
    let answer = fixture.agents.run(&arguments);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(
        answer.out.contains("It is [REDACTED] and [REDACTED]."),
        "{}",
        answer.out
    );
    for number in 0..FILES {
        let expected = if number % 2 == 0 {
            text_of(number)
        } else {
            edited_text(number)
        };
        let name = name_of(number);
        assert_eq!(
            fixture.file(&name).as_deref(),
            Some(expected.as_str()),
            "{name}"
        );
    }
    // Masked content is not written back.
    assert_eq!(fixture.file("deploy.env").as_deref(), Some(deploy.as_str()));
    let results = form.results(&fixture.server().received()[2]);
    let refused = results.last().expect("a result");
    assert!(
        refused.content.contains("Nothing was changed"),
        "{refused:?}"
    );
    let failed = results
        .iter()
        .filter(|result| result.content.contains("failed"))
        .count();
    assert_eq!(failed, 1, "every other call succeeds");

    for request in fixture.server().received() {
        assert_hidden("a request", request.json().to_string().as_bytes());
    }
    assert_hidden("the output", answer.out.as_bytes());
    assert_hidden("the errors", answer.err.as_bytes());
    let shown = fixture.agents.run(&["session", "export", &fixture.session]);
    assert_hidden("an export", shown.out.as_bytes());
    let database = fixture.agents.database();
    let files = every_file(fixture.agents.home());
    assert!(files.iter().any(|(path, _)| *path == database));
    for (path, bytes) in files {
        if path != fixture.sandbox_folder.join("deploy.env") {
            assert_hidden(&path.display().to_string(), &bytes);
        }
    }
}
