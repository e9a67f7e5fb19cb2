//! `builtin/file-edit`: exact pieces of a file, all of them or none.

use std::io::Read as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::paths::{Last, Target, target};
use super::{Description, FILE_TIMEOUT, Preparing, builtin, read, ready, write};
use crate::capability::{Access, Capability};
use crate::ports::MASK;
use crate::spec::{Category, Ground};
use crate::tool::{Answer, Call, Failure, Grounds, Tool, Unprepared};

/// Larger files are not edited in memory.
const LARGEST: u64 = 32 << 20;

/// So many places are named when a text is found more than once.
const PLACES_TOLD: usize = 5;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to change.
    path: String,
    /// The changes, done one after the other; when one of them fails, the file stays as it is.
    #[schemars(length(min = 1))]
    edits: Vec<Edit>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The exact text to replace, with all its spaces and line breaks. It must occur once.
    old_text: String,
    /// The text to put in its place.
    new_text: String,
    /// Whether to replace it wherever it occurs.
    replace_all: Option<bool>,
}

pub(super) fn tool() -> Arc<dyn Tool> {
    let description = Description {
        name: "file-edit",
        about: "Replaces exact pieces of text in a file. Several edits are done together or not at all. Each \
                      old text must occur exactly once, unless replace_all is set.",
        category: Category::FileOperations,
        ground: Ground::Workspace,
        capability: Capability::writes("file"),
        timeout: FILE_TIMEOUT,
    };
    builtin::<Arguments>(description, prepare)
}

fn prepare(arguments: Arguments, grounds: Grounds<'_>) -> Preparing<'_> {
    for (number, edit) in arguments.edits.iter().enumerate() {
        let wrong = |why: &str| Err(Unprepared::Arguments(format!("edit {}: {why}", number + 1)));
        if edit.old_text.is_empty() {
            return wrong("the old text is empty; to make a new file use builtin/file-write");
        }
        if edit.old_text == edit.new_text {
            return wrong("the old and the new text are the same");
        }
    }
    let file = target(grounds, &arguments.path, Last::Follow, Access::Writes)?;
    let subjects = vec![file.subject(Access::Writes)];
    Ok(ready(subjects, move |call| {
        edit(&file, &arguments.edits, call)
    }))
}

fn edit(file: &Target<'_>, edits: &[Edit], call: &mut Call<'_>) -> Result<Answer, Failure> {
    let mut bytes = Vec::new();
    read::open(file)?
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| file.failed("reading", &error))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Failure::new(format!(
            "`{}` is too large to be edited",
            file.path
        )));
    }
    let mut text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(format!("`{}` is not UTF-8 text", file.path)))?;
    let masks = text.matches(MASK).count();
    let mut told = Vec::new();
    for (number, edit) in edits.iter().enumerate() {
        call.keep_going()?;
        let (changed, count) = apply(&text, edit).map_err(|why| {
            let number = number + 1;
            Failure::new(format!("edit {number}: {why}; nothing was changed"))
        })?;
        told.push(count);
        text = changed;
    }
    write::refuse_new_masks(file, masks, text.matches(MASK).count())?;
    let touched = write::replace(file, text.as_bytes())?;
    let total: usize = told.iter().sum();
    let of_each: Vec<String> = told.iter().map(ToString::to_string).collect();
    call.output.text(&format!(
        "edited `{}`: {total} replaced (by each edit: {})",
        file.path,
        of_each.join(", ")
    ));
    Ok(Answer::written().touching(touched))
}

/// The text after an edit, and how often it was done.
fn apply(text: &str, edit: &Edit) -> Result<(String, usize), String> {
    let places: Vec<usize> = text
        .match_indices(&edit.old_text)
        .map(|(at, _)| at)
        .collect();
    match places.len() {
        0 => Err(not_found(text, &edit.old_text)),
        1 => Ok((text.replacen(&edit.old_text, &edit.new_text, 1), 1)),
        count if edit.replace_all == Some(true) => {
            Ok((text.replace(&edit.old_text, &edit.new_text), count))
        }
        count => {
            let lines: Vec<String> = places
                .iter()
                .take(PLACES_TOLD)
                .map(|at| (text[..*at].matches('\n').count() + 1).to_string())
                .collect();
            let more = if count > PLACES_TOLD { " and more" } else { "" };
            Err(format!(
                "the old text occurs {count} times, in lines {}{more}; give more text around it, or set replace_all",
                lines.join(", ")
            ))
        }
    }
}

/// Says that a text is not there, and where something much like it is.
fn not_found(text: &str, wanted: &str) -> String {
    if wanted.contains(MASK) && !text.contains(MASK) {
        return format!(
            "the old text contains `{MASK}`, which stands for a secret that you are not shown; \
             choose text beside the secret"
        );
    }
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = wanted.lines().map(squeeze).find(|line| !line.is_empty());
    let alike = first.and_then(|first| text.lines().position(|line| squeeze(line) == first));
    match alike {
        Some(line) => format!(
            "the old text does not occur; line {} is like its beginning but for spaces or what follows",
            line + 1
        ),
        None => "the old text does not occur in the file".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Edit, apply};
    use proptest::prelude::*;

    fn edit(old: &str, new: &str, all: bool) -> Edit {
        Edit {
            old_text: old.to_owned(),
            new_text: new.to_owned(),
            replace_all: Some(all),
        }
    }

    #[test]
    fn a_text_must_occur_once_unless_all_are_meant() {
        let text = "one\ntwo\none\n";
        assert_eq!(
            apply(text, &edit("two", "2", false)),
            Ok(("one\n2\none\n".to_owned(), 1))
        );
        assert_eq!(
            apply(text, &edit("one", "1", true)),
            Ok(("1\ntwo\n1\n".to_owned(), 2))
        );
        let told = apply(text, &edit("one", "1", false)).expect_err("twice");
        assert!(told.contains("2 times, in lines 1, 3"), "{told}");
        let told = apply("a  b\n", &edit("a b", "c", false)).expect_err("spaces");
        assert!(told.contains("line 1"), "{told}");
        let told = apply(text, &edit("three", "3", true)).expect_err("none");
        assert!(told.contains("does not occur"), "{told}");
    }

    proptest! {
        #[test]
        fn an_edit_and_its_opposite_give_the_first_text(
            before in "[ab\n]{0,20}", after in "[ab\n]{0,20}",
        ) {
            let text = format!("{before}XYZ{after}");
            let (changed, _) = apply(&text, &edit("XYZ", "QQ", false)).expect("once");
            let (back, _) = apply(&changed, &edit("QQ", "XYZ", false)).expect("once");
            prop_assert_eq!(back, text);
        }
    }
}
