//! Agents on other machines: what the file of an actor of the type `a2a` says.

use cleveragents_domain::{AGENT_TOKEN_PREFIX, RemoteAgent, is_agent_token_variable};

use super::node::seconds;
use super::settings::Settings;
use crate::file::{Complaint, Fields};
use crate::graph::Agent;

/// The tool that asks people what the agent asks.
const ASK_USER: &str = "builtin/ask-user";

/// The fields that say something about an agent on another machine.
const OWN: &[&str] = &["url", "token_env", "timeout_seconds"];

/// Whether a field says something about an agent on another machine.
pub(super) fn is_about_agents(field: &str) -> bool {
    OWN.contains(&field)
}

/// The agent that an actor's fields describe.
pub(super) fn agent(fields: &Fields<'_>, name: &str) -> Result<Agent, Complaint> {
    let Some(url) = fields.text("url")? else {
        let message = "an actor of the type `a2a` says where its agent is";
        let fix = "add `url: https://…`, the address of the agent or of its card";
        return Err(Complaint::rule(fields.place, message, fix));
    };
    let is_web = ["https://", "http://"].iter().any(|scheme| {
        url.value
            .strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty())
    });
    if !is_web || url.value.contains(char::is_whitespace) {
        let message = "this is not the address of an agent";
        let fix = "write a URL that begins with `https://`";
        return Err(Complaint::rule(url.place, message, fix));
    }
    let host = url.value.split("//").nth(1).unwrap_or_default();
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        let message = "the address holds a user name or a password";
        let fix = "leave it out, and name the variable that holds the token with `token_env`";
        return Err(Complaint::rule(url.place, message, fix));
    }
    let token = fields.text("token_env")?;
    if let Some(token) = &token
        && !is_agent_token_variable(&token.value)
    {
        let message = format!(
            "`token_env` names a variable that begins with `{AGENT_TOKEN_PREFIX}`: others are not sent to agents"
        );
        let fix = format!("put the token into a variable such as `{AGENT_TOKEN_PREFIX}TOKEN`");
        return Err(Complaint::rule(token.place, message, fix));
    }
    let remote = RemoteAgent {
        url: url.value,
        token_variable: token.map(|token| token.value),
        timeout: seconds(fields, "timeout_seconds")?,
    };
    Ok(Agent {
        remote: Some(remote),
        tools: vec![ASK_USER.to_owned()],
        ..Settings::default().finish(name)
    })
}
