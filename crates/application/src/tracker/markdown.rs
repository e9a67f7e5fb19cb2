//! [`MarkdownTracker`]: a folder of Markdown files, one for each issue.
//!
//! Writers of this program lock the folder. Against other programs, a file is replaced only if it still has the content
//! that was read: the new file is exchanged with the old one, and exchanged again if the old one turns out to be
//! another. Symbolic links are refused.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cleveragents_domain::{ContentHash, FileKind, FileMode, TreePath};
use cleveragents_sandbox::{ExistingTarget, Root};
use rustix::fs::{Access, AtFlags, FlockOperation, accessat, flock, fsync};
use rustix::io::Errno;

use super::Tracker;
use super::account::TrackerAccess;
use super::error::TrackerError;
use super::fields::FieldChanges;
use super::front_matter::{FileIssueState, MarkdownIssue, has_front_matter, new_file, parse};
use super::idempotency::{WriteAttempt, marked_key, without_marker};
use super::listing::{incomplete, read_listing};
use super::types::{
    ExternalId, NewIssue, TrackerEffect, TrackerIssue, TrackerKind, TrackerListing, WrittenComment,
    WrittenIssue,
};

/// Maximum size of a file, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Maximum number of files.
const MAX_FILES: usize = 20_000;

/// Maximum size of all files together, in bytes.
const MAX_FOLDER_BYTES: usize = 128 << 20;

/// Maximum time that a writer waits for another one.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of letters of a title in the name of its file.
const MAX_SLUG: usize = 48;

/// A folder of Markdown files. Files without front matter and hidden files are no issues.
pub struct MarkdownTracker {
    folder: PathBuf,
}

impl MarkdownTracker {
    /// The tracker of a folder, given by its absolute path.
    pub fn new(folder: &Path) -> Result<Self, TrackerError> {
        if !folder.is_absolute() {
            return Err(TrackerError::InvalidSource {
                reason: "the folder of a tracker needs an absolute path".to_owned(),
            });
        }
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    fn root(&self) -> Result<Root, TrackerError> {
        Root::open(&self.folder).map_err(|error| self.failed("", &error))
    }

    /// The folder, locked against other writers of this program until it is dropped.
    fn locked_root(&self) -> Result<Root, TrackerError> {
        let root = self.root()?;
        let end = Instant::now() + LOCK_TIMEOUT;
        loop {
            match flock(root.handle(), FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(root),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => return Err(self.failed("", &error.into())),
            }
        }
    }

    fn failed(&self, name: &str, error: &std::io::Error) -> TrackerError {
        self.refused(name, &format!("cannot be used: {error}"))
    }

    fn refused(&self, name: &str, reason: &str) -> TrackerError {
        TrackerError::File {
            path: if name.is_empty() {
                self.folder.clone()
            } else {
                self.folder.join(name)
            },
            reason: reason.to_owned(),
        }
    }

    /// The names of all files that may be issues, sorted.
    fn names(&self, root: &Root) -> Result<Vec<String>, TrackerError> {
        let entries = root
            .entries(None)
            .map_err(|error| self.failed("", &error))?;
        let mut names = Vec::new();
        for (name, stat) in entries {
            let Ok(name) = String::from_utf8(name) else {
                continue;
            };
            if name.starts_with('.') || name.strip_suffix(".md").is_none() {
                continue;
            }
            match stat.mode.map(FileMode::kind) {
                Some(FileKind::File) => names.push(name),
                Some(FileKind::Directory) => {}
                _ => return Err(self.refused(&name, "is no regular file; links are not followed")),
            }
            if names.len() > MAX_FILES {
                return Err(self.refused("", &format!("has more than {MAX_FILES} files")));
            }
        }
        Ok(names)
    }

    /// The content of a file; `None` if it does not exist.
    fn read(&self, root: &Root, name: &str) -> Result<Option<String>, TrackerError> {
        let path = self.path(name)?;
        let is_link = root
            .stat(&path)
            .map_err(|error| self.failed(name, &error))?
            .is_some_and(|stat| stat.mode.map(FileMode::kind) != Some(FileKind::File));
        if is_link {
            return Err(self.refused(name, "is no regular file; links are not followed"));
        }
        let file = root
            .open_regular(&path)
            .map_err(|error| self.failed(name, &error))?;
        let Some(file) = file else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.failed(name, &error))?;
        if bytes.len() > MAX_FILE_BYTES {
            let reason = format!("has more than {MAX_FILE_BYTES} bytes");
            return Err(self.refused(name, &reason));
        }
        let text = String::from_utf8(bytes);
        text.map(Some)
            .map_err(|_| self.refused(name, "is not valid UTF-8"))
    }

