//! Title and text of a change request, from the stored records of a plan.

use std::fmt::Write as _;

use cleveragents_domain::{Plan, StepKind, StepRecord, ValidationResult};

use crate::plan::commit_subject;

/// Maximum length of the text, in bytes. GitHub accepts 65,536 characters.
const MAX_LENGTH: usize = 60_000;

/// Maximum number of files that are listed.
const MAX_FILES: usize = 100;

/// Maximum number of lines of the summary of a step.
const MAX_SUMMARY_LINES: usize = 8;

/// Maximum length of the part of a branch name that is made from the task.
const MAX_SLUG: usize = 40;

/// The records of a plan that the text shows.
pub(super) struct PlanRecords<'a> {
    pub(super) plan: &'a Plan,
    pub(super) steps: &'a [StepRecord],
    /// The last result of each validation.
    pub(super) results: &'a [ValidationResult],
    pub(super) is_cost_known: bool,
}

/// The default title: the first line of the task.
pub(super) fn title(plan: &Plan) -> String {
    commit_subject(first_line(plan))
}

fn first_line(plan: &Plan) -> &str {
    let mut lines = plan.description.lines().map(str::trim);
    lines
        .find(|line| !line.is_empty())
        .unwrap_or(plan.action.as_str())
}

/// The default branch: `agents/` and the first words of the task.
pub(super) fn default_branch(plan: &Plan) -> String {
    let slug = slug(first_line(plan));
    if slug.is_empty() {
        return format!("agents/plan-{}", plan.id).to_ascii_lowercase();
    }
    format!("agents/{slug}")
}

/// The words of a text in lower case, joined by `-`, as far as they fit.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        let room = MAX_SLUG - slug.len();
        if slug.is_empty() {
            slug.push_str(&word[..word.len().min(room)]);
        } else if word.len() < room {
            slug.push('-');
            slug.push_str(word);
        } else {
            break;
        }
    }
    slug.to_ascii_lowercase()
}

/// The text: what was done, files, checks with exit codes, and cost.
pub(super) fn text(records: &PlanRecords<'_>) -> String {
    let plan = records.plan;
    let mut text = format!("{}\n", plan.description.trim());
    let done: Vec<String> = records.steps.iter().filter_map(step_text).collect();
    section(&mut text, "Changes made", &done);
    let report = plan.report.as_ref();
    let changed = report.and_then(|report| report["changed"].as_array());
    let changed = changed.map_or(&[][..], Vec::as_slice);
    let mut files: Vec<String> = changed
        .iter()
        .filter_map(|file| file.as_str())
        .take(MAX_FILES)
        .map(|file| format!("- `{file}`\n"))
        .collect();
    if changed.len() > MAX_FILES {
        files.push(format!("- and {} more\n", changed.len() - MAX_FILES));
    }
    section(&mut text, "Files", &files);
    let checks: Vec<String> = records.results.iter().map(check_text).collect();
    section(&mut text, "Checks", &checks);
    let usage = &plan.usage;
    let mut cost = format!("${:.4}", usage.cost_micro_usd.as_usd());
    if !records.is_cost_known {
        cost.push_str(" and calls of models without a known price");
    }
    let usage = format!(
        "{cost}; {} model calls; {} input and {} output tokens\n",
        plan.model_calls, usage.input_tokens.0, usage.output_tokens.0
    );
    section(&mut text, "Cost", &[usage]);
    let end = format!("\nPlan: {}\n", plan.id);
    if text.len() + end.len() > MAX_LENGTH {
        let mut at = MAX_LENGTH - end.len() - "…\n".len();
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        text.push_str("…\n");
    }
    text + &end
}

fn section(text: &mut String, heading: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _written = write!(text, "\n## {heading}\n\n");
    for line in lines {
        text.push_str(line);
    }
}

/// A step that was done, as an item of a list.
fn step_text(step: &StepRecord) -> Option<String> {
    let is_work = matches!(
        step.kind(),
        Some(StepKind::Step | StepKind::Fix | StepKind::Guidance)
    );
    if !is_work || !step.is_done() {
        return None;
    }
    let mut text = format!("- {}\n", step.title.trim());
    let summary = step.summary.as_deref().unwrap_or_default();
    let lines = summary.lines().map(str::trim_end);
    for line in lines
        .filter(|line| !line.trim().is_empty())
        .take(MAX_SUMMARY_LINES)
    {
        let _written = writeln!(text, "  {line}");
    }
    Some(text)
}

/// A check, with the exit code of its command.
fn check_text(result: &ValidationResult) -> String {
    let verdict = if result.passed { "passed" } else { "failed" };
    let code = result
        .data
        .as_ref()
        .and_then(|data| data["exit_code"].as_i64());
    let code = code.map_or_else(String::new, |code| format!(", exit code {code}"));
    format!("- `{}`: {verdict}{code}\n", result.validation)
}

#[cfg(test)]
mod tests {
    use super::{MAX_SLUG, slug};

    #[test]
    fn a_slug_has_whole_words_that_are_valid_in_a_branch() {
        for (text, expected) in [
            ("Fix the failing test.", "fix-the-failing-test"),
            ("run `make docs` & commit", "run-make-docs-commit"),
            (
                "Make the parser accept ranges whose end is included",
                "make-the-parser-accept-ranges-whose-end",
            ),
            ("Ärger", "rger"),
            ("…", ""),
        ] {
            assert_eq!(slug(text), expected);
        }
        assert_eq!(slug(&"x".repeat(100)).len(), MAX_SLUG);
    }
}
