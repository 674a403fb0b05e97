"""`limen web` before it serves: what it needs, and whom it lets in."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from limen.cli.main import limen as command_line
from limen.problem import InputError

WITHOUT = "import sys; sys.modules.update(dict.fromkeys({missing!r})); from limen.cli.main import main; main()"
TOKEN = "x" * 16


@pytest.fixture
def served(monkeypatch):
    """What would have been served."""
    calls = []
    monkeypatch.setattr("limen.web.server.serve_page", lambda *call: calls.append(call))
    return calls


def run(*arguments):
    return CliRunner().invoke(command_line, ["web", "--port", "0", "--no-browser", *arguments], standalone_mode=False)


def test_without_the_extra_one_sentence_says_what_to_install():
    script = WITHOUT.format(missing=["plotly", "uvicorn"])
    done = subprocess.run([sys.executable, "-c", script, "web"], capture_output=True, text=True, timeout=60.0)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "the page needs plotly, uvicorn: install limen[web].\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 can be reached by others and demands --token"),
        (["--host", "::"], "demands --token"),
        (["--host", "127.0.0.1.example"], "demands --token"),
        (["--token", "x" * 15], "--token must be at least 16 letters"),
        (["--token", "x" * 15 + "/"], "--token must be at least 16 letters"),
        (["--token", ""], "--token must be at least 16 letters"),
        (["--host", "203.0.113.1", "--token", TOKEN], "cannot serve on 203.0.113.1 port 0"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_served(served, arguments, words):
    error = run(*arguments).exception
    assert isinstance(error, InputError), error
    assert words in str(error)
    assert served == []


def test_the_printed_address_is_the_one_that_is_served(served):
    assert run().exception is None
    plain = run("--token", TOKEN)
    for (listener, host, token, address, opens), wanted in zip(served, (None, TOKEN), strict=True):
        port = listener.getsockname()[1]
        assert (host, token, opens) == ("127.0.0.1", wanted, False)
        assert address == f"http://127.0.0.1:{port}/" + (f"?token={TOKEN}" if wanted else "")
        listener.close()
    assert plain.output.startswith(f"limen is at {address} ")
