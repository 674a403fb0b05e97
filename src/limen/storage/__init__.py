"""Content-addressed results: what was computed once is found again, and nothing computed is lost."""

from limen.storage.address import address
from limen.storage.file_store import FileStore
from limen.storage.memory_store import MemoryStore
from limen.storage.run import Run, run
from limen.storage.sizes import run_sizes

__all__ = ["FileStore", "MemoryStore", "Run", "address", "run", "run_sizes"]
