//! [`SandboxWorkspace`]: a sandbox as the gate and its tools see it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cleveragents_domain::{
    Checkpoint, CheckpointNumber, CheckpointReason, ToolInvocation, TreePath,
};
use cleveragents_process::{
    Cancel, Finished, Input, Limits, Output, ProcessError, Stream, WhenMissing, run_tapped,
};
use cleveragents_sandbox::{Base, Change, Git};
use cleveragents_tools::ports::{
    Attribution, Captured, Command, Part, PartPath, PortError, Workspace, WorkspaceFolders,
};
use cleveragents_tools::{Access, Grounds, Slot, Subject, builtin};

use crate::resource::ResourceService;
use crate::sandbox::{
    CaptureReport, Doer, ExecRequest, FILE_TOOLS, OpenSandbox, RollbackTarget, SandboxError,
    SandboxService, SandboxView, invocation,
};

/// An open sandbox in which tools act.
pub struct SandboxWorkspace {
    service: SandboxService,
    /// Its history is written by one at a time.
    open: Mutex<OpenSandbox>,
    view: SandboxView,
    parts: Vec<Part>,
    /// For each part: its resource, and the types that it has.
    resources: Vec<(String, Vec<String>)>,
    when_missing: WhenMissing,
    /// Trials are made one after the other.
    trial: Mutex<()>,
    marks_before: bool,
    marks_after: bool,
}

impl SandboxWorkspace {
    /// Lets tools act in a sandbox. What was changed in it by hand is recorded first.
    pub fn new(
        service: SandboxService,
        open: OpenSandbox,
        when_missing: WhenMissing,
    ) -> Result<Self, SandboxError> {
        Self::resume(service, open, when_missing, &[])
    }

