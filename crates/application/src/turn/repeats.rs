//! Shortens results of tool calls that repeat an earlier result of the same request, such as a test that fails again
//! with the same output. Each request contains all earlier results, so repeated text is paid for many times.
//!
//! Only requests are shortened. The stored messages stay complete, so a text is shown again when the result with its
//! first occurrence is no longer part of the conversation.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cleveragents_models::ChatMessage;

/// Minimum size of a repeated block of lines in bytes, about 200 tokens. Shorter blocks stay.
const MIN_BYTES: usize = 800;

/// Maximum number of earlier occurrences of a line that are compared.
const MAX_OCCURRENCES: usize = 16;

/// Replaces each block of lines that an earlier result of a tool call contains by a note.
pub(super) fn shorten_repeats(messages: &mut [Arc<ChatMessage>]) {
    let mut shown = ShownLines::default();
    for message in messages {
        let ChatMessage::Tool { results } = message.as_ref() else {
            continue;
        };
        let shortened: Vec<Option<String>> = results
            .iter()
            .map(|result| shown.without_repeats(&result.content))
            .collect();
        if shortened.iter().all(Option::is_none) {
            continue;
        }
        if let ChatMessage::Tool { results } = Arc::make_mut(message) {
            for (result, content) in results.iter_mut().zip(shortened) {
                if let Some(content) = content {
                    result.content = content;
                }
            }
        }
    }
}

/// The lines of the results so far that the request shows.
#[derive(Default)]
struct ShownLines {
    lines: Vec<String>,
    /// The first positions of each line.
    positions: HashMap<String, Vec<usize>>,
}

impl ShownLines {
    /// Returns a text without long blocks of shown lines, and adds its other lines to the shown lines. `None` if it
    /// contains no such block.
    fn without_repeats(&mut self, text: &str) -> Option<String> {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut output = String::new();
        let mut is_shortened = false;
        let mut new = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            let length = self.repeated(&lines[at..]);
            if length > 0 {
                let noun = if length == 1 { "line" } else { "lines" };
                let _never_fails = writeln!(
                    output,
                    "[{length} {noun}, the same as in an earlier result]"
                );
                is_shortened = true;
                at += length;
            } else {
                output.push_str(lines[at]);
                new.push(lines[at].to_owned());
                at += 1;
            }
        }
        for line in new {
            let position = self.lines.len();
            let known = self.positions.entry(line.clone()).or_default();
            if known.len() < MAX_OCCURRENCES {
                known.push(position);
            }
            self.lines.push(line);
        }
        // Blocks of two results must not be joined.
        self.lines.push(String::new());
        is_shortened.then_some(output)
    }

    /// The number of lines at the start of `lines` that repeat shown lines; 0 if the block is too short.
    fn repeated(&self, lines: &[&str]) -> usize {
        let Some(positions) = lines.first().and_then(|line| self.positions.get(*line)) else {
            return 0;
        };
        let lengths = positions.iter().map(|position| {
            let known = self.lines[*position..].iter();
            let pairs = known.zip(lines);
            pairs
                .take_while(|(known, line)| known.as_str() == **line)
                .count()
        });
        let longest = lengths.max().unwrap_or_default();
        let bytes: usize = lines[..longest].iter().map(|line| line.len()).sum();
        if bytes >= MIN_BYTES { longest } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::Arc;

    use cleveragents_models::{ChatMessage, ToolResult};

    use super::shorten_repeats;

    fn result(content: &str) -> Arc<ChatMessage> {
        Arc::new(ChatMessage::Tool {
            results: vec![ToolResult {
                call_id: "1".to_owned(),
                content: content.to_owned(),
                is_error: false,
                pictures: Vec::new(),
            }],
        })
    }

    fn lines(from: usize, to: usize) -> String {
        (from..to).fold(String::new(), |mut text, number| {
            writeln!(text, "line {number} of a long output").expect("a string");
            text
        })
    }

    fn contents(messages: &[Arc<ChatMessage>]) -> Vec<&str> {
        messages
            .iter()
            .map(|message| match message.as_ref() {
                ChatMessage::Tool { results } => results[0].content.as_str(),
                _ => panic!("not a result"),
            })
            .collect()
    }

    #[test]
    fn a_repeated_block_is_shown_once() {
        let first = format!("<data-1>\n{}took 1 s\n</data-1>", lines(0, 50));
        let second = format!("<data-2>\n{}took 2 s\n</data-2>", lines(0, 50));
        let mut messages = [
            result(&first),
            Arc::new(ChatMessage::user(lines(0, 50))),
            result(&second),
            result(&second),
        ];
        shorten_repeats(&mut messages);
        let results = [&messages[0], &messages[2], &messages[3]].map(Arc::clone);
        let shown = contents(&results);
        let note = "[50 lines, the same as in an earlier result]";
        assert_eq!(shown[0], first);
        let shortened = format!("<data-2>\n{note}\ntook 2 s\n</data-2>");
        assert_eq!(shown[1..], [shortened.as_str(), shortened.as_str()]);
        // The user's message stays.
        assert_eq!(*messages[1], ChatMessage::user(lines(0, 50)));
    }

    #[test]
    fn the_start_of_a_conversation_does_not_depend_on_later_results() {
        let all = [
            result(&lines(0, 60)),
            result(&lines(10, 60)),
            result(&format!("new\n{}", lines(0, 40))),
        ];
        let mut long = all.clone();
        shorten_repeats(&mut long);
        let mut short = all[..2].to_vec();
        shorten_repeats(&mut short);
        assert_eq!(contents(&long)[..2], contents(&short)[..]);
    }

    #[test]
    fn short_blocks_and_parts_of_several_results_stay() {
        let short = lines(0, 10);
        let (first, second) = (lines(0, 20), lines(20, 40));
        let joined = format!("{}{}", lines(5, 20), lines(20, 35));
        let mut messages = [
            result(&short),
            result(&short),
            result(&first),
            result(&second),
            result(&joined),
        ];
        let before = messages.clone();
        shorten_repeats(&mut messages);
        assert_eq!(contents(&messages), contents(&before));
    }
}
