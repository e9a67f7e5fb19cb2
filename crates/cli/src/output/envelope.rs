//! The envelope: the single document of the formats `json` and `yaml`.
//!
//! Its keys and their order are a stable interface for programs: `command`, `status`, `exit_code`, `data`,
//! `timing`, `messages`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use cleveragents_domain::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::CommandError;
use super::report::{Data, Level, Message, Report, Status};
use super::timing::Timing;

/// The document, borrowed from a report or an error.
#[derive(Debug, Serialize)]
pub(crate) struct Envelope<'a> {
    command: &'a str,
    status: Status,
    exit_code: u8,
    data: Cow<'a, Data>,
    timing: TimingFields,
    messages: Cow<'a, [Message]>,
}

#[derive(Debug, Serialize)]
struct TimingFields {
    started: Timestamp,
    duration_ms: u64,
}

impl From<Timing> for TimingFields {
    fn from(timing: Timing) -> Self {
        Self {
            started: timing.started(),
            duration_ms: timing.duration_ms(),
        }
    }
}

impl<'a> Envelope<'a> {
    /// The envelope of a report; a failed report gets `data.error` and a message.
    pub(crate) fn of_report(report: &'a Report, timing: Timing) -> Self {
        let mut data = Cow::Borrowed(&report.data);
        let mut messages = Cow::Borrowed(report.messages.as_slice());
        if let Some(failure) = &report.failure {
            data = Cow::Owned(Data::Tree(with_error(&report.data.to_tree(), failure)));
            messages.to_mut().push(message_of(failure));
        }
        Self {
            command: report.command,
            status: report.status(),
            exit_code: report.exit_code(),
            data,
            timing: timing.into(),
            messages,
        }
    }

    /// The envelope of a command that failed without a report.
    pub(crate) fn of_error(command: &'a str, error: &CommandError, timing: Timing) -> Self {
        Self {
            command,
            status: Status::Error,
            exit_code: error.exit_code(),
            data: Cow::Owned(Data::Tree(with_error(&Value::Null, error))),
            timing: timing.into(),
            messages: Cow::Owned(vec![message_of(error)]),
        }
    }

    /// The document as indented JSON, with a line feed at the end.
    pub(crate) fn to_json(&self) -> io::Result<String> {
        let mut text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        text.push('\n');
        Ok(escape(text))
    }

    /// The document as JSON on one line, with a line feed at the end.
    pub(crate) fn to_json_line(&self) -> io::Result<String> {
        let mut text = serde_json::to_string(self).map_err(io::Error::other)?;
        text.push('\n');
        Ok(escape(text))
    }

    /// The document as YAML, with a line feed at the end.
    pub(crate) fn to_yaml(&self) -> io::Result<String> {
        let mut text = serde_saphyr::to_string(self).map_err(io::Error::other)?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }
}

fn message_of(error: &CommandError) -> Message {
    Message {
        level: Level::Error,
        text: error.to_string(),
    }
}

/// The data with `error` added or completed; data that is not an object moves to `result`.
fn with_error(data: &Value, error: &CommandError) -> Value {
    let mut map = match data {
        Value::Object(map) => map.clone(),
        Value::Null => Map::new(),
        other => Map::from_iter([("result".to_owned(), other.clone())]),
    };
    let mut error_fields = error.to_value();
    // An `error` that the data already has keeps its fields.
    if let (Some(Value::Object(own)), Value::Object(fields)) =
        (map.remove("error"), &mut error_fields)
    {
        fields.extend(own);
    }
    map.insert("error".to_owned(), error_fields);
    Value::Object(map)
}

