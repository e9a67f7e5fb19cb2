//! Named functions: each is an expression with a placeholder for its input.

use super::argument::{expression, is_key, whole_placeholder};
use crate::expression::Expression;
use crate::file::{WithPosition, broken_rule, did_you_mean};
use cleveragents_domain::DefinitionFault;

/// Names of functions with their expressions, in which `$` stands for the input.
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

/// Returns the expression that applies a function to its input. The input is an expression too; its default is `input`.
pub(super) fn function(
    name: &WithPosition<String>,
    input: Option<&WithPosition<String>>,
) -> Result<Expression, DefinitionFault> {
    let entry = FUNCTIONS.iter().find(|(known, _)| *known == name.value);
    let Some((_, pattern)) = entry else {
        let message = format!("function `{}` does not exist", name.value);
        let fix = did_you_mean(
            &name.value,
            FUNCTIONS.iter().map(|(known, _)| *known),
            || {
                let all: Vec<&str> = FUNCTIONS.iter().map(|(known, _)| *known).collect();
                format!("use one of {}, or use `set`", all.join(", "))
            },
        );
        return Err(broken_rule(name.place, message, fix));
    };
    let default = WithPosition::new("input".to_owned(), name.place);
    let input = input.unwrap_or(&default);
    let inner = whole_placeholder(&input.value)
        .unwrap_or(&input.value)
        .trim();
    // The input is checked separately, so that an error points to it.
    expression(input)?;
    let operand = if is_key(inner) {
        inner.to_owned()
    } else {
        format!("({inner})")
    };
    let applied = pattern.replace('$', &operand);
    expression(&WithPosition::new(applied, input.place))
}
