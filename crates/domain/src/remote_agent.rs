//! [`RemoteAgent`]: an agent on another machine, as an actor file describes it.

use std::time::Duration;

/// Required prefix for the names of variables that hold tokens of remote agents.
///
/// An actor file names the variable and the address to which its value is sent. The file may come from a third party:
/// without the prefix, it could send any secret of the environment to its author.
pub const AGENT_TOKEN_PREFIX: &str = "A2A_";

/// An agent on another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteAgent {
    /// URL of the agent's card (A2A), or the base URL below which the card is.
    pub url: String,
    /// Environment variable that holds the token of the agent. Never the token itself.
    pub token_variable: Option<String>,
    /// Maximum duration of one answer; by default the timeout of models.
    pub timeout: Option<Duration>,
}

/// Whether a variable may hold the token of a remote agent.
pub fn is_agent_token_variable(name: &str) -> bool {
    name.len() > AGENT_TOKEN_PREFIX.len()
        && name.starts_with(AGENT_TOKEN_PREFIX)
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::is_agent_token_variable;

    #[test]
    fn only_variables_with_the_prefix_hold_agent_tokens() {
        for name in ["A2A_TOKEN", "A2A_ACME_2"] {
            assert!(is_agent_token_variable(name), "{name}");
        }
        for name in [
            "",
            "A2A_",
            "OPENAI_API_KEY",
            "HOME",
            "a2a_token",
            "A2A_TOKEN X",
        ] {
            assert!(!is_agent_token_variable(name), "{name}");
        }
    }
}
