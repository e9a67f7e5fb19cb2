//! Pages of lists. A cursor names the last item of a page instead of an offset, so that items added or removed between
//! two requests cause neither duplicates nor gaps.

use std::num::NonZeroU64;
use std::str::FromStr;

use axum::extract::Request;
use cleveragents_domain::Code;
use serde::Deserialize;

use super::request;
use super::types::Page;
use crate::problem::Problem;
use crate::routes::{Parameter, schema_of};

/// Default and maximum number of items on a page.
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
        let page_query: PageQuery = request::query(request.uri())?;
        let after = page_query.cursor.map(|cursor| {
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
            limit: page_query
                .limit
                .map_or(DEFAULT_LIMIT, NonZeroU64::get)
                .min(MAX_LIMIT),
            after: after.transpose()?,
        })
    }

    /// Number of items to query: one more than the page holds, which shows whether there is a next page.
    pub(crate) const fn query_limit(&self) -> u64 {
        self.limit + 1
    }

    /// The page of the items that the query returned.
    pub(crate) fn page<F, D>(&self, mut rows: Vec<F>, name: impl FnOnce(&F) -> T) -> Page<D>
    where
        T: ToString,
        D: for<'f> From<&'f F>,
    {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| has_more).map(name);
        Page {
            items: rows.iter().map(D::from).collect(),
            next_cursor: next.map(|next| hex::encode(next.to_string())),
        }
    }
}
