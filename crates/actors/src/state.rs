//! [`State`]: the values of a run, key by key. [`Reducer`]: the rule that merges an update into a value.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::expression::NameValues;
use crate::graph::{Actor, Key};

/// Keys with a meaning for the runner.
pub(crate) mod key {
    /// Input of a run.
    pub(crate) const INPUT: &str = "input";
    /// Messages, oldest first.
    pub(crate) const MESSAGES: &str = "messages";
    /// Result of a run.
    pub(crate) const OUTPUT: &str = "output";
    /// Error message when a run continues with `on_error`.
    pub(crate) const ERROR: &str = "error";
    /// Text that a router passed on.
    pub(crate) const ROUTED_MESSAGE: &str = "routed_message";
    /// Context of the actor and of the run. Only a name in expressions: no update may write this key.
    pub(crate) const CONTEXT: &str = "context";
}

/// Rule by which an update is merged into the value of a key.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reducer {
    /// The update replaces the value.
    #[default]
    Replace,
    /// The update, or each item of it when it is a list, is appended to the list.
    Append,
    /// The fields of the update are merged into the map, recursively.
    Merge,
    /// The number is added.
    Sum,
}

/// An update cannot be merged into a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key `{key}`: {why}")]
pub(crate) struct Mismatch {
    key: String,
    why: String,
}

impl Reducer {
    /// Returns the declared reducer of a key. Default: [`Append`](Self::Append) for `messages`, otherwise
    /// [`Replace`](Self::Replace).
    pub(crate) fn for_key(key: &str, keys: &BTreeMap<String, Key>) -> Self {
        match keys.get(key) {
            Some(declared) => declared.reducer,
            None if key == key::MESSAGES => Self::Append,
            None => Self::Replace,
        }
    }

    /// Checks whether an update can be merged into a value. A missing or null value accepts every update that the
    /// reducer supports.
    fn check(self, value: Option<&Value>, update: &Value) -> Result<(), String> {
        let value = value.filter(|value| !value.is_null());
        match (self, value, update) {
            (Self::Replace, _, _)
            | (Self::Append, None | Some(Value::Array(_)), _)
            | (Self::Merge, None | Some(Value::Object(_)), Value::Object(_))
            | (Self::Sum, None, Value::Number(_)) => Ok(()),
            (Self::Append, Some(other), _) => Err(format!(
                "cannot append to {}, only to a list",
                kind_of(other)
            )),
            (Self::Merge, Some(other), Value::Object(_)) => Err(format!(
                "cannot merge into {}, only into a map",
                kind_of(other)
            )),
            (Self::Merge, _, other) => Err(format!(
                "only a map can be merged, but the update is {}",
                kind_of(other)
            )),
            (Self::Sum, Some(Value::Number(first)), Value::Number(second)) => {
                sum(first, second).map(|_| ())
            }
            (Self::Sum, Some(other), Value::Number(_)) => Err(format!(
                "cannot add to {}, only to a number",
                kind_of(other)
            )),
            (Self::Sum, _, other) => Err(format!(
                "only a number can be added, but the update is {}",
                kind_of(other)
            )),
        }
    }

    /// Merges a checked update.
    fn join(self, slot: &mut Value, update: Value) {
        match (self, slot, update) {
            (Self::Append, Value::Array(items), Value::Array(more)) => items.extend(more),
            (Self::Append, Value::Array(items), item) => items.push(item),
            (Self::Merge, Value::Object(fields), Value::Object(more)) => merge(fields, more),
            (Self::Sum, Value::Number(number), Value::Number(more)) => {
                if let Ok(sum) = sum(number, &more) {
                    *number = sum;
                }
            }
            (reducer, slot, update) => *slot = reducer.first(update),
        }
    }

    /// Converts the first update of a key to its value.
    fn first(self, update: Value) -> Value {
        match (self, update) {
            (Self::Append, items @ Value::Array(_)) => items,
            (Self::Append, item) => Value::Array(vec![item]),
            (_, update) => update,
        }
    }
}

