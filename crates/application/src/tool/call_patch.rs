//! [`edit_patch`]: shows the file change of a tool call as a diff, for front ends.

use std::fmt::Write as _;

use cleveragents_models::ToolCall;
use cleveragents_tools::resolve_call;
use serde_json::Value;

/// Maximum size of a patch, in bytes.
const MAX_BYTES: usize = 6_000;

/// The change of a call that edits or writes a file, as a unified diff without line numbers, cut at
/// [`MAX_BYTES`]. `None` for other calls. The diff is built from the arguments of the call, for display
/// while a plan runs; the final diff of a plan is computed from files.
pub(crate) fn edit_patch(call: &ToolCall) -> Option<String> {
    let (tool, arguments) = resolve_call(&call.name, &call.arguments)?;
    if !tool.is_builtin() {
        return None;
    }
    let file = arguments["path"].as_str().unwrap_or_default();
    let mut patch = String::new();
    match tool.short() {
        "file-edit" => {
            let _written = writeln!(patch, "--- {file}\n+++ {file}");
            for edit in arguments["edits"].as_array()? {
                patch.push_str("@@\n");
                add_lines('-', &edit["old_text"], &mut patch);
                add_lines('+', &edit["new_text"], &mut patch);
            }
        }
        "file-write" => {
            let _written = writeln!(patch, "+++ {file}\n@@");
            add_lines('+', &arguments["content"], &mut patch);
        }
        "apply-patch" => patch.push_str(arguments["patch"].as_str()?.trim()),
        _ => return None,
    }
    if patch.len() > MAX_BYTES {
        let end = patch[..patch.floor_char_boundary(MAX_BYTES)]
            .rfind('\n')
            .unwrap_or(0);
        let total = patch.lines().count();
        patch.truncate(end);
        let more = total - patch.lines().count();
        let _written = write!(patch, "\n… {more} more lines");
    }
    Some(patch.trim_end().to_owned())
}

fn add_lines(sign: char, text: &Value, patch: &mut String) {
    for line in text.as_str().unwrap_or_default().lines() {
        let _written = writeln!(patch, "{sign}{line}");
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_models::ToolCall;
    use serde_json::json;

    use super::{MAX_BYTES, edit_patch};

    fn patch(name: &str, arguments: &serde_json::Value) -> Option<String> {
        edit_patch(&ToolCall {
            id: "1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            signature: None,
        })
    }

    #[test]
    fn edits_are_shown_as_removed_and_added_lines() {
        let edit = json!({"path": "a.c", "old_string": "x = 1\ny", "new_string": "x = 2\ny"});
        assert_eq!(
            patch("edit_file", &edit).as_deref(),
            Some("--- a.c\n+++ a.c\n@@\n-x = 1\n-y\n+x = 2\n+y")
        );
        let write = json!({"path": "b", "content": "one\n"});
        assert_eq!(
            patch("write_file", &write).as_deref(),
            Some("+++ b\n@@\n+one")
        );
        assert_eq!(patch("shell", &json!({"command": "ls"})), None);
        let long = json!({"path": "b", "content": "é\n".repeat(MAX_BYTES)});
        let long = patch("write_file", &long).expect("a patch");
        assert!(long.len() < MAX_BYTES + 40 && long.contains("more lines"));
    }
}
