//! Paths that a confined command may read: an allow-list of system directories, the user's toolchains, and the paths of
//! the policy. Everything else (the home directory, the database, keys, other sandboxes, files of other users) does not
//! exist for the command.
//!
//! Credential files are masked even where a declared directory contains them, and so are files below `/etc` and
//! `/opt` that are not world-readable, because commands often run as root.

use crate::credentials::{CREDENTIALS, is_clean, is_credential, secrets_below};
use crate::error::ProcessError;
use crate::invocation::{Invocation, Policy};
use crate::toolchains::{TOOLCHAINS, homes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, io};

/// System directories that every program needs.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/snap",
    // path-ok: Homebrew on Linux is always installed there.
    "/home/linuxbrew/.linuxbrew", // path-ok
    "/run/current-system",
    "/run/opengl-driver",
    "/var/lib/ca-certificates",
    "/var/cache/fontconfig",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage",
];

/// System directories that may contain files that are not world-readable. Such files are masked.
const WITH_SECRETS: &[&str] = &["/etc", "/opt", "/usr/local/etc", "/snap"];

/// Files below `/etc` that may be links to a file outside the system's directories.
const LINKED: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/localtime"];

/// Configuration files that tools look for below the home directory. Readable unless they contain a secret.
const SETTINGS: &[&str] = &[
    ".cargo/config.toml",
    ".cargo/config",
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
];

/// Lifetime of the cached list of system directories and toolchains.
const CACHE_TIME: Duration = Duration::from_secs(10);

/// Paths that no command may read, even if its policy declares them.
static HIDDEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The readable base of all commands, and the time it was computed.
static BASE: Mutex<Option<(Instant, Arc<BaseView>)>> = Mutex::new(None);

/// Hides a file or directory, such as the program's home, its database or its keys, from every confined command that
/// this process starts. It stays hidden even if a policy declares a directory that contains it. Directories below it
/// that a policy lists as writable, such as a sandbox, stay visible.
pub fn hide(path: impl Into<PathBuf>) {
    let path = path.into();
    let mut hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !hidden.contains(&path) {
        hidden.push(path);
    }
}

fn hidden() -> Vec<PathBuf> {
    let hidden = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
    hidden
        .iter()
        .map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
        .collect()
}

/// Returns the reason why a path must not be declared readable or writable for a command: it is or lies in the
/// program's own home, it contains the program's database, or it is a credential file. Returns `None` if it may be
/// declared.
pub fn refusal(path: &Path) -> Option<&'static str> {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if is_own(&real) {
        return Some("the program keeps its own records and keys there");
    }
    // A hidden directory below the path is masked as a whole. A hidden file is not enough: files such as the database's
    // log appear next to it later.
    let hidden = hidden();
    let is_covered = |file: &Path| {
        let mut folders = hidden.iter().filter(|folder| folder.is_dir());
        folders.any(|folder| file.starts_with(folder))
    };
    if hidden
        .iter()
        .any(|path| path.starts_with(&real) && !is_covered(path))
    {
        return Some("the program's database is in it");
    }
    is_credential(&real).then_some("it contains credentials")
}

/// Whether a resolved path is or lies in a directory registered by [`hide`].
fn is_own(real: &Path) -> bool {
    hidden().iter().any(|hidden| real.starts_with(hidden))
}

/// Whether a directory is or contains the user's home.
pub fn contains_home(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    homes().iter().any(|home| home.starts_with(&real))
}

/// The user's git configuration files that commands may read. A private home includes them.
fn git_settings() -> Vec<PathBuf> {
    let Some(home) = homes().into_iter().next() else {
        return Vec::new();
    };
    [".config/git/config", ".gitconfig"]
        .iter()
        .map(|name| home.join(name))
        .filter(|path| is_clean(path))
        .collect()
}

/// Creates the private home directory of a confined program, accessible only to its user. Its git configuration
/// includes that of the user, so that commits have an author.
pub fn prepare_home(home: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)?;
    // `symlink_metadata` and `create_new` do not follow a link that an earlier program left at this path.
    let settings = home.join(".gitconfig");
    if settings.symlink_metadata().is_ok() {
        return Ok(());
    }
    let mut included = Vec::new();
    for path in git_settings() {
        included.extend_from_slice(b"[include]\n\tpath = \"");
        let bytes = path.as_os_str().as_bytes().iter();
        included.extend(bytes.flat_map(|byte| match byte {
            b'"' | b'\\' => vec![b'\\', *byte],
            _ => vec![*byte],
        }));
        included.extend_from_slice(b"\"\n");
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&settings)?;
    file.write_all(&included)
}

/// The parts of the file system visible to a command, besides its writable directories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct View {
    /// Readable files and directories, with links resolved; none lies below another.
    pub(crate) readable: Vec<OsString>,
    /// Symbolic links that lead to them, and the targets of the links.
    pub(crate) links: Vec<(OsString, OsString)>,
    /// Hidden files and directories below the readable ones.
    pub(crate) masked: Vec<OsString>,
}

