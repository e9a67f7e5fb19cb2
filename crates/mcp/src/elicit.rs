//! Questions of servers to the user. A form is asked field by field; a URL is shown, but never
//! opened. Without a user, all questions are declined.

use cleveragents_tools::ports::{Approver, Question, QuestionKind, Reply};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Number, Value};

use crate::connection::bounded;

/// Maximum number of attempts per field.
const MAX_ATTEMPTS: usize = 3;
/// Maximum number of fields in a form.
const MAX_FIELDS: usize = 32;

/// Answer of the user to one field.
enum FieldAnswer {
    Value(Value),
    Nothing,
    Declined,
    NoUser,
}

/// Asks the user a question of a server.
pub(crate) fn answer(
    server: &str,
    question: &ElicitRequestParams,
    approver: &dyn Approver,
) -> ElicitResult {
    let decline = || ElicitResult::new(ElicitationAction::Decline);
    match question {
        ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } => {
            let Ok(schema) = serde_json::to_value(requested_schema) else {
                return decline();
            };
            match form(server, message, &schema, approver) {
                Ok(content) => ElicitResult::new(ElicitationAction::Accept)
                    .with_content(Value::Object(content)),
                Err(action) => ElicitResult::new(action),
            }
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            let text = format!(
                "The MCP server `{server}` asks you to open a URL. Its message: {}\n{}\nOpen the URL \
                 yourself if you trust it. Have you done what it asks for?",
                bounded(message),
                bounded(url)
            );
            let options = ["yes".to_owned(), "no".to_owned()];
            match ask(&text, &options, approver) {
                Ok(text) if is_yes(&text) == Some(true) => {
                    ElicitResult::new(ElicitationAction::Accept)
                }
                _ => decline(),
            }
        }
        _ => decline(),
    }
}

fn form(
    server: &str,
    message: &str,
    schema: &Value,
    approver: &dyn Approver,
) -> Result<Map<String, Value>, ElicitationAction> {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.unwrap_or(&empty);
    if properties.len() > MAX_FIELDS {
        return Err(ElicitationAction::Decline);
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let head = format!(
        "The MCP server `{server}` requests information. Its message: {}",
        bounded(message)
    );
    if properties.is_empty() {
        let options = ["yes".to_owned(), "no".to_owned()];
        let text = format!("{head}\nDo you want to answer?");
        return match ask(&text, &options, approver) {
            Ok(text) if is_yes(&text) == Some(true) => Ok(Map::new()),
            Ok(_) | Err(_) => Err(ElicitationAction::Decline),
        };
    }
    let mut content = Map::new();
    for (name, field) in properties {
        let is_required = required.contains(&name.as_str());
        match ask_field(&head, name, field, is_required, approver) {
            FieldAnswer::Value(value) => {
                content.insert(name.clone(), value);
            }
            FieldAnswer::Nothing => {}
            FieldAnswer::Declined | FieldAnswer::NoUser => return Err(ElicitationAction::Decline),
        }
    }
    Ok(content)
}

/// Asks for one field until the answer is valid.
fn ask_field(
    head: &str,
    name: &str,
    field: &Value,
    is_required: bool,
    approver: &dyn Approver,
) -> FieldAnswer {
    let title = field.get("title").and_then(Value::as_str).unwrap_or(name);
    let about = field
        .get("description")
        .and_then(Value::as_str)
        .map(|about| format!(" ({})", bounded(about)))
        .unwrap_or_default();
    let choices = Choices::from_schema(field);
    let mut problem = String::new();
    for _ in 0..MAX_ATTEMPTS {
        let optional = if is_required {
            ""
        } else {
            " Leave empty to skip."
        };
        let text = format!("{head}\n{}{about}:{optional}{problem}", bounded(title));
        let answer = match ask(&text, &choices.labels, approver) {
            Ok(answer) => answer,
            Err(answer) => return answer,
        };
        let answer = answer.trim();
        if answer.is_empty() {
            match field.get("default") {
                Some(default) => return FieldAnswer::Value(default.clone()),
                None if !is_required => return FieldAnswer::Nothing,
                None => {
                    " An answer is required.".clone_into(&mut problem);
                    continue;
                }
            }
        }
        match choices.value(field, answer) {
            Ok(value) => return FieldAnswer::Value(value),
            Err(why) => problem = format!(" {why}"),
        }
    }
    FieldAnswer::Declined
}

fn ask(text: &str, options: &[String], approver: &dyn Approver) -> Result<String, FieldAnswer> {
    let kind = QuestionKind::Information;
    match approver.question(&Question {
        kind,
        text,
        options,
    }) {
        Reply::Text(text) => Ok(text),
        Reply::Declined | Reply::NotAsked(_) => Err(FieldAnswer::Declined),
        Reply::NoUser => Err(FieldAnswer::NoUser),
    }
}

fn is_yes(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "yes" | "y" | "true" => Some(true),
        "no" | "n" | "false" => Some(false),
        _ => None,
    }
}

