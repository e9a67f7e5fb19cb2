//! [`LogLayer`]: writes each event as one line, as text or as JSON.
//!
//! A line has the fields of the event and of all enclosing spans, flat: the request id has the same key in every line
//! of the request. An inner value replaces an outer one of the same name. Fields whose names begin
//! with `otel.` are for traces only.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use cleveragents_domain::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::file::LogFile;
use super::redaction::LogRedactor;
use crate::output::console;

/// Format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogFormat {
    /// `TIME LEVEL TARGET: MESSAGE KEY=VALUE…`
    Text,
    /// One JSON object per line.
    Json,
}

/// Writes events to standard error and to a file.
pub(super) struct LogLayer {
    pub(super) format: LogFormat,
    pub(super) redactor: LogRedactor,
    /// Writes lines to standard error.
    pub(super) prints: bool,
    pub(super) file: Option<Mutex<LogFile>>,
}

/// The redacted fields of a span or of an event.
#[derive(Debug, Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn set(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name, value)),
        }
    }

    /// Adds the fields of an enclosing span.
    fn add_outer(&mut self, outer: &Self) {
        for (name, value) in &outer.0 {
            if !self.0.iter().any(|(known, _)| known == name) {
                self.0.push((name, value.clone()));
            }
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut self.visitor(&mut fields));
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(&mut self.visitor(fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut self.visitor(&mut fields));
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.add_outer(outer);
            }
        }
        let (level, target) = (event.metadata().level().as_str(), event.metadata().target());
        let time = Timestamp::now().to_string();
        let line = match self.format {
            LogFormat::Text => text_line(&time, level, target, &fields),
            LogFormat::Json => json_line(&time, level, target, fields),
        };
        if self.prints {
            console::write_log(&line);
        }
        if let Some(file) = &self.file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // A failed write of the log is ignored.
            let _written = file.write(&time, &line);
        }
    }
}

impl LogLayer {
    const fn visitor<'a>(&'a self, fields: &'a mut Fields) -> FieldVisitor<'a> {
        FieldVisitor {
            redactor: &self.redactor,
            fields,
        }
    }
}

const MESSAGE: &str = "message";

fn text_line(time: &str, level: &str, target: &str, fields: &Fields) -> String {
    let mut line = format!("{time} {level:<5} {target}:");
    let mut append = |text: fmt::Arguments<'_>| {
        let _never_fails = line.write_fmt(text);
    };
    if let Some((_, message)) = fields.0.iter().find(|(name, _)| *name == MESSAGE) {
        append(format_args!(
            " {}",
            one_line(message.as_str().unwrap_or_default())
        ));
    }
    for (name, value) in fields.0.iter().filter(|(name, _)| *name != MESSAGE) {
        match value {
            Value::String(text) if is_word(text) => append(format_args!(" {name}={text}")),
            Value::String(text) => append(format_args!(" {name}=\"{}\"", one_line(text))),
            other => append(format_args!(" {name}={other}")),
        }
    }
    line.push('\n');
    line
}

/// True if a value needs no quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text
            .chars()
            .any(|letter| letter.is_whitespace() || letter.is_control() || letter == '"')
}

/// Escapes control characters: one event is one line, regardless of the text that callers send.
fn one_line(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut line, letter| {
            match letter {
                letter if letter.is_control() => line.extend(letter.escape_default()),
                letter => line.push(letter),
            }
            line
        })
}

fn json_line(time: &str, level: &str, target: &str, fields: Fields) -> String {
    let mut object = Map::new();
    let mut add = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    add("timestamp", time.into());
    add("level", level.into());
    add("target", target.into());
    for (name, value) in fields.0 {
        add(name, value);
    }
    format!("{}\n", Value::Object(object))
}

/// Collects fields and redacts secrets in them.
struct FieldVisitor<'a> {
    redactor: &'a LogRedactor,
    fields: &'a mut Fields,
}

