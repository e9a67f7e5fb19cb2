//! Shared test support: hand-written servers, and a fixture that calls their tools through the gate.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cleveragents_domain::{CheckpointNumber, MicroUsd, ToolInvocationId};
use cleveragents_mcp::{McpError, OfferedTools, Options, ServerDefinition, Servers};
use cleveragents_process::{Cancel, CommandResult, Stream};
use cleveragents_sandbox::{Git, Root};
use cleveragents_tools::ports::{
    Approval, ApprovalRequest, Approver, Attribution, Budget, BudgetRefusal, CapturedChanges,
    Command, FinishedCall, Ledger, OutputPage, Part, PartPath, PortError, Question, Redact,
    RefusedCall, Reply, Reservation, Scope, Spending, StartedCall, Window, Workspace,
};
use cleveragents_tools::{
    CallContext, CallOutcome, CallRequest, Gate, Guards, PermissionRules, Phase, PlanMode,
    Registry, SafetyProfile, Slot,
};
use serde_json::Value;
use tempfile::TempDir;

/// Waits up to one minute until a condition holds; for effects of other processes.
pub(crate) fn eventually(description: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "timeout while waiting until {description}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns whether a process is alive. Zombies do not count. The process is given by its id, or by its PID namespace
/// and its id in that namespace, as `NAMESPACE/ID`.
pub(crate) fn is_alive(process: &str) -> bool {
    let Some((namespace, id)) = process.split_once('/') else {
        return lives_here(process);
    };
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .any(|pid| {
            let process_namespace = std::fs::read_link(format!("/proc/{pid}/ns/pid"));
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
            process_namespace
                .is_ok_and(|process_namespace| process_namespace.as_os_str() == namespace)
                && status.unwrap_or_default().lines().any(|line| {
                    let numbers = line.strip_prefix("NSpid:");
                    numbers.and_then(|numbers| numbers.split_whitespace().last()) == Some(id)
                })
                && lives_here(&pid)
        })
}

fn lives_here(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .starts_with('Z')
    })
}

/// Hand-written servers, and the directory to which they write their records.
pub(crate) struct ServerFixture {
    pub(crate) folder: TempDir,
    pub(crate) servers: Servers,
}

