//! Detects secret values, and lists the spellings in which they may occur.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD, URL_SAFE};
use regex::Regex;
use serde_json::Value;

use super::{KEY_FORMS, MASK, pattern};
use crate::secret::Secret;

/// Minimum length of a secret; shorter values (`none`, `ollama`) are not replaced.
const MIN_SECRET_LENGTH: usize = 8;

/// Minimum length of a secret that is a plain word, so that `changeme`, `password1` and `not-needed` are not replaced.
const MIN_WORD_LENGTH: usize = 12;

/// Minimum length from which a line of a multi-line secret counts as a secret by itself.
const MIN_LINE_LENGTH: usize = 20;

/// Words, optionally followed by a number.
static PLAIN_WORD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:[A-Za-z]?[a-z._-]*|[A-Z._-]*)[0-9]{0,4}$|^[0-9]*$"));

/// Names of variables that hold secrets.
static SECRET_VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi)
        password | passwd | passphrase | secret | token | api_?key | credential
        | (?:^|_)(?:key|pass|pat|psk)$ | (?:access|private|signing|encryption|auth)_?key
        ",
    )
});

/// The password of a URL.
static ADDRESS_PASSWORD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:(?<password>[^\s/]+)@"));

/// Returns the secrets of an environment: values of variables with a name such as `DB_PASSWORD`, values in a
/// known key format under any name, and passwords of URLs. Paths are not secrets (`TOKEN_FILE=/run/token`).
pub fn environment_secrets(variables: impl IntoIterator<Item = (String, String)>) -> Vec<Secret> {
    let mut found = Vec::new();
    for (name, value) in variables {
        if let Some(captures) = ADDRESS_PASSWORD.captures(&value) {
            found.push(Secret::new(&captures["password"]));
        } else if KEY_FORMS.is_match(&value)
            || (SECRET_VARIABLE.is_match(&name) && !is_path_or_address(&value))
        {
            found.push(Secret::new(value));
        }
    }
    found
}

fn is_path_or_address(value: &str) -> bool {
    let names_file = ["/", "~/", "./"]
        .iter()
        .any(|start| value.starts_with(start))
        && std::path::Path::new(value).file_name().is_some()
        && !value.contains(['+', '=']);
    names_file || value.contains("://")
}

/// The spellings of a secret to search for; none when the value is too common to be replaced.
pub(super) fn variants(value: &str) -> Vec<String> {
    let value = value.trim();
    let is_word = value.len() < MIN_WORD_LENGTH && PLAIN_WORD.is_match(value);
    if value.len() < MIN_SECRET_LENGTH || is_word || MASK.contains(value) {
        return Vec::new();
    }
    // A secret may also occur in a URL, in a form, inside a JSON string, in Base64 or in hexadecimal digits.
    let quoted = Value::from(value).to_string();
    let escaped = quoted[1..quoted.len() - 1].to_owned();
    let percent = percent_encoded(value);
    let mut variants = vec![
        value.to_owned(),
        lower_case_codes(&percent),
        percent.replace("%20", "+"),
        percent,
        escaped.replace('/', "\\/"),
        ascii_escaped(&escaped),
        escaped,
    ];
    variants.extend([hex::encode(value), hex::encode_upper(value)]);
    for alphabet in [STANDARD, URL_SAFE] {
        variants.extend(base64_pieces(value, &alphabet));
    }
    variants.sort_unstable();
    variants.dedup();
    // Tools print files line by line, with numbers between the lines.
    if value.contains('\n') {
        let lines = value.lines().map(str::trim);
        let lines =
            lines.filter(|line| line.len() >= MIN_LINE_LENGTH && !line.starts_with("-----"));
        variants.extend(lines.map(ToOwned::to_owned));
    }
    variants
}

/// The letters that a value has in the Base64 of any text that contains it. They depend on the position of the value in
/// its group of three bytes; letters that also depend on the surrounding text are left out.
fn base64_pieces(value: &str, alphabet: &GeneralPurpose) -> [String; 3] {
    [(0, 0), (1, 2), (2, 3)].map(|(before, start)| {
        let text = [&[0; 2][..before], value.as_bytes()].concat();
        let end = text.len() * 8 / 6;
        alphabet.encode(&text)[start..end].to_owned()
    })
}

