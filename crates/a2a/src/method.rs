//! [`Method`]: the operations of the protocol, with their names in each version; and [`ProtocolVersion`].

/// An operation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Sends a message and waits for its task.
    SendMessage,
    /// Sends a message and streams the updates of its task.
    SendStreamingMessage,
    /// Reads a task.
    GetTask,
    ListTasks,
    CancelTask,
    /// Streams the updates of a task.
    SubscribeToTask,
    /// Creates a push configuration: updates of a task are pushed to a URL.
    CreatePushConfig,
    /// Reads a push configuration.
    GetPushConfig,
    /// Lists the push configurations of a task.
    ListPushConfigs,
    /// Deletes a push configuration.
    DeletePushConfig,
    /// Reads the agent card for the caller.
    GetExtendedAgentCard,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 11] = [
        Self::SendMessage,
        Self::SendStreamingMessage,
        Self::GetTask,
        Self::ListTasks,
        Self::CancelTask,
        Self::SubscribeToTask,
        Self::CreatePushConfig,
        Self::GetPushConfig,
        Self::ListPushConfigs,
        Self::DeletePushConfig,
        Self::GetExtendedAgentCard,
    ];

    /// Name in 1.0.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendMessage => "SendMessage",
            Self::SendStreamingMessage => "SendStreamingMessage",
            Self::GetTask => "GetTask",
            Self::ListTasks => "ListTasks",
            Self::CancelTask => "CancelTask",
            Self::SubscribeToTask => "SubscribeToTask",
            Self::CreatePushConfig => "CreateTaskPushNotificationConfig",
            Self::GetPushConfig => "GetTaskPushNotificationConfig",
            Self::ListPushConfigs => "ListTaskPushNotificationConfigs",
            Self::DeletePushConfig => "DeleteTaskPushNotificationConfig",
            Self::GetExtendedAgentCard => "GetExtendedAgentCard",
        }
    }

    /// Name in 0.3, which has no `ListTasks`.
    pub const fn name_v0_3(self) -> Option<&'static str> {
        Some(match self {
            Self::SendMessage => "message/send",
            Self::SendStreamingMessage => "message/stream",
            Self::GetTask => "tasks/get",
            Self::ListTasks => return None,
            Self::CancelTask => "tasks/cancel",
            Self::SubscribeToTask => "tasks/resubscribe",
            Self::CreatePushConfig => "tasks/pushNotificationConfig/set",
            Self::GetPushConfig => "tasks/pushNotificationConfig/get",
            Self::ListPushConfigs => "tasks/pushNotificationConfig/list",
            Self::DeletePushConfig => "tasks/pushNotificationConfig/delete",
            Self::GetExtendedAgentCard => "agent/getAuthenticatedExtendedCard",
        })
    }

    /// Name in a version.
    pub const fn name_in(self, version: ProtocolVersion) -> Option<&'static str> {
        match version {
            ProtocolVersion::V1_0 => Some(self.name()),
            ProtocolVersion::V0_3 => self.name_v0_3(),
        }
    }

    /// Returns the method with this name, and the protocol version that uses the name.
    pub fn from_name(name: &str) -> Option<(Self, ProtocolVersion)> {
        Self::ALL.into_iter().find_map(|method| {
            if method.name() == name {
                Some((method, ProtocolVersion::V1_0))
            } else if method.name_v0_3() == Some(name) {
                Some((method, ProtocolVersion::V0_3))
            } else {
                None
            }
        })
    }

    /// Whether the response is a stream.
    pub const fn is_streaming(self) -> bool {
        matches!(self, Self::SendStreamingMessage | Self::SubscribeToTask)
    }
}

/// A supported version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProtocolVersion {
    /// 0.1 to 0.3.
    V0_3,
    /// 1.0 and its later minor versions.
    V1_0,
}

impl ProtocolVersion {
    /// The version as `Major.Minor`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_3 => "0.3",
            Self::V1_0 => "1.0",
        }
    }

    /// Parses the `Major.Minor` version of a request. A request without version uses 0.3, by the specification. `None`
    /// for an unsupported version.
    pub fn of_request(version: Option<&str>) -> Option<Self> {
        let text = version.unwrap_or_default().trim();
        if text.is_empty() {
            return Some(Self::V0_3);
        }
        let mut parts = text.split('.');
        let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
        let (major, minor) = (number(parts.next())?, number(parts.next())?);
        match (major, minor) {
            (0, 1..=3) => Some(Self::V0_3),
            (1, _) => Some(Self::V1_0),
            _ => None,
        }
    }

    /// Parses the version of an interface on an agent card: any minor version is accepted. A card without version uses
    /// 0.3.
    pub fn of_card(version: Option<&str>) -> Option<Self> {
        match version.unwrap_or("0.3").split('.').next() {
            Some("1") => Some(Self::V1_0),
            Some("0") => Some(Self::V0_3),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Method, ProtocolVersion};

    #[test]
    fn the_version_of_a_request_is_read() {
        for (text, version) in [
            (None, Some(ProtocolVersion::V0_3)),
            (Some(""), Some(ProtocolVersion::V0_3)),
            (Some("0.3"), Some(ProtocolVersion::V0_3)),
            (Some("1.0"), Some(ProtocolVersion::V1_0)),
            (Some(" 1.0.7"), Some(ProtocolVersion::V1_0)),
            (Some("99.0"), None),
            (Some("1"), None),
            (Some("one.two"), None),
        ] {
            assert_eq!(ProtocolVersion::of_request(text), version, "{text:?}");
        }
        assert_eq!(ProtocolVersion::of_card(None), Some(ProtocolVersion::V0_3));
        assert_eq!(
            ProtocolVersion::of_card(Some("1")),
            Some(ProtocolVersion::V1_0)
        );
        assert_eq!(ProtocolVersion::of_card(Some("2.0")), None);
    }

    #[test]
    fn every_method_is_found_by_each_of_its_names() {
        for method in Method::ALL {
            for version in [ProtocolVersion::V0_3, ProtocolVersion::V1_0] {
                if let Some(name) = method.name_in(version) {
                    assert_eq!(Method::from_name(name), Some((method, version)));
                }
            }
        }
        assert_eq!(Method::from_name("tasks/list"), None);
    }
}
