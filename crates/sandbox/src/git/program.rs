//! [`Git`]: the `git` program, started so that neither the repository's nor the user's
//! configuration can make it run other commands.
//!
//! Hooks, file system monitors, filters, merge drivers, signing and the network are disabled. The environment contains
//! no variable that redirects git to another repository.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose as _};
use cleveragents_process::{
    Cancel, Ending, Input, Invocation, Policy, ProcessError, Stream, run, run_tapped,
};

use crate::error::Error;

/// First version with `merge-tree --write-tree`, which apply requires.
const MIN_VERSION: (u32, u32) = (2, 38);

/// Environment variables that git needs to find itself and the user's name.
const INHERITED_VARIABLES: [&str; 5] = ["PATH", "HOME", "USER", "LOGNAME", "TZ"];

/// Maximum size of an output held in memory, in bytes. Only lists of paths are long.
const MAX_OUTPUT_BYTES: u64 = 1 << 30;

/// Maximum number of bytes of error output kept when the output is streamed.
const MAX_ERROR_BYTES: u64 = 16 << 10;

/// Time limit of confined runs. A pipe among the files of an untrusted repository could block git forever.
const CONFINED_TIMEOUT: Duration = Duration::from_mins(2);

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

/// Settings for starting git in one repository.
#[derive(Debug, Clone)]
pub struct Git {
    folder: PathBuf,
    settings: Vec<String>,
    /// Overridden settings. Their names come from the configuration and may contain any bytes, including `=`.
    disabled_commands: Vec<(OsString, &'static str)>,
    variables: Vec<(&'static str, OsString)>,
    /// Names of filters that would run a command.
    filters: Vec<Vec<u8>>,
    /// Paths that git may write; unrestricted when `None`.
    confinement: Option<Policy>,
}

impl Git {
    /// Git with a folder as its working directory.
    pub fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            settings: SETTINGS.map(str::to_owned).to_vec(),
            disabled_commands: Vec::new(),
            variables: Vec::new(),
            filters: Vec::new(),
            confinement: None,
        }
    }

    /// Overrides all settings in the repository's and the user's configuration that run commands.
    pub fn with_commands_disabled(mut self) -> Result<Self, Error> {
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
            let mut disable = |variable: &[u8], value| {
                let key = [section, b".", variable].concat();
                self.disabled_commands
                    .push((OsString::from_vec(key), value));
            };
            match (&name[..start], variable) {
                (b"filter", b"clean" | b"smudge" | b"process") => {
                    disable(variable, "");
                    self.filters.push(section[start + 1..].to_vec());
                }
                (b"diff", b"command" | b"textconv") => disable(variable, ""),
                // A merge driver that always fails causes a conflict, as intended.
                (b"filter", b"required") | (b"merge", b"driver") => disable(variable, "false"),
                (b"hook", b"command") => disable(b"enabled", "false"),
                _ => {}
            }
        }
        Ok(self)
    }

    /// Restricts writing to the folders `writable`, and reading to `writable`, `readable`, the system's directories and
    /// the user's settings. For repositories with untrusted files.
    #[must_use]
    pub fn confined_to(mut self, writable: Vec<PathBuf>, readable: Vec<PathBuf>) -> Self {
        self.confinement = Some(Policy {
            writable,
            readable,
            ..Policy::default()
        });
        self
    }

    /// Whether a filter of this name would run a command if it were not overridden.
    pub(crate) fn has_filter(&self, name: &[u8]) -> bool {
        self.filters.iter().any(|filter| filter == name)
    }

    /// A copy with another working directory.
    #[must_use]
    pub(crate) fn moved_to(&self, folder: &Path) -> Self {
        let mut changed = self.clone();
        folder.clone_into(&mut changed.folder);
        changed
    }

    /// A copy with an additional environment variable.
    #[must_use]
    pub(crate) fn with(&self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        let mut changed = self.clone();
        changed.variables.retain(|(existing, _)| *existing != name);
        changed.variables.push((name, value.as_ref().to_owned()));
        changed
    }

    /// A copy with an additional setting.
    #[must_use]
    pub(crate) fn set(&self, setting: impl Into<String>) -> Self {
        let mut changed = self.clone();
        changed.settings.push(setting.into());
        changed
    }

    /// Runs git and returns its output, with any exit code.
    pub fn try_run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<GitOutput, Error> {
        self.start(arguments, b"")
    }

    /// Runs git, which must succeed, and returns its standard output.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Vec<u8>, Error> {
        self.run_with(arguments, b"")
    }

    /// Runs git with standard input; it must succeed.
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

    /// Runs git with standard input, and accepts any exit code.
    pub(crate) fn start_with<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        input: &[u8],
    ) -> Result<GitOutput, Error> {
        self.start(arguments, input)
    }

    /// Runs git and returns the first line of its output.
    pub(crate) fn line<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, Error> {
        let printed = self.run(arguments)?;
        let text = String::from_utf8_lossy(&printed);
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Runs git in another folder with standard input, and accepts any exit code.
    pub(crate) fn start_in<S: AsRef<OsStr>>(
        &self,
        folder: &Path,
        arguments: &[S],
        input: &[u8],
    ) -> Result<GitOutput, Error> {
        self.moved_to(folder).start(arguments, input)
    }

    /// Runs git and passes its output to `on_output` in chunks, without a size limit. Returns its ending (exit, signal,
    /// time limit or `cancel`) and its error output.
    pub fn stream<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        time: Duration,
        cancel: &Cancel,
        on_output: &dyn Fn(&[u8]),
    ) -> Result<StreamedOutput, Error> {
        let mut invocation = self.invocation(arguments);
        invocation.limits.output_bytes = MAX_ERROR_BYTES;
        invocation.limits.time = Some(time);
        let finished = run_tapped(&invocation, cancel, &|stream, bytes| {
            if stream == Stream::Output {
                on_output(bytes);
            }
        })
        .map_err(failed_to_run)?;
        Ok(StreamedOutput {
            ending: finished.ending,
            complaints: finished.stderr.bytes,
        })
    }

    fn start<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> Result<GitOutput, Error> {
        let mut invocation = self.invocation(arguments);
        if !input.is_empty() {
            invocation.input = Input::Bytes(input.to_vec());
        }
        invocation.limits.output_bytes = MAX_OUTPUT_BYTES;
        if self.confinement.is_some() {
            invocation.limits.time = Some(CONFINED_TIMEOUT);
        }
        let finished = run(&invocation, &Cancel::new()).map_err(failed_to_run)?;
        if finished.stdout.dropped > 0 {
            return Err(Error::Git {
                command: "(output)".to_owned(),
                message: format!("the output exceeds {MAX_OUTPUT_BYTES} bytes"),
            });
        }
        Ok(GitOutput {
            code: match finished.ending {
                Ending::Exited(code) => Some(code),
                _ => None,
            },
            stdout: finished.stdout.bytes,
            stderr: finished.stderr.bytes,
        })
    }

    fn invocation<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Invocation {
        let mut invocation = Invocation::new("git", &self.folder);
        invocation
            .environment
            .retain(|(name, _)| INHERITED_VARIABLES.iter().any(|kept| name == *kept));
        let settings =
            std::env::var_os("XDG_CONFIG_HOME").map(|folder| ("XDG_CONFIG_HOME".into(), folder));
        invocation.environment.extend(settings);
        let fixed = [
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
        ];
        let own = self
            .variables
            .iter()
            .map(|(name, value)| (name.into(), value.clone()));
        let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
        invocation.environment.extend(fixed.into_iter().chain(own));
        for (at, (key, value)) in self.disabled_commands.iter().enumerate() {
            let variables = [("KEY", key.as_os_str()), ("VALUE", OsStr::new(value))];
            invocation.environment.extend(
                variables
                    .map(|(part, text)| (format!("GIT_CONFIG_{part}_{at}").into(), text.into())),
            );
        }
        let count = self.disabled_commands.len().to_string();
        invocation
            .environment
            .push(("GIT_CONFIG_COUNT".into(), count.into()));
        for setting in &self.settings {
            invocation.arguments.push("-c".into());
            invocation.arguments.push(setting.into());
        }
        invocation.arguments.extend(
            arguments
                .iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        invocation.confinement.clone_from(&self.confinement);
        invocation
    }
}

