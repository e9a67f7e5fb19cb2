//! The built-in resource types, as one table.
//!
//! A type declares a capability only when it is implemented. Containers, MySQL databases and DuckDB databases can be
//! registered but support no operations yet, so their types declare none. Virtual types are identities that physical
//! resources with the same content share.

use std::sync::LazyLock;

use crate::SandboxStrategy;
use crate::resource_type::{
    Activation, Argument, ArgumentType, AutoDiscovery, Capabilities, ChildType, ResourceKind,
    ResourceType, TypeName,
};

/// One row of the table.
struct Line {
    name: &'static str,
    description: &'static str,
    addable: bool,
    arguments: &'static [Flag],
    parents: &'static [&'static str],
    children: &'static [(&'static str, ChildDiscovery)],
    handler: Option<&'static str>,
    strategy: Option<SandboxStrategy>,
    operations: SupportedOperations,
    inherits: Option<&'static str>,
    /// Paths at which discovery looks for resources of this type, and the parent types below which it looks.
    found_at: Option<(&'static [&'static str], &'static [&'static str])>,
    equivalence: &'static [&'static str],
}

/// An argument of a type: name, type of the value, whether it is required, help text.
type Flag = (&'static str, ArgumentType, Need, &'static str);

enum Need {
    Required,
    Optional,
}

/// Whether discovery looks for children.
enum ChildDiscovery {
    Yes,
    No,
}

/// Operations that a resource supports.
enum SupportedOperations {
    All,
    Nothing,
}

use ChildDiscovery::{No, Yes};
use Need::{Optional, Required};

const BLANK: Line = Line {
    name: "",
    description: "",
    addable: false,
    arguments: &[],
    parents: &[],
    children: &[],
    handler: None,
    strategy: None,
    operations: SupportedOperations::Nothing,
    inherits: None,
    found_at: None,
    equivalence: &[],
};

/// A part of a git repository.
const fn git_part(name: &'static str, description: &'static str) -> Line {
    Line {
        name,
        description,
        parents: &["git"],
        handler: Some("git"),
        ..BLANK
    }
}

const fn container_part(name: &'static str, description: &'static str) -> Line {
    Line {
        name,
        description,
        parents: &["container-instance"],
        handler: Some("container"),
        ..BLANK
    }
}

/// A virtual type.
const fn identity(
    name: &'static str,
    description: &'static str,
    equivalence: &'static [&'static str],
) -> Line {
    Line {
        name,
        description,
        equivalence,
        ..BLANK
    }
}

const IN_A_FOLDER: &[(&str, ChildDiscovery)] = &[
    ("git-checkout", No),
    ("fs-directory", No),
    ("fs-file", No),
    ("fs-symlink", No),
    ("fs-hardlink", No),
    ("sqlite", No),
    ("duckdb", No),
    ("devcontainer-instance", Yes),
];

const FOLDERS: &[&str] = &["git-checkout", "fs-mount", "fs-directory"];

