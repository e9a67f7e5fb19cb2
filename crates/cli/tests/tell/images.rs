//! Pictures that tools read are sent to models with vision, and stored with the call.

use serde_json::{Value, json};

use super::failures::endless;
use super::form::{Shape, WireFormat};
use super::world::{ConversationFixture, READ};

/// The start of a PNG file; the rest is not parsed.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\nthe rest\x00\xff";
const PNG_BASE64: &str = "iVBORw0KGgp0aGUgcmVzdAD/";

fn fixture(form: WireFormat) -> ConversationFixture {
    let fixture = ConversationFixture::with_endpoint(
        form,
        vec![
            form.calls(Shape::Pieces, &[("look", READ, r#"{"path": "a.png"}"#)]),
            form.text_response(Shape::Pieces, &["A cat."]),
            form.text_response(Shape::Pieces, &["Still a cat."]),
        ],
    );
    std::fs::write(fixture.sandbox_folder.join("a.png"), PNG).expect("a file");
    fixture
}

/// The picture in a request, with the text before it.
fn picture(form: WireFormat, request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().expect("messages");
    let last = messages.last().expect("a message");
    match form {
        WireFormat::OpenAi => {
            assert_eq!(
                messages[messages.len() - 2]["role"],
                "tool",
                "{messages:#?}"
            );
            assert_eq!(last["role"], "user");
            last["content"].as_array().expect("parts").clone()
        }
        WireFormat::Anthropic => {
            let result = &last["content"][0];
            assert_eq!(result["type"], "tool_result", "{last:#}");
            result["content"].as_array().expect("blocks").clone()
        }
    }
}

fn expected(form: WireFormat) -> Value {
    match form {
        WireFormat::OpenAi => json!({"type": "image_url", "image_url": {
            "url": format!("data:image/png;base64,{PNG_BASE64}"),
        }}),
        WireFormat::Anthropic => json!({"type": "image", "source": {
            "type": "base64", "media_type": "image/png", "data": PNG_BASE64,
        }}),
    }
}

#[test]
fn a_picture_that_a_tool_reads_is_sent_to_the_model() {
    for form in WireFormat::BOTH {
        let fixture = fixture(form);
        let reported = fixture.send_prompt_json(&["what is on a.png?"]);
        assert_eq!(reported["response"], "A cat.", "{form:?}");
        let received = fixture.server().received();
        let parts = picture(form, &received[1].json());
        assert_eq!(parts.last(), Some(&expected(form)), "{form:?}: {parts:#?}");
        // The picture is stored once, with the call. Messages only mention it.
        let id = reported["tool_calls"][0]["invocation"]
            .as_str()
            .map(str::to_owned);
        let rows = fixture.ask("SELECT invocation_id, media_type FROM tool_invocations");
        assert_eq!(rows[0][1], "image/png");
        assert!(id.is_none_or(|id| id == rows[0][0]));
        let shown = fixture.agents.data(&["tool", "call", &rows[0][0]]);
        assert_eq!(
            shown["output"]["text"],
            format!("[image/png, {} bytes]", PNG.len())
        );
        let messages = fixture.messages();
        assert!(!json!(messages).to_string().contains(PNG_BASE64));
        // A later turn mentions the picture, but does not send it again.
        assert_eq!(
            fixture.send_prompt_json(&["sure?"])["response"],
            "Still a cat."
        );
        let later = fixture.server().received()[2].json().to_string();
        assert!(
            later.contains("[image/png, ") && !later.contains(PNG_BASE64),
            "{later}"
        );
    }
}

#[test]
fn a_model_without_vision_gets_a_note() {
    let form = WireFormat::OpenAi;
    let fixture = fixture(form);
    let models = "models: {openai/blind: {capabilities: {vision: false}}}\n";
    std::fs::write(fixture.agents.home().join("models.yaml"), models).expect("a file");
    let reported = fixture.send_prompt_json(&["--actor", "openai/blind", "look"]);
    assert_eq!(reported["response"], "A cat.");
    let request = fixture.server().received()[1].json().to_string();
    assert!(!request.contains(PNG_BASE64), "{request}");
    let result = &fixture.messages()[2]["content"];
    let result = result.as_str().expect("a result");
    assert!(
        result.contains("[image/png, ") && result.contains("cannot see images"),
        "{result}"
    );
}

/// The process is killed while the model processes the picture; the resumed turn sends it again.
#[test]
fn a_resumed_turn_sends_its_picture_again() {
    for form in WireFormat::BOTH {
        let fixture = ConversationFixture::with_endpoint(
            form,
            vec![
                form.calls(Shape::Pieces, &[("look", READ, r#"{"path": "a.png"}"#)]),
                endless(form),
                form.text_response(Shape::Pieces, &["A cat."]),
            ],
        );
        std::fs::write(fixture.sandbox_folder.join("a.png"), PNG).expect("a file");
        let mut child = fixture.start(&["what is on a.png?"]);
        while fixture.server().received().len() < 2 {
            assert!(
                child.try_wait().expect("a status").is_none(),
                "the program ended"
            );
            std::thread::yield_now();
        }
        child.kill().expect("killed");
        child.wait().expect("the killed program ends");
        // The picture that is sent again comes from the database.
        std::fs::remove_file(fixture.sandbox_folder.join("a.png")).expect("a file");
        assert_eq!(
            fixture.send_prompt_json(&["--resume"])["response"],
            "A cat."
        );
        let received = fixture.server().received();
        let parts = picture(form, &received[2].json());
        assert_eq!(parts.last(), Some(&expected(form)), "{form:?}: {parts:#?}");
    }
}
