//! Apply: transfers the changes of a sandbox to the real resources, all or none.
//!
//! [`plan`] computes and checks all changes without changing a real resource. Then [`ApplyPlan::execute`] stages new
//! files and takes locks. After the journal was saved with the phase `committing`, this process or a later one
//! completes the apply; if a step fails, it rolls back all steps. Whether a step was executed can be seen from the
//! files themselves, so completing and rolling back may be interrupted at any point.

mod conflict;
mod journal;
mod overlap;
mod repository;
mod server;
mod steps;
mod tree;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileKind, FileState, Operation, TreePath};
use serde::Serialize;

pub use conflict::{Conflict, Side};
pub use journal::{Journal, Recovery};
pub use tree::net_changes;

use crate::capture::Change;
use crate::database::{self, DatabaseChange};
use crate::error::{Error, PathContext as _};
use crate::git::{BranchUpdate, GitPlan, GitRequest, Update, open_checkout, plan_result};
use crate::member::{Base, Member};
use crate::objects::Objects;
use crate::scoped_dir::Root;
use crate::server::{Servers, StatementRun};
use repository::RefChange;
use steps::Steps;
use tree::is_protected;
pub(crate) use tree::{Decision, decide};

/// Reason for not applying changes to a read-only resource.
pub(crate) const READ_ONLY: &str = "the resource is linked read-only";

/// Maximum length of an applied path, in bytes. Git and other programs must be able to open it, prefixed with the
/// location of the member, in one system call.
pub(crate) const MAX_PATH_BYTES: usize = 3_900;

#[derive(Debug, Clone)]
pub struct ApplyOptions {
    /// Update of the user's branch: by a commit or a merge.
    pub landing: BranchUpdate,
    /// Commit message.
    pub message: String,
    /// Only compute the result. Leaves no git objects behind.
    pub is_preview: bool,
    /// Name of a new branch that receives the commits, in each repository. It starts at the commit from which the
    /// sandbox was created. The user's current branch, index and files stay unchanged.
    pub new_branch: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PathChange {
    /// Path within its member.
    pub path: TreePath,
    /// Kind of change: create, modify, delete or mode.
    pub operation: &'static str,
}

/// Changes that the apply makes to one member.
#[derive(Debug, Clone, Serialize)]
pub struct MemberPreview {
    pub alias: String,
    /// Location of the real resource.
    pub location: String,
    pub files: Vec<PathChange>,
    /// Commit on the user's branch, if the apply creates one.
    pub commit: Option<CommitPreview>,
    /// Whether the content of the database is replaced.
    pub database: bool,
    /// Statements that run on the database server.
    pub statements: Vec<StatementRun>,
    /// Changed paths that are not applied: ignored by git, or in a protected folder.
    pub left_out: Vec<TreePath>,
}

/// A commit that the apply creates.
#[derive(Debug, Clone, Serialize)]
pub struct CommitPreview {
    /// Name of the branch; `None` for a detached head.
    pub branch: Option<String>,
    /// Commit of the branch before the apply.
    pub old: String,
    /// Commit of the branch after the apply; `None` in a preview, which discards its commit.
    pub new: Option<String>,
    /// Whether the commit merges the sandbox's commit.
    pub is_merge: bool,
    /// Whether the branch has moved since the sandbox was created.
    pub branch_moved: bool,
    /// Whether the apply creates the branch; the current branch stays unchanged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_new_branch: bool,
}

fn committed_paths(result: &GitPlan) -> Vec<PathChange> {
    let operation = |update: &Update| match (&update.old, &update.new) {
        (None, _) => "create",
        (_, None) => "delete",
        _ => "modify",
    };
    let changed = result.updates.iter().map(|update| PathChange {
        path: update.path.clone(),
        operation: operation(update),
    });
    changed.collect()
}

/// A computed apply without conflicts, ready to execute.
#[derive(Debug)]
pub struct ApplyPlan {
    /// Changes of each member.
    pub previews: Vec<MemberPreview>,
    journal: Journal,
}

/// Plans an apply. `scratch` is an empty folder of the sandbox that must exist until the apply is complete.
pub fn plan(
    id: &str,
    parts: &[(Member, Vec<Change>)],
    options: &ApplyOptions,
    objects_folder: &Path,
    scratch: &Path,
    servers: &dyn Servers,
) -> Result<ApplyPlan, Error> {
    let mut objects = Objects::open(objects_folder).during("opening", objects_folder)?;
    let mut previews = Vec::new();
    let mut conflicts = Vec::new();
    let mut places = overlap::ChangedPaths::new();
    let mut journal = Journal::new(scratch, objects_folder);
    let mut repositories = HashMap::new();
    for (member, changes) in parts {
        let changes: Vec<Change> = changes.iter().filter_map(without_new_bits).collect();
        if changes.is_empty() {
            continue;
        }
        let folder = scratch.join(&member.alias);
        std::fs::create_dir_all(&folder).during("making", &folder)?;
        let mut part = Part {
            id,
            member,
            changes: &changes,
            options,
            folder: &folder,
            objects: &mut objects,
            journal: &mut journal,
            servers,
        };
        if member.is_read_only {
            return Err(part.cannot(READ_ONLY));
        }
        if let Some(branch) = &options.new_branch {
            part.check_branch(branch, &mut repositories)?;
        }
        part.check_lengths()?;
        let (preview, part_conflicts) = match &member.base {
            Base::Git(_) => part.git()?,
            Base::Directory | Base::File => part.tree()?,
            Base::Sqlite { .. } => part.sqlite()?,
            Base::Postgres => part.postgres()?,
        };
        conflicts.extend(part_conflicts);
        conflicts.extend(overlap::with_earlier(member, &preview, &mut places));
        previews.push(preview);
    }
    if !conflicts.is_empty() {
        return Err(Error::Conflicts(conflicts));
    }
    objects.sync().during("writing", objects_folder)?;
    Ok(ApplyPlan { previews, journal })
}

/// A member of a sandbox while its apply is planned.
struct Part<'a> {
    id: &'a str,
    member: &'a Member,
    changes: &'a [Change],
    options: &'a ApplyOptions,
    folder: &'a Path,
    objects: &'a mut Objects,
    journal: &'a mut Journal,
    servers: &'a dyn Servers,
}

