//! Questions of servers for a person: a form is asked field by field, an address is shown and never
//! opened. Without a person everything is declined.

use cleveragents_tools::ports::{Approver, Question, Reply};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Number, Value};

use crate::link::bounded;

/// A field may be answered so often before we give up.
const MOST_TRIES: usize = 3;
/// A form may have so many fields.
const MOST_FIELDS: usize = 32;

/// What the person says.
enum Said {
    Value(Value),
    Nothing,
    Declined,
    NobodyThere,
}

/// Asks a person what a server wants to know.
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
                "The MCP server `{server}` asks you to visit an address. It says: {}\n{}\nOpen it \
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
    if properties.len() > MOST_FIELDS {
        return Err(ElicitationAction::Decline);
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let head = format!(
        "The MCP server `{server}` wants to know something. It says: {}",
        bounded(message)
    );
    if properties.is_empty() {
        let options = ["yes".to_owned(), "no".to_owned()];
        let text = format!("{head}\nDo you agree?");
        return match ask(&text, &options, approver) {
            Ok(text) if is_yes(&text) == Some(true) => Ok(Map::new()),
            Ok(_) | Err(_) => Err(ElicitationAction::Decline),
        };
    }
    let mut content = Map::new();
    for (name, field) in properties {
        let is_required = required.contains(&name.as_str());
        match one(&head, name, field, is_required, approver) {
            Said::Value(value) => {
                content.insert(name.clone(), value);
            }
            Said::Nothing => {}
            Said::Declined | Said::NobodyThere => return Err(ElicitationAction::Decline),
        }
    }
    Ok(content)
}

/// Asks for one field until the answer fits.
fn one(head: &str, name: &str, field: &Value, is_required: bool, approver: &dyn Approver) -> Said {
    let title = field.get("title").and_then(Value::as_str).unwrap_or(name);
    let about = field
        .get("description")
        .and_then(Value::as_str)
        .map(|about| format!(" ({})", bounded(about)))
        .unwrap_or_default();
    let choices = Choices::of(field);
    let mut complaint = String::new();
    for _ in 0..MOST_TRIES {
        let optional = if is_required {
            ""
        } else {
            " Leave it empty to skip it."
        };
        let text = format!("{head}\n{}{about}:{optional}{complaint}", bounded(title));
        let said = match ask(&text, &choices.labels, approver) {
            Ok(said) => said,
            Err(said) => return said,
        };
        let said = said.trim();
        if said.is_empty() {
            match field.get("default") {
                Some(default) => return Said::Value(default.clone()),
                None if !is_required => return Said::Nothing,
                None => {
                    " An answer is needed.".clone_into(&mut complaint);
                    continue;
                }
            }
        }
        match choices.value(field, said) {
            Ok(value) => return Said::Value(value),
            Err(why) => complaint = format!(" {why}"),
        }
    }
    Said::Declined
}

fn ask(text: &str, options: &[String], approver: &dyn Approver) -> Result<String, Said> {
    match approver.question(&Question { text, options }) {
        Reply::Text(text) => Ok(text),
        Reply::Declined | Reply::NotAsked(_) => Err(Said::Declined),
        Reply::NobodyThere => Err(Said::NobodyThere),
    }
}

fn is_yes(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "yes" | "y" | "true" => Some(true),
        "no" | "n" | "false" => Some(false),
        _ => None,
    }
}

/// The answers to choose from: what is shown, and what is meant.
#[derive(Default)]
struct Choices {
    labels: Vec<String>,
    values: Vec<String>,
}

impl Choices {
    fn of(field: &Value) -> Self {
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
        let titled = field.get("oneOf").or_else(|| field.get("anyOf"));
        if let Some(titled) = titled.and_then(Value::as_array) {
            for one in titled {
                if let Some(value) = one.get("const").and_then(Value::as_str) {
                    let label = one.get("title").and_then(Value::as_str).unwrap_or(value);
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

    fn chosen(&self, said: &str) -> Option<String> {
        let of = |list: &[String]| list.iter().position(|one| one == said);
        let at = of(&self.values).or_else(|| of(&self.labels))?;
        self.values.get(at).cloned()
    }

    /// What was said as a value of the field, or what is wrong with it.
    fn value(&self, field: &Value, said: &str) -> Result<Value, String> {
        let kind = field
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("string");
        match kind {
            "boolean" => is_yes(said)
                .map(Value::Bool)
                .ok_or_else(|| "Answer yes or no.".to_owned()),
            "integer" => {
                let number: i64 = said.parse().map_err(|_| "A whole number is needed.")?;
                self.within(field, Value::from(number))
            }
            "number" => {
                let number: f64 = said.parse().map_err(|_| "A number is needed.")?;
                let number = Number::from_f64(number).ok_or("A number is needed.")?;
                self.within(field, Value::Number(number))
            }
            "array" => {
                let chosen: Option<Vec<Value>> = said
                    .split(',')
                    .map(|one| self.chosen(one.trim()).map(Value::String))
                    .collect();
                let chosen = chosen.ok_or("Choose among the answers, with commas between.")?;
                self.within(field, Value::Array(chosen))
            }
            _ if !self.values.is_empty() => self
                .chosen(said)
                .map(Value::String)
                .ok_or_else(|| "Choose one of the answers.".to_owned()),
            _ => self.within(field, Value::String(said.to_owned())),
        }
    }

    #[expect(clippy::unused_self, reason = "reads like its neighbours")]
    fn within(&self, field: &Value, value: Value) -> Result<Value, String> {
        match cleveragents_tools::check_value(field, &value) {
            Ok(()) => Ok(value),
            Err(why) => Err(format!("That does not fit: {}.", bounded(&why))),
        }
    }
}
