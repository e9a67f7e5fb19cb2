//! Shared test support: a sandbox in temporary directories, and ports that keep everything in memory.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cleveragents_domain::{
    CheckpointNumber, Code, Diagnose, InvocationOutcome, MicroUsd, ToolInvocationId,
};
use cleveragents_process::{Cancel, CommandResult, Input, Invocation, Stream, run_tapped};
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

/// An error that a port returns.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BrokenPort(String, Code);

impl Diagnose for BrokenPort {
    fn code(&self) -> Code {
        self.1
    }
}

fn broken(text: impl Into<String>) -> PortError {
    PortError::new(BrokenPort(text.into(), Code::Internal))
}

/// A sandbox in temporary directories.
pub(crate) struct Folder {
    pub(crate) whole: tempfile::TempDir,
    parts: Vec<Part>,
    pub(crate) has_checkpoints: AtomicBool,
    pub(crate) checkpoints: AtomicU64,
    /// Paths of each capture; `None` for a capture of the whole sandbox.
    pub(crate) captures: Mutex<Vec<Option<Vec<PartPath>>>>,
    /// For each command: whether it had network access.
    pub(crate) network: Mutex<Vec<bool>>,
}

impl Folder {
    /// A sandbox with these parts.
    pub(crate) fn new(aliases: &[&str]) -> Self {
        let whole = tempfile::tempdir().expect("a folder");
        let parts = aliases
            .iter()
            .map(|alias| {
                let path = whole.path().join("work").join(alias);
                std::fs::create_dir_all(&path).expect("a folder");
                Part {
                    alias: (*alias).to_owned(),
                    root: Arc::new(Root::open(&path).expect("opened")),
                    is_read_only: false,
                }
            })
            .collect();
        Self {
            whole,
            parts,
            has_checkpoints: AtomicBool::new(true),
            checkpoints: AtomicU64::new(0),
            captures: Mutex::default(),
            network: Mutex::default(),
        }
    }

    /// Makes every part read-only.
    pub(crate) fn read_only(mut self) -> Self {
        for part in &mut self.parts {
            part.is_read_only = true;
        }
        self
    }

    /// The directory of a part.
    pub(crate) fn root(&self, alias: &str) -> PathBuf {
        self.whole.path().join("work").join(alias)
    }

    /// The directory of the first part.
    pub(crate) fn top(&self) -> PathBuf {
        self.parts[0].root.path().to_owned()
    }

