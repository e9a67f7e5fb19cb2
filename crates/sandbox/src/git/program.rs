//! [`Git`]: the `git` program, started so that nothing of the repository's or the user's
//! configuration can make it run other commands.
//!
//! Hooks, file system monitors, filters, merge drivers, signing and the network are off; the
//! environment holds nothing that points git elsewhere.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// `merge-tree --write-tree`, on which apply rests, came with this version.
const OLDEST: (u32, u32) = (2, 38);

const SETTINGS: [&str; 14] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.pager=cat",
    "core.alternateRefsCommand=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.allow=never",
    "advice.detachedHead=false",
    "diff.external=",
];

/// How to start git for one repository.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    folder: PathBuf,
    settings: Vec<String>,
    /// Settings whose names are not ours: any bytes, `=` included.
    disarming: Vec<(OsString, &'static str)>,
    variables: Vec<(&'static str, OsString)>,
    /// Filters that would run a command.
    filters: Vec<Vec<u8>>,
}

impl Git {
    /// Git as started in a folder.
    pub(crate) fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            settings: SETTINGS.map(str::to_owned).to_vec(),
            disarming: Vec::new(),
            variables: Vec::new(),
            filters: Vec::new(),
        }
    }

    /// The same with the commands of the repository's and the user's configuration taken out.
    pub(crate) fn disarmed(mut self) -> Result<Self, Error> {
        let configured = self.try_run(&[
            "config",
            "-z",
            "--name-only",
            "--get-regexp",
            "^(filter|merge|diff|hook)\\..+\\.",
        ])?;
        let mut names: Vec<&[u8]> = super::records(&configured.stdout).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (Some(start), Some(end)) = (
                name.iter().position(|byte| *byte == b'.'),
                name.iter().rposition(|byte| *byte == b'.'),
            ) else {
                continue;
            };
            let (section, variable) = (&name[..end], &name[end + 1..]);
            let mut disarm = |variable: &[u8], value| {
                let key = [section, b".", variable].concat();
                self.disarming.push((OsString::from_vec(key), value));
            };
            match (&name[..start], variable) {
                (b"filter", b"clean" | b"smudge" | b"process") => {
                    disarm(variable, "");
                    self.filters.push(section[start + 1..].to_vec());
                }
                (b"diff", b"command" | b"textconv") => disarm(variable, ""),
                // A driver that always gives up leaves a conflict, which is what we want to see.
                (b"filter", b"required") | (b"merge", b"driver") => disarm(variable, "false"),
                (b"hook", b"command") => disarm(b"enabled", "false"),
                _ => {}
            }
        }
        Ok(self)
    }

    /// Whether a filter of this name would run a command, were it not taken out.
    pub(crate) fn has_filter(&self, name: &[u8]) -> bool {
        self.filters.iter().any(|filter| filter == name)
    }

    /// The same in another folder.
    #[must_use]
    pub(crate) fn moved_to(&self, folder: &Path) -> Self {
        let mut changed = self.clone();
        folder.clone_into(&mut changed.folder);
        changed
    }

    /// The same with a variable of its environment set.
    #[must_use]
    pub(crate) fn with(&self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        let mut changed = self.clone();
        changed.variables.retain(|(there, _)| *there != name);
        changed.variables.push((name, value.as_ref().to_owned()));
        changed
    }

    /// The same with one more setting.
    #[must_use]
    pub(crate) fn set(&self, setting: impl Into<String>) -> Self {
        let mut changed = self.clone();
        changed.settings.push(setting.into());
        changed
    }

    /// Runs git and gives what it printed, whatever its exit code.
    pub(crate) fn try_run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Answer, Error> {
        self.start(arguments, b"")
    }

    /// Runs git, which must succeed, and gives what it printed.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Vec<u8>, Error> {
        self.run_with(arguments, b"")
    }

    /// Runs git with something to read.
    pub(crate) fn run_with<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        input: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let answer = self.start(arguments, input)?;
        if answer.code == Some(0) {
            Ok(answer.stdout)
        } else {
            Err(answer.failure(arguments))
        }
    }

    /// Runs git with something to read, whatever its exit code.
    pub(crate) fn start_with<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        input: &[u8],
    ) -> Result<Answer, Error> {
        self.start(arguments, input)
    }

    /// Runs git and gives its first line.
    pub(crate) fn line<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, Error> {
        let printed = self.run(arguments)?;
        let text = String::from_utf8_lossy(&printed);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Runs git in another folder, with something to read, whatever its exit code.
    pub(crate) fn start_in<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: &[S],
        input: &[u8],
    ) -> Result<Answer, Error> {
        self.moved_to(folder).start(arguments, input)
    }

    fn start<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> Result<Answer, Error> {
        let mut command = Command::new("git");
        command.current_dir(&self.folder).env_clear();
        for name in ["PATH", "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "TZ"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        for (at, (key, value)) in self.disarming.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{at}"), key)
                .env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        command.env("GIT_CONFIG_COUNT", self.disarming.len().to_string());
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound && self.folder.is_dir() {
                Error::GitUnusable("the program `git` is not installed".to_owned())
            } else {
                Error::Files {
                    action: "starting git in",
                    path: self.folder.clone(),
                    source: error,
                }
            }
        })?;
        let stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // A git that does not want all its input closes it; its exit code tells.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
            child.wait_with_output()
        })
        .map_err(|source| Error::Files {
            action: "running git in",
            path: self.folder.clone(),
            source,
        })?;
        Ok(Answer {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}

/// What git said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Answer {
    /// As an error that shows the command without our settings.
    pub(crate) fn failure<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Error {
        let words: Vec<_> = arguments
            .iter()
            .map(|argument| argument.as_ref().to_string_lossy().into_owned())
            .collect();
        let told = String::from_utf8_lossy(&self.stderr);
        let told = told.trim();
        Error::Git {
            command: words.join(" "),
            message: if told.is_empty() {
                format!("it ended with {:?}", self.code)
            } else {
                told.lines().take(5).collect::<Vec<_>>().join("; ")
            },
        }
    }
}

/// A folder of objects, as git reads it from a list in the environment.
pub(crate) fn object_folder(folder: &Path) -> OsString {
    let bytes = folder.as_os_str().as_bytes();
    if !bytes.contains(&b':') && !bytes.starts_with(b"\"") {
        return folder.as_os_str().to_owned();
    }
    let mut quoted = vec![b'"'];
    for byte in bytes {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

/// Refuses a git that cannot do what we need.
pub(crate) fn check_version() -> Result<(), Error> {
    let text = Git::at(Path::new("/")).line(&["version"])?;
    let mut numbers = text
        .trim_start_matches("git version ")
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST {
        return Err(Error::GitUnusable(format!(
            "`{text}` is too old: 2.38 or newer is needed"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::object_folder;
    use std::path::Path;

    #[test]
    fn an_object_folder_with_colons_and_quotes_stays_one() {
        for (folder, written) in [
            ("/a b", "/a b"),
            ("/c:d", "\"/c:d\""),
            ("/e\"f:g\\h", "\"/e\\\"f:g\\\\h\""),
        ] {
            assert_eq!(object_folder(Path::new(folder)), written);
        }
    }
}
