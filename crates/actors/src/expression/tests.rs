//! Tests of the semantics of expressions and templates, and of their termination.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Expression, ExpressionError, Template};
use crate::state::State;

fn state() -> State {
    let values = json!({
        "n": 4, "price": 2.5, "name": "Ada", "nothing": null, "yes": true,
        "tags": ["a", "b"], "user": {"age": 36, "tags": {"x": [1, 2]}}, "big": u64::MAX,
    });
    match values {
        Value::Object(values) => State::new(values),
        _ => State::default(),
    }
}

fn value(text: &str) -> Result<Value, ExpressionError> {
    Expression::parse(text)?.value(&state())
}

fn render(text: &str) -> Result<String, ExpressionError> {
    Template::parse(text)?.render(&state())
}

#[test]
fn python_spellings_are_accepted() {
    for (text, expected) in [
        ("n > 3 and 'a' in tags", json!(true)),
        ("not (n > 3) or name == 'Ada'", json!(true)),
        ("'z' not in tags", json!(true)),
        ("yes == True and yes is True", json!(true)),
        ("nothing == None and nothing is None", json!(true)),
        ("nothing is none and n is not None", json!(true)),
        ("[True, False, None]", json!([true, false, null])),
        ("len(tags) + len(name)", json!(5)),
        ("tags | length", json!(2)),
        ("user['age'] + user.age", json!(72)),
        ("tags[-1]", json!("b")),
        ("'big' if n >= 4 else 'small'", json!("big")),
        ("7 // 2", json!(3)),
        ("n / 8", json!(0.5)),
        ("2 ** 10", json!(1024)),
        ("name ~ '!' ~ n", json!("Ada!4")),
        ("{'a': n, 'b': [price]}", json!({"a": 4, "b": [2.5]})),
        ("tags | map('upper') | list", json!(["A", "B"])),
        ("big", json!(u64::MAX)),
        ("user", json!({"age": 36, "tags": {"x": [1, 2]}})),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_missing_key_is_an_error_that_names_it() {
    for text in [
        "missing",
        "missing > 3",
        "missing + 1",
        "not missing",
        "[missing]",
        "user.missing",
        "missing.deeper",
        "missing | upper",
        "'a' in missing",
    ] {
        let parsed = Expression::parse(text).expect("an expression");
        let value = parsed.value(&state()).expect_err("no value").to_string();
        assert!(value.contains("missing"), "{text}: {value}");
    }
    for text in [
        "{{ missing }}",
        "{% if missing %}a{% endif %}",
        "{{ missing.deep }}",
    ] {
        let error = render(text).expect_err("no text").to_string();
        assert!(error.contains("missing"), "{text}: {error}");
    }
}

#[test]
fn missing_keys_can_be_tested_for() {
    for (text, expected) in [
        ("missing is defined", json!(false)),
        ("missing is not defined and n is defined", json!(true)),
        ("missing | default('x')", json!("x")),
        ("missing is defined and missing > 3", json!(false)),
        ("user.missing is defined", json!(false)),
        ("user.missing | default(1)", json!(1)),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
    assert_eq!(render("{{ missing | default('-') }}"), Ok("-".to_owned()));
}

#[test]
fn templates_replace_their_placeholders() {
    for (text, expected) in [
        ("plain { } text", "plain { } text"),
        ("{{ name }} is {{ user.age }}", "Ada is 36"),
        ("{% for tag in tags %}<{{ tag }}>{% endfor %}", "<a><b>"),
        ("{% if n > 3 %}much{% else %}little{% endif %}", "much"),
        ("{# not shown #}x", "x"),
        ("{{ user | tojson }}", r#"{"age":36,"tags":{"x":[1,2]}}"#),
        ("{{ tags | join(', ') }}", "a, b"),
        ("{{ [1, tags] | join('/') }}", "1/['a', 'b']"),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{{ '<b>' }}", "<b>"),
        ("{{ name | replace('d', '__') }}", "A__a"),
    ] {
        assert_eq!(render(text), Ok(expected.to_owned()), "{text}");
    }
}

#[test]
fn engine_internals_are_not_exposed() {
    for text in [
        "debug()",
        "namespace()",
        "lipsum()",
        "now()",
        "env('HOME')",
        "'%s' | format(1)",
        "tags | pprint",
    ] {
        assert!(value(text).is_err(), "{text}");
    }
    for text in [
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
    ] {
        assert!(render(text).is_err(), "{text}");
    }
}

#[test]
fn expensive_expressions_are_refused() {
    for text in [
        "range(100000000) | list",
        "[[0] * 10000000] | tojson",
        "[0] * 100000000",
        "('x' * 1000000) | replace('x', 'y' * 1000000)",
        "range(100000) | join('x' * 100000)",
        "'a\nb' | indent(100000000)",
        "2 ** 10000",
        "1e308 * 10",
        "'x' * 10000000000",
    ] {
        assert!(value(text).is_err(), "{text}");
    }
    for text in [
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% for a in range(5000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ 'x' * 2000000 }}",
    ] {
        assert!(render(text).is_err(), "{text}");
    }
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for (begin, middle, end) in [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("not ", "1", ""),
        ("-", "1", ""),
        ("", "1", " + 1"),
        ("", "tags", "[0]"),
        ("", "user", ".x"),
        ("", "n", "|abs"),
        ("n if n else ", "1", ""),
        ("", "1", " and 1"),
        ("{'a': ", "1", "}"),
    ] {
        for depth in [10, 100, 160, 240, 480, 100_000] {
            let text = [&begin.repeat(depth), middle, &end.repeat(depth)].concat();
            if let Ok(expression) = Expression::parse(&text) {
                let _either = expression.value(&state());
            }
            if let Ok(template) = Template::parse(&format!("{{{{ {text} }}}}")) {
                let _either = template.render(&state());
            }
        }
    }
    for (begin, end) in [
        ("{% if 1 %}", "{% endif %}"),
        ("{% for x in [1] %}", "{% endfor %}"),
        ("{% if 1 %}{% elif 2 %}", "{% endif %}"),
        ("{{ '}}' ~ ", ""),
    ] {
        for depth in [10, 66, 100, 200, 100_000] {
            let text = [begin.repeat(depth), end.repeat(depth)].concat();
            if let Ok(template) = Template::parse(&text) {
                let _either = template.render(&state());
            }
        }
    }
    assert!(Expression::parse(&"(".repeat(100_000)).is_err());
    assert!(Expression::parse(&"not ".repeat(60_000)).is_err());
    assert!(Template::parse(&"{% if 1 %}".repeat(20_000)).is_err());
    let long = format!("'{}' in name", "x y ".repeat(1_000));
    assert_eq!(value(&long), Ok(json!(false)), "quoted text is one word");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,80}") {
        if let Ok(expression) = Expression::parse(&text) {
            let _either = expression.value(&state());
            let _either = expression.holds(&state());
        }
        if let Ok(template) = Template::parse(&text) {
            let _either = template.render(&state());
        }
    }

    #[test]
    fn any_sequence_of_tokens_is_parsed_or_refused(words in prop::collection::vec(
        prop::sample::select(vec![
            "n", "tags", "user", "missing", "and", "or", "not", "in", "is", "(", ")", "[", "]", "{", "}", ",",
            ".", ":", "|", "~", "+", "-", "*", "**", "//", "%", "==", "<", "'x'", "3", "1.5", "upper", "join",
            "replace", "default", "range(9)", "if", "else", "{{", "}}", "{%", "%}", "for x in tags", "endfor",
        ]), 0..12)) {
        let text = words.join(" ");
        if let Ok(expression) = Expression::parse(&text) {
            let _either = expression.value(&state());
        }
        if let Ok(template) = Template::parse(&text) {
            let _either = template.render(&state());
        }
    }
}
