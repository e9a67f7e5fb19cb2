//! [`Callers`]: identifies the caller of a request. Tokens are looked up by the hash of their secret and cached for one
//! second, so a token that any process revokes is refused within a second. The audit log records the first use of each
//! token by each server process.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cleveragents_application::{Services, Token};
use cleveragents_domain::identity::Caller;
use cleveragents_domain::{Code, ContentHash, TokenId, hint, suggest};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST, ORIGIN};

use crate::options::Options;
use crate::problem::Problem;

/// Maximum age of a cached token lookup.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// Maximum number of cached tokens.
const CACHE_SIZE: usize = 10_000;

/// Maximum number of requests per second (and in a burst) without a valid token from one address.
const MAX_FAILURES: NonZeroU32 = NonZeroU32::new(20).unwrap();

type Hash = String;

/// Identifies callers by their tokens and limits their request rates.
pub(crate) struct Callers {
    services: Services,
    insecure_local: bool,
    cache: Mutex<HashMap<Hash, CachedToken>>,
    /// Tokens that this server process has accepted.
    accepted: Arc<Mutex<HashSet<TokenId>>>,
    rate: Option<DefaultKeyedRateLimiter<String>>,
    failure_rate: DefaultKeyedRateLimiter<IpAddr>,
    local: Arc<Caller>,
}

#[derive(Clone)]
struct CachedToken {
    caller: Option<Arc<Caller>>,
    cached_at: Instant,
}

impl Callers {
    pub(crate) fn new(services: Services, options: &Options) -> Self {
        let rate = NonZeroU32::new(options.requests_per_second).map(|rate| {
            let burst = rate.saturating_mul(NonZeroU32::MIN.saturating_add(1));
            RateLimiter::keyed(Quota::per_second(rate).allow_burst(burst))
        });
        Self {
            local: Arc::new(Caller::local(services.identity())),
            services,
            insecure_local: options.insecure_local,
            cache: Mutex::default(),
            accepted: Arc::default(),
            rate,
            failure_rate: RateLimiter::keyed(Quota::per_second(MAX_FAILURES)),
        }
    }

    /// Identifies the caller of a request. Fails if the token is missing or invalid, or if the caller exceeds its rate.
    pub(crate) async fn identify(
        &self,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Result<Arc<Caller>, Problem> {
        let caller = match secret(headers) {
            Some(secret) => self.with_token(&secret, peer.ip()).await?,
            None if self.insecure_local && is_local(headers, peer) => Arc::clone(&self.local),
            None => return Err(self.refused(peer.ip())),
        };
        if let Some(rate) = &self.rate
            && let Err(wait) = rate.check_key(&caller.identity().to_owned())
        {
            return Err(too_many(wait.wait_time_from(DefaultClock::default().now())));
        }
        Ok(caller)
    }

    async fn with_token(&self, secret: &str, address: IpAddr) -> Result<Arc<Caller>, Problem> {
        let hash = ContentHash::of_bytes(secret.as_bytes()).hex();
        let cached = {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.get(&hash).cloned()
        };
        let resolved = match cached {
            Some(token) if token.cached_at.elapsed() < CACHE_TIME => token.caller,
            _ => self.look_up(hash, address).await?,
        };
        resolved.ok_or_else(|| self.refused(address))
    }

    /// The problem for a caller without a valid token. Each rejection is recorded in the audit log, so the rate of
    /// rejections is limited.
    fn refused(&self, address: IpAddr) -> Problem {
        if self.failure_rate.len() > CACHE_SIZE {
            self.failure_rate.retain_recent();
        }
        match self.failure_rate.check_key(&address) {
            Ok(()) => unauthenticated(),
            Err(wait) => too_many(wait.wait_time_from(DefaultClock::default().now())),
        }
    }

    async fn look_up(&self, hash: Hash, from: IpAddr) -> Result<Option<Arc<Caller>>, Problem> {
        let (services, token_hash) = (self.services.clone(), hash.clone());
        let accepted = Arc::clone(&self.accepted);
        let resolved = crate::blocking(move || {
            let Some(token) = services.tokens().authenticate(&token_hash)? else {
                return Ok(None);
            };
            record_first_use(&services, &accepted, &token, from)?;
            Ok::<_, Problem>(Some(Arc::new(Caller::with_token(
                token.name,
                token.grants,
                token.scopes,
            ))))
        })
        .await?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHE_SIZE {
            cache.retain(|_, token| token.cached_at.elapsed() < CACHE_TIME);
            if cache.len() >= CACHE_SIZE {
                cache.clear();
            }
        }
        cache.insert(
            hash,
            CachedToken {
                caller: resolved.clone(),
                cached_at: Instant::now(),
            },
        );
        Ok(resolved)
    }
}

/// Records the first time that this server process accepts a token.
fn record_first_use(
    services: &Services,
    accepted: &Mutex<HashSet<TokenId>>,
    token: &Token,
    from: IpAddr,
) -> Result<(), Problem> {
    let accepted = || accepted.lock().unwrap_or_else(PoisonError::into_inner);
    if !accepted().insert(token.id) {
        return Ok(());
    }
    let recorded = services.audit().authentication_succeeded(token, from);
    if let Err(error) = recorded {
        accepted().remove(&token.id);
        return Err(error.into());
    }
    Ok(())
}

fn unauthenticated() -> Problem {
    Problem::new(Code::Unauthenticated, "the request has no valid token").with_hint(hint!(
        "send `Authorization: Bearer TOKEN`; {} creates a token",
        suggest::token_create()
    ))
}

fn too_many(wait: Duration) -> Problem {
    Problem::new(
        Code::TooManyRequests,
        "this caller exceeds its request rate",
    )
    .after(wait.as_secs().max(1))
}

/// The credentials of a streamed request. The stream checks them again, because roles change and tokens are revoked
/// while it runs.
pub(crate) struct Credentials {
    headers: HeaderMap,
    peer: SocketAddr,
}

impl Credentials {
    pub(crate) fn from_request(headers: &HeaderMap, peer: SocketAddr) -> Self {
        let header_names = [AUTHORIZATION, HOST, ORIGIN].into_iter();
        Self {
            headers: header_names
                .filter_map(|name| Some((name.clone(), headers.get(&name)?.clone())))
                .collect(),
            peer,
        }
    }

