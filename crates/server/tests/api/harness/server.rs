//! [`Server`]: a server on a free port with a database of its own.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cleveragents_application::{NewProject, ProjectService};
use cleveragents_domain::identity::{Grant, Scope};
use cleveragents_domain::{ContentHash, PlanId, ProjectRules, Timestamp, TokenId, Waiting};
use cleveragents_server::Options;
use cleveragents_store::{Engine, plans, tokens};
use cleveragents_testkit::TestDatabase;
use serde_json::json;
use tokio::sync::oneshot;

use super::{Client, Double, application};

/// A running server. Ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    pub(crate) database: TestDatabase,
    pub(crate) double: Arc<Double>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What every test starts from.
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

    /// A server on SQLite that is set up otherwise.
    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::on(TestDatabase::sqlite(), change)
    }

    /// A server on a database.
    pub(crate) fn on(database: TestDatabase, change: impl FnOnce(&mut Options)) -> Self {
        let engine = database.open();
        let double = Arc::new(Double::new(Arc::clone(&engine)));
        let mut options = options();
        change(&mut options);
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let (served, lent) = (Arc::clone(&engine), Arc::clone(&double));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            let serving = cleveragents_server::serve(
                application(served),
                lent,
                options,
                |address| tell.send(address).expect("somebody waits"),
                async {
                    // Dropped or told, both mean the end.
                    let _told = stopped.await;
                },
            );
            runtime.block_on(serving).expect("the server listens");
        });
        let address = told.recv().expect("the server listens");
        Self {
            address,
            engine,
            database,
            double,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The person at the machine.
    pub(crate) fn local(&self) -> Client {
        Client::new(self.address, None)
    }

    /// Somebody with a new token.
    pub(crate) fn caller(&self, grants: &[&str]) -> Client {
        self.caller_with(grants, Scope::ALL)
    }

    /// Somebody with a new token that is good for some things only.
    pub(crate) fn caller_with(&self, grants: &[&str], scopes: &[Scope]) -> Client {
        let id = TokenId::generate();
        let secret = format!("ca_{id}");
        let token = tokens::Token {
            id,
            name: format!("caller {id}"),
            secret_hash: ContentHash::of(secret.as_bytes()).hex(),
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

    /// Somebody without a token who is not taken for the person at the machine: a page in a browser.
    pub(crate) fn stranger(&self) -> Client {
        self.local().with("origin", "https://elsewhere.example")
    }

    /// Takes a token back.
    pub(crate) fn revoke(&self, client: &Client) {
        let secret = client.token().expect("a token").to_owned();
        let id: TokenId = secret
            .trim_start_matches("ca_")
            .parse()
            .expect("the id is in it");
        self.engine
            .write(move |unit| tokens::revoke(unit, id))
            .expect("the token is revoked");
    }

    /// Makes a conversation and gives its path.
    pub(crate) fn session(&self, namespace: &str) -> String {
        let made = self
            .local()
            .post("/api/v1/sessions", &json!({"namespace": namespace}))
            .expect(201);
        made.header("location").expect("a place").to_owned()
    }

    /// Makes a plan of a project and gives its id.
    pub(crate) fn plan(&self, project: &str) -> PlanId {
        let mut new = cleveragents_testkit::plans::new_plan("a plan");
        for known in &mut new.made_with.projects {
            project.clone_into(&mut known.name);
        }
        let id = new.id;
        self.engine
            .write(move |unit| plans::insert(unit, &new))
            .expect("the plan is stored");
        id
    }

    /// Gives a new plan a strategy and a question that it waits for.
    pub(crate) fn ask_question(&self, plan: PlanId) {
        let stored = self.engine.read(|reader| plans::get(reader, plan));
        let projects = ProjectService::new(Arc::clone(&self.engine));
        for project in stored
            .expect("readable")
            .expect("a plan")
            .made_with
            .projects
        {
            if projects.view(&project.name).is_err() {
                let new = NewProject {
                    name: project.name,
                    rules: ProjectRules::default(),
                    links: Vec::new(),
                };
                projects.create(new).expect("a project");
            }
        }
        cleveragents_testkit::plans::strategized(&self.engine, plan);
        let question = Waiting::Question {
            text: "which one?".to_owned(),
            options: Vec::new(),
            subject: "s".to_owned(),
        };
        cleveragents_testkit::plans::wait_for(&self.engine, plan, question);
    }

    /// A number that the server counts about itself.
    pub(crate) fn gauge(&self, name: &str) -> u64 {
        let text = self.local().get("/metrics").text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("cleveragents_{name} ")));
        line.and_then(|count| count.parse().ok())
            .unwrap_or_else(|| panic!("{name} is not in {text}"))
    }

    /// Tells the server to end, without waiting.
    pub(crate) fn announce_end(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has ended.
    pub(crate) fn ended(&mut self) {
        self.announce_end();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends well");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.announce_end();
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().expect("the server ends well");
        }
    }
}

/// Waits for a state that comes, however slow the machine is.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}: never");
        std::thread::sleep(Duration::from_millis(5));
    }
}
