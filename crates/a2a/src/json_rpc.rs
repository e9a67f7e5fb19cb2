//! The JSON-RPC binding: requests and responses.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorReason};

const JSON_RPC: &str = "2.0";

/// A request received by a server.
#[derive(Debug)]
pub struct Request {
    /// Id that the response repeats; `null` when the request has none.
    pub id: Value,
    /// Method and parameters, or why they are invalid. The response to an invalid call still has the id.
    pub call: Result<Call, Error>,
}

/// A method and its parameters.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct Call {
    pub method: String,
    pub params: Map<String, Value>,
}

impl Request {
    /// Parses a request. Fails when not even the id can be read; the response then has no id.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|_| Error::new(ErrorReason::Parse, "the body is not JSON"))?;
        let invalid = |reason: &str| Error::new(ErrorReason::InvalidRequest, reason);
        let Value::Object(mut fields) = value else {
            return Err(invalid(
                "a request is one object; batches are not supported",
            ));
        };
        let id = match fields.remove("id") {
            None | Some(Value::Null) => Value::Null,
            Some(id @ Value::String(_)) => id,
            Some(Value::Number(number)) if number.is_i64() || number.is_u64() => number.into(),
            Some(_) => return Err(invalid("`id` must be a text or a whole number")),
        };
        let call = match (fields.remove("jsonrpc"), fields.remove("method")) {
            (Some(Value::String(version)), Some(Value::String(method))) if version == JSON_RPC => {
                match fields.remove("params") {
                    None | Some(Value::Null) => Ok(Call {
                        method,
                        params: Map::new(),
                    }),
                    Some(Value::Object(params)) => Ok(Call { method, params }),
                    Some(_) => Err(Error::invalid_params("`params` must be an object")),
                }
            }
            _ => Err(invalid("`jsonrpc` must be \"2.0\" and `method` a text")),
        };
        Ok(Self { id, call })
    }
}

/// The body of a request to send.
pub fn request(method: &str, params: &Value) -> String {
    json!({"jsonrpc": JSON_RPC, "id": 1, "method": method, "params": params}).to_string()
}

/// A successful response, and each event of a stream.
#[derive(Debug, Serialize)]
pub struct Success<'a, T> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: &'a T,
}

impl<'a, T: Serialize> Success<'a, T> {
    /// Creates a response with a result.
    pub const fn new(id: &'a Value, result: &'a T) -> Self {
        Self {
            jsonrpc: JSON_RPC,
            id,
            result,
        }
    }
}

/// Creates the response to a failed request.
pub fn failure(id: &Value, error: &Error) -> Value {
    json!({"jsonrpc": JSON_RPC, "id": id, "error": error.json_rpc()})
}

/// The result of a response without an error; `None` when it is not a JSON-RPC response.
pub fn into_result(mut response: Value) -> Option<Value> {
    response.get_mut("result").map(Value::take)
}

#[cfg(test)]
mod tests {
    use super::{Request, Success, failure, into_result, request};
    use crate::error::{Error, ErrorReason};
    use serde_json::{Value, json};

    fn refused(body: &str) -> ErrorReason {
        match Request::parse(body.as_bytes()) {
            Err(error) => error.reason(),
            Ok(request) => request.call.expect_err("refused").reason(),
        }
    }

    #[test]
    fn requests_of_the_client_are_parsed_by_the_server() {
        let body = request("GetTask", &json!({"id": "t"}));
        let read = Request::parse(body.as_bytes()).expect("a request");
        assert_eq!(read.id, 1);
        let call = read.call.expect("a call");
        assert_eq!(call.method, "GetTask");
        assert_eq!(Value::Object(call.params), json!({"id": "t"}));
    }

    #[test]
    fn each_kind_of_invalid_request_has_its_own_error() {
        for (body, reason) in [
            ("{", ErrorReason::Parse),
            ("[]", ErrorReason::InvalidRequest),
            (r#"{"id":1.5}"#, ErrorReason::InvalidRequest),
            (r#"{"id":1,"method":"m"}"#, ErrorReason::InvalidRequest),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#,
                ErrorReason::InvalidParams,
            ),
        ] {
            assert_eq!(refused(body), reason, "{body}");
        }
    }

    #[test]
    fn responses_repeat_the_id() {
        let (id, result) = (json!("x"), json!({"a": 1}));
        let done = serde_json::to_string(&Success::new(&id, &result)).expect("JSON");
        assert_eq!(done, r#"{"jsonrpc":"2.0","id":"x","result":{"a":1}}"#);
        let parsed = serde_json::from_str(&done).expect("JSON");
        assert_eq!(into_result(parsed), Some(json!({"a": 1})));
        assert_eq!(into_result(json!({"id": 1})), None);
        let failed = failure(&json!(7), &Error::task_not_found("t"));
        assert_eq!(
            (&failed["id"], &failed["error"]["code"]),
            (&json!(7), &json!(-32001))
        );
    }
}
