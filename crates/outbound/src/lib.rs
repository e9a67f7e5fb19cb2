//! Outbound HTTP calls: trusted certificates, causes of errors, and a check that refuses addresses of private networks
//! in URLs from third parties.
//!
//! The host name of such a URL is resolved once, each of its addresses is checked, and the connection uses only these
//! addresses, so that the name cannot resolve to another machine after the check. Redirects are not followed.

pub mod sse;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, RequestBuilder, Url};

/// Reason why a URL is refused or cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is not an `http` or `https` URL.
    #[error("it is not an http or https URL")]
    Malformed,
    /// It contains credentials, which must not be part of a URL.
    #[error("it contains a user name or a password")]
    Credentials,
    /// It is not encrypted.
    #[error("it is not https")]
    Insecure,
    /// It belongs to a private network or to this machine.
    #[error("it is an address of a private network or of this machine")]
    Private,
    /// Its host name cannot be resolved.
    #[error("its host name cannot be resolved")]
    Unresolved,
}

/// Checks a URL without resolving its host name.
pub fn check(url: &str, allows_private: bool) -> Result<Url, AddressError> {
    let url = Url::parse(url).map_err(|_| AddressError::Malformed)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(AddressError::Malformed);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Credentials);
    }
    let host = url.host_str().ok_or(AddressError::Malformed)?;
    if allows_private {
        return Ok(url);
    }
    if url.scheme() != "https" {
        return Err(AddressError::Insecure);
    }
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let name = plain.trim_end_matches('.').to_ascii_lowercase();
    let is_this_machine = name == "localhost" || name.ends_with(".localhost");
    if is_this_machine || plain.parse().is_ok_and(is_private) {
        return Err(AddressError::Private);
    }
    Ok(url)
}

/// A checked URL with its resolved addresses.
pub struct Target {
    url: Url,
    host: String,
    addresses: Vec<SocketAddr>,
}

/// Resolves a URL and checks all its addresses.
pub async fn resolve(url: &str, allows_private: bool) -> Result<Target, AddressError> {
    let url = check(url, allows_private)?;
    let host = url.host_str().ok_or(AddressError::Malformed)?.to_owned();
    let port = url.port_or_known_default().ok_or(AddressError::Malformed)?;
    let plain = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let resolved = tokio::net::lookup_host((plain, port))
        .await
        .map_err(|_| AddressError::Unresolved)?;
    let addresses: Vec<SocketAddr> = resolved.collect();
    if addresses.is_empty() {
        return Err(AddressError::Unresolved);
    }
    // One private address is enough to refuse the URL, because the connection may use any of the addresses.
    if !allows_private && addresses.iter().any(|address| is_private(address.ip())) {
        return Err(AddressError::Private);
    }
    Ok(Target {
        url,
        host,
        addresses,
    })
}

impl Target {
    /// Creates a POST request to this target and to no other.
    pub fn post(&self, timeout: Duration) -> Result<RequestBuilder, String> {
        let builder = self.builder()?.timeout(timeout).pool_max_idle_per_host(0);
        let client = builder.build().map_err(|_| NO_CLIENT.to_owned())?;
        Ok(client.post(self.url.clone()))
    }

    /// Creates a client for several requests to the host of this target; it reuses connections. The client resolves
    /// other hosts without a check, so callers must not use it for URLs of other hosts.
    pub fn client(&self, timeout: Duration) -> Result<Client, String> {
        let builder = self.builder()?.connect_timeout(timeout).tcp_nodelay(true);
        builder.build().map_err(|_| NO_CLIENT.to_owned())
    }

    /// The checked URL.
    pub const fn url(&self) -> &Url {
        &self.url
    }

    fn builder(&self) -> Result<ClientBuilder, String> {
        Ok(Client::builder()
            .tls_backend_preconfigured(tls(self.url.scheme() == "https")?)
            .redirect(Policy::none())
            .no_proxy()
            .resolve_to_addrs(&self.host, &self.addresses)
            .user_agent(concat!("cleveragents/", env!("CARGO_PKG_VERSION"))))
    }
}

const NO_CLIENT: &str = "the HTTP client cannot be created";

