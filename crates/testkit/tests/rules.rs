//! Tests that each rule rejects a request that breaks it, and accepts the valid request from which the invalid one was
//! derived.

#![expect(clippy::too_many_lines, reason = "tables of requests")]

use cleveragents_testkit::model_server::{ReceivedRequest, Step, refusal};
use serde_json::{Value, json};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn refused(path: &str, body: &Value) -> Option<String> {
    let request = ReceivedRequest {
        method: "POST".to_owned(),
        path: path.to_owned(),
        headers: vec![("anthropic-version".to_owned(), "2023-06-01".to_owned())],
        body: body.to_string(),
    };
    let response = refusal(&request)?;
    assert!(matches!(response.status, 400 | 413));
    let Step::Send(bytes) = &response.steps[0] else {
        panic!("a refusal has a body");
    };
    let body: Value = serde_json::from_slice(bytes).expect("JSON");
    let message = body
        .pointer("/error/message")
        .unwrap_or_else(|| &body["error"]);
    Some(message.as_str().expect("a message").to_owned())
}

/// Changes of a valid request: JSON pointer, new value, and a part of the expected error. Null removes the field.
type InvalidChanges<'a> = &'a [(&'a str, Value, &'a str)];

fn assert_each_refused(path: &str, good: &Value, changes: InvalidChanges<'_>) {
    assert_eq!(refused(path, good), None, "{good}");
    for (place, value, expected) in changes {
        let mut body = good.clone();
        let (parent, field) = place.rsplit_once('/').expect("a pointer");
        let parent = body.pointer_mut(parent).expect(place);
        match parent {
            Value::Array(all) if field == "-" => all.push(value.clone()),
            Value::Array(all) => all[field.parse::<usize>().expect("an index")] = value.clone(),
            Value::Object(fields) if value.is_null() => drop(fields.remove(field)),
            Value::Object(fields) => drop(fields.insert(field.to_owned(), value.clone())),
            other => panic!("{place} is in {other}"),
        }
        let message = refused(path, &body);
        let message = message.unwrap_or_else(|| panic!("{place} = {value} is accepted"));
        assert!(message.contains(expected), "{place} = {value}: {message}");
    }
}

fn long(length: usize) -> String {
    "x".repeat(length)
}

/// A request with `times` copies of an element in one of its lists.
fn repeated(body: &Value, list: &str, element: &Value, times: usize) -> Value {
    let mut body = body.clone();
    *body.pointer_mut(list).expect(list) = vec![element.clone(); times].into();
    body
}

/// A base64 PNG with this width in its header.
fn png_of_width(width: u32) -> String {
    let [_, high, middle, low] = width.to_be_bytes();
    // The width is in bytes 16 to 19 of the file; bytes 15 to 20 are eight characters.
    let group = [b'R', 0, high, middle, low, 0];
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for bytes in group.chunks(3) {
        let bits = u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 8 | u32::from(bytes[2]);
        for shift in [18, 12, 6, 0] {
            text.push(letters[(bits >> shift & 63) as usize].into());
        }
    }
    format!("{}{text}{}", &PNG[..20], &PNG[28..])
}

fn message_of(path: &str, body: &Value) -> String {
    refused(path, body).unwrap_or_else(|| {
        let text = body.to_string();
        panic!("accepted: {}", &text[..text.len().min(500)])
    })
}

