"""Groups writes to one database."""

from workbench import engine_cache
from workbench.engine_cache import MEMORY_ENGINES, Engine


class UnitOfWork:
    """Works on the engine of a URL. All units of work of a URL share the engine."""

    def __init__(self, database_url: str) -> None:
        self.database_url = database_url
        if self.database_url not in MEMORY_ENGINES:
            MEMORY_ENGINES[self.database_url] = engine_cache.create_engine(
                self.database_url
            )
        self._engine = MEMORY_ENGINES[self.database_url]

    @property
    def engine(self) -> Engine:
        return self._engine

    def add(self, table: str, row: object) -> None:
        self._engine.rows.setdefault(table, []).append(row)

    def rows(self, table: str) -> list[object]:
        return list(self._engine.rows.get(table, []))
