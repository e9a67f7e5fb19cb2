//! A request as every provider accepts it: names of tools, ids of calls, pairs of calls and results, pictures, and
//! no empty messages.
//!
//! Sessions hold what really happened: interrupted calls, names that a model made up, answers of other providers.
//! Each of these makes a provider refuse the whole conversation, so they are put right on the way out.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Dialect, Protocol, Target, arguments_text};
use crate::message::{
    AssistantMessage, ChatMessage, Picture, ToolCall, ToolDefinition, ToolResult, UserPart,
};
use crate::request::ChatRequest;

/// The longest name of a tool that `OpenAI` and Gemini accept.
const LONGEST_NAME: usize = 64;
/// The longest id of a call that `OpenAI` accepts.
const LONGEST_ID: usize = 40;
/// The largest picture that Anthropic accepts: 5 MiB as base64.
const LARGEST_FOR_ANTHROPIC: usize = 5 * 1024 * 1024 / 4 * 3;
/// The largest picture that the others are given; Gemini accepts 20 MB for a whole request.
const LARGEST: usize = 12_000_000;
/// The longest side that Anthropic accepts, in pixels.
const LONGEST_SIDE: u32 = 8000;

/// The names of tools on the wire, both ways.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    sent: HashMap<String, String>,
    own: HashMap<String, String>,
}

impl ToolNames {
    /// Names for the tools of a request. Two that would be the same are told apart by a digest.
    pub(crate) fn new(tools: &[ToolDefinition]) -> Self {
        let mut names = Self::default();
        // Names that can stay as they are have the first choice.
        let (fine, odd): (Vec<&ToolDefinition>, Vec<&ToolDefinition>) = tools
            .iter()
            .partition(|tool| clean_name(&tool.name) == tool.name);
        for tool in fine.into_iter().chain(odd) {
            let mut name = clean_name(&tool.name).into_owned();
            if names.own.get(&name).is_some_and(|own| *own != tool.name) {
                name = with_digest(&name, &tool.name, LONGEST_NAME);
            }
            names.own.insert(name.clone(), tool.name.clone());
            names.sent.insert(tool.name.clone(), name);
        }
        names
    }

    fn sent<'a>(&'a self, own: &'a str) -> Cow<'a, str> {
        match self.sent.get(own) {
            Some(name) => name.into(),
            None => clean_name(own),
        }
    }

    /// The name of a tool as the caller knows it.
    pub(crate) fn own<'a>(&'a self, sent: &'a str) -> &'a str {
        self.own.get(sent).map_or(sent, String::as_str)
    }
}

/// A name that every provider accepts: it begins with a letter or `_` and goes on with letters, digits, `_` and `-`.
fn clean_name(name: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if begins && name.len() <= LONGEST_NAME && name.chars().all(is_plain) {
        return name.into();
    }
    let mut clean: String = name
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '_' })
        .collect();
    if !begins {
        clean.insert(0, '_');
    }
    if clean.len() > LONGEST_NAME {
        clean = with_digest(&clean, name, LONGEST_NAME);
    }
    clean.into()
}

/// The beginning of a text of ASCII with a digest of the original behind it.
fn with_digest(clean: &str, original: &str, longest: usize) -> String {
    let digest = hex::encode(Sha256::digest(original));
    let beginning: String = clean.chars().take(longest - 13).collect();
    format!("{beginning}_{}", &digest[..12])
}

fn clean_id(id: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if (1..=LONGEST_ID).contains(&id.len()) && id.chars().all(is_plain) {
        return id.to_owned();
    }
    let clean: String = id.chars().filter(|letter| is_plain(*letter)).collect();
    with_digest(&clean, id, LONGEST_ID)
}

