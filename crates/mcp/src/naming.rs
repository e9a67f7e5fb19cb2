//! From the names that servers give to the names that tools have here.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_tools::ToolName;

/// The namespace of our own tools about servers.
pub(crate) const OWN: &str = "mcp";
/// The longest last part of a name.
const LONGEST: usize = 64;

/// The namespace of the tools of a server. One that belongs to somebody else gets `mcp-` in front.
pub fn namespace(server: &str) -> String {
    let taken = [OWN, ToolName::BUILTIN, "local"].contains(&server)
        || format!("{server}/x")
            .parse::<ToolName>()
            .map_or(true, |name| {
                name.as_name().require_free_namespace().is_err()
            });
    if taken {
        format!("{OWN}-{server}")
    } else {
        server.to_owned()
    }
}

/// A word that can be the last part of a name.
fn plain(raw: &str) -> String {
    let mut word: String = raw
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' | '_' | '-' => letter,
            _ => '-',
        })
        .take(LONGEST)
        .collect();
    let start = word.find(|letter: char| letter.is_ascii_alphanumeric());
    word.drain(..start.unwrap_or(word.len()));
    if word.is_empty() {
        "tool".to_owned()
    } else {
        word
    }
}

/// The names of the tools of a server, by what the server calls them. Those whose names become the
/// same get numbers, in the order of what the server calls them; the one that is called exactly so
/// keeps its name.
pub(crate) fn names(server: &str, raw: &[&str]) -> BTreeMap<String, ToolName> {
    let namespace = namespace(server);
    let mut raw: Vec<&str> = raw.to_vec();
    raw.sort_by_key(|name| (plain(name) != **name, *name));
    raw.dedup();
    // The number that comes next for each word: a server may call ten thousand tools alike.
    let mut next: BTreeMap<String, u32> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    for one in raw {
        let word = plain(one);
        let number = next.entry(word.clone()).or_insert(1);
        let mut free = word.clone();
        while taken.contains(&free) {
            *number += 1;
            free = format!("{word}-{number}");
        }
        let Ok(name) = format!("{namespace}/{free}").parse() else {
            continue;
        };
        taken.insert(free);
        names.insert(one.to_owned(), name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{names, namespace};

    fn shown(server: &str, raw: &[&str]) -> Vec<String> {
        let names = names(server, raw);
        raw.iter().map(|one| names[*one].to_string()).collect()
    }

    #[test]
    fn names_become_ours() {
        let raw = ["read_file", "getUser", "a.b/c", "…", "-x"];
        let ours = ["fs/read_file", "fs/getuser", "fs/a-b-c", "fs/tool", "fs/x"];
        assert_eq!(shown("fs", &raw), ours);
    }

    #[test]
    fn names_that_become_the_same_are_numbered_whatever_the_order() {
        let first = shown("s", &["Foo", "foo", "FOO", "foo-2"]);
        assert_eq!(first, ["s/foo-4", "s/foo", "s/foo-3", "s/foo-2"]);
        let again = shown("s", &["foo-2", "FOO", "foo", "Foo"]);
        assert_eq!(again, ["s/foo-2", "s/foo-3", "s/foo", "s/foo-4"]);
    }

    #[test]
    fn namespaces_of_others_are_left_to_them() {
        for taken in ["builtin", "mcp", "openai", "system", "local"] {
            assert_eq!(namespace(taken), format!("mcp-{taken}"));
        }
        assert_eq!(namespace("github"), "github");
    }

    #[test]
    fn very_long_names_are_cut_and_stay_apart() {
        let long = |end: &str| format!("{}{end}", "x".repeat(300));
        let (one, two) = (long("1"), long("2"));
        let names = names("s", &[&one, &two]);
        assert_eq!(names.len(), 2);
        assert_ne!(names[&one], names[&two]);
    }
}
