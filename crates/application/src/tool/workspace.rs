//! [`SandboxWorkspace`]: a sandbox as the workspace of the gate and its tools.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cleveragents_domain::{
    Checkpoint, CheckpointNumber, CheckpointReason, MergeStrategy, PlanId, ToolInvocation, TreePath,
};
use cleveragents_models::ToolCall;
use cleveragents_process::{
    BackgroundCommands, Cancel, CommandResult, Input, Invocation, Limits, ProcessError, Stream,
    WhenMissing, run_tapped,
};
use cleveragents_sandbox::{Base, Change, Git};
use cleveragents_store::UnitOfWork;
use cleveragents_tools::ports::{
    Attribution, BackgroundWorkspace, CapturedChanges, Command, Part, PartPath, PortError,
    Workspace, WorkspaceFolders,
};
use cleveragents_tools::{Access, PrepareContext, Slot, Subject, builtin, resolve_call};

use crate::environment::nested_instructions;
use crate::resource::ResourceService;
use crate::sandbox::{
    CaptureReport, ChangeAuthor, ComputedMerge, ExecRequest, FILE_TOOLS, ForkToMerge, OpenSandbox,
    RollbackTarget, SandboxDiff, SandboxError, SandboxService, SandboxView, invocation,
};

/// An open sandbox in which tools run.
pub struct SandboxWorkspace {
    /// The first field, so that it is dropped before the lease of the sandbox is released.
    background: BackgroundCommands,
    service: SandboxService,
    /// Locked while the history of the sandbox is written.
    open: Mutex<OpenSandbox>,
    view: SandboxView,
    parts: Vec<Part>,
    /// For each part: the name of its resource, and the types of the resource.
    resources: Vec<(String, Vec<String>)>,
    when_missing: WhenMissing,
    /// Held during a trial, because trials must not overlap.
    trial: Mutex<()>,
    /// Whether a trial is running. During a trial, neither checkpoints nor changes are recorded: its end, or the
    /// recovery after a crash, finds the changes by comparing files.
    is_trial: AtomicBool,
    checkpoints_before_writing: bool,
    checkpoints_after_writing: bool,
}

/// The tool to which the last changes of background commands are attributed.
const BACKGROUND_AUTHOR: &str = "builtin/shell";

impl SandboxWorkspace {
    /// Opens a sandbox for tools. First records manual changes in the sandbox.
    pub fn new(
        service: SandboxService,
        open: OpenSandbox,
        when_missing: WhenMissing,
    ) -> Result<Self, SandboxError> {
        Self::resume(service, open, when_missing, &[])
    }

    /// Like [`Self::new`], after interrupted tool calls. Changes in the paths of an interrupted call of a file tool are
    /// attributed to the call; all other changes come from a command or from the user.
    pub fn resume(
        service: SandboxService,
        open: OpenSandbox,
        when_missing: WhenMissing,
        interrupted: &[ToolInvocation],
    ) -> Result<Self, SandboxError> {
        for member in &open.view.members {
            member.protect()?;
        }
        let parts = open
            .view
            .members
            .iter()
            .map(|member| {
                Ok(Part {
                    alias: member.alias.clone(),
                    root: Arc::new(member.work_root()?),
                    is_read_only: member.is_read_only,
                })
            })
            .collect::<Result<Vec<_>, SandboxError>>()?;
        let resources = open
            .view
            .stored
            .iter()
            .map(|member| {
                (
                    member.resource.clone(),
                    types_of(&service, &member.resource),
                )
            })
            .collect();
        let mut workspace = Self {
            resources,
            service,
            view: open.view.clone(),
            open: Mutex::new(open),
            parts,
            when_missing,
            trial: Mutex::new(()),
            is_trial: AtomicBool::new(false),
            checkpoints_before_writing: true,
            checkpoints_after_writing: false,
            background: BackgroundCommands::default(),
        };
        workspace.capture_interrupted(interrupted)?;
        let view = workspace.open().view.clone();
        workspace.view = view;
        Ok(workspace)
    }

