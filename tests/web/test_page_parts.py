"""What the page is made of, without a server: mathematics, figures, pictures, controls, references."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from limen.experiments.figure import Band, Figure, Histogram, Line, Map, Panel, Points, Threshold
from limen.experiments.registry import PLACES, experiment_class
from limen.problem.spec import InputError
from limen.web.assets import assets
from limen.web.figure_json import figure_json
from limen.web.formula_check import check_formula
from limen.web.limits import Limits
from limen.web.schema import catalogue, parameters_of, schema
from limen.web.text.equations import UnknownMathematics, parse
from limen.web.text.one_line import label
from limen.web.text.references import references
from limen.web.text.typeset import mathml, prose
from limen.web.thumbnail import thumbnail

LIMITS = Limits()


def everything(scale="linear"):
    x = np.linspace(0.1, 10.0, 7)
    marks = [
        Line(x, x**2, "$x^2$"),
        Points(x, x, 0.1 * x, "runs", colour=1),
        Band(x, x - 0.05, x + 0.05, colour=2),
        Histogram(np.append(x, 11.0), x, "density", 3),
        Threshold(r"$\delta^*$", x=3.0),
        Threshold("half", y=0.5),
        Line([1.0, 2.0], [np.nan, np.inf], colour=6, dashed=True),
    ]
    return Panel("step $t$", "loss", marks, x_scale=scale, y_scale=scale if scale != "symlog" else "linear")


def test_every_formula_of_every_docstring_is_typeset():
    count = 0
    for name in PLACES:
        for latex in re.findall(r"\$([^$]+)\$", (experiment_class(name).__doc__ or "").replace("$$", "$")):
            count += 1
            ElementTree.fromstring(mathml(latex))
            assert "<code>" not in mathml(latex), latex
        described = schema(name, LIMITS)
        ElementTree.fromstring(f"<div>{described['about']}{described['look_for']}</div>")
    assert count > 300


def test_a_fraction_with_scripts_by_hand():
    assert mathml(r"\frac12x_i^2") == (
        '<math display="inline"><mrow><mfrac><mn>1</mn><mn>2</mn></mfrac>'
        "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup></mrow></math>"
    )
    assert label(r"$\hat R_n(\theta)$ of <n>") == "<i>R\u0302</i><sub><i>n</i></sub>(<i>θ</i>) of &lt;n&gt;"
    assert label(r"$\sqrt{d+1}$, $10^{-3}$") == "√(<i>d</i>\u2009+\u20091), 10<sup>−3</sup>"


@given(some.text(max_size=60))
@settings(deadline=None, max_examples=80, database=None)
def test_no_text_becomes_markup(text):
    allowed = r"</?(?:i|sub|sup|br)>"
    assert "<" not in re.sub(allowed, "", label(text))
    ElementTree.fromstring("<p>" + re.sub(r"[\x00-\x1f\ufffe\uffff]", "", mathml(text)) + "</p>")
    try:
        parse(text)
    except UnknownMathematics:
        assert mathml(text).startswith("<code>")


def test_prose_is_escaped():
    html = prose("A <script>alert(1)</script> of $x<y$ and `code`.\n\nSecond *word*.")
    assert "<script>" not in html
    assert "<mo>&lt;</mo>" in html
    assert html.count("<p>") == 2
    assert "<code>code</code>" in html
    assert "<em>word</em>" in html


@pytest.mark.parametrize("scale", ["linear", "log", "symlog"])
def test_a_figure_becomes_plotly_traces(scale):
    found = figure_json(Figure([everything(scale)], "$d=3$"))
    text = json.dumps(found, allow_nan=False)
    panel = found["panels"][0]
    line, points = panel["data"][0], panel["data"][1]
    assert (line["mode"], points["mode"]) == ("lines", "markers")
    assert points["error_y"]["array"][0] == pytest.approx(0.01)
    assert line["line"]["color"] == "#0072B2"
    assert panel["data"][-1]["y"] == [None, None]
    assert len(panel["layout"]["shapes"]) == len(panel["layout"]["annotations"]) == 2
    assert panel["layout"]["xaxis"]["type"] == ("log" if scale == "log" else "linear")
    note, shape = panel["layout"]["annotations"][0], panel["layout"]["shapes"][0]
    # Plotly places annotations by exponent and shapes by value.
    assert note["x"] == pytest.approx(np.log10(3.0) if scale == "log" else shape["x0"], rel=1e-5)
    if scale == "symlog":
        assert panel["layout"]["xaxis"]["ticktext"] == ["0", "1", "10"]
        # Continuous where the linear part ends, at two.
        assert line["x"][0] == pytest.approx(0.05)
        assert shape["x0"] == pytest.approx(1.0 + np.log10(1.5), rel=1e-5)
    assert "NaN" not in text


def test_a_map_becomes_a_heatmap_and_a_picture():
    panel = Panel("x", "y", [Map([0, 1, 2], [0, 1], [[0, 1, np.nan], [3, 4, 5]], "phase")])
    trace = figure_json(Figure([panel]))["panels"][0]["data"][0]
    assert trace["type"] == "heatmap"
    assert trace["z"] == [[0, 1, None], [3, 4, 5]]
    assert thumbnail(Figure([panel])).count("<rect") == 5


@pytest.mark.parametrize("scale", ["linear", "log", "symlog"])
def test_a_picture_is_small_valid_and_inside(scale):
    text = thumbnail(Figure([everything(scale)]))
    root = ElementTree.fromstring(text)
    assert len(text) < 8000
    assert "nan" not in text
    for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 <= float(circle.get("cx", "-1")) <= 240
        assert 0 <= float(circle.get("cy", "-1")) <= 132


def test_every_experiment_has_controls_and_its_defaults_pass():
    assert {entry["name"] for entry in catalogue()} == set(PLACES)
    for name in PLACES:
        described = schema(name, LIMITS)
        json.dumps(described, allow_nan=False)
        kind = experiment_class(name)
        assert [control["name"] for control in described["parameters"]] == list(kind.model_fields)
        for given_values in ({}, described["quick"]):
            values = parameters_of(name, given_values, LIMITS)
            json.dumps(values)
        assert kind(**parameters_of(name, {}, LIMITS)) == kind()
        for control in described["parameters"]:
            assert control["label"]
            if control["kind"] in ("integer", "number"):
                slider = control["slider"]
                assert slider["low"] <= control["default"] <= slider["high"], (name, control)
                assert slider["low"] < slider["high"]
                assert slider["scale"] == "linear" or slider["low"] > 0.0


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"nonsense": 1}, "'nonsense' is not a parameter of grokking"),
        ({"d": 10**6}, "d must be at most 3200, got 1e+06."),
        ({"d": 40.5}, "d must be a whole number"),
        ({"d": True}, "d must be a whole number"),
        ({"step": 0.0}, "step must be above 0, got 0."),
        ({"step": float("inf")}, "step must be a finite number."),
        ({"target": "z" * 401}, "target must have at most 400 characters"),
        ({"samples_per_dim": [1.0] * 33}, "samples_per_dim must have 1 to 32 numbers"),
        ({"samples_per_dim": ["z"]}, "samples_per_dim must be a list of numbers"),
        ({"samples_per_dim": None}, "samples_per_dim must be a list of numbers"),
        ([], "parameters must be an object"),
    ],
)
def test_parameters_outside_the_limits_are_one_sentence(parameters, sentence):
    with pytest.raises(InputError) as caught:
        parameters_of("grokking", parameters, LIMITS)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "part"),
    [
        ("target", "z1**2 + z2", ""),
        ("activation", "gelu", ""),
        ("loss", "huber:2", ""),
        ("target", "__import__('os').system('id')", "is not allowed"),
        ("target", "().__class__", "is not allowed"),
        ("activation", "z**99", "an exponent must be a number of size at most 16"),
        ("activation", "(" * 300 + "z" + ")" * 300, "at most 400 characters"),
        ("loss", "cubic", "loss must be one of"),
        ("shell", "ls", "kind must be one of"),
        ("target", "", "non-empty"),
    ],
)
def test_formulas_are_judged_in_the_parsers_own_words(kind, text, part):
    answer = check_formula(kind, text, LIMITS)
    assert answer["ok"] is (part == "")
    assert part in answer["message"]


def test_references_are_readable():
    (entry,) = references(("berthier2023",))
    assert entry["authors"] == "Raphaël Berthier, Andrea Montanari & Kangjie Zhou"
    assert entry["link"] == "https://arxiv.org/abs/2303.00055"
    for name in PLACES:
        for entry in references(experiment_class(name).citations):
            assert not re.search(r"[\\{}]", " ".join(entry.values())), entry


def test_the_page_loads_nothing_from_elsewhere():
    for name, asset in assets().items():
        if name != "plotly.js":
            text = asset.content.decode()
            outside = re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s\"'`]+", text)
            assert not outside, (name, outside)
    index = assets()["index.html"].content.decode()
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", index), "the content policy forbids inline scripts"
