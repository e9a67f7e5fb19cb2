"""What the workbench promises to a single thread."""

import unittest

from workbench.plan_execution_context import (
    ChangesetStore,
    PlanError,
    PlanExecutionContext,
)
from workbench.session_service import MessageRepository, PersistentSessionService
from workbench.unit_of_work import UnitOfWork


class WorkbenchTest(unittest.TestCase):
    def test_units_of_work_share_the_engine_of_their_url(self) -> None:
        UnitOfWork("memory://shared").add("plans", "first")
        self.assertEqual(UnitOfWork("memory://shared").rows("plans"), ["first"])
        self.assertEqual(UnitOfWork("memory://other").rows("plans"), [])

    def test_messages_are_numbered_from_zero(self) -> None:
        service = PersistentSessionService(MessageRepository())
        for text in ("one", "two", "three"):
            service.append_message("session", "user", text)
        numbers = [message.sequence for message in service.messages("session")]
        self.assertEqual(numbers, [0, 1, 2])

    def test_a_change_needs_a_changeset(self) -> None:
        context = PlanExecutionContext("plan", ChangesetStore())
        with self.assertRaisesRegex(PlanError, "No active changeset"):
            context.record_change("a.py")

    def test_a_change_belongs_to_the_last_changeset(self) -> None:
        store = ChangesetStore()
        context = PlanExecutionContext("plan", store)
        first = context.start_changeset()
        context.record_change("a.py")
        second = context.start_changeset()
        context.record_change("b.py")
        self.assertEqual(store.entries, {first: ["a.py"], second: ["b.py"]})


if __name__ == "__main__":
    unittest.main()
