//! [`Fields`]: reads the fields of a JSON object that a client sent.
//!
//! Clients write `taskId` or `task_id`, numbers as strings and `null` for an absent field; all of that is accepted, and
//! unknown fields are ignored.

use serde_json::{Map, Value};

use crate::error::Error;

/// Maximum length, in bytes, of an id chosen by a client.
const MAX_ID_BYTES: usize = 512;

/// The fields of a JSON object.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a Map<String, Value>);

/// Converts `taskId` to `task_id`.
fn snake_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

impl<'a> Fields<'a> {
    /// A field; `None` when it is absent or `null`.
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.0
            .get(name)
            .or_else(|| self.0.get(&snake_case(name)))
            .filter(|value| !value.is_null())
    }

    /// A string; `None` when it is absent or empty.
    pub fn text(self, name: &str) -> Result<Option<&'a str>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::invalid_field(name, "a text")),
        }
    }

    /// A required string.
    pub fn required_text(self, name: &str) -> Result<&'a str, Error> {
        self.text(name)?
            .ok_or_else(|| Error::invalid_params(format!("`{name}` is missing")))
    }

    /// An id chosen by the client.
    pub fn id(self, name: &str) -> Result<Option<&'a str>, Error> {
        let value = self.text(name)?;
        match value {
            Some(text) if text.len() > MAX_ID_BYTES || text.chars().any(char::is_control) => {
                Err(Error::invalid_field(name, "an id of at most 512 bytes"))
            }
            value => Ok(value),
        }
    }

    /// An integer; a string or a float such as `2.0` is accepted too.
    pub fn integer(self, name: &str) -> Result<Option<i64>, Error> {
        let parsed = match self.get(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_i64().or_else(|| {
                let number = number.as_f64()?;
                #[expect(clippy::cast_possible_truncation, reason = "it is in range")]
                (number.fract() == 0.0 && number.abs() < 1e15).then_some(number as i64)
            }),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        parsed
            .map(Some)
            .ok_or_else(|| Error::invalid_field(name, "a whole number"))
    }

    /// A boolean; a string is accepted too. `false` when it is absent.
    pub fn flag(self, name: &str) -> Result<bool, Error> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(Error::invalid_field(name, "true or false")),
        }
    }

    /// The fields of a nested object.
    pub fn object(self, name: &str) -> Result<Option<Self>, Error> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(Self(fields))),
            Some(_) => Err(Error::invalid_field(name, "an object")),
        }
    }

    /// A list; empty when it is absent.
    pub fn list(self, name: &str) -> Result<&'a [Value], Error> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(Error::invalid_field(name, "a list")),
        }
    }

    /// `historyLength`: maximum number of latest messages returned with a task; `None` for all.
    pub fn history_length(self) -> Result<Option<u64>, Error> {
        self.integer("historyLength")?
            .map(|number| {
                u64::try_from(number)
                    .map_err(|_| Error::invalid_field("historyLength", "0 or more"))
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::{Fields, snake_case};
    use serde_json::json;

    #[test]
    fn fields_are_read_in_every_spelling() {
        assert_eq!(snake_case("statusTimestampAfter"), "status_timestamp_after");
        let object = json!({
            "task_id": "t", "contextId": null, "pageSize": "7", "limit": 2.0, "half": 0.5,
            "on": "true", "off": false, "empty": "",
        });
        let fields = Fields(object.as_object().expect("an object"));
        assert_eq!(fields.text("taskId").expect("a text"), Some("t"));
        assert_eq!(fields.text("contextId").expect("absent"), None);
        assert_eq!(fields.text("empty").expect("absent"), None);
        assert_eq!(fields.integer("pageSize").expect("a number"), Some(7));
        assert_eq!(fields.integer("limit").expect("a number"), Some(2));
        assert!(fields.integer("half").is_err());
        assert!(fields.flag("on").expect("a flag") && !fields.flag("off").expect("a flag"));
        assert!(fields.required_text("contextId").is_err());
        assert!(fields.object("taskId").is_err() && fields.list("taskId").is_err());
    }

    #[test]
    fn ids_have_a_maximum_length_and_no_control_characters() {
        let object = json!({"good": "a".repeat(512), "long": "a".repeat(513), "nul": "a\u{0}b"});
        let fields = Fields(object.as_object().expect("an object"));
        assert!(fields.id("good").is_ok());
        assert!(fields.id("long").is_err() && fields.id("nul").is_err());
    }
}
