//! Reads the short text files that users name: definitions, profiles, strategies.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cleveragents_domain::Code;
use serde_json::json;

use crate::operation::OperationError;

/// Maximum size of a text file that a user names, in bytes.
pub const MAX_TEXT_FILE_BYTES: u64 = 1 << 20;

/// Reads a file. `noun` names its kind for the hint; `too_long` is the code of the error for a file over
/// [`MAX_TEXT_FILE_BYTES`].
pub fn read_text_file(path: &Path, noun: &str, too_long: Code) -> Result<String, OperationError> {
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    read_text(file, path, noun, too_long)
}

/// Reads a text from an open file or from standard input; `path` names it in messages.
pub fn read_text(
    file: impl Read,
    path: &Path,
    noun: &str,
    too_long: Code,
) -> Result<String, OperationError> {
    let mut bytes = Vec::new();
    file.take(MAX_TEXT_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_TEXT_FILE_BYTES {
        let message = format!(
            "`{}` has more than {MAX_TEXT_FILE_BYTES} bytes",
            path.display()
        );
        return Err(
            OperationError::new(too_long, message).with_hint(format!("{noun} is a short file"))
        );
    }
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        OperationError::new(
            Code::InvalidUtf8,
            format!(
                "`{}` is not valid UTF-8 from byte {byte} on",
                path.display()
            ),
        )
        .with_details(json!({"byte": byte}))
        .with_hint("save the file as UTF-8")
    })
}

fn unreadable(path: &Path, error: std::io::Error) -> OperationError {
    OperationError::new(
        Code::FileAccess,
        format!("`{}` cannot be read", path.display()),
    )
    .caused_by(error)
    .with_hint("check the path, and that you may read it")
}
