"""Three thousand odd requests at every door that takes a body: an answer or one sentence, never a failure."""

import json
import random

import pytest

pytestmark = pytest.mark.slow
RIDGE = 'type = "Ridge"\nratio = 0.5\nnoise = 0.3\n'
VALUES = (
    None, True, 0, -1, 1.5, 1e308, "", "x", "z**2", "noise", "grid", "problem", "perceptron", [], {}, [1, 2], {"a": 1},
    RIDGE, 'type = "TwoLayer"', 10**30, "\x00", 50 * "é", 400 * "9", 2.0**53,
)  # fmt: skip
NAMES = ("name", "low", "high", "count", "scale", "axes", "seeds", "over", "goal", "problem", "times", "d", "type")
PARTS = ("noise", "algorithm.type", "start.type", "x.type", "inputs.variances", "inputs.type")


class Odd(random.Random):
    """Bodies that are nearly right."""

    def value(self, depth=0):
        kind = self.random()
        if kind < 0.7 or depth > 3:
            return self.choice(VALUES)
        if kind < 0.85:
            return [self.value(depth + 1) for _ in range(self.randint(0, 3))]
        return {self.choice(NAMES): self.value(depth + 1) for _ in range(self.randint(0, 5))}

    def either(self, *right):
        return self.choice([*right, self.value()])

    def axis(self):
        ends = {"low": self.either(0, 0.1), "high": self.either(1, 2)}
        return {
            "name": self.either("noise", "ratio", "d"),
            **ends,
            "count": self.either(2, 3),
            "scale": self.either("log"),
        }

    def question(self):
        axes = {"axes": [self.axis() for _ in range(self.randint(0, 3))], "seeds": self.either(0)}
        over = {
            "over": [{name: self.axis()[name] for name in ("name", "low", "high")}],
            "goal": self.either("excess_mse"),
        }
        return {
            "kind": self.either("grid", "tune", "thresholds", "hessian"),
            "experiment": self.either("problem", "perceptron"),
            "parameters": self.either({"problem": RIDGE, "times": 1.0}),
            "settings": self.either(axes, over),
        }

    def request(self):
        """A path and a body."""
        path = self.choice(("/api/questions", "/api/questions", "/api/problem", "/api/runs", "/api/formula"))
        parameters = {"problem": self.either('type = "Ridge"'), "times": self.value(), "d": self.value()}
        bodies = {
            "/api/questions": self.question(),
            "/api/problem": {"problem": self.either(RIDGE), "changes": self.either({self.choice(PARTS): self.value()})},
            "/api/runs": {"experiment": self.either("problem"), "parameters": parameters, "seeds": self.value()},
            "/api/formula": {"kind": self.value(), "formula": self.value()},
        }
        return path, self.value() if self.random() < 0.1 else bodies[path]


def test_three_thousand_odd_requests_are_answered(visitor):
    odd, seen = Odd(1), set()
    for _ in range(3000):
        path, body = odd.request()
        answer = visitor.http.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
        assert answer.status_code in (200, 202, 404, 422, 503), (path, body, answer.text)
        seen.add(answer.status_code)
        if answer.status_code == 202:
            visitor.http.delete(f"/api/runs/{answer.json()['run']}")
    assert {200, 202, 404, 422} <= seen