/// Creates a header value that is never logged. A text that is not a valid header value becomes empty.
pub fn secret(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// Creates a TLS configuration that trusts the root certificates of the system. Without `is_secure` it trusts none:
/// plain HTTP requests need a configuration but do not use it.
pub fn tls(is_secure: bool) -> Result<rustls::ClientConfig, String> {
    // Read once, because reading the certificates takes time.
    static ROOTS: OnceLock<Arc<rustls::RootCertStore>> = OnceLock::new();
    let roots = if is_secure {
        Arc::clone(ROOTS.get_or_init(|| {
            let mut roots = rustls::RootCertStore::empty();
            // Unreadable certificates are skipped; the others are still trusted.
            let (_added, _ignored) =
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        }))
    } else {
        Arc::new(rustls::RootCertStore::empty())
    };
    if is_secure && roots.is_empty() {
        return Err("the system has no root certificates to trust".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// Message of the innermost source of an error. The outer errors only repeat it, or name the URL.
pub fn root_cause(error: &dyn Error) -> String {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current.to_string()
}

/// Whether an address belongs to this machine or a private network, or is unspecified or reserved.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || first == 0
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (second == 18 || second == 19))
        || first >= 240
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let to_v4 = |high: u16, low: u16| {
        let [first, second] = high.to_be_bytes();
        let [third, fourth] = low.to_be_bytes();
        Ipv4Addr::new(first, second, third, fourth)
    };
    // IPv4 addresses embedded in IPv6: mapped, compatible, 6to4 and translated.
    let embedded = match segments {
        [0, 0, 0, 0, 0, 0xffff | 0, high, lower] | [0x64, 0xff9b, 0, 0, 0, 0, high, lower] => {
            Some(to_v4(high, lower))
        }
        [0x2002, high, lower, ..] => Some(to_v4(high, lower)),
        _ => None,
    };
    let [first, second, ..] = segments;
    embedded.is_some_and(is_private_v4)
        || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        // Unique local, link-local and site-local.
        || first & 0xfe00 == 0xfc00
        || first & 0xff80 == 0xfe80
        // Documentation, Teredo, and translation within a network.
        || (first == 0x2001 && (second == 0xdb8 || second == 0))
        || (first == 0x64 && second == 0xff9b && segments.get(2) == Some(&1))
}

#[cfg(test)]
mod tests {
    use super::{AddressError, check, is_private, resolve};

    #[test]
    fn private_addresses_are_detected() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
        ] {
            assert!(
                is_private(address.parse().expect("an address")),
                "{address}"
            );
        }
        for address in [
            "93.184.216.34",
            "172.32.0.1",
            "100.128.0.1",
            "2606:2800:220:1::1",
        ] {
            assert!(
                !is_private(address.parse().expect("an address")),
                "{address}"
            );
        }
    }

    #[test]
    fn forbidden_addresses_are_refused_without_dns() {
        let refused = |url| check(url, false).expect_err(url);
        for url in [
            "ftp://example.com",
            "file:///etc/passwd",
            "nonsense",
            "https://",
        ] {
            assert_eq!(refused(url), AddressError::Malformed, "{url}");
        }
        for url in [
            "https://localhost/x",
            "https://LOCALHOST./",
            "https://a.localhost",
            "https://127.0.0.1",
            "https://[::1]:8443",
            "https://[::ffff:10.0.0.1]",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://017700000001",
        ] {
            assert_eq!(refused(url), AddressError::Private, "{url}");
        }
        assert_eq!(refused("http://example.com"), AddressError::Insecure);
        assert_eq!(
            refused("https://u:p@example.com"),
            AddressError::Credentials
        );
        assert!(check("https://example.com/hook", false).is_ok());
        assert!(check("http://localhost:1/hook", true).is_ok());
    }

    #[test]
    fn resolved_addresses_are_checked_too() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let resolved = resolve("http://localhost:1/", true).await;
            assert!(resolved.is_ok_and(|target| !target.addresses.is_empty()));
            let refused = resolve("https://localhost:1/", false).await;
            assert!(matches!(refused, Err(AddressError::Private)));
        });
    }
}
