//! Validation rules of server definitions.

use cleveragents_domain::Name;

use crate::definition::{ServerDefinition, Transport};
use crate::error::McpError;

/// Maximum value of a duration in a definition, in seconds.
const MAX_SECONDS: f64 = 24.0 * 60.0 * 60.0;

/// A broken rule: the field, the problem, and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRule {
    /// Name of the field.
    pub field: &'static str,
    /// Description of the problem.
    pub message: String,
    /// Suggested fix.
    pub fix: String,
}

impl BrokenRule {
    fn new(field: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            field,
            message: message.into(),
            fix: fix.into(),
        }
    }
}

impl ServerDefinition {
    /// Removes `local/` from the name and rejects invalid definitions.
    pub fn checked(mut self) -> Result<Self, BrokenRule> {
        if let Some(short) = self.name.strip_prefix("local/") {
            self.name = short.to_owned();
        }
        self.check_name()?;
        self.check_transport()?;
        self.check_times()?;
        self.check_paths()?;
        for (tool, tool_override) in &self.overrides {
            if tool_override.read_only == Some(true) && tool_override.writes == Some(true) {
                return Err(BrokenRule::new(
                    "overrides",
                    format!("`{tool}` is declared both read-only and writing"),
                    "remove one of `read_only` and `writes`",
                ));
            }
        }
        Ok(self)
    }

    fn check_name(&self) -> Result<(), BrokenRule> {
        let name = &self.name;
        let is_word = name.parse::<Name>().is_ok() && !name.contains(['/', ':', '.', '@']);
        if is_word && name.len() <= 40 {
            return Ok(());
        }
        Err(BrokenRule::new(
            "name",
            format!("`{name}` cannot be the name of a server"),
            "write up to 40 lowercase letters, digits, `_` or `-`, such as `github`",
        ))
    }

    fn check_transport(&self) -> Result<(), BrokenRule> {
        match (&self.command, &self.url) {
            (None, None) => {
                return Err(BrokenRule::new(
                    "name",
                    "the server has neither a `command` nor a `url`",
                    "add `command: …` for a program, or `url: https://…`",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(BrokenRule::new(
                    "url",
                    "the server has both a `command` and a `url`",
                    "remove one of them",
                ));
            }
            (Some(command), None) if command.trim().is_empty() => {
                return Err(BrokenRule::new(
                    "command",
                    "the `command` is empty",
                    "name the program",
                ));
            }
            _ => {}
        }
        let is_program = self.command.is_some();
        if is_program != (self.transport() == Transport::Stdio) {
            return Err(BrokenRule::new(
                "transport",
                "the `transport` contradicts the other fields",
                "remove it: `command` implies `stdio`, `url` implies `streamable-http`",
            ));
        }
        let inapplicable: &[(&'static str, bool)] = if is_program {
            &[
                ("headers", !self.headers.is_empty()),
                ("auth", self.auth.is_some()),
            ]
        } else {
            &[
                ("args", !self.args.is_empty()),
                ("env", !self.env.is_empty()),
                ("cwd", self.cwd.is_some()),
                ("read", !self.read.is_empty()),
                ("write", !self.write.is_empty()),
                ("credentials", !self.credentials.is_empty()),
            ]
        };
        match inapplicable.iter().find(|(_, is_set)| *is_set) {
            Some((field, _)) => Err(BrokenRule::new(
                field,
                format!("`{field}` has no effect for a server of this kind"),
                "remove it",
            )),
            None => Ok(()),
        }
    }

    fn check_paths(&self) -> Result<(), BrokenRule> {
        let fields = [
            ("read", &self.read),
            ("write", &self.write),
            ("credentials", &self.credentials),
        ];
        for (field, paths) in fields {
            for path in paths {
                let is_absolute = path.starts_with('/')
                    || path.starts_with("~/")
                    || path == "~"
                    || path.starts_with("${");
                let has_parent = path.split('/').any(|part| part == "..");
                if !is_absolute || has_parent || path.contains('\0') {
                    return Err(BrokenRule::new(
                        field,
                        format!("`{path}` is not an absolute path"),
                        "write a path that starts with `/` or `~/`, without `..`",
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), BrokenRule> {
        let overridden = self
            .overrides
            .values()
            .filter_map(|tool_override| tool_override.timeout_seconds);
        let all = [
            ("timeout_seconds", self.timeout_seconds),
            ("startup_timeout_seconds", self.startup_timeout_seconds),
        ];
        let all = all
            .into_iter()
            .chain(overridden.map(|seconds| ("overrides", seconds)));
        for (field, seconds) in all {
            if !(seconds > 0.0 && seconds <= MAX_SECONDS) {
                return Err(BrokenRule::new(
                    field,
                    format!("a time of {seconds} seconds is out of range"),
                    "write a number of seconds greater than 0 and at most 86400",
                ));
            }
        }
        let idle = self.idle_timeout_seconds;
        if !(0.0..=MAX_SECONDS).contains(&idle) {
            return Err(BrokenRule::new(
                "idle_timeout_seconds",
                format!("a time of {idle} seconds is out of range"),
                "write a number of seconds of at most 86400, or 0 for never",
            ));
        }
        Ok(())
    }

    pub(crate) fn invalid(&self, broken: BrokenRule) -> McpError {
        McpError::Invalid {
            server: self.name.clone(),
            message: broken.message,
            fix: broken.fix.into(),
        }
    }
}
