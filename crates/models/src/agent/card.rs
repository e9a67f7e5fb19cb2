//! [`Endpoint`]: the interface of an agent card that is used to call the agent.

use cleveragents_a2a::{AgentCard, AgentInterface, Binding, ProtocolVersion};
use reqwest::Url;
use serde_json::Value;

/// Address and protocol for calling an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) interface: AgentInterface,
    /// Whether the agent supports streaming.
    pub(super) is_streaming: bool,
    /// Header that carries the token; `Authorization: Bearer …` when `None`.
    pub(super) key_header: Option<String>,
}

/// Chooses the interface to use; the error explains why the agent cannot be called.
pub(super) fn choose(card: &Value) -> Result<Endpoint, String> {
    let card = AgentCard::read(card).ok_or("its card is not a JSON object")?;
    let mut extensions = card.capabilities.extensions.iter();
    if let Some(extension) = extensions.find(|extension| extension.required) {
        let uri = match extension.uri.as_str() {
            "" => "without a name",
            uri => uri,
        };
        return Err(format!(
            "it requires the extension `{uri}`, which this program does not support"
        ));
    }
    let callable = || {
        let all = card.supported_interfaces.iter();
        all.filter(|interface| Url::parse(&interface.url).is_ok())
    };
    let current = |interface: &&AgentInterface| interface.protocol_version == ProtocolVersion::V1_0;
    // Version 0.3 is supported over JSON-RPC only.
    let old = |interface: &&AgentInterface| {
        interface.protocol_version == ProtocolVersion::V0_3
            && interface.protocol_binding == Binding::JsonRpc
    };
    // The first interface of the newest version: agents list the preferred interface first.
    let interface = callable().find(current).or_else(|| callable().find(old));
    let interface = interface.ok_or(
        "its card offers no supported interface: JSONRPC or HTTP+JSON of version 1.0, or \
         JSONRPC of version 0.3",
    )?;
    Ok(Endpoint {
        interface: interface.clone(),
        is_streaming: card.capabilities.streaming,
        key_header: card.api_key_header().map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Binding, ProtocolVersion, choose};

    #[test]
    fn the_first_interface_of_the_newest_version_is_chosen() {
        let card = json!({"capabilities": {"streaming": true}, "supportedInterfaces": [
            {"url": "https://a.example/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "https://a.example/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
            {"url": "https://a.example/rest/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "t"},
            {"url": "https://a.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        ]});
        let endpoint = choose(&card).expect("an endpoint");
        assert_eq!(endpoint.interface.url, "https://a.example/rest");
        assert_eq!(endpoint.interface.protocol_binding, Binding::HttpJson);
        assert_eq!(endpoint.interface.tenant.as_deref(), Some("t"));
        assert!(endpoint.is_streaming);
        assert_eq!(endpoint.key_header, None);
    }

    #[test]
    fn cards_of_0_3_are_read() {
        let card = json!({"url": "https://a.example/rpc", "protocolVersion": "0.3.0", "preferredTransport": "GRPC",
            "additionalInterfaces": [{"url": "https://a.example/rest", "transport": "HTTP+JSON"},
                {"url": "https://a.example/json", "transport": "JSONRPC"}],
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}});
        let endpoint = choose(&card).expect("an endpoint");
        assert_eq!(endpoint.interface.url, "https://a.example/json");
        assert_eq!(endpoint.interface.protocol_version, ProtocolVersion::V0_3);
        assert_eq!(endpoint.key_header.as_deref(), Some("X-Key"));
    }

    #[test]
    fn unusable_cards_have_distinct_errors() {
        for (card, word) in [
            (json!([]), "not a JSON object"),
            (json!({}), "no supported interface"),
            (json!({"url": "nonsense"}), "no supported interface"),
            (
                json!({"supportedInterfaces": [{"url": "https://a.example", "protocolVersion": "2.0"}]}),
                "no supported interface",
            ),
            (
                json!({"url": "https://a.example", "capabilities": {"extensions": [{"uri": "urn:x", "required": true}]}}),
                "`urn:x`",
            ),
        ] {
            let why = choose(&card).expect_err("unusable");
            assert!(why.contains(word), "{why}");
        }
    }
}