fn failed_to_run(error: ProcessError) -> Error {
    match error.code() {
        Code::ProgramNotFound => {
            Error::GitUnusable("the program `git` is not installed".to_owned())
        }
        _ => Error::Process(error),
    }
}

/// Result of git after its output was streamed.
#[derive(Debug)]
pub struct StreamedOutput {
    /// Exit code or signal of the process.
    pub ending: Ending,
    /// Error output.
    pub complaints: Vec<u8>,
}

#[derive(Debug)]
pub struct GitOutput {
    /// Exit code; `None` when a signal ended git.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Error output.
    pub stderr: Vec<u8>,
}

impl GitOutput {
    /// Converts the output to an error that names the command without the added settings.
    pub(crate) fn failure<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Error {
        let words: Vec<_> = arguments
            .iter()
            .map(|argument| argument.as_ref().to_string_lossy().into_owned())
            .collect();
        let reported = String::from_utf8_lossy(&self.stderr);
        let reported = reported.trim();
        Error::Git {
            command: words.join(" "),
            message: if reported.is_empty() {
                format!("it ended with {:?}", self.code)
            } else {
                reported.lines().take(5).collect::<Vec<_>>().join("; ")
            },
        }
    }
}

/// Quotes an object folder for a list in an environment variable of git.
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

/// Refuses a git version that is too old.
pub(crate) fn check_version() -> Result<(), Error> {
    static IS_NEW_ENOUGH: AtomicBool = AtomicBool::new(false);
    if IS_NEW_ENOUGH.load(Ordering::Relaxed) {
        return Ok(());
    }
    let text = Git::at(Path::new("/")).line(&["version"])?;
    let mut numbers = text
        .trim_start_matches("git version ")
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < MIN_VERSION {
        return Err(Error::GitUnusable(format!(
            "`{text}` is too old: 2.38 or newer is needed"
        )));
    }
    IS_NEW_ENOUGH.store(true, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::object_folder;
    use std::path::Path;

    #[test]
    fn an_object_folder_with_colons_and_quotes_is_quoted() {
        for (folder, written) in [
            ("/a b", "/a b"),
            ("/c:d", "\"/c:d\""),
            ("/e\"f:g\\h", "\"/e\\\"f:g\\\\h\""),
        ] {
            assert_eq!(object_folder(Path::new(folder)), written);
        }
    }
}
