//! Programs that run for the user, with the user's configuration and credentials: `git push`, `gh` and `glab`.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use cleveragents_models::Variables;
use cleveragents_process::{Cancel, Ending, Input, Invocation, clean_environment, run};

use super::ChangeRequestError;

/// Environment variables with the user's credentials and servers, in addition to the usual ones.
const PASSED: [&str; 29] = [
    "PATH",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GNUPGHOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_HOST",
    "GH_CONFIG_DIR",
    "GITLAB_TOKEN",
    "GITLAB_HOST",
    "GLAB_CONFIG_DIR",
];

/// Settings that prevent questions, because no user could answer them.
const QUIET: [(&str, &str); 5] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("NO_PROMPT", "1"),
    ("NO_COLOR", "1"),
];

/// Maximum size of an output, in bytes.
const MAX_OUTPUT: u64 = 4 << 20;

/// Time limit of one program.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Starts programs in one folder.
pub(super) struct Programs<'a> {
    pub(super) folder: &'a Path,
    pub(super) variables: &'a Variables,
    pub(super) cancel: &'a Cancel,
}

/// The end of a program.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    pub(super) is_success: bool,
    pub(super) out: String,
    /// The error output.
    err: String,
    ending: Ending,
}

impl ProgramOutput {
    /// The reason of a failure: the last lines of the error output.
    pub(super) fn reason(&self) -> String {
        let text = if self.err.trim().is_empty() {
            self.out.trim()
        } else {
            self.err.trim()
        };
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("; ");
        if last.is_empty() {
            format!("it ended with {:?}", self.ending)
        } else {
            last
        }
    }
}

impl Programs<'_> {
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut all = clean_environment();
        let passed = PASSED
            .iter()
            .filter_map(|name| Some((*name, (self.variables)(name)?)));
        let quiet = QUIET
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        for (name, value) in passed.chain(quiet) {
            all.retain(|(known, _)| known != name);
            all.push((name.into(), value.into()));
        }
        all
    }

    /// Whether a program is on the user's `PATH`.
    pub(super) fn has(&self, program: &str) -> bool {
        let environment = self.environment();
        let path = environment.iter().find(|(name, _)| name == "PATH");
        path.is_some_and(|(_, value)| {
            std::env::split_paths(value).any(|folder| {
                let metadata = std::fs::metadata(folder.join(program));
                metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
            })
        })
    }

    /// Runs a program with this input.
    pub(super) fn run(
        &self,
        program: &str,
        arguments: &[&str],
        input: &str,
    ) -> Result<ProgramOutput, ChangeRequestError> {
        let mut invocation = Invocation::new(program, self.folder);
        invocation.arguments = arguments.iter().map(Into::into).collect();
        invocation.environment = self.environment();
        if !input.is_empty() {
            invocation.input = Input::Bytes(input.as_bytes().to_vec());
        }
        invocation.limits.output_bytes = MAX_OUTPUT;
        invocation.limits.time = Some(TIMEOUT);
        let finished = run(&invocation, self.cancel)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(ProgramOutput {
            is_success: finished.ending.is_success(),
            out: text(&finished.stdout.bytes),
            err: text(&finished.stderr.bytes),
            ending: finished.ending,
        })
    }

    /// Runs git. `None` if it fails.
    pub(super) fn git_line(
        &self,
        arguments: &[&str],
    ) -> Result<Option<String>, ChangeRequestError> {
        let finished = self.run("git", arguments, "")?;
        let line = finished.out.lines().next().unwrap_or_default();
        Ok((finished.is_success && !line.is_empty()).then(|| line.to_owned()))
    }
}