    /// Writes a file in the first part.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let place = self.top().join(path);
        std::fs::create_dir_all(place.parent().expect("a folder")).expect("made");
        std::fs::write(place, content).expect("written");
    }

    /// Reads a file of the first part.
    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.top().join(path)).expect("read")
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.top().join(path).symlink_metadata().is_ok()
    }

    /// The paths of the last capture.
    pub(crate) fn captured(&self) -> Vec<String> {
        let captures = self.captures.lock().expect("not poisoned");
        let last = captures.last().expect("something was captured").as_ref();
        let mut paths: Vec<String> = last
            .expect("paths were named")
            .iter()
            .map(ToString::to_string)
            .collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

impl Workspace for Folder {
    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn bound(&self, slot: &Slot, named: Option<&str>) -> Result<Option<&Part>, PortError> {
        // In tests, the resource type of a part is its alias.
        let alias = named.unwrap_or(&slot.resource_type);
        Ok(self.parts.iter().find(|part| part.alias == alias))
    }

    fn has_checkpoints(&self) -> bool {
        self.has_checkpoints.load(Ordering::SeqCst)
    }

    fn checkpoint(&self, _reason: &str) -> Result<CheckpointNumber, PortError> {
        if self.has_checkpoints() {
            Ok(CheckpointNumber(
                self.checkpoints.fetch_add(1, Ordering::SeqCst),
            ))
        } else {
            Err(broken("checkpoints are not available"))
        }
    }

    fn capture_paths(
        &self,
        _by: Attribution<'_>,
        paths: &[PartPath],
    ) -> Result<CapturedChanges, PortError> {
        let mut captures = self.captures.lock().expect("not poisoned");
        captures.push(Some(paths.to_vec()));
        Ok(CapturedChanges::default())
    }

    fn capture_all(&self, _by: Attribution<'_>) -> Result<CapturedChanges, PortError> {
        self.captures.lock().expect("not poisoned").push(None);
        Ok(CapturedChanges::default())
    }

    fn exec(
        &self,
        command: &Command,
        on_output: &dyn Fn(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<CommandResult, PortError> {
        let mut network = self.network.lock().expect("not poisoned");
        network.push(command.network);
        drop(network);
        let alias = command.part.as_deref().unwrap_or(&self.parts[0].alias);
        let mut folder = self.root(alias);
        if let Some(inner) = &command.folder {
            folder.push(inner.as_path());
        }
        let mut invocation = Invocation::new(command.program.clone(), folder);
        invocation.arguments.clone_from(&command.arguments);
        invocation
            .environment
            .extend(command.environment.iter().cloned());
        invocation.input = Input::Bytes(command.input.clone());
        invocation.limits.output_bytes = 0;
        invocation.limits.time = Some(command.time);
        run_tapped(&invocation, cancel, on_output).map_err(PortError::new)
    }

    fn git(&self, alias: &str) -> Result<Option<Git>, PortError> {
        let root = self.root(alias);
        if !root.join(".git").exists() {
            return Ok(None);
        }
        Git::at(&root)
            .with_commands_disabled()
            .map(Some)
            .map_err(PortError::new)
    }
}

/// A row of a ledger.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) id: ToolInvocationId,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) outcome: InvocationOutcome,
    pub(crate) error: Option<String>,
    pub(crate) kind: Option<&'static str>,
    pub(crate) output: Vec<u8>,
    pub(crate) log: String,
    pub(crate) scope: Scope,
}

/// A ledger in memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) rows: Mutex<Vec<Row>>,
    /// Whether storing fails.
    pub(crate) is_broken: AtomicBool,
}

impl Memory {
    fn check(&self) -> Result<(), PortError> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(broken("the database is gone"));
        }
        Ok(())
    }

    pub(crate) fn last(&self) -> Row {
        self.rows
            .lock()
            .expect("not poisoned")
            .last()
            .expect("a row")
            .clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.lock().expect("not poisoned").len()
    }
}

impl Ledger for Memory {
    fn begin(&self, call: &StartedCall<'_>) -> Result<(), PortError> {
        self.check()?;
        self.rows.lock().expect("not poisoned").push(Row {
            id: call.id,
            tool: call.tool.to_string(),
            arguments: call.arguments.clone(),
            outcome: InvocationOutcome::Running,
            error: None,
            kind: None,
            output: Vec::new(),
            log: String::new(),
            scope: call.scope.clone(),
        });
        Ok(())
    }

    fn finish(&self, call: &mut FinishedCall<'_>) -> Result<(), PortError> {
        self.check()?;
        let mut rows = self.rows.lock().expect("not poisoned");
        let row = rows
            .iter_mut()
            .find(|row| row.id == call.id)
            .expect("a started call");
        row.outcome = call.outcome;
        call.log.clone_into(&mut row.log);
        row.error = call.error.map(str::to_owned);
        let mut reader = call.output.reader().expect("a reader");
        std::io::Read::read_to_end(&mut reader, &mut row.output).expect("read");
        Ok(())
    }

    fn refuse(&self, refused: &RefusedCall<'_>) -> Result<(), PortError> {
        self.check()?;
        self.rows.lock().expect("not poisoned").push(Row {
            id: refused.id,
            tool: refused.tool.to_owned(),
            arguments: refused.arguments.clone(),
            outcome: InvocationOutcome::Refused,
            error: Some(refused.reason.to_string()),
            kind: Some(refused.reason.kind()),
            output: Vec::new(),
            log: String::new(),
            scope: refused.scope.clone(),
        });
        Ok(())
    }

