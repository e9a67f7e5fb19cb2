//! Walks the files of a part on several threads, without files that `.gitignore` excludes.

use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cleveragents_domain::TreePath;
use cleveragents_sandbox::is_own_temporary;
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{Match, WalkBuilder, WalkState};

use super::ignored::IgnoreRules;
use super::paths::Place;
use crate::tool::{Call, Failure};

/// Maximum number of threads. More threads do not make the walk faster.
const MAX_THREADS: usize = 8;

/// Selection of files to visit.
pub(super) struct Options {
    pub(super) hidden: bool,
    /// Visit only paths that match this pattern.
    pub(super) glob: Option<String>,
}

/// Validates a glob pattern.
pub(super) fn check_glob(glob: &str) -> Result<(), String> {
    build_glob(Path::new("/"), glob).map(drop)
}

fn build_glob(top: &Path, glob: &str) -> Result<Override, String> {
    if glob.starts_with('!') {
        return Err("a glob cannot start with `!`".to_owned());
    }
    let mut builder = OverrideBuilder::new(top);
    builder
        .add(glob)
        .and_then(|builder| builder.build())
        .map_err(|error| format!("the glob is invalid: {error}"))
}

/// Calls a visitor for every file at or below a place. Each thread creates its own visitor.
pub(super) fn walk<V: FnMut(&TreePath) + Send>(
    place: &Place<'_>,
    options: &Options,
    call: &Call<'_>,
    visitor: impl Fn() -> V,
) -> Result<(), Failure> {
    // This path leads to the opened directory, even if another one now has its name.
    let handle = place.root().handle().as_raw_fd();
    let top = PathBuf::from(format!("/proc/self/fd/{handle}/"));
    let walk = Walk {
        top,
        options,
        call,
        visitor,
    };
    let Some(directory) = &place.path else {
        return walk.run(Start::Everything);
    };
    // Start at the root, so that its ignore rules apply to subdirectories.
    let reached = Arc::new(AtomicBool::new(false));
    walk.run(Start::Within(directory.as_path(), &reached))?;
    if reached.load(Ordering::Relaxed) {
        return Ok(());
    }
    // The ignore rules exclude the directory. Walk it all the same, because the call names it.
    walk.run(Start::At(directory.as_path()))
}

/// Start of a walk.
enum Start<'w> {
    /// At the root, for all files.
    Everything,
    /// At the root, for files in this directory; records whether the walk reached it.
    Within(&'w Path, &'w Arc<AtomicBool>),
    /// At this directory.
    At(&'w Path),
}

struct Walk<'w, 'c, F> {
    top: PathBuf,
    options: &'w Options,
    call: &'w Call<'c>,
    visitor: F,
}

impl<F> Walk<'_, '_, F> {
    fn run<V: FnMut(&TreePath) + Send>(&self, start: Start<'_>) -> Result<(), Failure>
    where
        F: Fn() -> V,
    {
        let mut builder = match start {
            Start::At(folder) => WalkBuilder::new(self.top.join(folder)),
            Start::Everything | Start::Within(..) => WalkBuilder::new(&self.top),
        };
        let within = match start {
            Start::Within(folder, reached) => Some((folder.to_owned(), Arc::clone(reached))),
            Start::Everything | Start::At(_) => None,
        };
        let prefix = self.top.clone();
        let glob = self.options.glob.as_deref();
        let glob = glob.map(|glob| build_glob(&self.top, glob));
        let glob = glob.transpose().map_err(Failure::new)?;
        let rules = IgnoreRules::new(match start {
            Start::At(folder) => self.top.join(folder),
            Start::Everything | Start::Within(..) => self.top.clone(),
        });
        let (hidden, selection) = (self.options.hidden, glob.clone());
        builder
            // `IgnoreRules` replaces the walker's own filters, which would open a pipe or device named
            // `.gitignore`.
            .standard_filters(false)
            .follow_links(false)
            .threads(threads())
            .filter_entry(move |entry| {
                let name = entry.file_name();
                if name == ".git" || is_own_temporary(name.as_bytes()) {
                    return false;
                }
                let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                let is_selected = selection
                    .as_ref()
                    .is_some_and(|glob| glob.matched(entry.path(), is_folder).is_whitelist());
                if !is_selected {
                    let is_hidden = entry.file_name().as_bytes().starts_with(b".");
                    match rules.matched(entry.path(), is_folder) {
                        Match::Ignore(()) => return false,
                        Match::None if is_hidden && !hidden => return false,
                        Match::None | Match::Whitelist(()) => {}
                    }
                }
                let (Some((folder, reached)), Ok(inner)) =
                    (&within, entry.path().strip_prefix(&prefix))
                else {
                    return true;
                };
                let is_inside = inner.starts_with(folder);
                if is_inside {
                    reached.store(true, Ordering::Relaxed);
                }
                is_inside || folder.starts_with(inner)
            });
        if let Some(glob) = glob {
            builder.overrides(glob);
        }
        let deadline = Instant::now() + self.call.time_left();
        let cancel = self.call.cancel();
        builder.build_parallel().run(|| {
            let mut visit = (self.visitor)();
            let top = &self.top;
            Box::new(move |entry| {
                if cancel.is_cancelled() || Instant::now() >= deadline {
                    return WalkState::Quit;
                }
                // Unreadable entries are skipped, as in ripgrep.
                if let Ok(entry) = entry
                    && entry.file_type().is_some_and(|kind| kind.is_file())
                    && let Ok(inner) = entry.path().strip_prefix(top)
                    && let Ok(path) = TreePath::from_bytes(inner.as_os_str().as_bytes())
                {
                    visit(&path);
                }
                WalkState::Continue
            })
        });
        self.call.check_running()
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS))
}
