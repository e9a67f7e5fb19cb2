//! Computes the changes of a worktree as a commit, an index and files for the user's repository, without changing the
//! repository.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileKind, FileState, TreePath};
use serde::{Deserialize, Serialize};

use super::program::Git;
use super::staging;
use super::updates::{Update, updates};
use super::worktree::{Checkout, GitBase};
use super::{joined, records};
use crate::capture::Change;
use crate::error::{Error, PathContext as _};
use crate::objects::Objects;

/// Form of the result on the user's branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BranchUpdate {
    /// One commit on top of the branch.
    #[default]
    Commit,
    /// A merge of the sandbox's commit into the branch.
    Merge,
}

/// A blob in a tree or index, with git's mode and object name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Blob {
    pub(crate) mode: String,
    pub(crate) oid: String,
}

impl Blob {
    pub(super) fn new(mode: &str, oid: &str) -> Option<Self> {
        (mode != "000000").then(|| Self {
            mode: mode.to_owned(),
            oid: oid.to_owned(),
        })
    }
}

/// A path with a merge conflict, with its three sides.
#[derive(Debug, Clone)]
pub(crate) struct UnmergedPath {
    pub(crate) path: TreePath,
    /// Base, ours (the user's) and theirs (the sandbox's).
    pub(crate) sides: [Option<Blob>; 3],
}

/// The result for one repository.
#[derive(Debug)]
pub(crate) struct GitPlan {
    /// The commit on which the result is based: the user's current one, or the start of a new branch.
    pub(crate) old: String,
    pub(crate) branch: Option<String>,
    /// The new commit; `None` if git sees no change.
    pub(crate) new: Option<String>,
    pub(crate) is_merge: bool,
    pub(crate) updates: Vec<Update>,
    pub(crate) unmerged: Vec<UnmergedPath>,
    /// Whether the conflicts in `unmerged` are conflicts with uncommitted edits that the sandbox started with.
    pub(crate) meets_edits: bool,
    /// Changed paths that git ignores; they are not applied.
    pub(crate) ignored: Vec<TreePath>,
    /// Index of the new commit, from which git checks out files with its conversions, such as line endings.
    pub(crate) result_index: PathBuf,
    /// Folder with the new objects, which are not in the user's repository yet.
    pub(crate) objects: PathBuf,
    /// Whether packs contain all new objects, so that only packs are copied.
    pub(crate) is_packed: bool,
    pub(crate) git: Git,
}

/// Input of [`plan_result`].
pub(crate) struct GitRequest<'a> {
    pub(crate) alias: &'a str,
    pub(crate) checkout: &'a Checkout,
    pub(crate) base: &'a GitBase,
    /// The sandbox's files.
    pub(crate) work_tree: &'a Path,
    pub(crate) changes: &'a [Change],
    /// Store with the content of the changes.
    pub(crate) content: &'a Objects,
    /// An empty folder for indexes and new objects.
    pub(crate) scratch: &'a Path,
    pub(crate) landing: BranchUpdate,
    pub(crate) message: &'a str,
    /// Reference of the new branch that receives the commit. It starts at the base commit, and the user's branch,
    /// index and files play no role.
    pub(crate) new_branch: Option<&'a str>,
}

/// Computes the result. Only reads the user's repository.
pub(crate) fn plan_result(request: &GitRequest<'_>) -> Result<GitPlan, Error> {
    let checkout = request.checkout;
    let scratch_index = request.scratch.join("sandbox.index");
    let git = checkout.scratch(&scratch_index, request.work_tree);
    // The user's repository receives the new objects only after all checks of the apply have passed.
    let objects = request.scratch.join("objects");
    std::fs::create_dir_all(&objects).during("making", &objects)?;
    let user_objects = checkout.common_dir.join("objects");
    let git = git.with("GIT_OBJECT_DIRECTORY", &objects).with(
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        super::object_folder(&user_objects),
    );
    let git = with_identity(git)?;
    // The index is filled from the commit, not copied from the worktree: with the file times of the worktree's index,
    // git would treat a file as unchanged if its time was set back within the same second.
    git.run(&["read-tree", request.base.start()])?;
    let head = match request.new_branch {
        Some(reference) => GitBase {
            commit: request.base.commit.clone(),
            branch: Some(reference.to_owned()),
            ..GitBase::default()
        },
        None => checkout.head()?,
    };
    check_submodules(request, &git)?;
    let (paths, ignored) = tracked_paths(request, &git)?;
    let mut plan = GitPlan {
        old: head.commit.clone(),
        branch: head.branch,
        new: None,
        is_merge: false,
        updates: Vec::new(),
        unmerged: Vec::new(),
        meets_edits: false,
        ignored,
        result_index: request.scratch.join("result.index"),
        objects,
        is_packed: false,
        git,
    };
    if paths.is_empty() {
        return Ok(plan);
    }
    staging::stage(request, &plan.git, &paths, &plan.objects)?;
    let tree = plan.git.line(&["write-tree"])?;
    let start_tree = plan
        .git
        .line(&["rev-parse", &format!("{}^{{tree}}", request.base.start())])?;
    if tree == start_tree {
        return Ok(plan);
    }
    let committed = match &request.base.snapshot {
        None => commit_result(&plan.git, request, &head.commit, &tree)?.map(Some),
        Some(snapshot) => {
            plan.meets_edits = true;
            commit_without_edits(&plan.git, request, snapshot, &head.commit, &tree)?
        }
    };
    let new = match committed {
        Ok(Some(commit)) => commit,
        Ok(None) => return Ok(plan),
        Err(unmerged) => {
            plan.unmerged = unmerged;
            return Ok(plan);
        }
    };
    plan.is_merge = request.landing == BranchUpdate::Merge;
    plan.updates = updates(&plan, request, &new, &tree)?;
    pack_objects(&mut plan)?;
    let result = plan.git.with("GIT_INDEX_FILE", &plan.result_index);
    result.run(&["read-tree", &new])?;
    plan.new = Some(new);
    Ok(plan)
}

