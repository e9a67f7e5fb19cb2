"""Engines of in-memory databases, one for each URL of the process."""


class Engine:
    """An open in-memory database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.rows: dict[str, list[object]] = {}


def create_engine(url: str) -> Engine:
    return Engine(url)


MEMORY_ENGINES: dict[str, Engine] = {}
