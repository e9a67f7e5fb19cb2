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

/// Wraps a text into lines of at most `limit` columns, at spaces if possible.
///
/// If the text needs more than `max_lines` lines, the last returned line ends with `…`.
pub(crate) fn wrap(text: &str, limit: usize, max_lines: usize) -> Vec<Cow<'_, str>> {
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
        let end = space.unwrap_or(limit);
        lines.push(Cow::Borrowed(rest[..end].trim_end_matches(' ')));
        rest = &rest[end + usize::from(space.is_some())..];
    }
    lines.push(Cow::Borrowed(rest));
}

/// Widths for columns that prefer `natural` and have `available` in total.
///
/// The widest columns shrink first, so that ids and numbers keep their width.
pub(crate) fn fit(natural: &[usize], available: usize) -> Vec<usize> {
    let total = |cap: usize| natural.iter().map(|width| (*width).min(cap)).sum::<usize>();
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
    let squeeze = |width: &usize| {
        let extra = usize::from(*width > low && leftover > 0);
        leftover -= extra;
        (*width).min(low) + extra
    };
    natural.iter().map(squeeze).collect()
}

#[cfg(test)]
mod tests {
    use super::{fit, truncate, width, wrap};
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
