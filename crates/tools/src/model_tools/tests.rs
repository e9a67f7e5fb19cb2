//! Tests of the declarations for models and the translation of their calls.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    EditTool, ModelTool, ToolOffer, called_tool, declarations, resolve_call, table,
    with_model_names,
};
use crate::builtin::NAMES;
use crate::builtin::{FETCH_TOOL, SUBPLAN_TOOL};
use crate::registry::Registry;

/// Maximum total size of the declarations in a conversation, in bytes: about 900 tokens.
const MAX_BYTES: usize = 3_600;
/// Maximum total size of the declarations in a plan, in bytes: about 250 tokens, because a plan sends many requests.
const MAX_PLAN_BYTES: usize = 1_000;

const PLAN: ToolOffer = ToolOffer {
    edit: EditTool::EditFile,
    is_compact: true,
};

#[test]
fn built_in_declarations_stay_below_their_size_limit() {
    for edit in [EditTool::EditFile, EditTool::ApplyPatch] {
        for (is_compact, limit) in [(false, MAX_BYTES), (true, MAX_PLAN_BYTES)] {
            let offer = ToolOffer { edit, is_compact };
            let registry = Registry::with_builtins();
            // Agents get these tools only if their actor or a rule names them.
            let usual = registry.list().filter(|spec| {
                let name = spec.name.to_string();
                name != SUBPLAN_TOOL && !(is_compact && name == FETCH_TOOL)
            });
            let declared = declarations(usual, offer);
            let sizes: Vec<(String, usize)> = declared
                .iter()
                .map(|tool| {
                    let schema = tool.input_schema.to_string();
                    let size = tool.name.len() + tool.description.len() + schema.len();
                    (tool.name.clone(), size)
                })
                .collect();
            let total: usize = sizes.iter().map(|(_, size)| size).sum();
            assert!(total <= limit, "{offer:?}: {total} bytes: {sizes:?}");
        }
    }
}

#[test]
fn an_offer_limits_declared_tools_but_not_callable_tools() {
    let registry = Registry::with_builtins();
    let names = |edit, is_compact| -> Vec<String> {
        let declared = declarations(registry.list(), ToolOffer { edit, is_compact });
        declared.into_iter().map(|tool| tool.name).collect()
    };
    assert_eq!(
        names(EditTool::EditFile, true),
        [
            "shell",
            "read_file",
            "edit_file",
            "ask_user",
            "fetch_url",
            "plan_subplan"
        ]
    );
    assert_eq!(
        names(EditTool::ApplyPatch, false),
        [
            "shell",
            "read_file",
            "write_file",
            "apply_patch",
            "search",
            "find_files",
            "list_dir",
            "delete_file",
            "move_file",
            "git",
            "ask_user",
            "fetch_url",
            "update_plan",
            "plan_subplan"
        ]
    );
    for name in [
        "edit_file",
        "apply_patch",
        "write_file",
        "search",
        "git",
        "list_dir",
        "read_output",
    ] {
        assert!(registry.tool_for_call(name, "{}").is_some(), "{name}");
    }
    // A tool is declared when the tool that would replace it is not available.
    let reading = registry.list().filter(|spec| !spec.capability.is_writing());
    let reading = declarations(reading, PLAN);
    assert!(reading.iter().any(|tool| tool.name == "git"));
    let output = registry
        .list()
        .filter(|spec| spec.name.short() == "output-read");
    assert_eq!(declarations(output, PLAN)[0].name, "read_output");
}

#[test]
fn every_built_in_tool_belongs_to_a_model_tool() {
    let backings = table::TOOLS.iter().flat_map(|tool| tool.backings);
    let backings: BTreeSet<&str> = backings.map(|backing| backing.tool).collect();
    assert_eq!(backings, NAMES.iter().copied().collect());
}

