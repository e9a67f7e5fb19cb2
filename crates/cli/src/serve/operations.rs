//! Operations from the definitions of commands: the schema of their parameters, and back from parameters to a command
//! line. The parser of the command line is the only one that there is.

use std::any::TypeId;

use clap::{Arg, ArgAction, CommandFactory as _};
use cleveragents_domain::Code;
use cleveragents_server::{Failure, Operation};
use serde_json::{Map, Value, json};

use super::table::{ROWS, Row};
use crate::arguments::Arguments;

/// One operation: its row in the table, and its command.
pub(crate) struct Offered {
    pub(crate) row: &'static Row,
    pub(super) operation: Operation,
    arguments: Vec<Arg>,
}

/// Every operation that is offered.
pub(crate) fn all() -> Vec<Offered> {
    let mut root = Arguments::command();
    root.build();
    ROWS.iter()
        .filter_map(|row| {
            let mut words = row.command.split(' ');
            let command = words.try_fold(&root, |at, word| at.find_subcommand(word))?;
            let arguments: Vec<Arg> = command
                .get_arguments()
                .filter(|argument| is_offered(row, argument))
                .cloned()
                .collect();
            let about = command.get_about().map(ToString::to_string);
            Some(Offered {
                row,
                operation: Operation {
                    name: row.name.to_owned(),
                    summary: about.unwrap_or_default(),
                    scope: row.scope,
                    permission: row.permission,
                    parameters: schema(row, &arguments),
                },
                arguments,
            })
        })
        .collect()
}

fn is_offered(row: &Row, argument: &Arg) -> bool {
    let id = argument.get_id().as_str();
    // What is said about the whole program is not said by a caller.
    let is_everybodys = matches!(
        id,
        "format"
            | "database_url"
            | "local"
            | "help"
            | "version"
            | "verbosity"
            | "log_file"
            | "log_format"
    );
    !is_everybodys && !row.without.contains(&id)
}

/// Whether an argument is given or not, without a value.
pub(crate) fn is_flag(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

/// Whether an argument may have several values.
pub(crate) fn is_many(argument: &Arg) -> bool {
    let more_than_one = argument
        .get_num_args()
        .is_some_and(|count| count.max_values() > 1);
    matches!(argument.get_action(), ArgAction::Append) || more_than_one
}

fn schema(row: &Row, arguments: &[Arg]) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<String> = Vec::new();
    for argument in arguments {
        let id = argument.get_id().as_str();
        let name = id.to_owned();
        let parser = argument.get_value_parser();
        let words: Vec<String> = argument
            .get_possible_values()
            .iter()
            .filter(|word| !word.is_hide_set())
            .map(|word| word.get_name().to_owned())
            .collect();
        let number = [
            TypeId::of::<u64>(),
            TypeId::of::<u32>(),
            TypeId::of::<usize>(),
        ];
        let one = if is_flag(argument) {
            json!({"type": "boolean"})
        } else if number.iter().any(|kind| parser.type_id() == *kind) {
            json!({"type": "integer", "minimum": 0})
        } else if words.is_empty() {
            json!({"type": "string"})
        } else {
            json!({"type": "string", "enum": words})
        };
        let mut property = if is_many(argument) {
            json!({"type": "array", "items": one})
        } else {
            one
        };
        let about = argument.get_help().map(ToString::to_string);
        property["description"] = json!(about.unwrap_or_default());
        if argument.is_required_set() || row.required.contains(&id) {
            required.push(name.clone());
        }
        properties.insert(name, property);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn malformed(message: String) -> Failure {
    Failure::new(Code::MalformedRequest, message)
}

/// Parameters of a call, as the texts of a command line.
#[derive(Debug, Default)]
pub(super) struct Given(Vec<(String, Vec<String>)>);

impl Given {
    /// What was given for a parameter.
    pub(super) fn of(&self, parameter: &str) -> &[String] {
        let mut all = self.0.iter();
        all.find(|(known, _)| known == parameter)
            .map_or(&[], |(_, values)| values)
    }

    /// Puts something else in the place of what was given.
    pub(super) fn set(&mut self, parameter: &str, values: Vec<String>) {
        self.0.retain(|(known, _)| known != parameter);
        self.0.push((parameter.to_owned(), values));
    }
}

impl Offered {
    /// The arguments of its command that are offered.
    pub(crate) fn arguments(&self) -> &[Arg] {
        &self.arguments
    }

    /// Reads parameters. What is not known, missing or of the wrong kind is refused.
    pub(super) fn read(&self, parameters: &Value) -> Result<Given, Failure> {
        let nothing = Map::new();
        let parameters = match parameters {
            Value::Object(parameters) => parameters,
            Value::Null => &nothing,
            _ => return Err(malformed("the parameters are no object".to_owned())),
        };
        let mut given = Given::default();
        for (name, value) in parameters {
            let argument = self
                .arguments
                .iter()
                .find(|argument| argument.get_id().as_str() == *name)
                .ok_or_else(|| {
                    malformed(format!(
                        "`{}` takes no parameter `{name}`",
                        self.operation.name
                    ))
                })?;
            let values = texts(name, value, argument)?;
            if !values.is_empty() {
                given.0.push((argument.get_id().to_string(), values));
            }
        }
        for needed in self.row.required {
            if given.of(needed).is_empty() {
                return Err(malformed(format!("the parameter `{needed}` is missing")));
            }
        }
        Ok(given)
    }

    /// The command line that says the same.
    pub(super) fn line(&self, given: &Given) -> Result<Vec<String>, Failure> {
        let mut line = vec!["agents".to_owned()];
        line.extend(self.row.command.split(' ').map(str::to_owned));
        let mut positional = Vec::new();
        for argument in &self.arguments {
            let values = given.of(argument.get_id().as_str());
            if argument.is_positional() {
                positional.push((argument, values));
            } else if let Some(long) = argument.get_long() {
                for value in values {
                    line.push(if is_flag(argument) {
                        format!("--{long}")
                    } else {
                        format!("--{long}={value}")
                    });
                }
            }
        }
        positional.sort_by_key(|(argument, _)| argument.get_index());
        // What looks like an option is none from here on.
        line.push("--".to_owned());
        let mut missing: Option<&Arg> = None;
        for (argument, values) in positional {
            if values.is_empty() {
                missing = missing.or(Some(argument));
            } else if let Some(missing) = missing {
                let message = format!("the parameter `{}` is missing", missing.get_id());
                return Err(malformed(message));
            }
            line.extend(values.iter().cloned());
        }
        Ok(line)
    }
}

/// A value as the texts of a command line.
fn texts(name: &str, value: &Value, argument: &Arg) -> Result<Vec<String>, Failure> {
    let one = |value: &Value| match value {
        // There is no standard input to read from.
        Value::String(text) if text == "-" => Err(malformed(format!("`{name}` cannot be `-`"))),
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(malformed(format!(
            "`{name}` is neither a text nor a number"
        ))),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Bool(flag) if is_flag(argument) => {
            Ok(flag.then(|| "true".to_owned()).into_iter().collect())
        }
        _ if is_flag(argument) => Err(malformed(format!("`{name}` is not true or false"))),
        Value::Array(values) if is_many(argument) => values.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}
