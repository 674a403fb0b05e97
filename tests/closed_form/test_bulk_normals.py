"""Normals in bulk: their bits are Threefry's, their law is the normal one, and keys do not share numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from limen.gaussian.bulk_normals import bulk_normals, threefry
from limen.gaussian.keys import stream_key


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 4097])
@pytest.mark.parametrize("seed", [0, 12345])
def test_the_bits_are_those_of_jax(count, seed):
    key = jax.random.key_data(jax.random.key(seed))
    expected = threefry_2x32(key, jnp.arange(count + count % 2, dtype=jnp.uint32))[:count]
    np.testing.assert_array_equal(np.asarray(threefry(key, count)), np.asarray(expected))


def test_their_law_is_normal_and_a_wrong_scale_is_seen():
    drawn = np.asarray(bulk_normals(stream_key(3, 1000, "samples"), (1000, 1000)))
    assert drawn.dtype == np.float32 and drawn.shape == (1000, 1000)
    flat = drawn.ravel().astype(float)
    assert stats.kstest(flat, "norm").pvalue > 1e-3
    assert stats.kstest(1.01 * flat, "norm").pvalue < 1e-6
    for power, mean in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)):
        values = flat**power
        assert abs(values.mean() - mean) < 4.5 * values.std() / flat.size**0.5
    # Of a million normals about 63 lie beyond four standard deviations.
    assert 30 < (np.abs(flat) > 4.0).sum() < 100
    assert np.abs(flat).max() < 5.4


def test_neighbours_and_halves_are_independent():
    """Both words of a hash are used: they, and neighbours, must not be correlated, nor their squares."""
    flat = np.asarray(bulk_normals(stream_key(0, 50, "samples"), (10**6,)), dtype=float)
    half = flat.size // 2
    for one, other in ((flat[:half], flat[half:]), (flat[:-1], flat[1:]), (flat[:-1000], flat[1000:])):
        for power in (1, 2):
            assert abs(np.corrcoef(one**power, other**power)[0, 1]) < 4.5 / one.size**0.5


def test_a_key_gives_the_same_numbers_in_both_precisions_and_another_key_others():
    key = stream_key(1, 20, "samples")
    single = np.asarray(bulk_normals(key, (5, 7)))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(np.asarray(bulk_normals(key, (5, 7))), single)
    others = np.asarray(bulk_normals(stream_key(2, 20, "samples"), (5, 7)))
    assert not np.isin(others, single).any()