    fn output(
        &self,
        scope: &Scope,
        invocation: ToolInvocationId,
        window: Window,
    ) -> Result<Option<OutputPage>, PortError> {
        let rows = self.rows.lock().expect("not poisoned");
        let row = rows
            .iter()
            .find(|row| row.id == invocation && row.scope == *scope);
        Ok(row.map(|row| {
            let from = usize::try_from(window.from)
                .expect("small")
                .min(row.output.len());
            let end = (from + window.bytes).min(row.output.len());
            OutputPage {
                bytes: row.output[from..end].to_vec(),
                total: row.output.len() as u64,
            }
        }))
    }
}

/// Gives the same answer to every question, and records the questions.
pub(crate) struct TestUser {
    pub(crate) approval: Approval,
    pub(crate) reply: Reply,
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Default for TestUser {
    fn default() -> Self {
        Self {
            approval: Approval::NoUser,
            reply: Reply::NoUser,
            asked: Mutex::default(),
        }
    }
}

impl Approver for TestUser {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        let always: Vec<String> = request.always.iter().map(ToString::to_string).collect();
        let server = request.always_server;
        let server = server.map_or_else(String::new, |rule| format!(" [{rule}]"));
        self.asked.lock().expect("not poisoned").push(format!(
            "{} {} because {} [{}]{server}",
            request.tool,
            request.arguments,
            request.reason,
            always.join(", ")
        ));
        self.approval.clone()
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        self.asked
            .lock()
            .expect("not poisoned")
            .push(question.text.to_owned());
        self.reply.clone()
    }
}

/// A budget in memory.
#[derive(Default)]
pub(crate) struct TestBudget {
    pub(crate) state: Mutex<SpentTotals>,
}

#[derive(Default)]
pub(crate) struct SpentTotals {
    pub(crate) calls: u64,
    pub(crate) money: u64,
}

struct BudgetHold<'p> {
    purse: &'p TestBudget,
    cost: MicroUsd,
    is_charged: bool,
}

impl Budget for TestBudget {
    fn reserve(&self, spending: &Spending<'_>) -> Result<Box<dyn Reservation + '_>, BudgetRefusal> {
        let mut state = self.state.lock().expect("not poisoned");
        for limit in [spending.limits.cost_per_plan, spending.limits.total_cost]
            .into_iter()
            .flatten()
        {
            if state.money + spending.cost.0 > limit.0 {
                return Err(BudgetRefusal::Money {
                    limit,
                    used: MicroUsd(state.money),
                });
            }
        }
        if let Some(limit) = spending.limits.calls_per_step
            && state.calls >= limit
        {
            return Err(BudgetRefusal::Calls { limit });
        }
        state.calls += 1;
        state.money += spending.cost.0;
        Ok(Box::new(BudgetHold {
            purse: self,
            cost: spending.cost,
            is_charged: false,
        }))
    }
}

impl Reservation for BudgetHold<'_> {
    fn charge(mut self: Box<Self>, cost: MicroUsd) -> Result<(), PortError> {
        let mut state = self.purse.state.lock().expect("not poisoned");
        state.money = state.money - self.cost.0 + cost.0;
        drop(state);
        self.is_charged = true;
        Ok(())
    }
}

impl Drop for BudgetHold<'_> {
    fn drop(&mut self) {
        if !self.is_charged {
            let mut state = self.purse.state.lock().expect("not poisoned");
            state.calls -= 1;
            state.money -= self.cost.0;
        }
    }
}

/// Redacts one secret.
pub(crate) struct Secrets;

pub(crate) const SECRET: &str = "sk-live-0123456789";

