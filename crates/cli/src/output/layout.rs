//! Measures and wraps text by its width in terminal columns.
//!
//! Wide characters take two columns and combining characters none; text is never broken inside a
//! grapheme. All functions expect text without control characters other than the line feed.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Minimum width of a column, wide enough for every character.
const MIN_COLUMN: usize = 4;

/// Width of a text, in columns.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

/// Width of the widest line of a text, in columns.
pub(crate) fn widest_line(text: &str) -> usize {
    text.split('\n').map(width).max().unwrap_or(0)
}

/// Stands for a space inside a command while its text is wrapped.
const JOINT: char = '\u{e000}';

/// Wraps a text into lines of at most `limit` columns, at spaces if possible but not inside a command in backquotes.
///
/// If the text needs more than `max_lines` lines, the last returned line ends with `…`.
pub(crate) fn wrap(text: &str, limit: usize, max_lines: usize) -> Vec<Cow<'_, str>> {
    if text.contains('`') && width(text) > limit {
        let joined = join_commands(text, limit);
        let lines = wrap_joined(&joined, limit, max_lines).into_iter();
        return lines
            .map(|line| Cow::Owned(line.replace(JOINT, " ")))
            .collect();
    }
    wrap_joined(text, limit, max_lines)
}

/// Replaces the spaces of commands in backquotes that fit a line.
fn join_commands(text: &str, limit: usize) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut is_code = false;
    let mut parts = text.split('`').peekable();
    while let Some(part) = parts.next() {
        let fits = width(part) + 2 <= limit && !part.contains('\n');
        if is_code && fits && parts.peek().is_some() {
            joined.push_str(&part.replace(' ', &JOINT.to_string()));
        } else {
            joined.push_str(part);
        }
        if parts.peek().is_some() {
            joined.push('`');
        }
        is_code = !is_code;
    }
    joined
}

/// True if a text is, or contains in backquotes, a command that is wider than `limit`.
pub(crate) fn has_wider_command(text: &str, limit: usize) -> bool {
    if text.starts_with("agents ") {
        return width(text) > limit;
    }
    let mut quoted = text.split('`').skip(1).step_by(2);
    quoted.any(|part| part.starts_with("agents ") && width(part) + 2 > limit)
}

/// Wraps a message for a terminal of `limit` columns of which the first line has already used some.
///
/// Words and commands in backquotes are never broken: one that does not fit into a line gets a line of its own, so that
/// it can be copied. Later lines are indented, except a command that would not fit even so.
pub(crate) fn wrap_message(text: &str, used: usize, limit: usize) -> String {
    const INDENT: usize = 4;
    let mut result = String::with_capacity(text.len() + 16);
    for (number, line) in text.split('\n').enumerate() {
        let mut column = used;
        if number > 0 {
            result.push('\n');
            column = 0;
        }
        if column + width(line) <= limit {
            result.push_str(line);
            continue;
        }
        let joined = join_commands(line, usize::MAX);
        let mut is_first = true;
        for word in joined.split(' ') {
            let needed = width(word) + usize::from(!is_first);
            if column + needed > limit && (column > INDENT || !is_first) {
                let is_too_wide = word.starts_with("`agents") && width(word) + INDENT > limit;
                let indent = if is_too_wide { 0 } else { INDENT };
                result.truncate(result.trim_end_matches(' ').len());
                result.push('\n');
                result.push_str(&" ".repeat(indent));
                column = indent;
            } else if !is_first {
                result.push(' ');
                column += 1;
            }
            result.push_str(word);
            column += width(word);
            is_first = false;
        }
    }
    result.replace(JOINT, " ")
}

/// Wraps lines between words, and indents their continuations by two more columns than their start.
pub(crate) fn fold_lines(text: &str, limit: usize) -> String {
    let folded = text.split('\n').map(|line| {
        if width(line) <= limit {
            return line.to_owned();
        }
        let words = line.trim_start_matches(' ');
        let indent = line.len() - words.len();
        let room = limit.saturating_sub(indent + 2).max(20);
        let lines = wrap(words, room, usize::MAX);
        let separator = format!("\n{:1$}", "", indent + 2);
        format!("{:indent$}{}", "", lines.join(&separator))
    });
    folded.collect::<Vec<_>>().join("\n")
}

