//! Permissions: every route, called by every role, in its own namespace, in a foreign one and in `local`. The results
//! are `docs/reference/permissions.md`; `CLEVERAGENTS_WRITE_DOCS=1` writes it.

use std::fmt::Write as _;
use std::path::Path;

use cleveragents_domain::identity::{Role, Scope};
use serde_json::{Value, json};

use crate::harness::{Client, Server, plan_request, wait_until};
use crate::methods::{self, Kind, Method};

const NAMESPACES: [&str; 3] = ["acme", "other", "local"];

/// A route of the OpenAPI document.
struct Route {
    method: String,
    path: String,
    /// The lowest role, and where it is needed; `None` if no token is needed.
    needs: Option<(Role, String)>,
    scope: Scope,
}

fn routes(server: &Server) -> Vec<Route> {
    let document = server
        .local()
        .get("/api/v1/openapi.json")
        .expect(200)
        .json();
    let paths = document["paths"].as_object().expect("paths");
    let mut all = Vec::new();
    for (path, operations) in paths {
        // A test of the application writes the table of typed operations.
        if path.starts_with("/api/v1/operations/") && !path.ends_with("{name}") {
            continue;
        }
        for (method, operation) in operations.as_object().expect("operations") {
            let text = |key: &str| operation[key].as_str().map(str::to_owned);
            let role = text("x-needs-role").map(|role| role.parse().expect("a role"));
            let scope = operation["tags"][0].as_str().expect("a scope");
            let route = Route {
                method: method.to_uppercase(),
                path: path.clone(),
                needs: role.zip(text("x-where")),
                scope: scope.parse().expect("a scope"),
            };
            all.extend(route.split_by_method());
        }
    }
    all.sort_by(|left, right| (&left.path, &left.method).cmp(&(&right.path, &right.method)));
    all
}

impl Route {
    /// Splits an A2A path that serves several methods into one route per method, with the namespaces in which each
    /// method needs its role.
    fn split_by_method(self) -> Vec<Self> {
        let Some((role, _)) = self.needs.as_ref().filter(|_| self.is_a2a()) else {
            return vec![self];
        };
        let place = if self.path.contains("{task}") {
            "in the namespace of the task"
        } else if self.method == "POST" {
            "in the namespaces that the request names"
        } else {
            "in any namespace; the response holds what the caller may see"
        };
        let ends: &[(&str, Role)] = match self.method.as_str() {
            _ if !self.path.ends_with("{task}") => &[("", *role)],
            "GET" => &[("", Role::Viewer), (":subscribe", Role::Viewer)],
            _ => &[(":cancel", Role::Editor), (":subscribe", Role::Viewer)],
        };
        let each = ends.iter().map(|(end, role)| Self {
            method: self.method.clone(),
            path: format!("{}{end}", self.path),
            needs: Some((*role, place.to_owned())),
            scope: self.scope,
        });
        each.collect()
    }

    /// True for an A2A method of the HTTP+JSON binding.
    fn is_a2a(&self) -> bool {
        self.path.starts_with("/a2a/v1/")
    }

    /// True if this test can build a valid request. Tests of other protocols check their own routes.
    fn is_covered(&self) -> bool {
        let watched = ["/healthz", "/readyz", "/metrics"];
        let needs_body = self.method == "POST" && self.body("x").is_none();
        self.is_a2a()
            || watched.contains(&self.path.as_str())
            || (self.path.starts_with("/api/v1/") && !needs_body)
    }

    /// True if the route shows the caller its own identity, which every caller may see.
    fn is_about_the_caller(&self) -> bool {
        let place = self.needs.as_ref().map(|(_, place)| place.as_str());
        self.method == "GET"
            && !self.path.contains('{')
            && place.is_some_and(|place| place.contains("request names"))
    }

    /// True if access depends on a namespace.
    fn is_in_a_namespace(&self) -> bool {
        let place = self.needs.as_ref().map(|(_, place)| place.as_str());
        let names = ["{session}", "{plan}", "{name}", "{task}"];
        if place.is_some_and(|place| place.contains("any namespace")) {
            return false;
        }
        names.iter().any(|name| self.path.contains(name)) || self.body("x").is_some()
    }

