//! Calls to the REST APIs of hosting services: GitHub, Forgejo and Gitea.
//!
//! Shared by change requests and trackers. Tokens are sent in a header that is never logged, only over TLS or to this
//! machine, and are removed from the texts of answers.

mod client;
mod remote;

pub(crate) use client::{Method, RestApi, RestError, RestResponse, percent_encoded};
pub(crate) use remote::{Forge, Remote};

/// Environment variables and keyring entries that may hold a token of GitHub, in the order in which they are tried.
pub(crate) const GITHUB_TOKENS: &[&str] = &["GH_TOKEN", "GITHUB_TOKEN"];

/// The same for Forgejo and Gitea.
pub(crate) const FORGEJO_TOKENS: &[&str] = &["FORGEJO_TOKEN", "GITEA_TOKEN"];

/// The address of the REST API of GitHub for a host.
pub(crate) fn github_api(host: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let api = variable("GITHUB_API_URL").unwrap_or_else(|| {
        if host == "github.com" {
            "https://api.github.com".to_owned()
        } else {
            format!("https://{host}/api/v3")
        }
    });
    api.trim_end_matches('/').to_owned()
}

/// The address of the REST API of Forgejo or Gitea for a host.
pub(crate) fn forgejo_api(host: &str, is_plain_http: bool) -> String {
    let scheme = if is_plain_http { "http" } else { "https" };
    format!("{scheme}://{host}/api/v1")
}
