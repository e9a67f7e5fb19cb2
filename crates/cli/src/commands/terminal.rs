//! [`Terminal`]: asks the user at the terminal for approvals and answers.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_process::Cancel;
use cleveragents_tools::Rule;
use cleveragents_tools::ports::{Approval, ApprovalRequest, Approver, Question, Reply};
use indicatif::ProgressBar;
use rustix::termios::{QueueSelector, tcflush};

use crate::output::{console, notify, visible_lines};

/// Interval at which an open question checks for cancellation, in milliseconds.
const POLL_MILLISECONDS: i64 = 100;

/// Time that the keyboard must be idle after a question before an answer is read.
/// Shorter than the time to read a question, and longer than the gap between two keys while typing.
const KEYBOARD_IDLE: Duration = Duration::from_millis(250);

/// Interval at which input is discarded while waiting for an idle keyboard. A terminal delivers
/// input that exceeds its buffer only after the buffer was emptied, so discarding once is not
/// enough.
const DISCARD_INTERVAL: Duration = Duration::from_millis(20);

/// Asks on standard error and reads from standard input, one question at a time.
pub(crate) struct Terminal {
    is_interactive: bool,
    cancel: Cancel,
    /// Progress display that is hidden while a question is open.
    progress: ProgressBar,
    /// Locked while a question is open: questions of concurrent calls must not mix.
    asking: Mutex<()>,
}

impl Terminal {
    /// `cancel` ends a question without an answer.
    pub(crate) fn new(cancel: &Cancel) -> Self {
        Self {
            cancel: cancel.clone(),
            is_interactive: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
            progress: ProgressBar::hidden(),
            asking: Mutex::default(),
        }
    }

    /// Hides this display while a question is open, so that typed text stays visible.
    pub(crate) fn set_progress(&mut self, progress: ProgressBar) {
        self.progress = progress;
    }

    fn ask(&self, question: &str, prompt: &str) -> Option<String> {
        notify::question();
        let answer = self
            .progress
            .suspend(|| ask(question, prompt, &self.cancel));
        notify::answered();
        answer
    }
}

/// Asks at the terminal and returns the answer without its line break; `None` at the end of the
/// input, or if the question was cancelled.
///
/// The question is printed first. Input typed before that, and until the keyboard was idle, is
/// discarded, because it does not answer this question. Then the prompt appears, and the next line is
/// the answer. Input that is not from a terminal is read line by line and not discarded.
pub(crate) fn ask(question: &str, prompt: &str, cancel: &Cancel) -> Option<String> {
    let _console_guard = console::hold();
    write_escaped(question)?;
    if std::io::stdin().is_terminal() && discard_input(cancel)? {
        let last_line = question.lines().next_back().unwrap_or_default();
        write_escaped(&format!(
            "\n(discarded input typed before this question)\n{last_line}"
        ))?;
    }
    write_escaped(prompt)?;
    let answer = read_line(cancel);
    if answer.is_none() {
        // Later output starts on a new line.
        let _closed = writeln!(std::io::stderr());
    }
    answer
}

fn write_escaped(text: &str) -> Option<()> {
    let mut err = std::io::stderr().lock();
    write!(err, "{}", visible_lines(text))
        .and_then(|()| err.flush())
        .ok()
}

/// Discards typed input until the keyboard is idle. Returns whether a line was discarded; `None` if
/// the question was cancelled or the terminal is closed.
fn discard_input(cancel: &Cancel) -> Option<bool> {
    let stdin = std::io::stdin();
    let mut has_discarded = false;
    let mut idle_since = Instant::now();
    while idle_since.elapsed() < KEYBOARD_IDLE {
        if cancel.is_cancelled() {
            return None;
        }
        let mut keyboard = [rustix::event::PollFd::new(
            &stdin,
            rustix::event::PollFlags::IN,
        )];
        let no_wait = rustix::event::Timespec::default();
        let has_input = matches!(rustix::event::poll(&mut keyboard, Some(&no_wait)), Ok(1..));
        let closed = rustix::event::PollFlags::HUP | rustix::event::PollFlags::ERR;
        if keyboard[0].revents().intersects(closed) {
            return None;
        }
        if has_input {
            has_discarded = true;
            idle_since = Instant::now();
        }
        tcflush(&stdin, QueueSelector::IFlush).ok()?;
        std::thread::sleep(DISCARD_INTERVAL);
    }
    // The loop detects complete lines only; this discards an incomplete line.
    tcflush(&stdin, QueueSelector::IFlush).ok()?;
    Some(has_discarded)
}

