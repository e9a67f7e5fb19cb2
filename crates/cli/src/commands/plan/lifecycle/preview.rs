//! Preview of the changes that the user confirms before an apply.

use std::fmt::Write as _;

use cleveragents_application::ChangeStatus;
use cleveragents_application::plan_operations::{ChangedFile, PlanDiff};

use crate::context::Context;
use crate::output::{Tone, visible};

/// Maximum number of lines of the patch to show.
const MAX_PATCH_LINES: usize = 200;

/// Maximum number of files to list.
const MAX_FILES: usize = 100;

/// Start of a patch in colours; `full_command` is the command that shows the whole patch.
pub(crate) fn patch_preview(context: &Context, patch: &[u8], full_command: &str) -> String {
    let paint = context.printer.error_paint();
    let mut text = String::from("\n");
    let patch = without_binary_data(&String::from_utf8_lossy(patch));
    for line in patch.lines().take(MAX_PATCH_LINES) {
        let line = line.replace('\t', "    ");
        let line = visible(&line);
        let _never_fails = writeln!(text, "{}", paint.text(tone(&line), &line));
    }
    let hidden = patch.lines().count().saturating_sub(MAX_PATCH_LINES);
    if hidden > 0 {
        let _never_fails = writeln!(text, "… {hidden} more lines: `{full_command}` shows them");
    }
    text
}

/// The patch, followed by the changed files with line counts. The files come last, next to the question.
pub(super) fn changes_preview(context: &Context, changes: &PlanDiff) -> String {
    let paint = context.printer.error_paint();
    let patch = changes.patch.as_deref().unwrap_or_default();
    let full_command = format!("agents plan diff {}", changes.diff_summary.plan);
    let mut text = patch_preview(context, patch.as_bytes(), &full_command);
    let display_path = |file: &ChangedFile| {
        let is_several = changes.files.iter().any(|other| other.part != file.part);
        if is_several {
            format!("{}/{}", file.part, file.path)
        } else {
            file.path.clone()
        }
    };
    let files: Vec<_> = changes
        .files
        .iter()
        .filter(|file| !file.is_folder)
        .collect();
    if !files.is_empty() {
        text.push('\n');
    }
    for file in files.iter().take(MAX_FILES) {
        let display_path = display_path(file);
        let lines = file.change.clone();
        let size = lines.unwrap_or_else(|| format!("{} bytes", file.size));
        let line = format!(
            "  {:<8} {} ({size})",
            file.status.as_str(),
            visible(&display_path)
        );
        let tone = match file.status {
            ChangeStatus::Deleted => Tone::Bad,
            ChangeStatus::Added => Tone::Good,
            ChangeStatus::Modified | ChangeStatus::Mode => Tone::Plain,
        };
        let _never_fails = writeln!(text, "{}", paint.text(tone, &line));
    }
    if files.len() > MAX_FILES {
        let _never_fails = writeln!(text, "  … and {} more", files.len() - MAX_FILES);
    }
    if changes.patch.is_none() && !changes.files.is_empty() {
        text.push_str("the sandbox was removed, so the changed lines are not available\n");
    }
    text
}

/// The patch without the encoded contents of binary files, which would hide the readable lines.
fn without_binary_data(patch: &str) -> String {
    let mut readable = String::with_capacity(patch.len().min(1 << 20));
    let mut is_data = false;
    for line in patch.lines() {
        if line == "GIT binary patch" {
            is_data = true;
            readable.push_str("Binary file\n");
            continue;
        }
        is_data &= !line.starts_with("diff --git ");
        if !is_data {
            readable.push_str(line);
            readable.push('\n');
        }
    }
    readable
}

/// Colour of a line of a patch.
fn tone(line: &str) -> Tone {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Tone::Muted,
        [b'+', ..] => Tone::Good,
        [b'-', ..] => Tone::Bad,
        [b'@', b'@', ..] => Tone::Id,
        [b' ', ..] => Tone::Plain,
        _ => Tone::Muted,
    }
}

#[cfg(test)]
mod tests {
    use super::without_binary_data;

    #[test]
    fn binary_contents_are_removed_and_text_lines_stay() {
        let patch = "diff --git a/a.out b/a.out\nnew file mode 100644\nGIT binary patch\nliteral 3\nKcmZQzU|?VX0RR910ssI2\n\n\
                     diff --git a/zz.py b/zz.py\n--- /dev/null\n+++ b/zz.py\n@@ -0,0 +1 @@\n+import os\n";
        assert_eq!(
            without_binary_data(patch),
            "diff --git a/a.out b/a.out\nnew file mode 100644\nBinary file\n\
             diff --git a/zz.py b/zz.py\n--- /dev/null\n+++ b/zz.py\n@@ -0,0 +1 @@\n+import os\n"
        );
    }
}
