//! [`PushNotificationConfig`]: the URL to which the updates of a task are pushed, and its authentication.

use serde::{Deserialize, Serialize};

use crate::method::ProtocolVersion;

/// Authentication of an agent when it pushes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// Scheme of the `Authorization` header, such as `Bearer`.
    pub scheme: String,
    /// Credentials after the scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// A push configuration, as it is stored and as its creator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushNotificationConfig {
    /// Unique within the task.
    pub id: String,
    /// URL that updates are pushed to.
    pub url: String,
    /// Sent with each update, so that the receiver can verify its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Authentication of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Whether updates are pushed in the format of 0.3, because the creator used that version. Stored, never sent.
    #[serde(rename = "_old", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_v0_3: bool,
    /// Task of the configuration. Sent, not stored here: the database row has its own column for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

impl PushNotificationConfig {
    /// Protocol version of the pushed updates.
    pub const fn version(&self) -> ProtocolVersion {
        if self.is_v0_3 {
            ProtocolVersion::V0_3
        } else {
            ProtocolVersion::V1_0
        }
    }

    /// Sets the task, for the response to its creator.
    #[must_use]
    pub fn of_task(mut self, task_id: String) -> Self {
        self.is_v0_3 = false;
        self.task_id = Some(task_id);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{ProtocolVersion, PushNotificationConfig};
    use serde_json::json;

    /// Configurations stored by an earlier version.
    #[test]
    fn stored_configurations_are_read_back_unchanged() {
        let stored = r#"{"id":"c","url":"https://x.example/hook","token":"t","authentication":{"scheme":"Bearer","credentials":"s"},"_old":true}"#;
        let config: PushNotificationConfig = serde_json::from_str(stored).expect("a config");
        assert_eq!(serde_json::to_string(&config).expect("JSON"), stored);
        assert_eq!(config.version(), ProtocolVersion::V0_3);
        assert_eq!(
            json!(config.of_task("task".to_owned())),
            json!({"id": "c", "url": "https://x.example/hook", "token": "t",
                "authentication": {"scheme": "Bearer", "credentials": "s"}, "taskId": "task"})
        );
    }
}