    /// The body and headers of a valid request.
    fn body(&self, namespace: &str) -> Option<Value> {
        if self.is_a2a() && !self.path.ends_with("{task}") {
            return methods::body(&self.method, &self.path, namespace);
        }
        match (self.method.as_str(), self.path.as_str()) {
            ("POST", "/api/v1/sessions") => Some(json!({"namespace": namespace})),
            ("POST", "/api/v1/plans" | "/api/v1/operations/{name}") => {
                Some(plan_request(namespace))
            }
            ("POST", path) if path.ends_with("/messages") => {
                Some(json!({"role": "user", "content": "x"}))
            }
            ("POST", path) if path.ends_with("/turns") => Some(json!({"prompt": "x"})),
            ("POST", "/api/v1/plans/{plan}/prompt") => Some(json!({"guidance": "x"})),
            ("POST", "/api/v1/plans/{plan}/approve") => Some(json!({"answer": "x"})),
            ("POST", path) if path.contains('{') => Some(json!({})),
            ("PATCH", _) => Some(json!({"name": "x"})),
            _ => None,
        }
    }

    /// Sends a valid request on objects created for it, and returns the status.
    fn ask(&self, server: &Server, client: &Client, namespace: &str) -> u16 {
        let mut path = self.path.clone();
        if path.contains("{session}") {
            let session = server.session(namespace);
            path = path.replace("/api/v1/sessions/{session}", &session);
        }
        if path.contains("{plan}") {
            let plan = server.plan(&format!("{namespace}/shop"));
            let needs_question = ["/approve", "/reject", "/prompt"];
            if needs_question.iter().any(|end| path.ends_with(end)) {
                server.ask_question(plan);
            }
            path = path.replace("{plan}", &plan.to_string());
        }
        path = path.replace("{name}", "plan/use");
        path = path.replace("{tenant}", namespace);
        if path.contains("{task}") {
            let task = methods::waiting_task(server, namespace, path.contains("{config}"));
            path = path.replace("{task}", &task).replace("{config}", "p");
        }
        if path.ends_with("/search") {
            path.push_str("?q=x");
        }
        let before = StoredEffects::read(server);
        let body = self.body(namespace).map(|body| body.to_string());
        let kind = body.as_ref().map(|_| "application/json");
        let bytes = body.unwrap_or_default().into_bytes();
        // Only the start of a stream is read.
        let client = client.with("a2a-version", "1.0");
        let mut stream = client.send(&self.method, &path, kind, &bytes);
        let (status, headers) = stream.head().expect("an answer");
        if status == 200 && path.ends_with("message:stream") {
            // The task must finish, so that its effects are not attributed to later requests.
            stream.rest(&headers, &self.method);
        }
        if status == 202 {
            // The plan runs after the response; its effects must not be attributed to later requests.
            wait_until("the plan has run", || {
                StoredEffects::read(server).done != before.done
            });
            wait_until("nothing changes any more", || {
                StoredEffects::are_settled(server)
            });
        }
        if status == 409 && path.ends_with("/apply") {
            // The plan is not executed yet; callers that may not apply it do not learn that.
            return 200;
        }
        before.check(server, &format!("{} {path}", self.method), status);
        status
    }
}

/// State that requests change.
struct StoredEffects {
    done: Vec<u64>,
    audited: u64,
}

impl StoredEffects {
    fn read(server: &Server) -> Self {
        let double = &server.double;
        let run_count =
            double.runtimes.lock().expect("not poisoned").len() + double.provider.prompts().len();
        let denials = "audit_entries WHERE kind IN ('access_denied', 'auth_failure')";
        let tables = [
            "sessions",
            "messages",
            "plans",
            "tasks",
            "push_configs",
            // Background activity of the server does not belong to a request.
            "events WHERE kind <> 'task.push_failed'",
            denials,
        ];
        let counts = tables.map(|table| format!("(SELECT COUNT(*) FROM {table})"));
        let row = server
            .database
            .ask(&format!("SELECT {}", counts.join(", ")));
        let mut done: Vec<u64> = row[0]
            .iter()
            .map(|count| count.parse().expect("a count"))
            .collect();
        let audited = done.pop().expect("the count of denials");
        done.push(run_count as u64);
        Self { done, audited }
    }

