//! Colours of each kind of text, from the sixteen colours that every terminal theme defines.

use std::io::{self, Write};

use owo_colors::{OwoColorize as _, Style};

/// Kind of a text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// No colour.
    Plain,
    Id,
    /// Less important text.
    Muted,
    /// Success.
    Good,
    /// Needs attention.
    Warn,
    /// Failure.
    Bad,
    /// The title of a block.
    Title,
    /// A label or a column heading.
    Label,
    /// Borders.
    Frame,
    /// Emphasized words.
    Emphasis,
    /// Inline code.
    Code,
    /// Target of a link.
    Link,
    /// Keyword of a programming language.
    Keyword,
    /// String in a program.
    Quoted,
    /// Number in a program.
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

/// Colour mode of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Text is wrapped in ANSI colour sequences.
    On,
    /// Text is written unchanged.
    Off,
}

impl Paint {
    /// `On` if colours are enabled.
    pub(crate) const fn when(is_enabled: bool) -> Self {
        if is_enabled { Self::On } else { Self::Off }
    }

    /// The text in the colour of its tone.
    pub(crate) fn text(self, tone: Tone, text: &str) -> String {
        if self == Self::Off || tone == Tone::Plain || text.trim().is_empty() {
            return text.to_owned();
        }
        text.style(tone.style()).to_string()
    }

    /// Writes a text in the colour of its tone.
    pub(crate) fn write(self, out: &mut dyn Write, tone: Tone, text: &str) -> io::Result<()> {
        out.write_all(self.text(tone, text).as_bytes())
    }
}
