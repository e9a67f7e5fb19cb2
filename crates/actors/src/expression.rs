//! [`Expression`] and [`Template`]: what files say about the state, as a small language that always
//! comes to an end.
//!
//! Both are Jinja as people know it. They see the keys of the state and `context`, and nothing else:
//! no attribute of the program's, no file, no clock. What they may take is counted (`fuel`), so no
//! expression runs for long, whatever stands in it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

/// What one evaluation may take.
const FUEL: u64 = 100_000;

/// Why an expression or a template is not one, or has no value here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ExpressionError(pub String);

impl From<minijinja::Error> for ExpressionError {
    fn from(error: minijinja::Error) -> Self {
        let kind = error.kind().to_string();
        Self(match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind,
        })
    }
}

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(environment);

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(64);
    environment
}

/// Where the values of names come from.
pub trait Names {
    /// The value of a name, when it has one.
    fn value(&self, name: &str) -> Option<&Value>;
}

/// An expression over the state, such as `score > 3 and 'approved' in tags`.
#[derive(Clone)]
pub struct Expression {
    text: Arc<str>,
    compiled: Arc<minijinja::Expression<'static, 'static>>,
    names: Arc<[String]>,
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Expression")
            .field(&self.text)
            .finish()
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Expression {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let compiled = ENVIRONMENT.compile_expression_owned(text.to_owned())?;
        let mut names: Vec<String> = compiled.undeclared_variables(false).into_iter().collect();
        names.sort();
        Ok(Self {
            text: text.into(),
            compiled: Arc::new(compiled),
            names: names.into(),
        })
    }

    /// The expression as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names it looks up.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its value.
    pub fn value(&self, names: &dyn Names) -> Result<Value, ExpressionError> {
        let value = self.compiled.eval(scope(&self.names, names))?;
        serde_json::to_value(&value).map_err(|error| ExpressionError(error.to_string()))
    }

    /// Whether it holds.
    pub fn holds(&self, names: &dyn Names) -> Result<bool, ExpressionError> {
        Ok(self.compiled.eval(scope(&self.names, names))?.is_true())
    }
}

/// Only what is looked up is handed over: the state may be large.
fn scope(wanted: &[String], names: &dyn Names) -> minijinja::Value {
    wanted
        .iter()
        .filter_map(|name| {
            let value = names.value(name)?;
            Some((name.clone(), minijinja::Value::from(Serde(value))))
        })
        .collect()
}

/// A text with `{{ … }}` in it.
#[derive(Clone)]
pub struct Template {
    text: Arc<str>,
    /// Nothing when the text has no place to fill.
    compiled: Option<Compiled>,
}

#[derive(Clone)]
struct Compiled {
    environment: Arc<Environment<'static>>,
    names: Arc<[String]>,
}

/// What the one template of an environment is called.
const ONLY: &str = "template";

impl fmt::Debug for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Template").field(&self.text).finish()
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let is_plain = !["{{", "{%", "{#"].iter().any(|sign| text.contains(sign));
        if is_plain {
            return Ok(Self {
                text: text.into(),
                compiled: None,
            });
        }
        let mut environment = environment();
        environment.add_template_owned(ONLY, text.to_owned())?;
        let mut names: Vec<String> = environment
            .get_template(ONLY)?
            .undeclared_variables(false)
            .into_iter()
            .collect();
        names.sort();
        Ok(Self {
            text: text.into(),
            compiled: Some(Compiled {
                environment: Arc::new(environment),
                names: names.into(),
            }),
        })
    }

    /// The template as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names it looks up.
    pub fn names(&self) -> &[String] {
        self.compiled
            .as_ref()
            .map_or(&[], |compiled| &compiled.names)
    }

    /// The text with every place filled.
    pub fn render(&self, names: &dyn Names) -> Result<String, ExpressionError> {
        match &self.compiled {
            None => Ok(self.text.as_ref().to_owned()),
            Some(compiled) => {
                let template = compiled.environment.get_template(ONLY)?;
                Ok(template.render(scope(&compiled.names, names))?)
            }
        }
    }
}