/// Wraps the lines of a help text that are wider than `limit`, with their indentation. Commands and styled lines stay
/// unchanged.
pub(crate) fn wrap_help(text: &str, limit: usize) -> String {
    let mut result = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        let text = content.trim_start_matches(' ');
        let is_fixed = text.starts_with("agents ") || text.contains(['|', '\u{1b}']);
        if width(content) <= limit || is_fixed {
            result.push_str(line);
            continue;
        }
        let indent = content.len() - text.len();
        for (number, part) in wrap(text, limit.saturating_sub(indent).max(20), usize::MAX)
            .iter()
            .enumerate()
        {
            if number > 0 {
                result.push('\n');
            }
            result.push_str(&" ".repeat(indent));
            result.push_str(part);
        }
        result.push_str(&line[content.len()..]);
    }
    result
}

/// Wraps a text in which no space must be preserved.
fn wrap_joined(text: &str, limit: usize, max_lines: usize) -> Vec<Cow<'_, str>> {
    let mut lines = Vec::with_capacity(1);
    for line in text.split('\n') {
        wrap_line(line, limit, max_lines, &mut lines);
        if lines.len() > max_lines {
            lines.truncate(max_lines);
            if let Some(last) = lines.last_mut() {
                *last = Cow::Owned(shorten(last, limit.saturating_sub(1)) + "…");
            }
            break;
        }
    }
    lines
}

/// The text, or its beginning followed by `…` when it is wider than `limit`.
pub(crate) fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if width(text) <= limit {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(shorten(text, limit.saturating_sub(1)) + "…")
    }
}

/// The text, or its beginning and its end around `…` when it is wider than `limit`. The end of a path identifies it
/// better than its beginning, so the end gets two thirds.
pub(crate) fn shorten_middle(text: &str, limit: usize) -> Cow<'_, str> {
    if width(text) <= limit {
        return Cow::Borrowed(text);
    }
    let start = shorten(text, limit.saturating_sub(1) / 3);
    let rest = limit.saturating_sub(1 + width(&start));
    let mut used = 0;
    let mut begin = text.len();
    let pieces: Vec<_> = pieces(text, limit).collect();
    for (offset, piece) in pieces.into_iter().rev() {
        used += width(piece);
        if used > rest {
            break;
        }
        begin = offset;
    }
    Cow::Owned(format!("{start}…{}", &text[begin..]))
}

/// Width of the widest word, in columns.
pub(crate) fn widest_word(text: &str) -> usize {
    text.split([' ', '\n']).map(width).max().unwrap_or(0)
}

/// The longest prefix of at most `limit` columns.
fn shorten(text: &str, limit: usize) -> String {
    let mut used = 0;
    let mut end = 0;
    for (offset, piece) in pieces(text, limit) {
        used += width(piece);
        if used > limit {
            break;
        }
        end = offset + piece.len();
    }
    text[..end].trim_end().to_owned()
}

/// The graphemes of a text; a grapheme wider than `limit` is split into characters.
fn pieces(text: &str, limit: usize) -> impl Iterator<Item = (usize, &str)> {
    text.grapheme_indices(true)
        .flat_map(move |(start, grapheme)| {
            let is_whole = width(grapheme) <= limit;
            let parts = grapheme.char_indices().map(move |(offset, character)| {
                (
                    start + offset,
                    &grapheme[offset..offset + character.len_utf8()],
                )
            });
            is_whole
                .then_some((start, grapheme))
                .into_iter()
                .chain(parts.filter(move |_| !is_whole))
        })
}

fn wrap_line<'a>(line: &'a str, limit: usize, max_lines: usize, lines: &mut Vec<Cow<'a, str>>) {
    if width(line) <= limit {
        lines.push(Cow::Borrowed(line));
        return;
    }
    if line.is_ascii() {
        wrap_ascii(line, limit, max_lines, lines);
        return;
    }
    let mut start = 0;
    let mut used = 0;
    let mut after_space = None;
    for (offset, piece) in pieces(line, limit) {
        let added = width(piece);
        if piece == " " && used + added > limit {
            lines.push(Cow::Borrowed(&line[start..offset]));
            (start, used, after_space) = (offset + 1, 0, None);
            continue;
        }
        while used > 0 && used + added > limit {
            if lines.len() > max_lines {
                return;
            }
            let end = after_space.take().unwrap_or(offset);
            lines.push(Cow::Borrowed(line[start..end].trim_end_matches(' ')));
            start = end;
            used = width(&line[start..offset]);
        }
        used += added;
        if piece == " " && offset > start {
            after_space = Some(offset + 1);
        }
    }
    lines.push(Cow::Borrowed(&line[start..]));
}

