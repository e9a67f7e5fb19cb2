//! The pager: long reports on a terminal are shown by `$PAGER`, or `less` if it is installed.

use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::layout::width;
use super::standard_streams::StandardStreams;
use crate::config::Environment;

/// Commands whose reports can be longer than a screen.
const PAGED: [&str; 10] = [
    "help",
    "plan diff",
    "plan explain",
    "plan log",
    "plan show",
    "plan tree",
    "run show",
    "sandbox diff",
    "session messages",
    "session show",
];

/// Exit codes of a shell that cannot run its command.
const NOT_RUN: [i32; 2] = [126, 127];

/// A program that shows text page by page, and the size of the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pager {
    /// Shell command; `less` when `None`.
    command: Option<String>,
    rows: usize,
    columns: usize,
    has_less_options: bool,
}

impl Pager {
    /// The pager of the terminal. `None` without a terminal, or if `PAGER` is empty or `cat`.
    pub(crate) fn detect(environment: &Environment, surface: &StandardStreams) -> Option<Self> {
        if !surface.stdout_is_terminal || surface.is_dumb || !io::stdin().is_terminal() {
            return None;
        }
        let (columns, rows) = terminal_size::terminal_size_of(io::stdout())?;
        let pager = Self::new(environment, usize::from(rows.0), usize::from(columns.0))?;
        Some(pager)
    }

    fn new(environment: &Environment, rows: usize, columns: usize) -> Option<Self> {
        let command = environment.get("PAGER").is_some().then(|| {
            let command = environment.text("PAGER").unwrap_or_default();
            command.trim().to_owned()
        });
        let is_off = |command: &str| command.is_empty() || command == "cat";
        (!command.as_deref().is_some_and(is_off)).then(|| Self {
            command,
            rows,
            columns,
            has_less_options: environment.get("LESS").is_some(),
        })
    }

    /// True if the reports of a command are paged.
    pub(crate) fn is_for(command: &str) -> bool {
        PAGED.contains(&command)
    }

    /// Shows a text, in the pager if it is longer than the screen and the pager can be started.
    pub(crate) fn show(&self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        if self.fits(text) || !self.page(text) {
            out.write_all(text)?;
        }
        out.flush()
    }

    /// True if the text leaves a line of the screen for the prompt.
    fn fits(&self, text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text);
        let heights = text.lines().map(|line| {
            // Escape sequences count as text: at worst a text that fits is paged, and `less -F` quits.
            width(line).div_ceil(self.columns.max(1)).max(1)
        });
        heights.sum::<usize>() < self.rows
    }

    /// Runs the pager until the user ends it. False if it cannot be started.
    fn page(&self, text: &[u8]) -> bool {
        let mut command = match &self.command {
            Some(line) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(line);
                shell
            }
            None => Command::new("less"),
        };
        if !self.has_less_options {
            command.env("LESS", "FRX");
        }
        // Ctrl-C belongs to the pager.
        let interrupt = signal_hook::consts::SIGINT;
        let ignored = signal_hook::flag::register(interrupt, Arc::new(AtomicBool::new(false)));
        let shown = command.stdin(Stdio::piped()).spawn().and_then(|mut child| {
            if let Some(mut input) = child.stdin.take() {
                match input.write_all(text) {
                    // The user ended the pager early.
                    Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error),
                    _ => {}
                }
            }
            child.wait()
        });
        if let Ok(ignored) = ignored {
            signal_hook::low_level::unregister(ignored);
        }
        shown.is_ok_and(|status| !status.code().is_some_and(|code| NOT_RUN.contains(&code)))
    }
}

#[cfg(test)]
mod tests {
    use super::Pager;
    use crate::config::Environment;

    fn pager(variables: &[(&str, &str)]) -> Option<Pager> {
        Pager::new(&Environment::from_pairs("/", variables), 4, 10)
    }

    #[test]
    fn an_empty_variable_and_cat_turn_the_pager_off() {
        assert_eq!(pager(&[("PAGER", "cat")]), None);
        assert_eq!(pager(&[("PAGER", " ")]), None);
        assert_eq!(pager(&[]).expect("less").command, None);
        let more = pager(&[("PAGER", "more -d")]).expect("a pager");
        assert_eq!(more.command.as_deref(), Some("more -d"));
    }

    #[test]
    fn a_text_that_fits_the_screen_is_not_paged() {
        let pager = pager(&[("PAGER", "true")]).expect("a pager");
        let shown = |text: &str| {
            let mut out = Vec::new();
            pager.show(text.as_bytes(), &mut out).expect("written");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(shown("1\n2\n3\n"), "1\n2\n3\n");
        assert_eq!(shown("1\n2\n3\n4\n"), "", "`true` swallows it");
        assert_eq!(shown("1234567890123456789012345678901"), "", "four rows");
    }

    #[test]
    fn a_pager_that_does_not_exist_loses_nothing() {
        let pager = pager(&[("PAGER", "/no/such/pager 2>/dev/null")]).expect("a pager");
        let mut out = Vec::new();
        pager.show(b"1\n2\n3\n4\n5\n", &mut out).expect("written");
        assert_eq!(out, b"1\n2\n3\n4\n5\n");
    }
}