const TABLE: &[Line] = &[
    Line {
        name: "git-checkout",
        description: "A git repository with its working tree, or a bare one",
        addable: true,
        arguments: &[
            (
                "path",
                ArgumentType::Path,
                Required,
                "The root of the repository",
            ),
            (
                "branch",
                ArgumentType::String,
                Optional,
                "The branch to work from; the one checked out when not given",
            ),
        ],
        children: &[
            ("git", Yes),
            ("fs-directory", Yes),
            ("fs-file", No),
            ("sqlite", No),
            ("duckdb", No),
            ("devcontainer-instance", Yes),
        ],
        handler: Some("git-checkout"),
        strategy: Some(SandboxStrategy::GitWorktree),
        operations: SupportedOperations::All,
        ..BLANK
    },
    Line {
        name: "git",
        description: "The object database of a git repository",
        parents: &["git-checkout"],
        children: &[
            ("git-remote", No),
            ("git-branch", No),
            ("git-tag", No),
            ("git-commit", No),
            ("git-stash", No),
            ("git-submodule", No),
        ],
        handler: Some("git"),
        ..BLANK
    },
    git_part("git-remote", "A remote of a git repository"),
    git_part("git-branch", "A branch of a git repository"),
    git_part("git-tag", "A tag of a git repository"),
    Line {
        children: &[("git-tree", No)],
        ..git_part("git-commit", "A commit of a git repository")
    },
    Line {
        parents: &["git-commit"],
        children: &[("git-tree-entry", No)],
        ..git_part("git-tree", "The files of a commit")
    },
    Line {
        parents: &["git-tree"],
        ..git_part("git-tree-entry", "A file or folder of a tree")
    },
    git_part("git-stash", "A stash of a git repository"),
    git_part("git-submodule", "A repository inside a git repository"),
    Line {
        name: "fs-mount",
        description: "A mounted file system",
        addable: true,
        arguments: &[("path", ArgumentType::Path, Required, "The mount point")],
        children: IN_A_FOLDER,
        handler: Some("filesystem"),
        strategy: Some(SandboxStrategy::CopyOnWrite),
        operations: SupportedOperations::All,
        ..BLANK
    },
    Line {
        name: "fs-directory",
        description: "A folder with everything below it",
        addable: true,
        arguments: &[("path", ArgumentType::Path, Required, "The folder")],
        parents: FOLDERS,
        children: IN_A_FOLDER,
        handler: Some("filesystem"),
        strategy: Some(SandboxStrategy::CopyOnWrite),
        operations: SupportedOperations::All,
        ..BLANK
    },
    Line {
        name: "fs-file",
        description: "A file",
        addable: true,
        arguments: &[("path", ArgumentType::Path, Required, "The file")],
        parents: FOLDERS,
        handler: Some("filesystem"),
        strategy: Some(SandboxStrategy::CopyOnWrite),
        operations: SupportedOperations::All,
        ..BLANK
    },
    Line {
        name: "fs-symlink",
        description: "A symbolic link",
        parents: FOLDERS,
        handler: Some("filesystem"),
        ..BLANK
    },
    Line {
        name: "fs-hardlink",
        description: "A further hard link to a file",
        parents: FOLDERS,
        handler: Some("filesystem"),
        ..BLANK
    },
    Line {
        name: "sqlite",
        description: "An SQLite database file",
        addable: true,
        arguments: &[("path", ArgumentType::Path, Required, "The database file")],
        parents: FOLDERS,
        handler: Some("database"),
        strategy: Some(SandboxStrategy::TransactionRollback),
        operations: SupportedOperations::All,
        ..BLANK
    },
    Line {
        name: "postgres",
        description: "A PostgreSQL database",
        addable: true,
        arguments: &[(
            "url",
            ArgumentType::Url,
            Required,
            "The address, such as postgres://user@host/database",
        )],
        handler: Some("database"),
        strategy: Some(SandboxStrategy::TransactionRollback),
        operations: SupportedOperations::All,
        ..BLANK
    },
    Line {
        name: "mysql",
        description: "A MySQL database; it can be registered, but has no operations yet",
        addable: true,
        arguments: &[(
            "url",
            ArgumentType::Url,
            Required,
            "The address, such as mysql://user@host/database",
        )],
        strategy: Some(SandboxStrategy::None),
        ..BLANK
    },
    Line {
        name: "duckdb",
        description: "A DuckDB database file; it can be registered, but has no operations yet",
        addable: true,
        arguments: &[("path", ArgumentType::Path, Required, "The database file")],
        parents: FOLDERS,
        strategy: Some(SandboxStrategy::None),
        ..BLANK
    },
    Line {
        name: "container-instance",
        description: "A container; it can be registered, but has no operations yet",
        addable: true,
        arguments: &[
            (
                "image",
                ArgumentType::String,
                Optional,
                "The container image",
            ),
            (
                "mount",
                ArgumentType::String,
                Optional,
                "A resource or host path that it can read",
            ),
            (
                "clone-into",
                ArgumentType::String,
                Optional,
                "A repository to clone into it, as URL:/folder",
            ),
        ],
        children: &[
            ("container-mount", No),
            ("container-exec-env", No),
            ("container-port", No),
        ],
        handler: Some("container"),
        strategy: Some(SandboxStrategy::Snapshot),
        ..BLANK
    },
    Line {
        name: "devcontainer-instance",
        description: "A development container described by a devcontainer.json; it can be registered, but has no operations yet",
        addable: true,
        arguments: &[(
            "path",
            ArgumentType::Path,
            Required,
            "The devcontainer.json file",
        )],
        parents: FOLDERS,
        handler: Some("devcontainer"),
        inherits: Some("container-instance"),
        found_at: Some((
            &[".devcontainer/devcontainer.json", ".devcontainer.json"],
            FOLDERS,
        )),
        ..BLANK
    },
    Line {
        name: "container-runtime",
        description: "A container runtime",
        children: &[
            ("container-instance", No),
            ("container-image", No),
            ("container-volume", No),
            ("container-network", No),
        ],
        handler: Some("container"),
        ..BLANK
    },
    Line {
        parents: &["container-runtime"],
        ..container_part(
            "container-image",
            "An image from which containers are created",
        )
    },
    container_part("container-mount", "A folder mounted into a container"),
    container_part(
        "container-exec-env",
        "The environment in which a container runs commands",
    ),
    container_part("container-port", "A port of a container"),
    Line {
        parents: &["container-runtime"],
        strategy: Some(SandboxStrategy::Snapshot),
        ..container_part("container-volume", "A volume of containers")
    },
    Line {
        parents: &["container-runtime"],
        ..container_part("container-network", "A network between containers")
    },
    identity(
        "file",
        "Files with the same content",
        &["content_hash", "filename", "permissions"],
    ),
    identity(
        "directory",
        "Folders with the same content",
        &["merkle_hash", "name", "permissions"],
    ),
    identity(
        "commit",
        "The same commit in several repositories",
        &["commit_hash"],
    ),
    identity(
        "branch",
        "The same branch in several repositories",
        &["name", "head_commit_hash"],
    ),
    identity(
        "tag",
        "The same tag in several repositories",
        &["name", "target_sha"],
    ),
    identity(
        "tree",
        "The same tree in several repositories",
        &["tree_hash"],
    ),
    identity(
        "remote",
        "The same remote of several repositories",
        &["url"],
    ),
    identity(
        "submodule",
        "The same submodule of several repositories",
        &["url", "path"],
    ),
    identity(
        "symlink",
        "Symbolic links to the same target",
        &["name", "target_path"],
    ),
];

