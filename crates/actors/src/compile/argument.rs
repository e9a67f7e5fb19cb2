//! Parses expressions, templates and [`Argument`]s of files.

use crate::expression::{Expression, Template};
use crate::file::{Fields, Tree, WithPosition, broken_rule, map, text};
use crate::graph::Argument;
use cleveragents_domain::DefinitionFault;

/// Parses an expression.
pub(super) fn expression(written: &WithPosition<String>) -> Result<Expression, DefinitionFault> {
    // Users write `{{ score > 3 }}` for `score > 3`.
    let inner = whole_placeholder(&written.value).unwrap_or(&written.value);
    Expression::parse(inner.trim()).map_err(|error| {
        let message = format!("this is not a valid expression: {error}");
        let fix = "write it like `score > 3 and 'done' in tags` (docs/reference/actors.md)";
        broken_rule(written.place, message, fix)
    })
}

/// Parses a template.
pub(super) fn template(written: &WithPosition<String>) -> Result<Template, DefinitionFault> {
    Template::parse(&written.value).map_err(|error| {
        let message = format!("this is not a valid template: {error}");
        let fix = "write placeholders like `{{ input }}` (docs/reference/actors.md)";
        broken_rule(written.place, message, fix)
    })
}

/// Returns the expression inside a text that is a single `{{ … }}` placeholder.
pub(super) fn whole_placeholder(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let is_single = !inner.contains("{{") && !inner.contains("}}");
    // `{{-` controls the surrounding whitespace.
    (is_single && !inner.starts_with('-') && !inner.ends_with('-')).then_some(inner)
}

/// Parses a value whose texts may be templates.
pub(super) fn argument(tree: &WithPosition<Tree>) -> Result<Argument, DefinitionFault> {
    Ok(match &tree.value {
        Tree::Text(written) => {
            if !["{{", "{%", "{#"].iter().any(|sign| written.contains(sign)) {
                return Ok(Argument::Plain(tree.value.json()));
            }
            let written = WithPosition::new(written.clone(), tree.place);
            if whole_placeholder(&written.value).is_some() {
                Argument::Value(expression(&written)?)
            } else {
                Argument::Text(template(&written)?)
            }
        }
        Tree::List(items) => {
            let items = items.iter().map(argument).collect::<Result<Vec<_>, _>>()?;
            if items.iter().all(is_plain) {
                Argument::Plain(tree.value.json())
            } else {
                Argument::List(items)
            }
        }
        Tree::Map(_) => {
            let fields = arguments(tree)?;
            if fields.iter().all(|(_, field)| is_plain(field)) {
                Argument::Plain(tree.value.json())
            } else {
                Argument::Map(fields)
            }
        }
        _ => Argument::Plain(tree.value.json()),
    })
}

/// Parses the fields of a map; the texts in their values may be templates.
pub(super) fn arguments(
    tree: &WithPosition<Tree>,
) -> Result<Vec<(String, Argument)>, DefinitionFault> {
    map(tree)?
        .iter()
        .map(|(name, value)| Ok((name.value.clone(), argument(value)?)))
        .collect()
}

const fn is_plain(argument: &Argument) -> bool {
    matches!(argument, Argument::Plain(_))
}

/// Whether a name is a valid identifier in expressions.
pub(super) fn is_key(name: &str) -> bool {
    let mut letters = name.bytes();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// Validates a key of the state that a node may write.
pub(super) fn key(written: WithPosition<String>) -> Result<String, DefinitionFault> {
    let fix = "write letters, digits and `_`, starting with a letter";
    if !is_key(&written.value) {
        let message = format!("`{}` cannot be a key of the state", written.value);
        return Err(broken_rule(written.place, message, fix));
    }
    if written.value == "context" {
        let message = "`context` contains the values of the file and cannot be changed";
        return Err(broken_rule(written.place, message, "choose another key"));
    }
    Ok(written.value)
}

/// Parses the template in an optional field.
pub(super) fn template_in(
    fields: &Fields<'_>,
    name: &str,
) -> Result<Option<Template>, DefinitionFault> {
    fields
        .get(name)
        .map(|tree| template(&text(tree)?))
        .transpose()
}

/// Parses updates of the state: a map of keys to values.
pub(super) fn updates(
    tree: &WithPosition<Tree>,
) -> Result<Vec<(String, Argument)>, DefinitionFault> {
    map(tree)?
        .iter()
        .map(|(name, value)| Ok((key(name.clone())?, argument(value)?)))
        .collect()
}
