"""Random keys: what was drawn before is drawn again, however many seeds are asked for at once."""

import zlib

import jax
import numpy as np
import pytest

from limen.gaussian.keys import stream_key, stream_keys


@pytest.mark.parametrize("double", [False, True])
def test_a_key_folds_in_size_and_name_and_is_the_same_alone_and_among_others(double):
    seeds, size = (0, 7, 2**31 - 1, 2**31, 2**32 - 1), 10**9
    with jax.enable_x64(double):
        together = jax.random.key_data(stream_keys(seeds, size, "start"))
        for seed, row in zip(seeds, np.asarray(together), strict=True):
            folded = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), size), zlib.crc32(b"start"))
            for key in (folded, stream_key(seed, size, "start")):
                np.testing.assert_array_equal(jax.random.key_data(key), row)
        assert not np.array_equal(together[0], jax.random.key_data(stream_key(0, size, "samples")))


@pytest.mark.parametrize("double", [False, True])
def test_seeds_beyond_a_word_have_keys_of_their_own(double):
    seeds = (0, 1, 2**32, 2**40, 2**63 - 1)
    with jax.enable_x64(double):
        together = np.asarray(jax.random.key_data(stream_keys(seeds, 50, "start")))
        alone = [np.asarray(jax.random.key_data(stream_key(seed, 50, "start"))) for seed in seeds]
    np.testing.assert_array_equal(together, alone)
    assert len(np.unique(together, axis=0)) == len(seeds)
