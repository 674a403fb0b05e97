"""A sample spread over several devices, rows of the inputs on each: the same sample that one device would draw."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from limen.gaussian.keys import stream_key
from limen.problem import InputError, Target
from limen.simulation.data import draw_inputs, draw_labels
from limen.simulation.descent.fixed_sample import Sample, block_rows
from limen.simulation.two_layer_gradient import Functions, Weights, summed_loss_and_gradient

ROWS = "rows"


def row_mesh(devices: int) -> Mesh | None:
    """The first `devices` devices in a line; None for one, which needs no sharding."""
    there = jax.devices()
    if not 1 <= devices <= len(there):
        raise InputError(f"devices must be from 1 to the {len(there)} there are, got {devices}.")
    return None if devices == 1 else Mesh(np.array(there[:devices]), (ROWS,))


def draw_sharded(
    mesh: Mesh,
    target: Target,
    n: int,
    frame: jax.Array,
    seed: int,
    inputs: str,
    deviations: jax.Array | None = None,
    along_axes: bool = True,
) -> tuple[Sample, jax.Array]:
    r"""The sample of `draw_sample`, and which of its rows count (1 or 0).

    Whole blocks of rows go to devices, so that each device draws its own and no inputs travel. Rows that fill up the
    last device, or that one device would have drawn over, do not count. Labels need the latent coordinates of all
    samples, $nk$ numbers, on every device.
    """
    return _draw(mesh, target, inputs, n, along_axes, frame, deviations, stream_key(seed, frame.shape[1], "samples"))


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _draw(
    mesh: Mesh,
    target: Target,
    inputs: str,
    n: int,
    along_axes: bool,
    frame: jax.Array,
    deviations: jax.Array | None,
    key: jax.Array,
) -> tuple[Sample, jax.Array]:
    k, d = frame.shape
    input_key, label_key = jax.random.split(key)
    rows = block_rows(n, d)
    blocks = -(-n // rows)
    per_device = -(-blocks // mesh.size)
    split, whole = PartitionSpec(ROWS), PartitionSpec()

    def draw_rows(input_key: jax.Array, frame: jax.Array, deviations: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        first = jax.lax.axis_index(ROWS) * per_device

        def draw_block(i: jax.Array, x: jax.Array) -> jax.Array:
            block = draw_inputs(jax.random.fold_in(input_key, first + i), (rows, d), inputs)
            if deviations is not None:
                block = block * deviations.astype(block.dtype)
            return jax.lax.dynamic_update_slice_in_dim(x, block.astype(x.dtype), i * rows, axis=0)

        x = jax.lax.fori_loop(0, per_device, draw_block, jnp.zeros((per_device * rows, d), frame.dtype))
        axes = along_axes and inputs == "gaussian" and deviations is None
        return x, (x[:, :k] if axes else x @ frame.T).astype(jnp.float32)

    draw = jax.shard_map(
        draw_rows, mesh=mesh, in_specs=(whole, whole, whole), out_specs=(split, split), check_vma=False
    )
    x, z = draw(input_key, frame, deviations)
    # On one device the last block is moved back until it ends with the sample, over rows already drawn.
    kept = np.concatenate([np.arange(n - rows), np.arange((blocks - 1) * rows, blocks * rows)])
    labels = draw_labels(label_key, target, z[kept]).astype(frame.dtype)
    y = jnp.zeros(x.shape[0], frame.dtype).at[kept].set(labels)
    counts = np.zeros(x.shape[0])
    counts[kept] = 1.0
    sharding = jax.sharding.NamedSharding(mesh, split)
    y, counts = (jax.lax.with_sharding_constraint(part, sharding) for part in (y, jnp.asarray(counts, frame.dtype)))
    return Sample(x, y), counts


def sharded_risk_and_gradient(
    mesh: Mesh, functions: Functions, weights: Weights, bias: jax.Array, sample: Sample, counts: jax.Array, n: jax.Array
) -> tuple[jax.Array, Weights]:
    """Risk and gradient over the rows that count: each device sums over its own, and the sums are added."""
    split, whole = PartitionSpec(ROWS), PartitionSpec()

    def add_rows(weights: Weights, bias: jax.Array, x: jax.Array, y: jax.Array, counts: jax.Array):
        return jax.lax.psum(summed_loss_and_gradient(functions, weights, bias, x, y, counts), ROWS)

    add = jax.shard_map(
        add_rows, mesh=mesh, in_specs=(whole, whole, split, split, split), out_specs=whole, check_vma=False
    )
    return jax.tree.map(lambda part: part / n, add(weights, bias, *sample, counts))
