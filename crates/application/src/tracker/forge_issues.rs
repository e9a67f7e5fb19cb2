//! [`ForgeIssues`]: the issues of one repository over the REST API that Forgejo, Gitea and GitHub have in common.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::account::TrackerAccess;
use super::error::TrackerError;
use super::fields::FieldChanges;
use super::idempotency::{IdempotencyKey, WriteAttempt, marked_key, without_marker};
use super::listing::{Page, incomplete, read_listing, read_pages};
use super::types::{
    ExternalId, NewIssue, TrackerEffect, TrackerIssue, TrackerListing, WrittenComment, WrittenIssue,
};
use crate::forge::{Method, RestApi, RestError, RestResponse, percent_encoded};

/// The services whose APIs differ in details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForgeFlavor {
    Forgejo,
    GitHub,
}

/// The issues of one repository.
pub(super) struct ForgeIssues {
    pub(super) api: RestApi,
    pub(super) flavor: ForgeFlavor,
    /// `OWNER/NAME`.
    pub(super) repository: String,
}

impl ForgeIssues {
    fn path(&self, rest: &str) -> String {
        format!("/repos/{}{rest}", self.repository)
    }

    fn issue_path(&self, id: &ExternalId, rest: &str) -> Result<String, TrackerError> {
        Ok(self.path(&format!("/issues/{}{rest}", id.number()?)))
    }

    fn owner(&self) -> &str {
        self.repository.split('/').next().unwrap_or_default()
    }

    /// The query of a page: Forgejo limits pages to 50 objects, GitHub to 100.
    fn page_query(&self, number: u32) -> String {
        match self.flavor {
            ForgeFlavor::Forgejo => format!("limit=50&page={number}"),
            ForgeFlavor::GitHub => format!("per_page=100&page={number}"),
        }
    }