    fn path(&self, name: &str) -> Result<TreePath, TrackerError> {
        TreePath::from_bytes(name.as_bytes().to_vec())
            .map_err(|error| self.refused(name, &error.to_string()))
    }

    fn parsed<'t>(&self, name: &str, text: &'t str) -> Result<MarkdownIssue<'t>, TrackerError> {
        parse(text).map_err(|reason| self.refused(name, &reason))
    }

    fn issue(&self, id: ExternalId, text: &str) -> Result<TrackerIssue, TrackerError> {
        let name = file_name(&id);
        let parsed = self.parsed(&name, text)?;
        Ok(TrackerIssue {
            title: parsed.fields.title,
            body: without_marker(parsed.body).to_owned(),
            is_closed: parsed.fields.state == FileIssueState::Closed,
            labels: parsed.fields.labels,
            milestone: parsed.fields.milestone,
            author: parsed.fields.author,
            revision: ContentHash::of_bytes(text.as_bytes()).hex(),
            address: Some(self.folder.join(name).display().to_string()),
            write_key: marked_key(parsed.body),
            id,
        })
    }

    fn list_once(&self) -> Result<Vec<TrackerIssue>, TrackerError> {
        let root = self.root()?;
        let names = self.names(&root)?;
        let mut issues = Vec::new();
        let mut bytes = 0;
        for name in &names {
            let Some(text) = self.read(&root, name)? else {
                return Err(incomplete("a file was removed while the folder was read"));
            };
            bytes += text.len();
            if bytes > MAX_FOLDER_BYTES {
                let reason = format!("has files of more than {MAX_FOLDER_BYTES} bytes");
                return Err(self.refused("", &reason));
            }
            if !has_front_matter(&text) {
                continue;
            }
            let stem = name.strip_suffix(".md").unwrap_or(name);
            let id: ExternalId = stem.parse().map_err(|_| {
                self.refused(
                    name,
                    "has a name with other characters than letters, digits, `-`, `_`, `.`",
                )
            })?;
            issues.push(self.issue(id, &text)?);
        }
        if self.names(&root)? != names {
            return Err(incomplete("the folder changed while it was read"));
        }
        Ok(issues)
    }

    fn existing(&self, root: &Root, id: &ExternalId) -> Result<String, TrackerError> {
        self.read(root, &file_name(id))?
            .filter(|text| has_front_matter(text))
            .ok_or_else(|| TrackerError::NotFound(id.to_string()))
    }

    /// Writes a file under a temporary, hidden name.
    fn stage(
        &self,
        root: &Root,
        attempt: &WriteAttempt<'_>,
        text: &str,
    ) -> Result<TreePath, TrackerError> {
        if text.len() > MAX_FILE_BYTES {
            let reason = format!("would have a file of more than {MAX_FILE_BYTES} bytes");
            return Err(self.refused("", &reason));
        }
        let name = format!(".{}.tmp", attempt.key);
        let path = self.path(&name)?;
        root.write_file(
            &path,
            FileMode::new(FileKind::File, 0o644),
            &mut text.as_bytes(),
        )
        .and_then(|()| root.open_file(&path)?.sync_all())
        .map_err(|error| self.failed(&name, &error))?;
        Ok(path)
    }

    /// Replaces a file that still has the content that was read.
    fn replace(
        &self,
        root: &Root,
        id: &ExternalId,
        attempt: &WriteAttempt<'_>,
        read: &str,
        text: &str,
    ) -> Result<(), TrackerError> {
        let name = file_name(id);
        let path = self.path(&name)?;
        let staged = self.stage(root, attempt, text)?;
        let failed = |error: std::io::Error| self.failed(&name, &error);
        root.exchange(&staged, &path).map_err(failed)?;
        let staged_name = staged.to_string();
        let replaced = self.read(root, &staged_name);
        if !matches!(&replaced, Ok(Some(replaced)) if replaced == read) {
            root.exchange(&staged, &path).map_err(failed)?;
            root.remove_file(&staged).map_err(failed)?;
            return Err(TrackerError::Conflict(self.folder.join(name)));
        }
        root.remove_file(&staged).map_err(failed)?;
        fsync(root.handle()).map_err(|error| self.failed("", &error.into()))
    }
}

fn file_name(id: &ExternalId) -> String {
    format!("{id}.md")
}

