//! Parses definitions from YAML, or the same as JSON. Every error gives file, line, column and a fix.

use std::path::Path;

use cleveragents_domain::yaml::{self, Fault};
use cleveragents_domain::{
    DefinitionFault, DefinitionFileError, DefinitionKind, Placeholder, hint, suggest,
};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::check::BrokenRule;
use crate::definition::ServerDefinition;

/// Maximum size of a file.
const MAX_FILE_SIZE: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerList {
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
pub fn read(text: &str, file: &Path) -> Result<Vec<ServerDefinition>, DefinitionFileError> {
    let complain = |fault: Fault| malformed(fault, file, text);
    check_length(text).map_err(complain)?;
    let probe: Value = yaml::read(text).map_err(complain)?;
    let Some(top) = probe.as_object() else {
        return Err(complain(
            Fault::new("the file does not contain a map with `name`, and `command` or `url`")
                .fixed_by("write `name: …` and `command: …`, each on its own line"),
        ));
    };
    let servers = if top.contains_key("mcp_servers") {
        let several: ServerList = yaml::read(text).map_err(complain)?;
        let version = several.cleveragents.and_then(|header| header.version);
        yaml::check_version(version.as_ref()).map_err(complain)?;
        several.mcp_servers
    } else if top.contains_key("mcpServers") || top.contains_key("servers") {
        return Err(complain(
            Fault::new("this is the file of another program").fixed_by(hint!(
                "import it: {}",
                suggest::mcp_import(Placeholder("FILE"))
            )),
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
            let broken = BrokenRule {
                field: "name",
                message: format!("there are two servers named `{}`", server.name),
                fix: "rename one of them".to_owned(),
            };
            return Err(broken_rule(text, file, &name, broken));
        }
        checked.push(server);
    }
    Ok(checked)
}

pub(crate) fn check_length(text: &str) -> Result<(), Fault> {
    if text.len() > MAX_FILE_SIZE {
        return Err(Fault::new("the file is larger than 1 MiB")
            .fixed_by("keep only server definitions in it"));
    }
    Ok(())
}

/// The error for a file that cannot be parsed.
pub(crate) fn malformed(fault: Fault, file: &Path, text: &str) -> DefinitionFileError {
    DefinitionFault::from(fault).in_file(file, DefinitionKind::McpServer, text)
}

/// A broken rule, at the field of the server that breaks it.
pub(crate) fn broken_rule(
    text: &str,
    file: &Path,
    server: &str,
    broken: BrokenRule,
) -> DefinitionFileError {
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
    let fault = Fault::new(broken.message).placed((line as u64 + 1, column as u64 + 1));
    DefinitionFault::rule(fault, broken.fix).in_file(file, DefinitionKind::McpServer, text)
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::definition::{ServerDefinition, Transport};
    use cleveragents_domain::{Code, Diagnose};
    use std::path::Path;

    fn wrong(text: &str) -> (u64, u64, String, Code) {
        let error = read(text, Path::new("servers.yaml")).expect_err(text);
        assert!(!error.fix.neutral().is_empty());
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
        assert!(server.tool_filter.selects("get_x") && !server.tool_filter.selects("set_x"));
        assert_eq!(server.override_for("get_me").needs_approval, Some(true));
        let stored = serde_json::to_string(server).expect("JSON");
        let back: ServerDefinition = serde_json::from_str(&stored).expect("what was stored");
        assert_eq!(&back, server);
    }

    #[test]
    fn every_error_names_its_position() {
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
            ("- 1\n", 1, "the file does not contain a map"),
            ("mcpServers: {}\n", 1, "this is the file of another program"),
        ];
        for (text, line, message) in malformed {
            let (at, _, found, code) = wrong(text);
            assert!(found.starts_with(message), "{found}");
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
                "`args` has no effect",
            ),
            (
                "name: a\ncommand: x\nheaders: {a: b}\n",
                3,
                "`headers` has no effect",
            ),
            (
                "name: a\ncommand: x\ntimeout_seconds: 0\n",
                3,
                "a time of 0",
            ),
            (
                "name: a\ncommand: x\ntransport: sse\n",
                3,
                "the `transport` contradicts",
            ),
            (
                "mcp_servers:\n  - name: a\n    command: x\n  - name: a\n    command: y\n",
                2,
                "there are two servers named",
            ),
        ];
        for (text, line, message) in rules {
            let (at, _, found, code) = wrong(text);
            assert!(found.starts_with(message), "{found}");
            assert_eq!((at, code), (line, Code::InvalidMcp), "{text}");
        }
    }
}
