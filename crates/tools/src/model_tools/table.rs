//! The tools declared to models, and other names by which models know them.

use super::{BackingTool, Kind, ModelTool, Property};

const fn backing(tool: &'static str) -> BackingTool {
    backing_with(tool, "", true)
}

const fn backing_with(tool: &'static str, about: &'static str, is_enough: bool) -> BackingTool {
    BackingTool {
        tool,
        about,
        is_enough,
    }
}

const fn property(name: &'static str, kind: Kind, about: &'static str) -> Property {
    property_of(name, kind, about, &[])
}

const fn property_of(
    name: &'static str,
    kind: Kind,
    about: &'static str,
    tools: &'static [&'static str],
) -> Property {
    Property {
        name,
        kind,
        about,
        tools,
        is_declared: true,
    }
}

/// An argument that is accepted but not declared, because models rarely need it.
const fn hidden(name: &'static str, kind: Kind) -> Property {
    Property {
        name,
        kind,
        about: "",
        tools: &[],
        is_declared: false,
    }
}

/// Names that models know from other programs, and the tool each refers to.
pub(super) const OTHER_NAMES: &[(&str, &str)] = &[
    ("bash", "shell"),
    ("exec_command", "shell"),
    ("execute_command", "shell"),
    ("run_command", "shell"),
    ("run_shell_command", "shell"),
    ("terminal", "shell"),
    ("cat", "read_file"),
    ("open_file", "read_file"),
    ("read", "read_file"),
    ("view", "read_file"),
    ("edit", "edit_file"),
    ("multi_edit", "edit_file"),
    ("replace", "edit_file"),
    ("str_replace", "edit_file"),
    ("create_file", "write_file"),
    ("write", "write_file"),
    ("applypatch", "apply_patch"),
    ("patch", "apply_patch"),
    ("grep", "search"),
    ("grep_search", "search"),
    ("ripgrep", "search"),
    ("search_file_content", "search"),
    ("search_files", "search"),
    ("search_text", "search"),
    ("file_search", "find_files"),
    ("glob", "find_files"),
    ("list_directory", "list_dir"),
    ("list_files", "list_dir"),
    ("ls", "list_dir"),
    ("rename_file", "move_file"),
    ("remove_file", "delete_file"),
    ("ask", "ask_user"),
    ("fetch", "fetch_url"),
    ("web_fetch", "fetch_url"),
    ("webfetch", "fetch_url"),
    ("question", "ask_user"),
    ("bash_output", "shell"),
    ("todo_write", "update_plan"),
    ("todowrite", "update_plan"),
];

