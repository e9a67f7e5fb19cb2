//! The blocks of a report: panels of labelled values, tables, transcripts and texts.

use serde::{Deserialize, Serialize};

use super::cell::Cell;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// Treatment of a column whose table is wider than the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fit {
    /// Decided by the values: ids, numbers and times are kept, texts wrap.
    Automatic,
    /// Neither wrapped nor shortened: names and states.
    Keep,
    /// Shortened in the middle: paths. Wraps on a wide terminal, where nothing is lost.
    Shorten,
}

/// A column of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Column {
    pub(crate) heading: String,
    pub(crate) align: Align,
    pub(crate) fit: Fit,
    /// Rank among the columns that a narrow terminal does not show; the lowest disappears first.
    pub(crate) drop: Option<usize>,
}

/// A titled list of labelled values.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Panel {
    pub(crate) title: String,
    pub(crate) rows: Vec<(String, Cell)>,
}

impl Panel {
    /// An empty panel.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a line `label: value`. The colon is not part of `label`.
    #[must_use]
    pub fn row(mut self, label: impl Into<String>, value: impl Into<Cell>) -> Self {
        self.rows.push((label.into(), value.into()));
        self
    }
}

/// A titled table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
    pub(crate) empty: String,
}

impl Table {
    /// A table without columns or rows.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            columns: Vec::new(),
            rows: Vec::new(),
            empty: "(none)".to_owned(),
        }
    }

    /// A table with columns of text.
    pub fn with_columns<const N: usize>(title: impl Into<String>, headings: [&str; N]) -> Self {
        headings
            .into_iter()
            .fold(Self::new(title), |table, heading| {
                table.column(heading, Align::Left)
            })
    }

    /// Adds a column at the right.
    #[must_use]
    pub fn column(mut self, heading: impl Into<String>, align: Align) -> Self {
        self.columns.push(Column {
            heading: heading.into(),
            align,
            fit: Fit::Automatic,
            drop: None,
        });
        self
    }

    /// Names the columns that are neither wrapped nor shortened, such as names.
    #[must_use]
    pub fn keep<const N: usize>(self, headings: [&str; N]) -> Self {
        self.change(headings, |column, _| column.fit = Fit::Keep)
    }

    /// Names the columns that a narrow terminal shows shortened in the middle, such as paths.
    #[must_use]
    pub fn shorten<const N: usize>(self, headings: [&str; N]) -> Self {
        self.change(headings, |column, _| column.fit = Fit::Shorten)
    }

    /// Names the columns that a narrow terminal does not show, in the order in which they disappear.
    #[must_use]
    pub fn drop_first<const N: usize>(self, headings: [&str; N]) -> Self {
        self.change(headings, |column, rank| column.drop = Some(rank))
    }

    fn change<const N: usize>(
        mut self,
        headings: [&str; N],
        change: impl Fn(&mut Column, usize),
    ) -> Self {
        for (rank, heading) in headings.into_iter().enumerate() {
            let mut columns = self.columns.iter_mut();
            let column = columns.find(|column| column.heading == heading);
            debug_assert!(column.is_some(), "no column `{heading}`");
            if let Some(column) = column {
                change(column, rank);
            }
        }
        self
    }

    /// Adds a row. Values beyond the last column are not shown; missing ones are blank.
    #[must_use]
    pub fn row(mut self, cells: impl Into<Vec<Cell>>) -> Self {
        self.rows.push(cells.into());
        self
    }

    /// Adds many rows.
    #[must_use]
    pub fn rows(mut self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        self.rows.extend(rows);
        self
    }

    /// Sets the text that is shown when there are no rows.
    #[must_use]
    pub fn empty(mut self, text: impl Into<String>) -> Self {
        self.empty = text.into();
        self
    }
}

/// One entry of a transcript: heading, facts and body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    pub(crate) heading: String,
    pub(crate) facts: Vec<Cell>,
    pub(crate) body: String,
}

impl Entry {
    /// An entry with a heading, such as a role. The body keeps its lines.
    pub fn new(heading: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            heading: heading.into(),
            facts: Vec::new(),
            body: body.into(),
        }
    }

    /// Adds a fact next to the heading, such as the number or the time.
    #[must_use]
    pub fn fact(mut self, fact: impl Into<Cell>) -> Self {
        self.facts.push(fact.into());
        self
    }
}

/// A part of a report for users.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Block {
    Panel(Panel),
    Table(Table),
    Transcript(Vec<Entry>),
    Text(String),
    /// Lines of styled text, such as a drawing; lines are not wrapped.
    Lines(Vec<Vec<Cell>>),
}