    /// Records the changes since the sandbox was last used.
    fn capture_interrupted(&self, calls: &[ToolInvocation]) -> Result<(), SandboxError> {
        let written: Vec<(PartPath, &ToolInvocation)> = calls
            .iter()
            .flat_map(|call| {
                let paths = self.paths_written_by(call).into_iter();
                paths.map(move |path| (path, call))
            })
            .collect();
        let author = |alias: &str, path: &TreePath| {
            let is_in = |(target, _): &&(PartPath, &ToolInvocation)| {
                target.alias == alias && path.is_within(&target.path)
            };
            let (_, call) = written.iter().find(is_in)?;
            Some(ChangeAuthor {
                tool: &call.tool,
                invocation: Some(call.id),
                mark: None,
            })
        };
        self.service.capture_by(&mut self.open(), author)
    }

    /// The paths that a call of a file tool writes; empty for other tools.
    fn paths_written_by(&self, call: &ToolInvocation) -> Vec<PartPath> {
        if !FILE_TOOLS.contains(&call.tool.as_str()) {
            return Vec::new();
        }
        let subjects = self.subjects_of(&call.tool, call.arguments.clone());
        let written = subjects.into_iter().filter_map(|subject| match subject {
            Subject::Path {
                path,
                access: Access::Writes,
            } => Some(path),
            _ => None,
        });
        written.collect()
    }

    /// The subjects of a built-in tool's call; empty for other tools and invalid arguments.
    fn subjects_of(&self, tool: &str, arguments: serde_json::Value) -> Vec<Subject> {
        let tools = builtin::all();
        let mut tools = tools.iter();
        let Some(tool) = tools.find(|known| known.spec().name.to_string() == tool) else {
            return Vec::new();
        };
        let context = PrepareContext {
            workspace: Some(self),
        };
        match tool.prepare(arguments, context) {
            Ok(prepared) => prepared.subjects(),
            Err(_) => Vec::new(),
        }
    }

    /// The instruction files of the folders that a call of a built-in tool uses, except files that the conversation
    /// already contains: `is_shown` searches the conversation for the opening tag of a file.
    pub(crate) fn nested_instructions(
        &self,
        call: &ToolCall,
        is_shown: &dyn Fn(&str) -> bool,
    ) -> Option<String> {
        let (tool, arguments) = resolve_call(&call.name, &call.arguments)?;
        let subjects = self.subjects_of(&tool.to_string(), arguments);
        let paths = subjects.into_iter().filter_map(|subject| match subject {
            Subject::Path { path, .. } => Some(path),
            _ => None,
        });
        nested_instructions(&self.parts, &paths.collect::<Vec<_>>(), is_shown)
    }

    /// The state of the sandbox when it was opened.
    pub(crate) const fn view(&self) -> &SandboxView {
        &self.view
    }

    /// Sets whether checkpoints are created before calls that may change files, and after calls that did.
    #[must_use]
    pub(crate) fn with_checkpoints(self, before: bool, after: bool) -> Self {
        Self {
            checkpoints_before_writing: before,
            checkpoints_after_writing: after,
            ..self
        }
    }

    /// The part that contains a resource, by the name of the resource. A resource inside another resource belongs to
    /// the part of the outer resource.
    pub fn part_of(&self, resource: &str) -> Option<&str> {
        let by_name = || {
            let index = self.resources.iter().position(|(name, _)| name == resource);
            index.and_then(|index| self.parts.get(index))
        };
        let by_location = || {
            let resources = ResourceService::new(self.service.engine());
            let found = resources.resolve(resource).ok()?;
            let boundary = resources.boundary(found.id).ok()?.resource;
            let location = boundary.location.as_deref().map(std::path::Path::new)?;
            let mut members = self.view.members.iter().zip(&self.parts);
            let member = members.find(|(member, _)| member.location == location);
            member.map(|(_, part)| part)
        };
        by_name()
            .or_else(by_location)
            .map(|part| part.alias.as_str())
    }

    /// Length of the history of the sandbox, which is its current position.
    pub fn position(&self) -> u64 {
        self.open().view.position
    }

