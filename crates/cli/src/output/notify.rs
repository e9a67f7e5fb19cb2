//! Notifications at the terminal: after a long turn or plan ends or asks a question, the terminal rings
//! its bell, or shows a notification of the desktop.
//!
//! [`watch`] starts the clock; dropping its result ends the work. Nothing is written unless standard
//! output and standard error are terminals.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::visible;

/// The work that is running; the innermost call of [`watch`] does not restart it.
static RUNNING: Mutex<Option<Work>> = Mutex::new(None);

/// The way of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Off,
    Bell,
    /// The escape sequence OSC 9.
    Osc9,
    /// The escape sequence OSC 777, of the terminals that do not know OSC 9.
    Osc777,
}

impl Channel {
    /// The channel of the configuration value `ui.notify` at the terminal of the environment
    /// variable `TERM`.
    pub(crate) fn new(setting: &str, term: &str, is_vte: bool) -> Self {
        let has_osc_777 = is_vte || ["rxvt", "foot"].iter().any(|name| term.starts_with(name));
        match setting {
            _ if term == "dumb" => Self::Off,
            "off" => Self::Off,
            "desktop" if has_osc_777 => Self::Osc777,
            "desktop" => Self::Osc9,
            _ => Self::Bell,
        }
    }

    /// The bytes that make the terminal notify the user.
    fn sequence(self, text: &str) -> String {
        // Separates the fields of OSC 777.
        let text = visible(text).replace(';', ",");
        match self {
            Self::Off => String::new(),
            Self::Bell => "\u{7}".to_owned(),
            Self::Osc9 => format!("\u{1b}]9;agents: {text}\u{7}"),
            Self::Osc777 => format!("\u{1b}]777;notify;agents;{text}\u{7}"),
        }
    }
}

/// The start of the work, or of its part after the last question.
struct Work {
    channel: Channel,
    /// Shorter work ends without a notification.
    after: Duration,
    since: Instant,
}

impl Work {
    /// The bytes for an event now; empty if the user waited only briefly.
    fn event(&self, text: &str) -> String {
        if self.after.is_zero() || self.since.elapsed() < self.after {
            return String::new();
        }
        self.channel.sequence(text)
    }
}

/// Running work; dropping it notifies the user if it took long.
pub(crate) struct Watch {
    is_outermost: bool,
}

/// Starts work of the user. `after` is the duration from which its end is notified; zero for never.
pub(crate) fn watch(channel: Channel, after: Duration) -> Watch {
    let mut running = running();
    let is_outermost = running.is_none();
    running.get_or_insert_with(|| Work {
        channel,
        after,
        since: Instant::now(),
    });
    Watch { is_outermost }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let work = running().take_if(|_| self.is_outermost);
        if let Some(work) = work {
            write(&work.event("finished"));
        }
    }
}

/// The running work asks the user a question.
pub(crate) fn question() {
    let sequence = running().as_ref().map(|work| work.event("asks a question"));
    write(&sequence.unwrap_or_default());
}

/// The user answered the question; the clock of the running work restarts.
pub(crate) fn answered() {
    if let Some(work) = running().as_mut() {
        work.since = Instant::now();
    }
}

fn running() -> MutexGuard<'static, Option<Work>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(sequence: &str) {
    let is_screen = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    if !is_screen || sequence.is_empty() {
        return;
    }
    let mut err = std::io::stderr().lock();
    // A closed terminal needs no notification.
    let _closed = err
        .write_all(sequence.as_bytes())
        .and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Channel, Work};

    #[test]
    fn the_terminal_decides_the_escape_sequence_of_a_notification() {
        let channel = |setting: &str, term: &str| Channel::new(setting, term, false);
        assert_eq!(channel("off", "xterm"), Channel::Off);
        assert_eq!(channel("bell", "xterm"), Channel::Bell);
        assert_eq!(channel("desktop", "xterm-ghostty"), Channel::Osc9);
        assert_eq!(channel("desktop", "foot-extra"), Channel::Osc777);
        assert_eq!(channel("bell", "dumb"), Channel::Off);
        assert_eq!(Channel::new("desktop", "xterm", true), Channel::Osc777);
        assert_eq!(
            Channel::Osc9.sequence("a\u{1b}b"),
            "\u{1b}]9;agents: a\\x1bb\u{7}"
        );
        assert_eq!(
            Channel::Osc777.sequence("a; b"),
            "\u{1b}]777;notify;agents;a, b\u{7}"
        );
    }

    #[test]
    fn only_long_work_is_notified() {
        let work = |after: u64| Work {
            channel: Channel::Bell,
            after: Duration::from_secs(after),
            since: Instant::now()
                .checked_sub(Duration::from_secs(10))
                .expect("a time"),
        };
        assert_eq!(work(9).event("finished"), "\u{7}");
        assert_eq!(work(20).event("finished"), "");
        assert_eq!(work(0).event("finished"), "", "0 means never");
    }
}
