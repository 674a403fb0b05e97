"""Problems as text: TOML with every field, its meaning, its default and its range."""

import json
import math
import types
import typing
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from limen.problem.activations import NAMED as ACTIVATIONS
from limen.problem.activations import Activation
from limen.problem.algorithms import (
    Adam,
    EntrywiseDescent,
    GradientDescent,
    GradientFlow,
    OnePassSGD,
    SignDescent,
    SphericalSGD,
)
from limen.problem.families.effective_models import BinaryMixture, OnlinePCA, SingleIndex, SpikedTensor
from limen.problem.families.linear_models import RandomFeatures, Ridge
from limen.problem.families.mixtures import GaussianMixture, XorMixture
from limen.problem.families.multi_index import MultiIndex
from limen.problem.families.power_law_features import PowerLawFeatures
from limen.problem.families.self_attention import SelfAttention
from limen.problem.families.two_layer import TwoLayer
from limen.problem.losses import PLAIN, WITH_THRESHOLD, Loss
from limen.problem.networks import Network
from limen.problem.own_functions import OwnFunction
from limen.problem.spec import InputError, Spec, did_you_mean
from limen.problem.starts import OverlapStart
from limen.problem.targets import FAMILIES as TARGET_FAMILIES
from limen.problem.targets import NAMED as TARGETS
from limen.problem.targets import Target

FAMILIES: tuple[type[Spec], ...] = (
    TwoLayer, Ridge, RandomFeatures, PowerLawFeatures, SingleIndex, OnlinePCA, BinaryMixture, SpikedTensor, XorMixture,
    GaussianMixture, SelfAttention, MultiIndex,
)  # fmt: skip
# What each is, in plain words: a file is read where mathematics is not set.
IN_WORDS: dict[type[Spec], str] = {
    TwoLayer: "A two-layer network learns a target that depends on a few directions of its inputs, plus noise.",
    Ridge: "Least squares on noisy data, trained by gradient flow with weight decay.",
    RandomFeatures: "The second layer of a network with random first layer, trained by gradient flow.",
    PowerLawFeatures: "Random features of inputs whose variances fall as a power, learnt from fresh samples.",
    SingleIndex: "A teacher with one direction, learnt on the sphere by one-pass SGD.",
    OnlinePCA: "The leading direction of noisy samples, learnt from a fresh one at each step.",
    BinaryMixture: "The mean direction of two clouds of opposite means, learnt from a fresh sample at each step.",
    SpikedTensor: "A direction hidden in a noisy tensor, learnt from a fresh tensor at each step.",
    XorMixture: "Four clouds in the pattern of XOR, learnt by a small network from a fresh sample at each step.",
    GaussianMixture: "Classes that are clouds, learnt by logistic regression from a fresh sample at each step.",
    SelfAttention: "Tokens on a sphere, moved by self-attention layer after layer.",
    MultiIndex: "A teacher with several directions, learnt by as many from a fresh sample at each step.",
}
# Fields that are given in Python alone.
IN_PYTHON = {"own": "a Python function", "rows": "rows of data"}
# Names that may take the place of a formula, said beside the fields that hold one.
NAMES = {
    Target: (*TARGETS, *(f"{name}:k" for name in TARGET_FAMILIES)),
    Activation: (*ACTIVATIONS, "hermite:k"),
    Loss: (*PLAIN, *(f"{name}:k" for name in WITH_THRESHOLD)),
}


def problem_text(problem: Spec, run: dict[str, Any] | None = None) -> str:
    """A problem as the text of a problem file; `run` are the settings of its last table."""
    words = IN_WORDS.get(type(problem)) or _first_sentence(type(problem))
    lines = [f"# {words}", f'type = "{type(problem).__name__}"', *_fields(problem, "")]
    settings = {"times": None, "d": None, "seeds": None, "theory": None, "simulator": None} | (run or {})
    lines += ["", "# How long, how large, how often; the command line's own options come first.", "[run]"]
    lines += [
        _line(name, settings[name], words, example)
        for name, words, example in (
            ("times", "last time, in the algorithm's own unit (or a list of times)", 20),
            ("d", "dimension of the simulation", 400),
            ("seeds", "number of simulated runs", 8),
            ("theory", "the theory to use; by default the first that applies", "name"),
            ("simulator", "the simulator to use; by default the first that applies", "name"),
        )
        if not (name == "d" and getattr(problem, "d", None) is not None)
    ]
    return "\n".join(lines) + "\n"


def template(family: str = "TwoLayer") -> str:
    """The file to begin with: a family of problems, or an algorithm for a two-layer network."""
    known = examples()
    if family not in known:
        raise InputError(f"there is no family of problems {family!r}: {did_you_mean(family, known)}")
    return problem_text(known[family], {"times": 20, "d": 400, "seeds": 16})