    /// True if nothing changes for 200 ms. Plans continue to run after their response.
    fn are_settled(server: &Server) -> bool {
        let before = Self::read(server);
        std::thread::sleep(std::time::Duration::from_millis(200));
        Self::read(server).done == before.done
    }

    /// Checks that a denial changed nothing and was recorded in the audit log.
    fn check(&self, server: &Server, request: &str, status: u16) {
        if status < 400 || status == 429 {
            return;
        }
        let after = Self::read(server);
        assert_eq!(after.done, self.done, "{request}: a denial had an effect");
        assert!(
            after.audited > self.audited,
            "{request}: the denial was not recorded"
        );
    }
}

/// Checks the status of a route against the role that the route needs.
fn check(route: &Route, role: Option<Role>, namespace: &str, status: u16) {
    let Some((least, place)) = &route.needs else {
        assert_eq!(status, 200, "{} {}", route.method, route.path);
        return;
    };
    let suffices = role.is_some_and(|role| role >= *least);
    let is_own = namespace == "acme";
    let request = format!("{} {} as {role:?} in {namespace}", route.method, route.path);
    let named = place.contains("request names");
    if route.is_about_the_caller() {
        // Every caller may see its own identity and roles; the list of roles may be empty.
        return assert_eq!(status, 200, "{request}");
    }
    if route.path == "/api/v1/operations/{name}" {
        // The called operation, `plan/use`, needs the role `editor`.
        let may = is_own && role >= Some(Role::Editor);
        return assert_eq!(status, if may { 200 } else { 403 }, "{request}");
    }
    if place.contains("every namespace") {
        return assert_eq!(status, 403, "{request}");
    }
    if place.contains("any namespace") {
        let expected = if suffices { 200 } else { 403 };
        return assert_eq!(status, expected, "{request}");
    }
    if is_own && suffices {
        assert!((200..300).contains(&status), "{request}: {status}");
    } else if named || (is_own && role.is_some()) {
        assert_eq!(status, 403, "{request}");
    } else {
        assert_eq!(
            status, 404,
            "{request}: without read access it does not exist"
        );
    }
}

/// A status as the table shows it.
fn status_cell(status: u16) -> String {
    if status < 400 {
        "yes".to_owned()
    } else {
        status.to_string()
    }
}

/// One caller for each role, and first a caller without a role.
struct Callers {
    roles: Vec<Option<Role>>,
    /// Callers that have the role in `acme`.
    own: Vec<Client>,
    /// Callers that have the role in every namespace (`*`).
    everywhere: Vec<Client>,
}

impl Callers {
    fn new(server: &Server) -> Self {
        let roles: Vec<Option<Role>> = std::iter::once(None)
            .chain(Role::ALL.iter().copied().map(Some))
            .collect();
        let caller = |role: &Option<Role>, namespace: &str| match role {
            Some(role) => server.caller(&[&format!("{namespace}={role}")]),
            None => server.caller(&["elsewhere=owner"]),
        };
        Self {
            own: roles.iter().map(|role| caller(role, "acme")).collect(),
            everywhere: roles.iter().map(|role| caller(role, "*")).collect(),
            roles,
        }
    }
}

#[test]
fn every_role_has_exactly_the_permissions_of_its_table() {
    let server = Server::with(|options| {
        options.requests_per_second = 0;
        options.allow_private_addresses = true;
    });
    server.double.release();
    for namespace in NAMESPACES {
        server.offer_plans(namespace);
    }
    let callers = Callers::new(&server);
    let mut rows = String::new();
    for route in routes(&server) {
        let columns = match &route.needs {
            None => {
                if route.is_covered() {
                    let status = server.client_without_token().get(&route.path).status;
                    check(&route, None, "acme", status);
                }
                "no token needed | | yes | yes | yes | yes | yes | |".to_owned()
            }
            Some((least, place)) => {
                check_without_token(&server, &route);
                if route.is_covered() {
                    check_other_scopes(&server, &route);
                    let own = own_statuses(&server, &route, &callers);
                    let elsewhere = elsewhere(&server, &route, &callers);
                    let least = match route.path.as_str() {
                        _ if route.is_about_the_caller() => "none",
                        "/api/v1/operations/{name}" => "that of the operation",
                        _ => least.as_str(),
                    };
                    format!("{place} | {least} | {own} | {elsewhere}")
                } else {
                    format!("{place} | see below | | | | | | |")
                }
            }
        };
        let (method, path) = (&route.method, &route.path);
        let _written = writeln!(rows, "| {method} | `{path}` | {columns} |");
    }
    assert_documented(&rows, &methods_rows(&server, &callers));
}

