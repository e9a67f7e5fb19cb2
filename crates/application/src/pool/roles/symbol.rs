//! Finds the function or class around a line, so that the identity of a finding does not depend on its wording.

use std::sync::LazyLock;

use regex::Regex;

static DEFINITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(\s*)(?:(?:pub(?:\([^)]*\))?|async|export|default|static|public|private|protected|abstract|unsafe|const)\s+)*",
        r"(?:def|class|fn|func|function|impl(?:<[^>]*>)?|struct|enum|trait|interface|module)\s+",
        r"(?:\([^)]*\)\s*)?([A-Za-z_]\w*(?:::\w+)*)",
    ))
    .ok()
});

/// The names of the definitions around a line (from 1), outermost first and joined by dots; empty at the top level.
pub(crate) fn enclosing_symbol(content: &str, line: u64) -> String {
    let Some(definition) = DEFINITION.as_ref() else {
        return String::new();
    };
    let count = usize::try_from(line).unwrap_or(usize::MAX);
    let lines: Vec<&str> = content.lines().take(count).collect();
    let indentation = |text: &str| text.len() - text.trim_start().len();
    let Some(last) = lines.last() else {
        return String::new();
    };
    // A definition that starts at the line itself also encloses it.
    let mut inner = indentation(last) + usize::from(definition.is_match(last));
    let mut names: Vec<&str> = Vec::new();
    for text in lines.iter().rev() {
        if text.trim().is_empty() {
            continue;
        }
        let Some(found) = definition.captures(text) else {
            continue;
        };
        let depth = indentation(text);
        if depth < inner {
            inner = depth;
            names.extend(found.get(2).map(|name| name.as_str()));
        }
    }
    names.reverse();
    names.join(".")
}

#[cfg(test)]
mod tests {
    use super::enclosing_symbol;

    #[test]
    fn the_symbol_comes_from_the_code() {
        let python = "CACHE = {}\n\nclass UnitOfWork:\n    def __init__(self, url):\n        if url:\n            self.url = url\n\n    def engine(self):\n        return CACHE\n";
        for (line, expected) in [
            (1, ""),
            (3, "UnitOfWork"),
            (4, "UnitOfWork.__init__"),
            (6, "UnitOfWork.__init__"),
            (9, "UnitOfWork.engine"),
        ] {
            assert_eq!(enclosing_symbol(python, line), expected, "{line}");
        }
        let rust = "impl<T> Cache<T> {\n    pub(crate) async fn open(&self) {\n        self.go();\n    }\n}\n";
        assert_eq!(enclosing_symbol(rust, 3), "Cache.open");
        let go = "func (c *Cache) Open() {\n\tgo()\n}\n";
        assert_eq!(enclosing_symbol(go, 2), "Open");
    }
}
