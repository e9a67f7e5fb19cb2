//! [`Span`]: something that is done, from its beginning to its end.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use crate::context::{Context, current};

/// What a span is to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Something inside the program.
    Internal,
    /// An answer to a request.
    Server,
    /// A request to somebody else.
    Client,
}

/// A fact about a span.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
    /// A number with a fraction.
    Fraction(f64),
    /// Several texts.
    Texts(Vec<String>),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Attribute {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<f64> for Attribute {
    fn from(number: f64) -> Self {
        Self::Fraction(number)
    }
}

impl From<Vec<String>> for Attribute {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

/// A span that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub(crate) context: Context,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
    pub(crate) is_failed: bool,
}

type Sink = Box<dyn Fn(Ended) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Says where spans go that are over, from now on. It must not wait. `false` when somebody said so before.
pub fn send_to(sink: impl Fn(Ended) + Send + Sync + 'static) -> bool {
    SINK.set(Box::new(sink)).is_ok()
}

/// Whether spans go anywhere.
pub fn is_on() -> bool {
    SINK.get().is_some()
}

/// Something that is done. It is told when this is dropped.
#[derive(Debug, Default)]
pub struct Span(Option<Box<Recorded>>);

#[derive(Debug)]
struct Recorded {
    ended: Ended,
    clock: Instant,
}

impl Span {
    /// Begins a span, a part of the one that goes on here.
    pub fn begin(kind: Kind, name: impl FnOnce() -> String) -> Self {
        Self::below(current(), kind, name)
    }

    /// Begins a span, a part of another one, or the first of a trace.
    pub fn below(parent: Option<Context>, kind: Kind, name: impl FnOnce() -> String) -> Self {
        let is_told = parent.is_none_or(|parent| parent.is_sampled);
        if !is_on() || !is_told {
            return Self(None);
        }
        let start = SystemTime::now();
        Self(Some(Box::new(Recorded {
            ended: Ended {
                context: Context {
                    trace: parent.map_or_else(|| fastrand::u128(1..), |parent| parent.trace),
                    span: fastrand::u64(1..),
                    is_sampled: true,
                },
                parent: parent.map(|parent| parent.span),
                name: name(),
                kind,
                start,
                end: start,
                attributes: Vec::new(),
                is_failed: false,
            },
            clock: Instant::now(),
        })))
    }

    /// What others are a part of that belong to it.
    pub fn context(&self) -> Option<Context> {
        match &self.0 {
            Some(recorded) => Some(recorded.ended.context),
            None => current(),
        }
    }

    /// Adds a fact.
    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        if let Some(recorded) = &mut self.0 {
            recorded.ended.attributes.push((name, value.into()));
        }
    }

    /// Says that it failed, with a stable code.
    pub fn fail(&mut self, code: &str) {
        if let Some(recorded) = &mut self.0 {
            recorded.ended.is_failed = true;
            let code = code.into();
            recorded.ended.attributes.push((crate::name::ERROR, code));
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let (Some(recorded), Some(sink)) = (self.0.take(), SINK.get()) {
            let Recorded { mut ended, clock } = *recorded;
            // The clock of the day may be set meanwhile.
            ended.end = ended.start + clock.elapsed();
            sink(ended);
        }
    }
}