/// The statuses of JSON-RPC methods for each role, by all of their names.
fn methods_rows(server: &Server, callers: &Callers) -> String {
    let mut rows = String::new();
    for method in &methods::METHODS {
        let mut first_cells = None;
        for name in std::iter::once(method.name).chain(method.old) {
            let statuses = method_cells(server, callers, method, name);
            assert_eq!(
                *first_cells.get_or_insert_with(|| statuses.clone()),
                statuses,
                "{name}"
            );
        }
        let old = method.old.map_or(String::new(), |old| format!("`{old}`"));
        let (name, least) = (method.name, method.least);
        let cells = first_cells.unwrap_or_default().join(" | ");
        let _written = writeln!(rows, "| `{name}` | {old} | {least} | {cells} |");
    }
    rows
}

fn method_cells(server: &Server, callers: &Callers, method: &Method, name: &str) -> Vec<String> {
    let ask = |client: &Client, namespace: &str| {
        let task = match method.kind {
            Kind::Task => methods::waiting_task(server, namespace, name.contains("ush")),
            Kind::Named | Kind::Shown => String::new(),
        };
        let before = StoredEffects::read(server);
        let status = methods::call(client, name, &task, namespace);
        before.check(server, &format!("{name} in {namespace}"), status);
        status
    };
    let mut stranger = 429;
    wait_until(
        "callers without a token are below the rate limit again",
        || {
            stranger = ask(&server.client_without_token(), "acme");
            stranger != 429
        },
    );
    assert_eq!(stranger, 401, "{name}");
    let least: Role = method.least.parse().expect("a role");
    let refused = |is_seen: bool| match method.kind {
        Kind::Task if !is_seen => 404,
        Kind::Task | Kind::Named => 403,
        // Callers with any role get a list, which may be empty.
        Kind::Shown => 200,
    };
    let mut cells = Vec::new();
    for (role, client) in callers.roles.iter().zip(&callers.own) {
        let status = ask(client, "acme");
        let expected = if role.is_some_and(|role| role >= least) {
            200
        } else {
            refused(role.is_some())
        };
        assert_eq!(status, expected, "{name} as {role:?}");
        cells.push(self::status_cell(status));
    }
    if method.kind == Kind::Shown {
        cells.extend([String::new(), String::new()]);
        return cells;
    }
    for namespace in &NAMESPACES[1..] {
        for client in &callers.own {
            assert_eq!(
                ask(client, namespace),
                refused(false),
                "{name} in {namespace}"
            );
        }
        cells.push(self::status_cell(refused(false)));
    }
    let owner = callers.everywhere.last().expect("an owner");
    assert_eq!(ask(owner, "local"), refused(false), "{name} in local");
    assert_eq!(
        ask(&server.local(), "local"),
        200,
        "{name} by the local user"
    );
    cells
}

/// The statuses for each role in the namespace of the role.
fn own_statuses(server: &Server, route: &Route, callers: &Callers) -> String {
    let (least, place) = route.needs.as_ref().expect("it needs a role");
    let is_everywhere = place.contains("every namespace");
    let clients = if is_everywhere {
        &callers.everywhere
    } else {
        &callers.own
    };
    let mut statuses = Vec::new();
    for (role, client) in callers.roles.iter().zip(clients) {
        let status = route.ask(server, client, "acme");
        if is_everywhere {
            let may = role.is_some_and(|role| role >= *least);
            assert_eq!(status < 400, may, "{} {}", route.method, route.path);
        } else if place.contains("any namespace") && role.is_none() {
            // Callers with any role get a list, which may be empty.
            assert_eq!(status, 200, "{} {}", route.method, route.path);
        } else {
            check(route, *role, "acme", status);
        }
        statuses.push(status_cell(status));
    }
    statuses.join(" | ")
}

