//! A conversation with a scripted model in its own sandbox.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cleveragents_application::{
    CompactionReport, LockedSession, NoObserver, Observer, PromptImage, ReportTools,
    SandboxService, SandboxWorkspace, SessionService, SpendScope, Target, ToolService, TurnError,
    TurnReport, TurnRequest, TurnService, TurnSettings, TurnTools, UnlimitedAllowance, Waiting,
};
use cleveragents_domain::{Message, Role, Sequence, SessionId, ToolInvocation};
use cleveragents_models::{
    CancellationToken, Catalogue, CatalogueOptions, Model, Redactor, Secret,
};

use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_sandbox::Source;
use cleveragents_store::{Engine, turns};
use cleveragents_testkit::TestDatabase;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};
use cleveragents_tools::{
    Effect, Gate, Guards, PermissionRules, Phase, PlanMode, SafetyProfile, Tool, ToolName,
};

/// A secret value that the redactor knows.
pub(crate) const SECRET: &str = "sk-0123456789abcdefghij";

/// A user with fixed answers who records the questions.
pub(crate) struct TestUser {
    pub(crate) approval: Approval,
    pub(crate) reply: Reply,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl TestUser {
    pub(crate) fn absent() -> Self {
        Self::saying(Approval::NoUser, Reply::NoUser)
    }

    pub(crate) fn saying(approval: Approval, reply: Reply) -> Self {
        Self {
            approval,
            reply,
            asked: Mutex::default(),
        }
    }
}

impl Approver for TestUser {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let text = format!("{}: {}", request.tool, request.reason);
        self.asked.lock().expect("fine").push(text);
        self.approval.clone()
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        self.asked
            .lock()
            .expect("fine")
            .push(question.text.to_owned());
        self.reply.clone()
    }
}

pub(crate) struct TurnFixture {
    pub(crate) engine: Arc<Engine>,
    pub(crate) sessions: SessionService,
    pub(crate) turns: TurnService,
    pub(crate) sandboxes: SandboxService,
    pub(crate) session: SessionId,
    folder: tempfile::TempDir,
}

/// The options of a turn, except the script.
pub(crate) struct TurnSetup<'a> {
    pub(crate) prompt: Option<&'a str>,
    pub(crate) images: Vec<PromptImage>,
    pub(crate) user: &'a TestUser,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) guards: Guards,
    pub(crate) scopes: Vec<SpendScope>,
    pub(crate) mode: PlanMode,
    pub(crate) rules: &'a str,
    pub(crate) in_sandbox: bool,
    pub(crate) settings: TurnSettings,
    /// Tools in addition to the built-in ones.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// Tools that are declared only after they are found.
    pub(crate) deferred: BTreeSet<ToolName>,
}

impl<'a> TurnSetup<'a> {
    pub(crate) fn asking(prompt: &'a str, user: &'a TestUser) -> Self {
        Self {
            prompt: Some(prompt),
            images: Vec::new(),
            user,
            observer: &NoObserver,
            guards: Guards::default(),
            scopes: Vec::new(),
            mode: PlanMode::Normal(Phase::Session),
            rules: "",
            in_sandbox: true,
            settings: TurnSettings::default(),
            tools: Vec::new(),
            deferred: BTreeSet::new(),
        }
    }
}

impl TurnFixture {
    pub(crate) fn new(database: &TestDatabase) -> Self {
        Self::on(database.open())
    }

    pub(crate) fn on(engine: Arc<Engine>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let sessions = SessionService::new(Arc::clone(&engine), 1 << 20);
        let session = sessions
            .create(None, None, "supervised")
            .expect("a session")
            .id;
        let real = folder.path().join("real");
        std::fs::create_dir(&real).expect("a folder");
        std::fs::write(real.join("a.txt"), "first\n").expect("a file");
        Self {
            turns: TurnService::new(Arc::clone(&engine), sessions.clone()),
            sandboxes: SandboxService::new(Arc::clone(&engine), folder.path().join("sandboxes")),
            engine,
            sessions,
            session,
            folder,
        }
    }

    pub(crate) fn script(&self, text: &str) -> Arc<dyn Model> {
        let path = self.folder.path().join("script.yaml");
        std::fs::write(&path, text).expect("a file");
        let options = CatalogueOptions::new(Arc::new(|_| None), self.folder.path());
        let catalogue = Catalogue::new(options).expect("a catalogue");
        catalogue
            .open(&"scripted/script.yaml".parse().expect("a name"))
            .expect("a model")
    }

