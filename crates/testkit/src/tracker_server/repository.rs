//! The repository of a [`TrackerServer`](super::TrackerServer): its objects, and the answers to authorized requests.

use serde_json::{Value, json};

use super::TrackerToken;
use crate::forge_server::ForgeApi;
use crate::model_server::ReceivedRequest;

/// Maximum length of a title at both services.
const MAX_TITLE: usize = 255;

/// Maximum length of a text at GitHub.
const MAX_GITHUB_BODY: usize = 65_536;

pub(super) struct ServerAnswer {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) headers: Vec<(&'static str, String)>,
}

impl ServerAnswer {
    fn json(status: u16, body: Value) -> Self {
        Self {
            status,
            body,
            headers: Vec::new(),
        }
    }

    pub(super) fn error(status: u16, message: &str) -> Self {
        Self::json(status, json!({"message": message}))
    }

    fn not_found() -> Self {
        Self::error(404, "The target couldn't be found.")
    }
}

pub(super) struct Repository {
    api: ForgeApi,
    pub(super) issues: Vec<Value>,
    /// Each with the number of its issue.
    pub(super) comments: Vec<Value>,
    /// Ids and names.
    pub(super) labels: Vec<(u64, String)>,
    milestones: Vec<Value>,
    /// Pairs of an issue and an issue that it depends on.
    pub(super) dependencies: Vec<(u64, u64)>,
    pub(super) is_archived: bool,
    next_id: u64,
    /// Number of changes, from which times are made.
    changes: u64,
}

impl Repository {
    pub(super) const fn new(api: ForgeApi) -> Self {
        Self {
            api,
            issues: Vec::new(),
            comments: Vec::new(),
            labels: Vec::new(),
            milestones: Vec::new(),
            dependencies: Vec::new(),
            is_archived: false,
            next_id: 1000,
            changes: 0,
        }
    }

    const fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn time(&mut self) -> String {
        self.changes += 1;
        let (minutes, seconds) = (self.changes / 60 % 60, self.changes % 60);
        let hours = self.changes / 3600 % 24;
        format!("2026-05-01T{hours:02}:{minutes:02}:{seconds:02}Z")
    }

    pub(super) fn add_label(&mut self, name: &str) -> u64 {
        let id = self.id();
        self.labels.push((id, name.to_owned()));
        id
    }

    pub(super) fn add_milestone(&mut self, title: &str) {
        let (id, number) = (self.id(), self.milestones.len() + 1);
        self.milestones
            .push(json!({"id": id, "number": number, "title": title, "state": "open"}));
    }

    pub(super) fn add_issue(
        &mut self,
        login: &str,
        title: &str,
        body: &str,
        labels: &[&str],
    ) -> u64 {
        let (id, time) = (self.id(), self.time());
        let number = self.issues.last().map_or(0, number_of) + 1;
        let labels: Vec<Value> = self
            .labels
            .iter()
            .filter(|(_, name)| labels.contains(&name.as_str()))
            .map(|(id, name)| json!({"id": id, "name": name}))
            .collect();
        self.issues.push(json!({
            "id": id,
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "labels": labels,
            "milestone": null,
            "user": {"login": login},
            "comments": 0,
            "pull_request": null,
            "created_at": time,
            "updated_at": time,
            "html_url": format!("https://code.example/ada/shop/issues/{number}"),
        }));
        number
    }

    pub(super) fn make_pull_request(&mut self, number: u64) {
        self.edit(number, |issue| {
            issue["pull_request"] = json!({"merged": false});
        });
    }

    pub(super) fn edit(&mut self, number: u64, change: impl FnOnce(&mut Value)) {
        let time = self.time();
        let found = self
            .issues
            .iter_mut()
            .find(|issue| number_of(issue) == number);
        if let Some(issue) = found {
            change(issue);
            issue["updated_at"] = time.into();
        }
    }

    pub(super) fn add_comment(&mut self, number: u64, login: &str, body: &str) -> Value {
        let (id, time) = (self.id(), self.time());
        let comment = json!({
            "id": id, "issue": number, "body": body, "user": {"login": login},
            "created_at": time, "updated_at": time,
        });
        self.comments.push(comment.clone());
        self.edit(number, |issue| {
            issue["comments"] = (issue["comments"].as_u64().unwrap_or_default() + 1).into();
        });
        comment
    }

