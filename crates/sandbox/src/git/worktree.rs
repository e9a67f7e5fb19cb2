//! The worktree of a sandbox: creates it from a commit of the user's repository, and removes it without a trace.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::{FileMode, Hint, TreePath, hint};
use serde::{Deserialize, Serialize};

use super::blocking_files::check_repository_files;
use super::program::{Git, check_version};
use crate::dependencies::DependencyFolder;
use crate::error::{Error, PathContext as _};
use crate::scan::{Extent, Names, Visitor, child_path, walk};
use crate::scoped_dir::{Root, path_of};

/// The user's repository in its current state.
#[derive(Debug, Clone)]
pub(crate) struct Checkout {
    /// Git, started in the repository.
    pub(crate) git: Git,
    /// The folder of the user's files; the repository itself if it is bare.
    pub(crate) location: PathBuf,
    pub(crate) is_bare: bool,
    /// The checkout's own git folder, which differs from `common_dir` in a linked worktree.
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
    pub(crate) index: PathBuf,
    /// Hash of object names: `sha1` or `sha256`.
    pub(super) object_format: String,
}

/// Starting point of a worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitBase {
    /// Object name (hash) of the commit.
    pub commit: String,
    /// The checked-out branch; `None` for a detached head.
    pub branch: Option<String>,
    /// A commit on top of `commit` with the user's uncommitted edits; `None` without edits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Uncommitted files that the worktree lacks, because they are too large, unmerged, nested repositories, or stored
    /// by a filter command. At most 100 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Dependency folders, such as `node_modules`, that the worktree contains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<DependencyFolder>,
    /// Files and folders that git ignores and the worktree lacks; folders end with `/`. At most 100 are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

impl GitBase {
    /// The commit with the initial files of the sandbox's worktree.
    pub fn start(&self) -> &str {
        self.snapshot.as_deref().unwrap_or(&self.commit)
    }
}

/// Opens the repository whose root is `location`.
pub(crate) fn open_checkout(location: &Path) -> Result<Checkout, Error> {
    if !location.is_dir() {
        let place = location.display();
        return Err(Error::Damaged(format!(
            "the repository `{place}` does not exist any more"
        )));
    }
    check_version()?;
    check_repository_files(location)?;
    let git = Git::at(location);
    let refused = |reason: &str, hint: Option<&str>| Error::CannotSandbox {
        what: format!("`{}`", location.display()),
        reason: reason.to_owned(),
        hint: hint.map(Hint::from),
    };
    let answer = git.try_run(&[
        "rev-parse",
        "--path-format=absolute",
        "--is-bare-repository",
        "--is-inside-work-tree",
        "--show-prefix",
        "--git-dir",
        "--git-common-dir",
        "--git-path",
        "index",
        "--show-object-format",
    ])?;
    if answer.code != Some(0) {
        let reason = answer.failure(&["rev-parse"]).to_string();
        let hint = if reason.contains("dubious ownership") {
            "if you trust it, run the command that git names"
        } else {
            "name the folder of a git repository"
        };
        return Err(refused(&reason, Some(hint)));
    }
    let lines: Vec<&[u8]> = answer.stdout.split(|byte| *byte == b'\n').collect();
    let [
        bare,
        inside,
        prefix,
        git_dir,
        common_dir,
        index,
        format,
        b"",
    ] = lines[..]
    else {
        return Err(refused(
            "its path contains a line break",
            Some("rename its folder"),
        ));
    };
    let git_dir = path_of(git_dir.to_vec());
    let is_bare = bare == b"true";
    let is_root = if is_bare {
        git_dir == location
    } else {
        inside == b"true" && prefix.is_empty()
    };
    if !is_root {
        // Git found a repository in a parent folder, or the repository has its files in another folder.
        return Err(refused(
            "it is neither the top folder of a checkout nor a bare repository",
            Some("name the top folder of the checkout, or the folder of a bare repository"),
        ));
    }
    Ok(Checkout {
        git_dir,
        common_dir: path_of(common_dir.to_vec()),
        index: path_of(index.to_vec()),
        object_format: String::from_utf8_lossy(format).into_owned(),
        git: git.with_commands_disabled()?,
        location: location.to_owned(),
        is_bare,
    })
}

