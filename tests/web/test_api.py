"""The interface over HTTP: runs and their events, downloads, refusals, and whatever fuzzing thinks of."""

import asyncio
import json
import time
import zipfile
from io import BytesIO
from urllib.parse import quote

import httpx
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from limen.experiments.registry import PLACES
from limen.web.app import create_app
from limen.web.limits import Limits

TOKEN = "a-token-of-some-length"
PERCEPTRON = {"d": 8}
# A thousand seeds of it take a minute.
LONG = {"d": 300}
FUZZ = settings(
    deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Door:
    """An application without workers, for what is decided before anything is computed."""

    def __init__(self, runner, app, address):
        self.runner = runner
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=address)

    def request(self, method, path, **options):
        return self.runner.run(self.client.request(method, path, **options))

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as found:
        yield found


@pytest.fixture(scope="module")
def door(runner):
    return Door(runner, create_app(), "http://127.0.0.1:8765")


@pytest.fixture(scope="module")
def locked(runner):
    return Door(runner, create_app(host="0.0.0.0", token=TOKEN), "http://192.168.1.5:8765")


def test_theory_then_seeds_then_verdict(visitor):
    events = visitor.run("perceptron", PERCEPTRON, seeds=6)
    kinds = [kind for kind, _ in events if kind not in ("queued", "seeds")]
    assert kinds == ["theory", "done"]
    theory, done = (data for kind, data in events if kind in ("theory", "done"))
    assert theory["figure"]["panels"][0]["data"][0]["mode"] == "lines"
    assert "simulation" not in theory["headline"]
    assert done["headline"]["simulation"]
    assert set(done["words"]) == set(done["headline"]["theory"])
    assert all(done["words"].values())
    assert done["comparison"]["verdict"] in ("agrees", "disagrees", "cannot tell")
    modes = {trace.get("mode") for panel in done["figure"]["panels"] for trace in panel["data"]}
    assert "markers" in modes
    # The same again is answered from memory, and the same data come back.
    began = time.perf_counter()
    again = visitor.run("perceptron", PERCEPTRON, seeds=6)
    assert again[-1] == ("done", done)
    assert time.perf_counter() - began < 1.0


def test_results_of_a_run_can_be_fetched(visitor):
    identifier = visitor.run("perceptron", PERCEPTRON, seeds=6)[-1][1]["identifier"]
    stored = visitor.http.get(f"/api/results/{identifier}").json()
    assert (stored["experiment"], stored["seeds"], stored["parameters"]["d"]) == ("perceptron", 6, 8)
    assert visitor.http.get(f"/api/results/{identifier[:6]}").json() == stored
    answer = visitor.http.get(f"/api/results/{identifier}/simulation.nc")
    assert "attachment" in answer.headers["content-disposition"]
    with xr.open_dataset(BytesIO(answer.content), engine="h5netcdf") as dataset:
        assert dataset.sizes["seed"] == 6
    figure = visitor.http.get(f"/api/results/{identifier}/figure.png")
    assert figure.content.startswith(b"\x89PNG")
    for path in (
        "ffffffff",
        f"{identifier}/secrets.txt",
        "..%2f..%2fetc%2fpasswd",
        f"{identifier}/..%2findex-1.sqlite",
    ):
        assert visitor.http.get(f"/api/results/{path}").status_code == 404


def test_a_finished_run_is_listed_and_its_two_datasets_are_told_apart(visitor):
    done = visitor.run("perceptron", PERCEPTRON, seeds=6)[-1][1]
    listed = visitor.http.get("/api/stored")
    assert_no_leak(listed.text)
    (run,) = [run for run in listed.json()["runs"] if run["identifier"] == done["identifier"]]
    assert (run["experiment"], run["seeds"], run["parameters"]["d"]) == ("perceptron", 6, 8)
    assert run["verdict"] == done["comparison"]["verdict"]
    assert abs(time.time() - run["created"]) < 600.0
    kinds = []
    for name in ("theory", "simulation"):
        content = visitor.http.get(f"/api/results/{run['identifier']}/{name}.nc").content
        with xr.open_dataset(BytesIO(content), engine="h5netcdf") as dataset:
            kinds.append(json.loads(dataset.attrs["limen"])["kind"])
    assert kinds == ["theory", "simulation"]


def test_a_mistake_found_by_the_experiment_is_its_own_sentence(visitor):
    kind, data = visitor.run("attention-clustering", {"tokens": 200, "d": 64})[-1]
    assert (kind, data["message"]) == (
        "failed",
        "tokens must be at most d = 64, or no two are nearly orthogonal, got 200.",
    )


def test_a_picture_is_drawn_and_kept(visitor, monkeypatch):
    # As if none had come with the package.
    monkeypatch.setattr("limen.web.app.packed", dict)
    address = "/api/experiments/perceptron/thumbnail.svg"
    first = visitor.http.get(address)
    assert first.headers["content-type"] == "image/svg+xml"
    assert first.content.startswith(b"<svg")
    assert visitor.http.get(address).content == first.content