#[test]
fn anthropic() {
    let good = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 4096, "stream": true,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "read", "description": "Reads", "input_schema": {
            "type": "object", "properties": {"path": {"type": "string"}}}}],
        "output_config": {"format": {"type": "json_schema", "schema": {
            "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "image", "source": {
                "type": "base64", "media_type": "image/png", "data": PNG}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I read."},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": ""}]},
        ],
    });
    let schema = "/output_config/format/schema";
    let large = format!("iVBORw0KGgo{}", long(5 * 1024 * 1024 + 1));
    // A PNG whose header has a width of 1,048,577 pixels.
    let wide = PNG.replacen("AAAAEAAAAB", "AQAAEAAAAB", 1);
    assert_each_refused(
        "/v1/messages",
        &good,
        &[
            ("/max_tokens", json!(null), "max_tokens"),
            ("/max_tokens", json!(64_001), "maximum allowed"),
            ("/unknown", json!(1), "Extra inputs"),
            ("/temperature", json!(0.5), "thinking"),
            ("/thinking/budget_tokens", json!(1000), "1024"),
            ("/thinking/budget_tokens", json!(4096), "max_tokens"),
            ("/thinking", json!({"type": "adaptive"}), "adaptive"),
            ("/output_config/effort", json!("high"), "effort"),
            (
                &format!("{schema}/additionalProperties"),
                json!(null),
                "additionalProperties",
            ),
            (
                &format!("{schema}/properties/a/minimum"),
                json!(1),
                "'minimum' is not supported",
            ),
            (
                &format!("{schema}/properties/a"),
                json!({"type": "string", "minLength": 1}),
                "minLength",
            ),
            ("/model", json!("claude-3-5-haiku-20241022"), "thinking"),
            ("/tools/0/name", json!("a b"), "pattern"),
            ("/tools/0/name", json!(long(129)), "pattern"),
            ("/tools/-", good["tools"][0].clone(), "unique"),
            ("/tools/0/input_schema", json!({"properties": {}}), "object"),
            ("/tools/0/input_schema/anyOf", json!([]), "top level"),
            (
                "/tools/0/input_schema/properties/odd name",
                json!({}),
                "Property keys",
            ),
            (
                "/tools/0/input_schema/properties/path/type",
                json!("text"),
                "2020-12",
            ),
            (
                "/tools/0/input_schema/properties/path",
                json!({"$ref": "#/$defs/none"}),
                "resolved",
            ),
            ("/tools", json!([]), "must define tools"),
            ("/system/0/text", json!(" "), "non-empty"),
            ("/messages", json!([]), "at least one"),
            ("/messages/0/role", json!("assistant"), "first message"),
            ("/messages/0/content", json!([]), "non-empty content"),
            ("/messages/0/content/0/text", json!(" \n"), "non-whitespace"),
            (
                "/messages/0/content/1/source/media_type",
                json!("image/bmp"),
                "unsupported",
            ),
            (
                "/messages/0/content/1/source/media_type",
                json!("image/gif"),
                "does not match",
            ),
            (
                "/messages/0/content/1/source/data",
                json!("iVBORw0KGgo*"),
                "base64",
            ),
            ("/messages/0/content/1/source/data", json!(large), "5 MB"),
            (
                "/messages/0/content/1/source/data",
                json!(wide),
                "dimensions",
            ),
            ("/messages/1/content/0/signature", json!(""), "signature"),
            (
                "/messages/1/content/0",
                json!({"type": "text", "text": "a"}),
                "must start with a thinking",
            ),
            (
                "/messages/1/content/1",
                json!({"type": "tool_use", "id": "c1", "name": "read", "input": {}}),
                "unique",
            ),
            ("/messages/1/content/2/id", json!("c.1"), "pattern"),
            ("/messages/1/content/2/name", json!("rm -rf /"), "pattern"),
            ("/messages/1/content/2/input", json!("{}"), "dictionary"),
            (
                "/messages/1/content/-",
                json!({"type": "text", "text": "behind"}),
                "behind",
            ),
            (
                "/messages/1/content/-",
                json!({"type": "thinking", "thinking": "", "signature": "s"}),
                "final block",
            ),
            (
                "/messages/2/content/0/tool_use_id",
                json!("other"),
                "unexpected",
            ),
            (
                "/messages/2/content/0",
                json!({"type": "text", "text": "no"}),
                "without `tool_result`",
            ),
            (
                "/messages/2/content/-",
                good["messages"][2]["content"][0].clone(),
                "multiple",
            ),
            (
                "/messages/-",
                json!({"role": "assistant", "content": "so"}),
                "prefill",
            ),
            ("/tool_choice", json!("auto"), "valid dictionary"),
            ("/tool_choice", json!({"type": "any"}), "forces tool use"),
            (
                "/tool_choice",
                json!({"type": "tool", "name": "read"}),
                "forces tool use",
            ),
            ("/top_p", json!(0.5), "0.95"),
            ("/top_k", json!(5), "top_k"),
            ("/stop_sequences", json!("END"), "valid list"),
            ("/stop_sequences", json!(["\n"]), "non-whitespace"),
            (
                "/system/0/cache_control/ttl",
                json!("10m"),
                "Input should be '5m' or '1h'",
            ),
            (
                "/messages/0/content/0/cache_control",
                json!({"type": "ephemeral", "ttl": "1h"}),
                "must not come after",
            ),
            ("/model", json!("claude-opus-4-7"), "thinking.type.adaptive"),
            (
                "/messages/2/content/0/is_error",
                json!(true),
                "cannot be empty",
            ),
            (
                "/messages/2/content/0",
                json!({"type": "tool_result", "tool_use_id": "c1", "is_error": true,
                    "content": [good["messages"][0]["content"][1].clone()]}),
                "all content must be type",
            ),
            (
                "/system/0/text",
                json!(long(4 * 200_001)),
                "prompt is too long",
            ),
            ("/system/0/text", json!(long(33 << 20)), "number of bytes"),
        ],
    );
    let image = &good["messages"][0]["content"][1];
    let many = |times| repeated(&good, "/messages/0/content", image, times);
    assert_eq!(refused("/v1/messages", &many(100)), None);
    assert!(message_of("/v1/messages", &many(101)).contains("101 images > 100"));
    let mut newer = many(600);
    for (field, value) in [
        ("model", json!("claude-opus-4-6")),
        ("thinking", json!({"type": "adaptive"})),
    ] {
        newer[field] = value;
    }
    assert_eq!(refused("/v1/messages", &newer), None);
    let mut large = many(20);
    large["messages"][0]["content"][0]["source"]["data"] = png_of_width(2001).into();
    assert_eq!(refused("/v1/messages", &large), None);
    let mut large = many(21);
    large["messages"][0]["content"][0]["source"]["data"] = png_of_width(2001).into();
    assert!(message_of("/v1/messages", &large).contains("many-image"));
    assert_each_refused(
        "/v1/messages",
        &json!({"model": "claude-sonnet-4-20250514", "max_tokens": 64_000,
            "tools": good["tools"], "tool_choice": {"type": "tool", "name": "read"},
            "messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": "I"}]}),
        &[
            ("/messages/1/content", json!("I "), "trailing whitespace"),
            (
                "/messages/0/content",
                json!(long(4 * 140_000)),
                "exceed context limit",
            ),
            ("/tool_choice/name", json!("other"), "not found"),
            ("/tools", json!(null), "while providing tools"),
        ],
    );
    let bare = json!({"model": "claude-sonnet-5", "max_tokens": 10, "temperature": 1,
        "messages": [{"role": "user", "content": "hi"}]});
    assert!(message_of("/v1/messages", &bare).contains("sampling"));
    let mut marks = good.clone();
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    marks["messages"][0]["content"] = vec![marked; 4].into();
    assert!(
        refused("/v1/messages", &marks)
            .expect("five marks")
            .contains("maximum of 4")
    );
    // Without reasoning, temperature and top_p together are rejected by newer models.
    let both = json!({"model": "claude-sonnet-4-5", "max_tokens": 10, "temperature": 0.5, "top_p": 0.5,
        "messages": [{"role": "user", "content": "hi"}]});
    assert!(
        refused("/v1/messages", &both)
            .expect("both")
            .contains("cannot both")
    );
}