/// The selectable answers: displayed texts and their values.
#[derive(Default)]
struct Choices {
    labels: Vec<String>,
    values: Vec<String>,
}

impl Choices {
    fn from_schema(field: &Value) -> Self {
        if field.get("type").and_then(Value::as_str) == Some("boolean") {
            return Self {
                labels: vec!["yes".to_owned(), "no".to_owned()],
                values: Vec::new(),
            };
        }
        let field = field.get("items").unwrap_or(field);
        let mut choices = Self::default();
        let texts = |list: Option<&Value>| -> Vec<String> {
            list.and_then(Value::as_array)
                .map(|items| items.iter().filter_map(Value::as_str))
                .into_iter()
                .flatten()
                .map(str::to_owned)
                .collect()
        };
        let options = field.get("oneOf").or_else(|| field.get("anyOf"));
        if let Some(options) = options.and_then(Value::as_array) {
            for option in options {
                if let Some(value) = option.get("const").and_then(Value::as_str) {
                    let label = option.get("title").and_then(Value::as_str).unwrap_or(value);
                    choices.labels.push(bounded(label));
                    choices.values.push(value.to_owned());
                }
            }
        } else {
            choices.values = texts(field.get("enum"));
            choices.labels = texts(field.get("enumNames"));
            if choices.labels.len() != choices.values.len() {
                choices.labels.clone_from(&choices.values);
            }
        }
        choices
    }

    fn chosen_value(&self, answer: &str) -> Option<String> {
        let position = |list: &[String]| list.iter().position(|text| text == answer);
        let index = position(&self.values).or_else(|| position(&self.labels))?;
        self.values.get(index).cloned()
    }

    /// Converts an answer to a value of the field, or returns the problem.
    fn value(&self, field: &Value, answer: &str) -> Result<Value, String> {
        let kind = field
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("string");
        match kind {
            "boolean" => is_yes(answer)
                .map(Value::Bool)
                .ok_or_else(|| "Answer yes or no.".to_owned()),
            "integer" => {
                let number: i64 = answer.parse().map_err(|_| "Enter an integer.")?;
                self.validated(field, Value::from(number))
            }
            "number" => {
                let number: f64 = answer.parse().map_err(|_| "Enter a number.")?;
                let number = Number::from_f64(number).ok_or("Enter a number.")?;
                self.validated(field, Value::Number(number))
            }
            "array" => {
                let chosen: Option<Vec<Value>> = answer
                    .split(',')
                    .map(|item| self.chosen_value(item.trim()).map(Value::String))
                    .collect();
                let chosen =
                    chosen.ok_or("Choose from the listed answers, separated by commas.")?;
                self.validated(field, Value::Array(chosen))
            }
            _ if !self.values.is_empty() => self
                .chosen_value(answer)
                .map(Value::String)
                .ok_or_else(|| "Choose one of the listed answers.".to_owned()),
            _ => self.validated(field, Value::String(answer.to_owned())),
        }
    }

    #[expect(clippy::unused_self, reason = "same form as the other methods")]
    fn validated(&self, field: &Value, value: Value) -> Result<Value, String> {
        match cleveragents_tools::check_value(field, &value) {
            Ok(()) => Ok(value),
            Err(why) => Err(format!("Invalid answer: {}.", bounded(&why))),
        }
    }
}
