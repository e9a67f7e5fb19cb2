//! [`SandboxService`]: creates, looks up, opens and discards sandboxes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use cleveragents_domain::{
    Checkpoint, CheckpointReason, Code, Diagnose as _, LeaseSubject, PlanId, Sandbox, SandboxId,
    SandboxName, SandboxState, TreePath, Ttl,
};
use cleveragents_process::Cancel;
use cleveragents_sandbox::{Base, Folders, Member, ProjectCaches, ScanCancel, Source};
use cleveragents_store::sandboxes::{NewSandbox, StoredMember};
use cleveragents_store::{Engine, UnitOfWork, changesets, leases, sandboxes};
use serde_json::Value;

use super::error::SandboxError;
use super::history::fencing_token;
use super::own_files;
use super::recover::is_settled;
use super::target::Target;
use crate::lease::{HeldLease, LeaseService, WorkGuard};
use crate::log_fields::milliseconds;

/// A sandbox with its parts, checkpoints and position.
#[derive(Debug, Clone)]
pub struct SandboxView {
    /// The stored row.
    pub sandbox: Sandbox,
    /// The stored rows of the parts.
    pub stored: Vec<StoredMember>,
    /// The parts in the file system, in the order of `stored`.
    pub members: Vec<Member>,
    /// The checkpoints, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Number of entries in the history.
    pub position: u64,
}

impl SandboxView {
    pub fn folders(&self) -> Folders {
        Folders {
            whole: path_from(&self.sandbox.folder),
        }
    }

    /// The package caches, which the sandboxes of a project share. Sandboxes belong to the same project if their first
    /// repository or folder is the same.
    pub(crate) fn caches(&self) -> ProjectCaches {
        let is_tree = |member: &&Member| matches!(member.base, Base::Git(_) | Base::Directory);
        let members = self.members.iter();
        let first = members
            .clone()
            .find(is_tree)
            .or_else(|| self.members.first());
        let project = first.map_or_else(
            || Path::new(&self.sandbox.name),
            |member| member.location.as_path(),
        );
        ProjectCaches::new(&self.folders().caches(), project)
    }
}

/// A sandbox under its lease: no other process can use the sandbox until this value is dropped.
pub struct OpenSandbox {
    /// State of the sandbox.
    pub view: SandboxView,
    pub(super) lease: HeldLease,
}

impl OpenSandbox {
    /// Cancels work in the sandbox when the lease is lost to another owner.
    pub(crate) fn guard(&self, cancel: &Cancel) -> WorkGuard {
        self.lease.guard(cancel)
    }
}

/// Creates, opens and removes sandboxes.
#[derive(Clone)]
pub struct SandboxService {
    pub(super) engine: Arc<Engine>,
    leases: LeaseService,
    /// Lifetime of the lease of an open sandbox without renewal.
    ttl: Ttl,
    /// The folder that contains all sandboxes.
    home: PathBuf,
    /// Cancels long scans of files.
    interrupt: Option<Cancel>,
}

/// Encodes a path as text without loss, even if the path is not UTF-8.
pub(super) fn path_text(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let relative = path.as_os_str().as_bytes();
    let relative = relative.strip_prefix(b"/").unwrap_or(relative);
    TreePath::from_bytes(relative).map_or_else(|_| "/".to_owned(), |path| format!("/{path}"))
}

fn path_from(text: &str) -> PathBuf {
    match text.strip_prefix('/').map(str::parse::<TreePath>) {
        Some(Ok(path)) => Path::new("/").join(path.as_path()),
        _ => PathBuf::from(text),
    }
}

/// Location of a target as text. The address of a server is already text and contains no password.
fn location_text(target: &Target) -> String {
    match target.source {
        Source::Postgres => target.location.display().to_string(),
        _ => path_text(&target.location),
    }
}

pub(super) fn machine() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match id.trim().get(..8) {
        Some(id) => format!("{name} ({id})"),
        None => name,
    }
}

/// Hides the database file and its journal files from all confined programs.
pub(crate) fn hide_database(engine: &Engine) {
    if let Some(database) = engine.url().path() {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut file = database.as_os_str().to_owned();
            file.push(suffix);
            cleveragents_process::hide(file);
        }
    }
}