    /// The caller with its current roles; `None` if the request would be rejected now.
    pub(crate) async fn caller(&self, callers: &Callers) -> Option<Arc<Caller>> {
        callers.identify(&self.headers, self.peer).await.ok()
    }
}

/// The bearer token of a request.
fn secret(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = text.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| secret.trim().to_owned())
}

/// True if a request comes from a program on this machine. A page in a browser on this machine can send requests too;
/// its `Host` or `Origin` header identifies it.
fn is_local(headers: &HeaderMap, peer: SocketAddr) -> bool {
    let is_loopback_name = |text: &str| {
        let host = text
            .trim_start_matches("http://")
            .trim_start_matches("https://");
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => host.split(':').next(),
        };
        host.is_some_and(|host| {
            host.eq_ignore_ascii_case("localhost")
                || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        })
    };
    let is_local_or_absent = |name| {
        headers
            .get(name)
            .is_none_or(|value| value.to_str().is_ok_and(is_loopback_name))
    };
    peer.ip().is_loopback() && is_local_or_absent(&HOST) && is_local_or_absent(&ORIGIN)
}

#[cfg(test)]
mod tests {
    use super::is_local;
    use http::HeaderMap;
    use http::header::{HOST, ORIGIN};

    fn headers(pairs: &[(http::HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn a_page_in_a_browser_is_not_a_program_on_this_machine() {
        let here = "127.0.0.1:9".parse().expect("an address");
        let elsewhere = "192.0.2.1:9".parse().expect("an address");
        for host in ["localhost:8420", "127.0.0.1", "[::1]:8420"] {
            assert!(is_local(&headers(&[(HOST, host)]), here), "{host}");
            assert!(!is_local(&headers(&[(HOST, host)]), elsewhere), "{host}");
        }
        assert!(is_local(&headers(&[]), here));
        let rebound = [(HOST, "evil.example:8420")];
        assert!(!is_local(&headers(&rebound), here));
        let crossing = [(HOST, "localhost:8420"), (ORIGIN, "https://evil.example")];
        assert!(!is_local(&headers(&crossing), here));
        let own = [(HOST, "localhost:8420"), (ORIGIN, "http://localhost:8420")];
        assert!(is_local(&headers(&own), here));
    }
}