/// Creates a commit and returns its name.
fn commit(git: &Git, tree: &str, parents: &[&str], message: &str) -> Result<String, Error> {
    let mut arguments = vec!["commit-tree", tree];
    for parent in parents {
        arguments.extend(["-p", parent]);
    }
    arguments.extend(["-m", message]);
    git.line(&arguments)
}

/// Commits the sandbox's changes on top of the user's branch. Merges them if the branch has moved.
fn commit_result(
    git: &Git,
    request: &GitRequest<'_>,
    head: &str,
    tree: &str,
) -> Result<Result<String, Vec<UnmergedPath>>, Error> {
    let base = request.base.commit.as_str();
    let work = commit(git, tree, &[base], request.message)?;
    let merged_tree = if head == base {
        tree.to_owned()
    } else {
        let ours = match request.landing {
            BranchUpdate::Merge => head.to_owned(),
            // The sandbox's commit has the base commit as its parent. The branch's files are put into a commit on the
            // same base, so that the merge starts from there.
            BranchUpdate::Commit => {
                let tree = format!("{head}^{{tree}}");
                commit(git, &tree, &[base], "the branch as it is")?
            }
        };
        match merge(git, &ours, &work)? {
            Ok(tree) => tree,
            Err(unmerged) => return Ok(Err(unmerged)),
        }
    };
    Ok(Ok(match request.landing {
        BranchUpdate::Commit if head == base => work,
        BranchUpdate::Commit => commit(git, &merged_tree, &[head], request.message)?,
        BranchUpdate::Merge => commit(git, &merged_tree, &[head, &work], request.message)?,
    }))
}

/// As [`commit_result`], for a sandbox that started with uncommitted edits: commits its changes without the edits.
/// Changes at the same place as an edit conflict with it, unless the branch contains the edit by now. `None` if no
/// change remains.
fn commit_without_edits(
    git: &Git,
    request: &GitRequest<'_>,
    snapshot: &str,
    head: &str,
    tree: &str,
) -> Result<Result<Option<String>, Vec<UnmergedPath>>, Error> {
    let on_snapshot = |tree: &str| commit(git, tree, &[snapshot], "sandbox");
    let sandbox = on_snapshot(tree)?;
    let head_tree = format!("{head}^{{tree}}");
    let merged_tree = match merge(git, &on_snapshot(&head_tree)?, &sandbox)? {
        Ok(merged) => merged,
        Err(mut unmerged) => {
            for path in &mut unmerged {
                // In this merge, the base is the user's edit and the first side is the branch's commit. A conflict
                // lists them the other way round.
                path.sides.swap(0, 1);
            }
            return Ok(Err(unmerged));
        }
    };
    if merged_tree == git.line(&["rev-parse", &head_tree])? {
        return Ok(Ok(None));
    }
    Ok(Ok(Some(match request.landing {
        BranchUpdate::Commit => commit(git, &merged_tree, &[head], request.message)?,
        BranchUpdate::Merge => {
            let base = request.base.commit.as_str();
            let base_tree = format!("{base}^{{tree}}");
            // If this merge conflicts, the branch contains the edits by now, so the sandbox's commit may contain them
            // too.
            let work_tree = merge(git, &on_snapshot(&base_tree)?, &sandbox)?;
            let work_tree = work_tree.unwrap_or_else(|_| tree.to_owned());
            let work = commit(git, &work_tree, &[base], request.message)?;
            commit(git, &merged_tree, &[head, &work], request.message)?
        }
    })))
}

