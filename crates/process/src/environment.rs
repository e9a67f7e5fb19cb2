//! The environment that commands inherit: an allow-list, so that no key, token or preloaded library
//! is passed on by accident.

use std::env;
use std::ffi::{OsStr, OsString};

/// Inherited variables, in addition to those that start with `LC_`.
const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "COLORTERM",
    "TZ",
    "NO_COLOR",
];

/// Returns the variables of this process's environment that a command may inherit.
pub fn clean_environment() -> Vec<(OsString, OsString)> {
    cleaned(env::vars_os())
}

fn cleaned(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    variables.filter(|(name, _)| is_allowed(name)).collect()
}

fn is_allowed(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| ALLOWED.contains(&name) || name.starts_with("LC_"))
}

#[cfg(test)]
mod tests {
    use super::cleaned;
    use std::ffi::OsString;

    #[test]
    fn keys_tokens_git_and_preloads_are_not_inherited() {
        let inherited = [
            "PATH",
            "LC_ALL",
            "TERM",
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "GIT_DIR",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "PYTHONPATH",
            "TMPDIR",
            "SSH_AUTH_SOCK",
            "MALCOLM",
            "LC",
        ];
        let passed: Vec<_> = cleaned(
            inherited
                .iter()
                .map(|name| (OsString::from(name), "1".into())),
        )
        .into_iter()
        .map(|(name, _)| name)
        .collect();
        assert_eq!(passed, ["PATH", "LC_ALL", "TERM"]);
    }
}
