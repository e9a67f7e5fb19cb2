//! Checks of the change of an attempt, before any gate: it must have an effect, keep the captured test, and weaken no
//! other test.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use super::code_text::{effective_code, is_documentation};
use super::expected_fail::TestFramework;

/// A changed file with its content before and after; `None` if it did not exist, or is not a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileVersions {
    pub(crate) path: String,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    /// True if a version is not a text: such a change always has an effect.
    pub(crate) is_binary: bool,
    pub(crate) is_test: bool,
}

/// The test that a capture proved: its file without the marker must stay as it was proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CapturedTest {
    pub(crate) path: String,
    pub(crate) name: String,
    /// The content of its file with the marker.
    pub(crate) content: String,
}

/// The reason why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeProblem {
    /// No file changed.
    Empty,
    /// Only comments, documentation or layout changed.
    WithoutEffect,
    /// Only tests changed.
    OnlyTests,
    /// A capture changed a file that is not a test.
    ChangedCode(String),
    /// The captured test is missing.
    CapturedTestMissing(String),
    /// The captured test differs from its proven version.
    CapturedTestChanged(String),
    /// The captured test still has its marker.
    MarkerKept(String),
    TestDeleted(String),
    /// Tests of a file are missing: path, name.
    TestRemoved(String, String),
    /// A test is skipped, or expected to fail: path, line.
    TestSkipped(String, String),
    /// A file of tests has fewer assertions: path, before, after.
    AssertionsRemoved(String, usize, usize),
    /// An assertion that is always true: path, line.
    AlwaysTrue(String, String),
    /// A file that decides which checks run.
    ChecksChanged(String),
    /// The fix of a defect removes a large part of a file: path, lines before, lines after.
    CodeRemoved(String, usize, usize),
}

/// Files below this number of lines may change as a whole.
const SMALL_FILE: usize = 40;

impl ChangeProblem {
    /// True if the change is empty or without effect; otherwise it uses a forbidden shortcut.
    pub(crate) const fn is_empty_change(&self) -> bool {
        matches!(self, Self::Empty | Self::WithoutEffect | Self::OnlyTests)
    }
}

impl fmt::Display for ChangeProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("no file changed"),
            Self::WithoutEffect => {
                formatter.write_str("only comments, documentation or layout changed")
            }
            Self::OnlyTests => formatter.write_str("only tests changed, not the defective code"),
            Self::ChangedCode(path) => {
                write!(
                    formatter,
                    "`{path}` is not a test: a capture changes only tests"
                )
            }
            Self::CapturedTestMissing(path) => {
                write!(formatter, "the captured test `{path}` is missing")
            }
            Self::CapturedTestChanged(path) => write!(
                formatter,
                "the captured test `{path}` was changed; only its marker may be removed"
            ),
            Self::MarkerKept(path) => write!(
                formatter,
                "the captured test in `{path}` still has its marker of an expected failure"
            ),
            Self::TestDeleted(path) => write!(formatter, "the test file `{path}` was deleted"),
            Self::TestRemoved(path, name) => {
                write!(formatter, "the test `{name}` was removed from `{path}`")
            }
            Self::TestSkipped(path, line) => {
                write!(formatter, "a test in `{path}` is skipped: `{line}`")
            }
            Self::AssertionsRemoved(path, before, after) => write!(
                formatter,
                "`{path}` had {before} assertions and has {after} now"
            ),
            Self::AlwaysTrue(path, line) => {
                write!(
                    formatter,
                    "an assertion in `{path}` is always true: `{line}`"
                )
            }
            Self::ChecksChanged(path) => write!(
                formatter,
                "`{path}` decides which checks run and may not be changed by an attempt"
            ),
            Self::CodeRemoved(path, before, after) => write!(
                formatter,
                "`{path}` had {before} lines and has {after} now; a fix may not remove a third of a file"
            ),
        }
    }
}

