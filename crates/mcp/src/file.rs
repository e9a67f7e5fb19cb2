//! Reading definitions: from our own YAML, and from the JSON that other programs keep their servers
//! in. Every complaint names file, line and column, and what to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_domain::yaml::{self, Fault};
use cleveragents_domain::{Code, Diagnose};
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use crate::definition::{Broken, Hidden, ServerDefinition, Transport};

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

/// What is read from the JSON of another program.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The servers.
    pub servers: Vec<ServerDefinition>,
    /// What is to be known about them, one sentence each.
    pub warnings: Vec<String>,
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

/// The JSON schema of our files of servers, for editors.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let one = generator.subschema_for::<ServerDefinition>();
    let definitions = generator.take_definitions(true);
    let several = json!({
        "type": "object",
        "properties": {
            "cleveragents": {
                "type": "object",
                "properties": {"version": {"description": "The version of the format: 3.0."}},
                "additionalProperties": false,
            },
            "mcp_servers": {"type": "array", "items": one},
        },
        "required": ["mcp_servers"],
        "additionalProperties": false,
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP servers of CleverAgents",
        "anyOf": [one, several],
        "$defs": definitions,
    })
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

/// A server as other programs write it. Fields that only concern them are ignored.
#[derive(Deserialize)]
struct Foreign {
    #[serde(default, alias = "transport")]
    r#type: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, Value>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default, alias = "serverUrl", alias = "httpUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Value>,
    #[serde(default)]
    disabled: bool,
}

#[derive(Deserialize)]
struct ForeignFile {
    #[serde(rename = "mcpServers", alias = "servers")]
    servers: BTreeMap<String, Foreign>,
}

#[derive(Deserialize)]
struct Wrapped {
    mcp: ForeignFile,
}

/// Reads the servers of another program: the map `mcpServers` of Claude Desktop, Cursor and others,
/// or `servers` of VS Code, also beneath `mcp`. Comments are allowed.
pub fn import(text: &str, file: &Path) -> Result<Imported, FileError> {
    let complain = |fault: Fault| complaint(file, fault, Code::MalformedMcp);
    check_length(text).map_err(complain)?;
    let plain = without_comments(text);
    let probe: Value = yaml::read(&plain).map_err(complain)?;
    let foreign = if probe.get("mcpServers").is_some() || probe.get("servers").is_some() {
        yaml::read::<ForeignFile>(&plain).map_err(complain)?
    } else if probe.get("mcp").is_some() {
        yaml::read::<Wrapped>(&plain).map_err(complain)?.mcp
    } else {
        return Err(complain(
            Fault::new("there is neither `mcpServers` nor `servers` in the file")
                .fixed_by("name the file in which the other program keeps its MCP servers"),
        ));
    };
    let mut imported = Imported {
        servers: Vec::new(),
        warnings: Vec::new(),
    };
    for (title, server) in foreign.servers {
        if server.disabled {
            let warning = format!("`{title}` is disabled there and was left out");
            imported.warnings.push(warning);
            continue;
        }
        let taken: Vec<&str> = imported
            .servers
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        let name = free_name(&title, &taken);
        let definition = server.definition(&title, name, &mut imported.warnings);
        let definition = definition
            .checked()
            .map_err(|broken| broken_rule(&plain, file, &title, broken))?;
        imported.servers.push(definition);
    }
    Ok(imported)
}

impl Foreign {
    fn definition(self, title: &str, name: String, warnings: &mut Vec<String>) -> ServerDefinition {
        let mut warn = |text: String| warnings.push(format!("`{title}`: {text}"));
        let mut ours = |text: &str| variables(text, &mut warn);
        let mut definition = ServerDefinition::bare(name);
        definition.command = self.command.as_deref().map(&mut ours);
        definition.args = self.args.iter().map(|text| ours(text)).collect();
        definition.cwd = self.cwd.as_deref().map(&mut ours);
        definition.url = self.url.as_deref().map(&mut ours);
        let mut hidden = |entries: BTreeMap<String, Value>| -> BTreeMap<String, Hidden> {
            let entries = entries.into_iter().map(|(name, value)| {
                let text = match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                (name, Hidden::new(ours(&text)))
            });
            entries.collect()
        };
        definition.env = hidden(self.env);
        definition.headers = hidden(self.headers);
        if title != definition.name {
            definition.description = Some(title.to_owned());
        }
        if self.r#type.as_deref() == Some("sse") {
            definition.transport = Some(Transport::Sse);
            warn("the transport `sse` is old; it is talked to as `streamable-http`".to_owned());
        }
        definition
    }
}

