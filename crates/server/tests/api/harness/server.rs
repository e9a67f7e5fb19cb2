//! [`Server`]: a server on a free port with its own database.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cleveragents_application::{
    ActionService, LinkRequest, NewProject, ProjectService, Register, ResourceService,
};
use cleveragents_domain::identity::{Grant, Scope};
use cleveragents_domain::{ContentHash, PlanId, ProjectRules, Timestamp, TokenId, Waiting};
use cleveragents_server::Options;
use cleveragents_store::{Engine, plans, tokens};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Client, TestRuntime, application};
use crate::provider::MODEL;

/// A running server; dropping it stops the server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    pub(crate) database: TestDatabase,
    pub(crate) double: Arc<TestRuntime>,
    /// The home of the server, and the resource that [`Self::offer_plans`] registers.
    folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The default options of tests.
pub(crate) fn options() -> Options {
    Options {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        insecure_local: true,
        keep_alive: Duration::from_millis(50),
        drain: Duration::from_secs(20),
        ..Options::default()
    }
}

impl Server {
    /// A server on SQLite.
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    /// A server on SQLite with other options.
    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::on(TestDatabase::sqlite(), change)
    }

    pub(crate) fn on(database: TestDatabase, change: impl FnOnce(&mut Options)) -> Self {
        let engine = database.open();
        let double = Arc::new(TestRuntime::default());
        let folder = tempfile::tempdir().expect("a folder");
        let application = application(Arc::clone(&engine), &double, folder.path());
        let mut options = options();
        change(&mut options);
        let (announce, announced) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            let serving = cleveragents_server::serve(
                application,
                options,
                |address| announce.send(address).expect("the test waits"),
                async {
                    // A message and a dropped sender both stop the server.
                    let _sent = stopped.await;
                },
            );
            runtime.block_on(serving).expect("the server listens");
        });
        let address = announced.recv().expect("the server listens");
        Self {
            address,
            engine,
            database,
            double,
            folder,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// A client of the local user.
    pub(crate) fn local(&self) -> Client {
        Client::new(self.address, None)
    }

    /// A client with a new token.
    pub(crate) fn caller(&self, grants: &[&str]) -> Client {
        self.caller_with(grants, Scope::ALL)
    }

    /// A client with a new token that is limited to some scopes.
    pub(crate) fn caller_with(&self, grants: &[&str], scopes: &[Scope]) -> Client {
        let id = TokenId::generate();
        let secret = format!("ca_{id}");
        let token = tokens::Token {
            id,
            name: format!("caller {id}"),
            secret_hash: ContentHash::of_bytes(secret.as_bytes()).hex(),
            scopes: scopes.iter().copied().collect::<BTreeSet<_>>(),
            grants: grants
                .iter()
                .map(|grant| grant.parse::<Grant>().expect("a grant"))
                .collect(),
            created_by: "the test".to_owned(),
            created_at: Timestamp::now(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        self.engine
            .write(move |unit| tokens::insert(unit, &token))
            .expect("the token is stored");
        Client::new(self.address, Some(secret))
    }

    /// A client without a token that does not count as the local user: a page in a browser.
    pub(crate) fn client_without_token(&self) -> Client {
        self.local().with("origin", "https://elsewhere.example")
    }

    /// Revokes a token.
    pub(crate) fn revoke(&self, client: &Client) {
        let secret = client.token().expect("a token").to_owned();
        let id: TokenId = secret
            .trim_start_matches("ca_")
            .parse()
            .expect("the secret contains the id");
        self.engine
            .write(move |unit| tokens::revoke(unit, id))
            .expect("the token is revoked");
    }

    /// Creates a conversation and returns its path.
    pub(crate) fn session(&self, namespace: &str) -> String {
        let created_session = self
            .local()
            .post(
                "/api/v1/sessions",
                &json!({"namespace": namespace, "actor": MODEL}),
            )
            .expect(201);
        created_session
            .header("location")
            .expect("a location")
            .to_owned()
    }

    /// Creates a plan of a project and returns its id.
    pub(crate) fn plan(&self, project: &str) -> PlanId {
        let mut new = cleveragents_testkit::plans::new_plan("a plan");
        for plan_project in &mut new.inputs.projects {
            project.clone_into(&mut plan_project.name);
        }
        let id = new.id;
        self.engine
            .write(move |unit| plans::insert(unit, &new))
            .expect("the plan is stored");
        id
    }

    /// Registers an action and a project in a namespace, and returns the request that creates a plan from them.
    pub(crate) fn offer_plans(&self, namespace: &str) -> Value {
        let engine = || Arc::clone(&self.engine);
        let resource = ResourceService::new(engine()).ensure_path(&self.project_folder());
        let project = ProjectService::new(engine()).create(NewProject {
            name: format!("{namespace}/yard"),
            rules: ProjectRules::default(),
            links: vec![LinkRequest {
                resource: resource.expect("a resource").id.to_string(),
                alias: None,
                read_only: false,
            }],
        });
        project.expect("a project");
        let action =
            format!("name: {namespace}/fix\ndescription: Fix it\ndefinition_of_done: It works\n");
        let actions = ActionService::new(engine());
        let created = actions.add(&action, "a test", Register::New, &|_| None);
        created.expect("an action");
        plan_request(namespace)
    }

    fn project_folder(&self) -> std::path::PathBuf {
        let folder = self.folder.path().join("yard");
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    /// Sets a strategy and a pending question of a new plan.
    pub(crate) fn ask_question(&self, plan: PlanId) {
        let stored = self.engine.read(|reader| plans::get(reader, plan));
        let projects = ProjectService::new(Arc::clone(&self.engine));
        for project in stored.expect("readable").expect("a plan").inputs.projects {
            if projects.view(&project.name).is_err() {
                let new = NewProject {
                    name: project.name,
                    rules: ProjectRules::default(),
                    links: Vec::new(),
                };
                projects.create(new).expect("a project");
            }
        }
        cleveragents_testkit::plans::store_example_strategy(&self.engine, plan);
        let question = Waiting::Question {
            text: "which one?".to_owned(),
            options: Vec::new(),
            subject: "s".to_owned(),
        };
        cleveragents_testkit::plans::wait_for(&self.engine, plan, question);
    }

    pub(crate) fn gauge(&self, name: &str) -> u64 {
        let text = self.local().get("/metrics").text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cleveragents_{name} ")));
        line.and_then(|count| count.parse().ok())
            .unwrap_or_else(|| panic!("{name} is not in {text}"))
    }

    /// Starts the shutdown, without waiting.
    pub(crate) fn begin_shutdown(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has stopped.
    pub(crate) fn shut_down(&mut self) {
        self.begin_shutdown();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server stops without an error");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.begin_shutdown();
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().expect("the server stops without an error");
        }
    }
}

/// A request that creates a plan, once [`Server::offer_plans`] has prepared the namespace.
pub(crate) fn plan_request(namespace: &str) -> Value {
    json!({
        "action": format!("{namespace}/fix"), "projects": [format!("{namespace}/yard")], "no_start": true,
    })
}

/// Waits up to a minute for a condition.
pub(crate) fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
    let started_at = Instant::now();
    while !holds() {
        assert!(
            started_at.elapsed() < Duration::from_mins(1),
            "{condition}: never"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
