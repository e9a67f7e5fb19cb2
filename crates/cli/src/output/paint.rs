//! Colours: what each kind of text looks like, in the sixteen colours every terminal theme defines.

use std::io::{self, Write};

use owo_colors::{OwoColorize as _, Style};

/// What a piece of text is, as far as its colour goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No colour.
    Plain,
    /// An id.
    Id,
    /// Of little importance.
    Muted,
    /// All is well.
    Good,
    /// Needs attention.
    Warn,
    /// Wrong.
    Bad,
    /// The title of a block.
    Title,
    /// A label or a column heading.
    Label,
    /// Borders.
    Frame,
    /// Words that are stressed.
    Emphasis,
    /// Code in a sentence.
    Code,
    /// Where a link leads.
    Link,
    /// A word of a programming language.
    Keyword,
    /// A text in a program.
    Quoted,
    /// A number in a program.
    Number,
}

impl Tone {
    const fn style(self) -> Style {
        let style = Style::new();
        match self {
            Self::Plain => style,
            Self::Id | Self::Code => style.cyan(),
            Self::Muted | Self::Frame => style.bright_black(),
            Self::Good | Self::Quoted => style.green(),
            Self::Warn | Self::Number => style.yellow(),
            Self::Bad => style.red().bold(),
            Self::Title => style.blue().bold(),
            Self::Label => style.bold(),
            Self::Emphasis => style.italic(),
            Self::Link => style.blue().underline(),
            Self::Keyword => style.magenta(),
        }
    }
}

/// Whether colours are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Text is wrapped in ANSI colour sequences.
    On,
    /// Text is written as it is.
    Off,
}

impl Paint {
    /// Colours when `wanted`.
    pub(crate) const fn when(wanted: bool) -> Self {
        if wanted { Self::On } else { Self::Off }
    }

    /// A text in its tone.
    pub(crate) fn text(self, tone: Tone, text: &str) -> String {
        if self == Self::Off || tone == Tone::Plain || text.trim().is_empty() {
            return text.to_owned();
        }
        text.style(tone.style()).to_string()
    }

    /// Writes a text in its tone.
    pub(crate) fn write(self, out: &mut dyn Write, tone: Tone, text: &str) -> io::Result<()> {
        out.write_all(self.text(tone, text).as_bytes())
    }
}