impl Checkout {
    /// The commit at the head and its branch.
    pub(crate) fn head(&self) -> Result<GitBase, Error> {
        let commit = self
            .git
            .try_run(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        if commit.code != Some(0) {
            return Err(Error::CannotSandbox {
                what: format!("`{}`", self.location.display()),
                reason: "the repository has no commit yet".to_owned(),
                hint: Some("make a first commit: `git add -A && git commit`".into()),
            });
        }
        let branch = self.git.try_run(&["symbolic-ref", "--quiet", "HEAD"])?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Ok(GitBase {
            commit: text(&commit.stdout),
            branch: (branch.code == Some(0)).then(|| text(&branch.stdout)),
            ..GitBase::default()
        })
    }

    /// Length of an object name in bytes.
    pub(crate) fn object_name_length(&self) -> u8 {
        if self.object_format == "sha256" {
            32
        } else {
            20
        }
    }

    /// Fails if the start commit of a sandbox does not exist any more.
    pub(crate) fn check_base(&self, base: &GitBase) -> Result<(), Error> {
        let name = format!("{}^{{commit}}", base.start());
        if self.git.try_run(&["cat-file", "-e", &name])?.code == Some(0) {
            return Ok(());
        }
        Err(Error::Damaged(format!(
            "the commit {} that it started from does not exist any more in `{}`",
            base.commit,
            self.location.display()
        )))
    }

    /// Git with a separate index and the files of a sandbox.
    pub(crate) fn scratch(&self, index: &Path, work_tree: &Path) -> Git {
        self.git
            .with("GIT_DIR", &self.git_dir)
            .with("GIT_COMMON_DIR", &self.common_dir)
            .with("GIT_INDEX_FILE", index)
            .with("GIT_WORK_TREE", work_tree)
    }

    /// Refuses a checkout with a pipe, socket or device under a name that git opens, because git would block forever.
    /// Skips unreadable folders, as git does.
    pub(crate) fn check_readable(&self) -> Result<(), Error> {
        if self.is_bare {
            return Ok(());
        }
        let root = Root::open(&self.location).during("opening", &self.location)?;
        let extent = Extent {
            only: None,
            without: Some(b".git"),
        };
        let found = walk(&root, extent, BlockingFiles::default).unwrap_or_default();
        let Some(path) = found.into_iter().flat_map(|visitor| visitor.0).min() else {
            return Ok(());
        };
        Err(Error::CannotSandbox {
            what: format!("`{}`", self.location.display()),
            reason: format!("`{path}` is a pipe, socket or device, and git would wait for it"),
            hint: Some(hint!("remove it: `rm {}`", path)),
        })
    }

    /// The reference of a branch that can be created. Fails if the name is invalid or taken.
    pub(crate) fn new_branch_reference(&self, name: &str) -> Result<String, Error> {
        let reference = format!("refs/heads/{name}");
        let refused = |reason: String, hint: Hint| Error::BranchRefused {
            branch: name.to_owned(),
            reason,
            hint: Some(hint),
        };
        let place = self.location.display();
        let check = ["check-ref-format", reference.as_str()];
        let is_valid = !name.starts_with('-')
            && name != "HEAD"
            && !name.contains('\0')
            && self.git.try_run(&check)?.code == Some(0);
        if !is_valid {
            let reason = "git does not accept it as the name of a branch".to_owned();
            let hint = "use letters, digits, `-`, `.` and `/`, for example `fix/parser`".into();
            return Err(refused(reason, hint));
        }
        let below = format!("{reference}/");
        let listed = self
            .git
            .run(&["for-each-ref", "--format=%(refname)", &reference])?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        if listed.lines().any(|existing| existing == reference) {
            return Err(refused(
                format!("`{place}` already has a branch of this name"),
                hint!(
                    "choose another name, or delete the branch: `git branch -D {}`",
                    name
                ),
            ));
        }
        // Git stores branches as files, so `a` and `a/b` cannot both exist.
        let parents = name.match_indices('/').map(|(at, _)| &name[..at]);
        let mut in_the_way = listed.lines().find(|existing| existing.starts_with(&below));
        let parent;
        for candidate in parents {
            let full = format!("refs/heads/{candidate}");
            let verify = ["show-ref", "--verify", "--quiet", full.as_str()];
            if self.git.try_run(&verify)?.code == Some(0) {
                parent = full;
                in_the_way = Some(&parent);
                break;
            }
        }
        if let Some(existing) = in_the_way {
            let existing = existing.trim_start_matches("refs/heads/");
            return Err(refused(
                format!("`{place}` has the branch `{existing}`, so git cannot store it"),
                "choose another name".into(),
            ));
        }
        let head = self.git.try_run(&["symbolic-ref", "--quiet", "HEAD"])?;
        if String::from_utf8_lossy(&head.stdout).trim() == reference {
            return Err(refused(
                format!("it is the current branch of `{place}`, which has no commit yet"),
                "choose another name".into(),
            ));
        }
        Ok(reference)
    }

    /// Fails while a merge, rebase or similar operation of the user is unfinished.
    pub(crate) fn check_idle(&self) -> Result<(), Error> {
        for (file, work, command) in [
            ("MERGE_HEAD", "merge", "git merge --continue"),
            (
                "CHERRY_PICK_HEAD",
                "cherry-pick",
                "git cherry-pick --continue",
            ),
            ("REVERT_HEAD", "revert", "git revert --continue"),
            ("rebase-merge", "rebase", "git rebase --continue"),
            ("rebase-apply", "rebase", "git rebase --continue"),
            ("BISECT_LOG", "bisection", "git bisect reset"),
        ] {
            if self.git_dir.join(file).exists() {
                return Err(Error::CannotSandbox {
                    what: format!("`{}`", self.location.display()),
                    reason: format!("a {work} is in progress in it"),
                    hint: Some(hint!("end it first, for example with `{}`", command)),
                });
            }
        }
        Ok(())
    }
}

/// Whether git opens files of this name in any folder.
pub(crate) fn is_read_by_git(name: &[u8]) -> bool {
    matches!(
        name,
        b".gitignore" | b".gitattributes" | b".gitmodules" | b".mailmap"
    )
}

/// Collects pipes, sockets and devices under names that git opens.
#[derive(Default)]
struct BlockingFiles(Vec<TreePath>);

impl Visitor for BlockingFiles {
    fn folder(&mut self, folder: Option<&TreePath>, names: &mut Names) -> std::io::Result<()> {
        for (name, stat) in names.sorted() {
            if stat.mode.is_none() && is_read_by_git(name) {
                self.0.push(child_path(folder, name)?);
            }
        }
        Ok(())
    }
}

/// Prefix of the program's own references.
const OWN_REFERENCES: &[u8] = b" refs/cleveragents/";

/// The reference that protects the commit of a sandbox from garbage collection.
fn base_reference(id: &str, alias: &str) -> String {
    // Dots are not allowed everywhere in a reference.
    format!(
        "refs/cleveragents/sandboxes/{}/{}",
        id.to_ascii_lowercase(),
        alias.replace('.', "%2e")
    )
}

/// Protects the start commit of a sandbox from garbage collection. Returns the user's references.
fn protect_base(
    checkout: &Checkout,
    base: &GitBase,
    id: &str,
    alias: &str,
) -> Result<Vec<u8>, Error> {
    checkout.git.set("core.logAllRefUpdates=false").run(&[
        "update-ref",
        "--no-deref",
        &base_reference(id, alias),
        base.start(),
    ])?;
    let references = checkout
        .git
        .run(&["for-each-ref", "--format=%(objectname) %(refname)"])?;
    Ok(references
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| {
            !line
                .windows(OWN_REFERENCES.len())
                .any(|part| part == OWN_REFERENCES)
        })
        .flatten()
        .copied()
        .collect())
}