impl FieldVisitor<'_> {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        if !field.name().starts_with("otel.") {
            self.fields.set(field.name(), value.into());
        }
    }
}

impl Visit for FieldVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let value = self.redactor.text(value);
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            let _never_fails = write!(text, ": {cause}");
            source = cause.source();
        }
        self.record_str(field, &text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use cleveragents_models::{Redactor, Secret};
    use serde_json::Value;
    use tracing::field::Empty;
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::{LogFile, LogFormat, LogLayer, LogRedactor};
    use crate::logging::parse_filter;

    const SECRET: &str = "hunter2-hunter2\n\"and-more\"";

    fn log_lines(format: LogFormat, filter: &str, emit_events: impl FnOnce()) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let layer = LogLayer {
            format,
            redactor: LogRedactor::new(Redactor::new([Secret::new(SECRET)])),
            prints: false,
            file: Some(Mutex::new(LogFile::open(&path).expect("a file"))),
        };
        let filter = parse_filter(filter).expect("a filter");
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
        tracing::subscriber::with_default(subscriber, emit_events);
        let text = std::fs::read_to_string(&path).expect("a log");
        text.lines().map(str::to_owned).collect()
    }

    fn emit_events() {
        let request = tracing::error_span!(
            "request",
            otel.kind = "server",
            request = "R1",
            caller = Empty
        );
        request.record("caller", "ada");
        let _request = request.enter();
        let _turn = tracing::info_span!("invoke_agent", session = "S1", attempt = 1).entered();
        tracing::info!(
            attempt = 2,
            cause = format!("x {SECRET} y"),
            "one\ntwo {SECRET}\u{1b}[31m"
        );
        tracing::debug!("filtered");
        tracing::warn!(took = 1.5, is_last = true, empty = "", "bad");
    }

    #[test]
    fn a_line_of_text_has_the_fields_of_its_spans_and_no_secret() {
        let lines = log_lines(LogFormat::Text, "info", emit_events);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let (time, rest) = lines[0].split_once(' ').expect("a time");
        assert!(
            time.parse::<cleveragents_domain::Timestamp>().is_ok(),
            "{time}"
        );
        let target = module_path!();
        assert_eq!(
            rest,
            format!(
                "INFO  {target}: one\\ntwo [REDACTED]\\u{{1b}}[31m attempt=2 cause=\"x [REDACTED] y\" session=S1 \
                 request=R1 caller=ada"
            )
        );
        assert!(lines[1].ends_with(
            "bad took=1.5 is_last=true empty=\"\" session=S1 attempt=1 request=R1 caller=ada"
        ));
    }

    #[test]
    fn a_line_of_json_is_one_object() {
        let lines = log_lines(LogFormat::Json, "info", emit_events);
        let lines: Vec<Value> = lines
            .iter()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0]["level"], "INFO");
        assert_eq!(lines[0]["message"], "one\ntwo [REDACTED]\u{1b}[31m");
        assert_eq!(lines[0]["cause"], "x [REDACTED] y");
        assert_eq!(
            (&lines[0]["attempt"], &lines[1]["attempt"]),
            (&2.into(), &1.into())
        );
        assert_eq!(lines[1]["request"], "R1");
        assert_eq!(lines[1]["took"], 1.5);
        assert_eq!(lines[1].get("otel.kind"), None);
    }

    #[test]
    fn ids_are_in_the_lines_of_every_filter() {
        let lines = log_lines(LogFormat::Text, "warn", emit_events);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].ends_with("request=R1 caller=ada"), "{}", lines[0]);
    }

    #[test]
    fn malformed_filters_are_refused() {
        for good in ["info", "warn,cleveragents_store=debug", "off"] {
            assert!(parse_filter(good).is_some(), "{good}");
        }
        for wrong in ["cleveragents=loud", "info,=", "a=b=c"] {
            assert!(parse_filter(wrong).is_none(), "{wrong}");
        }
    }
}
