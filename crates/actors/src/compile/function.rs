//! Functions by name: each is an expression with a place for its input.

use super::argument::{expression, is_key, whole_place};
use crate::expression::Expression;
use crate::file::{At, Complaint, meant};

/// The functions, with what each does to `$`.
pub(crate) const FUNCTIONS: &[(&str, &str)] = &[
    ("identity", "$"),
    ("uppercase", "$|upper"),
    ("lowercase", "$|lower"),
    ("title", "$|title"),
    ("trim", "$|trim"),
    ("length", "$|length"),
    ("first", "$|first"),
    ("last", "$|last"),
    ("reverse", "$|reverse"),
    ("sort", "$|sort"),
    ("unique", "$|unique|list"),
    ("sum", "$|sum"),
    ("min", "$|min"),
    ("max", "$|max"),
    ("lines", "$|lines"),
    ("join", "$|join('\n')"),
    ("json", "$|tojson"),
    ("not", "not $"),
];

/// The expression of a function over its input, itself an expression; `input` when not given.
pub(super) fn function(
    name: &At<String>,
    input: Option<&At<String>>,
) -> Result<Expression, Complaint> {
    let found = FUNCTIONS.iter().find(|(known, _)| *known == name.value);
    let Some((_, pattern)) = found else {
        let message = format!("there is no function `{}`", name.value);
        let fix = meant(
            &name.value,
            FUNCTIONS.iter().map(|(known, _)| *known),
            || {
                let all: Vec<&str> = FUNCTIONS.iter().map(|(known, _)| *known).collect();
                format!("it can be: {}; or use `set`", all.join(", "))
            },
        );
        return Err(Complaint::rule(name.place, message, fix));
    };
    let default = At::new("input".to_owned(), name.place);
    let input = input.unwrap_or(&default);
    let inner = whole_place(&input.value).unwrap_or(&input.value).trim();
    // What goes in is checked by itself, so that a complaint points there.
    expression(input)?;
    let operand = if is_key(inner) {
        inner.to_owned()
    } else {
        format!("({inner})")
    };
    let whole = pattern.replace('$', &operand);
    expression(&At::new(whole, input.place))
}
