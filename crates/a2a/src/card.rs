//! [`AgentCard`]: the description of an agent: its endpoints, authentication and capabilities.
//!
//! Serialized as 1.0 ([`crate::v0_3::card`] converts to 0.3); parsed from cards of both versions, requiring only what a
//! client needs.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::method::ProtocolVersion;

/// Transport binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Binding {
    /// JSON-RPC over HTTP.
    #[serde(rename = "JSONRPC")]
    JsonRpc,
    /// REST-like paths with JSON over HTTP.
    #[serde(rename = "HTTP+JSON")]
    HttpJson,
}

impl Binding {
    /// Name on a card.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }

    /// Parses a binding. A card that names none means JSON-RPC.
    fn read(value: &Value) -> Option<Self> {
        match value.as_str() {
            None => Some(Self::JsonRpc),
            Some(name) => [Self::JsonRpc, Self::HttpJson]
                .into_iter()
                .find(|binding| binding.as_str() == name),
        }
    }
}

/// An endpoint of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct AgentInterface {
    /// URL of the endpoint, without a trailing slash.
    pub url: String,
    pub protocol_binding: Binding,
    #[serde(serialize_with = "serialize_version")]
    pub protocol_version: ProtocolVersion,
    /// Selects one of several agents at the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field by reference"
)]
fn serialize_version<S: Serializer>(
    version: &ProtocolVersion,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(version.as_str())
}

/// Capabilities of an agent beyond answering messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct AgentCapabilities {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub streaming: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub push_notifications: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub extended_agent_card: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<AgentExtension>,
}

/// An extension of the protocol.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct AgentExtension {
    pub uri: String,
    pub description: String,
    /// Whether the agent serves only clients that support the extension.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct AgentSkill {
    pub id: String,
    pub name: String,
    pub tags: Vec<String>,
    pub description: String,
}

/// Authentication method of clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum SecurityScheme {
    /// The `Authorization` header, with a scheme such as `Bearer`.
    #[serde(rename = "httpAuthSecurityScheme")]
    HttpAuth {
        /// Name of the scheme.
        scheme: String,
    },
    /// A key in a header, a query parameter or a cookie.
    #[serde(rename = "apiKeySecurityScheme")]
    ApiKey {
        /// `header`, `query` or `cookie`.
        location: String,
        /// Name of the header, parameter or cookie.
        name: String,
    },
    /// OAuth 2.0, whose tokens are sent as `Bearer`.
    #[serde(rename = "oauth2SecurityScheme")]
    OAuth2 {},
    /// OpenID Connect, whose tokens are sent as `Bearer`.
    #[serde(rename = "openIdConnectSecurityScheme")]
    OpenIdConnect {},
}

impl SecurityScheme {
    /// Parses a scheme of either version; `None` for an unknown kind.
    fn read(scheme: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let http_scheme = text(&scheme["httpAuthSecurityScheme"]["scheme"]);
        if let Some(scheme) = http_scheme.or_else(|| text(&scheme["scheme"])) {
            return Some(Self::HttpAuth { scheme });
        }
        if scheme.get("oauth2SecurityScheme").is_some() {
            return Some(Self::OAuth2 {});
        }
        if scheme.get("openIdConnectSecurityScheme").is_some() {
            return Some(Self::OpenIdConnect {});
        }
        let key_v1 = &scheme["apiKeySecurityScheme"];
        let (key, location) = match key_v1 {
            Value::Object(_) => (key_v1, &key_v1["location"]),
            _ => (scheme, &scheme["in"]),
        };
        Some(Self::ApiKey {
            location: text(location)?,
            name: text(&key["name"])?,
        })
    }

    /// Whether the token is sent as `Authorization: Bearer …`.
    fn is_bearer(&self) -> bool {
        match self {
            Self::HttpAuth { scheme } => scheme.eq_ignore_ascii_case("bearer"),
            Self::OAuth2 {} | Self::OpenIdConnect {} => true,
            Self::ApiKey { .. } => false,
        }
    }
}