/// Reads a line without the buffer of the standard library: a terminal returns one line at a time,
/// and a buffer would keep input that [`discard_input`] cannot discard.
fn read_line(cancel: &Cancel) -> Option<String> {
    let stdin = std::io::stdin();
    let pause = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: POLL_MILLISECONDS * 1_000_000,
    };
    // Reads a pipe byte by byte, because its next line belongs to the next question.
    let size = if stdin.is_terminal() { 4096 } else { 1 };
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        if cancel.is_cancelled() {
            return None;
        }
        let mut input = [rustix::event::PollFd::new(
            &stdin,
            rustix::event::PollFlags::IN,
        )];
        match rustix::event::poll(&mut input, Some(&pause)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut part = vec![0_u8; size];
        match rustix::io::read(&stdin, &mut part) {
            Ok(0) => break,
            Ok(count) => line.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    let text = String::from_utf8_lossy(&line);
    (!line.is_empty()).then(|| text.trim().to_owned())
}

impl Approver for Terminal {
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval {
        if !self.is_interactive {
            return Approval::NoUser;
        }
        let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let rules: Vec<String> = request.always.iter().map(Rule::to_string).collect();
        let server_choice = request.always_server.map_or_else(String::new, |rule| {
            format!(", [s] always for its server ({rule})")
        });
        let always_choice = if rules.is_empty() {
            // No rule describes this call, for example a command with a redirection.
            String::new()
        } else {
            format!(", [a] always ({})", rules.join("; "))
        };
        let arguments = serde_json::to_string_pretty(request.arguments).unwrap_or_default();
        let question = format!(
            "\n{} wants to run: {}\n{arguments}\nReason: {}\n\
             [y] once{always_choice}{server_choice}",
            request.tool, request.description, request.reason,
        );
        let answer = match self.ask(&question, ", [n] no, or type a reason to refuse: ") {
            Some(answer) => answer,
            // The user stopped the operation.
            None if self.cancel.is_cancelled() => return Approval::Refused(None),
            None => return Approval::NoUser,
        };
        let word = answer.to_lowercase();
        match word.as_str() {
            "y" | "yes" => Approval::Once,
            "a" | "always" if !rules.is_empty() => Approval::Always,
            "s" | "server" if request.always_server.is_some() => Approval::AlwaysServer,
            "" | "n" | "no" => Approval::Refused(None),
            _ => Approval::Refused(Some(answer)),
        }
    }

    fn question(&self, question: &Question<'_>) -> Reply {
        if !self.is_interactive {
            return Reply::NoUser;
        }
        let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = format!("\n{}\n", question.text);
        for (number, option) in question.options.iter().enumerate() {
            let _never_fails = writeln!(text, "  [{}] {option}", number + 1);
        }
        let prompt = match question.options.len() {
            0 => "> ".to_owned(),
            1 => "Answer (1, or your own words): ".to_owned(),
            count => format!("Answer (1-{count}, or your own words): "),
        };
        match self.ask(&text, &prompt) {
            None if self.cancel.is_cancelled() => Reply::Declined,
            None => Reply::NoUser,
            Some(answer) if answer.is_empty() => Reply::Declined,
            Some(answer) => {
                let chosen = answer
                    .parse::<usize>()
                    .ok()
                    .and_then(|number| question.options.get(number.checked_sub(1)?));
                Reply::Text(chosen.cloned().unwrap_or(answer))
            }
        }
    }
}
