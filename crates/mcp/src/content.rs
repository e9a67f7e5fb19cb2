//! Converts results of a server to results of a tool.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cleveragents_tools::{Answer, Body, Call, Failure, FailureKind, ToolSpec};
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};

use crate::connection::bounded;
use crate::paths::PathRewriter;

/// Media types of images that models accept.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Converts the result of a call. An error that the tool reports becomes a failure.
pub(crate) fn answer(
    result: CallToolResult,
    spec: &ToolSpec,
    rewriter: &PathRewriter,
    call: &mut Call<'_>,
) -> Result<Answer, Failure> {
    if result.is_error == Some(true) {
        let message: Vec<String> = result.content.iter().map(described).collect();
        let message = rewriter.back(&message.join("\n"));
        let message = if message.trim().is_empty() {
            "the tool failed without a message".to_owned()
        } else {
            bounded(&message)
        };
        return Err(Failure::new(message));
    }
    if spec.output_schema.is_some() {
        let Some(mut value) = result.structured_content else {
            let message = "the tool declares structured output but returned none";
            return Err(Failure::with_kind(FailureKind::BadOutput, message));
        };
        rewriter.back_in(&mut value);
        return Ok(Answer {
            body: Body::Json(value),
            ..Answer::written()
        });
    }
    if let [ContentBlock::Image(image)] = result.content.as_slice() {
        let media_type = IMAGES.iter().find(|known| **known == image.mime_type);
        if let (Some(media_type), Ok(bytes)) = (media_type, STANDARD.decode(&image.data)) {
            call.output.bytes(&bytes);
            return Ok(Answer {
                media_type: Some(media_type),
                ..Answer::written()
            });
        }
    }
    let has_content = result.content.iter().any(|block| match block {
        ContentBlock::Text(text) => !text.text.is_empty(),
        _ => true,
    });
    if let (false, Some(mut value)) = (has_content, result.structured_content) {
        rewriter.back_in(&mut value);
        return Ok(Answer {
            body: Body::Json(value),
            ..Answer::written()
        });
    }
    for (index, block) in result.content.iter().enumerate() {
        if index > 0 {
            call.output.text("\n");
        }
        call.output.text(&rewriter.back(&described(block)));
    }
    Ok(Answer::written())
}

/// Converts a content block to text.
pub(crate) fn described(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => attachment("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => attachment("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => resource(&embedded.resource),
        ContentBlock::ResourceLink(link) => linked(link),
        _ => "[content of an unknown kind]".to_owned(),
    }
}

/// Converts the content of a resource to text.
pub(crate) fn resource(contents: &ResourceContents) -> String {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => {
            format!("[resource {uri}]\n{text}")
        }
        ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob,
            ..
        } => {
            let kind = mime_type.as_deref().unwrap_or("bytes");
            format!("[resource {uri}]\n{}", attachment("file", kind, blob))
        }
        _ => "[resource of an unknown kind]".to_owned(),
    }
}

/// Describes a linked resource as text.
pub(crate) fn linked(link: &Resource) -> String {
    let kind = link.mime_type.as_deref().unwrap_or("unknown kind");
    let about = link.description.as_deref().unwrap_or_default();
    format!("[resource {} `{}`, {kind}] {about}", link.uri, link.name)
}

fn attachment(label: &str, kind: &str, data: &str) -> String {
    format!("[{label}, {kind}, {} bytes, not shown]", data.len() / 4 * 3)
}