/// The name of a new file: words of the title, and the key, so that a repeated write meets its own file.
fn new_id(title: &str, attempt: &WriteAttempt<'_>) -> Result<ExternalId, TrackerError> {
    let mut slug = String::new();
    for letter in title.to_lowercase().chars() {
        if letter.is_ascii_alphanumeric() {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
        if slug.len() >= MAX_SLUG {
            break;
        }
    }
    let slug = slug.trim_matches('-');
    let key = attempt.key.as_str().to_ascii_lowercase();
    if slug.is_empty() {
        key.parse()
    } else {
        format!("{slug}-{key}").parse()
    }
}

impl Tracker for MarkdownTracker {
    fn kind(&self) -> TrackerKind {
        TrackerKind::Markdown
    }

    fn access(&self) -> Result<TrackerAccess, TrackerError> {
        let root = self.root()?;
        let write = Access::WRITE_OK | Access::EXEC_OK;
        let can_write = accessat(root.handle(), ".", write, AtFlags::empty());
        Ok(TrackerAccess {
            account: None,
            has_accounts: false,
            can_write: can_write.is_ok(),
            has_issues: true,
            is_archived: false,
        })
    }

    fn list(&self) -> Result<TrackerListing, TrackerError> {
        let issues = read_listing(|| self.list_once())?;
        Ok(TrackerListing {
            total: issues.len() as u64,
            issues,
        })
    }

    fn get(&self, id: &ExternalId) -> Result<Option<TrackerIssue>, TrackerError> {
        let root = self.root()?;
        let text = self.read(&root, &file_name(id))?;
        let text = text.filter(|text| has_front_matter(text));
        text.map(|text| self.issue(id.clone(), &text)).transpose()
    }

    fn create(
        &self,
        new: &NewIssue,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenIssue, TrackerError> {
        let root = self.locked_root()?;
        let id = new_id(&new.title, attempt)?;
        let name = file_name(&id);
        let path = self.path(&name)?;
        let mut effect = TrackerEffect::FoundEarlier;
        if self.read(&root, &name)?.is_none() {
            let text = new_file(new, &attempt.key.mark(&new.body));
            self.parsed(&name, &text)?;
            let staged = self.stage(&root, attempt, &text)?;
            match root.rename(&staged, &root, &path, ExistingTarget::Keep) {
                Ok(()) => effect = TrackerEffect::Written,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    root.remove_file(&staged)
                        .map_err(|error| self.failed(&name, &error))?;
                }
                Err(error) => return Err(self.failed(&name, &error)),
            }
            fsync(root.handle()).map_err(|error| self.failed("", &error.into()))?;
        }
        let text = self.existing(&root, &id)?;
        Ok(WrittenIssue {
            issue: self.issue(id, &text)?,
            effect,
            shortfall: None,
        })
    }

    fn comment(
        &self,
        id: &ExternalId,
        body: &str,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenComment, TrackerError> {
        let root = self.locked_root()?;
        let text = self.existing(&root, id)?;
        let effect = if attempt.key.is_in(&text) {
            TrackerEffect::FoundEarlier
        } else {
            let parsed = self.parsed(&file_name(id), &text)?;
            let changed = parsed.with_comment(&attempt.key.mark(body));
            self.replace(&root, id, attempt, &text, &changed)?;
            TrackerEffect::Written
        };
        Ok(WrittenComment {
            id: attempt.key.to_string(),
            effect,
        })
    }

    fn set_fields(
        &self,
        id: &ExternalId,
        changes: &FieldChanges,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenIssue, TrackerError> {
        let root = self.locked_root()?;
        let text = self.existing(&root, id)?;
        let current = self.issue(id.clone(), &text)?;
        if changes.is_met_by(&current) {
            return Ok(WrittenIssue {
                issue: current,
                effect: TrackerEffect::Unchanged,
                shortfall: None,
            });
        }
        let parsed = self.parsed(&file_name(id), &text)?;
        let labels = changes.labels_of(&current).unwrap_or(current.labels);
        let text_after = parsed.with_fields(changes, &labels);
        // Checked before it is written, because the front matter may have a form that cannot be edited by lines.
        changes.check(&self.issue(id.clone(), &text_after)?)?;
        self.replace(&root, id, attempt, &text, &text_after)?;
        let text = self.existing(&root, id)?;
        Ok(WrittenIssue {
            issue: self.issue(id.clone(), &text)?,
            effect: TrackerEffect::Written,
            shortfall: None,
        })
    }
}
