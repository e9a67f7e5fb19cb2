//! Maps the tool names of servers to our tool names.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_tools::ToolName;

/// Namespace of the built-in tools for servers.
pub(crate) const OWN: &str = "mcp";
/// Maximum length of the last segment of a name.
const MAX_LENGTH: usize = 64;

/// Namespace of the tools of a server. A reserved namespace gets the prefix `mcp-`.
pub fn namespace(server: &str) -> String {
    let is_reserved = [OWN, ToolName::BUILTIN, "local"].contains(&server)
        || format!("{server}/x")
            .parse::<ToolName>()
            .map_or(true, |name| {
                name.as_name().require_free_namespace().is_err()
            });
    if is_reserved {
        format!("{OWN}-{server}")
    } else {
        server.to_owned()
    }
}

/// Converts a name of a server to a valid last segment of our names.
fn to_segment(raw: &str) -> String {
    let mut word: String = raw
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' | '_' | '-' => letter,
            _ => '-',
        })
        .take(MAX_LENGTH)
        .collect();
    let start = word.find(|letter: char| letter.is_ascii_alphanumeric());
    word.drain(..start.unwrap_or(word.len()));
    if word.is_empty() {
        "tool".to_owned()
    } else {
        word
    }
}

/// Maps the server's tool names to our names. Colliding names get numbers, in the order of the server's
/// names; a name that needs no conversion stays unchanged.
pub(crate) fn names(server: &str, raw: &[&str]) -> BTreeMap<String, ToolName> {
    let namespace = namespace(server);
    let mut raw: Vec<&str> = raw.to_vec();
    raw.sort_by_key(|name| (to_segment(name) != **name, *name));
    raw.dedup();
    // The last number used for each word, for speed: a server may have ten thousand tools of the same name.
    let mut next: BTreeMap<String, u32> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    for raw_name in raw {
        let word = to_segment(raw_name);
        let number = next.entry(word.clone()).or_insert(1);
        let mut candidate = word.clone();
        while taken.contains(&candidate) {
            *number += 1;
            candidate = format!("{word}-{number}");
        }
        let Ok(name) = format!("{namespace}/{candidate}").parse() else {
            continue;
        };
        taken.insert(candidate);
        names.insert(raw_name.to_owned(), name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{names, namespace};

    fn shown(server: &str, raw: &[&str]) -> Vec<String> {
        let names = names(server, raw);
        raw.iter().map(|name| names[*name].to_string()).collect()
    }

    #[test]
    fn names_are_converted() {
        let raw = ["read_file", "getUser", "a.b/c", "…", "-x"];
        let expected = ["fs/read_file", "fs/getuser", "fs/a-b-c", "fs/tool", "fs/x"];
        assert_eq!(shown("fs", &raw), expected);
    }

    #[test]
    fn colliding_names_are_numbered_independent_of_order() {
        let first = shown("s", &["Foo", "foo", "FOO", "foo-2"]);
        assert_eq!(first, ["s/foo-4", "s/foo", "s/foo-3", "s/foo-2"]);
        let again = shown("s", &["foo-2", "FOO", "foo", "Foo"]);
        assert_eq!(again, ["s/foo-2", "s/foo-3", "s/foo", "s/foo-4"]);
    }

    #[test]
    fn reserved_namespaces_get_a_prefix() {
        for taken in ["builtin", "mcp", "openai", "system", "local"] {
            assert_eq!(namespace(taken), format!("mcp-{taken}"));
        }
        assert_eq!(namespace("github"), "github");
    }

    #[test]
    fn very_long_names_are_truncated_and_stay_distinct() {
        let long = |end: &str| format!("{}{end}", "x".repeat(300));
        let (one, two) = (long("1"), long("2"));
        let names = names("s", &[&one, &two]);
        assert_eq!(names.len(), 2);
        assert_ne!(names[&one], names[&two]);
    }
}
