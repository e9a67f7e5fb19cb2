//! Markers of expected failures: a captured test carries one until the defect is fixed, so that the suite passes while
//! the defect exists and fails when it is fixed without removing the marker.

use std::sync::LazyLock;

use regex::Regex;

/// A test framework, with the form of its marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TestFramework {
    /// `@pytest.mark.xfail(strict=True, reason=…)`.
    Pytest,
    /// `@unittest.expectedFailure`.
    Unittest,
    /// `#[should_panic]`.
    Rust,
    /// `t.Skip("expected failure: …")`, because Go has no inverted result.
    Go,
    /// `test.failing(…)` of Jest, `test.fails(…)` of Vitest.
    JavaScript,
    /// No known framework: the proof runs without a marker.
    Unknown,
}

/// Returns the pattern of a marker; `None` if it is invalid, which a test excludes.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static PYTEST: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*@(?:pytest\.mark\.)?xfail\b"));
static UNITTEST: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^\s*@(?:unittest\.)?expectedFailure\s*$"));
static RUST: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^\s*#\[should_panic\b"));
static GO: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r#"^\s*t\.Skip(?:f|)\("expected failure\b"#));
static JAVASCRIPT: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"\b((?:test|it)(?:\.concurrent)?)\.(?:failing|fails)\("));

impl TestFramework {
    /// The framework of a test file, by its name and content.
    pub(crate) fn detect(path: &str, content: &str) -> Self {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension {
            "py" if content.contains("unittest") && !content.contains("pytest") => Self::Unittest,
            "py" => Self::Pytest,
            "rs" => Self::Rust,
            "go" => Self::Go,
            "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" => Self::JavaScript,
            _ => Self::Unknown,
        }
    }

    fn marker(self) -> Option<&'static Regex> {
        match self {
            Self::Pytest => PYTEST.as_ref(),
            Self::Unittest => UNITTEST.as_ref(),
            Self::Rust => RUST.as_ref(),
            Self::Go => GO.as_ref(),
            Self::JavaScript => JAVASCRIPT.as_ref(),
            Self::Unknown => None,
        }
    }

    /// True if a test with the marker fails when it passes unexpectedly. A test that fails only sometimes cannot carry
    /// such a marker: the suite would fail at random.
    pub(crate) fn is_strict(self, content: &str) -> bool {
        match self {
            Self::Pytest => markers(self, content)
                .any(|marker| !marker.replace(' ', "").contains("strict=False")),
            Self::Unittest | Self::Rust | Self::JavaScript => true,
            Self::Go | Self::Unknown => false,
        }
    }

    /// True if the content has a marker.
    pub(crate) fn has_marker(self, content: &str) -> bool {
        markers(self, content).next().is_some()
    }

    /// The number of markers of the content.
    pub(crate) fn marker_count(self, content: &str) -> usize {
        markers(self, content).count()
    }

    /// The content without the marker of one test, or without all markers if the test is not found by its name.
    pub(crate) fn without_marker(self, content: &str, test: &str) -> String {
        let Some(pattern) = self.marker() else {
            return content.to_owned();
        };
        let lines: Vec<&str> = content.split_inclusive('\n').collect();
        let marker_lines = marked_lines(self, pattern, &lines, test);
        let mut result = String::with_capacity(content.len());
        let mut open = 0_i64;
        for (index, line) in lines.iter().enumerate() {
            // A marker may continue on the next lines.
            if open > 0 {
                open += balance(line);
                continue;
            }
            if !marker_lines.contains(&index) {
                result.push_str(line);
            } else if self == Self::JavaScript {
                result.push_str(&pattern.replace_all(line, "${1}("));
            } else {
                open = balance(line);
            }
        }
        result
    }
}

/// The lines of a content that carry a marker.
fn markers(framework: TestFramework, content: &str) -> impl Iterator<Item = &str> {
    let marker = framework.marker();
    content
        .lines()
        .filter(move |line| marker.is_some_and(|marker| marker.is_match(line)))
}

/// The number of brackets that a line opens and does not close.
fn balance(line: &str) -> i64 {
    line.chars().fold(0, |open, letter| match letter {
        '(' | '[' => open + 1,
        ')' | ']' => open - 1,
        _ => open,
    })
}