/// A scheme by which a client must authenticate, and the scopes that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct SecurityRequirement {
    pub scheme: String,
    pub scopes: Vec<String>,
}

impl Serialize for SecurityRequirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Scopes<'a> {
            list: &'a [String],
        }
        let list = &self.scopes;
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(
            "schemes",
            &BTreeMap::from([(&self.scheme, Scopes { list })]),
        )?;
        map.end()
    }
}

/// Description of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct AgentCard {
    pub name: String,
    pub description: String,
    pub version: String,
    /// Endpoints, in the order that the agent prefers.
    pub supported_interfaces: Vec<AgentInterface>,
    pub capabilities: AgentCapabilities,
    pub default_input_modes: Vec<String>,
    pub default_output_modes: Vec<String>,
    pub skills: Vec<AgentSkill>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
}

impl AgentCard {
    /// Parses the parts of a card, of either version, that a client needs: name, interfaces, capabilities and security
    /// schemes. Skips unknown entries. `None` when the card is not an object.
    pub fn read(card: &Value) -> Option<Self> {
        if !card.is_object() {
            return None;
        }
        let capabilities = &card["capabilities"];
        let extensions = capabilities["extensions"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let schemes = card["securitySchemes"].as_object().into_iter().flatten();
        Some(Self {
            name: text(&card["name"]),
            description: text(&card["description"]),
            version: text(&card["version"]),
            supported_interfaces: interfaces(card),
            capabilities: AgentCapabilities {
                streaming: capabilities["streaming"] == true,
                push_notifications: capabilities["pushNotifications"] == true,
                extended_agent_card: capabilities["extendedAgentCard"] == true,
                extensions: extensions
                    .map(|extension| AgentExtension {
                        uri: text(&extension["uri"]),
                        description: text(&extension["description"]),
                        required: extension["required"] == true,
                        params: extension.get("params").cloned(),
                    })
                    .collect(),
            },
            security_schemes: schemes
                .filter_map(|(name, scheme)| Some((name.clone(), SecurityScheme::read(scheme)?)))
                .collect(),
            ..Self::default()
        })
    }

    /// The header that carries a client's token, when the agent expects it in a header other than `Authorization:
    /// Bearer …`.
    pub fn api_key_header(&self) -> Option<&str> {
        if self
            .security_schemes
            .values()
            .any(SecurityScheme::is_bearer)
        {
            return None;
        }
        self.security_schemes
            .values()
            .find_map(|scheme| match scheme {
                SecurityScheme::ApiKey { location, name } if location == "header" => {
                    Some(name.as_str())
                }
                _ => None,
            })
    }
}

/// The known interfaces of a card of either version, in the order of the card.
fn interfaces(card: &Value) -> Vec<AgentInterface> {
    let mut known = Vec::new();
    for entry in card["supportedInterfaces"].as_array().into_iter().flatten() {
        known.extend(interface(
            &entry["url"],
            &entry["protocolBinding"],
            &entry["protocolVersion"],
            &entry["tenant"],
        ));
    }
    let version = &card["protocolVersion"];
    let transport = &card["preferredTransport"];
    known.extend(interface(&card["url"], transport, version, &Value::Null));
    for entry in card["additionalInterfaces"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let (url, transport) = (&entry["url"], &entry["transport"]);
        known.extend(interface(url, transport, version, &Value::Null));
    }
    known
}

fn interface(
    url: &Value,
    binding: &Value,
    version: &Value,
    tenant: &Value,
) -> Option<AgentInterface> {
    Some(AgentInterface {
        url: url.as_str()?.trim_end_matches('/').to_owned(),
        protocol_binding: Binding::read(binding)?,
        protocol_version: ProtocolVersion::of_card(version.as_str())?,
        tenant: tenant
            .as_str()
            .filter(|tenant| !tenant.is_empty())
            .map(str::to_owned),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::{
        AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Binding,
        SecurityRequirement, SecurityScheme,
    };
    use crate::method::ProtocolVersion;
    use serde_json::json;

    pub(crate) fn card() -> AgentCard {
        let interface = |path: &str, protocol_binding| AgentInterface {
            url: format!("https://a.example{path}"),
            protocol_binding,
            protocol_version: ProtocolVersion::V1_0,
            tenant: None,
        };
        AgentCard {
            name: "Agent".to_owned(),
            description: "Answers".to_owned(),
            version: "1.2.3".to_owned(),
            supported_interfaces: vec![
                interface("/a2a", Binding::JsonRpc),
                interface("/a2a/v1", Binding::HttpJson),
            ],
            capabilities: AgentCapabilities {
                streaming: true,
                push_notifications: true,
                extended_agent_card: true,
                extensions: vec![AgentExtension {
                    uri: "urn:x".to_owned(),
                    description: "More".to_owned(),
                    ..AgentExtension::default()
                }],
            },
            default_input_modes: vec!["text/plain".to_owned()],
            default_output_modes: vec!["text/plain".to_owned()],
            skills: vec![AgentSkill {
                id: "chat".to_owned(),
                name: "Chat".to_owned(),
                tags: vec!["chat".to_owned()],
                description: "Chats".to_owned(),
            }],
            security_schemes: BTreeMap::from([(
                "bearer".to_owned(),
                SecurityScheme::HttpAuth {
                    scheme: "Bearer".to_owned(),
                },
            )]),
            security_requirements: vec![SecurityRequirement {
                scheme: "bearer".to_owned(),
                scopes: Vec::new(),
            }],
        }
    }

    #[test]
    fn a_card_serializes_as_the_protocol_defines() {
        assert_eq!(
            json!(card()),
            json!({
                "name": "Agent", "description": "Answers", "version": "1.2.3",
                "supportedInterfaces": [
                    {"url": "https://a.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                    {"url": "https://a.example/a2a/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
                ],
                "capabilities": {
                    "streaming": true, "pushNotifications": true, "extendedAgentCard": true,
                    "extensions": [{"uri": "urn:x", "description": "More"}],
                },
                "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
                "skills": [{"id": "chat", "name": "Chat", "tags": ["chat"], "description": "Chats"}],
                "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
                "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
            })
        );
        let no_capabilities = json!(AgentCapabilities::default());
        assert_eq!(no_capabilities, json!({}));
    }

    #[test]
    fn a_client_reads_the_cards_that_a_server_writes() {
        let written = card();
        let read = AgentCard::read(&json!(written)).expect("a card");
        assert_eq!(read.supported_interfaces, written.supported_interfaces);
        assert_eq!(read.capabilities, written.capabilities);
        assert_eq!(read.security_schemes, written.security_schemes);
        let old = AgentCard::read(&crate::v0_3::card(&written)).expect("a card");
        assert_eq!(old.capabilities.streaming, written.capabilities.streaming);
        let [interface, ..] = old.supported_interfaces.as_slice() else {
            panic!("no interface");
        };
        assert_eq!(interface.url, "https://a.example/a2a");
        assert_eq!(interface.protocol_version, ProtocolVersion::V0_3);
        assert_eq!(old.api_key_header(), None);
    }

    #[test]
    fn a_key_header_is_used_only_without_bearer_authentication() {
        let read_card =
            |schemes| AgentCard::read(&json!({"securitySchemes": schemes})).expect("a card");
        let old = json!({"type": "apiKey", "in": "header", "name": "X-Key"});
        let current = json!({"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}});
        for key in [old, current] {
            assert_eq!(read_card(json!({"k": key})).api_key_header(), Some("X-Key"));
            let both = read_card(json!({"k": key, "o": {"oauth2SecurityScheme": {}}}));
            assert_eq!(both.api_key_header(), None);
        }
        let cookie = json!({"k": {"type": "apiKey", "in": "cookie", "name": "c"}});
        assert_eq!(read_card(cookie).api_key_header(), None);
    }
}