    fn issue(&self, number: u64) -> Option<&Value> {
        self.issues.iter().find(|issue| number_of(issue) == number)
    }

    /// The answer to a request whose token is valid.
    pub(super) fn answer(
        &mut self,
        token: &TrackerToken,
        request: &ReceivedRequest,
    ) -> ServerAnswer {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let prefix = match self.api {
            ForgeApi::GitHub => "",
            ForgeApi::Forgejo => "/api/v1",
        };
        let Some(path) = path.strip_prefix(prefix) else {
            return ServerAnswer::not_found();
        };
        let body = match request.body.as_str() {
            "" => Value::Null,
            text => match serde_json::from_str(text) {
                Ok(body) => body,
                Err(_) => return ServerAnswer::error(400, "Problems parsing JSON"),
            },
        };
        let method = request.method.as_str();
        if (method, path) == ("GET", "/user") {
            return ServerAnswer::json(200, json!({"id": 7, "login": token.login}));
        }
        if (method, path) == ("POST", "/graphql") && self.api == ForgeApi::GitHub {
            return self.graphql(&body);
        }
        let Some(rest) = path.strip_prefix("/repos/ada/shop") else {
            return ServerAnswer::not_found();
        };
        if method != "GET" && self.is_archived {
            let status = match self.api {
                ForgeApi::GitHub => 403,
                ForgeApi::Forgejo => 423,
            };
            return ServerAnswer::error(status, "Repository was archived so is read-only.");
        }
        let parts: Vec<&str> = rest.trim_start_matches('/').split('/').collect();
        match (method, parts.as_slice()) {
            ("GET", [""]) => ServerAnswer::json(200, self.view(token)),
            ("GET", ["issues"]) => self.list_issues(query),
            ("POST", ["issues"]) => self.create(token, &body),
            ("GET", ["labels"]) => {
                let labels = self.labels.iter();
                let labels = labels.map(|(id, name)| json!({"id": id, "name": name}));
                self.page(labels.collect(), query, "labels")
            }
            ("GET", ["milestones"]) => self.page(self.milestones.clone(), query, "milestones"),
            (_, ["issues", number, rest @ ..]) => {
                let number: u64 = number.parse().unwrap_or_default();
                if self.issue(number).is_none() {
                    return ServerAnswer::not_found();
                }
                self.answer_issue(token, (method, rest), number, &body, query)
            }
            _ => ServerAnswer::not_found(),
        }
    }

    fn answer_issue(
        &mut self,
        token: &TrackerToken,
        action: (&str, &[&str]),
        number: u64,
        body: &Value,
        query: &str,
    ) -> ServerAnswer {
        match action {
            ("GET", []) => ServerAnswer::json(200, self.issue(number).cloned().unwrap_or_default()),
            ("PATCH", []) => self.change(token, number, body),
            ("GET", ["comments"]) => {
                let comments = self.comments.iter();
                let comments: Vec<Value> = comments
                    .filter(|comment| comment["issue"] == number)
                    .cloned()
                    .collect();
                if self.api == ForgeApi::GitHub {
                    return self.page(comments, query, "comments");
                }
                // Forgejo puts all comments into one answer.
                let total = comments.len().to_string();
                let mut answer = ServerAnswer::json(200, comments.into());
                answer.headers.push(("x-total-count", total));
                answer
            }
            ("POST", ["comments"]) => match body["body"].as_str() {
                Some(text) if !text.is_empty() && self.fits(text) => {
                    let comment = self.add_comment(number, &token.login, text);
                    ServerAnswer::json(201, comment)
                }
                _ => ServerAnswer::error(422, "[Body]: Required"),
            },
            ("POST", ["labels"]) => self.add_issue_labels(token, number, body),
            ("DELETE", ["labels", label]) => self.remove_issue_label(token, number, label),
            _ => ServerAnswer::not_found(),
        }
    }

    fn view(&self, token: &TrackerToken) -> Value {
        json!({
            "id": 1, "full_name": "ada/shop", "has_issues": true, "archived": self.is_archived,
            "permissions": {"admin": false, "push": token.can_push, "pull": true},
        })
    }