impl Redact for Secrets {
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.contains(SECRET) {
            text.replace(SECRET, "[REDACTED]").into()
        } else {
            text.into()
        }
    }
}

/// A gate with the context of its calls.
pub(crate) struct GateFixture {
    pub(crate) gate: Gate,
    pub(crate) folder: Option<Folder>,
    pub(crate) ledger: Memory,
    pub(crate) user: TestUser,
    pub(crate) purse: TestBudget,
    pub(crate) profile: SafetyProfile,
    pub(crate) guards: Guards,
    pub(crate) rules: PermissionRules,
    pub(crate) mode: PlanMode,
    pub(crate) cancel: Cancel,
    pub(crate) scope: Scope,
    pub(crate) shown_bytes: usize,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments are written where they are used"
)]
impl GateFixture {
    pub(crate) fn new(registry: Registry, folder: Option<Folder>) -> Self {
        Self {
            gate: Gate::new(Arc::new(registry)),
            folder,
            ledger: Memory::default(),
            user: TestUser::default(),
            purse: TestBudget::default(),
            profile: SafetyProfile::default(),
            guards: Guards::default(),
            rules: PermissionRules::default(),
            mode: PlanMode::Normal(Phase::Session),
            cancel: Cancel::new(),
            scope: Scope::default(),
            shown_bytes: 64 << 10,
        }
    }

    /// The built-in tools and a sandbox with one part, `app`.
    pub(crate) fn builtin() -> Self {
        Self::new(Registry::with_builtins(), Some(Folder::new(&["app"])))
    }

    pub(crate) fn folder(&self) -> &Folder {
        self.folder.as_ref().expect("a sandbox")
    }

    pub(crate) fn call_text(&self, tool: &str, arguments: &str) -> CallOutcome {
        let request = CallRequest {
            call_id: "call-1".to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
        };
        self.gate
            .call(&request, &self.context())
            .expect("no port fails")
    }

    pub(crate) fn context(&self) -> CallContext<'_> {
        CallContext {
            scope: &self.scope,
            mode: self.mode,
            profile: &self.profile,
            guards: &self.guards,
            rules: &self.rules,
            workspace: self
                .folder
                .as_ref()
                .map(|folder| -> &dyn Workspace { folder }),
            approver: &self.user,
            budget: &self.purse,
            ledger: &self.ledger,
            redactor: &Secrets,
            cancel: &self.cancel,
            shown_bytes: self.shown_bytes,
        }
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> CallOutcome {
        self.call_text(tool, &arguments.to_string())
    }

    /// Makes a call that must succeed, and returns its output.
    pub(crate) fn ok(&self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments) {
            CallOutcome::Succeeded(success) => {
                format!("{}{}", success.shown.head, success.shown.tail)
            }
            other => panic!("{tool}: {}", other.for_model()),
        }
    }

    /// Makes a call that must fail, and returns the message.
    pub(crate) fn fails(&self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments) {
            CallOutcome::Failed(failure) => failure.message,
            other => panic!("{tool}: {}", other.for_model()),
        }
    }

    /// Makes a call that must be refused, and returns kind and message.
    pub(crate) fn refused(&self, tool: &str, arguments: Value) -> (&'static str, String) {
        match self.call(tool, arguments) {
            CallOutcome::Refused(refusal) => (refusal.reason.kind(), refusal.reason.to_string()),
            other => panic!("{tool}: {}", other.for_model()),
        }
    }
}

/// Creates a repository with one commit.
pub(crate) fn repository(folder: &Path) {
    let git = |arguments: &[&str]| {
        let mut invocation = Invocation::new("git", folder);
        invocation.arguments = arguments.iter().map(Into::into).collect();
        let finished = cleveragents_process::run(&invocation, &Cancel::new()).expect("git runs");
        assert!(
            finished.ending.is_success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&finished.stderr.bytes)
        );
    };
    git(&["init", "-q", "-b", "main"]);
    git(&[
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "first",
    ]);
}
