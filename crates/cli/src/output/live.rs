//! [`Live`]: where a command tells what happens while it happens, before its report.

use std::io::Write as _;
use std::sync::Arc;

use cleveragents_server::Screen;

use super::console;

/// Where what happens is told.
#[derive(Clone, Default)]
pub(crate) enum Live {
    /// To who started the program.
    #[default]
    Here,
    /// To nobody.
    Nowhere,
    /// To a command line on another machine.
    Away(Arc<dyn Screen>),
}

impl Live {
    /// Writes to standard output. Whoever closed the pipe does not want to see it.
    pub(crate) fn out(&self, text: &str) {
        match self {
            Self::Here => {
                let mut out = std::io::stdout().lock();
                let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
                console::wrote(text);
            }
            Self::Nowhere => {}
            Self::Away(screen) => screen.out(text),
        }
    }

    /// Writes to standard error.
    pub(crate) fn err(&self, text: &str) {
        match self {
            Self::Here => {
                let mut err = std::io::stderr().lock();
                let _closed = err.write_all(text.as_bytes()).and_then(|()| err.flush());
                console::wrote(text);
            }
            Self::Nowhere => {}
            Self::Away(screen) => screen.err(text),
        }
    }
}