fn type_name(text: &str) -> TypeName {
    text.parse()
        .expect("the names in the table are well formed")
}

fn to_strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn to_resource_type(line: &Line) -> ResourceType {
    let is_virtual = !line.equivalence.is_empty();
    ResourceType {
        name: type_name(line.name),
        description: line.description.to_owned(),
        kind: if is_virtual {
            ResourceKind::Virtual
        } else {
            ResourceKind::Physical
        },
        user_addable: line.addable,
        arguments: line
            .arguments
            .iter()
            .map(|(name, kind, need, description)| Argument {
                name: (*name).to_owned(),
                kind: *kind,
                required: matches!(need, Required),
                description: (*description).to_owned(),
                default: None,
                validation_pattern: None,
            })
            .collect(),
        parent_types: line.parents.iter().copied().map(type_name).collect(),
        child_types: line
            .children
            .iter()
            .map(|(name, discovery)| ChildType {
                name: type_name(name),
                auto_discover: matches!(discovery, Yes),
            })
            .collect(),
        auto_discovery: line
            .found_at
            .map(|(scan_paths, parent_types)| AutoDiscovery {
                enabled: true,
                scan_depth: 0,
                include_patterns: Vec::new(),
                exclude_patterns: Vec::new(),
                parent_types: parent_types.iter().copied().map(type_name).collect(),
                scan_paths: to_strings(scan_paths),
                activation: Activation::Lazy,
            }),
        equivalence: to_strings(line.equivalence),
        handler: line.handler.map(str::to_owned),
        sandbox_strategy: line.strategy,
        capabilities: Some(match line.operations {
            SupportedOperations::All => Capabilities {
                read: true,
                write: true,
                sandbox: true,
                checkpoint: true,
            },
            SupportedOperations::Nothing => Capabilities::default(),
        }),
        inherits: line.inherits.map(type_name),
    }
}

static TYPES: LazyLock<Vec<ResourceType>> =
    LazyLock::new(|| TABLE.iter().map(to_resource_type).collect());

impl ResourceType {
    pub fn built_in() -> &'static [Self] {
        &TYPES
    }

    /// Returns the built-in type with this name.
    pub fn find_built_in(name: &TypeName) -> Option<&'static Self> {
        TYPES.iter().find(|declared| declared.name == *name)
    }

    /// Whether this is a built-in type.
    pub fn is_built_in(&self) -> bool {
        self.name.is_bare()
    }
}

#[cfg(test)]
mod tests;