/// The request as the provider accepts it.
pub(super) fn accepted(target: &Target, request: &ChatRequest, names: &ToolNames) -> ChatRequest {
    let mut known = HashSet::new();
    let tools = request
        .tools
        .iter()
        .filter(|tool| known.insert(tool.name.as_str()))
        .map(|tool| ToolDefinition {
            name: names.sent(&tool.name).into_owned(),
            description: if tool.description.trim().is_empty() {
                tool.name.clone()
            } else {
                tool.description.clone()
            },
            input_schema: super::schema::tool_parameters(target.protocol, &tool.input_schema),
        })
        .collect();
    let mut messages = Vec::new();
    let mut ids = HashSet::new();
    let mut all = request.messages.iter().peekable();
    while let Some(message) = all.next() {
        let is_answer = matches!(message.as_ref(), ChatMessage::Assistant(_));
        if is_answer && matches!(messages.last(), Some(ChatMessage::Assistant(_))) {
            // Two answers in a row would become one, in an order that no model gives.
            messages.push(ChatMessage::user("Continue."));
        }
        match message.as_ref() {
            ChatMessage::User { parts } => {
                let parts: Vec<UserPart> = parts
                    .iter()
                    .filter_map(|part| user_part(target, part))
                    .collect();
                if !parts.is_empty() {
                    messages.push(ChatMessage::User { parts });
                }
            }
            ChatMessage::Assistant(answer) if answer.calls.is_empty() => {
                if !answer.text.trim().is_empty() {
                    messages.push(ChatMessage::Assistant(answer.clone()));
                }
            }
            ChatMessage::Assistant(answer) => {
                let mut given = Vec::new();
                while let Some(next) =
                    all.next_if(|next| matches!(***next, ChatMessage::Tool { .. }))
                {
                    if let ChatMessage::Tool { results } = next.as_ref() {
                        given.extend(results);
                    }
                }
                let (answer, results) = exchange(target, answer, &given, names, &mut ids);
                if request.tools.is_empty() {
                    messages.extend(in_words(&answer, &results));
                } else {
                    messages.push(ChatMessage::Assistant(answer));
                    messages.push(ChatMessage::Tool { results });
                }
            }
            // A result without a call means nothing to a model.
            ChatMessage::Tool { .. } => {}
        }
    }
    if !matches!(messages.first(), Some(ChatMessage::User { .. })) {
        let begun = ChatMessage::user("(The conversation began before this.)");
        messages.insert(0, begun);
    }
    if matches!(messages.last(), Some(ChatMessage::Assistant(_))) {
        messages.push(ChatMessage::user("Continue."));
    }
    ChatRequest {
        system: request
            .system
            .iter()
            .filter(|text| !text.trim().is_empty())
            .cloned()
            .collect(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools,
        ..request.clone()
    }
}

/// An answer with calls and exactly one result for each of them, in their order.
fn exchange(
    target: &Target,
    answer: &AssistantMessage,
    given: &[&ToolResult],
    names: &ToolNames,
    ids: &mut HashSet<String>,
) -> (AssistantMessage, Vec<ToolResult>) {
    let mut answer = answer.clone();
    let mut results = Vec::new();
    for call in &mut answer.calls {
        let found = given.iter().find(|result| result.call_id == call.id);
        let mut id = clean_id(&call.id);
        let mut number = 1;
        while !ids.insert(id.clone()) {
            number += 1;
            id = clean_id(&format!("{}-{number}", call.id));
        }
        let result = match found {
            Some(result) => {
                let mut result = (*result).clone();
                let (fine, odd): (Vec<Picture>, Vec<Picture>) =
                    std::mem::take(&mut result.pictures)
                        .into_iter()
                        .partition(|picture| {
                            refusal(target, &picture.media_type, &picture.data).is_none()
                        });
                result.pictures = fine;
                for picture in odd {
                    result.content.push('\n');
                    result
                        .content
                        .push_str(&left_out(target, &picture.media_type, &picture.data));
                }
                result
            }
            None => ToolResult {
                call_id: String::new(),
                content: "The call was interrupted: its result is not known.".to_owned(),
                is_error: true,
                pictures: Vec::new(),
            },
        };
        results.push(ToolResult {
            call_id: id.clone(),
            ..result
        });
        call.name = names.sent(&call.name).into_owned();
        call.id = id;
    }
    (answer, results)
}

/// Calls and results as texts, for a request that offers no tools: without tools their blocks are refused.
fn in_words(answer: &AssistantMessage, results: &[ToolResult]) -> [ChatMessage; 2] {
    let mut text = answer.text.trim().to_owned();
    for call in &answer.calls {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&called(call));
    }
    let mut parts = Vec::new();
    for (call, result) in answer.calls.iter().zip(results) {
        let word = if result.is_error {
            "failed"
        } else {
            "returned"
        };
        parts.push(UserPart::Text(format!(
            "[Tool {} {word}]\n{}",
            call.name, result.content
        )));
        parts.extend(result.pictures.iter().map(|picture| UserPart::Image {
            media_type: picture.media_type.clone(),
            data: picture.data.clone(),
        }));
    }
    let said = AssistantMessage {
        text,
        ..AssistantMessage::default()
    };
    [ChatMessage::Assistant(said), ChatMessage::User { parts }]
}

fn called(call: &ToolCall) -> String {
    format!("[Tool {} called with {}]", call.name, arguments_text(call))
}