    /// Runs `work` in the sandbox and then undoes its file changes. If the process dies in between, the next process
    /// that opens the sandbox undoes them. Returns the undone changes. Nothing else may use the sandbox at the same
    /// time.
    pub fn without_trace<T>(
        &self,
        work: impl FnOnce() -> T,
    ) -> Result<(T, Vec<(String, Change)>), SandboxError> {
        let _trial = self.trial.lock().unwrap_or_else(PoisonError::into_inner);
        let trial_start = self.service.begin_trial(&mut self.open())?;
        self.is_trial.store(true, Ordering::SeqCst);
        let result = work();
        // Nothing may write while the files are restored.
        self.background.end_all();
        self.is_trial.store(false, Ordering::SeqCst);
        let changes = self.service.end_trial(&mut self.open(), trial_start)?;
        Ok((result, changes))
    }

    pub fn name(&self) -> &str {
        &self.view.sandbox.name
    }

    /// Copies the sandbox in its current state, for a child plan.
    pub(crate) fn fork(&self, plan: PlanId, name: &str) -> Result<SandboxView, SandboxError> {
        self.service.fork(&mut self.open(), plan, name)
    }

    /// Merges the recorded changes of forks, without writing anything.
    pub(crate) fn compute_merge(
        &self,
        forks: &[ForkToMerge<'_>],
        strategy: MergeStrategy,
    ) -> Result<ComputedMerge, SandboxError> {
        self.service
            .compute_merge(&mut self.open(), forks, strategy)
    }

    /// Writes a merge. `also` runs in the unit of work that records its changes.
    pub(crate) fn write_merge(
        &self,
        merge: &ComputedMerge,
        also: impl FnMut(&mut UnitOfWork<'_>) -> Result<(), SandboxError> + Send + 'static,
    ) -> Result<Vec<(String, Change)>, SandboxError> {
        let (changes, ()) = self.service.write_merge(&mut self.open(), merge, also)?;
        Ok(changes)
    }

    /// Creates a checkpoint with a label.
    pub(crate) fn mark(&self, label: &str) -> Result<CheckpointNumber, SandboxError> {
        self.service.checkpoint_recorded(
            &mut self.open(),
            CheckpointReason::BeforeExec,
            Some(label),
        )
    }

    /// The paths that differ from their state at a position of the history, in the form that tools accept: prefixed
    /// with the part if the sandbox has several parts.
    pub(crate) fn changed_paths(&self, position: u64) -> Result<Vec<String>, SandboxError> {
        let open = self.open();
        let net = self.service.net(&open, position)?;
        let is_one = net.parts.len() == 1;
        Ok(net
            .parts
            .iter()
            .flat_map(|part| {
                let alias = &part.member.alias;
                part.changes.iter().map(move |change| {
                    if is_one {
                        change.path.to_string()
                    } else {
                        format!("{alias}/{}", change.path)
                    }
                })
            })
            .collect())
    }

    /// The state of the sandbox, and its changes since it was created.
    pub(crate) fn net_diff(&self) -> Result<(SandboxView, SandboxDiff), SandboxError> {
        let open = self.open();
        Ok((open.view.clone(), self.service.net(&open, 0)?))
    }

    /// The paths that differ from their state at a position of the history, each prefixed with its part.
    pub(crate) fn changed_since(&self, position: u64) -> Result<Vec<String>, SandboxError> {
        let open = self.open();
        let net = self.service.net(&open, position)?;
        Ok(net
            .parts
            .iter()
            .flat_map(|part| {
                let alias = &part.member.alias;
                part.changes
                    .iter()
                    .map(move |change| format!("{alias}/{}", change.path))
            })
            .collect())
    }

    /// Restores the files to their state before a call. Returns `false` if the call has no checkpoint. The caller must
    /// ensure that nothing else changed the files since. `all` are the recorded calls in this sandbox.
    pub(crate) fn undo_call(
        &self,
        call: &ToolInvocation,
        all: &[ToolInvocation],
    ) -> Result<bool, SandboxError> {
        let mut open = self.open();
        let checkpoint = open.view.checkpoints.iter().rev().find(|checkpoint| {
            checkpoint.reason == CheckpointReason::BeforeExec
                && checkpoint.label.as_deref() == Some(call.tool.as_str())
                && checkpoint.created_at <= call.started_at
        });
        // If the call has no checkpoint, the last checkpoint belongs to an earlier call of the same tool.
        let belongs_to_call = |checkpoint: &&Checkpoint| {
            !all.iter().any(|other| {
                other.id != call.id
                    && other.tool == call.tool
                    && (checkpoint.created_at..=call.started_at).contains(&other.started_at)
            })
        };
        let Some(number) = checkpoint
            .filter(belongs_to_call)
            .map(|checkpoint| checkpoint.number)
        else {
            return Ok(false);
        };
        let target = RollbackTarget::Checkpoint(number.to_string());
        self.service.rollback(&mut open, &target)?;
        Ok(true)
    }

    /// Captures the changes of a call and attributes them to the call.
    fn attributed(
        &self,
        by: Attribution<'_>,
        capture: impl FnOnce(ChangeAuthor<'_>) -> Result<CaptureReport, SandboxError>,
    ) -> Result<CapturedChanges, PortError> {
        let tool = by.tool.to_string();
        // Must differ from the label of the checkpoint before the call, which `undo_call` looks up.
        let mark = self
            .checkpoints_after_writing
            .then(|| format!("after {tool}"));
        let report = capture(ChangeAuthor {
            tool: &tool,
            invocation: Some(by.invocation),
            mark: mark.as_deref(),
        })
        .map_err(PortError::new)?;
        Ok(CapturedChanges {
            changes: report.changes,
            special: report.special,
        })
    }

    /// Kills the background commands of an owner and records their changes. Returns the numbers of the commands that were
    /// still running.
    pub(crate) fn end_background(&self, owner: &str) -> Result<Vec<u32>, SandboxError> {
        let (commands, running) = self.background.end(owner);
        if !commands.is_empty() && !self.is_trial() {
            self.service
                .capture(&mut self.open(), Some(BACKGROUND_AUTHOR.into()))?;
        }
        Ok(running)
    }

    /// The invocation of a command, confined to the sandbox.
    fn command_invocation(&self, command: &Command) -> Result<Invocation, PortError> {
        for member in &self.view.members {
            member
                .protect()
                .map_err(SandboxError::from)
                .map_err(PortError::new)?;
        }
        let request = ExecRequest {
            part: command.part.clone(),
            environment: command.environment.clone(),
            network: command.network,
            input: if command.input.is_empty() {
                Input::Nothing
            } else {
                Input::Bytes(command.input.clone())
            },
            limits: Limits {
                time: Some(command.time),
                output_bytes: 0,
                ..Limits::untrusted()
            },
            ..ExecRequest::captured(&command.program, &command.arguments, self.when_missing)
        };
        let mut invocation = invocation(&self.view, &request).map_err(PortError::new)?;
        if let Some(folder) = &command.folder {
            invocation.folder = invocation.folder.join(folder.as_path());
        }
        if let Some(policy) = &mut invocation.confinement {
            policy.readable.extend(command.readable.iter().cloned());
        }
        if command.access == Access::Reads
            && let Some(policy) = &mut invocation.confinement
        {
            let folders = self.view.folders();
            let private_folders = [
                folders.temporary(),
                folders.home(),
                self.view.caches().files(),
            ];
            let (writable, readable) = std::mem::take(&mut policy.writable)
                .into_iter()
                .partition(|folder| private_folders.contains(folder));
            policy.writable = writable;
            policy.readable.extend::<Vec<_>>(readable);
        }
        if let Some(policy) = &mut invocation.confinement {
            policy.shared_network = self.background.network();
        }
        Ok(invocation)
    }

    fn is_trial(&self) -> bool {
        self.is_trial.load(Ordering::SeqCst)
    }

    fn open(&self) -> MutexGuard<'_, OpenSandbox> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The type of a resource and the types that it inherits from; empty when the resource is no longer
/// registered.
fn types_of(service: &SandboxService, resource: &str) -> Vec<String> {
    let resources = ResourceService::new(service.engine());
    let Ok(resource) = resources.resolve(resource) else {
        return Vec::new();
    };
    let inherited = resources
        .types()
        .ok()
        .and_then(|types| types.inherited(&resource.type_name).ok());
    match inherited {
        Some(found) => found.chain.iter().map(ToString::to_string).collect(),
        None => vec![resource.type_name.to_string()],
    }
}

impl Workspace for SandboxWorkspace {
    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn folders(&self) -> WorkspaceFolders {
        let mut folders = WorkspaceFolders::from_parts(&self.parts);
        for member in &self.view.members {
            // A part without a repository is an ordinary folder.
            let git = member.prepare_git().ok().flatten();
            let git = git.map(std::path::Path::to_owned);
            if member.is_read_only {
                folders.readable.extend(git);
            } else {
                folders.writable.extend(git);
            }
            folders.readable.extend(member.external_git_files());
        }
        folders
    }

    fn bound(&self, slot: &Slot, named: Option<&str>) -> Result<Option<&Part>, PortError> {
        let fits = |(part, (resource, types)): &(&Part, &(String, Vec<String>))| match named {
            Some(name) => part.alias == name || resource == name,
            None => types.contains(&slot.resource_type),
        };
        let mut parts = self.parts.iter().zip(&self.resources);
        Ok(parts.find(fits).map(|(part, _)| part))
    }

    fn has_checkpoints(&self) -> bool {
        true
    }

    fn requires_checkpoint_before_writing(&self) -> bool {
        self.checkpoints_before_writing && !self.is_trial()
    }

    fn checkpoint(&self, reason: &str) -> Result<CheckpointNumber, PortError> {
        // Changes are recorded after every call, so the checkpoint needs no scan.
        self.service
            .checkpoint_recorded(&mut self.open(), CheckpointReason::BeforeExec, Some(reason))
            .map_err(PortError::new)
    }

    fn capture_paths(
        &self,
        by: Attribution<'_>,
        paths: &[PartPath],
    ) -> Result<CapturedChanges, PortError> {
        if self.is_trial() {
            return Ok(CapturedChanges::default());
        }
        let paths_in = |part: &Part| -> Vec<TreePath> {
            let paths = paths.iter().filter(|path| path.alias == part.alias);
            paths.map(|path| path.path.clone()).collect()
        };
        let parts = self.parts.iter();
        let changed: Vec<_> = parts
            .map(|part| (part.alias.as_str(), paths_in(part)))
            .filter(|(_, paths)| !paths.is_empty())
            .collect();
        self.attributed(by, |author| {
            self.service
                .capture_paths(&mut self.open(), &changed, Some(author))
        })
    }

    fn capture_all(&self, by: Attribution<'_>) -> Result<CapturedChanges, PortError> {
        if self.is_trial() {
            return Ok(CapturedChanges::default());
        }
        self.attributed(by, |author| {
            self.service.capture(&mut self.open(), Some(author))
        })
    }

    fn exec(
        &self,
        command: &Command,
        on_output: &dyn Fn(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<CommandResult, PortError> {
        let invocation = self.command_invocation(command)?;
        let stop = cancel.child();
        let _guard = self.open().guard(&stop);
        run_tapped(&invocation, &stop, on_output)
            .map_err(|error: ProcessError| PortError::new(error))
    }

    fn background(&self) -> Option<&dyn BackgroundWorkspace> {
        Some(self)
    }

    fn base_commit(&self, alias: &str) -> Option<String> {
        let mut members = self.view.members.iter();
        let member = members.find(|member| member.alias == alias)?;
        match &member.base {
            Base::Git(base) => Some(base.start().to_owned()),
            _ => None,
        }
    }

    fn git(&self, alias: &str) -> Result<Option<Git>, PortError> {
        let Some(member) = self
            .view
            .members
            .iter()
            .find(|member| member.alias == alias)
        else {
            return Ok(None);
        };
        member
            .git()
            .map_err(SandboxError::from)
            .map_err(PortError::new)
    }
}

impl BackgroundWorkspace for SandboxWorkspace {
    fn start(&self, owner: &str, command: &Command, cancel: &Cancel) -> Result<u32, PortError> {
        let invocation = self.command_invocation(command)?;
        let stop = cancel.child();
        let guard = self.open().guard(&stop);
        self.background
            .start(owner, invocation, stop, guard)
            .map_err(PortError::new)
    }

    fn commands(&self) -> &BackgroundCommands {
        &self.background
    }
}
