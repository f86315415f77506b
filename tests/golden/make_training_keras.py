"""Writes training_keras.npz: losses of an MLP and a CNN trained by Keras' defaults. Run: python make_training_keras.py

Keras runs on its JAX backend, for the reason given in make_optimizers_keras.py.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import keras
import numpy as np

import golden

OPTIMIZERS = {"adam": "Adam", "rmsprop": "RMSprop"}


def build(model):
    layers = keras.layers
    if model == "mlp":
        return keras.Sequential(
            [
                keras.Input((16,)),
                layers.Dense(32, activation="relu", name="dense1"),
                layers.Dense(16, activation="relu", name="dense2"),
                layers.Dense(4, name="dense3"),
            ]
        )
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu", name="conv1"),
            layers.Conv2D(8, 3, activation="relu", name="conv2"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(10, name="dense1"),
        ]
    )


def named_variables(network):
    return {
        f"{layer.name}.{part}": getattr(layer, part)
        for layer in network.layers
        if layer.trainable_variables
        for part in ("kernel", "bias")
    }


def train(model, optimizer, weights, x, labels, dtype):
    """Returns losses (50,) taken before each update, the first step's gradients and the final weights, by name."""
    network = build(model)
    variables = named_variables(network)
    assert set(variables) == set(weights)
    for name, variable in variables.items():
        variable.assign(weights[name].astype(dtype))
    optimizer.build(list(variables.values()))
    loss_function = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trainable = [variable.path for variable in network.trainable_variables]
    order = [trainable.index(variable.path) for variable in variables.values()]

    def loss_of(values, batch_x, batch_labels):
        in_order = [None] * len(values)
        for position, value in zip(order, values):
            in_order[position] = value
        logits, _ = network.stateless_call(in_order, [], batch_x, training=True)
        return loss_function(batch_labels, logits)

    loss_and_gradients = jax.jit(jax.value_and_grad(loss_of))
    losses, first = [], None
    for step in range(golden.TRAINING_STEPS):
        batch = step % len(x)
        values = [variable.value for variable in variables.values()]
        loss, gradients = loss_and_gradients(values, x[batch].astype(dtype), labels[batch])
        if first is None:
            first = {name: np.asarray(gradient) for name, gradient in zip(variables, gradients)}
        optimizer.apply(gradients, list(variables.values()))
        losses.append(np.asarray(loss))
    losses = np.array(losses)
    assert losses.dtype == dtype, losses.dtype
    return losses, first, {name: np.asarray(variable.value) for name, variable in variables.items()}


def main():
    arrays, hyperparameters = {}, {}
    for model in ("mlp", "cnn"):
        weights, x, labels = golden.training_problem(model)
        arrays[f"{model}.x"] = x
        arrays[f"{model}.labels"] = labels
        for name, value in weights.items():
            arrays[f"{model}.initial.{name}"] = value
        for dtype, short in (("float64", "f64"), ("float32", "f32")):
            keras.backend.set_floatx(dtype)
            for key, optimizer_name in OPTIMIZERS.items():
                optimizer = getattr(keras.optimizers, optimizer_name)()
                losses, first, final = train(model, optimizer, weights, x, labels, dtype)
                arrays[f"{model}.{key}.{short}.losses"] = losses
                if short == "f32":
                    continue
                for name in weights:
                    arrays[f"{model}.gradients.{name}"] = first[name]
                    arrays[f"{model}.{key}.final.{name}"] = final[name]
                config = optimizer.get_config()
                wanted = "learning_rate beta_1 beta_2 epsilon rho momentum centered".split()
                hyperparameters[key] = {k: config[k] for k in wanted if k in config}
    versions = {"keras": keras.__version__, "jax": jax.__version__}
    golden.save("training_keras.npz", arrays, __file__, versions, hyperparameters=hyperparameters)


if __name__ == "__main__":
    main()