/// The statuses in namespaces in which the caller has no role.
fn elsewhere(server: &Server, route: &Route, callers: &Callers) -> String {
    if !route.is_in_a_namespace() {
        return " | ".to_owned();
    }
    let mut statuses = Vec::new();
    for namespace in &NAMESPACES[1..] {
        let mut last = 0;
        for (role, client) in callers.roles.iter().zip(&callers.own) {
            last = route.ask(server, client, namespace);
            check(route, *role, namespace, last);
        }
        statuses.push(status_cell(last));
    }
    // `local` belongs to the local user only; even an owner of `*` has no access.
    let owner = callers.everywhere.last().expect("an owner");
    let status = route.ask(server, owner, "local");
    assert!(
        matches!(status, 403 | 404),
        "{} {}",
        route.method,
        route.path
    );
    let local_status = route.ask(server, &server.local(), "local");
    assert!(
        local_status < 400,
        "{} {}: {local_status}",
        route.method,
        route.path
    );
    statuses.join(" | ")
}

/// Checks that requests without a valid token are rejected and recorded, at a limited rate.
fn check_without_token(server: &Server, route: &Route) {
    let mut status = 429;
    wait_until(
        "callers without a token are below the rate limit again",
        || {
            status = route.ask(server, &server.client_without_token(), "acme");
            status != 429
        },
    );
    assert_eq!(status, 401, "{} {}", route.method, route.path);
}

/// Checks that a token without the scope of the route is rejected.
fn check_other_scopes(server: &Server, route: &Route) {
    if route.is_about_the_caller() || route.path.starts_with("/api/v1/operations") {
        // Every caller may see its own identity, and a called operation is checked against its own scope.
        return;
    }
    let others: Vec<Scope> = Scope::ALL
        .iter()
        .copied()
        .filter(|scope| *scope != route.scope)
        .collect();
    let client = server.caller_with(&["*=owner", "acme=owner"], &others);
    let status = route.ask(server, &client, "acme");
    assert!(
        matches!(status, 403 | 404),
        "{} {} without its scope: {status}",
        route.method,
        route.path
    );
}

/// The start of the part of the document that another test writes.
const COMMANDS: &str = "\n## Commands of other machines\n";

fn assert_documented(rows: &str, methods: &str) {
    let text = format!(
        "# Permissions\n\n\
         Tests write these tables: they call every route as every role (`CLEVERAGENTS_WRITE_DOCS=1 cargo test -p \
         cleveragents-server --test api permissions`, and `-p cleveragents-application --test operation_rules roles`). A \
         role counts in the namespace it was granted for; `*` is every namespace except `local`. A number is the status \
         of the refusal: callers with read access get 403, callers without get 404. The audit log records every refusal. \
         Without a token the status is 401. A token also needs the scope of the route.\n\n\
         The list of operations has the role that each operation (`/api/v1/operations/…`) needs; the row shows \
         `plan/use`, which needs an editor.\n\n\
         | Method | Path | Where the role is needed | Lowest role | no role there | viewer | editor | admin | owner | owner \
         elsewhere | in `local` |\n|---|---|---|---|---|---|---|---|---|---|---|\n{rows}\n\
         ## Methods of A2A over JSON-RPC\n\n\
         `POST /a2a` accepts the methods of 1.0 and, from clients of 0.3, those of 0.3. A number is the HTTP status that \
         the error code corresponds to: 403 is -32012, 404 is -32001. Every operation is a method too \
         (`_cleveragents/…`); the row shows `plan/use`.\n\n\
         | Method | in 0.3 | Lowest role | no role there | viewer | editor | admin | owner | owner elsewhere | in `local` \
         |\n|---|---|---|---|---|---|---|---|---|---|\n{methods}"
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/permissions.md");
    let documented = std::fs::read_to_string(&file).unwrap_or_default();
    let (generated, others) = match documented.find(COMMANDS) {
        Some(at) => documented.split_at(at),
        None => (documented.as_str(), ""),
    };
    if std::env::var_os("CLEVERAGENTS_WRITE_DOCS").is_some() {
        std::fs::write(&file, format!("{text}{others}")).expect("the file is written");
        return;
    }
    assert!(
        generated == text,
        "docs/reference/permissions.md is out of date; CLEVERAGENTS_WRITE_DOCS=1 writes it:\n{text}"
    );
}
