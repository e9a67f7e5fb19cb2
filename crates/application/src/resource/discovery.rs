//! Discovers the resources below a resource by inspecting its files.
//!
//! Below a checkout, discovery finds its object database and its working tree. Resources of other types are found by
//! the `auto_discovery` of the type: paths whose existence below the parent shows that such a resource exists. The
//! result, with the keys from which ids and names are derived, depends only on the files.

use std::path::{Path, PathBuf};

use cleveragents_domain::{AutoDiscovery, InheritedType, Properties, TypeName};
use cleveragents_sandbox::{Links, read_regular};
use regex::Regex;
use serde_json::{Value, json};

use super::arguments::{ValidatedArguments, is_a, repository};
use super::devcontainer;
use super::error::ResourceError;
use super::registry::TypeRegistry;

/// Maximum number of folders that a search inspects.
const MAX_FOLDERS: usize = 10_000;

/// Maximum size of a `devcontainer.json`, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A resource discovered below another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DiscoveredResource {
    /// Stable key that distinguishes the resource from its siblings.
    pub(super) key: String,
    /// The last segment of the resource's name.
    pub(super) segment: String,
    pub(super) type_name: TypeName,
    pub(super) location: String,
    pub(super) properties: Properties,
}

/// Discovered resources, and warnings about paths that could not be inspected.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DiscoveryResult {
    pub(super) found: Vec<DiscoveredResource>,
    pub(super) warnings: Vec<String>,
}

/// Discovers resources below a resource of this type.
pub(super) fn look(
    kind: &InheritedType,
    checked: &ValidatedArguments,
    types: &TypeRegistry,
) -> Result<DiscoveryResult, ResourceError> {
    let mut findings = DiscoveryResult::default();
    let Some(path) = checked.properties.get("path").and_then(Value::as_str) else {
        return Ok(findings);
    };
    let path = Path::new(path);
    let looks_for = |name: &str| {
        let mut children = kind.whole.child_types.iter();
        children.any(|child| child.auto_discover && child.name.as_str() == name)
    };
    if is_a(kind, "git-checkout") {
        let probe = repository(path)?;
        if looks_for("git") {
            findings.add("git", "git", &probe.common_dir)?;
        }
        if looks_for("fs-directory") && !probe.is_bare {
            findings.add("fs-directory", "worktree", path)?;
        }
    }
    if path.is_dir() {
        for declared in types.all() {
            let Ok(child) = types.inherited(&declared.name) else {
                continue;
            };
            let Some(discovery) = child.whole.auto_discovery.as_ref() else {
                continue;
            };
            let is_parent_type = discovery.parent_types.iter().any(|name| kind.is_a(name));
            let is_searched =
                discovery.enabled && (is_parent_type || looks_for(declared.name.as_str()));
            // A type that inherits its discovery would find the resources of its base type again.
            if is_searched && declared.auto_discovery.is_some() {
                findings.scan(path, &child, discovery);
            }
        }
    }
    Ok(findings)
}

impl DiscoveryResult {
    fn add(&mut self, type_name: &str, segment: &str, path: &Path) -> Result<(), ResourceError> {
        let location = super::arguments::canonical(path)?.display().to_string();
        self.found.push(DiscoveredResource {
            key: type_name.to_owned(),
            segment: segment.to_owned(),
            type_name: type_name.parse()?,
            properties: Properties::from([("path".to_owned(), json!(location))]),
            location,
        });
        Ok(())
    }

    /// Searches the parent's folder and its subfolders for resources of one type.
    fn scan(&mut self, root: &Path, child: &InheritedType, discovery: &AutoDiscovery) {
        let name = &child.whole.name;
        let patterns = Patterns::new(discovery);
        for folder in folders(root, discovery.scan_depth, &patterns) {
            let inside = folder.strip_prefix(root).unwrap_or(&folder);
            // One folder has at most one such resource, at the first matching path.
            let first_match = discovery
                .scan_paths
                .iter()
                .map(|path| folder.join(path))
                .find(|path| path.exists());
            let Some(path) = first_match else { continue };
            let described = if is_a(child, "devcontainer-instance") {
                read_devcontainer(&path)
            } else {
                Ok(Properties::new())
            };
            match described.and_then(|properties| Ok((properties, stored_path(&path)?))) {
                Ok((mut properties, location)) => {
                    properties.insert("path".to_owned(), json!(location));
                    properties.insert("state".to_owned(), json!("discovered"));
                    let relative = inside.display().to_string();
                    self.found.push(DiscoveredResource {
                        key: format!("{name}:{relative}"),
                        segment: segment(name, inside),
                        type_name: name.clone(),
                        location,
                        properties,
                    });
                }
                Err(problem) => self
                    .warnings
                    .push(format!("{} was not registered: {problem}", path.display())),
            }
        }
    }
}

