//! The card of a remote agent: what it says of itself, as far as calling it needs it.

use reqwest::Url;
use serde_json::Value;

/// How an agent is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    /// Where, without a slash at the end.
    pub(super) url: String,
    pub(super) binding: Binding,
    pub(super) version: Version,
    /// Which of several agents at that address.
    pub(super) tenant: Option<String>,
}

/// In which form requests go over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    JsonRpc,
    Http,
}

/// Which version of the protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 1.0.
    Current,
    /// 0.3.
    Old,
}

/// What a card says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) interface: Interface,
    /// Whether answers can come piece by piece.
    pub(super) streams: bool,
    /// The header that carries the token; `Authorization: Bearer …` when not given.
    pub(super) key_header: Option<String>,
}

/// Reads a card; says what is wrong with one that is of no use.
pub(super) fn read(card: &Value) -> Result<Card, String> {
    if !card.is_object() {
        return Err("its card is not a JSON object".to_owned());
    }
    let capabilities = &card["capabilities"];
    let extensions = capabilities["extensions"].as_array();
    let mut required = extensions.into_iter().flatten();
    if let Some(extension) = required.find(|extension| extension["required"] == true) {
        let uri = extension["uri"].as_str().unwrap_or("without a name");
        return Err(format!(
            "it wants callers to know the extension `{uri}`, and this program does not"
        ));
    }
    let all = interfaces(card);
    // The first of the newest version: agents put the one they like best first.
    let current = all.iter().find(|one| one.version == Version::Current);
    let old = all
        .iter()
        .find(|one| one.version == Version::Old && one.binding == Binding::JsonRpc);
    let Some(interface) = current.or(old) else {
        return Err(
            "its card names no way to call it that is known here: JSONRPC or HTTP+JSON of version 1.0, or \
             JSONRPC of version 0.3"
                .to_owned(),
        );
    };
    Ok(Card {
        interface: interface.clone(),
        streams: capabilities["streaming"] == true,
        key_header: key_header(card),
    })
}

/// The ways to call an agent that are known here, in the order of its card.
fn interfaces(card: &Value) -> Vec<Interface> {
    let mut found = Vec::new();
    for written in card["supportedInterfaces"].as_array().into_iter().flatten() {
        found.extend(interface(
            &written["url"],
            &written["protocolBinding"],
            &written["protocolVersion"],
            &written["tenant"],
        ));
    }
    // The form that cards had before.
    let version = &card["protocolVersion"];
    let transport = &card["preferredTransport"];
    found.extend(interface(&card["url"], transport, version, &Value::Null));
    for written in card["additionalInterfaces"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let (url, transport) = (&written["url"], &written["transport"]);
        found.extend(interface(url, transport, version, &Value::Null));
    }
    found
}

fn interface(url: &Value, binding: &Value, version: &Value, tenant: &Value) -> Option<Interface> {
    let url = url.as_str()?;
    let binding = match binding.as_str() {
        None | Some("JSONRPC") => Binding::JsonRpc,
        Some("HTTP+JSON") => Binding::Http,
        Some(_) => return None,
    };
    let version = match version.as_str().unwrap_or("0.3").split('.').next() {
        Some("1") => Version::Current,
        Some("0") => Version::Old,
        _ => return None,
    };
    Url::parse(url).ok()?;
    Some(Interface {
        url: url.trim_end_matches('/').to_owned(),
        binding,
        version,
        tenant: tenant
            .as_str()
            .filter(|tenant| !tenant.is_empty())
            .map(str::to_owned),
    })
}

/// The header of an agent that wants its token elsewhere than agents usually do.
fn key_header(card: &Value) -> Option<String> {
    let schemes = card["securitySchemes"].as_object()?;
    let is_bearer = |scheme: &Value| {
        let current = &scheme["httpAuthSecurityScheme"]["scheme"];
        let old = &scheme["scheme"];
        [current, old].iter().any(|word| {
            word.as_str()
                .is_some_and(|word| word.eq_ignore_ascii_case("bearer"))
        }) || scheme.get("oauth2SecurityScheme").is_some()
            || scheme.get("openIdConnectSecurityScheme").is_some()
    };
    if schemes.values().any(is_bearer) {
        return None;
    }
    schemes.values().find_map(|scheme| {
        let current = &scheme["apiKeySecurityScheme"];
        let (key, place) = match current {
            Value::Object(_) => (current, &current["location"]),
            _ => (scheme, &scheme["in"]),
        };
        let is_header = place.as_str() == Some("header");
        is_header.then(|| key["name"].as_str().map(str::to_owned))?
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Binding, Version, read};

    #[test]
    fn the_newest_version_is_chosen_and_of_it_the_first_way() {
        let card = json!({"capabilities": {"streaming": true}, "supportedInterfaces": [
            {"url": "https://a.example/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "https://a.example/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
            {"url": "https://a.example/rest/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "t"},
            {"url": "https://a.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        ]});
        let card = read(&card).expect("a card");
        assert_eq!(card.interface.url, "https://a.example/rest");
        assert_eq!(card.interface.binding, Binding::Http);
        assert_eq!(card.interface.tenant.as_deref(), Some("t"));
        assert!(card.streams);
        assert_eq!(card.key_header, None);
    }

    #[test]
    fn cards_of_the_version_before_are_read() {
        let card = json!({"url": "https://a.example/rpc", "protocolVersion": "0.3.0", "preferredTransport": "GRPC",
            "additionalInterfaces": [{"url": "https://a.example/rest", "transport": "HTTP+JSON"},
                {"url": "https://a.example/json", "transport": "JSONRPC"}],
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}});
        let card = read(&card).expect("a card");
        assert_eq!(card.interface.url, "https://a.example/json");
        assert_eq!(card.interface.version, Version::Old);
        assert_eq!(card.key_header.as_deref(), Some("X-Key"));
    }

    #[test]
    fn cards_of_no_use_are_told_apart() {
        for (card, word) in [
            (json!([]), "not a JSON object"),
            (json!({}), "no way to call it"),
            (json!({"url": "nonsense"}), "no way to call it"),
            (
                json!({"supportedInterfaces": [{"url": "https://a.example", "protocolVersion": "2.0"}]}),
                "no way to call it",
            ),
            (
                json!({"url": "https://a.example", "capabilities": {"extensions": [{"uri": "urn:x", "required": true}]}}),
                "`urn:x`",
            ),
        ] {
            let why = read(&card).expect_err("of no use");
            assert!(why.contains(word), "{why}");
        }
    }
}