/// Checks out a commit into a new folder. The folder has its own repository in `sandbox_git_dir`, which reads the
/// user's objects and starts with the user's branches and settings. Git commands therefore work in the sandbox without
/// restriction, and never affect the user's repository.
pub(crate) fn create_worktree(
    checkout: &Checkout,
    base: &GitBase,
    folder: &Path,
    sandbox_git_dir: &Path,
    id: &str,
    alias: &str,
) -> Result<(), Error> {
    let references = protect_base(checkout, base, id, alias)?;
    std::fs::create_dir(folder).during("making", folder)?;
    write_repository(checkout, base, sandbox_git_dir, &references)
        .during("writing", sandbox_git_dir)?;
    write_link(folder, sandbox_git_dir)?;
    // Reads the configuration again, because it may depend on the folder in which git runs.
    let git = Git::at(folder)
        .with_commands_disabled()?
        .set("checkout.workers=0")
        .set("checkout.thresholdForParallelism=500")
        // Version 2 does not compress paths, so that single entries can be looked up.
        .set("index.version=2");
    match &base.snapshot {
        None => git.run(&["reset", "--hard", "--quiet", "--no-recurse-submodules"])?,
        Some(snapshot) => git.run(&[
            "read-tree",
            "--reset",
            "-u",
            "--no-recurse-submodules",
            snapshot,
        ])?,
    };
    Ok(())
}

