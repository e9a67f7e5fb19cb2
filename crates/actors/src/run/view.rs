//! [`View`]: the values that expressions can use at one point of a run, and the evaluation of arguments.

use serde_json::{Map, Value};

use crate::expression::{ExpressionError, NameValues};
use crate::graph::Argument;
use crate::state::{State, key};

/// The state, the context, and optionally one more name.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) state: &'a State,
    pub(super) context: &'a Value,
    /// An additional name with its value, such as the current item of a map.
    pub(super) extra: Option<(&'a str, &'a Value)>,
}

impl NameValues for View<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        match self.extra {
            Some((extra, value)) if extra == name => Some(value),
            _ if name == key::CONTEXT => Some(self.context),
            _ => self.state.get(name),
        }
    }
}

impl View<'_> {
    /// The state including the additional name: the default initial state of a subgraph.
    pub(super) fn whole(&self) -> State {
        let mut state = self.state.clone();
        if let Some((name, value)) = self.extra {
            state.set(name, value.clone());
        }
        state
    }

    /// Evaluates an argument.
    pub(super) fn fill(&self, argument: &Argument) -> Result<Value, ExpressionError> {
        Ok(match argument {
            Argument::Plain(value) => value.clone(),
            Argument::Text(template) => Value::String(template.render(self)?),
            Argument::Value(expression) => expression.value(self)?,
            Argument::List(items) => items
                .iter()
                .map(|item| self.fill(item))
                .collect::<Result<_, _>>()?,
            Argument::Map(fields) => Value::Object(self.fill_all(fields)?),
        })
    }

    /// Evaluates several arguments under their names.
    pub(super) fn fill_all(
        &self,
        fields: &[(String, Argument)],
    ) -> Result<Map<String, Value>, ExpressionError> {
        fields
            .iter()
            .map(|(name, argument)| Ok((name.clone(), self.fill(argument)?)))
            .collect()
    }
}

/// A value as text: strings unchanged, others as JSON.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
