//! Rules about images in a request.

use super::{CheckResult, ensure};

/// Whether a base64 text starts with the magic bytes of the media type. Sources: Anthropic "Vision"
/// (docs.claude.com/en/ docs/build-with-claude/vision) refuses "Image does not match the provided media type"; `OpenAI`
/// "Images and vision" (platform.openai.com/docs/guides/images-vision) refuses an "unsupported image".
pub(super) fn matches_type(media_type: &str, data: &str) -> bool {
    let prefixes: &[&str] = match media_type {
        "image/png" => &["iVBORw0KGg"],
        "image/jpeg" => &["/9j/"],
        "image/gif" => &["R0lGOD"],
        "image/webp" => &["UklGR"],
        _ => return true,
    };
    prefixes.iter().any(|prefix| data.starts_with(prefix))
}

/// Whether a text is base64.
pub(super) fn is_base64(data: &str) -> bool {
    let body = data.trim_end_matches('=');
    !body.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - body.len() <= 2
        && body
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

/// Checks base64 data and its media type, which must be one of `types`.
pub(super) fn check(media_type: &str, data: &str, types: &[&str]) -> CheckResult {
    ensure(types.contains(&media_type), || {
        format!("image media type '{media_type}' is unsupported; supported are {types:?}")
    })?;
    ensure(is_base64(data), || {
        "image data is not valid base64".to_owned()
    })?;
    ensure(matches_type(media_type, data), || {
        format!("Image does not match the provided media type {media_type}")
    })
}

/// Width and height of a PNG given as base64, from its header.
pub(super) fn png_size(data: &str) -> Option<(u32, u32)> {
    // The 24 bytes of the header are 32 characters.
    let head = data.get(..32)?;
    let mut bits: u32 = 0;
    let mut bytes = Vec::new();
    for (index, letter) in head.bytes().enumerate() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        if index % 4 == 3 {
            bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
            bits = 0;
        }
    }
    let side = |at: usize| {
        let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes))
    };
    bytes
        .starts_with(b"\x89PNG")
        .then(|| Some((side(16)?, side(20)?)))?
}
