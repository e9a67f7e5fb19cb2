//! Creates and finds change requests: with `gh` or `glab`, or over the REST API of GitHub, Forgejo and Gitea.

use std::time::Duration;

use cleveragents_outbound::{resolve, secret};
use serde_json::{Value, json};

use super::ChangeRequestError;
use super::programs::Programs;
use super::remote::{Forge, Remote};

/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 4 << 20;

/// A change request to find or create.
pub(super) struct ChangeRequest<'a> {
    pub(super) remote: &'a Remote,
    pub(super) forge: Forge,
    pub(super) branch: &'a str,
    /// The branch into which the changes are to be merged.
    pub(super) base: &'a str,
    pub(super) title: &'a str,
    pub(super) text: &'a str,
}

/// The outcome of finding or creating a change request.
#[derive(Debug)]
pub(super) enum OpenedRequest {
    Existing(String),
    Created(String),
    /// It could not be created, for this reason.
    Impossible(String),
}

impl ChangeRequest<'_> {
    /// Finds the open change request of the branch, or creates it. Passes each command to `on_command` before it runs.
    pub(super) fn open(
        &self,
        programs: &Programs<'_>,
        on_command: &mut dyn FnMut(String),
    ) -> Result<OpenedRequest, ChangeRequestError> {
        let token = |names: &[&str]| {
            let mut found = names.iter().filter_map(|name| (programs.variables)(name));
            found.find(|value| !value.trim().is_empty())
        };
        match self.forge {
            Forge::GitHub if programs.has("gh") => self.with_gh(programs, on_command),
            Forge::GitHub => match token(&["GH_TOKEN", "GITHUB_TOKEN"]) {
                Some(token) => Ok(self.over_rest(&self.github(programs), &token)),
                None => Ok(impossible(
                    "`gh` is not installed, and neither GH_TOKEN nor GITHUB_TOKEN is set",
                )),
            },
            Forge::GitLab if programs.has("glab") => self.with_glab(programs, on_command),
            Forge::GitLab => Ok(impossible("`glab` is not installed")),
            Forge::Forgejo => match token(&["FORGEJO_TOKEN", "GITEA_TOKEN"]) {
                Some(token) => Ok(self.over_rest(&self.forgejo(), &token)),
                None => Ok(impossible("neither FORGEJO_TOKEN nor GITEA_TOKEN is set")),
            },
        }
    }

    fn with_gh(
        &self,
        programs: &Programs<'_>,
        on_command: &mut dyn FnMut(String),
    ) -> Result<OpenedRequest, ChangeRequestError> {
        let repository = format!("{}/{}", self.remote.host, self.remote.path);
        let list = [
            "pr",
            "list",
            "--repo",
            &repository,
            "--head",
            self.branch,
            "--state",
            "open",
            "--json",
            "url",
            "--limit",
            "1",
        ];
        let listed = programs.run("gh", &list, "")?;
        if !listed.is_success {
            return Ok(impossible(&format!(
                "`gh pr list` failed: {}",
                listed.reason()
            )));
        }
        let found: Value = serde_json::from_str(&listed.out).unwrap_or_default();
        if let Some(url) = found[0]["url"].as_str() {
            return Ok(OpenedRequest::Existing(url.to_owned()));
        }
        let create = [
            "pr",
            "create",
            "--repo",
            &repository,
            "--head",
            self.branch,
            "--base",
            self.base,
            "--title",
            self.title,
            "--body-file",
            "-",
        ];
        on_command(shown("gh", &create));
        let created = programs.run("gh", &create, self.text)?;
        Ok(url_in(&created, "gh pr create"))
    }

    fn with_glab(
        &self,
        programs: &Programs<'_>,
        on_command: &mut dyn FnMut(String),
    ) -> Result<OpenedRequest, ChangeRequestError> {
        let repository = format!("https://{}/{}", self.remote.host, self.remote.path);
        let list = [
            "mr",
            "list",
            "--repo",
            &repository,
            "--source-branch",
            self.branch,
            "--output",
            "json",
        ];
        let listed = programs.run("glab", &list, "")?;
        if !listed.is_success {
            return Ok(impossible(&format!(
                "`glab mr list` failed: {}",
                listed.reason()
            )));
        }
        let found: Value = serde_json::from_str(&listed.out).unwrap_or_default();
        if let Some(url) = found[0]["web_url"].as_str() {
            return Ok(OpenedRequest::Existing(url.to_owned()));
        }
        let create = [
            "mr",
            "create",
            "--repo",
            &repository,
            "--source-branch",
            self.branch,
            "--target-branch",
            self.base,
            "--title",
            self.title,
            "--description",
            self.text,
            "--yes",
        ];
        let mut short = create;
        short[11] = "…";
        on_command(shown("glab", &short));
        let created = programs.run("glab", &create, "")?;
        Ok(url_in(&created, "glab mr create"))
    }

    fn github(&self, programs: &Programs<'_>) -> RestApi {
        let host = &self.remote.host;
        let api = (programs.variables)("GITHUB_API_URL").unwrap_or_else(|| {
            if host == "github.com" {
                "https://api.github.com".to_owned()
            } else {
                format!("https://{host}/api/v3")
            }
        });
        let pulls = format!(
            "{}/repos/{}/pulls",
            api.trim_end_matches('/'),
            self.remote.path
        );
        let head = format!("{}:{}", self.remote.owner(), self.branch);
        RestApi {
            find: format!("{pulls}?state=open&head={}", encoded(&head)),
            create: pulls,
            scheme: "Bearer",
            accept: "application/vnd.github+json",
        }
    }

    fn forgejo(&self) -> RestApi {
        let scheme = if self.remote.is_plain_http {
            "http"
        } else {
            "https"
        };
        let (host, path) = (&self.remote.host, &self.remote.path);
        let pulls = format!("{scheme}://{host}/api/v1/repos/{path}/pulls");
        RestApi {
            find: format!("{pulls}?state=open&sort=recentupdate&limit=50"),
            create: pulls,
            scheme: "token",
            accept: "application/json",
        }
    }

    fn over_rest(&self, api: &RestApi, token: &str) -> OpenedRequest {
        let found = match api.call(&api.find, token, None) {
            Ok(found) => found,
            Err(reason) => return impossible(&reason),
        };
        let mut existing = found.as_array().into_iter().flatten();
        let existing = existing
            .find(|request| request["head"]["ref"] == self.branch && request["state"] != "closed");
        if let Some(url) = existing.and_then(|request| request["html_url"].as_str()) {
            return OpenedRequest::Existing(url.to_owned());
        }
        let request = json!({
            "title": self.title, "body": self.text, "head": self.branch, "base": self.base,
        });
        match api.call(&api.create, token, Some(&request)) {
            Ok(created) => match created["html_url"].as_str() {
                Some(url) => OpenedRequest::Created(url.to_owned()),
                None => impossible("the answer of the server has no address"),
            },
            Err(reason) => impossible(&reason),
        }
    }
}

