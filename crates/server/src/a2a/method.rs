//! The methods of the protocol: the one table from which both bindings, the versions and the permissions are made.

use cleveragents_domain::identity::Permission;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Send,
    SendStreaming,
    Get,
    List,
    Cancel,
    Subscribe,
    PushCreate,
    PushGet,
    PushList,
    PushDelete,
    Card,
}

/// One method.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) act: Act,
    /// Its name in 1.0.
    pub(crate) name: &'static str,
    /// Its name in 0.3.
    pub(crate) old_name: Option<&'static str>,
    /// What it needs in the namespace of the task.
    pub(crate) permission: Permission,
}

const fn method(
    act: Act,
    name: &'static str,
    old_name: Option<&'static str>,
    permission: Permission,
) -> Method {
    Method {
        act,
        name,
        old_name,
        permission,
    }
}

/// All methods.
pub(crate) static METHODS: [Method; 11] = {
    use Permission::{Read, Write};
    [
        method(Act::Send, "SendMessage", Some("message/send"), Write),
        method(
            Act::SendStreaming,
            "SendStreamingMessage",
            Some("message/stream"),
            Write,
        ),
        method(Act::Get, "GetTask", Some("tasks/get"), Read),
        method(Act::List, "ListTasks", None, Read),
        method(Act::Cancel, "CancelTask", Some("tasks/cancel"), Write),
        method(
            Act::Subscribe,
            "SubscribeToTask",
            Some("tasks/resubscribe"),
            Read,
        ),
        method(
            Act::PushCreate,
            "CreateTaskPushNotificationConfig",
            Some("tasks/pushNotificationConfig/set"),
            Write,
        ),
        // What is pushed where may hold secrets of who asked for it.
        method(
            Act::PushGet,
            "GetTaskPushNotificationConfig",
            Some("tasks/pushNotificationConfig/get"),
            Write,
        ),
        method(
            Act::PushList,
            "ListTaskPushNotificationConfigs",
            Some("tasks/pushNotificationConfig/list"),
            Write,
        ),
        method(
            Act::PushDelete,
            "DeleteTaskPushNotificationConfig",
            Some("tasks/pushNotificationConfig/delete"),
            Write,
        ),
        method(
            Act::Card,
            "GetExtendedAgentCard",
            Some("agent/getAuthenticatedExtendedCard"),
            Read,
        ),
    ]
};

impl Act {
    /// Its entry in the table.
    pub(crate) fn method(self) -> Option<&'static Method> {
        METHODS.iter().find(|method| method.act == self)
    }
}

/// A version of the protocol that callers may speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Old,
    One,
}

impl Version {
    /// Reads `Major.Minor`. Nothing is 0.3, as the protocol says.
    pub(crate) fn read(text: Option<&str>) -> Option<Self> {
        let text = text.unwrap_or_default().trim();
        if text.is_empty() {
            return Some(Self::Old);
        }
        let mut parts = text.split('.');
        let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
        let (major, minor) = (number(parts.next())?, number(parts.next())?);
        match (major, minor) {
            (0, 1..=3) => Some(Self::Old),
            (1, _) => Some(Self::One),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_are_read() {
        for (text, version) in [
            (None, Some(Version::Old)),
            (Some(""), Some(Version::Old)),
            (Some("0.3"), Some(Version::Old)),
            (Some("1.0"), Some(Version::One)),
            (Some(" 1.0.7"), Some(Version::One)),
            (Some("99.0"), None),
            (Some("1"), None),
            (Some("one.two"), None),
        ] {
            assert_eq!(Version::read(text), version, "{text:?}");
        }
    }
}
