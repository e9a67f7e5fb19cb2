//! [`prune`]: removes from a conversation the tool results that the next phase does not need.
//!
//! Stubs that name the call replace long results of searches, listings, commands and file reads.
//! Failed results, answers of the user, short results, the content of the kept files and all messages
//! of the model stay. The pruned conversation is stored once, so that the prompt cache of later
//! requests stays valid.

use std::collections::HashMap;

use cleveragents_domain::Message;
use cleveragents_models::{ChatMessage, ToolCall};
use cleveragents_tools::resolve_call;
use serde_json::Value;

use crate::turn::{chat_message, set_chat_message};

/// Results up to this size, in bytes, stay. Replacing a result invalidates the provider's prompt cache for everything
/// after it, which costs more than a short result saves.
const MIN_PRUNED_BYTES: usize = 4_000;

/// Maximum size of the call in a stub, in bytes.
const SHOWN_CALL_BYTES: usize = 120;

/// Replaces long results with stubs. The content of `kept_files` stays.
pub(crate) fn prune(messages: &mut [Message], kept_files: &[String]) {
    let mut calls: HashMap<String, ToolCall> = HashMap::new();
    for message in messages {
        match chat_message(message) {
            Some(ChatMessage::Assistant(answer)) => {
                calls.extend(answer.calls.into_iter().map(|call| (call.id.clone(), call)));
            }
            Some(ChatMessage::Tool { mut results }) => {
                let mut is_pruned = false;
                for result in results.iter_mut().filter(|result| !result.is_error) {
                    let stub = calls
                        .get(&result.call_id)
                        .filter(|_| result.content.len() > MIN_PRUNED_BYTES)
                        .and_then(|call| stub(call, &result.content, kept_files));
                    if let Some(stub) = stub {
                        result.content = stub;
                        result.pictures.clear();
                        is_pruned = true;
                    }
                }
                if is_pruned {
                    set_chat_message(message, &ChatMessage::Tool { results });
                }
            }
            _ => {}
        }
    }
}

/// The paths of the files that a conversation reads with the file tool.
pub(crate) fn read_paths(messages: &[Message]) -> Vec<String> {
    let answers = messages
        .iter()
        .filter_map(|message| match chat_message(message) {
            Some(ChatMessage::Assistant(answer)) => Some(answer.calls),
            _ => None,
        });
    let mut paths: Vec<String> = answers
        .flatten()
        .filter_map(|call| resolve_call(&call.name, &call.arguments))
        .filter(|(tool, _)| tool.is_builtin() && tool.short() == "file-read")
        .filter_map(|(_, arguments)| arguments["path"].as_str().map(str::to_owned))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The stub that replaces a result; `None` when the result stays.
fn stub(call: &ToolCall, content: &str, kept_files: &[String]) -> Option<String> {
    let (tool, arguments) = resolve_call(&call.name, &call.arguments)?;
    if !tool.is_builtin() {
        return None;
    }
    let text = |name: &str| arguments[name].as_str().unwrap_or_default();
    let is_kept = |path: &str| kept_files.iter().any(|kept| is_same_file(kept, path));
    let shown = match tool.short() {
        "file-read" if is_kept(text("path")) => return None,
        "file-read" => format!("read_file {}", text("path")),
        "shell" if kept_files.iter().any(|kept| text("command").contains(kept)) => return None,
        "shell" => format!("shell {}", text("command")),
        "file-search" => format!("search {}", text("pattern")),
        "file-find" => format!("find_files {}", text("pattern")),
        "dir-list" => format!("list_dir {}", text("path")),
        "output-read" | "git-status" | "git-diff" | "git-log" | "git-show" => {
            format!("{} {}", call.name, one_line(&arguments))
        }
        _ => return None,
    };
    let shown = shown.replace('\n', " ");
    let end = shown.floor_char_boundary(SHOWN_CALL_BYTES);
    let more = if end < shown.len() { "…" } else { "" };
    let lines = content.lines().count();
    Some(format!(
        "[Result of `{}{more}`, {lines} lines, left out of this phase. Repeat the call if you need it.]",
        shown[..end].trim_end()
    ))
}

/// Whether two paths refer to the same file; one of them may be prefixed with the name of its part.
fn is_same_file(left: &str, right: &str) -> bool {
    let (left, right) = (
        left.trim_start_matches("./"),
        right.trim_start_matches("./"),
    );
    let ends_with = |long: &str, short: &str| {
        long.strip_suffix(short)
            .is_some_and(|prefix| prefix.ends_with('/'))
    };
    !left.is_empty() && (left == right || ends_with(left, right) || ends_with(right, left))
}

fn one_line(arguments: &Value) -> String {
    match arguments {
        Value::Object(fields) if fields.is_empty() => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_models::ToolCall;

    use super::{is_same_file, stub};

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id: "1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            signature: None,
        }
    }

    #[test]
    fn results_that_the_next_phase_needs_stay() {
        let kept = ["src/range.c".to_owned()];
        let stays =
            |name: &str, arguments: &str| stub(&call(name, arguments), "x\n", &kept).is_none();
        assert!(stays(
            "read_file",
            r#"{"path": "src/range.c", "offset": 3}"#
        ));
        assert!(stays("cat", r#"{"file": "shop/src/range.c"}"#));
        assert!(stays("shell", r#"{"command": "sed -n 1,9p src/range.c"}"#));
        assert!(stays("ask_user", r#"{"question": "which?"}"#));
        assert!(stays("local_S_count", "{}"));
        assert!(!stays("read_file", r#"{"path": "src/other.c"}"#));
        assert!(!stays("search", r#"{"pattern": "range"}"#));
        assert!(!stays("git", r#"{"command": "log"}"#));
        let stub = stub(&call("grep", r#"{"pattern": "a\nb"}"#), "1\n2\n3\n", &kept);
        let stub = stub.expect("a stub");
        assert!(stub.contains("`search a b`, 3 lines"), "{stub}");
    }

    #[test]
    fn a_path_with_the_name_of_its_part_is_the_same_file() {
        assert!(is_same_file("shop/a.c", "a.c") && is_same_file("./a.c", "a.c"));
        assert!(!is_same_file("ba.c", "a.c") && !is_same_file("", "a.c"));
    }
}