fn impossible(reason: &str) -> OpenedRequest {
    OpenedRequest::Impossible(reason.to_owned())
}

/// The addresses and headers of a REST API.
struct RestApi {
    find: String,
    create: String,
    /// The scheme of the header `Authorization`.
    scheme: &'static str,
    accept: &'static str,
}

impl RestApi {
    /// Sends a request: GET, or POST with a body. The error is a reason for the user.
    fn call(&self, url: &str, token: &str, body: Option<&Value>) -> Result<Value, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(self.send(url, token, body))
    }

    async fn send(&self, url: &str, token: &str, body: Option<&Value>) -> Result<Value, String> {
        // The user chose this server as the remote of the repository, so it may be in a private network.
        let target = resolve(url, true)
            .await
            .map_err(|error| format!("`{url}` cannot be called: {error}"))?;
        let is_here = matches!(
            target.url().host_str(),
            Some("127.0.0.1" | "localhost" | "[::1]")
        );
        if target.url().scheme() != "https" && !is_here {
            return Err(format!(
                "`{url}` is not encrypted, and the request contains a token"
            ));
        }
        let client = target.client(TIMEOUT)?;
        let request = match body {
            None => client.get(target.url().clone()),
            Some(body) => client
                .post(target.url().clone())
                .header("content-type", "application/json")
                .body(body.to_string()),
        };
        let failed = |error: &dyn std::error::Error| {
            format!(
                "`{url}` cannot be called: {}",
                cleveragents_outbound::root_cause(error)
            )
        };
        let mut response = request
            .timeout(TIMEOUT)
            .header(
                "authorization",
                secret(&format!("{} {}", self.scheme, token.trim())),
            )
            .header("accept", self.accept)
            .send()
            .await
            .map_err(|error| failed(&error))?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(&error))? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(format!("the answer of `{url}` is too long"));
            }
            bytes.extend_from_slice(&chunk);
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        Err(format!(
            "`{url}` answered {status}: {}",
            message_of(&answer)
        ))
    }
}

/// The message of an error answer.
fn message_of(answer: &Value) -> String {
    let message = answer["message"].as_str().unwrap_or("no message");
    let mut errors = answer["errors"].as_array().into_iter().flatten();
    let detail = errors.find_map(|error| error["message"].as_str().or(error.as_str()));
    match detail {
        Some(detail) => format!("{message}: {detail}"),
        None => message.to_owned(),
    }
}

/// The outcome of a program that prints the address of the change request.
fn url_in(created: &super::programs::ProgramOutput, command: &str) -> OpenedRequest {
    if !created.is_success {
        return impossible(&format!("`{command}` failed: {}", created.reason()));
    }
    let words = created.out.split_whitespace().rev();
    let mut urls = words.filter(|word| word.starts_with("https://") || word.starts_with("http://"));
    match urls.next() {
        Some(url) => OpenedRequest::Created(url.to_owned()),
        None => impossible(&format!("`{command}` printed no address")),
    }
}

/// Percent-encodes a value of a query.
fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _written = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A command as the user would type it.
pub(super) fn shown(program: &str, arguments: &[&str]) -> String {
    let mut line = program.to_owned();
    for argument in arguments {
        line.push(' ');
        let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:=@+,%…".contains(letter);
        if !argument.is_empty() && argument.chars().all(is_plain) {
            line.push_str(argument);
        } else {
            line.push('\'');
            line.push_str(&argument.replace('\'', "'\\''"));
            line.push('\'');
        }
    }
    line
}
