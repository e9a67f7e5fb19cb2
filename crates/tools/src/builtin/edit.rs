//! `builtin/file-edit`: replaces text in a file. Applies all edits of a call, or none.
//!
//! An `old_text` that differs from the file only in whitespace or typographic characters still matches if the match is
//! unique. The new text then gets the indentation of the file.

use std::io::Read as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::edit_errors::{EditMismatch, line_of, not_found, several};
use super::matching::{Indentation, Level, occurrences};
use super::paths::{LastLink, Target, target};
use super::{Description, FILE_TIMEOUT, PrepareResult, builtin, read, ready, write};
use crate::capability::{Access, Capability};
use crate::ports::MASK;
use crate::spec::{Category, WorkspaceNeed};
use crate::tool::{Answer, Call, Failure, PrepareContext, PrepareError, Tool};

/// Maximum size of an edited file, in bytes. Edits happen in memory.
const MAX_FILE_SIZE: u64 = 32 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    /// The file to edit.
    path: String,
    /// The replacements, applied in order. If one fails, the file is left unchanged.
    #[schemars(length(min = 1))]
    edits: Vec<Edit>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The exact text to replace, including whitespace and line breaks. It must occur once, unless replace_all is set.
    old_text: String,
    /// The replacement text.
    new_text: String,
    /// Whether to replace every occurrence. Default: false.
    replace_all: Option<bool>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-edit",
        about: "Replaces exact pieces of text in a file. Several edits are applied together or not at all. Each \
                      old text must occur exactly once, unless replace_all is set.",
        category: Category::FileOperations,
        workspace_need: WorkspaceNeed::Required,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    builtin::<EditArguments>(description, prepare)
}

