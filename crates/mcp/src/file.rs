//! Reading definitions from our own YAML, or the same as JSON. Every complaint names file, line and column, and what to do.

use std::path::{Path, PathBuf};

use cleveragents_domain::yaml::{self, Fault};
use cleveragents_domain::{Code, Diagnose};
use serde::Deserialize;
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use crate::check::Broken;
use crate::definition::ServerDefinition;

/// The longest file that is read.
const LONGEST_FILE: usize = 1 << 20;

/// What is wrong with a file of servers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", .file.display())]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
    /// Whether it cannot be read, or says what cannot be.
    code: Code,
}

impl Diagnose for FileError {
    fn code(&self) -> Code {
        self.code
    }

    fn hint(&self) -> Option<String> {
        Some(self.fix.clone())
    }

    fn details(&self) -> Value {
        json!({
            "file": self.file.display().to_string(),
            "line": self.line,
            "column": self.column,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    #[serde(default)]
    cleveragents: Option<Header>,
    mcp_servers: Vec<ServerDefinition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: Option<Spanned<Value>>,
}

/// Reads servers from our YAML, or from the same as JSON: one at the top of the file, or a list
/// under `mcp_servers`.
pub fn read(text: &str, file: &Path) -> Result<Vec<ServerDefinition>, FileError> {
    let complain = |fault: Fault| complaint(file, fault, Code::MalformedMcp);
    check_length(text).map_err(complain)?;
    let probe: Value = yaml::read(text).map_err(complain)?;
    let Some(top) = probe.as_object() else {
        return Err(complain(
            Fault::new("the file does not hold a map with `name`, and `command` or `url`")
                .fixed_by("write `name: …` and `command: …`, one a line"),
        ));
    };
    let servers = if top.contains_key("mcp_servers") {
        let several: Several = yaml::read(text).map_err(complain)?;
        let version = several.cleveragents.and_then(|header| header.version);
        yaml::check_version(version.as_ref()).map_err(complain)?;
        several.mcp_servers
    } else if top.contains_key("mcpServers") || top.contains_key("servers") {
        return Err(complain(
            Fault::new("this is the file of another program")
                .fixed_by("import it: `agents mcp import FILE`"),
        ));
    } else {
        vec![yaml::read::<ServerDefinition>(text).map_err(complain)?]
    };
    let mut names = std::collections::BTreeSet::new();
    let mut checked = Vec::with_capacity(servers.len());
    for server in servers {
        let name = server.name.clone();
        let server = server
            .checked()
            .map_err(|broken| broken_rule(text, file, &name, broken))?;
        if !names.insert(server.name.clone()) {
            let broken = Broken {
                field: "name",
                message: format!("two servers are called `{}`", server.name),
                fix: "give one of them another name".to_owned(),
            };
            return Err(broken_rule(text, file, &name, broken));
        }
        checked.push(server);
    }
    Ok(checked)
}

pub(crate) fn check_length(text: &str) -> Result<(), Fault> {
    if text.len() > LONGEST_FILE {
        return Err(Fault::new("the file is longer than a mebibyte")
            .fixed_by("put only definitions of servers into it"));
    }
    Ok(())
}

pub(crate) fn complaint(file: &Path, fault: Fault, code: Code) -> FileError {
    let (line, column) = fault.place.unwrap_or((1, 1));
    let fix = match (fault.fix, fault.nearest) {
        (Some(fix), _) => fix,
        (None, Some(nearest)) => format!("did you mean `{nearest}`?"),
        (None, None) => "correct it there; docs/mcp.md has examples".to_owned(),
    };
    FileError {
        file: file.to_owned(),
        line,
        column,
        message: fault.message,
        fix,
        code,
    }
}

/// A broken rule, at the field of the server that breaks it.
pub(crate) fn broken_rule(text: &str, file: &Path, server: &str, broken: Broken) -> FileError {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines
        .iter()
        .position(|line| line.contains(server))
        .unwrap_or(0);
    let here = |line: &&str| {
        let line = line
            .trim_start()
            .trim_start_matches("- ")
            .trim_start_matches(['"', '{']);
        line.starts_with(broken.field)
    };
    let after = lines[begin.min(lines.len())..].iter().position(here);
    let line = after
        .map(|after| begin + after)
        .or_else(|| lines.iter().position(here))
        .unwrap_or(begin);
    let column = lines
        .get(line)
        .and_then(|text| text.find(broken.field))
        .unwrap_or(0);
    FileError {
        file: file.to_owned(),
        line: line as u64 + 1,
        column: column as u64 + 1,
        message: broken.message,
        fix: broken.fix,
        code: Code::InvalidMcp,
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::definition::{ServerDefinition, Transport};
    use cleveragents_domain::{Code, Diagnose};
    use std::path::Path;

    fn wrong(text: &str) -> (u64, u64, String, Code) {
        let error = read(text, Path::new("servers.yaml")).expect_err(text);
        assert!(!error.fix.is_empty());
        (
            error.line,
            error.column,
            error.message.clone(),
            error.code(),
        )
    }

    #[test]
    fn a_server_is_read_and_stored_without_its_values() {
        let text = "name: local/github\ncommand: npx\nargs: [-y, server]\nenv:\n  TOKEN: ${GH}\n\
                    tool_filter: {include: ['get_*']}\noverrides:\n  get_me: {needs_approval: true}\n";
        let servers = read(text, Path::new("x.yaml")).expect("good");
        let [server] = servers.as_slice() else {
            panic!("one server");
        };
        assert_eq!(server.name, "github");
        assert_eq!(server.transport(), Transport::Stdio);
        assert_eq!(server.env["TOKEN"].expose(), "${GH}");
        assert!(server.tool_filter.wants("get_x") && !server.tool_filter.wants("set_x"));
        assert_eq!(server.override_for("get_me").needs_approval, Some(true));
        let stored = serde_json::to_string(server).expect("JSON");
        let back: ServerDefinition = serde_json::from_str(&stored).expect("what was stored");
        assert_eq!(&back, server);
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let malformed = [
            ("name: a\ncomand: x\n", 2, "there is no field `comand`"),
            ("command: x\n", 1, "the field `name` is missing"),
            (
                "name: a\nargs: x\ncommand: y\n",
                2,
                "a list is expected here",
            ),
            (
                "name: a\ntransport: pigeon\nurl: https://x\n",
                2,
                "there is no value `pigeon`",
            ),
            ("- 1\n", 1, "the file does not hold a map"),
            ("mcpServers: {}\n", 1, "this is the file of another program"),
        ];
        for (text, line, message) in malformed {
            let (at, _, told, code) = wrong(text);
            assert!(told.starts_with(message), "{told}");
            assert_eq!((at, code), (line, Code::MalformedMcp), "{text}");
        }
        let rules = [
            ("name: a\n", 1, "the server has neither"),
            (
                "name: a\ncommand: x\nurl: https://x\n",
                3,
                "the server has both",
            ),
            ("name: A b\ncommand: x\n", 1, "`A b` cannot be"),
            (
                "name: a\nurl: https://x\nargs: [x]\n",
                3,
                "`args` means nothing",
            ),
            (
                "name: a\ncommand: x\nheaders: {a: b}\n",
                3,
                "`headers` means nothing",
            ),
            (
                "name: a\ncommand: x\ntimeout_seconds: 0\n",
                3,
                "a time of 0",
            ),
            (
                "name: a\ncommand: x\ntransport: sse\n",
                3,
                "the `transport` does not fit",
            ),
            (
                "mcp_servers:\n  - name: a\n    command: x\n  - name: a\n    command: y\n",
                2,
                "two servers are called",
            ),
        ];
        for (text, line, message) in rules {
            let (at, _, told, code) = wrong(text);
            assert!(told.starts_with(message), "{told}");
            assert_eq!((at, code), (line, Code::InvalidMcp), "{text}");
        }
    }
}