def test_events_can_be_taken_up_where_they_were_left(visitor):
    ticket = visitor.begin("perceptron", PERCEPTRON, 6).json()["run"]
    visitor.follow(ticket)
    assert [kind for kind, _ in visitor.follow(ticket, after=1)][-1] == "done"
    assert visitor.follow(ticket, after=10_000) == []
    assert visitor.http.get(f"/api/runs/{ticket}").json()["state"] == "done"


def test_cancelling_and_leaving_stop_the_work(visitor):
    first = visitor.begin("double-descent", LONG, 1000).json()["run"]
    second = visitor.begin("double-descent", LONG, 1000).json()["run"]
    assert first != second
    visitor.wait_until(lambda status: status["running"] == 1)
    assert visitor.status()["waiting"] == 0, "identical requests share one computation"
    visitor.http.delete(f"/api/runs/{first}")
    time.sleep(0.3)
    assert visitor.status()["running"] == 1, "somebody else still wants it"
    # The other visitor listens for a moment, then goes without a word.
    visitor.follow(second, until="any")
    visitor.wait_until(lambda status: status["running"] == 0)
    assert visitor.http.get(f"/api/runs/{second}").status_code == 404
    assert visitor.run("perceptron", PERCEPTRON, seeds=6)[-1][0] == "done", "the worker lives on or was replaced"


def test_words_and_lists(visitor, door):
    assert len(door.get("/api/experiments").json()) == len(PLACES)
    assert door.get("/api/experiments/grokking").json()["size_field"] == "d"
    assert "@article{montanari2026" in door.get("/api/experiments/grokking/bibtex").text
    answer = door.post("/api/formula", json={"kind": "target", "formula": "open('/etc/passwd')"}).json()
    assert answer["ok"] is False
    assert "unknown function 'open'" in answer["message"]


def test_headers_forbid_what_the_page_does_not_need(door):
    for path in ("/", "/api/experiments", "/nothing"):
        headers = door.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    tag = door.get("/static/app.js").headers["etag"]
    assert door.get("/static/app.js", headers={"if-none-match": tag}).status_code == 304
    assert door.get("/static/plotly.js").headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "192.168.1.5:8765", "", "[", "a b", "localhost@evil"]
)
def test_a_foreign_host_is_400(door, host):
    assert door.get("/api/experiments", headers={"host": host}).status_code == 400


def test_own_hosts_pass(door, locked):
    for host in ("127.0.0.1:8765", "localhost", "[::1]:8765"):
        assert door.get("/", headers={"host": host}).status_code == 200
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert locked.get("/", headers=headers).status_code == 200
    assert locked.get("/", headers={**headers, "host": "evil.example"}).status_code == 400


def test_another_origin_is_403(door):
    for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert door.post("/api/formula", json={}, headers=headers).status_code == 403
    good = {"origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    body = {"kind": "target", "formula": "z"}
    assert door.post("/api/formula", json=body, headers=good).json()["ok"] is True


def test_without_the_token_401(locked):
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"cookie": "limen_token=wrong"},
        {"authorization": TOKEN[:-1]},
    ):
        for path in ("/", "/static/app.js", "/api/experiments", f"/api/experiments?token={TOKEN}"):
            assert locked.get(path, headers=headers).status_code == 401
        assert locked.post("/api/runs", json={}, headers=headers).status_code == 401
    assert locked.get("/?token=wrong").status_code == 401
    opened = locked.get(f"/?token={TOKEN}")
    assert opened.status_code == 303
    assert "HttpOnly" in opened.headers["set-cookie"]
    assert "SameSite=strict" in opened.headers["set-cookie"]
    assert locked.get("/", headers={"cookie": f"limen_token={TOKEN}"}).status_code == 200


def test_an_oversized_body_is_413(door):
    big = b" " * (Limits().body + 1)

    async def parts():
        for _ in range(3):
            yield big[:20_000]

    assert door.post("/api/formula", content=big).status_code == 413
    assert door.post("/api/formula", content=parts()).status_code == 413
    assert door.post("/api/formula", content=b"{}", headers={"content-length": "x"}).status_code == 400


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2f..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd",
     "/../../etc/passwd", "/static/app.js%00.css", "/api/experiments/..%2f..%2fregistry",
     "/api/runs/..%2f..", "/static/", "/app.py"],
)  # fmt: skip
def test_traversal_is_404(visitor, path):
    assert visitor.http.get(path).status_code == 404


