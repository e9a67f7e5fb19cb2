//! Creates and finds change requests: with `gh` or `glab`, or over the REST API of GitHub, Forgejo and Gitea.

use cleveragents_models::Secret;
use serde_json::{Value, json};

use super::ChangeRequestError;
use super::programs::Programs;
use crate::forge::{
    FORGEJO_TOKENS, Forge, GITHUB_TOKENS, Method, Remote, RestApi, forgejo_api, github_api,
    percent_encoded,
};

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
            Forge::GitHub => match token(GITHUB_TOKENS) {
                Some(token) => {
                    let base = github_api(&self.remote.host, &**programs.variables);
                    Ok(self.over_rest(&RestApi::github(&base, Secret::new(token))))
                }
                None => Ok(impossible(
                    "`gh` is not installed, and neither GH_TOKEN nor GITHUB_TOKEN is set",
                )),
            },
            Forge::GitLab if programs.has("glab") => self.with_glab(programs, on_command),
            Forge::GitLab => Ok(impossible("`glab` is not installed")),
            Forge::Forgejo => match token(FORGEJO_TOKENS) {
                Some(token) => {
                    let base = forgejo_api(&self.remote.host, self.remote.is_plain_http);
                    Ok(self.over_rest(&RestApi::forgejo(&base, Secret::new(token))))
                }
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
        on_command(command_line("gh", &create));
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
        on_command(command_line("glab", &short));
        let created = programs.run("glab", &create, "")?;
        Ok(url_in(&created, "glab mr create"))
    }

    /// The open change requests of the branch, on the first page.
    fn find_path(&self) -> String {
        let pulls = self.pulls_path();
        match self.forge {
            Forge::GitHub => {
                let head = format!("{}:{}", self.remote.owner(), self.branch);
                format!("{pulls}?state=open&head={}", percent_encoded(&head))
            }
            Forge::GitLab | Forge::Forgejo => {
                format!("{pulls}?state=open&sort=recentupdate&limit=50")
            }
        }
    }

    fn pulls_path(&self) -> String {
        format!("/repos/{}/pulls", self.remote.path)
    }

    fn over_rest(&self, api: &RestApi) -> OpenedRequest {
        let found = match api.get(&self.find_path()) {
            Ok(found) => found.body,
            Err(error) => return impossible(&error.to_string()),
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
        match api.send(Method::Post, &self.pulls_path(), Some(&request)) {
            Ok(created) => match created.body["html_url"].as_str() {
                Some(url) => OpenedRequest::Created(url.to_owned()),
                None => impossible("the answer of the server has no address"),
            },
            Err(error) => impossible(&error.to_string()),
        }
    }
}

fn impossible(reason: &str) -> OpenedRequest {
    OpenedRequest::Impossible(reason.to_owned())
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

/// A command as the user would type it.
pub(super) fn command_line(program: &str, arguments: &[&str]) -> String {
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
