"""The larger cases in Keras: resnet20, lstm and gpt, with the common first weights."""

import common
import keras
import tensorflow as tf

layers = keras.layers


def resnet20():
    kernels = common.Kernels()

    def convolution(x, filters, window, stride, activation):
        if stride == 2 and window == 3:  # Keras' "same" would put the odd row after the image
            x, padding = layers.ZeroPadding2D(1)(x), "valid"
        else:
            padding = "same"
        x = layers.Conv2D(filters, window, stride, padding, use_bias=False, kernel_initializer=kernels)(x)
        x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        return layers.ReLU()(x) if activation else x

    image = keras.Input((32, 32, 3))
    x, inputs = convolution(image, 16, 3, 1, True), 16
    for width, first_stride in common.RESNET_STAGES:
        for block in range(3):
            stride = first_stride if block == 0 else 1
            y = convolution(x, width, 3, stride, True)
            y = convolution(y, width, 3, 1, False)
            shortcut = convolution(x, width, 1, stride, False) if stride != 1 or inputs != width else x
            x, inputs = layers.ReLU()(y + shortcut), width
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(10, kernel_initializer=kernels)(x))


def lstm():
    kernels = common.Kernels()
    return keras.Sequential(
        [
            keras.Input((48, 8)),
            layers.LSTM(64, kernel_initializer=kernels, recurrent_initializer=kernels, unit_forget_bias=False),
            layers.Dense(1, kernel_initializer=kernels),
        ]
    )


class GptBlock(layers.Layer):
    def __init__(self, width, heads, kernels):
        super().__init__()
        dense = lambda units: layers.Dense(units, use_bias=False, kernel_initializer=kernels)
        self.heads, self.depth = heads, width // heads
        norm = lambda: layers.LayerNormalization(epsilon=1e-5, center=False)
        self.norm1, self.norm2 = norm(), norm()
        self.qkv, self.mix, self.wide, self.narrow = dense(3 * width), dense(width), dense(4 * width), dense(width)

    def call(self, x):
        n, t, width = x.shape
        qkv = tf.reshape(self.qkv(self.norm1(x)), (n, t, 3, self.heads, self.depth))
        q, k, v = tf.unstack(tf.transpose(qkv, (2, 0, 3, 1, 4)))
        scores = tf.matmul(q, k, transpose_b=True) * self.depth**-0.5
        seen = tf.linalg.band_part(tf.ones((t, t), tf.bool), -1, 0)
        y = tf.matmul(tf.nn.softmax(tf.where(seen, scores, -1e9)), v)
        x = x + self.mix(tf.reshape(tf.transpose(y, (0, 2, 1, 3)), (n, t, width)))
        return x + self.narrow(keras.activations.gelu(self.wide(self.norm2(x)), approximate=False))


class Gpt(keras.Model):
    def __init__(self, blocks, heads, width, context, vocabulary):
        super().__init__()
        kernels = common.Kernels()
        table = lambda count: self.add_weight(shape=(count, width), initializer=kernels)
        self.tokens, self.positions = table(vocabulary), table(context)
        self.blocks = [GptBlock(width, heads, kernels) for _ in range(blocks)]
        self.norm = layers.LayerNormalization(epsilon=1e-5, center=False)

    def call(self, x):
        y = tf.gather(self.tokens, x) + self.positions
        for block in self.blocks:
            y = block(y)
        return tf.matmul(self.norm(y), self.tokens, transpose_b=True)


def build(case):
    """(model, loss, optimizer)."""
    if case == "resnet20":
        return resnet20(), keras.losses.SparseCategoricalCrossentropy(True), keras.optimizers.SGD(0.01, momentum=0.9)
    if case == "lstm":
        return lstm(), keras.losses.MeanSquaredError(), keras.optimizers.Adam(1e-3)
    model = Gpt(**common.GPT)
    model(tf.zeros((common.BATCHES[case], common.GPT["context"]), tf.int32))
    optimizer = keras.optimizers.AdamW(1e-3, weight_decay=0.1, beta_2=0.99, epsilon=1e-8)
    optimizer.exclude_from_weight_decay([w for w in model.trainable_weights if len(w.shape) < 2])
    return model, keras.losses.SparseCategoricalCrossentropy(True), optimizer