type PlannedPart = (MemberPreview, Vec<Conflict>);

impl Part<'_> {
    fn stage_name(&self) -> String {
        stage_name(self.id)
    }

    fn preview(&self, files: &tree::TreeChanges, left_out: Vec<TreePath>) -> MemberPreview {
        let mut files_changed: Vec<PathChange> = files
            .iter()
            .filter_map(|(path, before, after)| {
                Some(PathChange {
                    path: path.clone(),
                    operation: Operation::between(*before, *after)?.as_str(),
                })
            })
            .collect();
        files_changed.sort_by(|left, right| left.path.cmp(&right.path));
        MemberPreview {
            alias: self.member.alias.clone(),
            location: self.member.location.display().to_string(),
            files: files_changed,
            commit: None,
            database: false,
            statements: Vec::new(),
            left_out,
        }
    }

    fn tree(&mut self) -> Result<PlannedPart, Error> {
        let root = self.member.real_root()?;
        let (left_out, changes): (Vec<&Change>, Vec<&Change>) = self
            .changes
            .iter()
            .partition(|change| is_protected(&change.path));
        let (mut files, conflicts) =
            tree::plan_tree(&self.member.alias, &root, &changes, &[], self.objects)?;
        Steps::add_missing_parents(&root, &mut files).during("reading", root.path())?;
        let preview = self.preview(
            &files,
            left_out
                .into_iter()
                .map(|change| change.path.clone())
                .collect(),
        );
        self.journal
            .add_steps(Steps::new(root.path(), &self.stage_name(), files));
        Ok((preview, conflicts))
    }

    fn git(&mut self) -> Result<PlannedPart, Error> {
        let Base::Git(base) = &self.member.base else {
            return Err(Error::Damaged("the part is not a repository".to_owned()));
        };
        let checkout = open_checkout(&self.member.location)?;
        let new_branch = if let Some(name) = &self.options.new_branch {
            Some(checkout.new_branch_reference(name)?)
        } else {
            checkout.check_idle()?;
            None
        };
        let has_files = !checkout.is_bare && new_branch.is_none();
        checkout.check_readable()?;
        checkout.check_base(base)?;
        let result = plan_result(&GitRequest {
            alias: &self.member.alias,
            checkout: &checkout,
            base,
            work_tree: &self.member.root,
            changes: self.changes,
            content: self.objects,
            scratch: self.folder,
            landing: self.options.landing,
            message: &self.options.message,
            new_branch: new_branch.as_deref(),
        })?;
        let mut conflicts = conflict::unmerged(&self.member.alias, &result);
        let mut files = Vec::new();
        if conflicts.is_empty() && has_files {
            let alias = &self.member.alias;
            let (planned, found) = repository::plan_files(
                alias,
                &result,
                &checkout,
                self.changes,
                self.objects,
                self.folder,
            )?;
            files = planned;
            conflicts = found;
            let root = self.member.real_root()?;
            let covered: HashSet<&TreePath> = result
                .ignored
                .iter()
                .chain(result.updates.iter().map(|update| &update.path))
                .collect();
            // Changes that git does not record: folders, and permissions except the execute bit.
            let mut unrecorded: Vec<&Change> = self
                .changes
                .iter()
                .filter(|change| !covered.contains(&change.path))
                .filter(|change| !change.path.names().any(|name| name == b".git"))
                .collect();
            if result.old != base.commit {
                let mut still_there = Vec::new();
                for change in unrecorded {
                    if !was_moved_by_user(&root, change).during("reading", root.path())? {
                        still_there.push(change);
                    }
                }
                unrecorded = still_there;
            }
            let cleared: Vec<TreePath> = files
                .iter()
                .filter(|(_, _, after)| {
                    after.is_none_or(|after| after.kind() == FileKind::Directory)
                })
                .map(|(path, _, _)| path.clone())
                .collect();
            let (more, found) = tree::plan_tree(alias, &root, &unrecorded, &cleared, self.objects)?;
            files.extend(more);
            conflicts.extend(found);
            Steps::add_missing_parents(&root, &mut files).during("reading", root.path())?;
        }
        let mut preview = self.preview(&files, result.ignored.clone());
        if let Some(new) = &result.new {
            preview.commit = Some(CommitPreview {
                branch: result.branch.clone(),
                old: result.old.clone(),
                new: (!self.options.is_preview).then(|| new.clone()),
                is_merge: result.is_merge,
                branch_moved: result.old != base.commit,
                is_new_branch: new_branch.is_some(),
            });
            if !has_files {
                preview.files = committed_paths(&result);
            }
            if conflicts.is_empty() && !self.options.is_preview {
                let log = format!("cleveragents: apply sandbox {}", self.id);
                let change = match &new_branch {
                    Some(reference) => RefChange::create(&result, new, &checkout, reference, &log),
                    None => RefChange::plan(&result, new, &checkout, self.folder, &log)?,
                };
                self.journal.add_reference(change);
            }
        }
        self.journal
            .add_steps(Steps::new(&self.member.location, &self.stage_name(), files));
        Ok((preview, conflicts))
    }

    fn sqlite(&mut self) -> Result<PlannedPart, Error> {
        let Base::Sqlite { digest } = &self.member.base else {
            return Err(Error::Damaged("the part is not a database".to_owned()));
        };
        let work = self.captured_database()?;
        let mut preview = self.preview(&Vec::new(), Vec::new());
        preview.database = true;
        let temporary = self.folder.to_owned();
        let is_untouched = self.member.location.is_file()
            && database::digest(&self.member.location, &temporary)?.to_string() == *digest;
        if !is_untouched {
            let change = self.changes.first();
            let conflict = change.map(|change| Conflict {
                alias: self.member.alias.clone(),
                path: change.path.clone(),
                reason: conflict::reason::DATABASE.to_owned(),
                base: None,
                yours: None,
                sandbox: None,
            });
            return Ok((preview, conflict.into_iter().collect()));
        }
        let change = DatabaseChange::plan(&self.member.location, &work, self.folder, &temporary)?;
        self.journal.add_database(change);
        Ok((preview, Vec::new()))
    }

    /// Writes the captured database into the scratch folder.
    fn captured_database(&self) -> Result<PathBuf, Error> {
        let state = self.changes.iter().find_map(|change| change.after);
        let Some(state) = state.filter(|state| state.kind() == FileKind::File) else {
            return Err(self.cannot("the database is not a file any more"));
        };
        let place = self.folder.join("sandbox.db");
        let lost = || {
            let paths = self.changes.iter().map(|change| change.path.clone());
            Error::ContentLost(paths.collect())
        };
        let object = self.objects.open_object(state.hash);
        let mut content = object.during("reading", &place)?.ok_or_else(lost)?;
        let mut file = std::fs::File::create_new(&place).during("writing", &place)?;
        match io::copy(&mut content, &mut file) {
            Err(_) if !self.objects.is_sound(state.hash) => Err(lost()),
            copied => copied.map(|_| place.clone()).during("writing", &place),
        }
    }

    /// Refuses parts whose changes git cannot commit on a new branch. `repositories` has the earlier parts by their
    /// repository.
    fn check_branch(
        &self,
        branch: &str,
        repositories: &mut HashMap<PathBuf, String>,
    ) -> Result<(), Error> {
        let alias = &self.member.alias;
        let refused = |reason: String, hint: &str| Error::BranchRefused {
            branch: branch.to_owned(),
            reason,
            hint: Some(hint.into()),
        };
        if !matches!(self.member.base, Base::Git(_)) {
            let place = self.member.location.display();
            return Err(refused(
                format!("part `{alias}` (`{place}`) is not a git repository"),
                "apply without a branch, or undo the changes of this part first",
            ));
        }
        let repository = open_checkout(&self.member.location)?.common_dir;
        match repositories.insert(repository, alias.clone()) {
            Some(other) => Err(refused(
                format!("parts `{other}` and `{alias}` are worktrees of the same repository"),
                "apply without a branch",
            )),
            None => Ok(()),
        }
    }

    /// Refuses paths that are too long to open.
    fn check_lengths(&self) -> Result<(), Error> {
        let too_long: Vec<_> = self
            .changes
            .iter()
            .filter(|change| change.after.is_some())
            .filter(|change| change.path.as_bytes().len() > MAX_PATH_BYTES)
            .map(|change| {
                let reason = format!("the path has more than {MAX_PATH_BYTES} bytes");
                (change.path.clone(), reason)
            })
            .collect();
        if too_long.is_empty() {
            return Ok(());
        }
        Err(Error::CannotApply {
            alias: self.member.alias.clone(),
            problems: too_long,
        })
    }

    fn cannot(&self, reason: &str) -> Error {
        let paths = self.changes.iter().map(|change| change.path.clone());
        Error::CannotApply {
            alias: self.member.alias.clone(),
            problems: paths.map(|path| (path, reason.to_owned())).collect(),
        }
    }
}

