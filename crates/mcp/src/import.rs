//! Imports the servers of other programs: the map `mcpServers`, which most programs use, or `servers` of VS Code.

use std::collections::BTreeMap;
use std::path::Path;

use cleveragents_domain::DefinitionFileError;
use cleveragents_domain::yaml::{self, Fault};
use serde::Deserialize;
use serde_json::Value;

use crate::definition::{HiddenText, ServerDefinition, Transport};
use crate::file::{broken_rule, check_length, malformed};

/// Servers imported from the JSON of another program.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportResult {
    /// Imported servers.
    pub servers: Vec<ServerDefinition>,
    /// Warnings about the imported servers, one sentence each.
    pub warnings: Vec<String>,
}

/// A server in the format of other programs. Fields that only those programs use are ignored.
#[derive(Deserialize)]
struct ForeignServer {
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
    servers: BTreeMap<String, ForeignServer>,
}

#[derive(Deserialize)]
struct WrappedFile {
    mcp: ForeignFile,
}

/// Reads the servers of another program: the map `mcpServers` of Claude Desktop, Cursor and others,
/// or `servers` of VS Code, also below `mcp`. Comments are allowed.
pub fn import(text: &str, file: &Path) -> Result<ImportResult, DefinitionFileError> {
    let to_error = |fault: Fault| malformed(fault, file, text);
    check_length(text).map_err(to_error)?;
    let plain = without_comments(text);
    let probe: Value = yaml::read(&plain).map_err(to_error)?;
    let foreign = if probe.get("mcpServers").is_some() || probe.get("servers").is_some() {
        yaml::read::<ForeignFile>(&plain).map_err(to_error)?
    } else if probe.get("mcp").is_some() {
        yaml::read::<WrappedFile>(&plain).map_err(to_error)?.mcp
    } else {
        return Err(to_error(
            Fault::new("the file has neither `mcpServers` nor `servers`")
                .fixed_by("name the file in which the other program stores its MCP servers"),
        ));
    };
    let mut imported = ImportResult {
        servers: Vec::new(),
        warnings: Vec::new(),
    };
    for (title, server) in foreign.servers {
        if server.disabled {
            let warning = format!("`{title}` is disabled in that program and was skipped");
            imported.warnings.push(warning);
            continue;
        }
        let taken: Vec<&str> = imported
            .servers
            .iter()
            .map(|server| server.name.as_str())
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

impl ForeignServer {
    fn definition(self, title: &str, name: String, warnings: &mut Vec<String>) -> ServerDefinition {
        let mut warn = |text: String| warnings.push(format!("`{title}`: {text}"));
        let mut convert = |text: &str| variables(text, &mut warn);
        let mut definition = ServerDefinition::bare(name);
        definition.command = self.command.as_deref().map(&mut convert);
        definition.args = self.args.iter().map(|text| convert(text)).collect();
        definition.cwd = self.cwd.as_deref().map(&mut convert);
        definition.url = self.url.as_deref().map(&mut convert);
        let mut hidden = |entries: BTreeMap<String, Value>| -> BTreeMap<String, HiddenText> {
            let entries = entries.into_iter().map(|(name, value)| {
                let text = match value {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                (name, HiddenText::new(convert(&text)))
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
            warn("the transport `sse` is outdated; `streamable-http` is used instead".to_owned());
        }
        definition
    }
}

/// Converts `${env:NAME}` and `${input:NAME}` of other programs to `${NAME}`.
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

/// Returns a valid name that is similar to a title and not taken.
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

/// Replaces comments and trailing commas by spaces, so that positions stay the same.
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
            // YAML forbids tabs where JSON does not.
            b'\t' if !in_text => bytes[at] = b' ',
            byte if !in_text && !byte.is_ascii_whitespace() => last_comma = None,
            _ => {}
        }
        at += 1;
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::import;
    use cleveragents_domain::{Code, Diagnose};
    use std::path::Path;

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
        let imported = import(text, Path::new("claude.json")).expect("a valid file");
        let names: Vec<&str> = imported
            .servers
            .iter()
            .map(|server| server.name.as_str())
            .collect();
        assert_eq!(names, ["my-files", "old", "web"]);
        assert_eq!(imported.servers[0].env["N"].expose(), "1");
        let header = imported.servers[2].headers["Authorization"].expose();
        assert_eq!(header, "Bearer ${T}");
        assert_eq!(imported.warnings.len(), 2, "{:?}", imported.warnings);
        let code = r#"{"servers": {"gh": {"type": "stdio", "command": "gh", "env": {"K": "${input:my-key}"}}}, "inputs": []}"#;
        let imported = import(code, Path::new("mcp.json")).expect("a valid file");
        assert_eq!(imported.servers[0].env["K"].expose(), "${MY_KEY}");
        assert!(imported.warnings[0].contains("`MY_KEY`"));
        let error = import("{\"x\": 1}", Path::new("mcp.json")).expect_err("no servers");
        assert_eq!(error.code(), Code::MalformedMcp);
        let error = import("{\"mcpServers\": {\n\"a\": {}}}", Path::new("m.json"));
        assert_eq!(error.expect_err("no command and no URL").line, 2);
    }
}
