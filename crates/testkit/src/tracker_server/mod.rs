//! An issue tracker for tests: the issues of a repository `ada/shop` over the REST API of Forgejo and Gitea, or of
//! GitHub.
//!
//! It behaves as the published descriptions and the sources of the services state, also where that is inconvenient:
//! Forgejo limits pages to 50 objects, answers the change of an issue with 201, ignores unknown label ids and all
//! labels of accounts that may not write, and refuses to close an issue with open dependencies; GitHub creates labels
//! that do not exist, lists pull requests among the issues, and reports no total.
//!
//! Tests inject [`TrackerFault`]s into single requests.

mod repository;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::forge_server::ForgeApi;
use crate::model_server::{ModelServer, ReceivedRequest, Response, Step};
use repository::{Repository, ServerAnswer};

/// A token that the server accepts.
#[derive(Debug, Clone)]
pub struct TrackerToken {
    pub token: String,
    /// Account that the token belongs to.
    pub login: String,
    /// Scopes such as `write:issue`. Only Forgejo checks them.
    pub scopes: Vec<&'static str>,
    /// Whether the account may write to the repository.
    pub can_push: bool,
}

impl TrackerToken {
    /// A token with all rights.
    pub fn new(token: &str, login: &str) -> Self {
        Self {
            token: token.to_owned(),
            login: login.to_owned(),
            scopes: vec![
                "read:user",
                "write:issue",
                "read:repository",
                "read:organization",
            ],
            can_push: true,
        }
    }

    fn has(&self, scope: &str) -> bool {
        let writing = scope.replace("read:", "write:");
        self.scopes
            .iter()
            .any(|known| *known == scope || *known == writing)
    }
}

/// A fault of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrackerFault {
    /// The request has its effect, and its answer is lost.
    LostResponse,
    /// The request has its effect, and the answer is an error.
    ErrorAfterEffect,
    /// The request has no effect, and the answer is an error.
    ErrorBeforeEffect,
    /// The rate of requests is limited; the request has no effect.
    Limited { retry_after: u64 },
    /// Half of the objects of a page are missing, without a trace in the headers.
    TruncatedPage,
    /// The answer is the first page instead of the wanted one.
    RepeatedPage,
    /// The answer has no header with the total.
    NoTotal,
    /// A proxy answers in place of the service.
    NotJson,
    /// The answer comes after this time.
    Slow(Duration),
}

struct PlannedFault {
    method: String,
    path: String,
    fault: TrackerFault,
}

struct TrackerState {
    tokens: Vec<TrackerToken>,
    repository: Repository,
    faults: Vec<PlannedFault>,
}

/// A tracker that runs until it is dropped.
pub struct TrackerServer {
    server: ModelServer,
    state: Arc<Mutex<TrackerState>>,
}

