//! Writes a report or an error to the standard streams in the chosen format.

use std::io::{self, BufWriter, ErrorKind, Write};

use super::boxed::{Ascii, Rich};
use super::document::Document;
use super::envelope::Envelope;
use super::error::CommandError;
use super::format::Format;
use super::layout::{width, wrap_message};
use super::paint::{Paint, Tone};
use super::report::{Level, Report};
use super::sequential::Sequential;
use super::standard_streams::StandardStreams;
use super::timing::Timing;
use super::visible::visible_lines;

/// Maximum width of messages on a terminal: longer lines are hard to read.
const MAX_MESSAGE_WIDTH: usize = 100;

/// Prints reports and errors.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    format: Format,
    colour: Paint,
    error_colour: Paint,
    width: usize,
    /// Width of messages on standard output, and on standard error.
    message_widths: (usize, usize),
    shows_progress: bool,
    is_stream: bool,
    uses_pager: bool,
}

impl Printer {
    /// A printer for a format on a surface.
    ///
    /// `rich` has colours on a terminal, `color` always, other formats never; `NO_COLOR` takes
    /// precedence.
    pub fn new(format: Format, surface: &StandardStreams) -> Self {
        let coloured = |is_terminal: bool| match format {
            Format::Color => !surface.forbids_colour,
            Format::Rich => is_terminal && !surface.is_dumb && !surface.forbids_colour,
            _ => false,
        };
        let message_width = |is_terminal: bool| {
            if is_terminal {
                surface.width.min(MAX_MESSAGE_WIDTH)
            } else {
                usize::MAX
            }
        };
        let wraps = surface.stdout_is_terminal || matches!(format, Format::Rich);
        Self {
            format,
            colour: Paint::when(coloured(surface.stdout_is_terminal)),
            error_colour: Paint::when(coloured(surface.stderr_is_terminal)),
            width: if wraps { surface.width } else { usize::MAX },
            message_widths: (
                message_width(surface.stdout_is_terminal),
                message_width(surface.stderr_is_terminal),
            ),
            shows_progress: surface.stderr_is_terminal && !surface.is_dumb && format.is_human(),
            is_stream: false,
            uses_pager: false,
        }
    }

    /// The printer with a pager for long reports, in the formats for users.
    #[must_use]
    pub(crate) const fn with_pager(mut self, uses_pager: bool) -> Self {
        self.uses_pager = uses_pager && self.format.is_human();
        self
    }

    /// True if long reports go to the pager.
    pub(crate) const fn uses_pager(&self) -> bool {
        self.uses_pager
    }

    /// A printer for a command that writes JSON lines: prints the envelope on a single line too.
    #[must_use]
    pub(crate) const fn for_stream(mut self) -> Self {
        self.is_stream = true;
        self
    }

    /// The format this printer writes.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// True if a progress display is useful: standard error is a terminal and the format is for
    /// users.
    pub(crate) const fn shows_progress(&self) -> bool {
        self.shows_progress
    }

    /// True if texts may be drawn with layout and colours: the format is `rich` or `color`.
    pub(crate) const fn draws(&self) -> bool {
        matches!(self.format, Format::Rich | Format::Color)
    }

    /// Colours and width of standard output.
    pub(crate) const fn canvas(&self) -> (Paint, usize) {
        (self.colour, self.width)
    }

    /// Maximum width of lines on standard error.
    pub(crate) const fn error_width(&self) -> usize {
        self.message_widths.1
    }

    /// The colours of standard error.
    pub(crate) const fn error_paint(&self) -> Paint {
        self.error_colour
    }

    /// Prints a report: data to `out`, warnings and errors of the human formats to `err`.
    ///
    /// A closed pipe is not an error.
    pub fn report(
        &self,
        report: &Report,
        timing: Timing,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        if report.is_written {
            return ignore_closed(out.flush());
        }
        if let Some(Document {
            content,
            file: None,
        }) = &report.document
        {
            return ignore_closed(out.write_all(content).and_then(|()| out.flush()));
        }
        ignore_closed(self.write_report(report, timing, out))?;
        if self.format.is_human() {
            ignore_closed(self.write_problems(report, err))?;
        }
        Ok(())
    }

