"""The attention experiments at reduced size: particles meet the theory, and a planted error is caught."""

from dataclasses import replace

import numpy as np
import pytest

from limen.experiments.attention.attention_clustering import AttentionClustering
from limen.experiments.attention.attention_layers import AttentionLayers
from limen.experiments.attention.attention_metastability import AttentionMetastability
from limen.experiments.attention.attention_phase_diagram import AttentionPhaseDiagram
from limen.experiments.attention.attention_random_qkv import AttentionRandomQKV
from limen.problem import InputError
from limen.result import merge
from limen.theory.attention import finite_dimension_hitting_time, layer_map


def planted(theory, name, values):
    """The theory with one variable replaced."""
    dataset = theory.dataset.copy()
    dataset[name] = (dataset[name].dims, np.asarray(values))
    return replace(theory, dataset=dataset)


def runs_of(experiment, seeds):
    return merge([experiment.simulate(seed) for seed in seeds])


def test_tokens_collapse_along_the_transition_curve():
    experiment = AttentionClustering(tokens=16, d=1024, horizon=15.0, largest_beta=5.0)
    theory, runs = experiment.theory(), runs_of(experiment, range(16))
    assert runs.ok
    assert experiment.compare(theory, runs).verdict == "agrees"
    late = finite_dimension_hitting_time(16, 1024, 1.1 * experiment.collapsing())
    many = finite_dimension_hitting_time(21, 1024, experiment.collapsing())
    for wrong in (late, many):
        assert experiment.compare(planted(theory, "hitting_time", wrong), runs).verdict == "disagrees"


@pytest.mark.slow
def test_the_phase_diagram_sharpens_with_the_dimension():
    experiment = AttentionPhaseDiagram(tokens=16, d=4096, horizon=15.0, largest_beta=5.0)
    theory, runs = experiment.theory(), runs_of(experiment, range(16))
    assert experiment.compare(theory, runs).verdict == "agrees"
    late = finite_dimension_hitting_time(16, 4096, 1.1 * experiment.collapsing())
    assert experiment.compare(planted(theory, "hitting_time", late), runs).verdict == "disagrees"
    away = np.abs(runs.dataset.clustered_pairs.mean("seed") - theory.dataset.clustered_pairs).mean(("beta", "time"))
    assert np.all(np.diff(away.values)[:3] < 0), "each diagram is nearer to the curve than the one before"


def test_layers_collapse_where_the_map_says():
    experiment = AttentionLayers(tokens=16, beta=4.0)
    theory, runs = experiment.theory(), runs_of(experiment, range(12))
    assert experiment.compare(theory, runs).verdict == "agrees"
    path = [0.0]
    for _ in range(experiment.layers()):
        path.append(float(layer_map(path[-1], 16, 4.0, 1.1 * experiment.eta)))
    assert experiment.compare(planted(theory, "mean_cosine", path), runs).verdict == "disagrees"
    flow = theory.dataset.flow_depth.values
    assert experiment.compare(planted(theory, "collapse_depth", flow), runs).verdict == "disagrees"


@pytest.mark.slow
def test_clusters_merge_when_their_own_equations_say():
    small = {"tokens": 30, "decades": 3.0}
    experiment = AttentionMetastability(beta=6.0, **small)
    theory, runs = experiment.theory(), runs_of(experiment, range(8))
    assert experiment.compare(theory, runs).verdict == "agrees"
    for wrong in (AttentionMetastability(beta=6.6, **small), AttentionMetastability(beta=6.0, share=0.95, **small)):
        assert experiment.compare(replace(wrong.theory(), spec=runs.spec), runs).verdict == "disagrees"
    # The waits of clusters that move a tenth too fast, two clouds left as they are.
    waits = 10.0**theory.dataset.log10_fall_time - 12.0
    fast = planted(theory, "log10_fall_time", np.log10(12.0 + waits / 1.1))
    assert experiment.compare(fast, runs).verdict == "disagrees"


def test_the_staircase_only_falls_and_its_energy_only_rises():
    run = AttentionMetastability(tokens=60, decades=6.0).simulate(0).dataset
    late = run.time.values > 30.0
    assert (np.diff(run.clusters.values[0, late]) <= 0.0).all()
    assert (np.diff(run.relative_energy.values[0]) > -1e-9).all()


@pytest.mark.slow
def test_small_clouds_shrink_as_the_value_matrix_says():
    experiment = AttentionRandomQKV(d=16, tokens=6, betas=(0.5, 2.0), horizon=2.0)
    seeds = tuple(range(8))
    theory, runs = experiment.theory(seeds), runs_of(experiment, seeds)
    assert experiment.compare(theory, runs).verdict == "agrees"
    matrices = [experiment.matrices(seed) for seed in seeds]
    wrong = [
        [experiment._cloud_size(1.1 * value, experiment.centre(seed)) for _, value in pairs]
        for seed, pairs in zip(seeds, matrices, strict=True)
    ]
    wrong = np.array(wrong)
    assert experiment.compare(planted(theory, "log_spread", wrong), runs).verdict == "disagrees"
    assert experiment.compare(planted(theory, "absolute_log_spread", np.abs(wrong)), runs).verdict == "disagrees"


@pytest.mark.slow
def test_a_common_factor_does_not_hide_behind_two_signs():
    experiment = AttentionRandomQKV(d=16, tokens=4, betas=(0.5,), horizon=0.1)
    seeds = tuple(range(16))
    theory, runs = experiment.theory(seeds), runs_of(experiment, seeds)
    assert experiment.compare(theory, runs).verdict == "agrees"
    larger = planted(theory, "log_spread", 1.05 * theory.dataset.log_spread)
    larger = planted(larger, "absolute_log_spread", 1.05 * theory.dataset.absolute_log_spread)
    assert experiment.compare(larger, runs).verdict == "disagrees"


@pytest.mark.parametrize(
    "kind, parameters",
    [
        (AttentionClustering, {"tokens": 32, "d": 16}),
        (AttentionClustering, {"horizon": 1.0}),
        (AttentionLayers, {"tokens": 32, "d": 16}),
        (AttentionLayers, {"beta": 40.0}),
        (AttentionRandomQKV, {"betas": ()}),
        (AttentionRandomQKV, {"betas": (2.0, 1.0)}),
        (AttentionRandomQKV, {"betas": (-1.0,)}),
    ],
)
def test_parameters_without_meaning_are_refused(kind, parameters):
    with pytest.raises(InputError):
        kind(**parameters)