/// The tools, in the order of their declaration.
pub(super) const TOOLS: &[ModelTool] = &[
    ModelTool {
        name: "shell",
        about: "Run a bash command in the top folder.",
        backings: &[
            backing("shell"),
            backing_with("shell-network", "", false),
            backing_with("shell-job", "", false),
        ],
        required: &[],
        properties: &[
            property("command", Kind::FilledText, ""),
            hidden("workdir", Kind::Text),
            property("timeout_seconds", Kind::Range(1, 600), ""),
            property_of("background", Kind::Flag, "", &["shell-job"]),
            property_of("job", Kind::From(1), "", &["shell-job"]),
            hidden("offset", Kind::From(0)),
            property_of("stop", Kind::Flag, "", &["shell-job"]),
            property_of("network_reason", Kind::FilledText, "", &["shell-network"]),
        ],
    },
    ModelTool {
        name: "read_file",
        about: "Read a file, an image, or an output by its id.",
        backings: &[backing("file-read"), backing_with("output-read", "", false)],
        required: &["path"],
        properties: &[
            property("path", Kind::Text, ""),
            property("offset", Kind::From(1), ""),
            property("limit", Kind::From(1), ""),
            hidden("line_numbers", Kind::Flag),
            hidden("byte", Kind::From(0)),
        ],
    },
    ModelTool {
        name: "edit_file",
        about: "Replace text that occurs once in a file.",
        backings: &[
            backing("file-edit"),
            backing_with("file-write", "Without old_string: create the file.", false),
        ],
        required: &["path", "new_string"],
        properties: &[
            property("path", Kind::Text, ""),
            property("old_string", Kind::Text, ""),
            property("new_string", Kind::Text, ""),
            property("replace_all", Kind::Flag, ""),
            hidden("edits", Kind::Edits),
        ],
    },
    ModelTool {
        name: "write_file",
        about: "Create a file, or replace all of its content.",
        backings: &[backing("file-write"), backing_with("dir-create", "", false)],
        required: &["path", "content"],
        properties: &[
            property("path", Kind::Text, ""),
            property("content", Kind::Text, ""),
        ],
    },
    ModelTool {
        name: "apply_patch",
        about: "Change files: *** Begin Patch, *** Update File: a, *** Add File: b, *** Delete File: c, *** End Patch.",
        backings: &[backing("apply-patch")],
        required: &["patch"],
        properties: &[property("patch", Kind::FilledText, "")],
    },
    ModelTool {
        name: "search",
        about: "Search files for a regular expression.",
        backings: &[backing("file-search")],
        required: &["pattern"],
        properties: &[
            property("pattern", Kind::FilledText, ""),
            property("path", Kind::Text, ""),
            property("glob", Kind::Text, "Such as *.rs"),
            hidden("literal", Kind::Flag),
            hidden("ignore_case", Kind::Flag),
            hidden("context", Kind::Range(0, 20)),
            hidden("hidden", Kind::Flag),
            hidden("limit", Kind::Range(1, 5_000)),
        ],
    },
    ModelTool {
        name: "find_files",
        about: "Find files by path.",
        backings: &[backing("file-find")],
        required: &["pattern"],
        properties: &[
            property("pattern", Kind::FilledText, "Glob, such as src/**/test_*"),
            property("path", Kind::Text, ""),
            hidden("hidden", Kind::Flag),
            hidden("limit", Kind::Range(1, 20_000)),
        ],
    },
    ModelTool {
        name: "list_dir",
        about: "List a directory. Default: the root of the sandbox.",
        backings: &[backing("dir-list")],
        required: &[],
        properties: &[
            property("path", Kind::Text, ""),
            property("depth", Kind::Range(1, 10), "Levels, default 1"),
            property("limit", Kind::Range(1, 10_000), ""),
        ],
    },
    ModelTool {
        name: "delete_file",
        about: "Delete a file or symlink.",
        backings: &[
            backing("file-delete"),
            backing_with(
                "dir-delete",
                "Set recursive to delete a directory with its contents; false deletes an empty one.",
                false,
            ),
        ],
        required: &["path"],
        properties: &[
            property("path", Kind::Text, ""),
            property_of("recursive", Kind::Flag, "", &["dir-delete"]),
        ],
    },
    ModelTool {
        name: "move_file",
        about: "Move or rename a file or directory.",
        backings: &[
            backing("file-move"),
            backing_with("file-copy", "Set copy to keep the original.", false),
        ],
        required: &["from", "to"],
        properties: &[
            property("from", Kind::Text, ""),
            property("to", Kind::Text, "Full new path"),
            property_of("copy", Kind::Flag, "", &["file-copy"]),
            property("overwrite", Kind::Flag, "Replace an existing file at `to`"),
        ],
    },
    ModelTool {
        name: "git",
        about: "",
        backings: &[
            backing_with("git-status", "status: branch and changed files.", true),
            backing_with(
                "git-diff",
                "diff: changes since the sandbox was created, or since `from`.",
                true,
            ),
            backing_with("git-log", "log: commits, newest first.", true),
            backing_with("git-show", "show: commit `from`, or `path` in it.", true),
            backing_with(
                "git-commit",
                "commit: commit changes in the sandbox; the user's repository is not changed.",
                true,
            ),
        ],
        required: &["command"],
        properties: &[
            property("command", Kind::GitCommand, ""),
            property_of("from", Kind::Text, "", &["git-diff", "git-log", "git-show"]),
            hidden("to", Kind::Text),
            property_of("path", Kind::Text, "", &["git-diff", "git-log", "git-show"]),
            hidden("staged", Kind::Flag),
            hidden("summary", Kind::Flag),
            hidden("limit", Kind::Range(1, 1_000)),
            property_of("message", Kind::FilledText, "", &["git-commit"]),
            property_of("paths", Kind::Texts, "Files to commit", &["git-commit"]),
            hidden("part", Kind::Text),
        ],
    },
    ModelTool {
        name: "ask_user",
        about: "Ask what only the user knows.",
        backings: &[backing("ask-user")],
        required: &["question"],
        properties: &[
            property("question", Kind::FilledText, ""),
            property("options", Kind::Texts, ""),
        ],
    },
    ModelTool {
        name: "fetch_url",
        about: "Read a public https page as text; asks the user.",
        backings: &[backing("fetch-url")],
        required: &["url"],
        properties: &[property("url", Kind::FilledText, "")],
    },
    ModelTool {
        name: "update_plan",
        about: "Keep a checklist that the user sees, for work of several steps.",
        backings: &[backing("update-plan")],
        required: &["plan"],
        properties: &[property("plan", Kind::Checklist, "")],
    },
    ModelTool {
        name: "plan_subplan",
        about: "Request a child plan for a part of the task. Child plans run at the same time, each in a copy of the \
                files, when this step is done; then their changes are merged. For parts that change different files.",
        backings: &[backing("plan-subplan")],
        required: &["title", "description"],
        properties: &[
            property("title", Kind::FilledText, ""),
            property("description", Kind::Text, "Complete instructions"),
            property("files", Kind::Texts, "Paths that the part changes"),
        ],
    },
    ModelTool {
        name: "read_output",
        about: "Read more of the truncated output of an earlier call.",
        backings: &[backing("output-read")],
        required: &["id"],
        properties: &[
            property("id", Kind::Text, "Given with the truncated output"),
            property("offset", Kind::From(1), "First line, from 1"),
            property("limit", Kind::From(1), "Number of lines"),
            property("byte", Kind::From(0), "First byte, instead of offset"),
        ],
    },
];
