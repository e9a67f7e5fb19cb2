//! [`Expression`] and [`Template`]: a small language over the state that always terminates.
//!
//! Both use Jinja syntax. They see only the keys of the state and `context`: no internals of the program, no files, no
//! clock. The number of evaluation steps is limited (`fuel`), so every evaluation ends quickly.

mod language;
mod size;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock, OnceLock};

use minijinja::value::{Enumerator, Object};
use minijinja::{Environment, ErrorKind, Value as Jinja};
use serde_json::Value;

use self::language::{MAX_TEXT_SIZE, environment, from_json, to_json};
use self::size::{check_expression, check_template};

/// An expression or a template is invalid, or cannot be evaluated.
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

/// Source of the values of names.
pub trait NameValues {
    /// Returns the value of a name, if it has one.
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
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        check_expression(text).map_err(ExpressionError)?;
        let compiled = ENVIRONMENT.compile_expression_owned(text.to_owned())?;
        let mut names: Vec<String> = compiled.undeclared_variables(false).into_iter().collect();
        names.sort();
        Ok(Self {
            text: text.into(),
            compiled: Arc::new(compiled),
            names: names.into(),
        })
    }

    /// The source text of the expression.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names that the source text references.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Evaluates the expression.
    pub fn value(&self, names: &dyn NameValues) -> Result<Value, ExpressionError> {
        to_json(&self.evaluate(names)?)
            .map_err(|why| ExpressionError(format!("`{}`: {why}", self.text)))
    }

    /// Evaluates the expression to a truth value.
    pub fn holds(&self, names: &dyn NameValues) -> Result<bool, ExpressionError> {
        Ok(self.evaluate(names)?.is_true())
    }

    fn evaluate(&self, names: &dyn NameValues) -> Result<Jinja, ExpressionError> {
        let value = self.compiled.eval(scope(&self.names, names))?;
        if value.is_undefined() {
            return Err(ExpressionError(format!("`{}` is undefined", self.text)));
        }
        Ok(value)
    }
}

/// The values of the referenced names. The other values are left out, because the state may be large.
#[derive(Debug)]
struct Scope {
    /// Names in the order of the values.
    names: Arc<[String]>,
    values: Vec<Option<Jinja>>,
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Jinja> {
        let place = self.names.iter().position(|name| name == key)?;
        self.values.get(place)?.clone()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::NonEnumerable
    }
}

fn scope(referenced: &Arc<[String]>, names: &dyn NameValues) -> Jinja {
    Jinja::from_object(Scope {
        names: Arc::clone(referenced),
        values: referenced
            .iter()
            .map(|name| names.value(name).map(from_json))
            .collect(),
    })
}

/// A text that contains `{{ … }}`.
#[derive(Clone)]
pub struct Template {
    text: Arc<str>,
    /// `None` when the text has no placeholder.
    compiled: Option<CompiledTemplate>,
}

#[derive(Clone)]
struct CompiledTemplate {
    /// Created when the template is rendered for the first time: an environment costs far more than parsing a template,
    /// and most templates of a large graph are never rendered.
    environment: Arc<OnceLock<Environment<'static>>>,
    names: Arc<[String]>,
}

/// Name of the only template of an environment.
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
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        check_template(text).map_err(ExpressionError)?;
        let is_plain = !["{{", "{%", "{#"].iter().any(|sign| text.contains(sign));
        if is_plain {
            return Ok(Self {
                text: text.into(),
                compiled: None,
            });
        }
        let mut names: Vec<String> = ENVIRONMENT
            .template_from_named_str(ONLY, text)?
            .undeclared_variables(false)
            .into_iter()
            .collect();
        names.sort();
        Ok(Self {
            text: text.into(),
            compiled: Some(CompiledTemplate {
                environment: Arc::default(),
                names: names.into(),
            }),
        })
    }

    /// The source text of the template.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names that the source text references.
    pub fn names(&self) -> &[String] {
        self.compiled
            .as_ref()
            .map_or(&[], |compiled| &compiled.names)
    }

    pub fn render(&self, names: &dyn NameValues) -> Result<String, ExpressionError> {
        match &self.compiled {
            None => Ok(self.text.as_ref().to_owned()),
            Some(compiled) => {
                let environment = if let Some(environment) = compiled.environment.get() {
                    environment
                } else {
                    let mut created = environment();
                    created.add_template_owned(ONLY, self.text.as_ref().to_owned())?;
                    compiled.environment.get_or_init(|| created)
                };
                let template = environment.get_template(ONLY)?;
                let mut bounded = BoundedWriter(Vec::new());
                let rendered = template
                    .render_captured_to(scope(&compiled.names, names), &mut bounded)
                    .map(drop);
                match rendered {
                    Ok(()) => String::from_utf8(bounded.0)
                        .map_err(|error| ExpressionError(error.to_string())),
                    Err(error) if error.kind() == ErrorKind::WriteFailure => Err(ExpressionError(
                        format!("the text would exceed {MAX_TEXT_SIZE} bytes"),
                    )),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

/// A writer with a size limit.
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_TEXT_SIZE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
