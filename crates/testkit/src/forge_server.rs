//! A hosting service for tests: the pull requests of GitHub's, or Forgejo's and Gitea's, REST API.
//!
//! It rejects what the real services reject: a request without the token (401), to another repository (404), without
//! `head`, `base` or a title (422), and a second pull request of the same branch (422 or 409).

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::model_server::{ModelServer, ReceivedRequest, Response};

/// The service whose API the server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgeApi {
    GitHub,
    /// Forgejo and Gitea.
    Forgejo,
}

/// A hosting service with one repository, `ada/shop`. It stops when it is dropped.
pub struct ForgeServer {
    server: ModelServer,
    pulls: Arc<Mutex<Vec<Value>>>,
}

impl ForgeServer {
    /// Starts a service that accepts this token.
    pub fn start(api: ForgeApi, token: &str) -> Self {
        let pulls = Arc::new(Mutex::new(Vec::new()));
        let (stored, token) = (Arc::clone(&pulls), token.to_owned());
        let server = ModelServer::answering(move |request| {
            let mut pulls = stored.lock().unwrap_or_else(PoisonError::into_inner);
            let (status, body) = answer(api, &token, request, &mut pulls);
            Response::json(status, &body.to_string())
        });
        Self { server, pulls }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The pull requests, with their state.
    pub fn pulls(&self) -> Vec<Value> {
        let pulls = self.pulls.lock();
        pulls.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes all pull requests.
    pub fn close_all(&self) {
        let mut pulls = self.pulls.lock().unwrap_or_else(PoisonError::into_inner);
        for pull in pulls.iter_mut() {
            pull["state"] = "closed".into();
        }
    }

    /// The requests received so far.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.server.received()
    }
}

fn answer(
    api: ForgeApi,
    token: &str,
    request: &ReceivedRequest,
    pulls: &mut Vec<Value>,
) -> (u16, Value) {
    let (prefix, scheme) = match api {
        ForgeApi::GitHub => ("", "Bearer"),
        ForgeApi::Forgejo => ("/api/v1", "token"),
    };
    if request.header("authorization") != Some(&format!("{scheme} {token}")) {
        return (401, json!({"message": "Bad credentials"}));
    }
    if request.header("user-agent").is_none() {
        return (
            403,
            json!({"message": "Request forbidden by administrative rules."}),
        );
    }
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    if path != format!("{prefix}/repos/ada/shop/pulls") {
        return (404, json!({"message": "Not Found"}));
    }
    if request.body.is_empty() {
        return (200, listed(api, query, pulls));
    }
    let Ok(wanted) = serde_json::from_str::<Value>(&request.body) else {
        return (400, json!({"message": "Problems parsing JSON"}));
    };
    for field in ["head", "base", "title"] {
        if wanted[field].as_str().is_none_or(str::is_empty) {
            let error = json!({"resource": "PullRequest", "code": "missing_field", "field": field});
            return (
                422,
                json!({"message": "Validation Failed", "errors": [error]}),
            );
        }
    }
    let is_same = |pull: &&Value| pull["state"] == "open" && pull["head"]["ref"] == wanted["head"];
    if pulls.iter().any(|pull| is_same(&pull)) {
        let message = format!("A pull request already exists for ada:{}.", wanted["head"]);
        return match api {
            ForgeApi::GitHub => (
                422,
                json!({"message": "Validation Failed", "errors": [{"message": message}]}),
            ),
            ForgeApi::Forgejo => (409, json!({"message": message})),
        };
    }
    let number = pulls.len() + 1;
    let pull = json!({
        "number": number,
        "state": "open",
        "html_url": format!("https://code.example/ada/shop/pulls/{number}"),
        "title": wanted["title"],
        "body": wanted["body"],
        "head": {"ref": wanted["head"]},
        "base": {"ref": wanted["base"]},
    });
    pulls.push(pull.clone());
    (201, pull)
}

/// The pull requests that a query selects. Forgejo ignores `head`.
fn listed(api: ForgeApi, query: &str, pulls: &[Value]) -> Value {
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let head = parameter("head").filter(|_| api == ForgeApi::GitHub);
    let selected = pulls.iter().filter(|pull| {
        let state = parameter("state").unwrap_or("open");
        let wanted = format!("ada:{}", pull["head"]["ref"].as_str().unwrap_or_default());
        let decoded = head.map(|head| head.replace("%3A", ":").replace("%2F", "/"));
        (state == "all" || pull["state"] == state) && decoded.is_none_or(|head| head == wanted)
    });
    selected.cloned().collect()
}