def test_wrong_methods_types_and_bodies(door):
    assert door.request("PUT", "/api/runs").status_code == 405
    assert door.post("/api/runs", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415
    for content in (b"{", b"[]", b'{"kind": 1}', b'"x"', b"\xff", b"[" * 5000, b"{}"):
        answer = door.post("/api/formula", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 422, content
        assert answer.json()["message"]


values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=20),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = some.sampled_from(sorted(PLACES)) | some.text(max_size=10)
fields = some.sampled_from(["d", "noise", "step", "target", "samples_per_dim", "activation", "ratio", "x"])
bodies = some.fixed_dictionaries(
    {
        "experiment": names | values,
        "parameters": some.dictionaries(fields, values, max_size=4) | values,
        "seeds": values,
    }
)


@settings(FUZZ, max_examples=40)
@given(bodies | values)
def test_any_body_is_answered(door, body):
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    for path in ("/api/formula", "/api/runs"):
        # Requests that would be computed are another test's.
        if path == "/api/runs" and isinstance(body, dict) and type(body.get("seeds")) is int:
            body["seeds"] = -1
            content = json.dumps(body).encode()
        answer = door.post(path, content=content, headers=headers)
        assert answer.status_code in (200, 404, 422), answer.text
        assert_no_leak(answer.text)


@settings(FUZZ, max_examples=40)
@given(some.text(some.characters(codec="utf-8"), max_size=30))
def test_any_path_is_answered(door, text):
    for prefix in ("/static/", "/api/experiments/"):
        answer = door.get(prefix + "x" + quote(text))
        assert answer.status_code == 404
        assert_no_leak(answer.text)


@settings(FUZZ, max_examples=25)
@given(
    noise=some.floats(0.0, 120.0) | some.integers(-2, 200),
    signal=some.floats(1e-6, 100.0),
    d=some.integers(0, 5000),
)
def test_any_parameters_are_computed_or_refused(visitor, noise, signal, d):
    answer = visitor.begin("double-descent", {"noise": noise, "signal": signal, "d": d})
    if answer.status_code == 202:
        kind, data = visitor.follow(answer.json()["run"])[-1]
        assert kind in ("done", "failed")
    else:
        assert answer.status_code == 422
        kind, data = "failed", answer.json()
    if kind == "failed":
        assert data["message"].endswith((".", "!"))
    assert_no_leak(json.dumps(data))


def assert_no_leak(text: str) -> None:
    for part in ("Traceback", ".py", "/home", "/root", "site-packages", "/work", "/tmp"):
        assert part not in text


def table(rows: int = 60) -> bytes:
    lines = ["a,b,price"] + [f"{i % 7},{(i * i) % 11},{0.5 * (i % 7) + 0.1 * (i % 3)}" for i in range(rows)]
    return "\n".join(lines).encode()


def packed_zeros() -> bytes:
    """A hundred megabytes that are packed small."""
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", b"\0" * 10**8)
    return packed.getvalue()


def ask_data(visitor, content: bytes, **asked):
    given = {"name": "table.csv", "target": "price", "model": "ridge", "ridge": "0.1", "seeds": "6", **asked}
    return visitor.http.post("/api/data", params=given, content=content)


def test_a_table_gets_its_curve_and_is_kept_nowhere(visitor, tmp_path, monkeypatch):
    answer = ask_data(visitor, table())
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["ok"] and told["status"].startswith("predicted from 60 rows, 2 columns")
    names = [trace.get("name") for trace in told["figure"]["panels"][0]["data"]]
    assert "test, predicted" in names and "test, trained" in names
    several = ask_data(visitor, table(), model="random-features", features="10,20", ridge="0.1,1", seeds="0").json()
    assert "random features" in json.dumps(several["figure"]["panels"][0]["layout"]["xaxis"])
    # Asked again it is computed again: nothing of it was remembered.
    assert ask_data(visitor, table()).json() == told


@pytest.mark.parametrize(
    ("content", "asked", "status", "words"),
    [
        (table(), {"target": "colour"}, 422, "target must be one of the columns a, b, price"),
        (table(), {"target": ""}, 422, "target must name the column"),
        (table(10), {}, 422, "at least 20 rows, got 10"),
        (table(), {"model": "forest"}, 422, "model must be one of"),
        (table(), {"ridge": "much"}, 422, "ridge must be a number"),
        (table(), {"ridge": "-1"}, 422, "ridge must be positive"),
        (table(), {"ridge": ","}, 422, "ridge must be a number"),
        (table(), {"ridge": ""}, 422, "ridge must be a number"),
        (table(), {"ridge": ",".join(["1"] * 13)}, 422, "ridge must be at most 12 numbers, got 13"),
        (table(), {"model": "random-features"}, 422, "features must be given"),
        (table(), {"seeds": "few"}, 422, "seeds must be a whole number"),
        (table(), {"seeds": "5000"}, 422, "seeds must be from 0"),
        (packed_zeros(), {"name": "t.npz"}, 422, "unpacked, at most 0.067 GB"),
        (table(), {"name": "../../etc/passwd"}, 422, "passwd must be a .csv, .npz or .parquet"),
        (b"\x00\xff" * 50, {"name": "t.npz"}, 422, "not a readable .npz"),
        (b"", {}, 422, "must not be empty"),
        (b"1," * (5 * 2**20), {}, 413, "at most 8388608 bytes"),
    ],
)
def test_bad_tables_are_sentences(visitor, content, asked, status, words):
    answer = ask_data(visitor, content, **asked)
    assert answer.status_code == status and words in answer.text
