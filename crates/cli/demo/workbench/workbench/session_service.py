"""Conversations: messages are numbered 0, 1, 2, … within a session."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class SessionMessage:
    role: str
    content: str
    sequence: int


class MessageRepository:
    """Stores messages. A read waits for the disk, as a read of a database does."""

    def __init__(self) -> None:
        self._messages: dict[str, list[SessionMessage]] = {}

    def count_for_session(self, session_id: str) -> int:
        count = len(self._messages.get(session_id, []))
        time.sleep(0)
        return count

    def append(self, session_id: str, message: SessionMessage) -> None:
        self._messages.setdefault(session_id, []).append(message)

    def messages(self, session_id: str) -> list[SessionMessage]:
        return list(self._messages.get(session_id, []))


class PersistentSessionService:
    def __init__(self, message_repo: MessageRepository) -> None:
        self._message_repo = message_repo

    def append_message(self, session_id: str, role: str, content: str) -> SessionMessage:
        """Appends a message with the next number of its session."""
        count = self._message_repo.count_for_session(session_id)
        message = SessionMessage(role=role, content=content, sequence=count)
        self._message_repo.append(session_id, message)
        return message

    def messages(self, session_id: str) -> list[SessionMessage]:
        return self._message_repo.messages(session_id)
