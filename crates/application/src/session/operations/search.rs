//! `session/search`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use super::{parse_id, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::session::error::SessionError;
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{MessageId, Role, Sequence, SessionId, SessionName, Timestamp};
use cleveragents_store::search::{MATCH_MARKS, Scope as SearchScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Searches all messages. All words must occur; quotes make a phrase, a star at the end matches a prefix.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchMessages {
    pub query: SearchWords,
    /// Only messages of this session.
    #[serde(default)]
    pub session: Option<String>,
    /// Only messages of this role.
    #[serde(default)]
    #[schemars(extend("enum" = ["user", "assistant", "system", "tool", null]))]
    pub role: Option<String>,
    /// Maximum number of results.
    #[serde(default = "crate::operation::default_page_size")]
    pub limit: u64,
    /// Include the `short_session_id` of each match.
    #[serde(default)]
    pub short_ids: bool,
}

/// The words of a search.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SearchWords {
    Text(String),
    /// Words that are joined by spaces.
    List(Vec<String>),
}

/// The response of `session/search`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SearchResults {
    pub query: String,
    pub matches: Vec<MessageMatch>,
}

/// A message that matches a search.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MessageMatch {
    pub session_id: SessionId,
    /// The shortest unique prefix of the session id; only with `short_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_session_id: Option<String>,
    pub session_name: Option<String>,
    pub message_id: MessageId,
    pub sequence: Sequence,
    pub role: Role,
    pub excerpt: String,
    /// Start and end of each match in `excerpt`, in bytes.
    #[serde(default)]
    pub highlights: Vec<(u64, u64)>,
    /// Relevance; higher is better.
    pub score: f64,
    pub timestamp: Timestamp,
}

impl Operation for SearchMessages {
    const NAME: &'static str = "session/search";
    const SUMMARY: &'static str = "Search all messages";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = SearchResults;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.session {
            Some(session) => resolver.session(session),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<SearchResults, OperationError> {
        let role = self.role.as_deref().map(str::parse::<Role>).transpose();
        let role = role.map_err(SessionError::from)?;
        let session = self.session.as_deref().map(parse_id).transpose()?;
        let query = match self.query {
            SearchWords::Text(text) => text,
            SearchWords::List(words) => words.join(" "),
        };
        let sessions = context.sessions();
        let progress = context.progress("Indexing messages");
        let scope = SearchScope {
            session,
            role,
            visible: context.visible(Scope::Sessions),
        };
        let hits = sessions.search(&query, &scope, self.limit, progress.as_ref())?;
        let mut matches: Vec<MessageMatch> = hits
            .into_iter()
            .map(|hit| {
                let (excerpt, highlights) = plain_excerpt(&hit.excerpt);
                MessageMatch {
                    session_id: hit.session,
                    short_session_id: None,
                    session_name: hit.session_name.map(SessionName::into_string),
                    message_id: hit.message,
                    sequence: hit.sequence,
                    role: hit.role,
                    excerpt,
                    highlights,
                    score: hit.score,
                    timestamp: hit.created_at,
                }
            })
            .collect();
        if self.short_ids {
            let ids: Vec<_> = matches.iter().map(|hit| hit.session_id).collect();
            for (hit, short) in matches.iter_mut().zip(sessions.shown_ids(&ids)?) {
                hit.short_session_id = Some(short);
            }
        }
        Ok(SearchResults { query, matches })
    }
}

/// Removes the marks of the search index from an excerpt. Returns the plain text and the byte ranges of the matches.
fn plain_excerpt(marked: &str) -> (String, Vec<(u64, u64)>) {
    let mut plain = String::with_capacity(marked.len());
    let mut highlights = Vec::new();
    let mut unread = marked;
    while let Some((before, after)) = unread.split_once(MATCH_MARKS.0) {
        plain.push_str(before);
        let (inside, after) = after.split_once(MATCH_MARKS.1).unwrap_or((after, ""));
        let start = plain.len() as u64;
        plain.push_str(inside);
        highlights.push((start, plain.len() as u64));
        unread = after;
    }
    plain.push_str(unread);
    (plain, highlights)
}