    /// Prints an error: the envelope to `out`, or in the human formats a few lines to `err`.
    pub fn error(
        &self,
        command: &str,
        error: &CommandError,
        timing: Timing,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> io::Result<()> {
        ignore_closed(if self.format.is_human() {
            self.write_error(error, err)
        } else {
            self.write_envelope(&Envelope::of_error(command, error, timing), out)
        })
    }

    fn write_report(&self, report: &Report, timing: Timing, out: &mut dyn Write) -> io::Result<()> {
        let mut buffer = BufWriter::with_capacity(1 << 16, out);
        let out: &mut dyn Write = &mut buffer;
        match self.format {
            Format::Json | Format::Yaml => {
                return self.write_envelope(&Envelope::of_report(report, timing), out);
            }
            Format::Rich => {
                Rich {
                    paint: self.colour,
                    width: self.width,
                }
                .blocks(out, &report.blocks)?;
            }
            Format::Table => Ascii { width: self.width }.blocks(out, &report.blocks)?,
            Format::Color | Format::Plain => {
                Sequential { paint: self.colour }.blocks(out, &report.blocks)?;
            }
        }
        let mut is_separated = report.blocks.is_empty();
        for entry in &report.messages {
            let (tone, label) = match (entry.level, self.format) {
                (Level::Ok, Format::Rich) => (Tone::Good, "✓ OK "),
                (Level::Ok, _) => (Tone::Good, "[OK]"),
                (Level::Info, Format::Rich) => (Tone::Id, "•"),
                (Level::Info, _) => (Tone::Id, "[INFO]"),
                (Level::Warn | Level::Error, _) => continue,
            };
            if report.program_exit_code.is_some() {
                continue;
            }
            if !is_separated {
                out.write_all(b"\n")?;
                is_separated = true;
            }
            self.colour.write(out, tone, label)?;
            let used = width(label) + 1;
            let text = message(&entry.text, used, self.message_widths.0);
            writeln!(out, " {text}")?;
        }
        out.flush()
    }

    fn write_envelope(&self, envelope: &Envelope<'_>, out: &mut dyn Write) -> io::Result<()> {
        let text = match self.format {
            _ if self.is_stream => envelope.to_json_line()?,
            Format::Yaml => envelope.to_yaml()?,
            _ => envelope.to_json()?,
        };
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn write_problems(&self, report: &Report, err: &mut dyn Write) -> io::Result<()> {
        for entry in report
            .messages
            .iter()
            .filter(|entry| entry.level == Level::Warn)
        {
            self.error_colour.write(err, Tone::Warn, "warning")?;
            let text = message(&entry.text, 9, self.message_widths.1);
            writeln!(err, ": {text}")?;
        }
        if report.program_exit_code.is_some() {
            for entry in report
                .messages
                .iter()
                .filter(|entry| entry.level == Level::Info)
            {
                self.error_colour.write(err, Tone::Muted, "agents")?;
                let text = message(&entry.text, 8, self.message_widths.1);
                writeln!(err, ": {text}")?;
            }
        }
        report
            .failure
            .as_ref()
            .map_or(Ok(()), |failure| self.write_error(failure, err))
    }

    fn write_error(&self, error: &CommandError, err: &mut dyn Write) -> io::Result<()> {
        // One write, so that lines of several processes do not mix.
        let mut lines = Vec::new();
        let label = format!("error[{}]", error.code().as_str());
        self.error_colour.write(&mut lines, Tone::Bad, &label)?;
        let limit = self.message_widths.1;
        let text = message(error.message(), width(&label) + 2, limit);
        writeln!(lines, ": {text}")?;
        if let Some(frame) = error.details()["frame"].as_str() {
            writeln!(lines, "    {}", indented(frame))?;
        }
        for cause in error.causes() {
            writeln!(lines, "  caused by: {}", message(cause, 13, limit))?;
        }
        if let Some(hint) = error.hint_text() {
            self.error_colour.write(&mut lines, Tone::Id, "hint")?;
            writeln!(lines, ": {}", message(&hint, 6, limit))?;
        }
        err.write_all(&lines)?;
        err.flush()
    }
}

/// A message that is safe for a terminal and wrapped. All lines but the first are indented, so that no text can imitate
/// a line of the program, except a command that is wider than the terminal.
fn message(text: &str, used: usize, limit: usize) -> String {
    wrap_message(&indented(text), used, limit)
}

/// Indents all lines but the first and makes them safe for a terminal.
fn indented(text: &str) -> String {
    visible_lines(text.trim_end()).replace('\n', "\n    ")
}

/// Ignores the error of a closed pipe: the reader needs no more output.
fn ignore_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