/// Paths that every command may read.
#[derive(Debug, Default)]
struct BaseView {
    readable: Vec<PathBuf>,
    links: BTreeSet<(PathBuf, PathBuf)>,
    masked: Vec<PathBuf>,
}

impl BaseView {
    fn find() -> Self {
        let mut base = Self::default();
        for path in SYSTEM {
            base.add(Path::new(path));
        }
        // `add` keeps the target of the link; `arrange` drops it if it lies below a system directory.
        for path in LINKED {
            base.add(Path::new(path));
        }
        let homes = homes();
        for home in &homes {
            for toolchain in TOOLCHAINS {
                let folder = toolchain.place(home);
                if toolchain.parts.is_empty() {
                    base.add(&folder);
                }
                for part in toolchain.parts {
                    base.add(&folder.join(part));
                }
            }
            for settings in SETTINGS.iter().map(|name| home.join(name)) {
                if is_clean(&settings) {
                    base.add(&settings);
                }
            }
        }
        for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
            base.add_program_folder(&folder, &homes);
        }
        base.masked = WITH_SECRETS
            .iter()
            .flat_map(|folder| secrets_below(Path::new(folder)))
            .collect();
        base
    }

    /// Returns the cached base, or recomputes it if it is older than `CACHE_TIME`.
    fn current() -> Arc<Self> {
        let mut cache = BASE.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cache {
            Some((at, base)) if at.elapsed() < CACHE_TIME => Arc::clone(base),
            _ => {
                let base = Arc::new(Self::find());
                *cache = Some((Instant::now(), Arc::clone(&base)));
                base
            }
        }
    }

    fn add(&mut self, path: &Path) {
        if let Some(real) = trace(path, &mut self.links, 0) {
            self.readable.push(real);
        }
    }

    /// Adds a directory of `PATH`, unless it contains the home or a hidden path.
    fn add_program_folder(&mut self, folder: &Path, homes: &[PathBuf]) {
        if !folder.is_absolute() || !folder.is_dir() {
            return;
        }
        let Ok(real) = fs::canonicalize(folder) else {
            return;
        };
        let contains_home = homes.iter().any(|home| home.starts_with(&real));
        let is_refused = contains_home || real == Path::new("/") || refusal(&real).is_some();
        if !is_refused {
            self.add(folder);
        }
    }
}

/// Resolves a path and collects the symbolic links that it passes through. Returns `None` if it does not exist.
fn trace(path: &Path, links: &mut BTreeSet<(PathBuf, PathBuf)>, depth: usize) -> Option<PathBuf> {
    const MAX_DEPTH: usize = 16;
    let mut at = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => {
                at.pop();
            }
            Component::Normal(name) => {
                let next = at.join(name);
                let metadata = fs::symlink_metadata(&next).ok()?;
                if metadata.is_symlink() {
                    if depth >= MAX_DEPTH {
                        return None;
                    }
                    let target = fs::read_link(&next).ok()?;
                    let real = trace(&at.join(&target), links, depth + 1)?;
                    links.insert((next, target));
                    at = real;
                } else {
                    at = next;
                }
            }
        }
    }
    Some(at)
}

/// Determines the paths that a command sees besides the directories in `writable`, whose links are resolved.
pub(crate) fn resolve(
    invocation: &Invocation,
    policy: &Policy,
    writable: &[PathBuf],
) -> Result<View, ProcessError> {
    let base = BaseView::current();
    let mut links = base.links.clone();
    let mut readable = base.readable.clone();
    let mut declared = Vec::new();
    let hidden = hidden();
    let unusable = |path: &Path, kind: io::ErrorKind| ProcessError::FolderMissing {
        folder: path.to_owned(),
        source: kind.into(),
    };
    for path in &policy.readable {
        let real =
            trace(path, &mut links, 0).ok_or_else(|| unusable(path, io::ErrorKind::NotFound))?;
        if hidden.contains(&real) || leads_into(path, &real, &hidden) {
            return Err(unusable(path, io::ErrorKind::PermissionDenied));
        }
        declared.push(real);
    }
    let mut credentials = Vec::new();
    for path in &policy.credentials {
        let real =
            trace(path, &mut links, 0).ok_or_else(|| unusable(path, io::ErrorKind::NotFound))?;
        if is_own(&real) || !is_credential(&real) {
            return Err(unusable(path, io::ErrorKind::PermissionDenied));
        }
        credentials.push(real);
    }
    for path in &policy.writable {
        // Only collects the links that lead to the directory.
        let _real = trace(path, &mut links, 0);
    }
    trace(&invocation.folder, &mut links, 0);
    readable.extend(declared.iter().cloned());
    readable.extend(credentials.iter().cloned());
    readable.extend(program(invocation, &mut links));
    let mut masked = base.masked.clone();
    for folder in homes().into_iter().chain(declared) {
        let names = CREDENTIALS.iter().map(|name| folder.join(name));
        let is_masked = |path: &PathBuf| {
            let is_declared = credentials
                .iter()
                .any(|credential| path.starts_with(credential));
            !is_declared && path.symlink_metadata().is_ok()
        };
        masked.extend(names.filter(is_masked));
    }
    masked.extend(hidden);
    Ok(arrange(readable, links, masked, writable))
}

