//! Images of the user's files that a message names: `@PATH`, or a pasted absolute path.
//!
//! A file is an image by its content. A path that is not a file, or that is a file of another kind,
//! stays text.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cleveragents_domain::{Code, Hint};
use cleveragents_models::{MAX_IMAGE_BYTES, UserPart};
use cleveragents_tools::image_media_type;

use crate::operation::OperationError;

/// Maximum number of images in one message.
const MAX_IMAGES: usize = 20;

/// Maximum size of all images in one message, in bytes.
const MAX_TOTAL_BYTES: usize = 20_000_000;

/// Extensions that a name after `@` has only if it names an image.
const EXTENSIONS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// An image that is sent with a message.
#[derive(Clone, PartialEq, Eq)]
pub struct PromptImage {
    pub path: PathBuf,
    pub media_type: &'static str,
    /// Bytes of the file.
    pub data: Vec<u8>,
}

impl std::fmt::Debug for PromptImage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, bytes) = (self.path.display(), self.data.len());
        write!(formatter, "[{path}, {}, {bytes} bytes]", self.media_type)
    }
}

impl From<&PromptImage> for UserPart {
    fn from(image: &PromptImage) -> Self {
        Self::Image {
            media_type: image.media_type.to_owned(),
            data: image.data.clone(),
        }
    }
}

/// Reads the images that a message names. Paths are relative to `folder`; `~` is `home`.
pub fn prompt_images(
    text: &str,
    folder: &Path,
    home: Option<&Path>,
) -> Result<Vec<PromptImage>, OperationError> {
    let mut images: Vec<PromptImage> = Vec::new();
    for reference in references(text) {
        let Some(path) = reference.file(folder, home)? else {
            continue;
        };
        if images.iter().any(|image| image.path == path) {
            continue;
        }
        images.extend(read_image(path)?);
    }
    let total: usize = images.iter().map(|image| image.data.len()).sum();
    if images.len() > MAX_IMAGES || total > MAX_TOTAL_BYTES {
        let count = images.len();
        let message = format!("the message names {count} images of {total} bytes together");
        return Err(OperationError::usage(message).with_hint(format!(
            "a message takes at most {MAX_IMAGES} images and {MAX_TOTAL_BYTES} bytes of them"
        )));
    }
    Ok(images)
}

/// A path in a message.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    path: String,
    /// Whether the path follows `@`. Other paths are absolute.
    is_marked: bool,
}

impl Reference {
    /// The file that the reference names. Fails if an image is named after `@` that does not exist.
    fn file(&self, folder: &Path, home: Option<&Path>) -> Result<Option<PathBuf>, OperationError> {
        let punctuation = ['?', '!', '.', ',', ';', ':', ')'];
        let end = self.path.trim_end_matches(punctuation);
        for name in [self.path.as_str(), end] {
            let path = match (name.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => folder.join(name),
            };
            if path.is_file() {
                return Ok(Some(path));
            }
        }
        let extension = Path::new(end).extension().and_then(|text| text.to_str());
        let is_image =
            extension.is_some_and(|text| EXTENSIONS.contains(&text.to_ascii_lowercase().as_str()));
        if !self.is_marked || !is_image {
            return Ok(None);
        }
        let message = format!("the image `{end}` does not exist in {}", folder.display());
        Err(
            OperationError::new(Code::FileAccess, message).with_hint(Hint::from(
                "check the path, or write the name without @ to send it as text",
            )),
        )
    }
}

/// The paths in a message that may name images.
fn references(text: &str) -> Vec<Reference> {
    // A terminal may paste a path with spaces as it is.
    let whole = text.trim();
    if !whole.contains('\n')
        && whole.contains(' ')
        && absolute(whole).is_some_and(|path| is_file(&path))
    {
        return absolute(whole).map(unmarked).into_iter().collect();
    }
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| !letter.is_whitespace()) {
        rest = &rest[start..];
        let marked = rest.strip_prefix('@');
        let (word, after) = next_word(marked.unwrap_or(rest));
        rest = after;
        match marked {
            Some(_) if !word.is_empty() => found.push(Reference {
                path: from_url(&word).unwrap_or(word),
                is_marked: true,
            }),
            Some(_) => {}
            None => found.extend(absolute(&word).map(unmarked)),
        }
    }
    found
}

fn unmarked(path: String) -> Reference {
    Reference {
        path,
        is_marked: false,
    }
}

fn is_file(path: &str) -> bool {
    Path::new(path).is_file()
}

/// The next word, without quotes and escapes, and the text after it.
fn next_word(text: &str) -> (String, &str) {
    let quote = text
        .chars()
        .next()
        .filter(|first| ['"', '\''].contains(first));
    if let Some(quote) = quote
        && let Some((inside, after)) = text[1..].split_once(quote)
    {
        return (inside.to_owned(), after);
    }
    let mut word = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            // Terminals escape the spaces of a path.
            '\\' => word.extend(letters.next().map(|(_, escaped)| escaped)),
            _ if letter.is_whitespace() => return (word, &text[at..]),
            _ => word.push(letter),
        }
    }
    (word, "")
}

