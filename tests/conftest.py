"""Shared by every test: one store per test session that is not the user's, and caches dropped after each module."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_store(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIMEN_STORE", str(tmp_path_factory.mktemp("store")))
        yield


@pytest.fixture(autouse=True, scope="module")
def _drop_compiled_code():
    yield
    jax.clear_caches()