impl TrackerServer {
    /// Starts a tracker that accepts these tokens.
    pub fn start(api: ForgeApi, tokens: &[TrackerToken]) -> Self {
        let state = Arc::new(Mutex::new(TrackerState {
            tokens: tokens.to_vec(),
            repository: Repository::new(api),
            faults: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        let server = ModelServer::answering(move |request| {
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
            state.respond(api, request)
        });
        Self { server, state }
    }

    fn state(&self) -> MutexGuard<'_, TrackerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// The address of the repository.
    pub fn repository_url(&self) -> String {
        format!("{}/ada/shop", self.server.url())
    }

    /// Adds labels of the repository.
    pub fn add_labels(&self, names: &[&str]) {
        for name in names {
            self.state().repository.add_label(name);
        }
    }

    /// Adds an open milestone.
    pub fn add_milestone(&self, title: &str) {
        self.state().repository.add_milestone(title);
    }

    /// Adds an issue of another user and returns its number.
    pub fn add_issue(&self, title: &str, body: &str, labels: &[&str]) -> u64 {
        self.state()
            .repository
            .add_issue("grace", title, body, labels)
    }

    /// Adds a pull request, which GitHub and Forgejo number together with issues.
    pub fn add_pull_request(&self, title: &str) -> u64 {
        let mut state = self.state();
        let number = state.repository.add_issue("grace", title, "", &[]);
        state.repository.make_pull_request(number);
        number
    }

    /// Changes an issue as another user would.
    pub fn edit_issue(&self, number: u64, change: impl FnOnce(&mut Value)) {
        self.state().repository.edit(number, change);
    }

    /// Makes an issue depend on another one.
    pub fn add_dependency(&self, number: u64, depends_on: u64) {
        self.state()
            .repository
            .dependencies
            .push((number, depends_on));
    }

    /// Adds a comment of another user.
    pub fn add_comment(&self, number: u64, login: &str, body: &str) {
        self.state().repository.add_comment(number, login, body);
    }

    pub fn remove_issue(&self, number: u64) {
        self.state()
            .repository
            .issues
            .retain(|issue| issue["number"] != number);
    }

    pub fn archive(&self) {
        self.state().repository.is_archived = true;
    }

    pub fn issues(&self) -> Vec<Value> {
        self.state().repository.issues.clone()
    }

    /// The texts of the comments of an issue.
    pub fn comments(&self, number: u64) -> Vec<String> {
        let state = self.state();
        let comments = state.repository.comments.iter();
        let of_issue = comments.filter(|comment| comment["issue"] == number);
        of_issue
            .map(|comment| comment["body"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    pub fn label_names(&self) -> BTreeSet<String> {
        let state = self.state();
        let labels = state.repository.labels.iter();
        labels.map(|(_, name)| name.clone()).collect()
    }

    /// Lets the next request with this method and a path that contains this text fail.
    pub fn inject(&self, method: &str, path: &str, fault: TrackerFault) {
        self.state().faults.push(PlannedFault {
            method: method.to_owned(),
            path: path.to_owned(),
            fault,
        });
    }

    /// The requests received so far.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.server.received()
    }

    /// Number of requests so far that may have an effect, without queries over GraphQL.
    pub fn write_count(&self) -> usize {
        let received = self.server.received();
        let writes = received
            .iter()
            .filter(|request| request.method != "GET" && !request.path.ends_with("/graphql"));
        writes.count()
    }
}

impl TrackerState {
    fn respond(&mut self, api: ForgeApi, request: &ReceivedRequest) -> Response {
        let planned = self.faults.iter().position(|planned| {
            planned.method == request.method && request.path.contains(&planned.path)
        });
        let fault = planned.map(|index| self.faults.remove(index).fault);
        match &fault {
            Some(TrackerFault::ErrorBeforeEffect) => {
                return Response::json(500, &json!({"message": "internal error"}).to_string());
            }
            Some(TrackerFault::Limited { retry_after }) => {
                let body = json!({"message": "too many requests"}).to_string();
                return Response::json(429, &body).header("retry-after", &retry_after.to_string());
            }
            Some(TrackerFault::NotJson) => {
                let mut response = Response::json(200, "<html>Sign in</html>");
                response.headers = vec![("content-type".to_owned(), "text/html".to_owned())];
                return response;
            }
            _ => {}
        }
        let mut request = request.clone();
        if fault == Some(TrackerFault::RepeatedPage) {
            request.path = request.path.replace("page=2", "page=1");
        }
        let mut answered = match self.authorize(api, &request) {
            Ok(token) => self.repository.answer(&token, &request),
            Err(refused) => refused,
        };
        if fault == Some(TrackerFault::TruncatedPage)
            && let Value::Array(items) = &mut answered.body
        {
            items.truncate(items.len() / 2);
        }
        if fault == Some(TrackerFault::NoTotal) {
            answered
                .headers
                .retain(|(name, _)| *name != "x-total-count");
        }
        if fault == Some(TrackerFault::ErrorAfterEffect) {
            answered = ServerAnswer::error(502, "bad gateway");
        }
        let mut response = Response::json(answered.status, &answered.body.to_string());
        if answered.status == 204 {
            response.steps.clear();
        }
        for (name, value) in &answered.headers {
            response = response.header(name, value);
        }
        match fault {
            Some(TrackerFault::LostResponse) => response.cut_after(0),
            Some(TrackerFault::Slow(time)) => {
                response.steps.insert(0, Step::Pause(time));
                response
            }
            _ => response,
        }
    }

    /// The token of a request, if it exists and has the scope that the path needs.
    fn authorize(
        &self,
        api: ForgeApi,
        request: &ReceivedRequest,
    ) -> Result<TrackerToken, ServerAnswer> {
        if request.header("user-agent").is_none() {
            return Err(ServerAnswer::error(403, "a user agent is required"));
        }
        let authorization = request.header("authorization").unwrap_or_default();
        let token = authorization
            .strip_prefix("token ")
            .or_else(|| authorization.strip_prefix("Bearer "));
        let found = self
            .tokens
            .iter()
            .find(|known| Some(known.token.as_str()) == token);
        let Some(found) = found else {
            // The message repeats the token, as some proxies do.
            let message = format!("invalid token {}", token.unwrap_or_default());
            return Err(ServerAnswer::error(401, &message));
        };
        if api == ForgeApi::Forgejo {
            let is_write = request.method != "GET";
            let path = request.path.split('?').next().unwrap_or_default();
            let area = if path == "/api/v1/user" {
                "user"
            } else if path.starts_with("/api/v1/orgs/") {
                "organization"
            } else if path == "/api/v1/repos/ada/shop" {
                "repository"
            } else {
                "issue"
            };
            let scope = format!("{}:{area}", if is_write { "write" } else { "read" });
            if !found.has(&scope) {
                let message =
                    format!("token does not have at least one of required scope(s): [{scope}]");
                return Err(ServerAnswer::error(403, &message));
            }
        }
        let has_body = matches!(request.method.as_str(), "POST" | "PATCH" | "PUT");
        let content_type = request.header("content-type").unwrap_or_default();
        if has_body && !content_type.starts_with("application/json") {
            return Err(ServerAnswer::error(415, "unsupported content type"));
        }
        Ok(found.clone())
    }
}
