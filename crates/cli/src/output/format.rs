//! The six output formats and the choice among them.

use std::fmt;
use std::str::FromStr;

use cleveragents_domain::Code;
use serde_json::json;

use super::error::CommandError;
use super::standard_streams::StandardStreams;

/// Output format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Format {
    /// Panels and tables with borders, for a terminal.
    Rich,
    /// Coloured lines without borders.
    Color,
    /// ASCII tables.
    Table,
    /// Plain lines, for logs and simple tools.
    Plain,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 6] = [
        Self::Rich,
        Self::Color,
        Self::Table,
        Self::Plain,
        Self::Json,
        Self::Yaml,
    ];

    /// The names of all formats, in the order of [`Self::ALL`].
    pub const NAMES: [&'static str; 6] = ["rich", "color", "table", "plain", "json", "yaml"];

    /// The name as given to `--format`.
    pub const fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// True for the formats for users, false for the formats for programs.
    pub const fn is_human(self) -> bool {
        !matches!(self, Self::Json | Self::Yaml)
    }

    /// The default: `rich` on a terminal that supports it, `plain` otherwise.
    pub const fn automatic(surface: &StandardStreams) -> Self {
        if surface.stdout_is_terminal {
            Self::Rich.within(surface)
        } else {
            Self::Plain
        }
    }

    /// This format, or the nearest one that the terminal supports.
    const fn within(self, surface: &StandardStreams) -> Self {
        match self {
            Self::Rich | Self::Color if surface.stdout_is_terminal && surface.is_dumb => {
                Self::Plain
            }
            Self::Rich if !surface.shows_unicode => Self::Color,
            format => format,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A format that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let matching = Self::ALL.into_iter().find(|format| format.as_str() == text);
        matching.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// Chooses the format: the flag, then `CLEVERAGENTS_FORMAT`, then `core.format`, then the default
/// for the terminal.
///
/// A flag always applies. A format from another source that the terminal does not support falls
/// back from `rich` to `color` to `plain`. An empty variable counts as unset.
pub fn choose(
    flag: Option<Format>,
    environment: Option<&str>,
    configured: Option<&str>,
    surface: &StandardStreams,
) -> Result<Format, CommandError> {
    if let Some(format) = flag {
        return Ok(format);
    }
    let requested = [
        ("CLEVERAGENTS_FORMAT", environment),
        ("core.format", configured),
    ]
    .into_iter()
    .find_map(|(origin, text)| Some((origin, text.filter(|text| !text.is_empty())?)));
    let Some((origin, text)) = requested else {
        return Ok(Format::automatic(surface));
    };
    let names = Format::NAMES.join(", ");
    text.parse::<Format>()
        .map(|format| format.within(surface))
        .map_err(|_| {
            CommandError::new(
                Code::InvalidConfigValue,
                format!("`{origin}` cannot be `{text}`: use one of {names}"),
            )
            .with_hint(match origin {
                "core.format" => "run `agents config set core.format rich`".to_owned(),
                _ => format!("set {origin} to one of {names}, or unset it"),
            })
            .with_details(json!({ "key": "core.format", "value": text, "allowed": Format::NAMES }))
        })
}

#[cfg(test)]
mod tests {
    use super::{Format, choose};
    use crate::output::StandardStreams;
    use clap::ValueEnum as _;
    use cleveragents_domain::Code;

    const TERMINAL: StandardStreams = StandardStreams {
        stdout_is_terminal: true,
        stderr_is_terminal: true,
        is_dumb: false,
        shows_unicode: true,
        forbids_colour: false,
        width: 80,
    };

    #[test]
    fn the_flag_overrides_the_variable_the_variable_the_file_and_the_file_the_terminal() {
        let chosen = |flag, environment, configured, surface| {
            choose(flag, environment, configured, surface).expect("known formats")
        };
        let pipe = StandardStreams {
            stdout_is_terminal: false,
            ..TERMINAL
        };
        assert_eq!(
            chosen(Some(Format::Json), Some("yaml"), Some("table"), &TERMINAL),
            Format::Json
        );
        assert_eq!(
            chosen(None, Some("yaml"), Some("table"), &TERMINAL),
            Format::Yaml
        );
        assert_eq!(
            chosen(None, Some(""), Some("table"), &TERMINAL),
            Format::Table
        );
        assert_eq!(chosen(None, None, None, &TERMINAL), Format::Rich);
        assert_eq!(chosen(None, None, None, &pipe), Format::Plain);
        assert_eq!(chosen(None, Some("rich"), None, &pipe), Format::Rich);
    }

    #[test]
    fn rich_falls_back_on_a_terminal_that_cannot_show_it() {
        let dumb = StandardStreams {
            is_dumb: true,
            ..TERMINAL
        };
        let ascii = StandardStreams {
            shows_unicode: false,
            ..TERMINAL
        };
        assert_eq!(choose(None, None, None, &dumb), Ok(Format::Plain));
        assert_eq!(choose(None, Some("color"), None, &dumb), Ok(Format::Plain));
        assert_eq!(choose(None, None, Some("rich"), &ascii), Ok(Format::Color));
        assert_eq!(
            choose(Some(Format::Rich), None, None, &dumb),
            Ok(Format::Rich)
        );
    }

    #[test]
    fn an_error_for_an_unknown_format_lists_all_formats() {
        let error = choose(None, Some("fancy"), None, &TERMINAL).expect_err("unknown");
        assert_eq!(error.code(), Code::InvalidConfigValue);
        for name in Format::NAMES {
            assert!(error.message().contains(name), "{error}");
        }
        assert!(choose(None, None, Some("RICH"), &TERMINAL).is_err());
    }

    #[test]
    fn the_flag_and_the_file_use_the_same_names() {
        for format in Format::ALL {
            let value = format.to_possible_value().expect("no format is hidden");
            assert_eq!(value.get_name(), format.as_str());
            assert_eq!(format.as_str().parse(), Ok(format));
        }
    }
}