/// Type name of a value, for users.
pub(crate) const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn merge(fields: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            (Some(slot), value) => *slot = value,
            (None, value) => {
                fields.insert(name, value);
            }
        }
    }
}

/// Adds numbers. Integers stay integers and never wrap around.
fn sum(first: &Number, second: &Number) -> Result<Number, String> {
    let too_large = || format!("{first} + {second} is too large");
    if let (Some(first), Some(second)) = (integer(first), integer(second)) {
        let sum = first + second;
        return i64::try_from(sum)
            .map(Number::from)
            .or_else(|_| u64::try_from(sum).map(Number::from))
            .map_err(|_| too_large());
    }
    let sum = first.as_f64().unwrap_or(f64::NAN) + second.as_f64().unwrap_or(f64::NAN);
    Number::from_f64(sum).ok_or_else(too_large)
}

fn integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

/// The values of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct State {
    values: Map<String, Value>,
}

impl State {
    /// Creates a state with these values.
    pub const fn new(values: Map<String, Value>) -> Self {
        Self { values }
    }

    /// All keys and their values.
    pub const fn values(&self) -> &Map<String, Value> {
        &self.values
    }

    /// Returns the values.
    pub fn into_values(self) -> Map<String, Value> {
        self.values
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Checks whether a run of this actor can start with these values. Without this check, a value of the wrong type
    /// would fail the run only at the first update of its key.
    pub fn check_begin(&self, actor: &Actor) -> Result<(), String> {
        for (name, value) in &self.values {
            let neutral = match Reducer::for_key(name, &actor.graph.keys) {
                Reducer::Replace => Value::Null,
                Reducer::Append => Value::Array(Vec::new()),
                Reducer::Merge => Value::Object(Map::new()),
                Reducer::Sum => Value::from(0),
            };
            self.check_key(name, &neutral, &actor.graph.keys)
                .map_err(|why| format!("{why} (the value is {})", kind_of(value)))?;
        }
        Ok(())
    }

    /// Sets a key, ignoring its reducer.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.values.insert(key.to_owned(), value);
    }

    /// Sets missing keys to their initial values.
    pub(crate) fn begin(&mut self, keys: &BTreeMap<String, Key>) {
        for (name, key) in keys {
            if let Some(initial) = &key.initial
                && !self.values.contains_key(name)
            {
                self.values.insert(name.clone(), initial.clone());
            }
        }
    }

    /// Checks whether [`join`](Self::join) would succeed.
    pub(crate) fn check(
        &self,
        update: &Map<String, Value>,
        keys: &BTreeMap<String, Key>,
    ) -> Result<(), Mismatch> {
        for (key, value) in update {
            self.check_key(key, value, keys)?;
        }
        Ok(())
    }

    fn check_key(
        &self,
        key: &str,
        update: &Value,
        keys: &BTreeMap<String, Key>,
    ) -> Result<(), Mismatch> {
        if key == key::CONTEXT {
            return Err(Mismatch {
                key: key.to_owned(),
                why: "the context is read-only".to_owned(),
            });
        }
        Reducer::for_key(key, keys)
            .check(self.values.get(key), update)
            .map_err(|why| Mismatch {
                key: key.to_owned(),
                why,
            })
    }

    /// Merges an update, key by key. Stops with an error at the first key that cannot be merged; its value stays
    /// unchanged.
    pub(crate) fn join(
        &mut self,
        update: Map<String, Value>,
        keys: &BTreeMap<String, Key>,
    ) -> Result<(), Mismatch> {
        for (key, value) in update {
            self.check_key(&key, &value, keys)?;
            let reducer = Reducer::for_key(&key, keys);
            match self.values.get_mut(&key) {
                Some(slot) => reducer.join(slot, value),
                None => {
                    self.values.insert(key, reducer.first(value));
                }
            }
        }
        Ok(())
    }
}

impl NameValues for State {
    fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }
}
