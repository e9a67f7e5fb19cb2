//! How large an expression or a template may be.
//!
//! The engine reads, compiles and drops them by recursion, so something that stands very deep inside
//! itself would end the program. How deep that can be is bounded by the number of words and signs.

/// The most words and signs of one expression. Texts in quotes count as one word.
const MOST_WORDS: usize = 500;

/// The most statements, such as `{% if … %}`, of a template.
const MOST_STATEMENTS: usize = 200;

/// The longest expression or template, in bytes.
const LONGEST: usize = 1 << 20;

/// Refuses an expression that is too large.
pub(super) fn check_expression(text: &str) -> Result<(), String> {
    check_length(text)?;
    count(text, None).map(|_| ())
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    Ok(())
}

/// Refuses a template that is too large, or in which an expression is. It finds the ends of places and
/// statements as the engine does.
pub(super) fn check_template(text: &str) -> Result<(), String> {
    check_length(text)?;
    let mut statements = 0;
    let mut rest = text;
    while let Some(begin) = rest.find('{') {
        let inside = rest.get(begin + 2..).unwrap_or_default();
        rest = match rest.as_bytes().get(begin + 1) {
            Some(b'#') => inside.find("#}").map_or("", |end| &inside[end + 2..]),
            Some(b'{') => &inside[count(inside, Some("}}"))?..],
            Some(b'%') => {
                statements += 1;
                if statements > MOST_STATEMENTS {
                    return Err(format!(
                        "it has more than {MOST_STATEMENTS} statements in `{{% … %}}`"
                    ));
                }
                if inside
                    .trim_start_matches(['-', '+'])
                    .trim_start()
                    .starts_with("raw")
                {
                    return Err("`{% raw %}` is not understood: write `{{ '{{' }}`".to_owned());
                }
                &inside[count(inside, Some("%}"))?..]
            }
            _ => &rest[begin + 1..],
        };
    }
    Ok(())
}

/// Counts words and signs up to an end outside of quotes and brackets, and gives where that is.
fn count(text: &str, end: Option<&str>) -> Result<usize, String> {
    let mut words = 0;
    let mut is_word = false;
    let mut balance = 0_i64;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if balance == 0
            && let Some(end) = end
            && text[at..].starts_with(end)
        {
            return Ok(at + end.len());
        }
        let continues = letter.is_alphanumeric() || letter == '_';
        if !(letter.is_whitespace() || continues && is_word) {
            words += 1;
        }
        if words > MOST_WORDS {
            return Err(format!(
                "it has an expression of more than {MOST_WORDS} words and signs"
            ));
        }
        is_word = continues;
        match letter {
            '(' | '[' | '{' => balance += 1,
            ')' | ']' | '}' => balance -= 1,
            '"' | '\'' => {
                while let Some((_, quoted)) = letters.next().filter(|(_, quoted)| *quoted != letter)
                {
                    if quoted == '\\' {
                        letters.next();
                    }
                }
            }
            _ => {}
        }
    }
    Ok(text.len())
}
