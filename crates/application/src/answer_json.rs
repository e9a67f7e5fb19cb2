//! JSON in the answers of models: the whole text, a fenced block, or a value within prose.

use serde_json::Value;

/// Maximum number of positions at which parsing is tried. Bounds the work for texts with many braces.
const MAX_ATTEMPTS: usize = 2_000;

/// All JSON values of an answer, the likeliest first: the whole text, the content of fenced blocks, then objects and
/// lists within prose.
pub(crate) fn json_values(text: &str) -> Vec<Value> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return vec![value];
    }
    let mut values: Vec<Value> = fenced_blocks(text)
        .filter_map(|inside| serde_json::from_str(inside).ok())
        .collect();
    let mut at = 0;
    for _ in 0..MAX_ATTEMPTS {
        let Some(next) = text[at..].find(['{', '[']) else {
            break;
        };
        at += next;
        let mut read = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        if let Some(Ok(value)) = read.next() {
            at += read.byte_offset();
            if !values.contains(&value) {
                values.push(value);
            }
        } else {
            at += 1;
        }
    }
    values
}

/// The first object in an answer that has a field of this name.
pub(crate) fn object_with(answer: &Value, field: &str) -> Option<Value> {
    let has = |value: &Value| value.get(field).is_some();
    match answer {
        Value::String(text) => json_values(text).into_iter().find(has),
        other => has(other).then(|| other.clone()),
    }
}

/// The content of the blocks between lines of three backticks.
fn fenced_blocks(text: &str) -> impl Iterator<Item = &str> {
    text.split("```")
        .skip(1)
        .step_by(2)
        .map(|block| match block.split_once('\n') {
            // The rest of the opening line names the language of the block, so it is dropped.
            Some((first, body)) if !first.trim_start().starts_with(['{', '[']) => body.trim(),
            _ => block.trim(),
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{json_values, object_with};

    #[test]
    fn json_is_found_at_any_position_of_an_answer() {
        let expected = json!({"steps": [{"title": "a } b"}]});
        for text in [
            r#"{"steps": [{"title": "a } b"}]}"#,
            "```json\n{\"steps\": [{\"title\": \"a } b\"}]}\n```",
            "Here it is [as asked]:\n```\n{\"steps\": [{\"title\": \"a } b\"}]}\n```\nGood luck {you}!",
            r#"I looked at {braces}. {"steps": [{"title": "a } b"}]} That is all."#,
        ] {
            assert!(json_values(text).contains(&expected), "{text}");
            let found = object_with(&Value::String(text.to_owned()), "steps");
            assert_eq!(found.as_ref(), Some(&expected), "{text}");
        }
        assert_eq!(json_values("no braces"), Vec::<Value>::new());
        assert_eq!(json_values(r#"{"steps": [{"#), Vec::<Value>::new());
        assert_eq!(json_values(&"{".repeat(100_000)), Vec::<Value>::new());
    }
}
