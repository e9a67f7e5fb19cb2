//! Fast parser for actor files: works directly on the events of the YAML parser.
//!
//! It takes half the time of the general parser, and supports only the YAML features that nearly all files use. For
//! other files, including invalid files, it returns `None`, and the general parser parses the file again.

use std::collections::HashSet;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span};
use serde_json::Number;

use super::tree::{FilePosition, Tree, WithPosition};

const MAX_DEPTH: usize = 60;
const MAX_VALUES: usize = 250_000;

/// Parses a file; returns `None` when it is invalid or contains anything unusual.
pub(super) fn parse(text: &str) -> Option<WithPosition<Tree>> {
    let mut options = Options::default();
    options.emit_comments = false;
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        values: 0,
    };
    reader.expect(|event| matches!(event, Event::StreamStart))?;
    reader.expect(|event| matches!(event, Event::DocumentStart(..)))?;
    let (event, span) = reader.next()?;
    let tree = reader.value(event, span, 0)?;
    reader.expect(|event| matches!(event, Event::DocumentEnd))?;
    reader.expect(|event| matches!(event, Event::StreamEnd))?;
    Some(tree)
}

struct Reader<'i> {
    events: Parser<'i, granit_parser::StrInput<'i>>,
    values: usize,
}

impl<'i> Reader<'i> {
    fn next(&mut self) -> Option<(Event<'i>, Span)> {
        self.events.next()?.ok()
    }

    fn expect(&mut self, fits: impl Fn(&Event<'i>) -> bool) -> Option<()> {
        fits(&self.next()?.0).then_some(())
    }

    fn value(&mut self, event: Event<'i>, span: Span, depth: usize) -> Option<WithPosition<Tree>> {
        self.values += 1;
        if depth > MAX_DEPTH || self.values > MAX_VALUES {
            return None;
        }
        let place = place(span)?;
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, 0, None) => plain(&text)?,
            Event::Scalar(text, _, 0, None) => Tree::Text(text.into_owned()),
            Event::SequenceStart(_, 0, None) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Tree::List(items),
                        (event, span) => items.push(self.value(event, span, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(_, 0, None) => self.map(depth)?,
            _ => return None,
        };
        Some(WithPosition::new(value, place))
    }

    fn map(&mut self, depth: usize) -> Option<Tree> {
        let mut fields: Vec<(WithPosition<String>, WithPosition<Tree>)> = Vec::new();
        loop {
            let name = match self.next()? {
                (Event::MappingEnd, _) => break,
                (Event::Scalar(name, style, 0, None), span)
                    if name != "<<" && !(style == ScalarStyle::Plain && is_null(&name)) =>
                {
                    WithPosition::new(name.into_owned(), place(span)?)
                }
                _ => return None,
            };
            let (event, span) = self.next()?;
            fields.push((name, self.value(event, span, depth + 1)?));
        }
        let mut names = HashSet::new();
        let has_duplicates = if fields.len() <= 16 {
            fields.iter().enumerate().any(|(number, (name, _))| {
                fields[..number]
                    .iter()
                    .any(|(other, _)| other.value == name.value)
            })
        } else {
            !fields.iter().all(|(name, _)| names.insert(&name.value))
        };
        (!has_duplicates).then_some(Tree::Map(fields))
    }
}

/// Whether an unquoted word means null, which is not allowed as the name of a field.
fn is_null(text: &str) -> bool {
    matches!(text, "" | "~") || text.eq_ignore_ascii_case("null")
}

fn place(span: Span) -> Option<FilePosition> {
    Some(FilePosition {
        line: u32::try_from(span.start.line()).ok()?,
        column: u32::try_from(span.start.col() + 1).ok()?,
    })
}

/// Value of an unquoted word; `None` for numbers in unusual formats, which only the general parser supports.
fn plain(text: &str) -> Option<Tree> {
    let Some(first) = text.bytes().next() else {
        return Some(Tree::Null);
    };
    if first.is_ascii_digit() || b"+-.".contains(&first) {
        return number(text);
    }
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    Some(match text {
        _ if is_null(text) => Tree::Null,
        _ if is("true") => Tree::Bool(true),
        _ if is("false") => Tree::Bool(false),
        _ if is("nan") || is("inf") || is("infinity") => return None,
        _ => Tree::Text(text.to_owned()),
    })
}

fn number(text: &str) -> Option<Tree> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, part) = match digits.split_once('.') {
        Some((whole, part)) => (whole, Some(part)),
        None => (digits, None),
    };
    let is_digits = |text: &str| {
        !text.is_empty() && text.len() <= 15 && text.bytes().all(|digit| digit.is_ascii_digit())
    };
    let is_usual = is_digits(whole)
        && part.is_none_or(is_digits)
        && (whole == "0" || !whole.starts_with('0'))
        && text != "-0";
    if !is_usual {
        return None;
    }
    let number = match part {
        None if text.starts_with('-') => text.parse::<i64>().ok()?.into(),
        None => text.parse::<u64>().ok()?.into(),
        Some(_) => Number::from_f64(text.parse().ok()?)?,
    };
    Some(Tree::Number(number))
}

#[cfg(test)]
mod tests {
    use super::super::tree::parse_general;
    use super::parse;
    use proptest::prelude::*;

    #[test]
    fn both_parsers_return_the_same_tree() {
        for text in [
            "name: local/x\nnodes:\n- {id: a, n: -3, f: 0.5, t: true, z: ~, q: '5', e: }\n- b\n",
            "# c\n---\na: |\n  two\n  lines\nb: >-\n  folded\n  text\nc: [1, [2, {d: No}]]\n",
            "ä: ö\n'quoted key': \"x\\ny\"\n12: on\n",
        ] {
            let tree = parse(text).expect("nothing unusual");
            assert_eq!(tree, parse_general(text).expect("valid YAML"), "{text}");
        }
    }

    #[test]
    fn unusual_files_are_left_to_the_general_parser() {
        for text in [
            "a: &x 1\nb: *x\n",
            "a: 1\na: 2\n",
            "a: !!str 1\n",
            "a: 0x10\n",
            "a: 007\n",
            "a: 1e3\n",
            "a: .inf\n",
            "<<: {a: 1}\n",
            "a: 1\n---\nb: 2\n",
            "a: [1\n",
            ":\n",
            "~: 1\n",
            "{: 1}\n",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_fast_parser_agrees_with_the_general_parser(text in "[a-c0-9:{}\\[\\], \n'\"#.~<&*|>-]{0,60}") {
            if let Some(tree) = parse(&text) {
                prop_assert_eq!(parse_general(&text).ok(), Some(tree));
            }
        }
    }
}