static TEST_DEFINITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?m)^\s*(?:async\s+)?def\s+(test\w*)",
        r"|^\s*func\s+(Test\w*)",
        r#"|\b(?:test|it)(?:\.\w+)*\(\s*['"`]([^'"`]+)"#,
        r"|#\[(?:tokio::)?test\](?:\s*#\[[^\]]*\])*\s*(?:pub\s+)?(?:async\s+)?fn\s+(\w+)",
    ))
    .ok()
});

static SKIP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"@(?:unittest\.)?(?:skip|skipIf|skipUnless|expectedFailure)\b",
        r"|@pytest\.mark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail)\(",
        r"|self\.skipTest\(|raise\s+(?:unittest\.)?SkipTest",
        r"|#\[(?:ignore|should_panic)\b",
        r"|\bt\.Skip(?:f|Now)?\(",
        r"|\b(?:x(?:it|test|describe)|(?:it|test|describe)\.(?:skip|todo|failing|fails))\(",
    ))
    .ok()
});

static ASSERTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\bassert\w*!?[\s(]|\bself\.assert\w+\(|\bself\.fail\(|\bpytest\.raises\(",
        r"|\bexpect\(|\brequire\.\w+\(|\bt\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(",
    ))
    .ok()
});

static ALWAYS_TRUE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\bassert\s+(?:True|1|not False)\s*(?:,|#|$)|\bassertTrue\(\s*True\b|\bassertFalse\(\s*False\b",
        r"|\bassert!\(\s*true\b|\bexpect\(\s*true\s*\)\.(?:toBe|toEqual)\(\s*true\s*\)",
        r"|\bassertEqual\(\s*(\d+),\s*1?\d*\s*\)\s*#\s*always",
        r"|\bor\s+True\b|\|\|\s*true\b",
    ))
    .ok()
});

/// Files that decide which checks run.
fn decides_checks(path: &str) -> bool {
    let starts = [
        ".github/workflows/",
        ".forgejo/workflows/",
        ".gitea/workflows/",
        ".cleveragents/",
    ];
    let names = [
        ".gitlab-ci.yml",
        "noxfile.py",
        "tox.ini",
        "pytest.ini",
        "conftest.py",
        ".coveragerc",
    ];
    let file = path.rsplit('/').next().unwrap_or(path);
    starts.iter().any(|start| path.starts_with(start)) || names.contains(&file)
}

fn names_of_tests(content: &str) -> Vec<String> {
    let Some(pattern) = TEST_DEFINITION.as_ref() else {
        return Vec::new();
    };
    let names = pattern
        .captures_iter(content)
        .filter_map(|found| found.iter().skip(1).flatten().next())
        .map(|name| name.as_str().to_owned());
    names.collect()
}

fn count(pattern: &LazyLock<Option<Regex>>, content: &str) -> usize {
    pattern
        .as_ref()
        .map_or(0, |pattern| pattern.find_iter(content).count())
}

/// The lines of `after` that match a pattern and are not in `before`.
fn new_matches(pattern: &LazyLock<Option<Regex>>, before: &str, after: &str) -> Vec<String> {
    let Some(pattern) = pattern.as_ref() else {
        return Vec::new();
    };
    let known: Vec<&str> = before.lines().map(str::trim).collect();
    let lines = after.lines().map(str::trim);
    lines
        .filter(|line| pattern.is_match(line) && !known.contains(line))
        .map(str::to_owned)
        .collect()
}

/// True if the contents of a file behave differently before and after.
fn has_effect(file: &FileVersions) -> bool {
    if is_documentation(&file.path) {
        return false;
    }
    if file.is_binary {
        return true;
    }
    let code = |content: &Option<String>| {
        let content = content.as_deref().unwrap_or_default();
        effective_code(&file.path, content)
    };
    code(&file.before) != code(&file.after)
}

