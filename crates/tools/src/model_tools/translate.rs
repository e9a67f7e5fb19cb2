//! Translates a model's call to a call of a built-in tool.

use cleveragents_domain::ToolInvocationId;
use serde_json::{Map, Value, json};

use super::{ModelTool, normalize};

/// A call of a built-in tool.
#[derive(Debug, PartialEq)]
pub(crate) struct BuiltinCall {
    /// Short name of the tool.
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
}

impl ModelTool {
    /// Converts arguments to the names and forms that the tool declares, where the meaning is unambiguous.
    pub(crate) fn normalize_arguments(&self, arguments: &mut Value) -> Result<(), String> {
        normalize(&self.checks().0, arguments);
        if self.name != "git" {
            return Ok(());
        }
        let Some(line) = arguments["command"].as_str() else {
            return Ok(());
        };
        let mut words = line.split_whitespace().skip_while(|word| *word == "git");
        let command = words.next().unwrap_or_default().to_owned();
        if words.next().is_some() {
            return Err(format!(
                "`command` is one word, such as {command}; pass options as separate arguments, and run other git \
                 commands with builtin/shell"
            ));
        }
        arguments["command"] = command.into();
        Ok(())
    }

    /// Converts validated arguments to a call of a built-in tool.
    pub(crate) fn translate(&self, arguments: Value) -> Result<BuiltinCall, String> {
        let tool = self.select_tool(&arguments);
        let Value::Object(mut fields) = arguments else {
            return Err("they are not a JSON object".to_owned());
        };
        match self.name {
            "shell" if tool == "shell-job" => {
                fields.remove("background");
            }
            "shell" => {
                if !fields.contains_key("command") {
                    return Err(
                        "`command` is missing. Example: {\"command\": \"make test\"}".to_owned(),
                    );
                }
                rename(&mut fields, "workdir", "folder");
                rename(&mut fields, "network_reason", "reason");
            }
            "edit_file" if tool == "file-write" => {
                rename(&mut fields, "new_string", "content");
                fields.insert("create".to_owned(), true.into());
                fields.remove("old_string");
                fields.remove("replace_all");
            }
            "edit_file" => return edits(tool, fields),
            "write_file" if tool == "dir-create" => {
                fields.remove("content");
            }
            "move_file" => {
                fields.remove("copy");
            }
            "read_output" => read_output(&mut fields),
            "read_file" if tool == "output-read" => {
                rename(&mut fields, "path", "id");
                fields.remove("line_numbers");
                read_output(&mut fields);
            }
            "git" => git(tool, &mut fields)?,
            _ => {}
        }
        Ok(BuiltinCall {
            tool,
            arguments: Value::Object(fields),
        })
    }

    /// The built-in tool that the arguments select, even if the arguments are invalid.
    pub(crate) fn select_tool(&self, arguments: &Value) -> &'static str {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default();
        if self.name == "shell" && arguments.get("job").is_some() {
            return "shell-job";
        }
        let uses_second_backing = match self.name {
            "shell" => arguments.get("network_reason").is_some(),
            "read_file" => text("path").parse::<ToolInvocationId>().is_ok(),
            "edit_file" => {
                let has_edits = arguments.get("edits").is_some();
                text("old_string").is_empty() && arguments["new_string"].is_string() && !has_edits
            }
            "write_file" => text("path").ends_with('/') && text("content").is_empty(),
            "delete_file" => arguments.get("recursive").is_some(),
            "move_file" => arguments["copy"] == true,
            "git" => {
                let mut tools = self.backings.iter().map(|backing| backing.tool);
                let command = text("command");
                return tools
                    .find(|tool| tool.strip_prefix("git-") == Some(command))
                    .unwrap_or("git-status");
            }
            _ => false,
        };
        self.backings[usize::from(uses_second_backing)].tool
    }
}

/// Converts arguments to those of `output-read`, which reads lines unless `byte` is given.
fn read_output(fields: &mut Map<String, Value>) {
    if !fields.contains_key("byte") && !fields.contains_key("offset") {
        fields.insert("offset".to_owned(), 1.into());
    }
    rename(fields, "offset", "line");
    rename(fields, "limit", "lines");
    rename(fields, "byte", "offset");
    rename(fields, "id", "invocation");
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

/// Collects the edits of a call, from `edits` and from the top-level arguments.
fn edits(tool: &'static str, mut fields: Map<String, Value>) -> Result<BuiltinCall, String> {
    let mut edits = match fields.remove("edits") {
        Some(Value::Array(edits)) => edits,
        _ => Vec::new(),
    };
    let (old, new) = (fields.remove("old_string"), fields.remove("new_string"));
    let all = fields.remove("replace_all");
    match (old, new) {
        (Some(old), Some(new)) => {
            let mut edit = json!({"old_string": old, "new_string": new});
            if let Some(all) = all {
                edit["replace_all"] = all;
            }
            edits.insert(0, edit);
        }
        (Some(_), None) => return Err("`new_string` is missing".to_owned()),
        (None, Some(_)) => return Err("`old_string` is missing".to_owned()),
        (None, None) => {}
    }
    if edits.is_empty() {
        return Err(
            "`old_string` and `new_string` are missing. Example: {\"path\": \"src/main.py\", \
             \"old_string\": \"x = 1\", \"new_string\": \"x = 2\"}"
                .to_owned(),
        );
    }
    for edit in &mut edits {
        if let Value::Object(edit) = edit {
            rename(edit, "old_string", "old_text");
            rename(edit, "new_string", "new_text");
        }
    }
    fields.insert("edits".to_owned(), Value::Array(edits));
    Ok(BuiltinCall {
        tool,
        arguments: Value::Object(fields),
    })
}

/// Rejects arguments that belong to other git commands.
fn git(tool: &'static str, fields: &mut Map<String, Value>) -> Result<(), String> {
    fields.remove("command");
    let known: &[&str] = match tool {
        "git-diff" => &["from", "to", "path", "staged", "summary"],
        "git-log" => &["from", "path", "limit"],
        "git-show" => &["from", "path"],
        "git-commit" => &["message", "paths"],
        _ => &[],
    };
    let command = tool.trim_start_matches("git-");
    if let Some(other) = fields
        .keys()
        .find(|name| *name != "part" && !known.contains(&name.as_str()))
    {
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            format!("`{}`", known.join("`, `"))
        };
        return Err(format!(
            "git {command} has no argument `{other}`; its arguments: {known}"
        ));
    }
    if tool == "git-commit" && !fields.contains_key("message") {
        return Err("`message` is missing: what was changed and why".to_owned());
    }
    if tool == "git-show" {
        rename(fields, "from", "commit");
    }
    Ok(())
}
