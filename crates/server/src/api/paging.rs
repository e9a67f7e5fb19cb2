//! Pages of lists. A cursor names the last item of a page, not an offset, so items that are added or removed meanwhile
//! neither repeat nor hide others.

use std::num::NonZeroU64;
use std::str::FromStr;

use axum::extract::Request;
use cleveragents_domain::Code;
use serde::Deserialize;

use super::request;
use super::types::Page;
use crate::problem::Problem;
use crate::routes::{Parameter, schema_of};

/// Number of items on a page: by default, and at most.
const DEFAULT_LIMIT: u64 = 50;
const MAX_LIMIT: u64 = 500;

pub(crate) const LIMIT: Parameter = Parameter {
    name: "limit",
    place: "query",
    about: "Maximum number of items; default: 50, at most 500",
    schema: |_| schemars::json_schema!({"type": "integer", "minimum": 1}),
};

pub(crate) const CURSOR: Parameter = Parameter {
    name: "cursor",
    place: "query",
    about: "The `next_cursor` of the previous page",
    schema: schema_of::<Option<String>>,
};

#[derive(Debug, Deserialize)]
struct PageQuery {
    limit: Option<NonZeroU64>,
    cursor: Option<String>,
}

/// The requested page. `T` identifies the last item of the previous page.
pub(crate) struct PageRequest<T> {
    pub(crate) limit: u64,
    pub(crate) after: Option<T>,
}

impl<T: FromStr> PageRequest<T> {
    pub(crate) fn read(request: &Request) -> Result<Self, Problem> {
        let asked: PageQuery = request::query(request.uri())?;
        let after = asked.cursor.map(|cursor| {
            let text = hex::decode(&cursor)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok());
            text.and_then(|text| text.parse().ok()).ok_or_else(|| {
                Problem::new(
                    Code::MalformedRequest,
                    "`cursor` was not issued by this server",
                )
                .with_hint("send the `next_cursor` of the previous page, unchanged")
            })
        });
        Ok(Self {
            limit: asked
                .limit
                .map_or(DEFAULT_LIMIT, NonZeroU64::get)
                .min(MAX_LIMIT),
            after: after.transpose()?,
        })
    }

    /// One more than the page holds, to find out whether there is a next page.
    pub(crate) const fn wanted(&self) -> u64 {
        self.limit + 1
    }

    /// The page with the items that were found.
    pub(crate) fn page<F, D>(&self, mut found: Vec<F>, name: impl FnOnce(&F) -> T) -> Page<D>
    where
        T: ToString,
        D: for<'f> From<&'f F>,
    {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(name);
        Page {
            items: found.iter().map(D::from).collect(),
            next_cursor: next.map(|next| hex::encode(next.to_string())),
        }
    }
}