/// Wraps an ASCII line, in which every byte takes one column: the common case, and much faster.
fn wrap_ascii<'a>(line: &'a str, limit: usize, max_lines: usize, lines: &mut Vec<Cow<'a, str>>) {
    let limit = limit.max(1);
    let mut rest = line;
    while rest.len() > limit && lines.len() <= max_lines {
        let space = rest[..=limit].rfind(' ').filter(|at| *at > 0);
        // A word that is too long, such as a path, breaks after a slash if it has one near the end.
        let slash = || rest[..limit].rfind('/').map(|at| at + 1);
        let end = space
            .or_else(|| slash().filter(|at| *at * 2 > limit))
            .unwrap_or(limit);
        lines.push(Cow::Borrowed(rest[..end].trim_end_matches(' ')));
        rest = &rest[end + usize::from(space.is_some())..];
    }
    lines.push(Cow::Borrowed(rest));
}

/// Widths for columns that prefer `natural` and have `available` in total.
///
/// The widest columns shrink first, so that ids and numbers keep their width.
pub(crate) fn fit(natural: &[usize], available: usize) -> Vec<usize> {
    fit_above(natural, &vec![0; natural.len()], available)
}

/// Like [`fit`], but no column becomes narrower than its floor. Floors are at most `natural`.
pub(crate) fn fit_above(natural: &[usize], floors: &[usize], available: usize) -> Vec<usize> {
    let floored = |(width, floor): (&usize, &usize), cap: usize| (*width).min(cap).max(*floor);
    let pairs = || natural.iter().zip(floors);
    let total = |cap: usize| pairs().map(|pair| floored(pair, cap)).sum::<usize>();
    let widest = natural.iter().copied().max().unwrap_or(0);
    if total(widest) <= available {
        return natural.to_vec();
    }
    let (mut low, mut high) = (MIN_COLUMN, widest.max(MIN_COLUMN));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if total(middle) <= available {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let mut leftover = available.saturating_sub(total(low));
    let squeeze = |pair: (&usize, &usize)| {
        let extra = usize::from(*pair.0 > low && *pair.1 <= low && leftover > 0);
        leftover -= extra;
        floored(pair, low) + extra
    };
    pairs().map(squeeze).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        fit, has_wider_command, shorten_middle, truncate, width, wrap, wrap_help, wrap_message,
    };
    use crate::output::visible::visible_lines;
    use proptest::prelude::*;

    #[test]
    fn text_breaks_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("hello world foo", 11, 9), ["hello world", "foo"]);
        assert_eq!(wrap("ab cdefghijk", 4, 9), ["ab", "cdef", "ghij", "k"]);
        assert_eq!(wrap("日本語日本語", 5, 9), ["日本", "語日", "本語"]);
        assert_eq!(wrap("a\n\nb", 5, 9), ["a", "", "b"]);
    }

    #[test]
    fn commands_are_not_broken() {
        let text = "plan waits; `agents plan approve 01J` goes on";
        assert_eq!(
            wrap(text, 28, 9),
            ["plan waits;", "`agents plan approve 01J`", "goes on"]
        );
        assert_eq!(wrap("a `b c` d e", 7, 9), ["a `b c`", "d e"]);
        assert_eq!(wrap("an ` odd mark", 8, 9), ["an ` odd", "mark"]);
        assert!(has_wider_command("agents plan list", 15));
        assert!(has_wider_command("run `agents plan list`", 17));
        assert!(!has_wider_command("run `agents plan list` now", 18));
    }

    #[test]
    fn a_message_wraps_between_words_and_commands() {
        let command = format!("`agents plan rollback {} --yes`", "0".repeat(40));
        let wrapped = wrap_message(&format!("to roll back, run {command} at once"), 6, 50);
        let expected = format!("to roll back, run\n{command}\n    at once");
        assert_eq!(wrapped, expected);
        assert_eq!(
            wrap_message("one two `agents three four` five", 6, 24),
            "one two\n    `agents three four`\n    five"
        );
        assert_eq!(wrap_message("it fits", 6, 13), "it fits");
        assert_eq!(wrap_message("a  b\n  c", 0, 80), "a  b\n  c");
    }

    #[test]
    fn help_wraps_prose_but_no_command() {
        let help = "Long words in a line of text\n  agents do 'a long task with words'\n    one two three four five six\n";
        let wrapped = "Long words in a line of\ntext\n  agents do 'a long task with words'\n    one two three four\n    five six\n";
        assert_eq!(wrap_help(help, 24), wrapped);
        assert_eq!(wrap_help("short", 12), "short");
    }

    #[test]
    fn paths_lose_their_middle_and_break_after_slashes() {
        assert_eq!(
            shorten_middle("/home/user/projects/shop", 13),
            "/hom…cts/shop"
        );
        assert_eq!(shorten_middle("日本語日本語", 7), "日…本語");
        assert_eq!(
            wrap("/home/user/projects/shop", 13, 9),
            ["/home/user/", "projects/shop"]
        );
    }

    #[test]
    fn lines_beyond_the_limit_are_cut_with_an_ellipsis() {
        assert_eq!(wrap("one two three four", 5, 2), ["one", "two…"]);
        assert_eq!(wrap("aaaaaaaaaaaa", 4, 2), ["aaaa", "aaa…"]);
        assert_eq!(truncate("日本語", 5), "日本…");
        assert_eq!(truncate("abc", 3), "abc");
    }

    #[test]
    fn text_beyond_ascii_breaks_like_ascii() {
        for text in [
            "hello world foo",
            "ab cdefghijk",
            " leading spaces too",
            "aaaaaaaaaa a",
        ] {
            let accented = text.replace(['o', 'a'], "é");
            let plain: Vec<_> = wrap(text, 4, 9).iter().map(|line| width(line)).collect();
            let wrapped: Vec<_> = wrap(&accented, 4, 9)
                .iter()
                .map(|line| width(line))
                .collect();
            assert_eq!(plain, wrapped, "{text}");
        }
    }

    #[test]
    fn a_grapheme_of_several_emoji_is_not_split() {
        assert_eq!(wrap("ab👩‍👩‍👧cd", 4, 9), ["ab👩‍👩‍👧", "cd"]);
    }

    #[test]
    fn the_widest_column_shrinks_first() {
        assert_eq!(fit(&[8, 100, 5], 50), [8, 37, 5]);
        assert_eq!(fit(&[8, 10, 5], 50), [8, 10, 5]);
        assert_eq!(fit(&[60, 60], 101), [51, 50]);
        assert_eq!(fit(&[60, 60], 0), [4, 4]);
    }

    proptest! {
        #[test]
        fn no_wrapped_line_is_too_wide(text: String, limit in 4_usize..40, max_lines in 1_usize..6) {
            let text = visible_lines(&text).replace('\t', " ");
            let lines = wrap(&text, limit, max_lines);
            prop_assert!(!lines.is_empty() && lines.len() <= max_lines);
            for line in &lines {
                prop_assert!(width(line) <= limit, "{line:?} takes {}", width(line));
            }
        }

        #[test]
        fn wrapping_loses_nothing_but_spaces(text in "[a-z日é👩\u{200d}\u{301} لا]{0,80}", limit in 4_usize..20) {
            let joined: String = wrap(&text, limit, usize::MAX).concat();
            prop_assert_eq!(joined.replace(' ', ""), text.replace(' ', ""));
        }

        #[test]
        fn fitted_columns_use_at_most_the_available_width(
            natural in proptest::collection::vec(0_usize..200, 1..8), available in 40_usize..300,
        ) {
            let widths = fit(&natural, available);
            let total: usize = widths.iter().sum();
            prop_assert!(total <= available);
            prop_assert!(widths.iter().zip(&natural).all(|(width, natural)| width <= natural));
            prop_assert!(total == natural.iter().sum::<usize>() || total == available);
        }
    }
}
