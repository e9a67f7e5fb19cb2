//! Parses definitions from YAML or JSON. Every error contains file, line, column and a fix.

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

/// Maximum size of a file, in bytes.
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

/// Reads servers from YAML or JSON in our format: one server at the top level of the file, or a list
/// under `mcp_servers`.
pub fn read(text: &str, file: &Path) -> Result<Vec<ServerDefinition>, DefinitionFileError> {
    let to_error = |fault: Fault| malformed(fault, file, text);
    check_length(text).map_err(to_error)?;
    let probe: Value = yaml::read(text).map_err(to_error)?;
    let Some(top) = probe.as_object() else {
        return Err(to_error(
            Fault::new("the file does not contain a map with `name`, and `command` or `url`")
                .fixed_by("write `name: …` and `command: …`, each on its own line"),
        ));
    };
    let servers = if top.contains_key("mcp_servers") {
        let list: ServerList = yaml::read(text).map_err(to_error)?;
        let version = list.cleveragents.and_then(|header| header.version);
        yaml::check_version(version.as_ref()).map_err(to_error)?;
        list.mcp_servers
    } else if top.contains_key("mcpServers") || top.contains_key("servers") {
        return Err(to_error(
            Fault::new("this is the file of another program").fixed_by(hint!(
                "import it: {}",
                suggest::mcp_import(Placeholder("FILE"))
            )),
        ));
    } else {
        vec![yaml::read::<ServerDefinition>(text).map_err(to_error)?]
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

/// The error for a broken rule, positioned at the field of the server that breaks it.
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
    let is_field_line = |line: &&str| {
        let line = line
            .trim_start()
            .trim_start_matches("- ")
            .trim_start_matches(['"', '{']);
        line.starts_with(broken.field)
    };
    let after = lines[begin.min(lines.len())..]
        .iter()
        .position(is_field_line);
    let line = after
        .map(|after| begin + after)
        .or_else(|| lines.iter().position(is_field_line))
        .unwrap_or(begin);
    let column = lines
        .get(line)
        .and_then(|text| text.find(broken.field))
        .unwrap_or(0);
    let fault = Fault::new(broken.message).at_place((line as u64 + 1, column as u64 + 1));
    DefinitionFault::rule(fault, broken.fix).in_file(file, DefinitionKind::McpServer, text)
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::definition::{ServerDefinition, Transport};
    use cleveragents_domain::{Code, Diagnose};
    use std::path::Path;

    fn read_error(text: &str) -> (u64, u64, String, Code) {
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
    fn a_server_is_stored_with_its_variables_unresolved() {
        let text = "name: local/github\ncommand: npx\nargs: [-y, server]\nenv:\n  TOKEN: ${GH}\n\
                    tool_filter: {include: ['get_*']}\noverrides:\n  get_me: {needs_approval: true}\n";
        let servers = read(text, Path::new("x.yaml")).expect("a valid definition");
        let [server] = servers.as_slice() else {
            panic!("one server");
        };
        assert_eq!(server.name, "github");
        assert_eq!(server.transport(), Transport::Stdio);
        assert_eq!(server.env["TOKEN"].expose(), "${GH}");
        assert!(server.tool_filter.selects("get_x") && !server.tool_filter.selects("set_x"));
        assert_eq!(server.override_for("get_me").needs_approval, Some(true));
        let stored = serde_json::to_string(server).expect("JSON");
        let back: ServerDefinition = serde_json::from_str(&stored).expect("the stored definition");
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
            let (error_line, _, shown, code) = read_error(text);
            assert!(shown.starts_with(message), "{shown}");
            assert_eq!((error_line, code), (line, Code::MalformedMcp), "{text}");
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
            let (error_line, _, shown, code) = read_error(text);
            assert!(shown.starts_with(message), "{shown}");
            assert_eq!((error_line, code), (line, Code::InvalidMcp), "{text}");
        }
    }
}
