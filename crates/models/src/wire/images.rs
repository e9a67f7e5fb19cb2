//! Provider limits for images: media types, sizes, and number per request.
//!
//! An image that cannot be sent is replaced by a note to the model with the reason. If a request contains too many
//! images, the oldest images are removed first.

use std::collections::BTreeMap;

use super::{Dialect, Protocol, Target};
use crate::message::{ChatMessage, Picture, UserPart};

/// Maximum image size that Anthropic accepts, in bytes: 5 MiB as base64.
const MAX_BYTES_FOR_ANTHROPIC: usize = 5 * 1024 * 1024 / 4 * 3;
/// Maximum image size for other providers, in bytes; Gemini accepts 20 MB for a whole request.
pub const MAX_IMAGE_BYTES: usize = 12_000_000;
/// Maximum side length in pixels that Anthropic accepts, and the maximum in a request with more than [`MANY`] images.
const MAX_SIDE: u32 = 8000;
const MAX_SIDE_OF_MANY: u32 = 2000;
const MANY: usize = 20;

/// Whether Anthropic's rules apply, directly or through OpenRouter.
fn is_claude(target: &Target) -> bool {
    target.protocol == Protocol::Anthropic
        || target.dialect == Dialect::OpenRouter && target.name.model().starts_with("anthropic/")
}

/// Maximum number of images per request.
fn image_limit(target: &Target) -> usize {
    if is_claude(target) {
        let window = target.capabilities.context_window;
        return if window > Some(200_000) { 600 } else { 100 };
    }
    match (target.protocol, target.dialect) {
        (Protocol::OpenaiChat, Dialect::Mistral) => 8,
        (Protocol::OpenaiChat, Dialect::Groq) => 5,
        (Protocol::OpenaiChat, Dialect::Azure) => 50,
        (Protocol::OpenaiChat | Protocol::OpenaiResponses, _) => 500,
        // 3,600 are documented, but a test showed a lower limit.
        (Protocol::Gemini, _) => 2000,
        (Protocol::Anthropic | Protocol::Ollama, _) => usize::MAX,
    }
}

/// Maximum size of a request in bytes, with a reserve for proxies.
pub(super) fn byte_limit(target: &Target, has_images: bool) -> usize {
    match (target.protocol, target.dialect) {
        (Protocol::Anthropic, _) => 32_000_000,
        (Protocol::Gemini, _) => 20_000_000,
        (Protocol::OpenaiChat, Dialect::Groq) if has_images => 4_000_000,
        (Protocol::OpenaiChat | Protocol::OpenaiResponses, _) => 50_000_000,
        (Protocol::Ollama, _) => usize::MAX,
    }
}

/// Size of an image in a conversation, in the units of the limits.
struct ImageSize {
    /// Size as base64.
    bytes: usize,
    /// `None` when the file header does not contain it.
    longest_side: Option<u32>,
}

/// The images of a conversation, oldest first.
fn images<'a>(messages: impl Iterator<Item = &'a ChatMessage>) -> Vec<ImageSize> {
    let size = |data: &[u8]| ImageSize {
        bytes: data.len().div_ceil(3) * 4,
        longest_side: dimensions(data).map(|(width, height)| width.max(height)),
    };
    let mut sizes = Vec::new();
    for message in messages {
        match message {
            ChatMessage::User { parts } => {
                sizes.extend(parts.iter().filter_map(|part| match part {
                    UserPart::Image { data, .. } => Some(size(data)),
                    UserPart::Text(_) => None,
                }));
            }
            ChatMessage::Tool { results } => {
                let pictures = results.iter().flat_map(|result| &result.pictures);
                sizes.extend(pictures.map(|picture| size(&picture.data)));
            }
            ChatMessage::Assistant(_) => {}
        }
    }
    sizes
}