#[test]
fn only_available_tools_are_declared() {
    let registry = Registry::with_builtins();
    let reading = declarations(
        registry.list().filter(|spec| !spec.capability.is_writing()),
        ToolOffer::default(),
    );
    let git = reading.iter().find(|tool| tool.name == "git").expect("git");
    let schema = &git.input_schema["properties"];
    assert_eq!(
        schema["command"]["enum"],
        json!(["status", "diff", "log", "show"])
    );
    assert!(schema.get("message").is_none() && schema.get("paths").is_none());
    assert!(!git.description.contains("commit:"));
    assert!(reading.iter().all(|tool| tool.name != "shell"));
    let declared_names = |short: &str| -> Vec<String> {
        let specs = registry.list().filter(|spec| spec.name.short() == short);
        declarations(specs, ToolOffer::default())
            .into_iter()
            .map(|tool| tool.name)
            .collect()
    };
    assert_eq!(declared_names("file-delete"), ["delete_file"]);
    assert_eq!(
        declared_names("file-copy"),
        ["file_copy"],
        "declared on its own"
    );
}

#[test]
fn calls_of_models_are_resolved_to_built_in_tools() {
    for (name, arguments, expected) in [
        ("shell", json!({"command": "ls"}), "builtin/shell"),
        ("Bash", json!({"command": "ls"}), "builtin/shell"),
        (
            "shell",
            json!({"command": "npm install", "network_reason": "left-pad is missing"}),
            "builtin/shell-network",
        ),
        ("shell", json!({"job": 1}), "builtin/shell-job"),
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
        let tool = called_tool(name, &arguments.to_string()).expect(name);
        assert_eq!(tool.to_string(), expected, "{name} {arguments}");
    }
    assert_eq!(called_tool("rm -rf /", "{}"), None);
}

#[test]
fn arguments_of_models_are_translated_to_those_of_built_in_tools() {
    for (name, given, expected) in [
        (
            "edit_file",
            json!({"filePath": "a", "oldString": "x", "newString": "y", "replaceAll": "true"}),
            json!({"path": "a", "edits": [{"old_text": "x", "new_text": "y", "replace_all": true}]}),
        ),
        (
            "edit_file",
            json!({"path": "a", "old_string": "", "new_string": "x"}),
            json!({"path": "a", "content": "x", "create": true}),
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
            json!({"command": "npm ci", "cwd": "web", "network_reason": "packages are missing"}),
            json!({"command": "npm ci", "folder": "web", "reason": "packages are missing"}),
        ),
        (
            "bash",
            json!({"command": "serve", "run_in_background": true}),
            json!({"command": "serve", "background": true}),
        ),
        (
            "shell",
            json!({"job": "1", "timeout": 30000, "stop": null}),
            json!({"job": 1, "timeout_seconds": 30}),
        ),
        (
            "TodoWrite",
            json!({"todos": [{"content": "read", "status": "pending"}]}),
            json!({"plan": [{"step": "read", "status": "pending"}]}),
        ),
        (
            "search",
            json!({"pattern": "x", "context": 25}),
            json!({"pattern": "x", "context": 20}),
        ),
        (
            "shell",
            json!({"command": "make", "timeout_seconds": 900}),
            json!({"command": "make", "timeout_seconds": 600}),
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
        assert_eq!(translated.arguments, expected, "{name}");
    }
}

#[test]
fn a_call_is_resolved_together_with_its_arguments() {
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for (name, given, expected_tool, expected_arguments) in [
        (
            "cat",
            json!({"file": "a", "start": 3}),
            "builtin/file-read",
            json!({"path": "a", "offset": 3}),
        ),
        (
            "read_file",
            json!({"path": id, "offset": 12}),
            "builtin/output-read",
            json!({"invocation": id, "line": 12}),
        ),
        (
            "edit_file",
            json!({"path": "a"}),
            "builtin/file-edit",
            json!({"path": "a"}),
        ),
        (
            "edit_file",
            json!({"path": "a", "new_string": "x"}),
            "builtin/file-write",
            json!({"path": "a", "content": "x", "create": true}),
        ),
        (
            "local_S_count",
            json!({"x": 1}),
            "local/count",
            json!({"x": 1}),
        ),
    ] {
        let (tool, arguments) = resolve_call(name, &given.to_string()).expect(name);
        assert_eq!(
            (tool.to_string().as_str(), arguments),
            (expected_tool, expected_arguments)
        );
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