    fn fits(&self, text: &str) -> bool {
        self.api == ForgeApi::Forgejo || text.len() <= MAX_GITHUB_BODY
    }

    fn graphql(&self, body: &Value) -> ServerAnswer {
        let variables = &body["variables"];
        let is_known = variables["owner"] == "ada" && variables["name"] == "shop";
        let query = body["query"].as_str().unwrap_or_default();
        if !is_known || !query.contains("totalCount") {
            let errors = json!([{"type": "NOT_FOUND"}]);
            return ServerAnswer::json(200, json!({"data": null, "errors": errors}));
        }
        let issues = self.issues.iter();
        let total = issues
            .filter(|issue| issue["pull_request"].is_null())
            .count();
        let data = json!({"repository": {"issues": {"totalCount": total}}});
        ServerAnswer::json(200, json!({"data": data}))
    }

    fn list_issues(&self, query: &str) -> ServerAnswer {
        let state = parameter(query, "state").unwrap_or("open");
        let author = match self.api {
            ForgeApi::GitHub => parameter(query, "creator"),
            ForgeApi::Forgejo => parameter(query, "created_by"),
        };
        let kind = parameter(query, "type").filter(|_| self.api == ForgeApi::Forgejo);
        let mut found: Vec<Value> = self
            .issues
            .iter()
            .filter(|issue| {
                let is_pull = !issue["pull_request"].is_null();
                (state == "all" || issue["state"] == state)
                    && author.is_none_or(|author| issue["user"]["login"] == author)
                    && kind.is_none_or(|kind| is_pull == (kind == "pulls"))
            })
            .cloned()
            .collect();
        // Newest first, unless GitHub is asked for another order.
        if parameter(query, "direction") != Some("asc") || self.api == ForgeApi::Forgejo {
            found.reverse();
        }
        self.page(found, query, "issues")
    }

    fn page(&self, items: Vec<Value>, query: &str, path: &str) -> ServerAnswer {
        let number = |name| parameter(query, name).and_then(|value| value.parse::<usize>().ok());
        let (size, default, maximum) = match self.api {
            ForgeApi::GitHub => ("per_page", 30, 100),
            ForgeApi::Forgejo => ("limit", 30, 50),
        };
        let limit = number(size).unwrap_or(default).clamp(1, maximum);
        let page = number("page").unwrap_or(1).max(1);
        let total = items.len();
        let items: Vec<Value> = items
            .into_iter()
            .skip((page - 1) * limit)
            .take(limit)
            .collect();
        let mut answer = ServerAnswer::json(200, items.into());
        if self.api == ForgeApi::Forgejo {
            answer.headers.push(("x-total-count", total.to_string()));
        }
        if page * limit < total {
            let url = format!("https://code.example/{path}?page={}", page + 1);
            let link = format!("<{url}>; rel=\"next\", <{url}>; rel=\"last\"");
            answer.headers.push(("link", link));
        }
        answer
    }

    fn create(&mut self, token: &TrackerToken, body: &Value) -> ServerAnswer {
        let title = body["title"].as_str().unwrap_or_default();
        let text = body["body"].as_str().unwrap_or_default();
        if title.trim().is_empty() || title.len() > MAX_TITLE || !self.fits(text) {
            return ServerAnswer::error(422, "[Title]: Required");
        }
        let number = self.add_issue(&token.login, title, text, &[]);
        // Both services drop labels and milestones of accounts that may not write.
        if token.can_push {
            let labels = self.resolved_labels(&body["labels"]);
            let milestone = self.resolved_milestone(&body["milestone"]);
            self.edit(number, |issue| {
                issue["labels"] = labels.into();
                issue["milestone"] = milestone.unwrap_or_default();
            });
        }
        ServerAnswer::json(201, self.issue(number).cloned().unwrap_or_default())
    }

