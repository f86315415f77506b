"""Writes layers_keras.safetensors: what Keras's layers compute from stored weights, under the paths of its variables.
Run: python make_layers_keras.py

On the TensorFlow backend, since on the JAX backend parts of some layers are computed in f32 whatever the dtype.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import safetensors
import tensorflow
from keras import layers

import golden


def sequential():
    return keras.Sequential(
        [
            layers.Conv2D(3, 2, activation="relu"),
            layers.BatchNormalization(),
            layers.DepthwiseConv2D(2, depth_multiplier=2),
            layers.BatchNormalization(),
            layers.Conv2DTranspose(2, 3, strides=2),
            layers.LayerNormalization(epsilon=1e-5),
            layers.Dense(4, activation="tanh"),
            layers.Dense(2),
        ],
        name="sequential",
    )


# name: layer, shapes of its inputs; heads are 4 wide, since Keras keeps 1 / sqrt(width) in f32
LAYERS = {
    "sequential": (sequential, [(2, 5, 6, 2)]),
    "depthwise_conv1d": (lambda: layers.DepthwiseConv1D(3, depth_multiplier=2), [(2, 7, 3)]),
    "rms_norm": (lambda: layers.RMSNormalization(epsilon=1e-5), [(3, 4)]),
    "group_norm": (lambda: layers.GroupNormalization(2, epsilon=1e-5), [(2, 3, 4)]),
    "lstm": (lambda: layers.LSTM(4), [(2, 5, 3)]),
    "gru": (lambda: layers.GRU(4), [(2, 5, 3)]),
    "lstm_cell": (lambda: layers.LSTMCell(4), [(2, 3)]),
    "lstm_bidirectional": (lambda: layers.Bidirectional(layers.LSTM(4, name="lstm")), [(2, 5, 3)]),
    "gru_bidirectional": (lambda: layers.Bidirectional(layers.GRU(4, name="gru")), [(2, 5, 3)]),
    "attention": (lambda: layers.MultiHeadAttention(2, 4), [(2, 5, 8)]),
    "attention_no_bias": (lambda: layers.MultiHeadAttention(2, 4, use_bias=False), [(2, 5, 8)]),
    "attention_grouped": (lambda: layers.GroupQueryAttention(4, 6, 3), [(2, 5, 24)]),
    "cross_attention": (lambda: layers.MultiHeadAttention(2, 4), [(2, 3, 8), (2, 5, 4)]),
}


def compute(layer, inputs):
    if "Attention" in type(layer).__name__:
        return layer(inputs[0], inputs[-1])
    if isinstance(layer, layers.LSTMCell):
        return layer(inputs[0], [np.zeros((len(inputs[0]), layer.units))] * 2)[0]
    return layer(inputs[0])


def main():
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    tensors = {}
    for index, (name, (make, shapes)) in enumerate(LAYERS.items()):
        rng = np.random.default_rng([golden.SEED, index])
        inputs = [rng.standard_normal(shape) for shape in shapes]
        keras.backend.clear_session()  # names are numbered from the start
        layer = make()
        if compute(layer, inputs).dtype != "float64":
            raise ValueError(f"{name} does not compute in f64")
        for variable in layer.variables:
            if "seed" in variable.path:
                continue
            drawn = 0.5 * rng.standard_normal(tuple(variable.shape))
            variable.assign(np.abs(drawn) + 0.5 if "variance" in variable.path else drawn)
            tensors[f"{name}.initial.{variable.path.split('/', 1)[1]}"] = keras.ops.convert_to_numpy(variable)
        tensors.update({f"{name}.input.{i}": value for i, value in enumerate(inputs)})
        tensors[f"{name}.y"] = keras.ops.convert_to_numpy(compute(layer, inputs))
    versions = {"keras": keras.__version__, "tensorflow": tensorflow.__version__, "safetensors": safetensors.__version__}
    golden.save_safetensors("layers_keras.safetensors", tensors, __file__, versions)


if __name__ == "__main__":
    main()
