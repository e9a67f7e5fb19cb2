//! [`State`]: what a run knows, key by key, and [`Reducer`]: how an update joins what is there.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::expression::Names;

/// How an update of a key joins the value that is there.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reducer {
    /// The update takes the place of the value.
    #[default]
    Replace,
    /// The update, or each item of it when it is a list, goes to the end of the list.
    Append,
    /// The fields of the update join those of the map, field by field, maps inside included.
    Merge,
    /// The number is added.
    Sum,
}

/// What a run knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct State {
    values: Map<String, Value>,
}

impl State {
    /// A state with these values.
    pub const fn new(values: Map<String, Value>) -> Self {
        Self { values }
    }

    /// Every key and its value.
    pub const fn values(&self) -> &Map<String, Value> {
        &self.values
    }
}

impl Names for State {
    fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }
}
