//! Normalises a request so that every provider accepts it: tool names, call ids, pairs of calls and results, images,
//! and no empty messages.
//!
//! Sessions are stored unchanged: they may contain interrupted calls, tool names that a model invented, and answers of
//! other providers. A provider would reject the whole conversation, so these are corrected before sending.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::options::ToolChoice;
use super::{Dialect, Protocol, Target, arguments_text, images};
use crate::message::{
    AssistantMessage, ChatMessage, ToolCall, ToolDefinition, ToolResult, UserPart,
};
use crate::request::ChatRequest;

/// Maximum length of a tool name that OpenAI and Gemini accept.
const MAX_NAME_LENGTH: usize = 64;
/// Maximum length of a call id that OpenAI accepts.
const MAX_ID_LENGTH: usize = 40;
/// Maximum length of a tool description that OpenAI's chat completions accept, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 1024;
/// Maximum number of calls in one answer that OpenAI's chat completions accept.
const MAX_CALLS: usize = 128;

/// Mapping between the caller's tool names and the names that are sent to the provider.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    sent: HashMap<String, String>,
    own: HashMap<String, String>,
}

impl ToolNames {
    /// Assigns names to the tools of a request. A digest is appended to names that would collide.
    pub(crate) fn new(tools: &[ToolDefinition]) -> Self {
        let mut names = Self::default();
        // Names that can stay unchanged are assigned first.
        let (valid, invalid): (Vec<&ToolDefinition>, Vec<&ToolDefinition>) = tools
            .iter()
            .partition(|tool| clean_name(&tool.name) == tool.name);
        for tool in valid.into_iter().chain(invalid) {
            let mut name = clean_name(&tool.name).into_owned();
            if names.own.get(&name).is_some_and(|own| *own != tool.name) {
                name = with_digest(&name, &tool.name, MAX_NAME_LENGTH);
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

    /// The caller's name of a tool.
    pub(crate) fn original<'a>(&'a self, sent: &'a str) -> &'a str {
        self.own.get(sent).map_or(sent, String::as_str)
    }
}

/// A name that every provider accepts: a letter or `_`, followed by letters, digits, `_` and `-`.
fn clean_name(name: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if begins && name.len() <= MAX_NAME_LENGTH && name.chars().all(is_plain) {
        return name.into();
    }
    let mut clean: String = name
        .chars()
        .map(|letter| if is_plain(letter) { letter } else { '_' })
        .collect();
    if !begins {
        clean.insert(0, '_');
    }
    if clean.len() > MAX_NAME_LENGTH {
        clean = with_digest(&clean, name, MAX_NAME_LENGTH);
    }
    clean.into()
}

/// The beginning of an ASCII text followed by a digest of the original.
fn with_digest(clean: &str, original: &str, max_length: usize) -> String {
    let digest = hex::encode(Sha256::digest(original));
    let beginning: String = clean.chars().take(max_length - 13).collect();
    format!("{beginning}_{}", &digest[..12])
}

fn clean_id(id: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if (1..=MAX_ID_LENGTH).contains(&id.len()) && id.chars().all(is_plain) {
        return id.to_owned();
    }
    let clean: String = id.chars().filter(|letter| is_plain(*letter)).collect();
    with_digest(&clean, id, MAX_ID_LENGTH)
}

/// Converts a request to a form that the provider accepts.
pub(super) fn normalize(target: &Target, request: &ChatRequest, names: &ToolNames) -> ChatRequest {
    let mut known = HashSet::new();
    let tools = request
        .tools
        .iter()
        .filter(|tool| known.insert(tool.name.as_str()))
        .map(|tool| {
            let input_schema = super::schema::tool_parameters(target.protocol, &tool.input_schema);
            let (description, input_schema) = split_description(target, tool, input_schema);
            ToolDefinition {
                name: names.sent(&tool.name).into_owned(),
                description,
                input_schema,
            }
        })
        .collect();
    let mut messages = Vec::new();
    let mut ids = HashSet::new();
    let mut all = request.messages.iter().peekable();
    while let Some(message) = all.next() {
        let is_answer = matches!(message.as_ref(), ChatMessage::Assistant(_));
        if is_answer && matches!(messages.last(), Some(ChatMessage::Assistant(_))) {
            // Two consecutive answers would be merged into one, in an order that no model produces.
            messages.push(ChatMessage::user("Continue."));
        }
        match message.as_ref() {
            ChatMessage::User { parts } => {
                let parts: Vec<UserPart> = parts
                    .iter()
                    .filter_map(|part| images::user_part(target, part))
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
                let mut all_results = Vec::new();
                while let Some(next) =
                    all.next_if(|next| matches!(***next, ChatMessage::Tool { .. }))
                {
                    if let ChatMessage::Tool { results } = next.as_ref() {
                        all_results.extend(results);
                    }
                }
                let (answer, results) = exchange(target, answer, &all_results, names, &mut ids);
                if request.tools.is_empty() {
                    messages.extend(as_texts(&answer, &results));
                } else {
                    messages.extend(split_calls(target, answer, results));
                }
            }
            // A result without a call is meaningless to a model.
            ChatMessage::Tool { .. } => {}
        }
    }
    if !matches!(messages.first(), Some(ChatMessage::User { .. })) {
        let note = ChatMessage::user("(Earlier messages are omitted.)");
        messages.insert(0, note);
    }
    if matches!(messages.last(), Some(ChatMessage::Assistant(_))) {
        messages.push(ChatMessage::user("Continue."));
    }
    images::limit(target, &mut messages);
    let mut options = request.options.clone();
    ToolChoice::name_as_sent(&mut options, |own| names.sent(own).into_owned());
    ChatRequest {
        system: request
            .system
            .iter()
            .filter(|text| !text.trim().is_empty())
            .cloned()
            .collect(),
        messages: messages.into_iter().map(Arc::new).collect(),
        tools,
        options,
        ..request.clone()
    }
}

/// Description of a tool, never empty. Text beyond OpenAI's limit moves to the schema of the parameters, whose
/// descriptions have no limit.
fn split_description(target: &Target, tool: &ToolDefinition, mut schema: Value) -> (String, Value) {
    let text = tool.description.trim();
    if text.is_empty() {
        return (tool.name.clone(), schema);
    }
    let is_limited = target.protocol == Protocol::OpenaiChat
        && matches!(target.dialect, Dialect::OpenAi | Dialect::Azure);
    if !is_limited || text.chars().count() <= MAX_DESCRIPTION_LENGTH {
        return (tool.description.clone(), schema);
    }
    // Cut between two words, with room for the ellipsis.
    let end = text
        .char_indices()
        .nth(MAX_DESCRIPTION_LENGTH - 2)
        .map_or(text.len(), |(end, _)| end);
    let end = text[..end]
        .rfind(char::is_whitespace)
        .filter(|space| *space > 0)
        .unwrap_or(end);
    let remainder = text[end..].trim_start();
    let known = schema.get("description").and_then(Value::as_str);
    let remainder = match known {
        Some(known) => format!("… {remainder}\n\n{known}"),
        None => format!("… {remainder}"),
    };
    schema["description"] = remainder.into();
    (format!("{} …", &text[..end]), schema)
}

/// Splits an answer and the results of its calls into several pairs of messages, if the provider limits the number of
/// calls per answer.
fn split_calls(
    target: &Target,
    mut answer: AssistantMessage,
    mut results: Vec<ToolResult>,
) -> Vec<ChatMessage> {
    let mut messages = Vec::new();
    while target.protocol == Protocol::OpenaiChat && answer.calls.len() > MAX_CALLS {
        let later = AssistantMessage {
            calls: answer.calls.split_off(MAX_CALLS),
            ..AssistantMessage::default()
        };
        let later_results = results.split_off(MAX_CALLS);
        messages.push(ChatMessage::Assistant(answer));
        messages.push(ChatMessage::Tool { results });
        (answer, results) = (later, later_results);
    }
    messages.push(ChatMessage::Assistant(answer));
    messages.push(ChatMessage::Tool { results });
    messages
}

/// Returns an answer with calls, and exactly one result per call, in the order of the calls.
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
        let known_result = given.iter().find(|result| result.call_id == call.id);
        let mut id = clean_id(&call.id);
        let mut number = 1;
        while !ids.insert(id.clone()) {
            number += 1;
            id = clean_id(&format!("{}-{number}", call.id));
        }
        let result = match known_result {
            Some(result) => {
                let mut result = (*result).clone();
                let pictures = std::mem::take(&mut result.pictures);
                result.pictures = images::accepted(target, pictures, &mut result.content);
                result
            }
            None => ToolResult {
                call_id: String::new(),
                content: "The call was interrupted; its result is unknown.".to_owned(),
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

/// Writes calls and results as text, for a request that offers no tools: without tools, providers reject call blocks.
fn as_texts(answer: &AssistantMessage, results: &[ToolResult]) -> [ChatMessage; 2] {
    let mut text = answer.text.trim().to_owned();
    for call in &answer.calls {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&call_text(call));
    }
    let mut parts = Vec::new();
    for (call, result) in answer.calls.iter().zip(results) {
        let outcome = if result.is_error {
            "failed"
        } else {
            "returned"
        };
        parts.push(UserPart::Text(format!(
            "[Tool {} {outcome}]\n{}",
            call.name, result.content
        )));
        parts.extend(result.pictures.iter().map(|picture| UserPart::Image {
            media_type: picture.media_type.clone(),
            data: picture.data.clone(),
        }));
    }
    let text_answer = AssistantMessage {
        text,
        ..AssistantMessage::default()
    };
    [
        ChatMessage::Assistant(text_answer),
        ChatMessage::User { parts },
    ]
}

fn call_text(call: &ToolCall) -> String {
    format!("[Tool {} called with {}]", call.name, arguments_text(call))
}

#[cfg(test)]
mod tests {
    use super::{ToolNames, clean_id, clean_name};
    use crate::message::ToolDefinition;
    use serde_json::json;

    #[test]
    fn names_are_valid_for_all_providers_and_map_back() {
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
            assert_eq!(names.original(sent), own);
        }
        assert_eq!(sent[0], "builtin_S_file-read");
        assert_eq!(sent[2], "my_space_S_tool");
        sent.sort();
        sent.dedup();
        assert_eq!(sent.len(), all.len());
        assert_eq!(names.sent("rm -rf /"), "rm_-rf__");
        assert_eq!(names.original("never-offered"), "never-offered");
    }

    #[test]
    fn ids_are_short_and_plain() {
        assert_eq!(clean_id("call_0-a"), "call_0-a");
        for invalid in ["functions.read:0", "", &"x".repeat(80)] {
            let id = clean_id(invalid);
            assert!((1..=40).contains(&id.len()), "{id}");
            assert_eq!(clean_id(&id), id);
        }
    }
}