impl ApplyPlan {
    /// Executes the plan. After a failure, the real resources are unchanged unless the error states otherwise.
    pub fn execute(
        mut self,
        journal: &Path,
        servers: &dyn Servers,
    ) -> Result<Vec<MemberPreview>, Error> {
        self.journal.execute(journal, servers)?;
        if let Some((alias, done)) = self.journal.statements_done() {
            let mut previews = self.previews.iter_mut();
            if let Some(preview) = previews.find(|preview| preview.alias == *alias) {
                preview.statements = done.to_vec();
            }
        }
        Ok(self.previews)
    }

    /// Number of changed paths in all members.
    pub fn path_count(&self) -> usize {
        self.previews
            .iter()
            .map(|preview| preview.files.len())
            .sum()
    }
}

/// Removes set-user-id, set-group-id and sticky bits that the sandbox added. If the content changes, removes all of
/// these bits, because a write clears them. Returns `None` if nothing else changed. A diff cannot show these bits, so
/// the user cannot have approved them.
fn without_new_bits(change: &Change) -> Option<Change> {
    let mut reduced = change.clone();
    if let Some(after) = &mut reduced.after {
        let same = change
            .before
            .filter(|before| before.kind() == after.kind() && before.same_content(after));
        after.mode = match same {
            Some(before) => after.mode.with_special_bits_of(before.mode),
            None => after.mode.without_special_bits(),
        };
    }
    (reduced.before != reduced.after).then_some(reduced)
}

/// Whether a file or link that the sandbox changed does not exist in the real tree any more. If git's merge succeeds
/// but contains no update for such a path, it has applied the change under the name to which the user moved the file.
fn was_moved_by_user(root: &Root, change: &Change) -> io::Result<bool> {
    let is_no_folder = |state: FileState| state.kind() != FileKind::Directory;
    let was_file = change.before.is_some_and(is_no_folder);
    let is_file = change.after.is_none_or(is_no_folder);
    Ok(was_file && is_file && root.stat(&change.path)?.is_none())
}

/// Name of the folder next to the real files in which the files of a sandbox are staged.
pub(crate) fn stage_name(id: &str) -> String {
    format!(".cleveragents-apply-{}", id.to_ascii_lowercase())
}

pub fn journal_place(state: &Path) -> PathBuf {
    state.join("apply.json")
}
