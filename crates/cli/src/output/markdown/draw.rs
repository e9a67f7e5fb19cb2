//! Draws one complete block of Markdown as lines.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::Canvas;
use super::code::Highlighter;
use super::wrap::{Span, wrap};
use crate::output::layout::{truncate, width};
use crate::output::paint::{Paint, Tone};
use crate::output::visible::{visible, visible_lines};

/// Minimum width that lines are wrapped to, in columns.
const MIN_WIDTH: usize = 20;

/// Draws a block. `number` overrides the number of its first list item.
pub(super) fn block(canvas: Canvas, text: &str, number: Option<u64>) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut pen = MarkdownWriter {
        canvas,
        out: String::new(),
        spans: Vec::new(),
        tones: Vec::new(),
        margins: Vec::new(),
        lists: Vec::new(),
        first_number: number,
        links: Vec::new(),
        code: None,
        table: None,
        needs_gap: false,
    };
    let parser = Parser::new_ext(text, options);
    let mut definitions: Vec<(String, String)> = parser
        .reference_definitions()
        .iter()
        .map(|(label, definition)| (label.to_owned(), definition.dest.to_string()))
        .collect();
    definitions.sort();
    for event in parser {
        pen.event(event);
    }
    pen.end_paragraph();
    // Parsers drop link definitions, but all output of a model must be shown.
    for (label, target) in definitions {
        pen.spans
            .push((format!("[{}]: ", visible(&label)), Tone::Muted));
        pen.spans.push((visible(&target).into_owned(), Tone::Link));
        pen.end_paragraph();
    }
    pen.out
}

/// Text in front of lines, such as the bullet of a list item.
struct Margin {
    /// Text in front of the first line; `None` once that line is written.
    bullet: Option<String>,
    /// Text in front of the other lines.
    continuation: String,
    /// Width of each of the two texts, in columns.
    columns: usize,
}

struct MarkdownWriter {
    canvas: Canvas,
    out: String,
    spans: Vec<Span>,
    tones: Vec<Tone>,
    margins: Vec<Margin>,
    /// The next number of each open list.
    lists: Vec<Option<u64>>,
    first_number: Option<u64>,
    /// The targets of open links, and the start of their text.
    links: Vec<(String, usize)>,
    code: Option<Highlighter>,
    table: Option<Vec<Vec<Vec<Span>>>>,
    needs_gap: bool,
}

