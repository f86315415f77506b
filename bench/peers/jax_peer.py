"""JAX as a peer: one jitted train step with donated state (`jit`), a whole epoch in a lax.scan (`scan`), and loops.

    FOLDER/tf/bin/python jax_peer.py --case tiny --threads 2 --seconds 5

Adam and RMSprop are written out as Keras defines them. Every step waits for its loss, as the other peers' steps do.
"""

import common

ARGUMENTS = common.parse(
    "JAX",
    {
        "tiny": ["jit"],
        "mlp": ["jit"],
        "cnn": ["jit"],
        "lstm": ["jit"],
        "gpt": ["jit"],
        "epoch": ["scan", "jit"],
        "growing_graph": ["fori_loop", "while_loop", "jit", "eager"],
    },
)

import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def convolution(x, layer):
    y = lax.conv_general_dilated(x, layer[0], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + layer[1]


def forward(case, parameters, x):
    if case == "cnn":
        x = jax.nn.relu(convolution(x, parameters[0]))
        x = jax.nn.relu(convolution(x, parameters[1]))
        x = x.reshape(len(x), 12, 2, 12, 2, 64).max((2, 4))  # pooling; faster than lax.reduce_window
        x = x.reshape(len(x), -1)
        parameters = parameters[2:]
    for kernel, bias in parameters[:-1]:
        x = jax.nn.relu(x @ kernel + bias)
    kernel, bias = parameters[-1]
    return x @ kernel + bias


def recurrent(parameters, x):
    kernel, recurrent_kernel, bias, out, out_bias = parameters
    inputs = jnp.swapaxes(x @ kernel + bias, 0, 1)

    def cell(state, step):
        h, c = state
        i, f, g, o = jnp.split(step + h @ recurrent_kernel, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), None

    zeros = jnp.zeros((len(x), recurrent_kernel.shape[0]))
    (h, _), _ = lax.scan(cell, (zeros, zeros), inputs)
    return h @ out + out_bias


def normalized(x, gain):
    centered = x - x.mean(-1, keepdims=True)
    return centered * lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * gain


def transformer(parameters, x):
    tokens, positions, blocks, gain = parameters
    heads = common.GPT["heads"]
    y = tokens[x] + positions
    n, t, width = y.shape
    seen = jnp.tril(jnp.ones((t, t), bool))
    for qkv, mix, wide, narrow, gain1, gain2 in blocks:
        parts = (normalized(y, gain1) @ qkv).reshape(n, t, 3, heads, width // heads)
        q, k, v = jnp.moveaxis(parts, (2, 3), (0, 2))
        scores = jnp.where(seen, q @ jnp.swapaxes(k, -1, -2) * (width // heads) ** -0.5, -1e9)
        z = jnp.moveaxis(jax.nn.softmax(scores) @ v, 1, 2).reshape(n, t, width)
        y = y + z @ mix
        y = y + jax.nn.gelu(normalized(y, gain2) @ wide, approximate=False) @ narrow
    return normalized(y, gain) @ tokens.T


def loss_of(case, parameters, x, y):
    if case == "gpt":
        scores = jax.nn.log_softmax(transformer(parameters, x))
        return -jnp.mean(jnp.take_along_axis(scores, y[..., None], -1))
    prediction = recurrent(parameters, x) if case == "lstm" else forward(case, parameters, x)
    if case in ("tiny", "lstm"):
        return jnp.mean((prediction - y) ** 2)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(prediction), y[:, None], 1))


def adam(parameters, gradients, slots, rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-7):
    step, first, second = slots
    step = step + 1
    first = jax.tree.map(lambda m, g: m + (g - m) * (1 - beta1), first, gradients)
    second = jax.tree.map(lambda v, g: v + (g * g - v) * (1 - beta2), second, gradients)
    alpha = rate * jnp.sqrt(1 - beta2**step) / (1 - beta1**step)
    update = lambda p, m, v: p - alpha * m / (jnp.sqrt(v) + epsilon)
    return jax.tree.map(update, parameters, first, second), (step, first, second)


def rmsprop(parameters, gradients, slots, rate=1e-3, rho=0.9, epsilon=1e-7):
    slots = jax.tree.map(lambda v, g: rho * v + (1 - rho) * g * g, slots, gradients)
    update = lambda p, g, v: p - rate * g * lax.rsqrt(v + epsilon)
    return jax.tree.map(update, parameters, gradients, slots), slots


def adamw(parameters, gradients, slots, rate=1e-3, beta1=0.9, beta2=0.99, epsilon=1e-8, decay=0.1):
    step, first, second = slots
    step = step + 1
    first = jax.tree.map(lambda m, g: m + (g - m) * (1 - beta1), first, gradients)
    second = jax.tree.map(lambda v, g: v + (g * g - v) * (1 - beta2), second, gradients)

    def update(p, m, v):
        p = p * (1 - rate * decay) if p.ndim >= 2 else p
        return p - rate * m / (1 - beta1**step) / (jnp.sqrt(v / (1 - beta2**step)) + epsilon)

    return jax.tree.map(update, parameters, first, second), (step, first, second)


def first_parameters(case):
    kernels = common.Kernels()
    if case == "lstm":
        kernel, recurrent_kernel, out = kernels((8, 256)), kernels((64, 256)), kernels((64, 1))
        return [kernel, recurrent_kernel, np.zeros(256, np.float32), out, np.zeros(1, np.float32)]
    if case == "gpt":
        width, ones = common.GPT["width"], lambda: np.ones(common.GPT["width"], np.float32)
        tokens, positions = kernels((common.GPT["vocabulary"], width)), kernels((common.GPT["context"], width))
        shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
        blocks = [[*(kernels(shape) for shape in shapes), ones(), ones()] for _ in range(common.GPT["blocks"])]
        return [tokens, positions, blocks, ones()]
    return common.weights(case)


def initial_state(case):
    parameters = jax.tree.map(jnp.asarray, first_parameters(case))
    zeros = lambda: jax.tree.map(jnp.zeros_like, parameters)
    return parameters, (zeros() if case == "cnn" else (jnp.float32(0), zeros(), zeros()))


def update(case, state, x, y):
    """One train step: (state, loss)."""
    parameters, slots = state
    loss, gradients = jax.value_and_grad(lambda p: loss_of(case, p, x, y))(parameters)
    optimizer = {"cnn": rmsprop, "gpt": adamw}.get(case, adam)
    return optimizer(parameters, gradients, slots), loss


def stepper(case):
    state = initial_state(case)
    compiled = jax.jit(lambda state, x, y: update(case, state, x, y), donate_argnums=0)

    def step(x, y):
        nonlocal state
        state, loss = compiled(state, x, y)
        return loss.block_until_ready()

    return step


def steps():
    batches = [(jnp.asarray(x), jnp.asarray(y)) for x, y in common.batches(ARGUMENTS.case)]
    return common.measure_steps(stepper(ARGUMENTS.case), batches, ARGUMENTS.seconds)


def epoch_by_steps():
    x, y = common.rows()
    rng, step = np.random.default_rng(0), stepper("tiny")

    def epoch():
        order = rng.permutation(len(x))
        seen = 0
        for begin in range(0, len(x), common.EPOCH_BATCH):
            rows = order[begin : begin + common.EPOCH_BATCH]
            step(x[rows], y[rows])
            seen += len(rows)
        return seen

    return epoch


def epoch_by_scan():
    """Runs all full batches in one lax.scan, then the last batch of 8 rows, in one compiled function."""
    x, y = (jnp.asarray(part) for part in common.rows())
    whole = len(x) // common.EPOCH_BATCH * common.EPOCH_BATCH

    def run(state, key):
        key, drawn = jax.random.split(key)
        order = jax.random.permutation(drawn, len(x))
        batches = order[:whole].reshape(-1, common.EPOCH_BATCH)
        state, losses = lax.scan(lambda state, rows: update("tiny", state, x[rows], y[rows]), state, batches)
        state, loss = update("tiny", state, x[order[whole:]], y[order[whole:]])
        return state, key, losses.sum() + loss

    compiled = jax.jit(run, donate_argnums=0)
    state, key = initial_state("tiny"), jax.random.key(0)

    def epoch():
        nonlocal state, key
        state, key, loss = compiled(state, key)
        loss.block_until_ready()
        return len(x)

    return epoch


def epochs():
    epoch = epoch_by_scan() if ARGUMENTS.variant == "scan" else epoch_by_steps()
    return common.measure_epochs(epoch, ARGUMENTS.seconds)


def growing_graph():
    jax.config.update("jax_enable_x64", True)
    count, start = common.GROWING_ITERATIONS, jnp.float64(common.GROWING_START)
    body = lambda x: lax.rem(x * 2.0, jnp.float64(7.0))
    whole = {
        "fori_loop": lambda x: lax.fori_loop(0, count, lambda i, x: body(x), x),
        "while_loop": lambda x: lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, body(s[1])), (0, x))[1],
    }
    if ARGUMENTS.variant in whole:
        compiled = jax.jit(whole[ARGUMENTS.variant])
        return common.measure_growing(lambda: compiled(start).block_until_ready(), ARGUMENTS.seconds)
    one = jax.jit(body) if ARGUMENTS.variant == "jit" else body

    def unrolled():
        x = start
        for _ in range(count):
            x = one(x)
        return x.block_until_ready()

    return common.measure_growing(unrolled, ARGUMENTS.seconds)


if __name__ == "__main__":
    measure = {"epoch": epochs, "growing_graph": growing_graph}.get(ARGUMENTS.case, steps)
    common.report("JAX", jax.__version__, ARGUMENTS, *measure())