fn user_part(target: &Target, part: &UserPart) -> Option<UserPart> {
    match part {
        UserPart::Text(text) if text.trim().is_empty() => None,
        UserPart::Image { media_type, data } if refusal(target, media_type, data).is_some() => {
            Some(UserPart::Text(left_out(target, media_type, data)))
        }
        other => Some(other.clone()),
    }
}

fn left_out(target: &Target, media_type: &str, data: &[u8]) -> String {
    let why = refusal(target, media_type, data).unwrap_or_default();
    format!(
        "[An image ({media_type}, {} bytes) was left out: {why}]",
        data.len()
    )
}

/// Why the provider refuses a picture.
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
    let is_claude = target.protocol == Protocol::Anthropic
        || target.dialect == Dialect::OpenRouter && target.name.model().starts_with("anthropic/");
    let largest = if is_claude {
        LARGEST_FOR_ANTHROPIC
    } else {
        LARGEST
    };
    if data.len() > largest {
        return Some(format!("the provider accepts {largest} bytes at most"));
    }
    let (width, height) = dimensions(data)?;
    (is_claude && width.max(height) > LONGEST_SIDE)
        .then(|| format!("the provider accepts {LONGEST_SIDE} pixels a side at most"))
}

/// Width and height of a PNG, GIF or JPEG file, as far as its head says.
fn dimensions(data: &[u8]) -> Option<(u32, u32)> {
    let big = |at: usize| {
        let bytes = data.get(at..at + 2)?;
        Some(u32::from(bytes[0]) << 8 | u32::from(bytes[1]))
    };
    if data.starts_with(b"\x89PNG") {
        let side = |at: usize| Some(big(at)? << 16 | big(at + 2)?);
        return Some((side(16)?, side(20)?));
    }
    if data.starts_with(b"GIF8") {
        let side = |at: usize| Some(u32::from(*data.get(at)?) | u32::from(*data.get(at + 1)?) << 8);
        return Some((side(6)?, side(8)?));
    }
    if !data.starts_with(&[0xff, 0xd8]) {
        return None;
    }
    let mut at = 2;
    while *data.get(at)? == 0xff {
        let marker = *data.get(at + 1)?;
        // A frame header, besides the three markers in its range that are none.
        if (0xc0..=0xcf).contains(&marker) && ![0xc4, 0xc8, 0xcc].contains(&marker) {
            return Some((big(at + 7)?, big(at + 5)?));
        }
        at += 2 + big(at + 2)? as usize;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{ToolNames, clean_id, clean_name, dimensions};
    use crate::message::ToolDefinition;
    use serde_json::json;

    #[test]
    fn names_are_accepted_by_all_and_found_again() {
        let long = format!("server_C_{}", "x".repeat(100));
        let longer = format!("{long}y");
        let all = [
            "builtin_S_file-read",
            "my.space_S_tool",
            "my_space_S_tool",
            "9lives",
            &long,
            &longer,
        ];
        let tools = all.map(|name| ToolDefinition {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({}),
        });
        let names = ToolNames::new(&tools);
        let mut sent: Vec<String> = all.iter().map(|own| names.sent(own).into_owned()).collect();
        for (sent, own) in sent.iter().zip(all) {
            assert!(sent.len() <= 64 && clean_name(sent) == *sent, "{sent}");
            assert_eq!(names.own(sent), own);
        }
        assert_eq!(sent[0], "builtin_S_file-read");
        assert_eq!(sent[2], "my_space_S_tool");
        sent.sort();
        sent.dedup();
        assert_eq!(sent.len(), all.len());
        assert_eq!(names.sent("rm -rf /"), "rm_-rf__");
        assert_eq!(names.own("never-offered"), "never-offered");
    }

    #[test]
    fn ids_are_short_and_plain() {
        assert_eq!(clean_id("call_0-a"), "call_0-a");
        for odd in ["functions.read:0", "", &"x".repeat(80)] {
            let id = clean_id(odd);
            assert!((1..=40).contains(&id.len()), "{id}");
            assert_eq!(clean_id(&id), id);
        }
    }

    #[test]
    fn the_head_of_a_picture_tells_its_size() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x1f\x41\0\0\0\x02";
        assert_eq!(dimensions(png), Some((8001, 2)));
        assert_eq!(dimensions(b"GIF89a\x02\x01\x03\x00"), Some((258, 3)));
        let jpeg = [
            0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc0, 0, 11, 8, 0, 5, 0, 7,
        ];
        assert_eq!(dimensions(&jpeg), Some((7, 5)));
        assert_eq!(dimensions(&[0xff, 0xd8, 0xff]), None);
        assert_eq!(dimensions(b"text"), None);
    }
}
