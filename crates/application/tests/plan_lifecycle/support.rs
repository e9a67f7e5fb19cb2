//! A repository, a project, an action and a scripted model: all that a plan needs, without a front end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use cleveragents_application::{
    ActionService, ActorService, ActorWorld, AgentRuntime, Application, DefaultActors,
    DriveOptions, EffectiveSafety, LinkRequest, NewProject, NewResource, NoObserver,
    OperationSettings, PlanDefaults, PlanFrontEnd, PlanQueries, PlanService, PlanSettings,
    ProcessEnvironment, ProjectService, ReferableNames, Register, ResourceService, RuntimeOptions,
    RuntimeRequest, SandboxPolicy, SandboxService, SessionService, UseAction, one_off_action,
};
use cleveragents_domain::{Hint, Plan, PlanId, PlanPhase};
use cleveragents_models::{Catalogue, CatalogueOptions};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;
use cleveragents_testkit::TestDatabase;
use cleveragents_testkit::model_server::WireFormat;
use cleveragents_tools::Registry;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};
use serde_json::Value;

/// The file with the script of the model.
const SCRIPT: &str = "model.yaml";

/// The file with all requests and answers of the model.
const REQUESTS: &str = "requests.jsonl";

/// An approver that gives one answer and records its requests.
pub(crate) struct User {
    pub(crate) approval: Approval,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl User {
    pub(crate) fn answering(approval: Approval) -> Self {
        Self {
            approval,
            asked: Mutex::default(),
        }
    }
}

impl Approver for User {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let mut asked = self.asked.lock().expect("no panic");
        asked.push(request.tool.to_string());
        self.approval.clone()
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        let mut asked = self.asked.lock().expect("no panic");
        asked.push(question.text.to_owned());
        Reply::NoUser
    }
}

/// A home with a repository, a project, an action and a model, used without a front end.
pub(crate) struct PlanEnvironment {
    pub(crate) engine: Arc<Engine>,
    pub(crate) plans: PlanService,
    /// The repository of the user.
    pub(crate) repository: PathBuf,
    home: PathBuf,
    model: String,
    /// The environment of the runtime: the address of an endpoint and its key.
    variables: BTreeMap<String, String>,
    _folder: tempfile::TempDir,
}

impl PlanEnvironment {
    /// A repository with one commit, and a model that answers from `script`.
    pub(crate) fn new(database: &TestDatabase, script: &str) -> Self {
        let done = "price.txt says right";
        Self::with(database, script, done, &[("price.txt", "wrong\n")])
    }

    /// Like [`Self::new`], with this definition of done and these files.
    pub(crate) fn with(
        database: &TestDatabase,
        script: &str,
        done: &str,
        files: &[(&str, &str)],
    ) -> Self {
        let model = format!("scripted/{SCRIPT}");
        Self::build(database, script, model, BTreeMap::new(), done, files)
    }

    /// Like [`Self::with`], with a model at an endpoint.
    pub(crate) fn against(
        database: &TestDatabase,
        url: &str,
        format: WireFormat,
        done: &str,
        files: &[(&str, &str)],
    ) -> Self {
        let variables = format.variables(url);
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        let model = format.model().to_owned();
        Self::build(database, "", model, variables.into(), done, files)
    }

