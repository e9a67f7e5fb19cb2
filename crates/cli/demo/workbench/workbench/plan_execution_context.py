"""Records the changes of a plan in changesets."""

import itertools


class PlanError(Exception):
    """A plan was used in a way that it does not allow."""


class ChangesetStore:
    """Stores changesets and their entries."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.entries: dict[str, list[str]] = {}

    def start(self, plan_id: str) -> str:
        changeset_id = f"{plan_id}-{next(self._numbers)}"
        self.entries[changeset_id] = []
        return changeset_id

    def record(self, changeset_id: str, entry: str) -> None:
        self.entries[changeset_id].append(entry)


class PlanExecutionContext:
    """The changesets of one plan. A change belongs to the changeset that was started last."""

    def __init__(self, plan_id: str, changeset_store: ChangesetStore) -> None:
        self._plan_id = plan_id
        self._changeset_store = changeset_store
        self._active_changeset_ids: list[str] = []

    def start_changeset(self) -> str:
        changeset_id = self._changeset_store.start(self._plan_id)
        self._active_changeset_ids.append(changeset_id)
        return changeset_id

    def record_change(self, entry: str) -> None:
        if not self._active_changeset_ids:
            raise PlanError("No active changeset. Call start_changeset() first.")
        changeset_id = self._active_changeset_ids[-1]
        self._changeset_store.record(changeset_id, entry)
