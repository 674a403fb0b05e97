"""Problem files: every problem survives the way to a file and back; every mistake is one sentence with its place."""

import random
import re

import pytest

import limen
from limen.problem.changes import changed, full_path, parameters, value_at
from limen.problem.files.reading import parse_problem, read_problem_file
from limen.problem.files.template import FAMILIES, examples, problem_text, template

# Posed by none of the gallery's experiments.
OWN = limen.TwoLayer(
    limen.target("z1*z2 + 0.3*z3", noise=0.05),
    limen.network(3, "tanh"),
    limen.GradientDescent(0.5, momentum=0.8),
    4.0,
    loss="log(1 + (y - f)**2)",
)
TEXT = """\
type = "TwoLayer"
samples_per_dim = 4.0
loss = "log(1 + (y - f)**2)"
target = { formula = "z1*z2 + 0.3*z3", noise = 0.05 }

[network]
width = 3
activation = "tanh"

[algorithm]
type = "GradientDescent"
step = 0.5
momentum = 0.8

[run]
times = 10
d = 100
"""


@pytest.mark.parametrize("name", sorted(examples()))
def test_every_family_survives_the_way_to_a_file_and_back(name, tmp_path):
    problem = examples()[name]
    assert limen.load_problem(problem.save(tmp_path / "problem.toml")) == problem
    assert parse_problem(template(name)).problem == problem


def test_there_is_a_template_for_every_family():
    assert {kind.__name__ for kind in FAMILIES} <= set(examples())


def test_a_template_says_meaning_default_and_range_of_every_field():
    text = template("GradientDescent")
    for words in (
        "variance of the label noise; at least 0; default 0.0",
        "heavy-ball momentum; at least 0; below 1; default 0.0",
        "number m of neurons; above 0",
        "relu, gelu, erf",
        "GradientDescent | Adam | SignDescent | GradientFlow | OnePassSGD | SphericalSGD",
    ):
        assert words in text
    kinds = [type(OWN), type(OWN.network), type(OWN.algorithm), type(OWN.target), type(OWN.inputs)]
    for name in {name for kind in kinds for name in kind.model_fields} - {"own", "rows"}:  # these stand in Python
        assert re.search(rf"^(# )?\[?(\w+\.)?{name}(\]| = )", text, re.MULTILINE), name


def test_a_short_file_by_hand_is_the_same_problem(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(TEXT)
    read = read_problem_file(path)
    assert read.problem == OWN and read.run == {"times": 10, "d": 100}
    assert limen.load_problem(OWN.save(tmp_path / "again.toml")) == OWN


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("momentum = 0.8", "momentun = 0.8", "line 13, column 12: momentun is not a field of GradientDescent: did"),
        ("momentum = 0.8", 'momentum = "big"', "line 13, column 12: momentum must be a number"),
        ("momentum = 0.8", "momentum = true", "line 13, column 12: momentum must be a number, got True."),
        ("width = 3", "width = true", "line 7, column 9: width must be a number, got True."),
        ("momentum = 0.8", "momentum = 1.5", "line 13, column 12: momentum must be less than 1.0, got 1.5."),
        ("step = 0.5\n", "", r"line 10, column 2: [algorithm] step is required."),
        ('type = "GradientDescent"\n', "", "line 10, column 2: [algorithm] needs type = "),
        ('"GradientDescent"', '"GradientDecent"', "line 11, column 8: there is no type 'GradientDecent' here"),
        ('type = "TwoLayer"\n', "", 'the file needs type = "...", one of TwoLayer, Ridge'),
        ("0.3*z3", "0.3*q3", "line 4, column 35: formula 'z1*z2 + 0.3*q3': unknown name 'q3'"),
        ("(y - f)**2", "(y - g)**2", "line 3, column 22: formula 'log(1 + (y - g)**2)': unknown name 'g'"),
        ('"tanh"', '"tanh(2z)"', "line 8, column 20: formula 'tanh(2z)': a product needs its sign: write 2*z."),
        ("samples_per_dim = 4.0\n", "", "samples_per_dim (n/d) is required with GradientDescent."),
        ("width = 3", "width = 3.5", "line 7, column 9: width must be a whole number"),
        ("width = 3", "width = ", "line 7, column 9: invalid value."),
        ("[run]", "[runs]", "line 15, column 2: runs is not a field of TwoLayer"),
        ("times = 10", "time = 10", "line 16, column 8: time is not a setting of [run]: did you mean 'times'?"),
        ("width = 3", "width = { m = 3 }", "line 7, column 9: width must be a value, not a table."),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence_with_their_place(old, new, said):
    assert old in TEXT
    with pytest.raises(limen.InputError) as error:
        parse_problem(TEXT.replace(old, new), "own.toml")
    assert said in str(error.value) and str(error.value).startswith("own.toml")
    assert "\n" not in str(error.value)


def test_missing_parts_are_named():
    with pytest.raises(limen.InputError, match=r"network is required: add the table \[network\]"):
        parse_problem('type = "TwoLayer"\ntarget = "z"\nsamples_per_dim = 1.0\n[algorithm]\ntype="GradientFlow"\n')
    with pytest.raises(limen.InputError, match="cannot be read"):
        limen.load_problem("nowhere.toml")


def test_parameters_are_found_and_changed_by_path():
    assert full_path(OWN, "momentum") == "algorithm.momentum" and value_at(OWN, "network.width") == 3
    assert {"target.noise", "network.activation", "samples_per_dim"} <= set(parameters(OWN))
    other = changed(OWN, {"network.activation": "erf", "algorithm.step": 0.1, "target": "z1*z2"})
    assert other.network.activation.formula == "erf" and other.algorithm.step == 0.1
    assert other.target.noise == 0.05 and other.target.latents == 2  # a text replaces the formula alone
    assert changed(OWN, {}) == OWN
    with pytest.raises(limen.InputError, match=r"did you mean 'algorithm\.step'"):
        changed(OWN, {"algorithm.stap": 1.0})
    with pytest.raises(limen.InputError, match="could be any of"):
        full_path(OWN, "formula")
    with pytest.raises(limen.InputError, match="momentum must be less than 1"):
        changed(OWN, {"momentum": 2.0})


def test_a_function_cannot_stand_in_a_file(tmp_path):
    problem = limen.TwoLayer("z", limen.network(1, "tanh"), limen.EntrywiseDescent(0.1, lambda g: g), 2.0)
    with pytest.raises(limen.InputError, match="rule is a Python function, which a file cannot hold"):
        problem_text(problem)


def test_any_file_is_a_problem_or_one_sentence():
    values = (
        '"x"', "-1", "1e400", "inf", "nan", "[]", "[1, 2]", "[[1, 2], [3]]", "{}", "true", '""', "0", '"log(z)"',
        "{a = 1}", '"hermite:99"', "9" * 30, "2020-01-01", '["a"]', '"z1/0"',
    )  # fmt: skip
    draw = random.Random(0)
    for _ in range(600):
        lines = template(draw.choice(sorted(examples()))).splitlines()
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(lines))
            if "=" in lines[at]:
                lines[at] = f"{lines[at].lstrip('# ').split('=')[0]}= {draw.choice(values)}"
            else:
                lines[at] = lines[at][:-1] + draw.choice('"[]{}=')
        sentence = complaint_of("\n".join(lines))
        assert "\n" not in sentence and sentence.endswith((".", "?"))


def complaint_of(text):
    try:
        parse_problem(text)
    except limen.InputError as error:
        return str(error)
    return "none."
