//! Capabilities of the standard streams: terminal or not, width, colours and character set.

use std::io::IsTerminal as _;

use crate::config::Environment;

const DEFAULT_WIDTH: usize = 100;

/// Minimum width for layout.
const MIN_WIDTH: usize = 30;

/// Capabilities of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about the terminal"
)]
pub struct StandardStreams {
    /// Standard output is a terminal.
    pub stdout_is_terminal: bool,
    /// Standard error is a terminal.
    pub stderr_is_terminal: bool,
    /// The terminal cannot move its cursor or show colours (`TERM=dumb`).
    pub is_dumb: bool,
    /// The locale can show more than ASCII.
    pub shows_unicode: bool,
    /// `NO_COLOR` is set.
    pub forbids_colour: bool,
    /// Width for layout, in columns.
    pub width: usize,
}

impl StandardStreams {
    /// Inspects the streams of this process.
    pub fn detect(environment: &Environment) -> Self {
        let columns = terminal_size::terminal_size_of(std::io::stdout())
            .map(|(columns, _)| usize::from(columns.0));
        Self::from_environment(
            environment,
            std::io::stdout().is_terminal(),
            std::io::stderr().is_terminal(),
            columns,
        )
    }

    /// Capabilities derived from given facts, so that tests need no terminal.
    pub fn from_environment(
        environment: &Environment,
        stdout_is_terminal: bool,
        stderr_is_terminal: bool,
        columns: Option<usize>,
    ) -> Self {
        let width_variable = || {
            environment
                .text("COLUMNS")
                .and_then(|text| text.parse().ok())
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| environment.text(name))
            .map(|locale| locale.to_ascii_lowercase());
        Self {
            stdout_is_terminal,
            stderr_is_terminal,
            is_dumb: environment.text("TERM").is_some_and(|term| term == "dumb"),
            // Containers often set no locale although their terminals show Unicode.
            shows_unicode: locale
                .is_none_or(|locale| locale.contains("utf-8") || locale.contains("utf8")),
            forbids_colour: environment.get("NO_COLOR").is_some(),
            width: columns
                .or_else(width_variable)
                .unwrap_or(DEFAULT_WIDTH)
                .max(MIN_WIDTH),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StandardStreams;
    use crate::config::Environment;

    fn streams(pairs: &[(&str, &str)], columns: Option<usize>) -> StandardStreams {
        StandardStreams::from_environment(&Environment::from_pairs("/", pairs), true, true, columns)
    }

    #[test]
    fn an_empty_no_color_forbids_nothing() {
        assert!(streams(&[("NO_COLOR", "1")], None).forbids_colour);
        assert!(!streams(&[("NO_COLOR", "")], None).forbids_colour);
    }

    #[test]
    fn the_width_comes_from_the_terminal_then_columns_then_the_default() {
        assert_eq!(streams(&[("COLUMNS", "60")], Some(90)).width, 90);
        assert_eq!(streams(&[("COLUMNS", "60")], None).width, 60);
        assert_eq!(streams(&[("COLUMNS", "wide")], None).width, 100);
        assert_eq!(streams(&[], Some(2)).width, 30);
    }

    #[test]
    fn the_locale_variable_with_the_highest_precedence_decides() {
        assert!(streams(&[], None).shows_unicode);
        assert!(streams(&[("LC_ALL", "C.UTF-8"), ("LANG", "C")], None).shows_unicode);
        assert!(!streams(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")], None).shows_unicode);
    }
}