/// The indexes of the marker lines of a test: above its definition, in its line, or in its body.
fn marked_lines(
    framework: TestFramework,
    marker: &Regex,
    lines: &[&str],
    test: &str,
) -> Vec<usize> {
    let all = || {
        let numbered = lines.iter().enumerate();
        numbered
            .filter(|(_, line)| marker.is_match(line))
            .map(|(index, _)| index)
            .collect::<Vec<usize>>()
    };
    // `tests.test_cache.CacheTest.test_race`, `tests/test_cache.py::test_race` and `mod::race` end with the function.
    let function = test.rsplit(['.', ':', '/']).next().unwrap_or(test);
    let Some(definition) = lines.iter().position(|line| defines(line, function)) else {
        return all();
    };
    let belongs = |index: &usize| match framework {
        TestFramework::JavaScript => *index == definition,
        TestFramework::Go => {
            *index > definition
                && lines[definition + 1..*index]
                    .iter()
                    .all(|line| !line.starts_with("func "))
        }
        _ => {
            *index < definition
                && lines[*index..definition]
                    .iter()
                    .all(|line| !is_definition(line))
        }
    };
    let of_test: Vec<usize> = all().into_iter().filter(belongs).collect();
    if of_test.is_empty() { all() } else { of_test }
}

/// True if a line starts the definition of a function.
fn is_definition(line: &str) -> bool {
    let line = line.trim_start();
    [
        "def ",
        "async def ",
        "class ",
        "fn ",
        "pub fn ",
        "async fn ",
    ]
    .iter()
    .any(|start| line.starts_with(start))
}

/// True if a line defines a test with this name.
fn defines(line: &str, test: &str) -> bool {
    if test.is_empty() {
        return false;
    }
    let quoted = ['\'', '"', '`']
        .iter()
        .any(|quote| line.contains(&format!("{quote}{test}{quote}")));
    quoted
        || ["def ", "fn ", "func "].iter().any(|keyword| {
            line.contains(&format!("{keyword}{test}("))
                || line.contains(&format!("{keyword}{test}<"))
        })
}

#[cfg(test)]
mod tests {
    use super::TestFramework;

    #[test]
    fn the_marker_of_one_test_is_removed_and_others_stay() {
        let cases = [
            (
                "tests/test_race.py",
                "import pytest\n\n@pytest.mark.xfail(\n    strict=True, reason=\"x\",\n)\ndef test_race():\n    assert False\n\n@pytest.mark.xfail(strict=True)\ndef test_other():\n    pass\n",
                "tests/test_race.py::test_race",
                "import pytest\n\ndef test_race():\n    assert False\n\n@pytest.mark.xfail(strict=True)\ndef test_other():\n    pass\n",
            ),
            (
                "tests/test_race.py",
                "import unittest\n\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n    def test_race(self):\n        pass\n",
                "tests.test_race.T.test_race",
                "import unittest\n\nclass T(unittest.TestCase):\n    def test_race(self):\n        pass\n",
            ),
            (
                "tests/race.rs",
                "#[test]\n#[should_panic(expected = \"two engines\")]\nfn race() {}\n\n#[test]\n#[should_panic]\nfn other() {}\n",
                "race",
                "#[test]\nfn race() {}\n\n#[test]\n#[should_panic]\nfn other() {}\n",
            ),
            (
                "race_test.go",
                "func TestRace(t *testing.T) {\n\tt.Skip(\"expected failure: item 7\")\n\tt.Fail()\n}\n",
                "TestRace",
                "func TestRace(t *testing.T) {\n\tt.Fail()\n}\n",
            ),
            (
                "race.test.ts",
                "test.failing('two engines', () => {});\nit.fails(\"other\", () => {});\n",
                "two engines",
                "test('two engines', () => {});\nit.fails(\"other\", () => {});\n",
            ),
        ];
        for (path, content, test, expected) in cases {
            let framework = TestFramework::detect(path, content);
            assert!(framework.has_marker(content), "{path}");
            assert_eq!(framework.without_marker(content, test), expected, "{path}");
        }
    }

    #[test]
    fn a_marker_that_accepts_both_results_is_not_strict() {
        let strict = "@pytest.mark.xfail(strict=True)\n";
        let lenient = "@pytest.mark.xfail(strict=False, reason=\"sometimes\")\n";
        assert!(TestFramework::Pytest.is_strict(strict));
        assert!(!TestFramework::Pytest.is_strict(lenient));
        assert!(TestFramework::Unittest.is_strict("@unittest.expectedFailure\n"));
        assert_eq!(TestFramework::Unittest.marker_count(strict), 0);
        assert_eq!(
            TestFramework::detect("Makefile", ""),
            TestFramework::Unknown
        );
    }
}