/// Replaces images by notes. `reasons` maps the number of each image to replace to the reason.
fn replace_with_notes<'a>(
    messages: impl Iterator<Item = &'a mut ChatMessage>,
    reasons: &BTreeMap<usize, String>,
) {
    if reasons.is_empty() {
        return;
    }
    let mut number = 0..;
    let mut next = || number.next().and_then(|number| reasons.get(&number));
    for message in messages {
        match message {
            ChatMessage::User { parts } => {
                for part in parts {
                    if let UserPart::Image { media_type, data } = part
                        && let Some(why) = next()
                    {
                        *part = UserPart::Text(note(media_type, data, why));
                    }
                }
            }
            ChatMessage::Tool { results } => {
                for result in results {
                    let content = &mut result.content;
                    result.pictures.retain(|picture| {
                        let Some(why) = next() else { return true };
                        content.push('\n');
                        content.push_str(&note(&picture.media_type, &picture.data, why));
                        false
                    });
                }
            }
            ChatMessage::Assistant(_) => {}
        }
    }
}

/// Removes images beyond the limit of one request. A quarter of the limit is removed at a time, so that the beginning
/// of the conversation stays unchanged for a while and provider caches remain valid.
pub(super) fn limit(target: &Target, messages: &mut [ChatMessage]) {
    let all = images(messages.iter());
    let max_images = image_limit(target);
    let mut reasons = BTreeMap::new();
    let excess = all.len().saturating_sub(max_images);
    if excess > 0 {
        let step = (max_images / 4).max(1);
        let count = (excess.div_ceil(step) * step).min(all.len());
        let why = format!("the provider accepts at most {max_images} images in a request");
        reasons.extend((0..count).map(|number| (number, why.clone())));
    }
    if is_claude(target) {
        let is_large = |size: &ImageSize| {
            size.longest_side
                .is_some_and(|side| side > MAX_SIDE_OF_MANY)
        };
        let mut remaining = all.len() - reasons.len();
        for (number, size) in all.iter().enumerate() {
            if remaining > MANY && !reasons.contains_key(&number) && is_large(size) {
                let why = format!(
                    "in a request with more than {MANY} images the provider accepts \
                     at most {MAX_SIDE_OF_MANY} pixels per side"
                );
                reasons.insert(number, why);
                remaining -= 1;
            }
        }
    }
    replace_with_notes(messages.iter_mut(), &reasons);
}

/// Removes the oldest images from a request that is `excess` bytes too large. Returns false if it has no images.
pub(super) fn shrink(
    target: &Target,
    messages: &mut [std::sync::Arc<ChatMessage>],
    excess: usize,
) -> bool {
    let all = images(messages.iter().map(AsRef::as_ref));
    let largest = byte_limit(target, true);
    let needed = excess.saturating_add(largest / 8);
    let why = format!("the provider accepts {largest} bytes in a request");
    let mut freed = 0;
    let oldest = all.iter().enumerate().take_while(|(_, size)| {
        let is_needed = freed < needed;
        freed += size.bytes;
        is_needed
    });
    let reasons: BTreeMap<usize, String> =
        oldest.map(|(number, _)| (number, why.clone())).collect();
    replace_with_notes(messages.iter_mut().map(std::sync::Arc::make_mut), &reasons);
    !reasons.is_empty()
}

/// A part of a user message in a form that the provider accepts; `None` for empty text.
pub(super) fn user_part(target: &Target, part: &UserPart) -> Option<UserPart> {
    match part {
        UserPart::Text(text) if text.trim().is_empty() => None,
        UserPart::Image { media_type, data } => Some(match refusal(target, media_type, data) {
            Some(why) => UserPart::Text(note(media_type, data, &why)),
            None => part.clone(),
        }),
        UserPart::Text(_) => Some(part.clone()),
    }
}

/// The images of a result that the provider accepts; notes about the others are appended to its text.
pub(super) fn accepted(
    target: &Target,
    pictures: Vec<Picture>,
    content: &mut String,
) -> Vec<Picture> {
    let mut accepted_pictures = Vec::new();
    for picture in pictures {
        match refusal(target, &picture.media_type, &picture.data) {
            None => accepted_pictures.push(picture),
            Some(why) => {
                content.push('\n');
                content.push_str(&note(&picture.media_type, &picture.data, &why));
            }
        }
    }
    accepted_pictures
}

fn note(media_type: &str, data: &[u8], why: &str) -> String {
    format!(
        "[An image ({media_type}, {} bytes) was left out: {why}]",
        data.len()
    )
}