/// Creates the repository of a worktree whose files are copied from the worktree of another sandbox. Its index is that
/// of the user's commit.
pub(crate) fn fork_worktree(
    checkout: &Checkout,
    base: &GitBase,
    folder: &Path,
    sandbox_git_dir: &Path,
    id: &str,
    alias: &str,
) -> Result<(), Error> {
    let references = protect_base(checkout, base, id, alias)?;
    write_repository(checkout, base, sandbox_git_dir, &references)
        .during("writing", sandbox_git_dir)?;
    write_link(folder, sandbox_git_dir)?;
    let git = Git::at(folder)
        .with_commands_disabled()?
        .set("index.version=2");
    // Does not read the files; a later `git status` does.
    git.run(&["read-tree", &base.commit])?;
    Ok(())
}

/// Unstages the user's uncommitted edits in the worktree, because the index that [`create_worktree`] writes includes
/// them.
pub(crate) fn unstage_edits(folder: &Path) -> Result<(), Error> {
    let git = Git::at(folder)
        .with_commands_disabled()?
        .set("index.version=2");
    git.run(&["reset", "--mixed", "--quiet", "--no-recurse-submodules"])?;
    Ok(())
}

/// Writes a repository that has no objects of its own and refers to those of the user's repository.
fn write_repository(
    checkout: &Checkout,
    base: &GitBase,
    sandbox_git_dir: &Path,
    references: &[u8],
) -> std::io::Result<()> {
    for folder in ["objects/info", "refs/heads", "info"] {
        std::fs::create_dir_all(sandbox_git_dir.join(folder))?;
    }
    let objects = checkout.common_dir.join("objects");
    let line = [objects.as_os_str().as_bytes(), b"\n"].concat();
    std::fs::write(sandbox_git_dir.join("objects/info/alternates"), line)?;
    std::fs::write(sandbox_git_dir.join("packed-refs"), references)?;
    let head = match &base.branch {
        Some(branch) if branch.starts_with("refs/heads/") && !branch.contains('\u{fffd}') => {
            let place = sandbox_git_dir.join(branch);
            std::fs::create_dir_all(place.parent().unwrap_or(sandbox_git_dir))?;
            std::fs::write(place, format!("{}\n", base.commit))?;
            format!("ref: {branch}\n")
        }
        _ => format!("{}\n", base.commit),
    };
    std::fs::write(sandbox_git_dir.join("HEAD"), head)?;
    for (from, name) in [
        (&checkout.common_dir, "info/exclude"),
        (&checkout.common_dir, "info/attributes"),
        (&checkout.git_dir, "info/sparse-checkout"),
        (&checkout.common_dir, "shallow"),
    ] {
        match std::fs::copy(from.join(name), sandbox_git_dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let mut config = Vec::new();
    for user_config in [
        checkout.common_dir.join("config"),
        checkout.git_dir.join("config.worktree"),
    ] {
        config.extend(b"[include]\n\tpath = ");
        config.extend(quoted(user_config.as_os_str().as_bytes()));
        config.push(b'\n');
    }
    // These settings follow the user's, so they take precedence. They disable hooks and background processes.
    config.extend(
        format!(
            "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tlogallrefupdates = true\n\
             \thooksPath = /dev/null\n\tfsmonitor = false\n[extensions]\n\tobjectFormat = {}\n\
             [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
            checkout.object_format
        )
        .into_bytes(),
    );
    std::fs::write(sandbox_git_dir.join("config"), config)
}

/// A value in the syntax of git's configuration files.
pub(super) fn quoted(value: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in value {
        match byte {
            b'\n' => quoted.extend_from_slice(b"\\n"),
            b'"' | b'\\' => quoted.extend_from_slice(&[b'\\', *byte]),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Makes git in a worktree ignore dependency folders. The user's rules may not cover them: a folder may be a link,
/// which a rule that ends with `/` does not match.
pub(crate) fn exclude_dependencies(
    sandbox_git_dir: &Path,
    dependencies: &[DependencyFolder],
) -> Result<(), Error> {
    if dependencies.is_empty() {
        return Ok(());
    }
    let place = sandbox_git_dir.join("info/exclude");
    let mut rules = match std::fs::read(&place) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        other => other.during("reading", &place)?,
    };
    if !rules.is_empty() && !rules.ends_with(b"\n") {
        rules.push(b'\n');
    }
    for folder in dependencies {
        rules.push(b'/');
        for byte in folder.path.as_bytes() {
            if b"*?[\\ ".contains(byte) {
                rules.push(b'\\');
            }
            rules.push(*byte);
        }
        rules.push(b'\n');
    }
    std::fs::write(&place, rules).during("writing", &place)
}

/// Writes the `.git` file that points to the repository of a worktree.
pub(crate) fn write_link(folder: &Path, sandbox_git_dir: &Path) -> Result<(), Error> {
    let link = folder.join(".git");
    // A command in the sandbox may have replaced the file by a folder.
    if std::fs::symlink_metadata(&link).is_ok_and(|found| found.is_dir()) {
        crate::remove_folder(&link).during("removing", &link)?;
    }
    let name = TreePath::from_bytes(".git").map_err(|error| Error::Damaged(error.to_string()))?;
    let target = [b"gitdir: ", sandbox_git_dir.as_os_str().as_bytes(), b"\n"].concat();
    Root::open(folder)
        .and_then(|root| root.write_file(&name, FileMode::REGULAR, &mut target.as_slice()))
        .during("writing", &link)
}

/// Removes a worktree and the reference that protects its commit, even if parts are already missing.
pub(crate) fn remove_worktree(
    checkout: &Checkout,
    folder: &Path,
    id: &str,
    alias: &str,
) -> Result<(), Error> {
    crate::remove_folder(folder).during("removing", folder)?;
    super::lock::remove_stale_lock(&checkout.common_dir, &base_reference(id, alias))?;
    checkout
        .git
        .run(&["update-ref", "--no-deref", "-d", &base_reference(id, alias)])?;
    // Removes the folders of the reference unless they contain references of other sandboxes.
    let name = PathBuf::from(base_reference(id, alias));
    for folder in name.ancestors().skip(1).take(3) {
        let _kept = std::fs::remove_dir(checkout.common_dir.join(folder));
    }
    Ok(())
}