/// The path if the word is an absolute path, a path in the home folder, or a `file://` URL.
fn absolute(word: &str) -> Option<String> {
    let is_path = word.starts_with('/') || word.starts_with("~/");
    from_url(word).or_else(|| is_path.then(|| word.to_owned()))
}

/// The path of a `file://` URL.
fn from_url(word: &str) -> Option<String> {
    let path = word.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            &after[2..]
        } else {
            after
        };
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|path| path.starts_with('/'))
}

/// The image in a file; `None` if the content is not an image.
fn read_image(path: PathBuf) -> Result<Option<PromptImage>, OperationError> {
    let failed = |error: std::io::Error| {
        let message = format!("`{}` cannot be read", path.display());
        OperationError::new(Code::FileAccess, message).caused_by(error)
    };
    let file = File::open(&path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut data = Vec::new();
    (&file).take(16).read_to_end(&mut data).map_err(failed)?;
    let Some(media_type) = image_media_type(&data) else {
        return Ok(None);
    };
    // One more byte reveals a file that grows.
    let limit = MAX_IMAGE_BYTES as u64 + 1;
    (&file).take(limit).read_to_end(&mut data).map_err(failed)?;
    if data.len() > MAX_IMAGE_BYTES {
        let message = format!("the image `{}` has {size} bytes", path.display());
        return Err(OperationError::usage(message).with_hint(format!(
            "an image may have {MAX_IMAGE_BYTES} bytes: reduce its size"
        )));
    }
    Ok(Some(PromptImage {
        path,
        media_type,
        data,
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cleveragents_domain::Diagnose as _;
    use cleveragents_models::MAX_IMAGE_BYTES;

    use super::{PromptImage, prompt_images};

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n0123456789abcdef";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let files: [(&str, &[u8]); 6] = [
            ("a.png", PNG),
            ("no extension", b"GIF89a and more of it"),
            ("photo.txt", b"\xff\xd8\xff\xe0 and more of it"),
            ("w.webp", b"RIFF\0\0\0\0WEBPVP8 "),
            ("text.png", b"not an image at all"),
            ("notes.md", b"# Notes"),
        ];
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).expect("a file");
        }
        folder
    }

    fn found(text: &str, folder: &Path) -> Vec<(String, &'static str)> {
        let images = prompt_images(text, folder, Some(folder)).expect(text);
        let name = |image: &PromptImage| {
            let name = image.path.file_name().expect("a name");
            (name.to_string_lossy().into_owned(), image.media_type)
        };
        images.iter().map(name).collect()
    }

    #[test]
    fn images_after_an_at_sign_are_recognized_by_their_content() {
        let folder = folder();
        let all = found(
            "Compare @a.png? And @\"no extension\", @photo.txt, @w.webp or @a.png",
            folder.path(),
        );
        let png = ("a.png".to_owned(), "image/png");
        let gif = ("no extension".to_owned(), "image/gif");
        let jpeg = ("photo.txt".to_owned(), "image/jpeg");
        let webp = ("w.webp".to_owned(), "image/webp");
        assert_eq!(all, [png, gif, jpeg, webp]);
        for text in [
            "see @notes.md",
            "@text.png",
            "me@a.png",
            "a.png",
            "@nobody",
            "@",
        ] {
            assert_eq!(found(text, folder.path()), [], "{text}");
        }
    }

    #[test]
    fn pasted_paths_name_images_too() {
        let folder = folder();
        let place = folder.path().display();
        let escaped = place.to_string().replace(' ', "\\ ");
        for text in [
            format!("{place}/no extension"),
            format!("explain '{place}/no extension' to me"),
            format!("explain \"{place}/no extension\""),
            format!("explain {escaped}/no\\ extension"),
            format!("file://{place}/no%20extension"),
            "~/no\\ extension".to_owned(),
        ] {
            let images = found(&text, folder.path());
            assert_eq!(images, [("no extension".to_owned(), "image/gif")], "{text}");
        }
        let text = format!("`{place}/a.png` and {place}/missing.png and {place}");
        assert_eq!(found(&text, folder.path()), []);
    }

    #[test]
    fn missing_and_large_images_are_refused() {
        let folder = folder();
        let refused = |text: &str| {
            let error = prompt_images(text, folder.path(), None).expect_err(text);
            (error.to_string(), error.hint().is_some())
        };
        let (message, has_hint) = refused("what is @b.PNG?");
        assert!(
            message.contains("`b.PNG` does not exist") && has_hint,
            "{message}"
        );
        let mut large = PNG.to_vec();
        large.resize(MAX_IMAGE_BYTES + 1, 0);
        std::fs::write(folder.path().join("large.png"), &large).expect("a file");
        let (message, has_hint) = refused("@large.png");
        assert!(message.contains("12000001 bytes") && has_hint, "{message}");
        large.truncate(MAX_IMAGE_BYTES - 1);
        for name in ["1.png", "2.png"] {
            std::fs::write(folder.path().join(name), &large).expect("a file");
        }
        let (message, has_hint) = refused("@1.png @2.png");
        assert!(message.contains("names 2 images") && has_hint, "{message}");
    }
}