    fn build(
        database: &TestDatabase,
        script: &str,
        model: String,
        variables: BTreeMap<String, String>,
        done: &str,
        files: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let base = std::fs::canonicalize(folder.path()).expect("it exists");
        let (repository, home) = (base.join("shop"), base.join("home"));
        std::fs::create_dir_all(&repository).expect("a folder");
        std::fs::create_dir_all(&home).expect("a folder");
        std::fs::write(home.join(SCRIPT), script).expect("a file");
        git(&repository, &["init", "-q", "-b", "main"]);
        for (name, content) in files {
            let path = repository.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, content).expect("a file");
        }
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "-q", "-m", "first"]);
        let engine = database.open();
        let sandboxes = SandboxService::new(Arc::clone(&engine), home.join("sandboxes"));
        let plans = PlanService::new(
            Arc::clone(&engine),
            SessionService::new(Arc::clone(&engine), 1 << 20),
            sandboxes,
            Arc::new(|_: &str| None),
        );
        let environment = Self {
            engine,
            plans,
            repository,
            home,
            model,
            variables,
            _folder: folder,
        };
        environment.register(done);
        environment
    }

    fn register(&self, done: &str) {
        let engine = || Arc::clone(&self.engine);
        let resource = NewResource {
            type_name: "git-checkout".to_owned(),
            name: "local/shop".to_owned(),
            values: BTreeMap::from([("path".to_owned(), self.repository.display().to_string())]),
            base: PathBuf::from("/"),
            ..NewResource::default()
        };
        let resources = ResourceService::new(engine());
        resources
            .add(&resource, Register::New)
            .expect("the resource is registered");
        self.create_project("local/shop");
        self.create_action("local/fix", done);
    }

    fn create_project(&self, name: &str) {
        let project = NewProject {
            name: name.to_owned(),
            links: vec![LinkRequest {
                resource: "local/shop".to_owned(),
                alias: None,
                read_only: false,
            }],
            ..NewProject::default()
        };
        ProjectService::new(Arc::clone(&self.engine))
            .create(project)
            .expect("the project is created");
    }

    fn create_action(&self, name: &str, done: &str) {
        self.add_action(&serde_json::json!({
            "name": name, "description": "Fix the price", "definition_of_done": done,
        }));
    }

    /// Creates an action.
    pub(crate) fn add_action(&self, action: &Value) {
        ActionService::new(Arc::clone(&self.engine))
            .add(&action.to_string(), "a test", Register::New, &|_| None)
            .expect("the action is created");
    }

    /// The name of the scripted model.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// Registers an actor.
    pub(crate) fn add_actor(&self, actor: &Value) {
        let registry = Registry::with_builtins();
        let names = ReferableNames {
            tools: registry.list().map(|spec| spec.name.clone()).collect(),
            ..ReferableNames::default()
        };
        let world = ActorWorld {
            referable_names: &names,
            is_model: &|name| name == self.model,
            variables: &|_| None,
        };
        ActorService::new(Arc::clone(&self.engine))
            .add(&actor.to_string(), "a test", Register::New, world)
            .expect("the actor is registered");
    }

    /// The runtime as any front end would build it.
    pub(crate) fn runtime(&self) -> AgentRuntime {
        runtime(&self.engine, &self.home, &self.model, &self.variables)
    }

    /// The typed operations on the database, with the runtime of [`Self::runtime`].
    pub(crate) fn application(&self) -> Application {
        let (home, model) = (self.home.clone(), self.model.clone());
        let variables = self.variables.clone();
        Application::new(
            Arc::clone(&self.engine),
            OperationSettings {
                max_message_bytes: 1 << 20,
                automation_profile: "supervised".to_owned(),
                sandboxes: self.home.join("sandboxes"),
                process: ProcessEnvironment {
                    runtime: Arc::new(move |request: &RuntimeRequest<'_>| {
                        Ok(runtime(&request.engine, &home, &model, &variables))
                    }),
                    ..ProcessEnvironment::default()
                },
                sandbox_policy: SandboxPolicy::default(),
                plans: PlanSettings::default(),
            },
        )
    }

    /// Creates a project and an action in a namespace, for remote callers.
    pub(crate) fn share_in(&self, namespace: &str) {
        self.create_project(&format!("{namespace}/shop"));
        self.create_action(&format!("{namespace}/fix"), "price.txt says right");
    }

    /// Creates a plan of the action `local/fix`, with an automation profile.
    pub(crate) fn plan(&self, profile: &str) -> Plan {
        self.plan_of("local/fix", profile, DefaultActors::default())
    }

    /// Creates a plan of an action, with an automation profile and actors.
    pub(crate) fn plan_of(&self, action: &str, profile: &str, actors: DefaultActors) -> Plan {
        let request = UseAction {
            action: action.to_owned(),
            projects: vec!["local/shop".to_owned()],
            actors,
            ..UseAction::default()
        };
        let defaults = PlanDefaults {
            profile: profile.to_owned(),
            actors: DefaultActors::default(),
        };
        self.plans
            .create(&request, &defaults, &|_| None)
            .expect("a plan")
    }

    /// Creates a plan of a one-off task, as `agents do` does.
    pub(crate) fn one_off(&self, task: &str, checks: &[String], actor: Option<&str>) -> Plan {
        let action = one_off_action(task, checks);
        ActionService::new(Arc::clone(&self.engine))
            .add(&action, "a test", Register::New, &|_| None)
            .expect("the action is created");
        let action: Value = serde_json::from_str(&action).expect("JSON");
        let request = UseAction {
            action: action["name"].as_str().expect("a name").to_owned(),
            projects: vec!["local/shop".to_owned()],
            actors: DefaultActors {
                strategy: actor.map(str::to_owned),
                ..DefaultActors::default()
            },
            ..UseAction::default()
        };
        let defaults = PlanDefaults {
            profile: "trusted".to_owned(),
            actors: DefaultActors::default(),
        };
        self.plans
            .create(&request, &defaults, &|_| None)
            .expect("a plan")
    }

    /// Runs a plan as if the user had requested a phase.
    pub(crate) fn drive(
        &self,
        plan: &Plan,
        phase: PlanPhase,
        user: &User,
    ) -> Result<Plan, cleveragents_application::PlanError> {
        let options = DriveOptions {
            consent: Some(phase),
            ..DriveOptions::default()
        };
        let front_end = PlanFrontEnd {
            approver: user,
            observer: &NoObserver,
            cancel: &Cancel::new(),
        };
        self.plans
            .drive(plan.id, &options, &self.runtime(), front_end)
    }

    /// The requests that the model has received, in order.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let recorded = std::fs::read_to_string(self.home.join(REQUESTS)).expect("a recording");
        let lines = recorded.lines();
        let exchanges = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        exchanges
            .filter(|exchange| exchange["request"].is_object())
            .map(|mut exchange| exchange["request"].take())
            .collect()
    }

    /// Number of sandboxes that are neither applied nor discarded.
    pub(crate) fn active_sandboxes(&self) -> usize {
        let folder = self.home.join("sandboxes");
        let service = SandboxService::new(Arc::clone(&self.engine), folder);
        service.list(false).expect("listed").len()
    }

    /// Replaces the script of the model.
    pub(crate) fn replace_script(&self, script: &str) {
        std::fs::write(self.home.join(SCRIPT), script).expect("a file");
    }

    /// The plans, for reading.
    pub(crate) fn queries(&self) -> PlanQueries {
        PlanQueries::new(Arc::clone(&self.engine), self.sandbox_service())
    }

    /// The sandboxes of the plans.
    pub(crate) fn sandbox_service(&self) -> SandboxService {
        SandboxService::new(Arc::clone(&self.engine), self.home.join("sandboxes"))
    }

    /// The paths that differ between the sandbox of a plan and its origin.
    pub(crate) fn changed_in_sandbox(&self, plan: &Plan) -> Vec<String> {
        let sandboxes = SandboxService::new(Arc::clone(&self.engine), self.home.join("sandboxes"));
        let name = plan.sandbox.as_deref().expect("a sandbox");
        let mut open = sandboxes.open(name).expect("it has no owner");
        let diff = sandboxes.diff(&mut open).expect("a diff");
        let parts = diff.parts.iter();
        let changes = parts.flat_map(|part| &part.changes);
        changes.map(|change| change.path.to_string()).collect()
    }

    /// The number of requests to the reviewer.
    pub(crate) fn reviews(&self, plan: PlanId) -> usize {
        let steps = self
            .engine
            .read(|reader| cleveragents_store::plan_steps::of_plan(reader, plan))
            .expect("readable");
        let reviews: std::collections::BTreeSet<_> = steps
            .iter()
            .filter(|step| step.path.starts_with("review/"))
            .filter_map(|step| step.run)
            .collect();
        reviews.len()
    }

    /// The content of the file that the plan changes, in the repository of the user.
    pub(crate) fn price(&self) -> String {
        std::fs::read_to_string(self.repository.join("price.txt")).expect("it exists")
    }
}

fn runtime(
    engine: &Arc<Engine>,
    home: &Path,
    model: &str,
    variables: &BTreeMap<String, String>,
) -> AgentRuntime {
    let variables = variables.clone();
    let options = CatalogueOptions {
        record: Some(home.join(REQUESTS)),
        ..CatalogueOptions::new(
            Arc::new(move |name: &str| variables.get(name).cloned()),
            home,
        )
    };
    AgentRuntime::new(RuntimeOptions {
        engine: Arc::clone(engine),
        catalogue: Catalogue::new(options).expect("a catalogue"),
        default_model: Some(model.parse().expect("a name")),
        home: home.to_owned(),
        sandboxes: home.join("sandboxes"),
        working_folder: home.to_owned(),
        variables: Arc::new(|_: &str| None),
        max_message_bytes: 1 << 20,
        budget_per_session: None,
        budget_per_day: None,
        safety: EffectiveSafety::combine(Vec::new(), Vec::new()),
        warn: Arc::new(|warning: &Hint| panic!("unexpected warning: {}", warning.neutral())),
    })
    .expect("a runtime")
}

/// Runs git and returns its output.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(arguments)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
