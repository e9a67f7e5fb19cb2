//! Accepts argument names and value types that models know from other programs.

use serde_json::{Map, Value};

/// Groups of names for the same argument. A name is replaced by the name in its group that the tool declares.
const GROUPS: &[&[&str]] = &[
    &[
        "path",
        "file_path",
        "filepath",
        "file",
        "filename",
        "file_name",
        "target_file",
        "directory",
        "dir",
        "dir_path",
    ],
    &[
        "old_string",
        "old_text",
        "old_str",
        "old",
        "search",
        "before",
    ],
    &[
        "new_string",
        "new_text",
        "new_str",
        "new",
        "replacement",
        "after",
    ],
    &["command", "cmd", "script", "subcommand"],
    &["pattern", "query", "regex", "text", "glob"],
    &["glob", "include", "file_pattern"],
    &["content", "contents", "file_text", "text", "data"],
    &[
        "workdir",
        "folder",
        "cwd",
        "working_directory",
        "directory",
        "dir",
    ],
    &["timeout_seconds", "timeout", "timeout_secs", "timeout_ms"],
    &["offset", "start_line", "line_start", "start", "line"],
    &["limit", "max_results", "head_limit", "lines", "num_lines"],
    &["ignore_case", "case_insensitive", "-i"],
    &["context", "context_lines", "-c"],
    &["from", "source", "src", "old_path", "from_path", "commit"],
    &["to", "destination", "dest", "target", "new_path", "to_path"],
    &["patch", "input", "diff", "patch_text"],
    &["question", "prompt", "message"],
    &["options", "choices"],
    &["id", "invocation", "call_id"],
    &["message", "msg", "commit_message"],
    &["paths", "files"],
    &["background", "run_in_background", "is_background"],
    &["job", "job_id", "bash_id", "shell_id"],
    &["plan", "todos", "items"],
    &["step", "content", "title", "task"],
];

/// The names of the properties of a schema.
pub(crate) fn properties_of(schema: &Value) -> Vec<&str> {
    let properties = schema["properties"].as_object();
    properties
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect()
}

/// Converts argument names and types to the names and types in a schema, where the meaning is unambiguous.
pub(crate) fn normalize(schema: &Value, arguments: &mut Value) {
    let Value::Object(fields) = arguments else {
        return;
    };
    rename_fields(&properties_of(schema), fields);
    for (name, value) in fields.iter_mut() {
        let property = &schema["properties"][name];
        convert(property, name, value);
        limit(property, value);
        if let Value::Array(items) = value {
            for item in items {
                normalize(&property["items"], item);
            }
        }
    }
    // Some models send null for omitted arguments.
    let required = schema["required"].as_array();
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
    fields.retain(|name, value| !value.is_null() || is_required(name));
}

fn rename_fields(known: &[&str], fields: &mut Map<String, Value>) {
    let unknown: Vec<String> = fields
        .keys()
        .filter(|name| !known.contains(&name.as_str()))
        .cloned()
        .collect();
    for name in unknown {
        let plain = snake_case(&name);
        let same = known.iter().find(|known| **known == plain);
        let declared = same.or_else(|| {
            let groups = GROUPS
                .iter()
                .filter(|group| group.contains(&plain.as_str()));
            let mut declared =
                groups.flat_map(|group| known.iter().filter(|known| group.contains(known)));
            declared.find(|known| !fields.contains_key(**known))
        });
        let Some(declared) = declared.filter(|declared| !fields.contains_key(**declared)) else {
            continue;
        };
        if let Some(value) = fields.remove(&name) {
            let value = if name.eq_ignore_ascii_case("timeout_ms") {
                value
                    .as_u64()
                    .map_or(value, |time| time.div_ceil(1_000).into())
            } else {
                value
            };
            fields.insert((*declared).to_owned(), value);
        }
    }
}

/// Converts `filePath` and `FilePath` to `file_path`.
fn snake_case(name: &str) -> String {
    let mut plain = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !plain.is_empty() && !plain.ends_with(['_', '-']) {
            plain.push('_');
        }
        plain.push(letter.to_ascii_lowercase());
    }
    plain
}

/// Converts a value to the type in the schema, if the conversion is unambiguous.
fn convert(property: &Value, name: &str, value: &mut Value) {
    let accepts = |kind: &str| match &property["type"] {
        Value::String(declared) => declared == kind,
        Value::Array(kinds) => kinds.iter().any(|declared| declared == kind),
        _ => false,
    };
    let converted = match value {
        Value::String(text) if accepts("integer") => {
            text.trim().parse::<u64>().ok().map(Value::from)
        }
        Value::String(text) if accepts("boolean") => match text.as_str() {
            "true" | "True" => Some(Value::Bool(true)),
            "false" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        Value::Number(number) if accepts("integer") && !number.is_u64() => number
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..1e15).contains(number))
            .and_then(|number| format!("{number:.0}").parse::<u64>().ok())
            .map(Value::from),
        Value::String(text) if accepts("array") && !accepts("string") => {
            let list = serde_json::from_str::<Value>(text).ok();
            list.filter(Value::is_array)
        }
        Value::Array(words) if name == "command" && accepts("string") => command_line(words),
        _ => None,
    };
    if let Some(converted) = converted {
        *value = converted;
    }
    // Other programs give this limit in milliseconds.
    if name == "timeout_seconds"
        && let Some(time) = value.as_u64().filter(|time| *time >= 1_000)
    {
        *value = time.div_ceil(1_000).into();
    }
}

/// Limits an integer to the maximum in the schema, which declarations omit. A number below the minimum is an error,
/// because its meaning is unclear.
fn limit(property: &Value, value: &mut Value) {
    if let (Some(number), Some(maximum)) = (value.as_u64(), property["maximum"].as_u64()) {
        *value = number.min(maximum).into();
    }
}

/// Converts a command given as a list of words to a shell command line.
fn command_line(words: &[Value]) -> Option<Value> {
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    let line = match words.as_slice() {
        [
            "bash" | "sh" | "/bin/bash" | "/bin/sh",
            "-c" | "-lc",
            script,
        ] => (*script).to_owned(),
        words => {
            let quoted = words.iter().map(|word| quoted(word));
            quoted.collect::<Vec<_>>().join(" ")
        }
    };
    Some(line.into())
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
