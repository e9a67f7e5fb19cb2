//! [`PlanQuestion`]: a question about a plan at the terminal, answered with a key or with guidance.

use cleveragents_domain::Code;
use cleveragents_models::CancellationToken;
use cleveragents_process::Cancel;

use crate::commands::{signals, terminal};
use crate::context::Context;
use crate::output::{CommandError, Pager, StandardStreams, fold_lines, width, write_err};

/// A question whose subject the user can view again before answering.
pub(super) struct PlanQuestion<'q> {
    pub(super) text: String,
    /// Name of the subject for the key `d`, such as `diff`.
    pub(super) subject: &'static str,
    /// The subject, as it is shown for the key `d`.
    pub(super) show: &'q dyn Fn() -> Result<String, CommandError>,
    /// Whether the key `e` edits the subject.
    pub(super) can_edit: bool,
}

/// Answer of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlanAnswer {
    Yes,
    No,
    Edit,
    /// Guidance for the plan.
    Tell(String),
}

/// Input of the user.
#[derive(Debug, PartialEq, Eq)]
enum QuestionInput {
    Answer(PlanAnswer),
    Show,
    AskForText,
    Help,
}

impl PlanQuestion<'_> {
    /// Asks until the user answers. The end of the input is an error with [`Code::ConfirmationNeeded`].
    pub(super) fn ask(&self, context: &Context) -> Result<PlanAnswer, CommandError> {
        let limit = context.printer.error_width();
        let text = fold_lines(&self.text, limit);
        let keys = format!("[{}]: ", self.keys().join(", "));
        let last_line = text.lines().next_back().unwrap_or_default();
        let fits = width(last_line) + 1 + width(&keys) <= limit;
        let prompt = format!("{}{keys}", if fits { " " } else { "\n" });
        loop {
            match QuestionInput::parse(&read_line(&text, &prompt)?, self.can_edit) {
                QuestionInput::Answer(answer) => return Ok(answer),
                QuestionInput::Show => page(context, &(self.show)()?),
                QuestionInput::AskForText => {
                    let text = read_line("What should the plan do differently?", "\n> ")?;
                    if !text.is_empty() {
                        return Ok(PlanAnswer::Tell(text));
                    }
                }
                QuestionInput::Help => write_err(&self.help()),
            }
        }
    }

    fn keys(&self) -> Vec<String> {
        let mut keys = vec!["y/N".to_owned()];
        if self.can_edit {
            keys.push("e edit".to_owned());
        }
        keys.push("t give guidance".to_owned());
        keys.push(format!("d {}", self.subject));
        keys
    }

    fn help(&self) -> String {
        let edit = if self.can_edit {
            "  e  edit the strategy in $VISUAL or $EDITOR\n"
        } else {
            ""
        };
        format!(
            "  y  yes\n  n  no, or Enter\n{edit}  t  give guidance to the plan\n  d  show the {}\n  \
             A sentence is also guidance.\n",
            self.subject
        )
    }
}

impl QuestionInput {
    /// Parses a line. A sentence is guidance; a single word that is no key is a typing error.
    fn parse(line: &str, can_edit: bool) -> Self {
        let line = line.trim();
        match line.to_lowercase().as_str() {
            "y" | "yes" => Self::Answer(PlanAnswer::Yes),
            "" | "n" | "no" => Self::Answer(PlanAnswer::No),
            "e" | "edit" if can_edit => Self::Answer(PlanAnswer::Edit),
            "t" | "tell" => Self::AskForText,
            "d" | "details" | "diff" | "output" => Self::Show,
            _ if line.split_whitespace().nth(1).is_some() => {
                Self::Answer(PlanAnswer::Tell(line.to_owned()))
            }
            _ => Self::Help,
        }
    }
}

/// Reads a line at the terminal. Ctrl-C and the end of the input are errors.
fn read_line(question: &str, prompt: &str) -> Result<String, CommandError> {
    // An installed handler keeps signals from ending the program: they cancel the question instead.
    let cancel = Cancel::new();
    let signals = signals::stop_on_signals(&cancel, &CancellationToken::new())?;
    let line = terminal::ask(question, prompt, &cancel);
    signals.conclude(line.ok_or_else(|| {
        CommandError::new(
            Code::ConfirmationNeeded,
            "not confirmed; nothing changed".to_owned(),
        )
        .with_hint("repeat the command with --yes")
    }))
}

/// Shows a text, in the pager if it is longer than the screen.
fn page(context: &Context, text: &str) {
    let text = format!("{}\n", text.trim_end());
    let pager = context
        .printer
        .uses_pager()
        .then(|| {
            let streams = StandardStreams::detect(&context.environment);
            Pager::detect(&context.environment, &streams)
        })
        .flatten();
    match pager {
        Some(pager) => {
            // The question follows even if the text cannot be written.
            let _shown = pager.show(text.as_bytes(), &mut std::io::stderr());
        }
        None => write_err(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::{PlanAnswer, QuestionInput};

    #[test]
    fn keys_words_and_sentences_are_distinguished() {
        let tell = |text: &str| QuestionInput::Answer(PlanAnswer::Tell(text.to_owned()));
        for (line, typed) in [
            ("y", QuestionInput::Answer(PlanAnswer::Yes)),
            (" YES ", QuestionInput::Answer(PlanAnswer::Yes)),
            ("", QuestionInput::Answer(PlanAnswer::No)),
            ("n", QuestionInput::Answer(PlanAnswer::No)),
            ("e", QuestionInput::Answer(PlanAnswer::Edit)),
            ("t", QuestionInput::AskForText),
            ("d", QuestionInput::Show),
            ("?", QuestionInput::Help),
            ("x", QuestionInput::Help),
            ("quit", QuestionInput::Help),
            ("Keep the old name", tell("Keep the old name")),
        ] {
            assert_eq!(QuestionInput::parse(line, true), typed, "{line}");
        }
        assert_eq!(QuestionInput::parse("e", false), QuestionInput::Help);
    }
}