/// Reason why the provider rejects an image, independent of the rest of the request.
fn refusal(target: &Target, media_type: &str, data: &[u8]) -> Option<String> {
    let types: &[&str] = match target.protocol {
        Protocol::Gemini => &[
            "image/png",
            "image/jpeg",
            "image/webp",
            "image/heic",
            "image/heif",
        ],
        Protocol::Ollama => &["image/png", "image/jpeg", "image/webp"],
        _ => &["image/png", "image/jpeg", "image/webp", "image/gif"],
    };
    if !types.contains(&media_type) {
        return Some(format!("the provider accepts {} only", types.join(", ")));
    }
    let is_claude = is_claude(target);
    let largest = if is_claude {
        MAX_BYTES_FOR_ANTHROPIC
    } else {
        MAX_IMAGE_BYTES
    };
    if data.len() > largest {
        return Some(format!("the provider accepts at most {largest} bytes"));
    }
    let (width, height) = dimensions(data)?;
    (is_claude && width.max(height) > MAX_SIDE)
        .then(|| format!("the provider accepts at most {MAX_SIDE} pixels per side"))
}

/// Width and height of a PNG, GIF, JPEG or WebP file, from its header.
fn dimensions(data: &[u8]) -> Option<(u32, u32)> {
    let big = |at: usize| {
        let bytes = data.get(at..at + 2)?;
        Some(u32::from(bytes[0]) << 8 | u32::from(bytes[1]))
    };
    let little = |at: usize| Some(u32::from(*data.get(at)?) | u32::from(*data.get(at + 1)?) << 8);
    if data.starts_with(b"\x89PNG") {
        let side = |at: usize| Some(big(at)? << 16 | big(at + 2)?);
        return Some((side(16)?, side(20)?));
    }
    if data.starts_with(b"GIF8") {
        return Some((little(6)?, little(8)?));
    }
    if data.starts_with(b"RIFF") {
        return match data.get(8..16)? {
            b"WEBPVP8 " => Some((little(26)? & 0x3fff, little(28)? & 0x3fff)),
            b"WEBPVP8L" => {
                let bits = little(21)? | little(23)? << 16;
                Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
            }
            b"WEBPVP8X" => {
                let side =
                    |at: usize| Some((little(at)? | u32::from(*data.get(at + 2)?) << 16) + 1);
                Some((side(24)?, side(27)?))
            }
            _ => None,
        };
    }
    if !data.starts_with(&[0xff, 0xd8]) {
        return None;
    }
    let mut at = 2;
    while *data.get(at)? == 0xff {
        let marker = *data.get(at + 1)?;
        // Markers in this range start a frame header, except three with other meanings.
        if (0xc0..=0xcf).contains(&marker) && ![0xc4, 0xc8, 0xcc].contains(&marker) {
            return Some((big(at + 7)?, big(at + 5)?));
        }
        at += 2 + big(at + 2)? as usize;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::dimensions;

    #[test]
    fn image_sizes_are_read_from_headers() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x1f\x41\0\0\0\x02";
        assert_eq!(dimensions(png), Some((8001, 2)));
        assert_eq!(dimensions(b"GIF89a\x02\x01\x03\x00"), Some((258, 3)));
        let jpeg = [
            0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc0, 0, 11, 8, 0, 5, 0, 7,
        ];
        assert_eq!(dimensions(&jpeg), Some((7, 5)));
        let webp = |kind: &[u8; 4], rest: &[u8]| {
            let head = [b"RIFF\0\0\0\0WEBP".as_slice(), kind, b"\0\0\0\0", rest];
            dimensions(&head.concat())
        };
        let lossy = b"\0\0\0\x9d\x01\x2a\x02\x01\x03\x00";
        assert_eq!(webp(b"VP8 ", lossy), Some((258, 3)));
        // The header contains the width minus one (256) and, from bit 14 on, the height minus one (3).
        assert_eq!(webp(b"VP8L", b"\x2f\x00\xc1\x00\x00"), Some((257, 4)));
        assert_eq!(webp(b"VP8X", b"\0\0\0\0\x01\x01\0\x02\0\0"), Some((258, 3)));
        assert_eq!(webp(b"ALPH", b"\0\0\0\0\x01\x01\0\x02\0\0"), None);
        for short in [
            &b"RIFF\0\0\0\0WEBPVP8 "[..],
            &[0xff, 0xd8, 0xff],
            b"text",
            b"",
        ] {
            assert_eq!(dimensions(short), None);
        }
    }
}