impl ServerFixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let servers = Servers::new(Options::new(folder.path())).expect("a runtime");
        Self { folder, servers }
    }

    /// Creates a fixture with one server for this scenario, named like the scenario.
    pub(crate) fn with(scenario: &str) -> Self {
        let fixture = Self::new();
        fixture.add(scenario);
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Definition of a server with this scenario.
    pub(crate) fn definition(&self, scenario: &str) -> ServerDefinition {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/server.py");
        let mut definition = ServerDefinition::stdio(scenario, "python3", &[script, scenario]);
        definition.write = vec![self.folder.path().display().to_string()];
        for (name, file) in [
            ("PIDS", "pids"),
            ("CALLED", "called"),
            ("CANCELLED", "cancelled"),
        ] {
            let file = self.path(file).display().to_string();
            definition
                .env
                .insert(name.to_owned(), cleveragents_mcp::HiddenText::new(file));
        }
        definition
    }

    pub(crate) fn add(&self, scenario: &str) {
        let definition = self.definition(scenario);
        self.servers
            .add(definition, None)
            .expect("a valid definition");
    }

    /// All processes that were ever started as servers.
    pub(crate) fn pids(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("pids")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Asserts that no server is alive.
    pub(crate) fn assert_nothing_left(&self) {
        for pid in self.pids() {
            assert!(!is_alive(&pid), "{pid} is alive");
        }
    }

    pub(crate) fn gate(&self) -> GateFixture {
        GateFixture::new(&self.servers.offer(), None)
    }
}

pub(crate) fn broken() -> PortError {
    PortError::new(McpError::NotFound("in tests".to_owned()))
}

/// A sandbox with one part.
pub(crate) struct TestFolder {
    pub(crate) parts: Vec<Part>,
    pub(crate) captures: Mutex<usize>,
}

impl TestFolder {
    pub(crate) fn new(path: &Path) -> Self {
        let part = Part {
            alias: "app".to_owned(),
            root: Arc::new(Root::open(path).expect("a folder")),
            is_read_only: false,
        };
        Self {
            parts: vec![part],
            captures: Mutex::default(),
        }
    }
}

impl Workspace for TestFolder {
    fn parts(&self) -> &[Part] {
        &self.parts
    }
    fn bound(&self, _slot: &Slot, _named: Option<&str>) -> Result<Option<&Part>, PortError> {
        Ok(None)
    }
    fn has_checkpoints(&self) -> bool {
        true
    }
    fn checkpoint(&self, _reason: &str) -> Result<CheckpointNumber, PortError> {
        Ok(CheckpointNumber(1))
    }
    fn capture_paths(
        &self,
        _: Attribution<'_>,
        _: &[PartPath],
    ) -> Result<CapturedChanges, PortError> {
        Ok(CapturedChanges::default())
    }
    fn capture_all(&self, _by: Attribution<'_>) -> Result<CapturedChanges, PortError> {
        *self.captures.lock().expect("not poisoned") += 1;
        Ok(CapturedChanges::default())
    }
    fn exec(
        &self,
        _command: &Command,
        _on_output: &dyn Fn(Stream, &[u8]),
        _cancel: &Cancel,
    ) -> Result<CommandResult, PortError> {
        Err(broken())
    }
    fn git(&self, _alias: &str) -> Result<Option<Git>, PortError> {
        Ok(None)
    }
}

/// Records the logs of calls.
#[derive(Default)]
pub(crate) struct MemoryLedger {
    pub(crate) logs: Mutex<Vec<String>>,
}

impl Ledger for MemoryLedger {
    fn begin(&self, _call: &StartedCall<'_>) -> Result<(), PortError> {
        Ok(())
    }
    fn finish(&self, call: &mut FinishedCall<'_>) -> Result<(), PortError> {
        let mut logs = self.logs.lock().expect("not poisoned");
        logs.push(call.log.to_owned());
        Ok(())
    }
    fn refuse(&self, _call: &RefusedCall<'_>) -> Result<(), PortError> {
        Ok(())
    }
    fn output(
        &self,
        _scope: &Scope,
        _invocation: ToolInvocationId,
        _window: Window,
    ) -> Result<Option<OutputPage>, PortError> {
        Ok(None)
    }
}

/// A user with a list of answers, or no user.
#[derive(Default)]
pub(crate) struct TestUser {
    pub(crate) is_there: bool,
    pub(crate) replies: Mutex<Vec<String>>,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Approver for TestUser {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let mut asked = self.asked.lock().expect("not poisoned");
        asked.push(format!("approve {}", request.tool));
        if self.is_there {
            Approval::Once
        } else {
            Approval::NoUser
        }
    }
    fn question(&self, question: &Question<'_>) -> Reply {
        let mut asked = self.asked.lock().expect("not poisoned");
        asked.push(question.text.to_owned());
        let mut replies = self.replies.lock().expect("not poisoned");
        if !self.is_there {
            Reply::NoUser
        } else if replies.is_empty() {
            Reply::Declined
        } else {
            Reply::Text(replies.remove(0))
        }
    }
}

struct FreeBudget;

impl Reservation for FreeBudget {
    fn charge(self: Box<Self>, _cost: MicroUsd) -> Result<(), PortError> {
        Ok(())
    }
}

impl Budget for FreeBudget {
    fn reserve(&self, _: &Spending<'_>) -> Result<Box<dyn Reservation + '_>, BudgetRefusal> {
        Ok(Box::new(Self))
    }
}

struct NoSecrets;

impl Redact for NoSecrets {
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        text.into()
    }
}

/// A gate with the context of its calls.
pub(crate) struct GateFixture {
    pub(crate) gate: Gate,
    pub(crate) folder: Option<TestFolder>,
    pub(crate) person: TestUser,
    pub(crate) ledger: MemoryLedger,
    pub(crate) profile: SafetyProfile,
    pub(crate) mode: PlanMode,
    pub(crate) cancel: Cancel,
}

impl GateFixture {
    pub(crate) fn new(offer: &OfferedTools, folder: Option<TestFolder>) -> Self {
        let mut registry = Registry::with_builtins();
        for tool in &offer.tools {
            registry.add(Arc::clone(tool)).expect("a registered tool");
        }
        Self {
            gate: Gate::new(Arc::new(registry)),
            folder,
            person: TestUser::default(),
            ledger: MemoryLedger::default(),
            profile: SafetyProfile {
                require_sandbox: false,
                require_checkpoints: false,
                ..SafetyProfile::default()
            },
            mode: PlanMode::Normal(Phase::Session),
            cancel: Cancel::new(),
        }
    }

    pub(crate) fn answering(mut self, replies: &[&str]) -> Self {
        self.person.is_there = true;
        self.person.replies = Mutex::new(replies.iter().map(|&text| text.to_owned()).collect());
        self
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> CallOutcome {
        let request = CallRequest {
            call_id: "call".to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.to_string(),
        };
        let context = CallContext {
            scope: &Scope::default(),
            mode: self.mode,
            profile: &self.profile,
            guards: &Guards::default(),
            rules: &PermissionRules::default(),
            workspace: self
                .folder
                .as_ref()
                .map(|folder| -> &dyn Workspace { folder }),
            approver: &self.person,
            budget: &FreeBudget,
            ledger: &self.ledger,
            redactor: &NoSecrets,
            cancel: &self.cancel,
            shown_bytes: 64 << 10,
        };
        self.gate.call(&request, &context).expect("no port fails")
    }

    /// Makes a call that must succeed, and returns its result.
    pub(crate) fn ok(&self, tool: &str, arguments: &Value) -> String {
        match self.call(tool, arguments) {
            CallOutcome::Succeeded(success) => {
                format!("{}{}", success.shown.head, success.shown.tail)
            }
            other => panic!("{tool}: {}", other.for_model()),
        }
    }

    /// Makes a call that must fail, and returns the reason.
    pub(crate) fn fails(&self, tool: &str, arguments: &Value) -> String {
        match self.call(tool, arguments) {
            CallOutcome::Failed(failure) => failure.message,
            other => panic!("{tool}: {}", other.for_model()),
        }
    }

    /// Makes a call that must be refused, and returns the reason.
    pub(crate) fn refused(&self, tool: &str, arguments: &Value) -> (&'static str, String) {
        match self.call(tool, arguments) {
            CallOutcome::Refused(refusal) => (refusal.reason.kind(), refusal.reason.to_string()),
            other => panic!("{tool}: {}", other.for_model()),
        }
    }
}
