//! Remote agents: the fields of an actor of the type `a2a`.

use cleveragents_domain::{
    AGENT_TOKEN_PREFIX, DefinitionFault, RemoteAgent, is_agent_token_variable,
};

use super::node::seconds;
use super::settings::Settings;
use crate::file::{Fields, broken_rule};
use crate::graph::Agent;

/// The tool that passes the agent's questions to the user.
const ASK_USER: &str = "builtin/ask-user";

/// Fields that configure a remote agent.
const REMOTE_FIELDS: &[&str] = &["url", "token_env", "timeout_seconds"];

/// Whether a field configures a remote agent.
pub(super) fn is_remote_field(field: &str) -> bool {
    REMOTE_FIELDS.contains(&field)
}

/// Builds the remote agent that the fields of an actor describe.
pub(super) fn agent(fields: &Fields<'_>, name: &str) -> Result<Agent, DefinitionFault> {
    let Some(url) = fields.text("url")? else {
        let message = "an actor of the type `a2a` requires `url`";
        let fix = "add `url: https://…`, the address of the agent or of its card";
        return Err(broken_rule(fields.place, message, fix));
    };
    let is_web = ["https://", "http://"].iter().any(|scheme| {
        url.value
            .strip_prefix(scheme)
            .is_some_and(|address| !address.is_empty())
    });
    if !is_web || url.value.contains(char::is_whitespace) {
        let message = "this is not a valid URL of an agent";
        let fix = "write a URL that starts with `https://`";
        return Err(broken_rule(url.place, message, fix));
    }
    let host = url.value.split("//").nth(1).unwrap_or_default();
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        let message = "the URL contains a user name or a password";
        let fix =
            "remove it, and set `token_env` to the name of the variable that contains the token";
        return Err(broken_rule(url.place, message, fix));
    }
    let token = fields.text("token_env")?;
    if let Some(token) = &token
        && !is_agent_token_variable(&token.value)
    {
        let message = format!(
            "`token_env` must start with `{AGENT_TOKEN_PREFIX}`: other variables are not sent to agents"
        );
        let fix = format!("put the token into a variable such as `{AGENT_TOKEN_PREFIX}TOKEN`");
        return Err(broken_rule(token.place, message, fix));
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