    /// The labels of a request. Forgejo ignores unknown ids and names; GitHub creates labels of unknown names.
    fn resolved_labels(&mut self, wanted: &Value) -> Vec<Value> {
        let mut found = Vec::new();
        for label in wanted.as_array().into_iter().flatten() {
            let known = self.labels.iter().find(|(id, name)| {
                (self.api == ForgeApi::Forgejo && label.as_u64() == Some(*id))
                    || label.as_str() == Some(name.as_str())
            });
            let known = known.cloned();
            match (known, label.as_str()) {
                (Some((id, name)), _) => found.push(json!({"id": id, "name": name})),
                (None, Some(name)) if self.api == ForgeApi::GitHub => {
                    let id = self.add_label(name);
                    found.push(json!({"id": id, "name": name}));
                }
                _ => {}
            }
        }
        found
    }

    fn resolved_milestone(&self, wanted: &Value) -> Option<Value> {
        let field = match self.api {
            ForgeApi::GitHub => "number",
            ForgeApi::Forgejo => "id",
        };
        let mut milestones = self.milestones.iter();
        milestones
            .find(|milestone| milestone[field] == *wanted)
            .cloned()
    }

    fn change(&mut self, token: &TrackerToken, number: u64, body: &Value) -> ServerAnswer {
        let issue = self.issue(number).cloned().unwrap_or_default();
        if !token.can_push && issue["user"]["login"] != token.login.as_str() {
            return ServerAnswer::error(403, "write permission is required");
        }
        let closes = body["state"] == "closed" && issue["state"] == "open";
        let is_open = |number: &u64| {
            self.issue(*number)
                .is_some_and(|issue| issue["state"] == "open")
        };
        let mut needed = self.dependencies.iter();
        let is_blocked = needed.any(|(from, to)| *from == number && is_open(to));
        if closes && is_blocked && self.api == ForgeApi::Forgejo {
            let message = "cannot close this issue because it still has open dependencies";
            return ServerAnswer::error(412, message);
        }
        let milestone = self.resolved_milestone(&body["milestone"]);
        self.edit(number, |issue| {
            for field in ["title", "body", "state"] {
                if let Some(text) = body[field].as_str() {
                    issue[field] = text.into();
                }
            }
            if token.can_push
                && let Some(milestone) = milestone
            {
                issue["milestone"] = milestone;
            }
        });
        let status = match self.api {
            ForgeApi::GitHub => 200,
            ForgeApi::Forgejo => 201,
        };
        ServerAnswer::json(status, self.issue(number).cloned().unwrap_or_default())
    }

    fn add_issue_labels(
        &mut self,
        token: &TrackerToken,
        number: u64,
        body: &Value,
    ) -> ServerAnswer {
        if !token.can_push {
            return ServerAnswer::error(403, "write permission is required");
        }
        if !body["labels"].is_array() {
            return ServerAnswer::error(400, "labels should be an array of strings or integers");
        }
        let added = self.resolved_labels(&body["labels"]);
        self.edit(number, |issue| {
            let labels = issue["labels"].as_array_mut().expect("a list");
            for label in added {
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
        });
        let issue = self.issue(number).cloned().unwrap_or_default();
        ServerAnswer::json(200, issue["labels"].clone())
    }

    fn remove_issue_label(
        &mut self,
        token: &TrackerToken,
        number: u64,
        label: &str,
    ) -> ServerAnswer {
        if !token.can_push {
            return ServerAnswer::error(403, "write permission is required");
        }
        let label = label.replace("%2F", "/").replace("%20", " ");
        let is_it = |id: u64, name: &str| match self.api {
            ForgeApi::GitHub => name == label,
            ForgeApi::Forgejo => id.to_string() == label,
        };
        let known = self.labels.iter().find(|(id, name)| is_it(*id, name));
        let Some((id, _)) = known.cloned() else {
            let status = match self.api {
                ForgeApi::GitHub => 404,
                ForgeApi::Forgejo => 422,
            };
            return ServerAnswer::error(status, "label does not exist");
        };
        self.edit(number, |issue| {
            let labels = issue["labels"].as_array_mut().expect("a list");
            labels.retain(|label| label["id"] != id);
        });
        match self.api {
            ForgeApi::GitHub => {
                let issue = self.issue(number).cloned().unwrap_or_default();
                ServerAnswer::json(200, issue["labels"].clone())
            }
            ForgeApi::Forgejo => ServerAnswer::json(204, Value::Null),
        }
    }
}

fn number_of(issue: &Value) -> u64 {
    issue["number"].as_u64().unwrap_or_default()
}

fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}