/// Percent-encoded text with lowercase hexadecimal digits.
fn lower_case_codes(encoded: &str) -> String {
    let mut codes = 0;
    encoded
        .chars()
        .map(|letter| {
            codes = if letter == '%' { 2 } else { codes };
            let is_digit = letter != '%' && codes > 0;
            codes -= usize::from(is_digit);
            if is_digit {
                letter.to_ascii_lowercase()
            } else {
                letter
            }
        })
        .collect()
}

/// The content of a JSON string with escapes in place of all characters outside ASCII.
fn ascii_escaped(content: &str) -> String {
    let mut escaped = String::with_capacity(content.len());
    for letter in content.chars() {
        if letter.is_ascii() {
            escaped.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _never_fails = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&hex::encode_upper([byte]));
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::{STANDARD, environment_secrets, variants};

    #[test]
    fn secrets_of_the_environment_are_found_by_name_by_form_and_in_addresses() {
        let ghp = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        let found = environment_secrets(
            [
                ("DB_PASSWORD", "s3cr3t-Value"),
                ("GITHUB_TOKEN", "abcdef0123456789"),
                ("PLAIN_NAME", ghp),
                ("DATABASE_URL", "postgres://me:p4ssw0rd-42@db/x"),
                ("TOKEN_FILE", "/run/secrets/token"),
                ("TOKEN_URL", "https://auth.example/token"),
                ("PWD", "/srv/project-1"),
                ("PATH", "/usr/bin:/bin"),
                ("KEYBOARD", "qwertz-2024-layout"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let found: Vec<&str> = found.iter().map(crate::Secret::expose).collect();
        assert_eq!(
            found,
            ["s3cr3t-Value", "abcdef0123456789", ghp, "p4ssw0rd-42"]
        );
    }

    #[test]
    fn common_words_are_not_secrets() {
        for word in [
            "",
            "none",
            "changeme",
            "Password1",
            "changeme123",
            "not-needed",
            "postgres",
            "PRODUCTION",
            "12345678",
            "REDACTED",
        ] {
            assert!(variants(word).is_empty(), "{word}");
        }
        for secret in [
            "hunter2x!",
            "aB3dE6gH",
            "hunter2-hunter2",
            "correct-horse-battery",
        ] {
            assert!(!variants(secret).is_empty(), "{secret}");
        }
    }

    #[test]
    fn encoded_spellings_of_a_secret_are_found() {
        let found = variants("p\u{e4}ss/w\"o d+1");
        for spelling in [
            "p\u{e4}ss/w\"o d+1",
            "p%C3%A4ss%2Fw%22o%20d%2B1",
            "p%c3%a4ss%2fw%22o%20d%2b1",
            "p%C3%A4ss%2Fw%22o+d%2B1",
            "p\u{e4}ss/w\\\"o d+1",
            "p\u{e4}ss\\/w\\\"o d+1",
            "p\\u00e4ss/w\\\"o d+1",
            "cMOkc3MvdyJvIGQrM",
            "70c3a473732f77226f20642b31",
        ] {
            assert!(
                found.iter().any(|one| one == spelling),
                "{spelling}: {found:?}"
            );
        }
        let secret = "s3cr3t-Value-9";
        let found = variants(secret);
        for before in ["", "x", "xy", "xyz"] {
            for after in ["", "\n", "xy\n"] {
                let encoded = STANDARD.encode(format!("{before}{secret}{after}"));
                assert!(found.iter().any(|one| encoded.contains(one)), "{encoded}");
            }
        }
    }

    #[test]
    fn each_long_line_of_a_secret_is_a_secret() {
        let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{line}\nab==\n-----END PRIVATE KEY-----\n");
        let found = variants(&pem);
        assert!(found.iter().any(|variant| variant == line), "{found:?}");
        assert!(!found.iter().any(|variant| variant == "ab=="), "{found:?}");
    }
}