/// The stored form of a path. A link that leads out of the parent is followed, because the user created it.
fn stored_path(path: &Path) -> Result<String, String> {
    super::arguments::canonical(path)
        .map(|path| path.display().to_string())
        .map_err(|error| error.to_string())
}

/// The last segment of the name of a discovered resource: the name of its type, with the name of its folder as a prefix
/// unless it lies directly in the parent's folder.
fn segment(name: &TypeName, inside: &Path) -> String {
    let type_segment = name.last_segment().trim_end_matches("-instance");
    let folder = inside
        .file_name()
        .map(|folder| folder.to_string_lossy().into_owned());
    match folder {
        Some(folder) => {
            let folder = cleveragents_domain::ResourceName::for_file(&folder);
            format!("{}-{type_segment}", folder.last_segment())
        }
        None => type_segment.to_owned(),
    }
}

/// Reads the name and the image of a development container.
fn read_devcontainer(path: &Path) -> Result<Properties, String> {
    let bytes =
        read_regular(path, Links::Refuse, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or("it no longer exists")?;
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    devcontainer::properties(&text)
}

/// Folders to include and exclude.
struct Patterns {
    include: Vec<Regex>,
    exclude: Vec<Regex>,
}

impl Patterns {
    fn new(discovery: &AutoDiscovery) -> Self {
        let all = |list: &[String]| list.iter().filter_map(|pattern| glob(pattern)).collect();
        Self {
            include: all(&discovery.include_patterns),
            exclude: all(&discovery.exclude_patterns),
        }
    }

    fn includes(&self, inside: &str) -> bool {
        self.include.is_empty() || self.include.iter().any(|pattern| pattern.is_match(inside))
    }

    fn excludes(&self, inside: &str) -> bool {
        self.exclude.iter().any(|pattern| pattern.is_match(inside))
    }
}

/// A path pattern: `*` and `?` match within a segment, `**` across segments.
fn glob(pattern: &str) -> Option<Regex> {
    let escaped = regex::escape(pattern.trim_end_matches('/'))
        .replace(r"\*\*/", "(?:.*/)?")
        .replace(r"\*\*", ".*")
        .replace(r"\*", "[^/]*")
        .replace(r"\?", "[^/]");
    Regex::new(&format!("^{escaped}$")).ok()
}

/// The folder and its subfolders, sorted by name, up to the maximum depth and number.
fn folders(root: &Path, depth: u32, patterns: &Patterns) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![(root.to_owned(), 0)];
    let mut visited = 0;
    while let Some((folder, level)) = pending.pop() {
        visited += 1;
        if visited > MAX_FOLDERS {
            break;
        }
        let inside = folder
            .strip_prefix(root)
            .map(|inside| inside.display().to_string())
            .unwrap_or_default();
        if patterns.excludes(&inside) {
            continue;
        }
        if level < depth {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            let mut below: Vec<PathBuf> = entries
                // Links are not followed, because they may lead out of the folder or form cycles.
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .filter(|entry| entry.file_name() != ".git")
                .map(|entry| entry.path())
                .collect();
            below.sort_unstable_by(|left, right| right.cmp(left));
            pending.extend(below.into_iter().map(|folder| (folder, level + 1)));
        }
        if patterns.includes(&inside) {
            found.push(folder);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, path, is_match) in [
            ("packages/*", "packages/a", true),
            ("packages/*", "packages/a/b", false),
            ("packages/**", "packages/a/b", true),
            ("**/node_modules", "a/b/node_modules", true),
            ("**/node_modules", "node_modules", true),
            ("a?c", "abc", true),
            ("a.c", "abc", false),
            ("vendor/", "vendor", true),
        ] {
            let regex = glob(pattern).expect("a pattern");
            assert_eq!(regex.is_match(path), is_match, "{pattern} {path}");
        }
    }
}