    /// The folder of the sandbox's only part.
    pub(crate) fn sandbox_folder(&self) -> PathBuf {
        let view = self.sandboxes.find("work").expect("a sandbox");
        view.members[0].root.clone()
    }

    pub(crate) fn real(&self) -> PathBuf {
        self.folder.path().join("real")
    }

    fn workspace(&self) -> SandboxWorkspace {
        if self.sandboxes.find("work").is_err() {
            let target = Target {
                alias: "code".to_owned(),
                resource: "local/code".to_owned(),
                strategy: "copy_on_write".to_owned(),
                source: Source::Directory,
                location: self.real(),
                is_read_only: false,
            };
            self.sandboxes
                .create("work", "test", &[target])
                .expect("a sandbox");
        }
        let open = self.sandboxes.open("work").expect("opened");
        SandboxWorkspace::new(self.sandboxes.clone(), open, WhenMissing::Warn).expect("a workspace")
    }

    pub(crate) fn run_turn(
        &self,
        script: &str,
        setup: TurnSetup<'_>,
    ) -> Result<TurnReport, TurnError> {
        self.run_turn_with(self.script(script), setup)
    }

    /// Like [`Self::run_turn`], with a model instead of a script.
    pub(crate) fn run_turn_with(
        &self,
        model: Arc<dyn Model>,
        setup: TurnSetup<'_>,
    ) -> Result<TurnReport, TurnError> {
        self.with_request(model, setup, |session, request| {
            self.turns.run(session, request)
        })
    }

    /// Summarizes the whole conversation.
    pub(crate) fn compact(
        &self,
        model: Arc<dyn Model>,
        setup: TurnSetup<'_>,
        focus: Option<&str>,
    ) -> Result<Option<CompactionReport>, TurnError> {
        self.with_request(model, setup, |session, request| {
            self.turns.compact_session(session, request, focus)
        })
    }

    fn with_request<T>(
        &self,
        model: Arc<dyn Model>,
        setup: TurnSetup<'_>,
        run: impl FnOnce(&mut LockedSession, &TurnRequest<'_>) -> Result<T, TurnError>,
    ) -> Result<T, TurnError> {
        let mut registry = ToolService::new(Arc::clone(&self.engine))
            .registry(&|_| None)
            .expect("tools")
            .registry;
        for tool in setup.tools {
            registry.add(tool).expect("a tool");
        }
        let gate = Gate::new(Arc::new(registry));
        let cancel = Cancel::new();
        let mut taken = self.turns.take(
            self.session,
            &Waiting {
                patience: Duration::from_mins(1),
                observer: setup.observer,
                cancel: &cancel,
            },
        )?;
        let workspace = setup.in_sandbox.then(|| self.workspace());
        let rules = PermissionRules::parse(setup.rules, Effect::Allow).expect("rules");
        let request = TurnRequest {
            plan: None,
            prompt: setup.prompt.map(str::to_owned),
            images: setup.images,
            model,
            actor: None,
            system: vec!["You are a test.".to_owned()],
            tools: TurnTools {
                deferred: &setup.deferred,
                gate: &gate,
                mode: setup.mode,
                profile: &SafetyProfile::default(),
                guards: &setup.guards,
                rules: &rules,
                workspace: workspace.as_ref(),
                approver: setup.user,
            },
            reports: ReportTools::default(),
            scopes: setup.scopes,
            redactor: Redactor::new([Secret::new(SECRET)]),
            settings: setup.settings,
            allowance: &UnlimitedAllowance,
            observer: setup.observer,
            cancel: &cancel,
            stop: CancellationToken::new(),
        };
        run(&mut taken, &request)
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.sessions
            .messages(self.session, Sequence(0), 10_000)
            .expect("messages")
    }

    pub(crate) fn roles(&self) -> Vec<Role> {
        self.messages().iter().map(|message| message.role).collect()
    }

    /// The rows of all calls, oldest first.
    pub(crate) fn calls(&self) -> Vec<ToolInvocation> {
        let all: Vec<_> = self
            .engine
            .read(|reader| cleveragents_store::invocations::of_session(reader, self.session))
            .expect("rows");
        all
    }

    pub(crate) fn is_running(&self) -> bool {
        self.engine
            .read(|reader| turns::running(reader, self.session))
            .expect("read")
            .is_some()
    }
}