/// Maximum number of new objects that are copied to the user's repository as loose objects. More are copied as a pack.
pub(super) const MAX_LOOSE_OBJECTS: usize = 256;

/// Packs the new objects if there are many: copying and syncing one file is faster than thousands, and the user's
/// repository stays fast. Does not remove the loose objects, because some file systems create files slowly for a minute
/// after removals.
fn pack_objects(plan: &mut GitPlan) -> Result<(), Error> {
    let names = loose_objects(&plan.objects).during("reading", &plan.objects)?;
    if names.len() <= MAX_LOOSE_OBJECTS {
        return Ok(());
    }
    let packs = plan.objects.join("pack");
    std::fs::create_dir_all(&packs).during("making", &packs)?;
    let base = packs.join("pack");
    let arguments: [&OsStr; 4] = [
        "pack-objects".as_ref(),
        "--quiet".as_ref(),
        "--window=0".as_ref(),
        base.as_ref(),
    ];
    plan.git
        .run_with(&arguments, (names.join("\n") + "\n").as_bytes())?;
    plan.is_packed = true;
    Ok(())
}

/// The names of the loose objects.
fn loose_objects(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(start) = entry.file_name().into_string() else {
            continue;
        };
        if start.len() != 2 {
            continue;
        }
        for object in std::fs::read_dir(entry.path())? {
            let rest = object?.file_name();
            names.push(format!("{start}{}", rest.to_string_lossy()));
        }
    }
    Ok(names)
}

pub(super) fn is_content(state: &FileState) -> bool {
    state.kind() != FileKind::Directory
}

/// The line of `--index-info` that removes a path. `commit` only provides the length of object names.
fn removal(path: &TreePath, commit: &str) -> Vec<u8> {
    let mut line = format!("0 {}\t", "0".repeat(commit.len())).into_bytes();
    line.extend_from_slice(path.as_bytes());
    line.push(0);
    line
}

/// The line of `--index-info` that sets the blob of a path.
pub(super) fn entry(path: &TreePath, blob: &Blob) -> Vec<u8> {
    let mut line = format!("{} {}\t", blob.mode, blob.oid).into_bytes();
    line.extend_from_slice(path.as_bytes());
    line.push(0);
    line
}

pub(super) fn refuse(
    request: &GitRequest<'_>,
    problems: Vec<(TreePath, String)>,
) -> Result<(), Error> {
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Error::CannotApply {
            alias: request.alias.to_owned(),
            problems,
        })
    }
}

pub(super) fn succeed(
    answer: super::program::GitOutput,
    arguments: &[&str],
) -> Result<Vec<u8>, Error> {
    if answer.code == Some(0) {
        Ok(answer.stdout)
    } else {
        Err(answer.failure(arguments))
    }
}

/// Sets a default identity for commits if the user has configured none.
pub(super) fn with_identity(git: Git) -> Result<Git, Error> {
    if git.try_run(&["var", "GIT_COMMITTER_IDENT"])?.code == Some(0) {
        return Ok(git);
    }
    Ok(git
        .set("user.name=CleverAgents")
        .set("user.email=agents@localhost"))
}

/// Splits the changed paths into those that git tracks and those that it ignores.
fn tracked_paths(
    request: &GitRequest<'_>,
    git: &Git,
) -> Result<(Vec<TreePath>, Vec<TreePath>), Error> {
    if request.changes.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    // Only new paths are checked. Paths of the commit are never ignored, and git refuses those below a folder that
    // became a link.
    let arguments = ["check-ignore", "-z", "--stdin"];
    let new = request
        .changes
        .iter()
        .filter(|change| change.before.is_none());
    let input = joined(new.map(|change| &change.path));
    let answer = git.start_in(request.work_tree, &arguments, &input)?;
    if !matches!(answer.code, Some(0 | 1)) {
        return Err(answer.failure(&arguments));
    }
    let ignored: HashSet<TreePath> = records(&answer.stdout)
        .filter_map(|path| TreePath::from_bytes(path).ok())
        .collect();
    let paths = request
        .changes
        .iter()
        .filter(|change| change.before.iter().chain(&change.after).any(is_content))
        .map(|change| change.path.clone())
        .filter(|path| !ignored.contains(path))
        .collect();
    let mut ignored: Vec<TreePath> = ignored.into_iter().collect();
    ignored.sort();
    Ok((paths, ignored))
}

