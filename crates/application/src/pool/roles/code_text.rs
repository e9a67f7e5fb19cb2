//! Source code without comments and insignificant whitespace, to find changes that have no effect.

/// The comment syntax of a language.
struct Syntax {
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    /// True if indentation is part of the program.
    is_indented: bool,
    /// True if a statement that is only a string is documentation.
    has_docstrings: bool,
    quotes: &'static [&'static str],
}

const HASH: Syntax = Syntax {
    line_comments: &["#"],
    block_comment: None,
    is_indented: false,
    has_docstrings: false,
    quotes: &["\"", "'"],
};

const PYTHON: Syntax = Syntax {
    is_indented: true,
    has_docstrings: true,
    quotes: &["\"\"\"", "'''", "\"", "'"],
    ..HASH
};

const YAML: Syntax = Syntax {
    is_indented: true,
    ..HASH
};

const SLASHES: Syntax = Syntax {
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    is_indented: false,
    has_docstrings: false,
    quotes: &["\"", "`"],
};

const RUST: Syntax = Syntax {
    quotes: &["\""],
    ..SLASHES
};

const SCRIPT: Syntax = Syntax {
    quotes: &["\"", "'", "`"],
    ..SLASHES
};

const SQL: Syntax = Syntax {
    line_comments: &["--"],
    quotes: &["'", "\""],
    ..SLASHES
};

/// The syntax of a file by its name; `None` for a file without known comments, such as data.
fn syntax(path: &str) -> Option<Syntax> {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    Some(match extension {
        "py" | "pyi" => PYTHON,
        "rb" | "sh" | "bash" | "toml" | "pl" | "r" | "cfg" | "ini" => HASH,
        "yaml" | "yml" => YAML,
        "rs" => RUST,
        "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "php" => SCRIPT,
        "go" | "java" | "kt" | "swift" | "c" | "h" | "cc" | "cpp" | "hpp" | "cs" | "scala"
        | "proto" => SLASHES,
        "sql" => SQL,
        _ => return None,
    })
}

/// The code of a file without comments, documentation, blank lines and insignificant whitespace. Two versions of a file
/// with equal results behave alike.
pub(crate) fn effective_code(path: &str, content: &str) -> String {
    let Some(syntax) = syntax(path) else {
        return content.to_owned();
    };
    let mut scanner = Scanner {
        syntax: &syntax,
        rest: content,
        line: String::new(),
        code: String::with_capacity(content.len()),
        is_only_string: true,
        depth: 0,
    };
    scanner.scan();
    scanner.code
}

/// True if a file is documentation, which has no effect when the program runs.
pub(crate) fn is_documentation(path: &str) -> bool {
    let lower = path.to_lowercase();
    let file = lower.rsplit('/').next().unwrap_or(&lower);
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    matches!(extension, "md" | "rst" | "adoc" | "txt")
        || lower.starts_with("docs/")
        || file.starts_with("changelog")
        || file.starts_with("license")
}

/// Splits a text into strings, comments and code.
struct Scanner<'a> {
    syntax: &'a Syntax,
    rest: &'a str,
    /// The current line without comments.
    line: String,
    code: String,
    /// True if the current line holds nothing but a string.
    is_only_string: bool,
    /// The number of open brackets: a string inside them is an argument, not documentation.
    depth: u64,
}

impl Scanner<'_> {
    fn scan(&mut self) {
        while let Some(letter) = self.rest.chars().next() {
            if letter == '\n' {
                self.end_line();
                self.advance(1);
                continue;
            }
            if self.skip_comment() || self.take_string() {
                continue;
            }
            match letter {
                '(' | '[' | '{' => self.depth += 1,
                ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            self.is_only_string &= letter.is_whitespace();
            self.line.push(letter);
            self.advance(letter.len_utf8());
        }
        self.end_line();
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn skip_comment(&mut self) -> bool {
        let syntax = self.syntax;
        if syntax
            .line_comments
            .iter()
            .any(|start| self.rest.starts_with(start))
        {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.advance(end);
            return true;
        }
        let Some((start, stop)) = syntax.block_comment else {
            return false;
        };
        let Some(comment) = self.rest.strip_prefix(start) else {
            return false;
        };
        let end = comment
            .find(stop)
            .map_or(comment.len(), |end| end + stop.len());
        self.advance(start.len() + end);
        true
    }

    fn take_string(&mut self) -> bool {
        let quotes = self.syntax.quotes.iter();
        let Some(quote) = quotes.copied().find(|quote| self.rest.starts_with(quote)) else {
            return false;
        };
        let mut end = quote.len();
        while end < self.rest.len() {
            let rest = &self.rest[end..];
            if let Some(escaped) = rest.strip_prefix('\\') {
                end += 1 + escaped.chars().next().map_or(0, char::len_utf8);
            } else if rest.starts_with(quote) {
                end += quote.len();
                break;
            } else if rest.starts_with('\n') && quote.len() == 1 && quote != "`" {
                break;
            } else {
                end += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        self.line.push_str(&self.rest[..end]);
        self.advance(end);
        true
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let is_only_string = std::mem::replace(&mut self.is_only_string, true);
        let is_docstring = self.syntax.has_docstrings && is_only_string && self.depth == 0;
        if line.trim().is_empty() || is_docstring {
            return;
        }
        if self.syntax.is_indented && self.depth == 0 {
            let indentation = line.len() - line.trim_start().len();
            self.code.extend(std::iter::repeat_n(' ', indentation));
        }
        for word in line.split_whitespace() {
            self.code.push_str(word);
            self.code.push(' ');
        }
        if self.depth == 0 {
            self.code.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::effective_code;

    #[test]
    fn comments_documentation_and_layout_have_no_effect() {
        let same = [
            ("a.py", "x = 1\n", "# note\nx = 1  # more\n\n"),
            (
                "a.py",
                "def f():\n    return 1\n",
                "def f():\n    \"\"\"Returns 1.\n\n    Always.\n    \"\"\"\n    return 1\n",
            ),
            (
                "a.rs",
                "fn f() { g(1) }\n",
                "/// Calls g.\nfn f() { /* here */ g(1) }\n",
            ),
            ("a.js", "f('//x')\n", "f('//x') // y\n"),
            ("a.sql", "SELECT 1\n", "-- one\nSELECT 1\n"),
        ];
        for (path, before, after) in same {
            assert_eq!(
                effective_code(path, before),
                effective_code(path, after),
                "{path}: {after}"
            );
        }
        let different = [
            ("a.py", "x = 1\n", "x = 2\n"),
            ("a.py", "x = '# a'\n", "x = '# b'\n"),
            ("a.py", "f(\"a\")\n", "f(\"b\")\n"),
            ("a.py", "f(\n  \"a\"\n)\n", "f(\n  \"b\"\n)\n"),
            ("a.py", "if a:\n    b()\nc()\n", "if a:\n    b()\n    c()\n"),
            ("a.js", "f('//x')\n", "f('//y')\n"),
            ("a.rs", "let a = \"/* x */\";\n", "let a = \"/* y */\";\n"),
            ("a.csv", "# a\n", "# b\n"),
        ];
        for (path, before, after) in different {
            assert_ne!(
                effective_code(path, before),
                effective_code(path, after),
                "{path}: {after}"
            );
        }
    }
}
