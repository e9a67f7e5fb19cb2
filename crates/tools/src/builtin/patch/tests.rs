//! Tests of parsing and applying patches.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::hunks::apply;
use super::parse::{Section, parse};

/// Applies a patch with one update section to a text.
fn patched(text: &str, body: &str) -> Result<String, String> {
    let patch = format!("*** Begin Patch\n*** Update File: a\n{body}\n*** End Patch");
    let sections = parse(&patch)?;
    let [Section::Update { hunks, .. }] = sections.as_slice() else {
        return Err(format!("{sections:?}"));
    };
    let patched = apply(text, hunks);
    patched
        .map(|patched| patched.text)
        .map_err(|mismatch| mismatch.why)
}

#[test]
fn every_kind_of_section_is_parsed() {
    let patch = "```\n*** Begin Patch\n*** Add File: new.txt\n+one\n+\n*** Update File: a.py\n*** Move to: b.py\n@@ \
                 class A\n@@ def f\n keep\n-old\n+new\n*** End of File\n*** Delete File: gone\n*** End Patch\n```";
    let sections = parse(patch).expect("a patch");
    assert_eq!(sections.len(), 3);
    assert_eq!(
        sections[0],
        Section::Add {
            path: "new.txt".to_owned(),
            content: "one\n\n".to_owned()
        }
    );
    let Section::Update { move_to, hunks, .. } = &sections[1] else {
        panic!("{sections:?}")
    };
    assert_eq!(move_to.as_deref(), Some("b.py"));
    assert_eq!(hunks[0].headers, ["class A", "def f"]);
    assert!(hunks[0].is_at_end && hunks[0].lines.len() == 3);
}

#[test]
fn invalid_patches_are_explained() {
    for (patch, expected) in [
        ("x", "does not start with `*** Begin Patch`"),
        ("*** Begin Patch\n*** Add File: a\n+x", "does not end"),
        ("*** Begin Patch\n*** End Patch", "has no `*** Add File:`"),
        (
            "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
            "line 3 of the patch, `x`",
        ),
        (
            "*** Begin Patch\n*** Update File: a\nx\n*** End Patch",
            "start with a space",
        ),
        (
            "*** Begin Patch\n*** Update File: a\n x\n*** End Patch",
            "changes nothing",
        ),
        (
            "*** Begin Patch\nhello\n*** End Patch",
            "expected `*** Add File: PATH`",
        ),
    ] {
        let why = parse(patch).expect_err(patch);
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn hunks_match_exactly_or_ignoring_whitespace_and_quotes() {
    let text = "fn a() {\n\tone();\n\ttwo();  \n}\n";
    assert_eq!(
        patched(text, "@@\n \tone();\n-\ttwo();\n+\tthree();").expect("spaces at the end"),
        "fn a() {\n\tone();\n\tthree();\n}\n"
    );
    assert_eq!(
        patched("a\n\tb\n  c\n", " a\n     b\n-    c\n+    d").expect_err("two indentations"),
        "change 1: its lines are indented differently in the file, at line 1; read the file and copy its indentation"
    );
    assert_eq!(
        patched("    x = “a”\n    y\n", "-x = \"a\"\n+x = \"b\"\n y").expect("quotes"),
        "    x = \"b\"\n    y\n"
    );
    assert_eq!(
        patched("a\r\nb\r\n", " a\n-b\n+c").expect("line endings"),
        "a\r\nc\r\n"
    );
}

#[test]
fn a_header_selects_one_of_several_places() {
    let text = "def a():\n  x\ndef b():\n  x\n";
    let why = patched(text, "-  x\n+  y").expect_err("twice");
    assert!(why.contains("2 times, in lines 2, 4"), "{why}");
    assert_eq!(
        patched(text, "@@ def b():\n-  x\n+  y").expect("the second"),
        "def a():\n  x\ndef b():\n  y\n"
    );
    assert_eq!(
        patched(text, "-  x\n+  y\n*** End of File").expect("the last"),
        "def a():\n  x\ndef b():\n  y\n"
    );
    assert_eq!(
        patched("a\n", "@@ -1,1 +1,2 @@\n a\n+b").expect("line numbers are ignored"),
        "a\nb\n"
    );
    assert_eq!(patched("a\n", "+b").expect("at the end"), "a\nb\n");
    assert_eq!(patched("", "+b").expect("an empty file"), "b\n");
    assert_eq!(patched("a\n", "-a").expect("all of it"), "");
}

/// Computes hunks that turn one text into another, with this number of context lines around each change.
fn body(old: &[String], new: &[String], context: usize) -> String {
    // Lengths of the longest common subsequences of lines, for the diff.
    let mut longest = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for left in (0..old.len()).rev() {
        for right in (0..new.len()).rev() {
            longest[left][right] = if old[left] == new[right] {
                longest[left + 1][right + 1] + 1
            } else {
                longest[left + 1][right].max(longest[left][right + 1])
            };
        }
    }
    let (mut left, mut right) = (0, 0);
    let mut lines: Vec<(char, &str)> = Vec::new();
    while left < old.len() || right < new.len() {
        if left < old.len() && right < new.len() && old[left] == new[right] {
            lines.push((' ', &old[left]));
            (left, right) = (left + 1, right + 1);
        } else if right == new.len()
            || (left < old.len() && longest[left + 1][right] >= longest[left][right + 1])
        {
            lines.push(('-', &old[left]));
            left += 1;
        } else {
            lines.push(('+', &new[right]));
            right += 1;
        }
    }
    let mut body = String::new();
    let mut is_open = false;
    for (index, (mark, line)) in lines.iter().enumerate() {
        let near = index.saturating_sub(context)..(index + context + 1).min(lines.len());
        let is_shown = lines[near].iter().any(|(mark, _)| *mark != ' ');
        if is_shown {
            if !is_open {
                body.push_str("@@\n");
            }
            let _never_fails = writeln!(body, "{mark}{line}");
        }
        is_open = is_shown;
    }
    body.trim_end_matches('\n').to_owned()
}

fn text_of(lines: &[String]) -> String {
    let ended: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
    ended.concat()
}

proptest! {
    #[test]
    fn a_patch_between_two_texts_turns_the_first_into_the_second(
        old in prop::collection::vec("[ab{} ]{0,3}x", 0..12),
        new in prop::collection::vec("[ab{} ]{0,3}x", 0..12),
    ) {
        prop_assume!(old != new);
        let body = body(&old, &new, usize::MAX / 2);
        prop_assert_eq!(patched(&text_of(&old), &body), Ok(text_of(&new)), "{}", body);
    }

    #[test]
    fn three_context_lines_are_enough_when_lines_differ(
        kept in prop::collection::vec(any::<(bool, bool)>(), 1..40),
    ) {
        let old: Vec<String> = (0..kept.len()).map(|line| format!("line {line}")).collect();
        let new: Vec<String> = kept
            .iter()
            .enumerate()
            .flat_map(|(line, (stays, grows))| {
                let own = stays.then(|| format!("line {line}"));
                let more = grows.then(|| format!("  new {line}"));
                own.into_iter().chain(more)
            })
            .collect();
        prop_assume!(old != new);
        let body = body(&old, &new, 3);
        prop_assert_eq!(patched(&text_of(&old), &body), Ok(text_of(&new)), "{}", body);
    }

    #[test]
    fn parsing_a_patch_never_panics(text in "(\\*\\*\\* (Begin Patch|End Patch|Add File: a|Update File: b|Move to: c)|[-+ @]{0,2}[a\r]{0,2}|\n){0,20}") {
        let _sections = parse(&text);
    }
}