impl SandboxService {
    /// Creates a service that stores sandboxes in the folder `home` and package caches in the sibling folder `caches`.
    pub fn new(engine: Arc<Engine>, home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        // Commands must not read other sandboxes or the database, wherever these are stored.
        cleveragents_process::hide(&home);
        cleveragents_process::hide(home.with_file_name("caches"));
        hide_database(&engine);
        Self {
            leases: LeaseService::new(Arc::clone(&engine)),
            ttl: Ttl::default(),
            engine,
            home,
            interrupt: None,
        }
    }

    /// Returns a service whose scans end when `cancel` is cancelled. An interrupted call fails with
    /// [`Interrupted`](cleveragents_sandbox::Error::Interrupted) and records nothing, so that the next scan finds the
    /// same changes.
    #[must_use]
    pub fn interrupted_by(&self, cancel: &Cancel) -> Self {
        Self {
            interrupt: Some(cancel.clone()),
            ..self.clone()
        }
    }

    /// The cancellation token for a new scan.
    pub(super) fn stop(&self) -> ScanCancel {
        self.interrupt
            .as_ref()
            .map_or_else(ScanCancel::default, ScanCancel::on)
    }

    /// Sets the lifetime of leases.
    #[must_use]
    pub const fn with_ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// The folder that contains all sandboxes.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// The store that records the sandboxes.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    fn subject(id: SandboxId) -> LeaseSubject {
        LeaseSubject::new("sandbox", id)
    }

    pub(super) const fn leases(&self) -> &LeaseService {
        &self.leases
    }

    pub(super) fn lease(&self, id: SandboxId) -> Result<HeldLease, SandboxError> {
        Ok(self.leases.acquire(Self::subject(id), self.ttl)?)
    }

    /// Fails if a new sandbox cannot have this name. [`Self::create`] checks the name too; this check is for callers
    /// that must not start an earlier step when the name is invalid or in use.
    pub fn check_free(&self, name: &str) -> Result<(), SandboxError> {
        let name: SandboxName = name.parse()?;
        let name = name.to_string();
        match self
            .engine
            .read(|reader| sandboxes::by_name(reader, &name))?
        {
            Some(existing) if !existing.state.is_over() => Err(SandboxError::Exists(name)),
            _ => Ok(()),
        }
    }

    /// Creates a sandbox of resources. If this fails, the partial sandbox is removed.
    pub fn create(
        &self,
        name: &str,
        origin: &str,
        targets: &[Target],
    ) -> Result<SandboxView, SandboxError> {
        self.create_for(None, name, origin, targets)
    }

    /// Refuses targets that cannot be sandboxed: the root of the file system and the program's own files.
    pub fn check_targets(&self, targets: &[Target]) -> Result<(), SandboxError> {
        Ok(own_files::check(
            targets,
            &self.home,
            self.engine.url().path(),
        )?)
    }

    /// Like [`Self::check_targets`], for a folder that is not registered as a resource yet.
    pub fn check_folder(&self, folder: &Path) -> Result<(), SandboxError> {
        let source = if folder.join(".git").exists() {
            Source::Git
        } else {
            Source::Directory
        };
        let database = self.engine.url().path();
        Ok(own_files::check_place(
            folder, source, &self.home, database,
        )?)
    }

    /// Creates a sandbox. For a plan, the history of the sandbox is a changeset of the plan.
    pub fn create_for(
        &self,
        plan: Option<PlanId>,
        name: &str,
        origin: &str,
        targets: &[Target],
    ) -> Result<SandboxView, SandboxError> {
        let started = Instant::now();
        let name: SandboxName = name.parse()?;
        own_files::check(targets, &self.home, self.engine.url().path())?;
        let id = SandboxId::generate();
        let lease = self.lease(id)?;
        let folders = Folders {
            whole: self.home.join(id.to_string().to_ascii_lowercase()),
        };
        let new = NewSandbox {
            id,
            name: name.to_string(),
            machine: machine(),
            folder: path_text(&folders.whole),
            origin: origin.to_owned(),
            plan,
            members: targets
                .iter()
                .map(|target| StoredMember {
                    alias: target.alias.clone(),
                    resource: target.resource.clone(),
                    strategy: target.strategy.clone(),
                    location: location_text(target),
                    is_read_only: target.is_read_only,
                    base: first_base(target.source),
                })
                .collect(),
        };
        self.engine.write(move |unit| {
            if sandboxes::insert(unit, &new)? {
                Ok(())
            } else {
                Err(SandboxError::Exists(new.name.clone()))
            }
        })?;
        let open = OpenSandbox {
            view: self.view(id)?,
            lease,
        };
        let result = self.make_members(&open, &folders, targets);
        match result.and_then(|()| self.activate(&open)) {
            Ok(()) => {
                let parts = targets.len();
                let duration_ms = milliseconds(started);
                tracing::info!(sandbox = %id, name = %name, parts, duration_ms, "sandbox created");
                self.view(id)
            }
            Err(error) => {
                tracing::warn!(sandbox = %id, name = %name, %error, "sandbox not created");
                self.abandon(open);
                Err(error)
            }
        }
    }

    /// Removes a sandbox whose creation failed. Ignores failures, because the caller returns the first error.
    pub(super) fn abandon(&self, open: OpenSandbox) {
        let Ok(view) = self.view(open.view.sandbox.id) else {
            return;
        };
        let open = OpenSandbox { view, ..open };
        let _ignored = self.throw_away(&open, SandboxState::Creating);
    }

    fn make_members(
        &self,
        open: &OpenSandbox,
        folders: &Folders,
        targets: &[Target],
    ) -> Result<(), SandboxError> {
        let id = open.view.sandbox.id;
        folders.create()?;
        for target in targets {
            if target.source == Source::Postgres {
                // Fail early if the database is unreachable or unsuitable.
                self.connect(&target.resource)?;
            }
            let member = folders.create_member(
                &id.to_string(),
                &target.alias,
                target.source,
                &target.location,
                target.is_read_only,
            )?;
            let alias = target.alias.clone();
            let base = base_text(&member.base);
            self.write(open, move |unit| {
                Ok(sandboxes::set_base(unit, id, &alias, &base)?)
            })?;
        }
        Ok(())
    }

    pub(super) fn activate(&self, open: &OpenSandbox) -> Result<(), SandboxError> {
        let id = open.view.sandbox.id;
        self.write(open, move |unit| {
            sandboxes::transition(unit, id, SandboxState::Creating, SandboxState::Active, None)?;
            sandboxes::add_checkpoint(unit, id, CheckpointReason::Created, None, 0, None)?;
            Ok(())
        })
    }

    /// Runs a unit of work under the lease of a sandbox. Fails if the lease was lost.
    pub(super) fn write<T: Send + 'static>(
        &self,
        open: &OpenSandbox,
        mut work: impl FnMut(&mut UnitOfWork<'_>) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, SandboxError> {
        let fence = fencing_token(open);
        self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            work(unit)
        })
    }

    /// Changes the state of a sandbox, under its lease.
    pub(super) fn advance(
        &self,
        open: &OpenSandbox,
        from: SandboxState,
        to: SandboxState,
        result: Option<Value>,
    ) -> Result<(), SandboxError> {
        self.advance_under(open, &[], (from, to), result)
    }

    /// Changes the state of a sandbox, under its lease and additional leases.
    pub(super) fn advance_under(
        &self,
        open: &OpenSandbox,
        held: &[HeldLease],
        (from, to): (SandboxState, SandboxState),
        result: Option<Value>,
    ) -> Result<(), SandboxError> {
        let (id, name) = (open.view.sandbox.id, open.view.sandbox.name.clone());
        let fences: Vec<_> = held.iter().map(HeldLease::fencing_token).collect();
        self.write(open, move |unit| {
            for (subject, token) in &fences {
                leases::require(unit, subject, *token)?;
            }
            if sandboxes::transition(unit, id, from, to, result.as_ref())? {
                return Ok(());
            }
            let state = sandboxes::get(unit, id)?.map(|sandbox| sandbox.state);
            Err(match state {
                Some(state) => SandboxError::NotReady {
                    name: name.clone(),
                    state,
                },
                None => SandboxError::NotFound(name.clone()),
            })
        })
    }

    /// All sandboxes, newest first. Applied and discarded sandboxes are included only with `with_over`.
    pub fn list(&self, with_over: bool) -> Result<Vec<SandboxView>, SandboxError> {
        let all = self
            .engine
            .read(|reader| sandboxes::list(reader, with_over))?;
        all.into_iter()
            .map(|sandbox| self.view(sandbox.id))
            .collect()
    }

    /// A sandbox by its name or id.
    pub fn find(&self, reference: &str) -> Result<SandboxView, SandboxError> {
        let not_found = || SandboxError::NotFound(reference.to_owned());
        let by_name = self
            .engine
            .read(|reader| sandboxes::by_name(reader, reference))?;
        let id = match by_name {
            Some(sandbox) => sandbox.id,
            None => reference.parse().map_err(|_| not_found())?,
        };
        self.view_of(id)?.ok_or_else(not_found)
    }

    pub(super) fn view(&self, id: SandboxId) -> Result<SandboxView, SandboxError> {
        self.view_of(id)?
            .ok_or_else(|| SandboxError::NotFound(id.to_string()))
    }

    fn view_of(&self, id: SandboxId) -> Result<Option<SandboxView>, SandboxError> {
        self.engine.read(|reader| {
            let Some(sandbox) = sandboxes::get(reader, id)? else {
                return Ok(None);
            };
            let stored = sandboxes::members(reader, id)?;
            let checkpoints = sandboxes::checkpoints(reader, id)?;
            let position = changesets::get(reader, sandbox.changeset)?
                .map_or(0, |changeset| changeset.entry_count);
            let folders = Folders {
                whole: path_from(&sandbox.folder),
            };
            let members = stored
                .iter()
                .map(|member| {
                    let base: Base = serde_json::from_str(&member.base).map_err(|error| {
                        cleveragents_store::Error::stored(
                            "the base of a sandbox",
                            error.to_string(),
                        )
                    })?;
                    Ok(folders.member(
                        &member.alias,
                        &path_from(&member.location),
                        member.is_read_only,
                        base,
                    ))
                })
                .collect::<Result<Vec<_>, SandboxError>>()?;
            Ok(Some(SandboxView {
                sandbox,
                stored,
                members,
                checkpoints,
                position,
            }))
        })
    }

    /// Names with this prefix of all sandboxes of a folder, newest first, including applied and discarded sandboxes.
    pub fn names_at(&self, folder: &Path, prefix: &str) -> Result<Vec<String>, SandboxError> {
        let location = path_text(folder);
        Ok(self
            .engine
            .read(|reader| sandboxes::names_at(reader, &location, prefix))?)
    }

    /// Opens a sandbox for exclusive use.
    pub fn open(&self, reference: &str) -> Result<OpenSandbox, SandboxError> {
        let mut open = self.take(reference)?;
        if !is_settled(&open.view.sandbox) {
            // No other process uses the sandbox, so its operation was interrupted. Recover it, or return the error.
            self.recover_one(&mut open)?;
            open.view = self.view(open.view.sandbox.id)?;
        }
        if open.view.sandbox.state != SandboxState::Active {
            return Err(not_ready(&open.view));
        }
        Ok(open)
    }

    /// Acquires the lease of a sandbox that is neither applied nor discarded.
    fn take(&self, reference: &str) -> Result<OpenSandbox, SandboxError> {
        let found = self.find(reference)?;
        if found.sandbox.state.is_over() {
            return Err(not_ready(&found));
        }
        Self::check_here(&found)?;
        let lease = self.lease(found.sandbox.id)?;
        // Read the sandbox again, because only the lease prevents changes by other processes.
        let view = self.view(found.sandbox.id)?;
        Ok(OpenSandbox { view, lease })
    }

    pub(super) fn check_here(view: &SandboxView) -> Result<(), SandboxError> {
        if view.sandbox.machine == machine() {
            Ok(())
        } else {
            Err(SandboxError::Elsewhere {
                name: view.sandbox.name.clone(),
                machine: view.sandbox.machine.clone(),
            })
        }
    }

    /// Whether a sandbox is applied and its files are still on this machine.
    pub fn has_kept_files(sandbox: &Sandbox) -> bool {
        sandbox.state == SandboxState::Applied
            && sandbox.machine == machine()
            && path_from(&sandbox.folder).exists()
    }

    /// All applied sandboxes whose files are still on this machine, newest first.
    pub fn kept(&self) -> Result<Vec<SandboxView>, SandboxError> {
        let all = self.engine.read(|reader| sandboxes::list(reader, true))?;
        all.into_iter()
            .filter(Self::has_kept_files)
            .map(|sandbox| self.view(sandbox.id))
            .collect()
    }

    /// Discards a sandbox and its changes, even if it is damaged. First recovers an interrupted apply, if possible.
    /// For an applied sandbox, removes the files that were kept.
    pub fn discard(&self, reference: &str) -> Result<SandboxView, SandboxError> {
        let view = self.find(reference)?;
        if Self::has_kept_files(&view.sandbox) {
            let _lease = self.lease(view.sandbox.id)?;
            Self::remove_files(&view)?;
            return Ok(view);
        }
        let mut open = self.take(reference)?;
        let id = open.view.sandbox.id;
        if open.view.sandbox.state == SandboxState::Applying {
            let is_hopeless = |error: &SandboxError| {
                matches!(
                    error,
                    SandboxError::Files(cleveragents_sandbox::Error::Damaged(_))
                ) || open
                    .view
                    .members
                    .iter()
                    .any(|part| self.is_lost(&open.view, part))
            };
            match self.recover_apply(&open) {
                Err(error) if !is_hopeless(&error) => return Err(error),
                _ => open.view = self.view(id)?,
            }
        }
        if open.view.sandbox.state.is_over() {
            return Err(not_ready(&open.view));
        }
        self.throw_away(&open, open.view.sandbox.state)?;
        tracing::info!(sandbox = %id, "sandbox discarded");
        self.view(id)
    }

    /// Removes the files of a sandbox and then records that it is discarded.
    pub(super) fn throw_away(
        &self,
        open: &OpenSandbox,
        from: SandboxState,
    ) -> Result<(), SandboxError> {
        let begin = || self.advance(open, from, SandboxState::Discarding, None);
        if from != SandboxState::Discarding {
            match begin() {
                // The disk is too full to record the state, so remove the files first.
                Err(error) if error.code() == Code::DiskFull => {
                    Self::remove_files(&open.view)?;
                    begin()?;
                }
                other => other?,
            }
        }
        Self::remove_files(&open.view)?;
        self.advance(
            open,
            SandboxState::Discarding,
            SandboxState::Discarded,
            None,
        )
    }

    /// Removes the copies of all parts, their entries in the user's repositories, and the folder of the sandbox.
    pub(super) fn remove_files(view: &SandboxView) -> Result<(), SandboxError> {
        for member in &view.members {
            member.remove(&view.sandbox.id.to_string())?;
        }
        // Rename the folder first, atomically, so that a folder under its original name is always complete.
        let folder = view.folders().whole;
        let renamed = folder.with_extension(GONE);
        match std::fs::rename(&folder, &renamed) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => other.map_err(removing(&folder))?,
        }
        Ok(cleveragents_sandbox::remove_folder(&renamed).map_err(removing(&renamed))?)
    }

    /// Completes removals whose process died.
    pub(super) fn sweep(&self) -> Result<(), SandboxError> {
        let entries = match std::fs::read_dir(&self.home) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(removing(&self.home)(error).into()),
        };
        for entry in entries {
            let path = entry.map_err(removing(&self.home))?.path();
            if path.extension().is_some_and(|extension| extension == GONE) {
                cleveragents_sandbox::remove_folder(&path).map_err(removing(&path))?;
            }
        }
        Ok(())
    }
}

fn not_ready(view: &SandboxView) -> SandboxError {
    SandboxError::NotReady {
        name: view.sandbox.name.clone(),
        state: view.sandbox.state,
    }
}

/// Suffix of the name of a folder that is being removed.
const GONE: &str = "gone";

pub(super) fn removing(place: &Path) -> impl Fn(std::io::Error) -> cleveragents_sandbox::Error {
    let path = place.to_owned();
    move |source| cleveragents_sandbox::Error::Files {
        action: "removing",
        path: path.clone(),
        source,
    }
}

/// Provisional base of a part before its copy exists. It suffices to remove an incomplete part.
fn first_base(source: Source) -> String {
    base_text(&match source {
        Source::Git => Base::Git(cleveragents_sandbox::GitBase::default()),
        Source::Directory => Base::Directory,
        Source::File => Base::File,
        Source::Sqlite => Base::Sqlite {
            digest: String::new(),
        },
        Source::Postgres => Base::Postgres,
    })
}

pub(super) fn base_text(base: &Base) -> String {
    serde_json::to_string(base).unwrap_or_default()
}