/// `${env:NAME}` and `${input:NAME}` of other programs as our `${NAME}`.
fn variables(text: &str, warn: &mut impl FnMut(String)) -> String {
    let mut text = text.replace("${env:", "${");
    while let Some(start) = text.find("${input:") {
        let rest = &text[start + 8..];
        let Some(end) = rest.find('}') else { break };
        let name: String = rest[..end]
            .to_ascii_uppercase()
            .replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
        warn(format!(
            "set the variable `{name}`, which the other program asks for"
        ));
        text = format!("{}${{{name}}}{}", &text[..start], &rest[end + 1..]);
    }
    text
}

/// A name of ours that is much like a title and not taken.
fn free_name(title: &str, taken: &[&str]) -> String {
    let word: String = title
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' | '_' => letter,
            _ => '-',
        })
        .take(36)
        .collect();
    let word = match word.trim_matches(['-', '_']) {
        "" => "server",
        word => word,
    };
    let mut name = word.to_owned();
    let mut number = 1;
    while taken.contains(&name.as_str()) {
        number += 1;
        name = format!("{word}-{number}");
    }
    name
}

/// The text with comments and last commas made blank, so that places stay where they are.
fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    let mut in_text = false;
    let mut last_comma = None;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_text => at += 1,
            b'"' => {
                in_text = !in_text;
                last_comma = None;
            }
            b'/' if !in_text && matches!(bytes.get(at + 1), Some(b'/' | b'*')) => {
                let is_line = bytes[at + 1] == b'/';
                let end = if is_line { &b"\n"[..] } else { &b"*/"[..] };
                let rest = &bytes[at + 2..];
                let length = rest.windows(end.len()).position(|part| part == end);
                let until = match length {
                    Some(length) if is_line => at + 2 + length,
                    Some(length) => at + 4 + length,
                    None => bytes.len(),
                };
                for byte in &mut bytes[at..until] {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
                at = until;
                continue;
            }
            b',' if !in_text => last_comma = Some(at),
            b'}' | b']' if !in_text => {
                if let Some(comma) = last_comma.take() {
                    bytes[comma] = b' ';
                }
            }
            // YAML forbids them where JSON does not.
            b'\t' if !in_text => bytes[at] = b' ',
            byte if !in_text && !byte.is_ascii_whitespace() => last_comma = None,
            _ => {}
        }
        at += 1;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn check_length(text: &str) -> Result<(), Fault> {
    if text.len() > LONGEST_FILE {
        return Err(Fault::new("the file is longer than a mebibyte")
            .fixed_by("put only definitions of servers into it"));
    }
    Ok(())
}

fn complaint(file: &Path, fault: Fault, code: Code) -> FileError {
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
fn broken_rule(text: &str, file: &Path, server: &str, broken: Broken) -> FileError {
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
    use super::{import, read};
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

    #[test]
    fn files_of_other_programs_are_imported() {
        let text = r#"{
            // of Claude Desktop
            "mcpServers": {
                "My Files": {"command": "npx", "args": ["-y", "files"], "env": {"N": 1}},
                "web": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "Bearer ${env:T}"},},
                "old": {"url": "https://x/sse", "type": "sse"},
                "off": {"command": "x", "disabled": true}, /* last */
            }
        }"#;
        let imported = import(text, Path::new("claude.json")).expect("good");
        let names: Vec<&str> = imported
            .servers
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(names, ["my-files", "old", "web"]);
        assert_eq!(imported.servers[0].env["N"].expose(), "1");
        let header = imported.servers[2].headers["Authorization"].expose();
        assert_eq!(header, "Bearer ${T}");
        assert_eq!(imported.warnings.len(), 2, "{:?}", imported.warnings);
        let code = r#"{"servers": {"gh": {"type": "stdio", "command": "gh", "env": {"K": "${input:my-key}"}}}, "inputs": []}"#;
        let imported = import(code, Path::new("mcp.json")).expect("good");
        assert_eq!(imported.servers[0].env["K"].expose(), "${MY_KEY}");
        assert!(imported.warnings[0].contains("`MY_KEY`"));
        let error = import("{\"x\": 1}", Path::new("mcp.json")).expect_err("no servers");
        assert_eq!(error.code(), Code::MalformedMcp);
        let error = import("{\"mcpServers\": {\n\"a\": {}}}", Path::new("m.json"));
        assert_eq!(error.expect_err("nothing to reach").line, 2);
    }
}
