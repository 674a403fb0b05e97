r"""Standard normals in large numbers, single precision: what one-pass training spends most of its time on."""

import math

import jax
import jax.numpy as jnp
import numpy as np

# Threefry with two words of 32 bits and 20 rounds: Salmon et al. 2011.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
ROUNDS = 20


def bulk_normals(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    r"""Independent standard normals of `shape`, `float32`: $\sqrt2\,\mathrm{erf}^{-1}(u)$ of uniform $u$ in $(-1,1)$.

    The same law as `jax.random.normal`, other numbers: that computes two words of random bits for each normal and
    keeps one, here both are used, and the rounds are written out so that the compiler makes one loop of everything. The
    key is one of JAX's own (`threefry2x32`). At most $2^{32}$ numbers.
    """
    count = math.prod(shape)
    bits = threefry(jax.random.key_data(key), count)
    # The first 23 bits are the digits of a number from 1 to 2; half a digit more, and u is symmetric and never 1.
    unit = jax.lax.bitcast_convert_type((bits >> 9) | np.uint32(0x3F800000), jnp.float32)
    uniform = 2.0 * (unit - np.float32(1.5)) + np.float32(2.0**-23)
    return (np.float32(math.sqrt(2.0)) * jax.lax.erf_inv(uniform)).reshape(shape)


def threefry(key: jax.Array, count: int) -> jax.Array:
    """`count` words of random bits from a key (2,): the hash of the counters $(i,h+i)$, $h$ half the count, both of its
    words. Equal to `jax.extend.random.threefry_2x32` at 0, 1, 2, ..."""
    half = -(-count // 2)
    keys = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    counter = jnp.arange(half, dtype=jnp.uint32)
    first, second = counter + keys[0], counter + np.uint32(half) + keys[1]
    for number in range(1, ROUNDS // 4 + 1):
        for rotation in ROTATIONS[(number - 1) % 2]:
            first = first + second
            second = first ^ ((second << rotation) | (second >> (32 - rotation)))
        first, second = first + keys[number % 3], second + keys[(number + 1) % 3] + np.uint32(number)
    return jnp.concatenate([first, second])[:count]