/// Whether a path reaches a hidden directory through a link, although none of its components is hidden.
fn leads_into(path: &Path, real: &Path, hidden: &[PathBuf]) -> bool {
    let names = |folder: &PathBuf| path.starts_with(folder);
    let own = HIDDEN.lock().unwrap_or_else(PoisonError::into_inner);
    hidden.iter().any(|folder| real.starts_with(folder))
        && !hidden.iter().chain(own.iter()).any(names)
}

/// The program's file, if the program is given as an absolute path.
fn program(invocation: &Invocation, links: &mut BTreeSet<(PathBuf, PathBuf)>) -> Option<PathBuf> {
    let path = Path::new(&invocation.program);
    if !path.is_absolute() {
        return None;
    }
    let real = trace(path, links, 0)?;
    let file = fs::metadata(&real).ok()?;
    let is_program = file.is_file() && file.mode() & 0o111 != 0 && refusal(&real).is_none();
    is_program.then_some(real)
}

/// Removes readable paths that lie below other visible paths, and masks that lie outside the visible paths.
fn arrange(
    mut readable: Vec<PathBuf>,
    links: BTreeSet<(PathBuf, PathBuf)>,
    mut masked: Vec<PathBuf>,
    writable: &[PathBuf],
) -> View {
    masked.sort();
    masked.dedup();
    readable.sort();
    readable.dedup();
    let mut visible: Vec<PathBuf> = Vec::new();
    for path in readable {
        let is_seen = |folder: &PathBuf| {
            let is_hidden_between =
                |mask: &PathBuf| path.starts_with(mask) && mask.starts_with(folder);
            path.starts_with(folder) && !masked.iter().any(is_hidden_between)
        };
        if !visible.iter().chain(writable).any(is_seen) {
            visible.push(path);
        }
    }
    let is_visible = |path: &Path| {
        let mut folders = visible.iter().chain(writable);
        folders.any(|folder| path.starts_with(folder))
    };
    masked.retain(|path| is_visible(path) && !visible.contains(path) && !writable.contains(path));
    let links = links
        .into_iter()
        .filter(|(link, _)| !link.parent().is_some_and(is_visible))
        .map(|(link, target)| (link.into_os_string(), target.into_os_string()))
        .collect();
    let texts = |paths: Vec<PathBuf>| paths.into_iter().map(PathBuf::into_os_string).collect();
    View {
        readable: texts(visible),
        links,
        masked: texts(masked),
    }
}

/// The readable parts of a directory below which paths are masked; for layers that can allow paths but not deny them.
pub(crate) fn without_masked(folder: &Path, masked: &[PathBuf]) -> Vec<PathBuf> {
    if masked.iter().any(|mask| folder.starts_with(mask)) {
        return Vec::new();
    }
    if !masked.iter().any(|mask| mask.starts_with(folder)) {
        return vec![folder.to_owned()];
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
        .flat_map(|entry| without_masked(&entry.path(), masked))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{arrange, trace, without_masked};
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    fn folder(name: &str) -> PathBuf {
        let place = env::temp_dir().join(format!("readable-{name}-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a folder");
        fs::canonicalize(place).expect("its path")
    }

    #[test]
    fn links_on_the_way_are_collected() {
        let place = folder("links");
        fs::create_dir(place.join("real")).expect("a folder");
        symlink("real", place.join("link")).expect("a link");
        let mut links = BTreeSet::new();
        let found = trace(&place.join("link/../link"), &mut links, 0);
        assert_eq!(found, Some(place.join("real")));
        assert_eq!(
            links.into_iter().collect::<Vec<_>>(),
            [(place.join("link"), PathBuf::from("real"))]
        );
        assert_eq!(trace(&place.join("absent"), &mut BTreeSet::new(), 0), None);
        fs::remove_dir_all(place).expect("tidied");
    }

    #[test]
    fn contained_paths_are_omitted_unless_masked() {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let view = arrange(
            paths(&[
                "/usr",
                "/usr/local/x",
                "/data/hidden/part",
                "/data",
                "/w/in",
            ]),
            BTreeSet::new(),
            paths(&["/data/hidden", "/elsewhere"]),
            &paths(&["/w"]),
        );
        assert_eq!(view.readable, ["/data", "/data/hidden/part", "/usr"]);
        assert_eq!(view.masked, ["/data/hidden"]);
    }

    #[test]
    fn siblings_of_a_masked_path_stay_readable() {
        let place = folder("masks");
        fs::create_dir_all(place.join("a/b")).expect("folders");
        for name in ["a/b/secret", "a/b/open", "a/open", "open"] {
            fs::write(place.join(name), "x").expect("a file");
        }
        let mut readable = without_masked(&place, &[place.join("a/b/secret")]);
        readable.sort();
        let expected = ["a/b/open", "a/open", "open"].map(|name| place.join(name));
        assert_eq!(readable, expected);
        assert_eq!(
            without_masked(Path::new("/x/y"), &["/x".into()]),
            Vec::<PathBuf>::new()
        );
        fs::remove_dir_all(place).expect("tidied");
    }
}
