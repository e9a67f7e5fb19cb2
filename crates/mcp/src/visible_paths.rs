//! [`ServerView`]: the paths that the program of a server can access in addition to system directories, the user's
//! toolchains, its private home and the sandbox of its calls.
//!
//! A definition declares these paths by `read`, `write`, `credentials` and `cwd`, and by absolute paths among its
//! command and arguments, which the program may read. Therefore imported servers, which have no such fields, can access
//! the directories in their arguments.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cleveragents_process::{contains_home, is_credential, refusal};
use fs_err as fs;

use crate::check::BrokenRule;
use crate::definition::ServerDefinition;
use crate::resolve::in_home;

/// Files that mark the directory of a package.
const PACKAGES: &[&str] = &["package.json", "pyproject.toml", "pyvenv.cfg"];
/// Extensions of programs that need an interpreter.
const SCRIPTS: &[&str] = &["cjs", "js", "mjs", "php", "pl", "py", "rb", "sh", "ts"];
/// System directories that a definition cannot declare.
const SYSTEM: &[&str] = &["/", "/dev", "/proc", "/sys"];

/// Paths that the program of a server can access, with all symlinks resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerView {
    /// Files and directories that the program may read.
    pub read: Vec<PathBuf>,
    /// Directories that the program may read and write.
    pub write: Vec<PathBuf>,
    /// Credential files and directories that the program may read.
    pub credentials: Vec<PathBuf>,
    /// Paths among the arguments that the program cannot access, each with the reason.
    pub hidden: Vec<(PathBuf, &'static str)>,
}

/// The texts of a definition that contain paths, with variables replaced.
#[derive(Debug, Default)]
pub(crate) struct DeclaredPaths {
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) read: Vec<String>,
    pub(crate) write: Vec<String>,
    pub(crate) credentials: Vec<String>,
}

impl fmt::Display for ServerView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("reads", &self.read),
            ("writes", &self.write),
            ("credentials", &self.credentials),
        ];
        let mut is_first = true;
        for (kind, paths) in kinds.into_iter().filter(|(_, paths)| !paths.is_empty()) {
            let separator = if is_first { "" } else { "; " };
            let paths: Vec<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            write!(formatter, "{separator}{kind} {}", paths.join(", "))?;
            is_first = false;
        }
        if is_first {
            formatter.write_str("none")?;
        }
        Ok(())
    }
}

impl ServerDefinition {
    /// Paths that the program can access. Skips texts with variables whose values are unknown. A relative `cwd` is
    /// resolved against `folder`.
    pub fn view(
        &self,
        variables: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<ServerView, BrokenRule> {
        let expanded = |text: &String| {
            let mut text = text.clone();
            let expand = cleveragents_domain::yaml::Expand {
                text: "",
                variables,
            };
            expand.text(&mut text).ok().map(|()| text)
        };
        let all = |texts: &[String]| texts.iter().filter_map(expanded).collect();
        let declared = DeclaredPaths {
            command: self.command.as_ref().and_then(expanded).unwrap_or_default(),
            arguments: all(&self.args),
            cwd: self
                .cwd
                .as_ref()
                .and_then(expanded)
                .map(|cwd| folder.join(in_home(&cwd))),
            read: all(&self.read),
            write: all(&self.write),
            credentials: all(&self.credentials),
        };
        declared.view()
    }
}

impl DeclaredPaths {
    /// Resolves the declared paths, and rejects paths that cannot be granted.
    pub(crate) fn view(&self) -> Result<ServerView, BrokenRule> {
        let mut view = ServerView::default();
        for path in &self.write {
            let real = resolve_existing("write", path)?;
            if !real.is_dir() {
                return Err(broken(
                    "write",
                    path,
                    "is not a folder",
                    "declare the folder that contains it",
                ));
            }
            if let Some(reason) = unsuitable(&real) {
                return Err(broken("write", path, reason, "declare folders in it"));
            }
            view.write.push(require_allowed("write", path, real)?);
        }
        let cwd = self.cwd.iter().map(|path| path.display().to_string());
        let cwd: Vec<String> = cwd.collect();
        let fields = [("read", &self.read), ("cwd", &cwd)];
        for (field, paths) in fields {
            for path in paths {
                let real = resolve_existing(field, path)?;
                // The home directory itself may be declared: secrets in it stay hidden.
                if let Some(reason) = unsuitable(&real).filter(|_| !is_home(&real)) {
                    return Err(broken(field, path, reason, "declare folders in it"));
                }
                view.read.push(require_allowed(field, path, real)?);
            }
        }
        for path in &self.credentials {
            let real = resolve_existing("credentials", path)?;
            if !is_credential(&real) {
                let fix = format!("declare it with `read: [{path}]`");
                return Err(broken(
                    "credentials",
                    path,
                    "is not a credential file",
                    &fix,
                ));
            }
            view.credentials.push(real);
        }
        self.add_arguments(&mut view);
        for paths in [&mut view.read, &mut view.write, &mut view.credentials] {
            paths.sort();
            paths.dedup();
        }
        Ok(view)
    }

