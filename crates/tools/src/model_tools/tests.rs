//! Tests of the declarations for models and the translation of their calls.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ModelTool, called_tool, declarations, table, with_model_names};
use crate::builtin::NAMES;
use crate::registry::Registry;

/// Maximum total size of all built-in declarations: 1,500 tokens of about 4 bytes.
const MAX_BYTES: usize = 6_000;

#[test]
fn built_in_declarations_stay_below_their_size_limit() {
    let declared = declarations(Registry::with_builtins().list());
    let sizes: Vec<(String, usize)> = declared
        .iter()
        .map(|tool| {
            let schema = tool.input_schema.to_string();
            let size = tool.name.len() + tool.description.len() + schema.len();
            (tool.name.clone(), size)
        })
        .collect();
    let total: usize = sizes.iter().map(|(_, size)| size).sum();
    assert!(total <= MAX_BYTES, "{total} bytes: {sizes:?}");
}

#[test]
fn every_built_in_tool_is_declared_once() {
    let registry = Registry::with_builtins();
    let declared = declarations(registry.list());
    let names: Vec<&str> = declared.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "shell",
            "read_file",
            "edit_file",
            "write_file",
            "apply_patch",
            "search",
            "find_files",
            "list_dir",
            "delete_file",
            "move_file",
            "git",
            "ask_user",
            "read_output"
        ]
    );
    let backings = table::TOOLS.iter().flat_map(|tool| tool.backings);
    let backings: BTreeSet<&str> = backings.map(|backing| backing.tool).collect();
    assert_eq!(backings, NAMES.iter().copied().collect());
}

#[test]
fn only_available_tools_are_declared() {
    let registry = Registry::with_builtins();
    let reading = declarations(registry.list().filter(|spec| !spec.capability.is_writing()));
    let git = reading.iter().find(|tool| tool.name == "git").expect("git");
    let schema = &git.input_schema["properties"];
    assert_eq!(
        schema["command"]["enum"],
        json!(["status", "diff", "log", "show"])
    );
    assert!(schema.get("message").is_none() && schema.get("paths").is_none());
    assert!(!git.description.contains("commit:"));
    assert!(reading.iter().all(|tool| tool.name != "shell"));
    let one = |short: &str| -> Vec<String> {
        let specs = registry.list().filter(|spec| spec.name.short() == short);
        declarations(specs)
            .into_iter()
            .map(|tool| tool.name)
            .collect()
    };
    assert_eq!(one("file-delete"), ["delete_file"]);
    assert_eq!(one("file-copy"), ["file_copy"], "declared on its own");
}

#[test]
fn calls_of_models_are_resolved_to_built_in_tools() {
    for (name, arguments, meant) in [
        ("shell", json!({"command": "ls"}), "builtin/shell"),
        ("Bash", json!({"command": "ls"}), "builtin/shell"),
        ("git", json!({"command": "diff"}), "builtin/git-diff"),
        ("git", json!({"command": "commit"}), "builtin/git-commit"),
        (
            "move_file",
            json!({"from": "a", "to": "b"}),
            "builtin/file-move",
        ),
        (
            "move_file",
            json!({"from": "a", "to": "b", "copy": true}),
            "builtin/file-copy",
        ),
        (
            "delete_file",
            json!({"path": "a", "recursive": true}),
            "builtin/dir-delete",
        ),
        ("delete_file", json!({"path": "a"}), "builtin/file-delete"),
        (
            "write_file",
            json!({"path": "a/", "content": ""}),
            "builtin/dir-create",
        ),
        ("builtin_S_file-read", json!({}), "builtin/file-read"),
        ("file_copy", json!({}), "builtin/file-copy"),
        ("search_tools", json!({}), "builtin/search-tools"),
        ("local_S_count", json!({}), "local/count"),
        ("count", json!({}), "local/count"),
    ] {
        let found = called_tool(name, &arguments.to_string()).expect(name);
        assert_eq!(found.to_string(), meant, "{name} {arguments}");
    }
    assert_eq!(called_tool("rm -rf /", "{}"), None);
}

#[test]
fn arguments_of_models_are_translated_to_those_of_built_in_tools() {
    for (name, given, wanted) in [
        (
            "edit_file",
            json!({"filePath": "a", "oldString": "x", "newString": "y", "replaceAll": "true"}),
            json!({"path": "a", "edits": [{"old_text": "x", "new_text": "y", "replace_all": true}]}),
        ),
        (
            "edit_file",
            json!({"file_path": "a", "edits": [{"old_text": "x", "new": "y"}]}),
            json!({"path": "a", "edits": [{"old_text": "x", "new_text": "y"}]}),
        ),
        (
            "shell",
            json!({"cmd": ["bash", "-lc", "echo a"], "cwd": "src", "timeout": 5000}),
            json!({"command": "echo a", "folder": "src", "timeout_seconds": 5}),
        ),
        (
            "shell",
            json!({"command": ["echo", "a b"]}),
            json!({"command": "echo 'a b'"}),
        ),
        (
            "read_output",
            json!({"invocation": "01", "offset": "12"}),
            json!({"invocation": "01", "line": 12}),
        ),
        (
            "git",
            json!({"command": "show", "from": "HEAD~1", "path": null}),
            json!({"commit": "HEAD~1"}),
        ),
        (
            "search",
            json!({"query": "x", "include": "*.rs", "case_insensitive": true}),
            json!({"pattern": "x", "glob": "*.rs", "ignore_case": true}),
        ),
    ] {
        let tool = ModelTool::find(name).expect(name);
        let (_, validator) = tool.checks();
        let mut arguments: Value = given;
        tool.normalize_arguments(&mut arguments).expect(name);
        assert!(validator.is_valid(&arguments), "{name}: {arguments}");
        let translated = tool.translate(arguments).expect(name);
        assert_eq!(translated.arguments, wanted, "{name}");
    }
}

#[test]
fn texts_for_models_use_model_names() {
    let text = with_model_names(
        "use builtin/file-edit, `builtin/git-commit`; builtin/dir-delete(a) or builtin/other.",
    );
    assert_eq!(
        text,
        "use edit_file, `git commit`; delete_file(a) or builtin/other."
    );
}