/// Checks the change of a fix. An empty result means that the gates may run.
pub(crate) fn check_fix(
    files: &[FileVersions],
    captured: Option<&CapturedTest>,
) -> Vec<ChangeProblem> {
    if files.is_empty() {
        return vec![ChangeProblem::Empty];
    }
    let mut problems = Vec::new();
    let effective: Vec<&FileVersions> = files.iter().filter(|file| has_effect(file)).collect();
    if effective.is_empty() {
        problems.push(ChangeProblem::WithoutEffect);
    } else if effective.iter().all(|file| file.is_test) {
        problems.push(ChangeProblem::OnlyTests);
    }
    problems.extend(weakened_tests(files, captured));
    if let Some(captured) = captured {
        problems.extend(captured_test_problem(files, captured));
        // Other work, such as a refactoring, may remove code.
        problems.extend(files.iter().filter_map(removed_code));
    }
    problems
}

/// A file of code that lost at least a third of its lines. A model that writes a file from memory forgets parts of it.
fn removed_code(file: &FileVersions) -> Option<ChangeProblem> {
    let lines = |content: &Option<String>| {
        let content = content.as_deref().unwrap_or_default();
        let lines = content.lines();
        lines.filter(|line| !line.trim().is_empty()).count()
    };
    let (before, after) = (lines(&file.before), lines(&file.after));
    let is_removed = before >= SMALL_FILE && after * 3 <= before * 2;
    (is_removed && !file.is_test && !is_documentation(&file.path))
        .then(|| ChangeProblem::CodeRemoved(file.path.clone(), before, after))
}

/// Checks the change of a capture: it adds or changes only tests, and weakens none. Returns the reasons to refuse it.
pub(crate) fn check_capture(
    files: &[FileVersions],
    test_path: &str,
    test: &str,
) -> Vec<ChangeProblem> {
    if files.is_empty() {
        return vec![ChangeProblem::Empty];
    }
    let mut problems = Vec::new();
    let code = files
        .iter()
        .filter(|file| !file.is_test && has_effect(file));
    problems.extend(code.map(|file| ChangeProblem::ChangedCode(file.path.clone())));
    let Some(file) = files.iter().find(|file| file.path == test_path) else {
        problems.push(ChangeProblem::CapturedTestMissing(test_path.to_owned()));
        return problems;
    };
    // The marker of the captured test is expected; the check must not report it.
    let without_marker: Vec<FileVersions> = files
        .iter()
        .map(|other| {
            if other.path != file.path {
                return other.clone();
            }
            let content = other.after.clone().unwrap_or_default();
            let framework = TestFramework::detect(&other.path, &content);
            FileVersions {
                after: Some(framework.without_marker(&content, test)),
                ..other.clone()
            }
        })
        .collect();
    problems.extend(weakened_tests(&without_marker, None));
    problems
}

fn weakened_tests(files: &[FileVersions], captured: Option<&CapturedTest>) -> Vec<ChangeProblem> {
    let mut problems = Vec::new();
    for file in files {
        if decides_checks(&file.path) {
            problems.push(ChangeProblem::ChecksChanged(file.path.clone()));
        }
        if !file.is_test || captured.is_some_and(|captured| captured.path == file.path) {
            continue;
        }
        let before = file.before.as_deref().unwrap_or_default();
        let Some(after) = file.after.as_deref() else {
            if file.before.is_some() {
                problems.push(ChangeProblem::TestDeleted(file.path.clone()));
            }
            continue;
        };
        let remaining = names_of_tests(after);
        for name in names_of_tests(before) {
            if !remaining.contains(&name) {
                problems.push(ChangeProblem::TestRemoved(file.path.clone(), name));
            }
        }
        for line in new_matches(&SKIP, before, after) {
            problems.push(ChangeProblem::TestSkipped(file.path.clone(), line));
        }
        for line in new_matches(&ALWAYS_TRUE, before, after) {
            problems.push(ChangeProblem::AlwaysTrue(file.path.clone(), line));
        }
        let assertions = (count(&ASSERTION, before), count(&ASSERTION, after));
        if assertions.1 < assertions.0 {
            let (before, after) = assertions;
            problems.push(ChangeProblem::AssertionsRemoved(
                file.path.clone(),
                before,
                after,
            ));
        }
    }
    problems
}

