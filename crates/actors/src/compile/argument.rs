//! Expressions, templates and [`Argument`]s as files write them.

use crate::expression::{Expression, Template};
use crate::file::{At, Complaint, Fields, Tree, map, text};
use crate::graph::Argument;

/// An expression.
pub(super) fn expression(written: &At<String>) -> Result<Expression, Complaint> {
    // `{{ score > 3 }}` is how people write what is `score > 3` here.
    let inner = whole_place(&written.value).unwrap_or(&written.value);
    Expression::parse(inner.trim()).map_err(|error| {
        let message = format!("this is not an expression: {error}");
        let fix = "write it like `score > 3 and 'done' in tags` (docs/actors.md)";
        Complaint::rule(written.place, message, fix)
    })
}

/// A template.
pub(super) fn template(written: &At<String>) -> Result<Template, Complaint> {
    Template::parse(&written.value).map_err(|error| {
        let message = format!("this is not a template: {error}");
        let fix = "write places to fill like `{{ input }}` (docs/actors.md)";
        Complaint::rule(written.place, message, fix)
    })
}

/// What stands in a text that is nothing but one `{{ … }}`.
pub(super) fn whole_place(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    let is_one = !inner.contains("{{") && !inner.contains("}}");
    // `{{-` is about the space around it.
    (is_one && !inner.starts_with('-') && !inner.ends_with('-')).then_some(inner)
}

/// A value in which texts may be templates.
pub(super) fn argument(tree: &At<Tree>) -> Result<Argument, Complaint> {
    Ok(match &tree.value {
        Tree::Text(written) => {
            if !["{{", "{%", "{#"].iter().any(|sign| written.contains(sign)) {
                return Ok(Argument::Plain(tree.value.json()));
            }
            let written = At::new(written.clone(), tree.place);
            if whole_place(&written.value).is_some() {
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

/// The fields of a map, each a value in which texts may be templates.
pub(super) fn arguments(tree: &At<Tree>) -> Result<Vec<(String, Argument)>, Complaint> {
    map(tree)?
        .iter()
        .map(|(name, value)| Ok((name.value.clone(), argument(value)?)))
        .collect()
}

const fn is_plain(argument: &Argument) -> bool {
    matches!(argument, Argument::Plain(_))
}

/// A name that expressions can look up.
pub(super) fn is_key(name: &str) -> bool {
    let mut letters = name.bytes();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

/// A key of the state that a node may write.
pub(super) fn key(written: At<String>) -> Result<String, Complaint> {
    let fix = "write letters, digits and `_`, a letter first";
    if !is_key(&written.value) {
        let message = format!("`{}` cannot be a key of the state", written.value);
        return Err(Complaint::rule(written.place, message, fix));
    }
    if written.value == "context" {
        let message = "`context` holds the values of the file and cannot be changed";
        return Err(Complaint::rule(
            written.place,
            message,
            "choose another key",
        ));
    }
    Ok(written.value)
}

/// A template in a field.
pub(super) fn template_in(fields: &Fields<'_>, name: &str) -> Result<Option<Template>, Complaint> {
    fields
        .get(name)
        .map(|tree| template(&text(tree)?))
        .transpose()
}

/// The keys and values of a map, where each key is one of the state.
pub(super) fn updates(tree: &At<Tree>) -> Result<Vec<(String, Argument)>, Complaint> {
    map(tree)?
        .iter()
        .map(|(name, value)| Ok((key(name.clone())?, argument(value)?)))
        .collect()
}