/// Refuses changes to submodules and to files in them.
fn check_submodules(request: &GitRequest<'_>, git: &Git) -> Result<(), Error> {
    let staged = git.run(&["ls-files", "-z", "--stage"])?;
    let submodules: Vec<TreePath> = records(&staged)
        .filter(|record| record.starts_with(b"160000 "))
        .filter_map(|record| {
            let at = record.iter().position(|byte| *byte == b'\t')?;
            TreePath::from_bytes(&record[at + 1..]).ok()
        })
        .collect();
    let mut problems = Vec::new();
    for path in request.changes.iter().map(|change| &change.path) {
        if let Some(module) = submodules.iter().find(|module| path.is_within(module)) {
            let reason = if path == module {
                "it is a submodule".to_owned()
            } else {
                format!("it is in the submodule `{module}`")
            };
            problems.push((path.clone(), reason));
        }
    }
    refuse(request, problems)
}

/// Merges two commits without a work tree.
fn merge(git: &Git, ours: &str, theirs: &str) -> Result<Result<String, Vec<UnmergedPath>>, Error> {
    let arguments = [
        "merge-tree",
        "--write-tree",
        "-z",
        "--no-messages",
        ours,
        theirs,
    ];
    let answer = git.try_run(&arguments)?;
    let mut printed = records(&answer.stdout);
    let tree = String::from_utf8_lossy(printed.next().unwrap_or_default()).into_owned();
    match answer.code {
        Some(0) => Ok(Ok(tree)),
        Some(1) => {
            let mut conflicts: BTreeMap<TreePath, [Option<Blob>; 3]> = BTreeMap::new();
            for record in printed {
                if let Some((path, stage, blob)) = staged(record)
                    && (1..=3).contains(&stage)
                {
                    conflicts.entry(path).or_default()[stage - 1] = Some(blob);
                }
            }
            Ok(Err(conflicts
                .into_iter()
                .map(|(path, sides)| UnmergedPath { path, sides })
                .collect()))
        }
        _ => Err(answer.failure(&arguments)),
    }
}

/// Parses `MODE OID STAGE\tPATH`.
pub(super) fn staged(record: &[u8]) -> Option<(TreePath, usize, Blob)> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let words = std::str::from_utf8(&record[..tab]).ok()?;
    let [mode, oid, stage] = words.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let path = TreePath::from_bytes(&record[tab + 1..]).ok()?;
    Some((path, stage.parse().ok()?, Blob::new(mode, oid)?))
}

impl GitPlan {
    /// Writes the user's new index, based on the current one.
    pub(crate) fn write_index(&self, checkout: &Checkout, place: &Path) -> Result<(), Error> {
        std::fs::copy(&checkout.index, place).during("copying", &checkout.index)?;
        let mut input = Vec::new();
        let (removed, changed): (Vec<&Update>, Vec<&Update>) = self
            .updates
            .iter()
            .partition(|update| update.new_index().is_none());
        for update in removed {
            input.extend_from_slice(&removal(&update.path, &self.old));
        }
        for update in &changed {
            if let Some(blob) = update.new_index() {
                input.extend(entry(&update.path, blob));
            }
        }
        let git = self
            .git
            .with("GIT_INDEX_FILE", place)
            .with("GIT_WORK_TREE", &checkout.location);
        git.run_with(
            &["update-index", "--add", "--replace", "-z", "--index-info"],
            &input,
        )?;
        let sparse: Vec<&TreePath> = changed
            .iter()
            .filter(|update| update.is_sparse)
            .map(|update| &update.path)
            .collect();
        if !sparse.is_empty() {
            git.run_with(
                &["update-index", "--skip-worktree", "-z", "--stdin"],
                &joined(sparse),
            )?;
        }
        Ok(())
    }

    /// Content of a blob, without conversions.
    pub(crate) fn blob(&self, blob: &Blob) -> Result<Vec<u8>, Error> {
        self.git.run(&["cat-file", "blob", &blob.oid])
    }

    /// Content of a blob with the conversions of a checkout at a path of the user's folder.
    pub(super) fn checked_out_blob(
        &self,
        location: &Path,
        path: &TreePath,
        blob: &Blob,
    ) -> Result<Vec<u8>, Error> {
        let mut place = OsString::from("--path=");
        place.push(path.as_path());
        let arguments = [
            OsStr::new("cat-file"),
            OsStr::new("--filters"),
            &place,
            OsStr::new(&blob.oid),
        ];
        self.git
            .with("GIT_WORK_TREE", location)
            .moved_to(location)
            .run(&arguments)
    }

    /// Writes paths of the new commit into a folder, with the conversions of a checkout.
    pub(crate) fn check_out(&self, folder: &Path, paths: &[TreePath]) -> Result<(), Error> {
        let git = self
            .git
            .with("GIT_INDEX_FILE", &self.result_index)
            .with("GIT_WORK_TREE", folder);
        let arguments = ["checkout-index", "-z", "--stdin", "--force"];
        succeed(
            git.start_in(folder, &arguments, &joined(paths))?,
            &arguments,
        )?;
        Ok(())
    }
}