/// Compares the captured test with its proven version. The change starts with the captured test, so that a file that
/// did not change keeps its marker.
fn captured_test_problem(files: &[FileVersions], captured: &CapturedTest) -> Option<ChangeProblem> {
    let path = || captured.path.clone();
    let file = files.iter().find(|file| file.path == captured.path);
    let Some(after) = file.and_then(|file| file.after.as_deref()) else {
        return Some(match file {
            Some(_) => ChangeProblem::CapturedTestMissing(path()),
            None => ChangeProblem::MarkerKept(path()),
        });
    };
    let framework = TestFramework::detect(&captured.path, &captured.content);
    let proven = framework.without_marker(&captured.content, &captured.name);
    if framework.marker_count(after) > framework.marker_count(&proven) {
        return Some(ChangeProblem::MarkerKept(path()));
    }
    // An unused import of the marker may be removed, so that linters pass.
    let code = |content: &str| {
        let code = effective_code(&captured.path, content);
        code.lines()
            .filter(|line| {
                !line.trim_start().starts_with("import ") && !line.trim_start().starts_with("from ")
            })
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    (code(after) != code(&proven)).then(|| ChangeProblem::CapturedTestChanged(path()))
}

#[cfg(test)]
mod tests {
    use super::{CapturedTest, ChangeProblem, FileVersions, check_capture, check_fix};

    fn file(path: &str, before: Option<&str>, after: Option<&str>) -> FileVersions {
        FileVersions {
            path: path.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
            is_binary: false,
            is_test: path.starts_with("tests/"),
        }
    }

    const CODE: &str = "def f():\n    return 1\n";
    const FIXED: &str = "def f():\n    return 2\n";
    const TEST: &str = "import unittest\n\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(), 2)\n        self.assertTrue(f())\n";
    const MARKED: &str = "import unittest\n\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n    def test_f(self):\n        self.assertEqual(f(), 2)\n        self.assertTrue(f())\n";

    fn captured() -> CapturedTest {
        CapturedTest {
            path: "tests/test_f.py".to_owned(),
            name: "tests.test_f.T.test_f".to_owned(),
            content: MARKED.to_owned(),
        }
    }

    #[test]
    fn a_fix_changes_code_and_removes_only_the_marker() {
        let code = file("src/f.py", Some(CODE), Some(FIXED));
        let test = file("tests/test_f.py", None, Some(TEST));
        assert_eq!(check_fix(&[code, test], Some(&captured())), []);
    }

    #[test]
    fn a_fix_that_removes_a_large_part_of_a_file_is_refused() {
        let lines = |count: usize| -> String {
            let lines: Vec<_> = (0..count)
                .map(|number| format!("x{number} = {number}\n"))
                .collect();
            lines.concat()
        };
        let test = file("tests/test_f.py", None, Some(TEST));
        let problems = |before: usize, after: usize| {
            let code = file("src/f.py", Some(&lines(before)), Some(&lines(after)));
            check_fix(&[code, test.clone()], Some(&captured()))
        };
        let path = "src/f.py".to_owned();
        assert_eq!(problems(90, 60), [ChangeProblem::CodeRemoved(path, 90, 60)]);
        assert_eq!(problems(90, 61), []);
        assert_eq!(problems(39, 1), [], "a small file");
        let code = file("src/f.py", Some(&lines(90)), Some(&lines(9)));
        assert_eq!(check_fix(&[code], None), [], "a refactoring");
    }

    #[test]
    fn a_change_without_effect_is_refused() {
        assert_eq!(check_fix(&[], None), [ChangeProblem::Empty]);
        let comment = file(
            "src/f.py",
            Some(CODE),
            Some("# Fixed the race.\ndef f():\n    return 1\n"),
        );
        let notes = file("CHANGELOG.md", None, Some("Fixed.\n"));
        assert_eq!(
            check_fix(&[comment, notes.clone()], None),
            [ChangeProblem::WithoutEffect]
        );
        let test = file("tests/test_f.py", Some(MARKED), Some(TEST));
        let problems = check_fix(&[test, notes], Some(&captured()));
        assert_eq!(problems, [ChangeProblem::OnlyTests]);
        assert!(problems.iter().all(ChangeProblem::is_empty_change));
    }

    #[test]
    fn the_captured_test_must_stay_and_lose_its_marker() {
        let code = file("src/f.py", Some(CODE), Some(FIXED));
        let path = || "tests/test_f.py".to_owned();
        let weaker = TEST.replace("        self.assertTrue(f())\n", "");
        let cases = [
            (None, ChangeProblem::MarkerKept(path())),
            (Some(Some(MARKED)), ChangeProblem::MarkerKept(path())),
            (
                Some(Some(weaker.as_str())),
                ChangeProblem::CapturedTestChanged(path()),
            ),
            (Some(None), ChangeProblem::CapturedTestMissing(path())),
        ];
        for (after, expected) in cases {
            let mut files = vec![code.clone()];
            files.extend(after.map(|after| file("tests/test_f.py", None, after)));
            assert_eq!(check_fix(&files, Some(&captured())), [expected]);
        }
    }

    #[test]
    fn other_tests_may_not_be_weakened() {
        let code = file("src/f.py", Some(CODE), Some(FIXED));
        let path = || "tests/test_g.py".to_owned();
        let before = TEST.replace("test_f", "test_g");
        let cases = [
            (None, ChangeProblem::TestDeleted(path())),
            (
                Some(before.replace("test_g", "check_g")),
                ChangeProblem::TestRemoved(path(), "test_g".to_owned()),
            ),
            (
                Some(before.replace("    def", "    @unittest.skip('flaky')\n    def")),
                ChangeProblem::TestSkipped(path(), "@unittest.skip('flaky')".to_owned()),
            ),
            (
                Some(before.replace("        self.assertTrue(f())\n", "")),
                ChangeProblem::AssertionsRemoved(path(), 2, 1),
            ),
            (
                Some(before.replace("assertTrue(f())", "assertTrue(True)")),
                ChangeProblem::AlwaysTrue(path(), "self.assertTrue(True)".to_owned()),
            ),
        ];
        for (after, expected) in cases {
            let test = file("tests/test_g.py", Some(&before), after.as_deref());
            assert_eq!(check_fix(&[code.clone(), test], None), [expected]);
        }
        let workflow = file(".github/workflows/ci.yml", Some("a: 1\n"), Some("a: 2\n"));
        assert_eq!(
            check_fix(&[code, workflow], None),
            [ChangeProblem::ChecksChanged(
                ".github/workflows/ci.yml".to_owned()
            )]
        );
    }

    #[test]
    fn a_capture_changes_only_tests() {
        let test = file("tests/test_f.py", None, Some(MARKED));
        let check = |files: &[FileVersions]| check_capture(files, "tests/test_f.py", "test_f");
        assert_eq!(check(std::slice::from_ref(&test)), []);
        let code = file("src/f.py", Some(CODE), Some(FIXED));
        assert_eq!(
            check(&[test, code.clone()]),
            [ChangeProblem::ChangedCode("src/f.py".to_owned())]
        );
        assert_eq!(
            check(&[code]),
            [
                ChangeProblem::ChangedCode("src/f.py".to_owned()),
                ChangeProblem::CapturedTestMissing("tests/test_f.py".to_owned())
            ]
        );
        let other = file("tests/test_g.py", Some(TEST), None);
        let test = file("tests/test_f.py", None, Some(MARKED));
        assert_eq!(
            check(&[test, other]),
            [ChangeProblem::TestDeleted("tests/test_g.py".to_owned())]
        );
    }
}