    /// The name of the token's account; `None` if the token may not read it.
    pub(super) fn account(&self) -> Result<Option<String>, TrackerError> {
        match self.api.get("/user") {
            Ok(user) => {
                let login = user.body["login"].as_str();
                let login = login.ok_or_else(|| missing("the account has no login"))?;
                Ok(Some(login.to_owned()))
            }
            Err(RestError::Refused { status: 403, .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn access(&self) -> Result<TrackerAccess, TrackerError> {
        let repository = self.api.get(&self.path(""))?.body;
        Ok(TrackerAccess {
            account: self.account()?,
            has_accounts: true,
            can_write: repository["permissions"]["push"] == true,
            has_issues: repository["has_issues"] != false,
            is_archived: repository["archived"] == true,
        })
    }

    /// A listing of objects in pages. `query` is complete except for the page.
    fn pages(&self, path: &str, query: &str) -> Result<Vec<Value>, TrackerError> {
        read_pages(
            |number| {
                let page = self.page_query(number);
                let response = self.api.get(&format!("{path}?{query}{page}"))?;
                page_of(response, self.flavor == ForgeFlavor::Forgejo)
            },
            |value| value["id"].as_u64().unwrap_or_default(),
        )
    }

    pub(super) fn list(&self) -> Result<TrackerListing, TrackerError> {
        let mut issues = read_listing(|| self.list_once())?;
        issues.sort_by_key(|issue| issue.id.number().unwrap_or_default());
        Ok(TrackerListing {
            total: issues.len() as u64,
            issues,
        })
    }

    fn list_once(&self) -> Result<Vec<TrackerIssue>, TrackerError> {
        let path = self.path("/issues");
        let values = match self.flavor {
            ForgeFlavor::Forgejo => self.pages(&path, "state=all&type=issues&")?,
            ForgeFlavor::GitHub => {
                let before = self.github_total()?;
                let values = self.pages(&path, "state=all&sort=created&direction=asc&")?;
                let is_issue = |value: &Value| value["pull_request"].is_null();
                let values: Vec<Value> = values.into_iter().filter(is_issue).collect();
                let (count, after) = (values.len() as u64, self.github_total()?);
                if count != before || before != after {
                    return Err(incomplete(&format!(
                        "{count} issues were listed, the total was {before} before and {after} after"
                    )));
                }
                values
            }
        };
        values.iter().map(issue_of).collect()
    }

    /// The number of issues. The REST API of GitHub reports none.
    fn github_total(&self) -> Result<u64, TrackerError> {
        let (owner, name) = self.repository.split_once('/').unwrap_or_default();
        let query = json!({
            "query": "query($owner:String!,$name:String!){repository(owner:$owner,name:$name){issues{totalCount}}}",
            "variables": {"owner": owner, "name": name},
        });
        let url = self.api.graphql_url();
        let answer = self.api.send_to(&url, Method::Post, Some(&query))?.body;
        let total = answer["data"]["repository"]["issues"]["totalCount"].as_u64();
        total.ok_or_else(|| missing("the number of issues is missing"))
    }

    pub(super) fn get(&self, id: &ExternalId) -> Result<Option<TrackerIssue>, TrackerError> {
        match self.api.get(&self.issue_path(id, "")?) {
            Ok(found) => Ok(Some(issue_of(&found.body)?)),
            Err(RestError::Refused {
                status: 404 | 410, ..
            }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn existing(&self, id: &ExternalId) -> Result<TrackerIssue, TrackerError> {
        self.get(id)?
            .ok_or_else(|| TrackerError::NotFound(id.to_string()))
    }

    /// The labels that issues of the repository may have, by name. Labels of the repository hide those of its
    /// organization.
    fn labels(&self) -> Result<BTreeMap<String, u64>, TrackerError> {
        let mut values = Vec::new();
        if self.flavor == ForgeFlavor::Forgejo {
            let path = format!("/orgs/{}/labels", percent_encoded(self.owner()));
            match self.pages(&path, "") {
                Ok(found) => values = found,
                // The owner is a user, or the token reaches only the repository.
                Err(TrackerError::Refused {
                    status: 403 | 404, ..
                }) => {}
                Err(error) => return Err(error),
            }
        }
        values.extend(self.pages(&self.path("/labels"), "")?);
        let mut labels = BTreeMap::new();
        for value in values {
            let (name, id) = (value["name"].as_str(), value["id"].as_u64());
            let (Some(name), Some(id)) = (name, id) else {
                return Err(missing("a label has no name or no id"));
            };
            labels.insert(name.to_owned(), id);
        }
        Ok(labels)
    }

    /// The labels as requests name them: by id, or by name at GitHub. An unknown label is an error, because GitHub
    /// would create it and Forgejo would ignore it.
    fn label_references(&self, names: &BTreeSet<String>) -> Result<Vec<Value>, TrackerError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.labels()?;
        let reference = |name: &String| match known.get(name) {
            None => Err(TrackerError::UnknownLabel(name.clone())),
            Some(id) => Ok(match self.flavor {
                ForgeFlavor::Forgejo => json!(id),
                ForgeFlavor::GitHub => json!(name),
            }),
        };
        names.iter().map(reference).collect()
    }

    /// The open milestone of a title, as requests name it.
    fn milestone(&self, title: &str) -> Result<Value, TrackerError> {
        let open = self.pages(&self.path("/milestones"), "state=open&")?;
        let found = open.iter().find(|value| value["title"] == title);
        let found = found.ok_or_else(|| TrackerError::UnknownMilestone(title.to_owned()))?;
        let field = match self.flavor {
            ForgeFlavor::Forgejo => "id",
            ForgeFlavor::GitHub => "number",
        };
        Ok(found[field].clone())
    }

    /// Sends a request that has an effect.
    fn write(
        &self,
        attempt: &WriteAttempt<'_>,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, TrackerError> {
        attempt.check_time(self.api.timeout())?;
        let body = (!body.is_null()).then_some(body);
        Ok(self.api.send(method, path, body)?.body)
    }

    pub(super) fn create(
        &self,
        new: &NewIssue,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenIssue, TrackerError> {
        let mut request = json!({"title": new.title, "body": attempt.key.mark(&new.body)});
        request["labels"] = self.label_references(&new.labels)?.into();
        if let Some(title) = &new.milestone {
            request["milestone"] = self.milestone(title)?;
        }
        let wanted = FieldChanges {
            add_labels: new.labels.clone(),
            milestone: new.milestone.clone(),
            ..FieldChanges::default()
        };
        if attempt.is_repeated
            && let Some(issue) = self.created_earlier(attempt.key)?
        {
            return Ok(WrittenIssue {
                shortfall: wanted.check(&issue).err(),
                issue,
                effect: TrackerEffect::FoundEarlier,
            });
        }
        let created = self.write(attempt, Method::Post, &self.path("/issues"), &request)?;
        let id = issue_of(&created)?.id;
        let (issue, shortfall) = match self.existing(&id) {
            Ok(issue) => {
                let shortfall = wanted.check(&issue).err();
                (issue, shortfall)
            }
            // The issue exists; only reading it back failed.
            Err(error) => (issue_of(&created)?, Some(error)),
        };
        Ok(WrittenIssue {
            issue,
            effect: TrackerEffect::Written,
            shortfall,
        })
    }

    /// The issue of this account that carries the key.
    fn created_earlier(&self, key: &IdempotencyKey) -> Result<Option<TrackerIssue>, TrackerError> {
        let account = self.account()?;
        let find = || {
            let path = self.path("/issues");
            let query = match (self.flavor, &account) {
                (ForgeFlavor::Forgejo, Some(account)) => {
                    format!(
                        "state=all&type=issues&created_by={}&",
                        percent_encoded(account)
                    )
                }
                (ForgeFlavor::Forgejo, None) => "state=all&type=issues&".to_owned(),
                (ForgeFlavor::GitHub, Some(account)) => {
                    format!(
                        "state=all&sort=created&direction=asc&creator={}&",
                        percent_encoded(account)
                    )
                }
                (ForgeFlavor::GitHub, None) => "state=all&sort=created&direction=asc&".to_owned(),
            };
            self.pages(&path, &query)
        };
        let found = read_listing(find)?.into_iter().find(|value| {
            let body = value["body"].as_str().unwrap_or_default();
            key.is_in(body) && is_by(value, account.as_deref())
        });
        found.as_ref().map(issue_of).transpose()
    }

    pub(super) fn comment(
        &self,
        id: &ExternalId,
        body: &str,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenComment, TrackerError> {
        if attempt.is_repeated {
            let account = self.account()?;
            let found = read_listing(|| self.comments(id))?
                .into_iter()
                .find(|value| {
                    let body = value["body"].as_str().unwrap_or_default();
                    attempt.key.is_in(body) && is_by(value, account.as_deref())
                });
            if let Some(found) = found {
                return Ok(WrittenComment {
                    id: number_of(&found, "id")?.to_string(),
                    effect: TrackerEffect::FoundEarlier,
                });
            }
        }
        let path = self.issue_path(id, "/comments")?;
        let request = json!({"body": attempt.key.mark(body)});
        let created = match self.write(attempt, Method::Post, &path, &request) {
            Err(TrackerError::Refused { status: 404, .. }) => {
                return Err(TrackerError::NotFound(id.to_string()));
            }
            other => other?,
        };
        let text = created["body"].as_str().unwrap_or_default();
        if !attempt.key.is_in(text) {
            return Err(TrackerError::NotEffective {
                id: id.to_string(),
                fields: "comment".to_owned(),
            });
        }
        Ok(WrittenComment {
            id: number_of(&created, "id")?.to_string(),
            effect: TrackerEffect::Written,
        })
    }

    fn comments(&self, id: &ExternalId) -> Result<Vec<Value>, TrackerError> {
        let path = self.issue_path(id, "/comments")?;
        match self.flavor {
            // One answer holds all comments.
            ForgeFlavor::Forgejo => {
                let page = page_of(self.api.get(&path)?, true)?;
                if page.total != Some(page.items.len() as u64) {
                    return Err(incomplete("comments are missing"));
                }
                Ok(page.items)
            }
            ForgeFlavor::GitHub => {
                let comments = self.pages(&path, "")?;
                let issue = self.api.get(&self.issue_path(id, "")?)?.body;
                if issue["comments"].as_u64() != Some(comments.len() as u64) {
                    return Err(incomplete("comments are missing"));
                }
                Ok(comments)
            }
        }
    }

    pub(super) fn set_fields(
        &self,
        id: &ExternalId,
        changes: &FieldChanges,
        attempt: &WriteAttempt<'_>,
    ) -> Result<WrittenIssue, TrackerError> {
        let current = self.existing(id)?;
        if changes.is_met_by(&current) {
            return Ok(WrittenIssue {
                issue: current,
                effect: TrackerEffect::Unchanged,
                shortfall: None,
            });
        }
        let milestone = match &changes.milestone {
            Some(title) if changes.changes_milestone(&current) => Some(self.milestone(title)?),
            _ => None,
        };
        self.change_labels(id, &current, changes, attempt)?;
        let mut fields = Map::new();
        if changes.changes_text(&current) {
            if let Some(title) = &changes.title {
                fields.insert("title".to_owned(), json!(title));
            }
            if let Some(body) = &changes.body {
                fields.insert("body".to_owned(), json!(body));
            }
        }
        if let Some(milestone) = milestone {
            fields.insert("milestone".to_owned(), milestone);
        }
        if changes.changes_state(&current) {
            let state = if changes.is_closed == Some(true) {
                "closed"
            } else {
                "open"
            };
            fields.insert("state".to_owned(), json!(state));
        }
        if !fields.is_empty() {
            let path = self.issue_path(id, "")?;
            self.write(attempt, Method::Patch, &path, &Value::Object(fields))?;
        }
        let issue = self.existing(id)?;
        changes.check(&issue)?;
        Ok(WrittenIssue {
            issue,
            effect: TrackerEffect::Written,
            shortfall: None,
        })
    }

    /// Adds and removes single labels, so that labels which a user sets at the same time stay.
    fn change_labels(
        &self,
        id: &ExternalId,
        current: &TrackerIssue,
        changes: &FieldChanges,
        attempt: &WriteAttempt<'_>,
    ) -> Result<(), TrackerError> {
        let Some(wanted) = changes.labels_of(current) else {
            return Ok(());
        };
        let added: BTreeSet<String> = wanted.difference(&current.labels).cloned().collect();
        let references = self.label_references(&added)?;
        let removed: Vec<&String> = current.labels.difference(&wanted).collect();
        let known = if removed.is_empty() || self.flavor == ForgeFlavor::GitHub {
            BTreeMap::new()
        } else {
            self.labels()?
        };
        if !references.is_empty() {
            let path = self.issue_path(id, "/labels")?;
            let request = json!({"labels": references});
            self.write(attempt, Method::Post, &path, &request)?;
        }
        for name in removed {
            let reference = match self.flavor {
                ForgeFlavor::GitHub => percent_encoded(name),
                // A label that does not exist any more is not on the issue either.
                ForgeFlavor::Forgejo => match known.get(name) {
                    Some(id) => id.to_string(),
                    None => continue,
                },
            };
            let path = self.issue_path(id, &format!("/labels/{reference}"))?;
            match self.write(attempt, Method::Delete, &path, &Value::Null) {
                Ok(_) | Err(TrackerError::Refused { status: 404, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn missing(reason: &str) -> TrackerError {
    TrackerError::Answer(reason.to_owned())
}

fn page_of(response: RestResponse, needs_total: bool) -> Result<Page<Value>, TrackerError> {
    let RestResponse {
        body,
        total,
        has_next_page,
    } = response;
    let Value::Array(items) = body else {
        return Err(missing("a listing is no list"));
    };
    if items.iter().any(|item| item["id"].as_u64().is_none()) {
        return Err(missing("an object of a listing has no id"));
    }
    if needs_total && total.is_none() {
        return Err(incomplete("the tracker reports no total"));
    }
    Ok(Page {
        items,
        total: total.filter(|_| needs_total),
        has_next: has_next_page,
    })
}

fn number_of(value: &Value, field: &str) -> Result<u64, TrackerError> {
    let number = value[field].as_u64();
    number.ok_or_else(|| missing(&format!("field `{field}` is missing")))
}

/// Whether an account wrote an issue or comment. Without an account, only the key counts.
fn is_by(value: &Value, account: Option<&str>) -> bool {
    account.is_none_or(|account| {
        let login = value["user"]["login"].as_str().unwrap_or_default();
        login.eq_ignore_ascii_case(account)
    })
}

fn issue_of(value: &Value) -> Result<TrackerIssue, TrackerError> {
    let text = |field: &str| value[field].as_str().map(str::to_owned);
    let is_closed = match value["state"].as_str() {
        Some("open") => false,
        Some("closed") => true,
        _ => return Err(missing("an issue has no state")),
    };
    let labels = value["labels"].as_array().into_iter().flatten();
    let labels = labels.filter_map(|label| label["name"].as_str().or(label.as_str()));
    Ok(TrackerIssue {
        id: number_of(value, "number")?.into(),
        title: text("title").ok_or_else(|| missing("an issue has no title"))?,
        body: without_marker(value["body"].as_str().unwrap_or_default()).to_owned(),
        is_closed,
        labels: labels.map(str::to_owned).collect(),
        milestone: value["milestone"]["title"].as_str().map(str::to_owned),
        author: value["user"]["login"].as_str().map(str::to_owned),
        revision: text("updated_at").ok_or_else(|| missing("an issue has no time of update"))?,
        address: text("html_url"),
        write_key: value["body"].as_str().and_then(marked_key),
    })
}