impl MarkdownWriter {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.code.is_some() => self.code_lines(&text),
            // Control characters are escaped after entities are decoded, so that an entity cannot
            // produce one.
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text(&text),
            Event::Code(code) => {
                self.mark("`");
                self.push(&visible(&code), Tone::Code);
                self.mark("`");
            }
            Event::SoftBreak => self.push(" ", Tone::Plain),
            Event::HardBreak => self.push("\n", Tone::Plain),
            Event::Rule => {
                let columns = self.available_width().min(40);
                self.push(&"─".repeat(columns), Tone::Frame);
                self.end_paragraph();
            }
            Event::TaskListMarker(is_done) => {
                let (mark, tone) = if is_done {
                    ("[x] ", Tone::Good)
                } else {
                    ("[ ] ", Tone::Plain)
                };
                self.push(mark, tone);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.begin_block();
                if self.canvas.paint == Paint::Off {
                    self.push(&"#".repeat(level as usize), Tone::Plain);
                    self.push(" ", Tone::Plain);
                }
                self.tones.push(Tone::Title);
            }
            Tag::Paragraph => self.begin_block(),
            Tag::BlockQuote(_) => {
                self.begin_block();
                let bar = self.canvas.paint.text(Tone::Frame, "│");
                self.margins.push(Margin {
                    bullet: None,
                    continuation: format!("{bar} "),
                    columns: 2,
                });
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.line(
                    &self
                        .canvas
                        .paint
                        .text(Tone::Muted, &format!("```{}", visible(&info))),
                );
                self.code = Some(Highlighter::new(info.split(' ').next().unwrap_or_default()));
            }
            Tag::List(first) => {
                self.end_paragraph();
                self.needs_gap = false;
                let number = self.first_number.take().filter(|_| first.is_some());
                self.lists.push(number.or(first));
            }
            Tag::Item => {
                self.end_paragraph();
                self.needs_gap = false;
                let bullet = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let bullet = format!("{number}. ");
                        *number = number.saturating_add(1);
                        bullet
                    }
                    _ => "• ".to_owned(),
                };
                let columns = width(&bullet);
                self.margins.push(Margin {
                    continuation: " ".repeat(columns),
                    columns,
                    bullet: Some(bullet),
                });
            }
            Tag::Table(_) => {
                self.begin_block();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(rows) = &mut self.table {
                    rows.push(Vec::new());
                }
            }
            Tag::Strong => self.open("**", Tone::Label),
            Tag::Emphasis => self.open("*", Tone::Emphasis),
            Tag::Strikethrough => {
                // Strikethrough has no colour, so its marks are kept.
                self.push("~~", Tone::Muted);
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.spans.len()));
                // A separate span, so that its text can be distinguished from the text before it.
                let tone = self.tones.last().copied().unwrap_or(Tone::Plain);
                self.spans.push((String::new(), tone));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.tones.pop();
                self.end_paragraph();
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_paragraph(),
            TagEnd::BlockQuote(_) => {
                self.end_paragraph();
                self.margins.pop();
                self.needs_gap = true;
            }
            TagEnd::CodeBlock => {
                self.code = None;
                self.line(&self.canvas.paint.text(Tone::Muted, "```"));
                self.needs_gap = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.needs_gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.end_paragraph();
                // An item without text is still an item.
                if self
                    .margins
                    .last()
                    .is_some_and(|margin| margin.bullet.is_some())
                {
                    self.line("");
                }
                self.margins.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let rows = self.table.take().unwrap_or_default();
                self.draw_table(&rows);
                self.needs_gap = true;
            }
            TagEnd::Strong => self.close("**"),
            TagEnd::Emphasis => self.close("*"),
            TagEnd::Strikethrough => self.push("~~", Tone::Muted),
            TagEnd::Link | TagEnd::Image => {
                if let Some((target, from)) = self.links.pop() {
                    let link_text: String = self.spans[from.min(self.spans.len())..]
                        .iter()
                        .map(|(text, _)| text.as_str())
                        .collect();
                    let target = visible(&target).into_owned();
                    if link_text == target || format!("mailto:{link_text}") == target {
                        for span in self.spans.iter_mut().skip(from) {
                            span.1 = Tone::Link;
                        }
                    } else {
                        self.push(" (", Tone::Plain);
                        self.push(&target, Tone::Link);
                        self.push(")", Tone::Plain);
                    }
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, mark: &str, tone: Tone) {
        self.mark(mark);
        // Emphasis does not change the tone of a heading.
        let outer = self.tones.last().copied();
        self.tones
            .push(outer.filter(|tone| *tone == Tone::Title).unwrap_or(tone));
    }

    fn close(&mut self, mark: &str) {
        self.tones.pop();
        self.mark(mark);
    }

    /// Adds a mark that replaces a colour when colours are off.
    fn mark(&mut self, mark: &str) {
        if self.canvas.paint == Paint::Off {
            self.push(mark, Tone::Plain);
        }
    }

    fn text(&mut self, text: &str) {
        let tone = self.tones.last().copied().unwrap_or(Tone::Plain);
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                self.push("\n", Tone::Plain);
            }
            self.push(&visible(line), tone);
        }
    }

    fn push(&mut self, text: &str, tone: Tone) {
        match self.spans.last_mut() {
            Some((last, same)) if *same == tone => last.push_str(text),
            _ => self.spans.push((text.to_owned(), tone)),
        }
    }

    fn code_lines(&mut self, text: &str) {
        let mut highlighter = self.code.take();
        for line in text.trim_end_matches('\n').split('\n') {
            let drawn = match &mut highlighter {
                Some(highlighter) => highlighter.line(self.canvas.paint, line),
                None => visible_lines(line).into_owned(),
            };
            self.line(&drawn);
        }
        self.code = highlighter;
    }

    fn begin_block(&mut self) {
        self.end_paragraph();
        let is_first_of_item = self
            .margins
            .last()
            .is_some_and(|margin| margin.bullet.is_some());
        if self.needs_gap && !is_first_of_item {
            self.line("");
        }
        self.needs_gap = false;
    }

    /// Number of columns for text after the margins.
    fn available_width(&self) -> usize {
        let margin_width = self.margins.iter().map(|margin| margin.columns).sum();
        self.canvas
            .width
            .saturating_sub(margin_width)
            .max(MIN_WIDTH)
    }

    fn end_paragraph(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        for line in wrap(&spans, self.available_width()) {
            let drawn = self.painted(&line);
            self.line(&drawn);
        }
        self.needs_gap = true;
    }

    fn painted(&self, spans: &[Span]) -> String {
        let paint = self.canvas.paint;
        // Adjacent spans of one tone are painted together, including the space between them.
        spans
            .chunk_by(|left, right| left.1 == right.1)
            .map(|same| {
                let text: String = same.iter().map(|(text, _)| text.as_str()).collect();
                paint.text(same.first().map_or(Tone::Plain, |(_, tone)| *tone), &text)
            })
            .collect()
    }

    /// Writes a drawn line after the margins.
    fn line(&mut self, drawn: &str) {
        let mut line = String::new();
        for margin in &mut self.margins {
            line.push_str(
                &margin
                    .bullet
                    .take()
                    .unwrap_or_else(|| margin.continuation.clone()),
            );
        }
        line.push_str(drawn);
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn draw_table(&mut self, rows: &[Vec<Vec<Span>>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell_width = |cell: Option<&Vec<Span>>| {
            cell.map_or(0, |spans| {
                spans.iter().map(|(text, _)| width(text)).sum::<usize>()
            })
        };
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                rows.iter()
                    .map(|row| cell_width(row.get(column)))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let table_width = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
        if table_width > self.available_width() {
            self.draw_records(rows);
            return;
        }
        for (number, row) in rows.iter().enumerate() {
            let mut drawn = String::new();
            for (column, column_width) in widths.iter().enumerate() {
                let cell = row.get(column).cloned().unwrap_or_default();
                let gap = column_width - cell_width(Some(&cell)) + 2;
                drawn.push_str(&self.painted(&with_heading_tone(cell, number)));
                drawn.push_str(&" ".repeat(gap));
            }
            self.line(drawn.trim_end());
            if number == 0 {
                self.line(
                    &self
                        .canvas
                        .paint
                        .text(Tone::Frame, &"─".repeat(table_width)),
                );
            }
        }
    }

    /// Draws a table that is too wide: each cell on its own line, after its heading.
    fn draw_records(&mut self, rows: &[Vec<Vec<Span>>]) {
        let Some((heads, rows)) = rows.split_first() else {
            return;
        };
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                self.line("");
            }
            for (column, cell) in row.iter().enumerate() {
                let head: String = heads
                    .get(column)
                    .into_iter()
                    .flatten()
                    .map(|(text, _)| text.as_str())
                    .collect();
                self.spans = vec![(format!("{}: ", truncate(&head, MIN_WIDTH)), Tone::Label)];
                self.spans.extend(cell.iter().cloned());
                self.end_paragraph();
            }
        }
    }
}

fn with_heading_tone(cell: Vec<Span>, row: usize) -> Vec<Span> {
    if row > 0 {
        return cell;
    }
    cell.into_iter()
        .map(|(text, _)| (text, Tone::Label))
        .collect()
}
