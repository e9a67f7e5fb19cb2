//! The front matter of a `SKILL.md`, parsed as in the Agent Skills standard: every value is a text, a list or a map, so
//! `1.0` and `true` are texts. Anchors and tags are not supported.

use cleveragents_domain::yaml::Fault;
use granit_parser::{Event, Parser, Span, StructureStyle};

/// Maximum nesting of lists and maps.
const MAX_DEPTH: usize = 16;

/// Maximum number of values.
const MAX_VALUES: usize = 2_000;

/// Line and column, from 1, in the whole file.
pub(crate) type LineAndColumn = (u64, u64);

/// A value of the front matter.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: LineAndColumn,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Text(String),
    List(Vec<Node>),
    Map(Vec<Field>),
}

/// A field of a map.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) place: LineAndColumn,
    pub(crate) value: Node,
}

/// A `SKILL.md`, split into front matter and body.
pub(crate) struct SplitSkillFile<'t> {
    pub(crate) front: &'t str,
    pub(crate) body: &'t str,
}

/// Splits a file at the lines that contain only `---`.
pub(crate) fn cut(text: &str) -> Result<SplitSkillFile<'_>, Fault> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Err(
            at((1, 1), "the file does not start with front matter").fixed_by(
                "write `---`, `name: …`, `description: …` and `---`, each on its own line, at the top",
            ),
        );
    }
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            return Ok(SplitSkillFile {
                front: &text[first.len()..end],
                body: text[end + line.len()..].trim(),
            });
        }
        end += line.len();
    }
    Err(at((1, 1), "the front matter has no end").fixed_by("write `---` on a line after it"))
}

/// The fields of the front matter, and its deviations from the standard.
pub(crate) struct FrontMatter {
    pub(crate) fields: Vec<Field>,
    pub(crate) deviations: Vec<Fault>,
}

/// Parses the front matter.
pub(crate) fn read(front: &str) -> Result<FrontMatter, Fault> {
    let mut reader = FrontMatterReader {
        events: Parser::new_from_str(front),
        deviations: Vec::new(),
        values: 0,
    };
    let not_a_map = || {
        at((1, 1), "the front matter is not a map")
            .fixed_by("write `name: …` and `description: …` in it")
    };
    let mut top = None;
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            event if top.is_none() => top = Some(reader.node(event, span, 0)?),
            _ => {
                return Err(
                    at(place(span), "a second YAML document starts here").fixed_by("remove it")
                );
            }
        }
    }
    match top.map(|node| node.content) {
        Some(Content::Map(fields)) => Ok(FrontMatter {
            fields,
            deviations: reader.deviations,
        }),
        _ => Err(not_a_map()),
    }
}

/// Creates an error at a position of the file.
pub(crate) fn at(place: LineAndColumn, message: impl Into<String>) -> Fault {
    Fault {
        place: Some(place),
        ..Fault::new(message)
    }
}

/// Converts a position in the front matter to a position in the file, where the front matter starts at the second line.
fn place(span: Span) -> LineAndColumn {
    (span.start.line() as u64 + 1, span.start.col() as u64 + 1)
}

struct FrontMatterReader<'t> {
    events: Parser<'t, granit_parser::StrInput<'t>>,
    deviations: Vec<Fault>,
    values: usize,
}

impl<'t> FrontMatterReader<'t> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Fault> {
        loop {
            match self.events.next().transpose() {
                Ok(Some((Event::Comment(..), _))) => {}
                Ok(next) => return Ok(next),
                Err(error) => {
                    let marker = error.marker();
                    let place = (marker.line() as u64 + 1, marker.col() as u64 + 1);
                    let message = format!("the front matter is not valid YAML: {}", error.info());
                    return Err(at(place, message).fixed_by(
                        "correct the file at this line; quote texts that contain `: ` or `#`",
                    ));
                }
            }
        }
    }

    fn expect(&mut self) -> Result<(Event<'t>, Span), Fault> {
        let end = || Fault::new("the front matter ends too early");
        self.next()?.ok_or_else(end)
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Fault> {
        let place = place(span);
        self.values += 1;
        if depth > MAX_DEPTH || self.values > MAX_VALUES {
            return Err(at(place, "the front matter is too large")
                .fixed_by("move content into the text below, or into a separate file"));
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => (1, false),
        };
        if anchor != 0 || tag {
            let feature = if tag { "a tag" } else { "an anchor or alias" };
            return Err(
                at(place, format!("{feature} cannot be used in front matter"))
                    .fixed_by("write the value itself"),
            );
        }
        let content = match event {
            // For a field without a value, the parser reports `~` at an empty position.
            Event::Scalar(..) if span.is_empty() => Content::Text(String::new()),
            Event::Scalar(text, ..) => Content::Text(text.into_owned()),
            Event::SequenceStart(style, ..) => {
                self.check_style(style, place);
                Content::List(self.list(depth)?)
            }
            Event::MappingStart(style, ..) => {
                self.check_style(style, place);
                Content::Map(self.map(depth)?)
            }
            _ => return Err(at(place, "this is not allowed here").fixed_by("write a text")),
        };
        Ok(Node { place, content })
    }

    fn check_style(&mut self, style: StructureStyle, place: LineAndColumn) {
        if style == StructureStyle::Flow {
            self.deviations.push(
                at(place, "`[…]` and `{…}` are not part of the standard")
                    .fixed_by("write one `- value` or `name: value` per line"),
            );
        }
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        loop {
            match self.expect()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Field>, Fault> {
        let mut fields: Vec<Field> = Vec::new();
        loop {
            let key = match self.expect()? {
                (Event::MappingEnd, _) => return Ok(fields),
                (event, span) => self.node(event, span, depth + 1)?,
            };
            let Content::Text(name) = key.content else {
                return Err(
                    at(key.place, "a list or map cannot be a name").fixed_by("write a text")
                );
            };
            if fields.iter().any(|field| field.name == name) {
                return Err(at(key.place, format!("the field `{name}` occurs twice"))
                    .fixed_by("remove one of them"));
            }
            let (event, span) = self.expect()?;
            let value = self.node(event, span, depth + 1)?;
            fields.push(Field {
                name,
                place: key.place,
                value,
            });
        }
    }
}

impl Node {
    /// The text of the node; `None` for lists and maps.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::List(_) | Content::Map(_) => None,
        }
    }

    /// All texts in the node, concatenated.
    pub(crate) fn flat(&self) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            Content::List(items) => {
                let items: Vec<String> = items.iter().map(Self::flat).collect();
                items.join(", ")
            }
            Content::Map(fields) => {
                let text = |field: &Field| format!("{}: {}", field.name, field.value.flat());
                let fields: Vec<String> = fields.iter().map(text).collect();
                fields.join(", ")
            }
        }
    }
}