#[test]
fn gemini() {
    let good = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "read", "description": "Reads", "parametersJsonSchema": {
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}]}],
        "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"thinkingBudget": 1024}},
        "contents": [
            {"role": "user", "parts": [{"text": "go"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]},
            {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "s"}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"result": ""}}}]},
        ],
    });
    let path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse";
    let function = "/tools/0/functionDeclarations/0";
    assert_each_refused(
        path,
        &good,
        &[
            (
                "/generationConfig/responseMimeType",
                json!("application/json"),
                "Function calling with a response mime type",
            ),
            (
                "/generationConfig/maxOutputTokens",
                json!(100_000),
                "maxOutputTokens",
            ),
            (
                "/generationConfig/thinkingConfig/thinkingBudget",
                json!(0),
                "budget",
            ),
            (
                "/generationConfig/thinkingConfig/thinkingLevel",
                json!("low"),
                "only one",
            ),
            (
                "/generationConfig/thinkingConfig",
                json!({"thinkingLevel": "low"}),
                "not supported",
            ),
            ("/generationConfig/top_p", json!(0.5), "Unknown name"),
            ("/messages", json!([]), "Unknown name"),
            (
                &format!("{function}/name"),
                json!("1st"),
                "Invalid function name",
            ),
            (
                &format!("{function}/name"),
                json!(long(65)),
                "Invalid function name",
            ),
            (
                &format!("{function}/parametersJsonSchema/$schema"),
                json!("x"),
                "not permitted",
            ),
            (
                &format!("{function}/parametersJsonSchema/properties/path/pattern"),
                json!("x"),
                "not permitted",
            ),
            (
                &format!("{function}/parametersJsonSchema/required"),
                json!(["none"]),
                "not defined",
            ),
            (
                &format!("{function}/parametersJsonSchema/properties"),
                json!({}),
                "non-empty",
            ),
            (
                "/tools/0/functionDeclarations/-",
                good["tools"][0]["functionDeclarations"][0].clone(),
                "Duplicate",
            ),
            ("/contents", json!([]), "contents"),
            ("/contents/0/role", json!("assistant"), "valid role"),
            ("/contents/0/parts", json!([]), "must not be empty"),
            ("/contents/0/parts/0", json!({}), "oneof"),
            ("/contents/0/parts/0/text", json!(""), "text parameter"),
            (
                "/contents/0/parts/1/inlineData/mimeType",
                json!("image/gif"),
                "unsupported",
            ),
            (
                "/contents/1/parts/-",
                json!({"functionCall": {"name": "read", "args": {}}}),
                "number of function response",
            ),
            (
                "/contents/2/parts/0/functionResponse/name",
                json!("other"),
                "match",
            ),
            (
                "/contents/2/parts/0/functionResponse/response",
                json!("x"),
                "object",
            ),
            (
                "/contents/2/parts/0",
                json!({"text": "x"}),
                "number of function response",
            ),
            (
                "/contents/-",
                json!({"role": "model", "parts": [{"text": "x"}]}),
                "end with a user role",
            ),
            (
                "/generationConfig/stopSequences",
                json!(["a", "b", "c", "d", "e", "f"]),
                "stop sequences",
            ),
            (
                "/systemInstruction/parts/0/text",
                json!(long(4 * 1_048_577)),
                "input token count",
            ),
            (
                "/systemInstruction/parts/0/text",
                json!(long(21 << 20)),
                "payload size",
            ),
        ],
    );
    let functions = "/tools/0/functionDeclarations";
    let mut tools = repeated(&good, functions, &json!(null), 513);
    for (index, place) in tools
        .pointer_mut(functions)
        .and_then(Value::as_array_mut)
        .expect("functions")
        .iter_mut()
        .enumerate()
    {
        *place = json!({"name": format!("read{index}"), "description": "Reads"});
    }
    assert!(message_of(path, &tools).contains("At most 512"));
    let image = &good["contents"][0]["parts"][1];
    let images = repeated(&good, "/contents/0/parts", image, 3601);
    assert!(message_of(path, &images).contains("3600 images"));
    let newer = "/v1beta/models/gemini-3-pro-preview:generateContent";
    let mut good = good;
    good["generationConfig"]["thinkingConfig"] = json!({"thinkingLevel": "low"});
    assert_each_refused(
        newer,
        &good,
        &[
            (
                "/contents/1/parts/0/thoughtSignature",
                json!(null),
                "thought_signature",
            ),
            (
                "/generationConfig/thinkingConfig/thinkingLevel",
                json!("medium"),
                "thinking_level",
            ),
        ],
    );
}