def examples() -> dict[str, Spec]:
    """A problem of every family by its name, and a two-layer problem of every algorithm."""
    target, network = Target("tanh(2*z1) + 0.3*z2", noise=0.1), Network(2, "tanh")
    algorithms = {
        "GradientDescent": GradientDescent(0.3),
        "Adam": Adam(0.1),
        "SignDescent": SignDescent(0.05),
        "GradientFlow": GradientFlow(),
    }
    descents: dict[str, Spec] = {
        name: TwoLayer(target, network, algorithm, 4.0) for name, algorithm in algorithms.items()
    }
    one_pass: dict[str, Spec] = {
        type(algorithm).__name__: TwoLayer(target, network, algorithm, start=OverlapStart(0.1))
        for algorithm in (OnePassSGD(0.5), SphericalSGD(0.2))
    }
    others: dict[str, Spec] = {
        "Ridge": Ridge(0.5, noise=0.1),
        "RandomFeatures": RandomFeatures(2.0, 4.0, "relu", noise=0.1),
        "PowerLawFeatures": PowerLawFeatures(alpha=1.0, beta=0.7, features=64, ambient=256, rate=0.2),
        "SingleIndex": SingleIndex("tanh", noise=0.1),
        "OnlinePCA": OnlinePCA(1.0, 0.1),
        "BinaryMixture": BinaryMixture(0.7, 0.1),
        "SpikedTensor": SpikedTensor(2, 2.0, 0.05, start=OverlapStart(0.2)),
        "XorMixture": XorMixture(4, 50.0, 0.05, 0.1, start=OverlapStart(0.1)),
        "GaussianMixture": GaussianMixture(2, 50.0, 0.05, 0.1, start=OverlapStart(0.1)),
        "SelfAttention": SelfAttention(1.0, 32, 16),
        "MultiIndex": MultiIndex("z1*z2", start=OverlapStart([[0.3, 0.1], [0.0, 0.2]])),
    }
    return {"TwoLayer": descents["GradientDescent"], **others, **descents, **one_pass}


def _fields(spec: Spec, table: str) -> list[str]:
    """The lines of a spec: first its own numbers and texts, then its tables."""
    plain, tables = [], []
    for name, field in type(spec).model_fields.items():
        value = getattr(spec, name)
        if isinstance(value, OwnFunction) or (callable(value) and not isinstance(value, Spec)):
            raise InputError(f"{name} is a Python function, which a file cannot hold.")
        if name in IN_PYTHON:
            if value is not None:
                raise InputError(f"{name}: {IN_PYTHON[name]}, which a file cannot hold.")
            continue
        shown = short_text(value) if isinstance(value, Spec) else value
        if isinstance(value, Spec) and shown is None:
            path = f"{table}.{name}" if table else name
            tables += ["", f"# {_said(field)}", f"[{path}]"]
            kinds = [kind.__name__ for kind in spec_kinds(field.annotation)]
            if len(kinds) > 1:
                files = [kind for kind in kinds if kind != EntrywiseDescent.__name__]
                tables.append(f'type = "{type(value).__name__}"  # {" | ".join(files)}')
            tables += _fields(value, path)
        else:
            plain.append(_line(name, shown, _said(field), _example(field)))
    return plain + tables


def short_text(value: Spec) -> str | None:
    """The text that stands for a spec, where there is one: the formula of an activation, the name of a loss."""
    if getattr(value, "own", None) is not None:
        return None
    if isinstance(value, Loss):
        return value.name
    return value.formula if isinstance(value, Activation) else None


def spec_kinds(annotation: Any) -> list[type[Spec]]:
    """The specs an annotation allows."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Spec) else []
    if typing.get_origin(annotation) is typing.Annotated:
        return spec_kinds(typing.get_args(annotation)[0])
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return [kind for part in typing.get_args(annotation) for kind in spec_kinds(part)]
    return []


def _said(field: FieldInfo) -> str:
    """Meaning, names, range and default of a field."""
    words = field.description or ""
    names = [name for kind in spec_kinds(field.annotation) for name in NAMES.get(kind, ())]
    names += [
        str(one) for one in typing.get_args(field.annotation) if typing.get_origin(field.annotation) is typing.Literal
    ]
    parts = [words, *([f"names: {', '.join(names)}"] if names else []), *bounds(field)]
    default = field.default
    if default is not PydanticUndefined and default is not None:
        said = short_text(default) if isinstance(default, Spec) else default
        parts += [] if said is None else [f"default {toml(said)}"]
    return "; ".join(part for part in parts if part)


def bounds(field: FieldInfo) -> list[str]:
    """What the numbers of a field may be, in words."""
    said = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    return [
        f"{words} {getattr(bound, name):g}"
        for bound in field.metadata
        for name, words in said.items()
        if isinstance(getattr(bound, name, None), (int, float))
    ]


def _example(field: FieldInfo) -> Any:
    """What a field that is left out might hold."""
    text = str(field.annotation)
    return [[1.0, 0.0], [0.0, 1.0]] if "tuple[tuple" in text else [0.0, 1.0] if "tuple" in text else 1.0


def _line(name: str, value: Any, words: str, example: Any) -> str:
    left_out = value is None
    shown = toml(example if left_out else value)
    line = f"{'# ' if left_out else ''}{name} = {shown}"
    # A long comment stands above.
    return f"{line}  # {words}" if len(line) + len(words) < 100 else f"# {words}\n{line}"


def _first_sentence(kind: type[Spec]) -> str:
    words = " ".join((kind.__doc__ or kind.__name__).split("\n\n")[0].split())
    return words.replace("`", "")


def toml(value: Any) -> str:
    """A value of TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return repr(value)