    /// The same after calls of tools that were cut off. What such a call of a file tool changed is
    /// recorded as its doing; everything else was changed by a command or by hand.
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
            marks_before: true,
            marks_after: false,
        };
        workspace.capture_interrupted(interrupted)?;
        let view = workspace.open().view.clone();
        workspace.view = view;
        Ok(workspace)
    }

    /// Records what changed since the sandbox was last used.
    fn capture_interrupted(&self, calls: &[ToolInvocation]) -> Result<(), SandboxError> {
        let written: Vec<(PartPath, &ToolInvocation)> = calls
            .iter()
            .flat_map(|call| {
                let paths = self.paths_written_by(call).into_iter();
                paths.map(move |path| (path, call))
            })
            .collect();
        let doer = |alias: &str, path: &TreePath| {
            let is_in = |(place, _): &&(PartPath, &ToolInvocation)| {
                place.alias == alias && path.is_within(&place.path)
            };
            let (_, call) = written.iter().find(is_in)?;
            Some(Doer {
                tool: &call.tool,
                invocation: Some(call.id),
                mark: None,
            })
        };
        self.service.capture_by(&mut self.open(), doer)
    }

    /// The paths that a call of a file tool names for writing; none for other tools.
    fn paths_written_by(&self, call: &ToolInvocation) -> Vec<PartPath> {
        if !FILE_TOOLS.contains(&call.tool.as_str()) {
            return Vec::new();
        }
        let tools = builtin::all();
        let mut tools = tools.iter();
        let Some(tool) = tools.find(|tool| tool.spec().name.to_string() == call.tool) else {
            return Vec::new();
        };
        let grounds = Grounds {
            workspace: Some(self),
        };
        let subjects = match tool.prepare(call.arguments.clone(), grounds) {
            Ok(prepared) => prepared.subjects(),
            Err(_) => Vec::new(),
        };
        let written = subjects.into_iter().filter_map(|subject| match subject {
            Subject::Path {
                path,
                access: Access::Writes,
            } => Some(path),
            _ => None,
        });
        written.collect()
    }

    /// The same with checkpoints before calls that may change something, and after those that did, or without.
    #[must_use]
    pub(crate) fn marking(self, before: bool, after: bool) -> Self {
        Self {
            marks_before: before,
            marks_after: after,
            ..self
        }
    }

    /// The part that holds a resource, by the name of the resource. What lies inside another resource
    /// is in the part of that one.
    pub fn part_of(&self, resource: &str) -> Option<&str> {
        let by_name = || {
            let place = self.resources.iter().position(|(name, _)| name == resource);
            place.and_then(|place| self.parts.get(place))
        };
        let by_place = || {
            let resources = ResourceService::new(self.service.engine());
            let found = resources.resolve(resource).ok()?;
            let boundary = resources.boundary(found.id).ok()?.resource;
            let location = boundary.location.as_deref().map(std::path::Path::new)?;
            let mut members = self.view.members.iter().zip(&self.parts);
            let member = members.find(|(member, _)| member.location == location);
            member.map(|(_, part)| part)
        };
        by_name().or_else(by_place).map(|part| part.alias.as_str())
    }

    /// How long the history of the sandbox is.
    pub fn position(&self) -> u64 {
        self.open().view.position
    }

    /// Does something in the sandbox that leaves no trace: every file is as before when this returns,
    /// and also when the process dies meanwhile, once the sandbox is opened again. Says what was
    /// changed and taken back. Nothing else may work in the sandbox at the same time.
    pub fn without_trace<T>(
        &self,
        work: impl FnOnce() -> T,
    ) -> Result<(T, Vec<(String, Change)>), SandboxError> {
        let _alone = self.trial.lock().unwrap_or_else(PoisonError::into_inner);
        let began = self.service.begin_trial(&mut self.open())?;
        let result = work();
        let changes = self.service.end_trial(&mut self.open(), began)?;
        Ok((result, changes))
    }

    /// The name of the sandbox.
    pub fn name(&self) -> &str {
        &self.view.sandbox.name
    }

    /// Makes a checkpoint with a label.
    pub(crate) fn mark(&self, label: &str) -> Result<CheckpointNumber, SandboxError> {
        self.service.checkpoint_recorded(
            &mut self.open(),
            CheckpointReason::BeforeExec,
            Some(label),
        )
    }

    /// The paths that differ from what they were at a position of its history, as tools read them: with
    /// the part in front where there are several.
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

    /// The paths that differ from what they were at a position of its history, each with its part.
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

    /// Takes the files back to what they were before a call, and says whether it could: the checkpoint that
    /// was made for it must be there. Only right when nothing else changed them since.
    pub(crate) fn take_back(
        &self,
        call: &ToolInvocation,
        all: &[ToolInvocation],
    ) -> Result<bool, SandboxError> {
        let mut open = self.open();
        let made = open.view.checkpoints.iter().rev().find(|checkpoint| {
            checkpoint.reason == CheckpointReason::BeforeExec
                && checkpoint.label.as_deref() == Some(call.tool.as_str())
                && checkpoint.created_at <= call.started_at
        });
        // Calls may have no checkpoint: then the last one was made for an earlier call of the tool.
        let is_its_own = |checkpoint: &&Checkpoint| {
            !all.iter().any(|other| {
                other.id != call.id
                    && other.tool == call.tool
                    && (checkpoint.created_at..=call.started_at).contains(&other.started_at)
            })
        };
        let Some(number) = made.filter(is_its_own).map(|checkpoint| checkpoint.number) else {
            return Ok(false);
        };
        let target = RollbackTarget::Checkpoint(number.to_string());
        self.service.rollback(&mut open, &target)?;
        Ok(true)
    }

    /// Captures what a call changed, as its doing.
    fn attributed(
        &self,
        by: Attribution<'_>,
        capture: impl FnOnce(Doer<'_>) -> Result<CaptureReport, SandboxError>,
    ) -> Result<Captured, PortError> {
        let tool = by.tool.to_string();
        // Another label than before the call, by which that one is found.
        let mark = self.marks_after.then(|| format!("after {tool}"));
        let report = capture(Doer {
            tool: &tool,
            invocation: Some(by.invocation),
            mark: mark.as_deref(),
        })
        .map_err(PortError::new)?;
        Ok(Captured {
            changes: report.changes,
            special: report.special,
        })
    }

    fn open(&self) -> MutexGuard<'_, OpenSandbox> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The type of a resource and those it inherits from; none when it is not registered any more.
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
        let mut folders = WorkspaceFolders::of(&self.parts);
        for member in &self.view.members {
            // Without its repository a part is an ordinary folder.
            let git = member.prepare_git().ok().flatten();
            let git = git.map(std::path::Path::to_owned);
            if member.is_read_only {
                folders.readable.extend(git);
            } else {
                folders.writable.extend(git);
            }
            folders.readable.extend(member.borrowed());
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

    fn marks_before(&self) -> bool {
        self.marks_before
    }

    fn checkpoint(&self, reason: &str) -> Result<CheckpointNumber, PortError> {
        // Every tool's changes are recorded after it, so there is nothing to look for.
        self.service
            .checkpoint_recorded(&mut self.open(), CheckpointReason::BeforeExec, Some(reason))
            .map_err(PortError::new)
    }

    fn capture_paths(
        &self,
        by: Attribution<'_>,
        paths: &[PartPath],
    ) -> Result<Captured, PortError> {
        let inside = |part: &Part| -> Vec<TreePath> {
            let paths = paths.iter().filter(|path| path.alias == part.alias);
            paths.map(|path| path.path.clone()).collect()
        };
        let parts = self.parts.iter();
        let changed: Vec<_> = parts
            .map(|part| (part.alias.as_str(), inside(part)))
            .filter(|(_, paths)| !paths.is_empty())
            .collect();
        self.attributed(by, |doer| {
            self.service
                .capture_paths(&mut self.open(), &changed, Some(doer))
        })
    }

    fn capture_all(&self, by: Attribution<'_>) -> Result<Captured, PortError> {
        self.attributed(by, |doer| {
            self.service.capture(&mut self.open(), Some(doer))
        })
    }

    fn exec(
        &self,
        command: &Command,
        hear: &dyn Fn(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<Finished, PortError> {
        for member in &self.view.members {
            member
                .protect()
                .map_err(SandboxError::from)
                .map_err(PortError::new)?;
        }
        let request = ExecRequest {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            part: command.part.clone(),
            environment: command.environment.clone(),
            writable: Vec::new(),
            readable: Vec::new(),
            network: command.network,
            when_missing: self.when_missing,
            input: if command.input.is_empty() {
                Input::Nothing
            } else {
                Input::Bytes(command.input.clone())
            },
            output: Output::Capture,
            limits: Limits {
                time: Some(command.time),
                output_bytes: 0,
                ..Limits::untrusted()
            },
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
            let kept = [folders.temporary(), folders.home()];
            let (writable, readable) = std::mem::take(&mut policy.writable)
                .into_iter()
                .partition(|folder| kept.contains(folder));
            policy.writable = writable;
            policy.readable.extend::<Vec<_>>(readable);
        }
        let stop = cancel.child();
        let _guard = self.open().guard(&stop);
        run_tapped(&invocation, &stop, hear).map_err(|error: ProcessError| PortError::new(error))
    }

    fn base_commit(&self, alias: &str) -> Option<String> {
        let mut members = self.view.members.iter();
        let member = members.find(|member| member.alias == alias)?;
        match &member.base {
            Base::Git(base) => Some(base.commit.clone()),
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