#[test]
fn openai_chat() {
    let good = json!({
        "model": "gpt-5.1", "stream": true, "stream_options": {"include_usage": true},
        "max_completion_tokens": 100, "reasoning_effort": "low",
        "tools": [{"type": "function", "function": {"name": "read", "parameters": {
            "type": "object", "properties": {"path": {"type": "string"}}}, "strict": false}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": true, "schema": {
            "type": "object", "properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"],
            "additionalProperties": false}}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "go"},
                {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": ""},
        ],
    });
    let schema = "/response_format/json_schema/schema";
    let parameters = "/tools/0/function/parameters";
    assert_each_refused(
        "/v1/chat/completions",
        &good,
        &[
            ("/max_tokens", json!(100), "max_completion_tokens"),
            ("/max_completion_tokens", json!(200_000), "too large"),
            ("/temperature", json!(0.5), "temperature"),
            ("/reasoning_effort", json!("minimal"), "reasoning_effort"),
            ("/unknown", json!(1), "Unrecognized"),
            ("/stream", json!(false), "stream_options"),
            ("/model", json!("gpt-4o"), "reasoning_effort"),
            (
                &format!("{schema}/additionalProperties"),
                json!(null),
                "additionalProperties",
            ),
            (&format!("{schema}/required"), json!([]), "required"),
            (
                &format!("{schema}/properties/a/minimum"),
                json!(1),
                "minimum",
            ),
            (&format!("{schema}/properties/a"), json!({}), "type"),
            ("/response_format/json_schema/name", json!("a b"), "name"),
            ("/tools/0/function/name", json!("a.b"), "name"),
            ("/tools/0/function/name", json!(long(65)), "name"),
            ("/tools/-", good["tools"][0].clone(), "duplicate"),
            ("/tools", json!([]), "empty array"),
            (parameters, json!({}), "object"),
            (&format!("{parameters}/oneOf"), json!([]), "top level"),
            (
                &format!("{parameters}/properties/path"),
                json!({"type": "array"}),
                "items",
            ),
            ("/messages/0/role", json!("root"), "Supported values"),
            ("/messages/1/content", json!([]), "content"),
            (
                "/messages/1/content/1/image_url/url",
                json!("data:image/bmp;base64,Qk0="),
                "unsupported",
            ),
            ("/messages/2/tool_calls/0/id", json!(long(41)), "too long"),
            (
                "/messages/2/tool_calls/0/function/name",
                json!("rm -rf /"),
                "pattern",
            ),
            (
                "/messages/2/tool_calls/0/function/arguments",
                json!({}),
                "string",
            ),
            ("/messages/2/tool_calls", json!([]), "empty array"),
            ("/messages/3/tool_call_id", json!("c2"), "preceeding"),
            (
                "/messages/3",
                json!({"role": "user", "content": "x"}),
                "did not have response",
            ),
            ("/stop", json!("END"), "'stop' is not supported"),
            ("/logprobs", json!(true), "'logprobs' is not supported"),
            ("/tool_choice", json!("any"), "tool_choice"),
            (
                "/tools/0/function/description",
                json!(long(1025)),
                "maximum length 1024",
            ),
            ("/model", json!("gpt-5.2"), "/v1/responses"),
            (
                "/messages/0/content",
                json!(long(4 * 272_001)),
                "configured limit of 272000",
            ),
            (
                "/messages/0/content",
                json!(long(10_485_761)),
                "maximum length 10485760",
            ),
            ("/messages/0/content", json!(long(51 << 20)), "payload size"),
        ],
    );
    strict_schemas("/v1/chat/completions", &good, schema);
    let function = |index: usize| {
        json!({"type": "function", "function": {"name": format!("read{index}"), "parameters": {
            "type": "object", "properties": {}}}})
    };
    let with_tools = |count: usize| {
        let mut body = good.clone();
        body["tools"] = (0..count).map(function).collect();
        body
    };
    assert_eq!(refused("/v1/chat/completions", &with_tools(128)), None);
    assert!(message_of("/v1/chat/completions", &with_tools(129)).contains("maximum length 128"));
    let image = &good["messages"][1]["content"][1];
    let images = repeated(&good, "/messages/1/content", image, 501);
    assert!(message_of("/v1/chat/completions", &images).contains("Too many images"));
    let mut calls = good.clone();
    calls["messages"][2]["tool_calls"] = (0..129)
        .map(|index| {
            json!({"id": format!("c{index}"), "type": "function",
            "function": {"name": "read", "arguments": "{}"}})
        })
        .collect();
    assert!(message_of("/v1/chat/completions", &calls).contains("tool_calls': array too long"));
    let plain = json!({"model": "gpt-4o", "max_completion_tokens": 16_384, "stop": "END",
        "messages": [{"role": "user", "content": "go"}]});
    assert_each_refused(
        "/v1/chat/completions",
        &plain,
        &[
            ("/tool_choice", json!("auto"), "only allowed when 'tools'"),
            (
                "/parallel_tool_calls",
                json!(true),
                "only allowed when 'tools'",
            ),
            (
                "/stop",
                json!(["a", "b", "c", "d", "e"]),
                "maximum length 4",
            ),
            (
                "/messages/0/content",
                json!(long(4 * 120_000)),
                "maximum context length is 128000",
            ),
        ],
    );
    let newest = json!({"model": "gpt-5.6", "reasoning_effort": "none", "tools": good["tools"],
        "messages": [{"role": "user", "content": "go"}]});
    assert_each_refused(
        "/v1/chat/completions",
        &newest,
        &[("/reasoning_effort", json!(null), "/v1/responses")],
    );
    for (model, most) in [
        ("mistral-small-latest", 8),
        ("meta-llama/llama-4-scout-17b-16e-instruct", 5),
    ] {
        let body = json!({"model": model, "messages": [{"role": "user", "content": []}]});
        let with = |count| repeated(&body, "/messages/0/content", image, count);
        assert_eq!(refused("/v1/chat/completions", &with(most)), None);
        assert!(message_of("/v1/chat/completions", &with(most + 1)).contains("Too many images"));
    }
    let mut heavy = json!({"model": "meta-llama/llama-4-scout-17b-16e-instruct", "messages": [
        {"role": "user", "content": [image]}]});
    heavy["messages"][0]["content"][0]["image_url"]["url"] =
        format!("data:image/png;base64,iVBORw0KGgo{}", long(5 << 20)).into();
    assert!(message_of("/v1/chat/completions", &heavy).contains("Too Large"));
    assert_each_refused(
        "/v1/chat/completions",
        &json!({"model": "mistral-small-latest", "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "abcdefgh1", "function": {"name": "read", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "abcdefgh1", "content": "x"}]}),
        &[
            ("/stream_options", json!({}), ""),
            (
                "/messages/-",
                json!({"role": "user", "content": "x"}),
                "after role 'tool'",
            ),
            (
                "/messages/-",
                json!({"role": "assistant", "content": "x"}),
                "last role",
            ),
        ],
    );
    let bound = json!({"model": "deepseek-chat", "messages": [{"role": "user", "content": "go"}],
        "response_format": {"type": "json_schema"}});
    assert!(
        refused("/v1/chat/completions", &bound)
            .expect("bound")
            .contains("unavailable")
    );
}

/// The limits of a strict schema.
fn strict_schemas(path: &str, good: &Value, place: &str) {
    let closed = |properties: Value| {
        let names: Vec<&String> = properties.as_object().expect("properties").keys().collect();
        json!({"type": "object", "required": names, "additionalProperties": false, "properties": properties})
    };
    let many: serde_json::Map<String, Value> = (0..5001)
        .map(|index| (format!("p{index}"), json!({"type": "string"})))
        .collect();
    let mut deep = json!({"type": "string"});
    for _ in 0..11 {
        deep = closed(json!({"a": deep}));
    }
    let values = |count: usize, length: usize| {
        let values: Value = (0..count)
            .map(|index| json!(format!("{index}{}", long(length))))
            .collect();
        closed(json!({"a": {"type": "string", "enum": values}}))
    };
    let long_name = closed(json!({long(120_001): {"type": "string"}}));
    assert_each_refused(
        path,
        good,
        &[
            (place, closed(many.into()), "5000 object properties"),
            (place, deep, "levels of nesting"),
            (place, values(1001, 0), "1000 enum values"),
            (place, values(251, 60), "15000 characters"),
            (place, long_name, "120000"),
        ],
    );
}

#[test]
fn openai_responses() {
    let good = json!({
        "model": "gpt-5.1", "stream": true, "store": false, "max_output_tokens": 100,
        "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto", "effort": "low"},
        "tools": [{"type": "function", "name": "read", "strict": false, "parameters": {
            "type": "object", "properties": {"path": {"type": "string"}}}}],
        "text": {"format": {"type": "json_schema", "name": "s", "strict": true, "schema": {
            "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}},
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "go"},
                {"type": "input_image", "image_url": format!("data:image/png;base64,{PNG}")}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": ""},
        ],
    });
    assert_each_refused(
        "/v1/responses",
        &good,
        &[
            ("/max_output_tokens", json!(5), "16"),
            ("/max_tokens", json!(100), "Unknown parameter"),
            ("/temperature", json!(0.2), "temperature"),
            ("/model", json!("gpt-4.1"), "reasoning"),
            ("/reasoning/effort", json!("minimal"), "effort"),
            (
                "/text/format/schema/additionalProperties",
                json!(null),
                "additionalProperties",
            ),
            ("/tools/0/name", json!("a.b"), "name"),
            ("/input", json!([]), "input"),
            ("/input/0/content", json!([]), "empty"),
            (
                "/input/0/content/0/type",
                json!("output_text"),
                "role 'user'",
            ),
            ("/input/1/encrypted_content", json!(null), "not persisted"),
            (
                "/input/2",
                json!({"role": "user", "content": "x"}),
                "required following item",
            ),
            ("/input/2/call_id", json!(long(65)), "too long"),
            ("/input/2/name", json!("rm -rf /"), "pattern"),
            ("/input/3/call_id", json!("c2"), "No tool call found"),
            (
                "/input/3",
                json!({"role": "user", "content": "x"}),
                "No tool output found",
            ),
            ("/model", json!("gpt-5-pro"), "'high'"),
            (
                "/instructions",
                json!(long(4 * 272_001)),
                "configured limit of 272000",
            ),
            (
                "/input/3/output",
                json!(long(10_485_761)),
                "maximum length 10485760",
            ),
        ],
    );
    strict_schemas("/v1/responses", &good, "/text/format/schema");
    let image = &good["input"][0]["content"][1];
    let images = repeated(&good, "/input/0/content", image, 501);
    assert!(message_of("/v1/responses", &images).contains("Too many images"));
}

#[test]
fn ollama() {
    let good = json!({
        "model": "qwen3:8b", "stream": true, "think": true, "options": {"num_predict": 10},
        "tools": [{"type": "function", "function": {"name": "read", "description": "Reads", "parameters": {
            "type": "object", "properties": {"path": {"type": "string"}}}}}],
        "messages": [
            {"role": "user", "content": "go", "images": [PNG]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "read", "arguments": {}}}]},
            {"role": "tool", "content": "x", "tool_name": "read"},
        ],
    });
    let parameters = "/tools/0/function/parameters";
    assert_each_refused(
        "/api/chat",
        &good,
        &[
            ("/model", json!("llama3.2"), "does not support thinking"),
            ("/think", json!("deep"), "think"),
            ("/format", json!("yaml"), "format"),
            ("/options/num_predict", json!("many"), "num_predict"),
            (&format!("{parameters}/type"), json!(null), "type"),
            (
                &format!("{parameters}/properties/path"),
                json!(true),
                "ToolProperty",
            ),
            ("/messages/0/role", json!("model"), "invalid role"),
            ("/messages/0/content", json!(["x"]), "content"),
            ("/messages/0/images/0", json!("*"), "base64"),
            (
                "/messages/1/tool_calls/0/function/arguments",
                json!("{}"),
                "arguments",
            ),
            (
                "/messages/0/content",
                json!(long(4 * 4097)),
                "context length (4096",
            ),
        ],
    );
    let tools = json!({"model": "gemma3:27b", "tools": good["tools"], "messages": []});
    assert!(message_of("/api/chat", &tools).contains("does not support tools"));
}