fn prepare(arguments: EditArguments, context: PrepareContext<'_>) -> PrepareResult<'_> {
    for (number, edit) in arguments.edits.iter().enumerate() {
        let invalid = |why: &str| {
            Err(PrepareError::Arguments(format!(
                "edit {}: {why}",
                number + 1
            )))
        };
        if edit.old_text.is_empty() {
            return invalid("the old text is empty; create files with builtin/file-write");
        }
        if edit.old_text == edit.new_text {
            return invalid("the old text and the new text are the same");
        }
    }
    let file = target(context, &arguments.path, LastLink::Follow, Access::Writes)?;
    let subjects = vec![file.subject(Access::Writes)];
    Ok(ready(subjects, move |call| {
        edit(&file, &arguments.edits, call)
    }))
}

fn edit(file: &Target<'_>, edits: &[Edit], call: &mut Call<'_>) -> Result<Answer, Failure> {
    let mut text = content(file, call)?;
    let masks = text.matches(MASK).count();
    let (mut counts, mut repairs) = (Vec::new(), Vec::new());
    for (number, edit) in edits.iter().enumerate() {
        call.check_running()?;
        let edited = apply(&text, edit).map_err(|mismatch| {
            let place = if edits.len() > 1 {
                format!("edit {}: ", number + 1)
            } else {
                String::new()
            };
            if call.path_permissions().shows(&file.part_path()) {
                call.output.text(&mismatch.excerpt);
            }
            Failure::new(format!("{place}{}. Nothing was changed.", mismatch.why))
        })?;
        counts.push(edited.count);
        repairs.extend(
            edited
                .repair
                .map(|repair| format!("edit {}: {repair}", number + 1)),
        );
        text = edited.text;
    }
    write::refuse_new_masks(file, masks, text.matches(MASK).count())?;
    let touched = write::replace(file, text.as_bytes())?;
    let count_texts: Vec<String> = counts.iter().map(ToString::to_string).collect();
    let total: usize = counts.iter().sum();
    let plural = if total == 1 { "" } else { "s" };
    call.output.text(&format!(
        "edited `{}`: {total} replacement{plural}",
        file.path
    ));
    if total != counts.len() {
        call.output
            .text(&format!(" (per edit: {})", count_texts.join(", ")));
    }
    let note = (!repairs.is_empty()).then(|| repairs.join("\n"));
    Ok(Answer::written().touching(touched).with_note(note))
}

/// Reads a whole text file of at most [`MAX_FILE_SIZE`] bytes.
pub(super) fn content(file: &Target<'_>, call: &Call<'_>) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    read::open(file, call)?
        .take(MAX_FILE_SIZE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| file.failed("reading", &error))?;
    if bytes.len() as u64 > MAX_FILE_SIZE {
        return Err(Failure::new(format!(
            "`{}` is too large to edit",
            file.path
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure::new(format!("`{}` is not UTF-8 text", file.path)))
}

#[derive(Debug, PartialEq, Eq)]
struct EditResult {
    text: String,
    /// Number of replaced occurrences.
    count: usize,
    /// Description of ignored differences in whitespace or typographic characters, for the model.
    repair: Option<String>,
}

fn apply(text: &str, edit: &Edit) -> Result<EditResult, EditMismatch> {
    let places: Vec<usize> = text
        .match_indices(&edit.old_text)
        .map(|(at, _)| at)
        .collect();
    let replaced = |count| EditResult {
        text: text.replacen(&edit.old_text, &edit.new_text, count),
        count,
        repair: None,
    };
    match places.len() {
        0 => repaired(text, edit)
            .unwrap_or_else(|| Err(not_found(text, &edit.old_text, &edit.new_text))),
        1 => Ok(replaced(1)),
        count if edit.replace_all == Some(true) => Ok(replaced(count)),
        _ => {
            let lines: Vec<usize> = places.iter().map(|at| line_of(text, *at)).collect();
            Err(several(&lines).into())
        }
    }
}

/// Applies an edit whose old text differs from whole lines of the file only in whitespace or typographic characters.
/// `None` when there are no such lines, or the indentation of the new text cannot be derived.
fn repaired(text: &str, edit: &Edit) -> Option<Result<EditResult, EditMismatch>> {
    if edit.old_text.trim().is_empty() {
        return None;
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let ends_line = edit.old_text.ends_with('\n');
    let old = edit.old_text.strip_suffix('\n').unwrap_or(&edit.old_text);
    let old_lines: Vec<&str> = old.split('\n').collect();
    let (level, places) = occurrences(&lines, &old_lines, 0)?;
    if level == Level::Exact {
        return None;
    }
    let numbers: Vec<usize> = places.iter().map(|place| place + 1).collect();
    let [place] = places.as_slice() else {
        return Some(Err(several(&numbers).into()));
    };
    let matched = &lines[*place..place + old_lines.len()];
    let new = if ends_line {
        edit.new_text.strip_suffix('\n').unwrap_or(&edit.new_text)
    } else {
        &edit.new_text
    };
    let is_crlf = matched.iter().all(|line| line.ends_with('\r'));
    let new = adapted(matched, &old_lines, new, level)?;
    let new = if is_crlf {
        new.lines()
            .map(|line| format!("{}\r", line.trim_end_matches('\r')))
            .collect()
    } else {
        new.split('\n').map(str::to_owned).collect::<Vec<String>>()
    };
    // An empty new text deletes the lines.
    let new = if ends_line && edit.new_text.is_empty() {
        Vec::new()
    } else {
        new
    };
    let before = lines[..*place].iter().map(|line| (*line).to_owned());
    let after = lines[place + old_lines.len()..]
        .iter()
        .map(|line| (*line).to_owned());
    let all: Vec<String> = before.chain(new).chain(after).collect();
    let ignored = level.ignored().unwrap_or_default();
    Some(Ok(EditResult {
        text: all.join("\n"),
        count: 1,
        repair: Some(format!(
            "your old text, found at line {}, differed from the file in {ignored}; the file's version was kept",
            place + 1
        )),
    }))
}

/// Gives the new text the indentation of the file; `None` when it cannot be derived.
fn adapted(matched: &[&str], old_lines: &[&str], new: &str, level: Level) -> Option<String> {
    if level == Level::TrailingSpace {
        return Some(new.to_owned());
    }
    let indentation = Indentation::between(matched, old_lines)?;
    let lines = new.split('\n').map(|line| indentation.adapt(line));
    let lines: Option<Vec<String>> = lines.collect();
    Some(lines?.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{Edit, apply, not_found};
    use proptest::prelude::*;

    fn edit(old: &str, new: &str, all: bool) -> Edit {
        Edit {
            old_text: old.to_owned(),
            new_text: new.to_owned(),
            replace_all: Some(all),
        }
    }

    #[test]
    fn old_text_must_occur_once_unless_replace_all_is_set() {
        let text = "one\ntwo\none\n";
        let edited = apply(text, &edit("two", "2", false)).expect("once");
        assert_eq!((edited.text.as_str(), edited.count), ("one\n2\none\n", 1));
        let edited = apply(text, &edit("one", "1", true)).expect("twice");
        assert_eq!((edited.text.as_str(), edited.count), ("1\ntwo\n1\n", 2));
        let mismatch = apply(text, &edit("one", "1", false)).expect_err("twice");
        let message = format!("{}\n{}", mismatch.why, mismatch.excerpt);
        assert!(message.contains("2 times, in lines 1, 3"), "{message}");
        let mismatch = apply(text, &edit("three", "3", true)).expect_err("none");
        let message = format!("{}\n{}", mismatch.why, mismatch.excerpt);
        assert!(message.contains("does not occur"), "{message}");
    }

    #[test]
    fn whitespace_differences_are_repaired_when_the_match_is_unique() {
        let text = "def f():\n\tif x:\n\t\treturn 1\n\treturn 2\n";
        let old = "    if x:\n        return 1";
        let new = "    if y:\n        return 3";
        let edited = apply(text, &edit(old, new, false)).expect("spaces only");
        assert_eq!(edited.text, "def f():\n\tif y:\n\t\treturn 3\n\treturn 2\n");
        assert!(edited.repair.expect("a repair").contains("line 2"));
        let edited = apply("a  \r\nb\r\nc\r\n", &edit("a\nb\n", "x\ny\n", false)).expect("ends");
        assert_eq!(edited.text, "x\r\ny\r\nc\r\n");
        let edited = apply("say “hi”\n", &edit("say \"hi\"", "bye", false)).expect("quotes");
        assert_eq!(edited.text, "bye\n");
        let edited = apply("a\n  b \nc\n", &edit("  b\n", "", false)).expect("a deletion");
        assert_eq!(edited.text, "a\nc\n");
        // The edit is refused: both lines match except for whitespace.
        let mismatch = apply("  a\n\ta\n", &edit("a\n", "b\n", false)).expect_err("twice");
        let message = format!("{}\n{}", mismatch.why, mismatch.excerpt);
        assert!(message.contains("2 times, in lines 1, 2"), "{message}");
    }

    #[test]
    fn a_missing_old_text_is_explained() {
        let text = "fn a() {\n    let total = 1;\n    print(total);\n}\n";
        let old = "    let total = 2;\n    print(total);";
        let mismatch = apply(text, &edit(old, "x", false)).expect_err("another number");
        let message = format!("{}\n{}", mismatch.why, mismatch.excerpt);
        assert!(message.contains("     2\t    let total = 1;"), "{message}");
        assert!(
            message
                .contains("line 2: the file has `let total = 1;`, your text has `let total = 2;`"),
            "{message}"
        );
        let mismatch =
            apply(text, &edit("let sum = 1;", "let total = 1;", false)).expect_err("done");
        let message = format!("{}\n{}", mismatch.why, mismatch.excerpt);
        assert!(message.contains("already occurs in line 2"), "{message}");
        let message = not_found("\tvalue = call(x)\n", "    value = call(y)", "").excerpt;
        assert!(
            message.contains("1 tab at the start, your text has 4 spaces at the start"),
            "{message}"
        );
    }

    proptest! {
        #[test]
        fn an_edit_and_its_inverse_restore_the_text(
            before in "[ab\n]{0,20}", after in "[ab\n]{0,20}",
        ) {
            let text = format!("{before}XYZ{after}");
            let changed = apply(&text, &edit("XYZ", "QQ", false)).expect("once");
            let back = apply(&changed.text, &edit("QQ", "XYZ", false)).expect("once");
            prop_assert_eq!(back.text, text);
        }
    }
}