/// Escapes the control characters that JSON allows unescaped (DEL and C1), which a terminal would
/// interpret.
fn escape(json: String) -> String {
    let is_control = |character: char| matches!(character, '\u{7f}'..='\u{9f}');
    // In UTF-8 these characters are the byte 0x7f or begin with 0xc2, so this fast check usually suffices.
    let may_be_control = |byte: u8| matches!(byte, 0x7f | 0xc2);
    if !json.bytes().any(may_be_control) || !json.contains(is_control) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_control(character) {
            // Writing to a string cannot fail.
            let _written = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::Envelope;
    use crate::output::{CommandError, Report, Timing};
    use cleveragents_domain::Code;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[ \t\n#:>|'\"a-z-]{0,12}",
            "[ a-z\n]{60,200}",
            "[0-9_.:eE+xo-]{1,10}",
            "[0-9E]{26}",
            proptest::sample::select(vec![
                "",
                "~",
                "null",
                "Null",
                "true",
                "yes",
                "no",
                "on",
                "y",
                "12",
                "0x1F",
                "0o17",
                "017",
                "1_000",
                "1.5",
                "1e3",
                ".inf",
                "-.INF",
                ".nan",
                "2026-01-31",
                "2026-01-31T12:00:00Z",
                "12:30:45",
                "<<",
                "=",
                "!!str",
                "&a",
                "*a",
                "- x",
                "? x",
                "a: b",
                "a #b",
                "#",
                "%YAML",
                "---",
                "...",
                "@x",
                "`x",
                "{}",
                "[]",
                "\n",
                "\n\n a",
                " lead",
                "trail ",
                "trail\n",
                "a\n\n",
                "\ta",
                "a\tb\n",
                "line\r\nline",
                "\u{85}",
                "\u{feff}",
                "\u{2028}",
                "\u{1b}[31m",
                "\u{0}",
                "C:\\path",
                "it's",
                "\"q\"",
            ])
            .prop_map(str::to_owned),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            // Parsing JSON rounds long fractions, so only short ones are compared.
            any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
            proptest::sample::select(vec![0.0, 1e300, 1.5e-7, 1e16, -2.5e-10])
                .prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn the_keys_are_in_the_documented_order() {
        let report = Report::new("session list").ok("done");
        let json = Envelope::of_report(&report, Timing::start())
            .to_json()
            .expect("json");
        let value: Value = serde_json::from_str(&json).expect("parses");
        let keys: Vec<_> = value.as_object().expect("object").keys().cloned().collect();
        assert_eq!(
            keys,
            [
                "command",
                "status",
                "exit_code",
                "data",
                "timing",
                "messages"
            ]
        );
        let timing: Vec<_> = value["timing"]
            .as_object()
            .expect("object")
            .keys()
            .cloned()
            .collect();
        assert_eq!(timing, ["started", "duration_ms"]);
        assert!(
            value["timing"]["started"]
                .as_str()
                .expect("text")
                .ends_with('Z')
        );
        assert!(value["timing"]["duration_ms"].is_u64());
        assert!(json.ends_with("}\n"));
    }

    #[test]
    fn a_failed_report_keeps_its_data_and_adds_the_error() {
        let failed = |data: Value| {
            let report = Report::new("diagnostics")
                .failed(
                    Code::ChecksFailed,
                    "2 checks failed",
                    "run `agents diagnostics`",
                )
                .data(data);
            let json = Envelope::of_report(&report, Timing::start())
                .to_json()
                .expect("json");
            serde_json::from_str::<Value>(&json).expect("parses")
        };
        let value = failed(json!({"checks": [1, 2]}));
        assert_eq!(value["data"]["checks"], json!([1, 2]));
        assert_eq!(value["data"]["error"]["code"], "CA-0501");
        assert_eq!(
            value["messages"],
            json!([{"level": "error", "text": "2 checks failed"}])
        );
        assert_eq!(value["exit_code"], 1);
        assert_eq!(failed(json!([1]))["data"]["result"], json!([1]));
    }

    #[test]
    fn the_data_of_a_command_error_is_only_the_error() {
        let error = CommandError::usage("no");
        let json = Envelope::of_error("x", &error, Timing::start())
            .to_json()
            .expect("json");
        let value: Value = serde_json::from_str(&json).expect("parses");
        assert_eq!(
            value["data"],
            json!({"error": {"code": "CA-0101", "message": "no", "details": {}, "hint": null}})
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn yaml_and_json_read_back_as_the_same_data(data in any_json()) {
            let report = Report::new("x").data(&data);
            let envelope = Envelope::of_report(&report, Timing::start());
            let json = envelope.to_json().expect("json");
            let parsed: Value = serde_json::from_str(&json).expect("json parses");
            prop_assert_eq!(&parsed["data"], &data, "{}", json);
            let yaml = envelope.to_yaml().expect("yaml");
            let parsed: Value = serde_saphyr::from_str(&yaml).expect("yaml parses");
            prop_assert_eq!(&parsed["data"], &data, "{}", yaml);
            for text in [json, yaml] {
                prop_assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n' && letter != '\t'), "{text:?}");
            }
        }
    }
}
