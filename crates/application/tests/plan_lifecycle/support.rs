//! A repository, a project, an action and a scripted model: all that a plan needs, without a front end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use cleveragents_application::{
    ActionService, AgentRuntime, DefaultActors, DriveOptions, EffectiveSafety, LinkRequest,
    NewProject, NewResource, PlanDefaults, PlanFrontEnd, PlanService, ProjectService, Register,
    ResourceService, RuntimeOptions, SandboxService, SessionService, Unheard, UseAction,
};
use cleveragents_domain::{Plan, PlanId, PlanPhase};
use cleveragents_models::{Catalogue, CatalogueOptions};
use cleveragents_process::Cancel;
use cleveragents_store::Engine;
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};

/// The file of the scripted model.
const SCRIPT: &str = "model.yaml";

/// An approver that gives one answer and records what it was asked about.
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
        Reply::NobodyThere
    }
}

/// Everything below a front end.
pub(crate) struct Workshop {
    pub(crate) engine: Arc<Engine>,
    pub(crate) plans: PlanService,
    /// The repository of the user.
    pub(crate) repository: PathBuf,
    home: PathBuf,
    _folder: tempfile::TempDir,
}

impl Workshop {
    /// A repository with one commit, and a model that answers from `script`.
    pub(crate) fn new(database: &TestDatabase, script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let base = std::fs::canonicalize(folder.path()).expect("it exists");
        let (repository, home) = (base.join("shop"), base.join("home"));
        std::fs::create_dir_all(&repository).expect("a folder");
        std::fs::create_dir_all(&home).expect("a folder");
        std::fs::write(home.join(SCRIPT), script).expect("a file");
        git(&repository, &["init", "-q", "-b", "main"]);
        std::fs::write(repository.join("price.txt"), "wrong\n").expect("a file");
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
        let workshop = Self {
            engine,
            plans,
            repository,
            home,
            _folder: folder,
        };
        workshop.register();
        workshop
    }

    fn register(&self) {
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
        let project = NewProject {
            name: "local/shop".to_owned(),
            links: vec![LinkRequest {
                resource: "local/shop".to_owned(),
                alias: None,
                read_only: false,
            }],
            ..NewProject::default()
        };
        ProjectService::new(engine())
            .create(project)
            .expect("the project is created");
        let action = "name: local/fix\ndescription: Fix the price\ndefinition_of_done: price.txt says right\n";
        ActionService::new(engine())
            .create(action, "a test", Register::New, &|_| None)
            .expect("the action is created");
    }

    /// What agents run with, as any front end would build it.
    pub(crate) fn runtime(&self) -> AgentRuntime {
        let options = CatalogueOptions::new(Arc::new(|_: &str| None), &self.home);
        AgentRuntime::new(RuntimeOptions {
            engine: Arc::clone(&self.engine),
            catalogue: Catalogue::new(options).expect("a catalogue"),
            default_model: Some(format!("scripted/{SCRIPT}").parse().expect("a name")),
            home: self.home.clone(),
            sandboxes: self.home.join("sandboxes"),
            working_folder: self.home.clone(),
            variables: Arc::new(|_: &str| None),
            max_message_bytes: 1 << 20,
            budget_per_session: None,
            budget_per_day: None,
            safety: EffectiveSafety::combine(Vec::new(), Vec::new()),
            warn: Arc::new(|text: &str| panic!("nothing is left out: {text}")),
        })
        .expect("a runtime")
    }

    /// A plan of the action, with an automation profile.
    pub(crate) fn plan(&self, profile: &str) -> Plan {
        let request = UseAction {
            action: "local/fix".to_owned(),
            projects: vec!["local/shop".to_owned()],
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

    /// Runs a plan, as if the user had asked for a phase.
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
            observer: &Unheard,
            cancel: &Cancel::new(),
        };
        self.plans
            .drive(plan.id, &options, &self.runtime(), front_end)
    }

    /// How many times the reviewer was asked.
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

/// Runs git and returns what it printed.
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
