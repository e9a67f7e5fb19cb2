//! The HTTP+JSON binding: the mapping between paths and methods, for the client that builds paths and for the server
//! that parses them.

use serde_json::{Map, Value};

use crate::error::{Error, ErrorReason};
use crate::method::Method;

/// Media type of responses.
pub const MEDIA_TYPE: &str = "application/a2a+json";

/// HTTP method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of HTTP")]
pub enum Verb {
    Get,
    Post,
    Delete,
}

/// Returns the HTTP method of a protocol method, and the segments of its path below the URL of the interface and the
/// tenant. `config` is the id of a push configuration.
pub fn path(method: Method, task: &str, config: &str) -> (Verb, Vec<String>) {
    let tasks = |last: &str| vec!["tasks".to_owned(), last.to_owned()];
    let configs = || {
        let mut path = tasks(task);
        path.push("pushNotificationConfigs".to_owned());
        path
    };
    let single_config = || {
        let mut path = configs();
        path.push(config.to_owned());
        path
    };
    match method {
        Method::SendMessage => (Verb::Post, vec!["message:send".to_owned()]),
        Method::SendStreamingMessage => (Verb::Post, vec!["message:stream".to_owned()]),
        Method::GetTask => (Verb::Get, tasks(task)),
        Method::ListTasks => (Verb::Get, vec!["tasks".to_owned()]),
        Method::CancelTask => (Verb::Post, tasks(&format!("{task}:cancel"))),
        Method::SubscribeToTask => (Verb::Post, tasks(&format!("{task}:subscribe"))),
        Method::CreatePushConfig => (Verb::Post, configs()),
        Method::ListPushConfigs => (Verb::Get, configs()),
        Method::GetPushConfig => (Verb::Get, single_config()),
        Method::DeletePushConfig => (Verb::Delete, single_config()),
        Method::GetExtendedAgentCard => (Verb::Get, vec!["extendedAgentCard".to_owned()]),
    }
}

/// A request as matched by the router of a server. Missing path segments are empty.
#[derive(Debug, Clone, Copy)]
pub struct MatchedRequest<'a> {
    /// HTTP method.
    pub verb: Verb,
    /// Complete path.
    pub path: &'a str,
    /// Segment with the tenant.
    pub tenant: &'a str,
    /// Segment with the task id, followed by a colon and the action, such as `:cancel`, if the request names one.
    pub task: &'a str,
    /// Segment with the id of the push configuration.
    pub config: &'a str,
}

/// Returns the protocol method of a request, and the parameters in its path.
pub fn method(matched: MatchedRequest<'_>) -> Result<(Method, Map<String, Value>), Error> {
    let MatchedRequest {
        verb,
        path,
        tenant,
        task,
        config,
    } = matched;
    let mut params = Map::new();
    let mut put = |name: &str, value: &str| params.insert(name.to_owned(), value.into());
    if !tenant.is_empty() {
        put("tenant", tenant);
    }
    let is_get = verb == Verb::Get;
    let method = if path.ends_with("/message:send") {
        Method::SendMessage
    } else if path.ends_with("/message:stream") {
        Method::SendStreamingMessage
    } else if path.ends_with("/extendedAgentCard") {
        Method::GetExtendedAgentCard
    } else if task.is_empty() {
        Method::ListTasks
    } else if !config.is_empty() {
        put("taskId", task);
        put("id", config);
        if is_get {
            Method::GetPushConfig
        } else {
            Method::DeletePushConfig
        }
    } else if path.ends_with("/pushNotificationConfigs") {
        put("taskId", task);
        if is_get {
            Method::ListPushConfigs
        } else {
            Method::CreatePushConfig
        }
    } else {
        let (id, action) = task.rsplit_once(':').unwrap_or((task, ""));
        put("id", id);
        match (action, is_get) {
            ("", true) => Method::GetTask,
            ("subscribe", _) => Method::SubscribeToTask,
            ("cancel", false) => Method::CancelTask,
            _ => {
                return Err(Error::new(
                    ErrorReason::MethodNotFound,
                    "a task supports GET, `:cancel` and `:subscribe`",
                ));
            }
        }
    };
    Ok((method, params))
}

/// Adds the parameters of the path to those of a body or a query. Parameters that only the path may set are removed
/// first.
pub fn merge(method: Method, params: &mut Map<String, Value>, from_path: Map<String, Value>) {
    for name in ["task_id", "tenant", "taskId"] {
        params.remove(name);
    }
    if method != Method::CreatePushConfig {
        params.remove("id");
    }
    params.extend(from_path);
}

/// Parses the parameters in a body.
pub fn read_body(method: Method, body: &[u8]) -> Result<Map<String, Value>, Error> {
    let may_be_empty = matches!(method, Method::CancelTask | Method::SubscribeToTask);
    if may_be_empty && body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::new(
            ErrorReason::InvalidRequest,
            "the body must be an object",
        )),
        Err(_) => Err(Error::new(ErrorReason::Parse, "the body is not JSON")),
    }
}

#[cfg(test)]
mod tests {
    use super::{MatchedRequest, Verb, merge, method, path, read_body};
    use crate::method::Method;
    use serde_json::{Value, json};

    fn matched(verb: Verb, segments: &[String]) -> (Method, Value) {
        let path = format!("/a2a/v1/{}", segments.join("/"));
        let is_tasks = segments.first().is_some_and(|first| first == "tasks");
        let part = |number: usize| {
            let part = segments.get(number).filter(|_| is_tasks);
            part.map_or("", String::as_str)
        };
        let request = MatchedRequest {
            verb,
            path: &path,
            tenant: "",
            task: part(1),
            config: part(3),
        };
        let (matched_method, params) = method(request).expect("a method");
        (matched_method, Value::Object(params))
    }

    #[test]
    fn the_server_reads_the_paths_that_the_client_builds() {
        for expected_method in Method::ALL {
            let (verb, segments) = path(expected_method, "t", "c");
            let (actual_method, params) = matched(verb, &segments);
            assert_eq!(actual_method, expected_method, "{segments:?}");
            let expected = match expected_method {
                Method::GetTask | Method::CancelTask | Method::SubscribeToTask => {
                    json!({"id": "t"})
                }
                Method::CreatePushConfig | Method::ListPushConfigs => json!({"taskId": "t"}),
                Method::GetPushConfig | Method::DeletePushConfig => {
                    json!({"taskId": "t", "id": "c"})
                }
                _ => json!({}),
            };
            assert_eq!(params, expected, "{segments:?}");
        }
    }

    #[test]
    fn path_parameters_replace_those_of_the_body() {
        let body =
            json!({"taskId": "other", "task_id": "other", "id": "other", "tenant": "x", "n": 1});
        let mut params = body.as_object().expect("an object").clone();
        let from_path = json!({"id": "t"});
        let from_path = from_path.as_object().expect("an object").clone();
        merge(Method::GetTask, &mut params, from_path);
        assert_eq!(Value::Object(params), json!({"n": 1, "id": "t"}));
    }

    #[test]
    fn only_methods_without_required_parameters_accept_an_empty_body() {
        assert!(read_body(Method::CancelTask, b" \n").is_ok());
        assert!(read_body(Method::SendMessage, b"").is_err());
        assert!(read_body(Method::SendMessage, b"[]").is_err());
    }
}
