//! Size limits of expressions and templates.
//!
//! The Jinja engine parses, compiles and drops them recursively, so very deep nesting would overflow the stack and
//! crash the process. Limiting the number of tokens limits the depth.

/// Maximum number of tokens of one expression. Quoted texts count as one token.
const MAX_TOKENS: usize = 500;

/// Maximum number of statements, such as `{% if … %}`, of a template.
const MAX_STATEMENTS: usize = 200;

/// Maximum length of an expression or template, in bytes.
const MAX_LENGTH: usize = 1 << 20;

/// Refuses an expression that is too large.
pub(super) fn check_expression(text: &str) -> Result<(), String> {
    check_length(text)?;
    count(text, None).map(|_| ())
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > MAX_LENGTH {
        return Err(format!("it is longer than {MAX_LENGTH} bytes"));
    }
    Ok(())
}

/// Refuses a template that is too large or contains an expression that is too large. Finds the ends of placeholders and
/// statements in the same way as the engine.
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
                if statements > MAX_STATEMENTS {
                    return Err(format!(
                        "it has more than {MAX_STATEMENTS} statements in `{{% … %}}`"
                    ));
                }
                if inside
                    .trim_start_matches(['-', '+'])
                    .trim_start()
                    .starts_with("raw")
                {
                    return Err("`{% raw %}` is not supported: write `{{ '{{' }}`".to_owned());
                }
                &inside[count(inside, Some("%}"))?..]
            }
            _ => &rest[begin + 1..],
        };
    }
    Ok(())
}

/// Counts tokens up to an end marker outside of quotes and brackets, and returns its position.
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
        if words > MAX_TOKENS {
            return Err(format!(
                "it has an expression of more than {MAX_TOKENS} tokens"
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