    /// Adds absolute paths among command and arguments. A script is added with its package.
    fn add_arguments(&self, view: &mut ServerView) {
        let command = program_of(&self.command);
        let named = self.arguments.iter().filter_map(|argument| {
            let value = match argument.split_once('=') {
                Some((option, value)) if option.starts_with('-') => value,
                _ => argument,
            };
            value.starts_with('/').then(|| PathBuf::from(value))
        });
        for path in command.into_iter().chain(named) {
            let Ok(real) = fs::canonicalize(&path) else {
                continue;
            };
            if let Some(reason) = refusal(&real).or_else(|| unsuitable(&real)) {
                view.hidden.push((path, reason));
                continue;
            }
            // A symlink may be in one package and point to a program in another one.
            view.read.extend(package_of(&path));
            view.read.extend(package_of(&real));
            view.read.push(real);
        }
    }
}

/// The file of a program, if it is given by an absolute path or found in `PATH`.
fn program_of(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(|path| path.is_absolute());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(command));
    places.find(|place| place.is_file())
}

/// The directory that a script needs in addition to its file: the `node_modules` that contains it, its package, or its
/// parent directory. `None` for other files, and if the package or parent directory is shared or cannot be granted.
fn package_of(path: &Path) -> Option<PathBuf> {
    let is_in_modules = |folder: &&Path| folder.file_name() == Some(OsStr::new("node_modules"));
    let folder = path.parent()?;
    let modules = folder.ancestors().filter(is_in_modules).last();
    let is_suitable = |folder: &Path| {
        let is_shared =
            fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o1000 != 0);
        !is_shared && unsuitable(folder).is_none() && refusal(folder).is_none()
    };
    let is_package = |folder: &&Path| PACKAGES.iter().any(|name| folder.join(name).is_file());
    let package = folder
        .ancestors()
        .take_while(|folder| is_suitable(folder))
        .find(is_package);
    let parent_of_script = || Some(folder).filter(|folder| is_script(path) && is_suitable(folder));
    let directory = modules
        .or_else(|| package.filter(|_| is_code(path)))
        .or_else(parent_of_script)?;
    fs::canonicalize(directory).ok()
}

/// Returns whether a file is executable or a script, and therefore needs its package.
fn is_code(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        || is_script(path)
}

fn is_script(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let extension = path.extension().and_then(OsStr::to_str);
    let starts_with_shebang = |mut file: fs::File| {
        let mut begin = [0; 2];
        file.read_exact(&mut begin).is_ok() && begin == *b"#!"
    };
    extension.is_some_and(|extension| SCRIPTS.contains(&extension))
        || fs::File::open(path).is_ok_and(starts_with_shebang)
}

/// Reason why a directory must not be granted to any server, if there is one.
fn unsuitable(real: &Path) -> Option<&'static str> {
    if SYSTEM.iter().any(|path| real == Path::new(path)) {
        return Some("is a system directory");
    }
    contains_home(real).then_some("contains your home folder")
}

fn is_home(real: &Path) -> bool {
    contains_home(real)
        && std::env::var_os("HOME")
            .is_some_and(|home| fs::canonicalize(home).is_ok_and(|home| home == real))
}

fn resolve_existing(field: &'static str, path: &str) -> Result<PathBuf, BrokenRule> {
    fs::canonicalize(in_home(path)).map_err(|_| {
        let fix = format!("create it, or remove it from `{field}`");
        broken(field, path, "does not exist", &fix)
    })
}

fn require_allowed(field: &'static str, path: &str, real: PathBuf) -> Result<PathBuf, BrokenRule> {
    let Some(reason) = refusal(&real) else {
        return Ok(real);
    };
    let fix = if is_credential(&real) {
        "name it in `credentials` if the server has to read it"
    } else {
        "servers cannot access the program's own files; declare another folder"
    };
    Err(broken(
        field,
        path,
        &format!("is never accessible: {reason}"),
        fix,
    ))
}

fn broken(field: &'static str, path: &str, problem: &str, fix: &str) -> BrokenRule {
    BrokenRule {
        field,
        message: format!("`{path}` of `{field}` {problem}"),
        fix: fix.to_owned(),
    }
}
