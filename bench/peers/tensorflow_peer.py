"""TensorFlow as a peer: a compiled train step (`function`), the same through XLA (`xla`), Keras' own loops, and tf.data.

    FOLDER/tf/bin/python tensorflow_peer.py --case tiny --variant function --threads 2 --seconds 5
"""

import common

ARGUMENTS = common.parse(
    "TensorFlow",
    {
        "tiny": ["function", "xla", "train_on_batch"],
        "mlp": ["function", "xla", "train_on_batch"],
        "cnn": ["function", "xla", "train_on_batch"],
        "resnet20": ["function", "train_on_batch"],
        "lstm": ["function", "xla", "train_on_batch"],
        "gpt": ["function", "xla"],
        "epoch": ["fit", "function", "xla"],
        "data": ["tf.data"],
        "pipeline": ["tf.data", "tf.data parallel"],
        "map": ["tf.data"],
        "growing_graph": ["eager", "function", "while", "while_xla"],
    },
)

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf
import tensorflow_models

tf.config.threading.set_intra_op_parallelism_threads(ARGUMENTS.threads)
# The faster choice in each case: kernels side by side take the cores from each other in cnn, and fill them in mlp.
tf.config.threading.set_inter_op_parallelism_threads(1 if ARGUMENTS.case in ("cnn", "resnet20") else ARGUMENTS.threads)


def build(case):
    """(model, loss, optimizer) with the common weights."""
    if case in ("resnet20", "lstm", "gpt"):
        return tensorflow_models.build(case)
    layers = keras.layers
    if case == "tiny":
        model = keras.Sequential([keras.Input((100,)), layers.Dense(10, "relu"), layers.Dense(1)])
    elif case == "mlp":
        model = keras.Sequential(
            [keras.Input((784,)), layers.Dense(512, "relu"), layers.Dense(512, "relu"), layers.Dense(10)]
        )
    else:
        model = keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                layers.Conv2D(32, 3, activation="relu"),
                layers.Conv2D(64, 3, activation="relu"),
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dense(128, "relu"),
                layers.Dense(10),
            ]
        )
    model.set_weights([array for pair in common.weights(case) for array in pair])
    loss = keras.losses.MeanSquaredError() if case == "tiny" else keras.losses.SparseCategoricalCrossentropy(True)
    optimizer = keras.optimizers.RMSprop(1e-3) if case == "cnn" else keras.optimizers.Adam(1e-3)
    return model, loss, optimizer


def compiled_step(case, xla):
    model, loss_function, optimizer = build(case)
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=xla)
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_function(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


def steps():
    case = ARGUMENTS.case
    batches = common.batches(case)
    if ARGUMENTS.variant == "train_on_batch":
        model, loss, optimizer = build(case)
        model.compile(optimizer=optimizer, loss=loss)

        def step(x, y):
            model.reset_metrics()  # else the loss returned is the mean since the beginning
            return model.train_on_batch(x, y)

        return common.measure_steps(step, batches, ARGUMENTS.seconds)
    step = compiled_step(case, ARGUMENTS.variant == "xla")
    return common.measure_steps(step, [(tf.constant(x), tf.constant(y)) for x, y in batches], ARGUMENTS.seconds)


def dataset():
    return (
        tf.data.Dataset.from_tensor_slices(common.rows())
        .shuffle(common.EPOCH_ROWS)
        .batch(common.EPOCH_BATCH)
        .prefetch(tf.data.AUTOTUNE)
    )


def epochs():
    if ARGUMENTS.variant == "fit":
        x, y = common.rows()
        model, loss, optimizer = build("tiny")
        model.compile(optimizer=optimizer, loss=loss)

        def epoch():
            model.fit(x, y, batch_size=common.EPOCH_BATCH, epochs=1, verbose=0)
            return len(x)

    else:
        data, step = dataset(), compiled_step("tiny", ARGUMENTS.variant == "xla")

        def epoch():
            seen = 0
            for x, y in data:
                step(x, y)
                seen += len(x)
            return seen

    return common.measure_epochs(epoch, ARGUMENTS.seconds)


def data():
    batches = dataset()
    return common.measure_epochs(lambda: sum(len(x) for x, _ in batches), ARGUMENTS.seconds)


def rows():
    data = tf.data.Dataset.from_tensor_slices(common.pipeline_rows())
    if ARGUMENTS.case == "pipeline":
        calls = tf.data.AUTOTUNE if ARGUMENTS.variant == "tf.data parallel" else None
        data = data.map(lambda x: 2 * x, num_parallel_calls=calls)
        data = data.shuffle(1000).batch(32).prefetch(tf.data.AUTOTUNE)
        return common.measure_rows(lambda: sum(len(x) for x in data), ARGUMENTS.seconds)
    data = data.map(lambda x: x)
    return common.measure_rows(lambda: sum(1 for _ in data), ARGUMENTS.seconds)


def growing_graph():
    count = common.GROWING_ITERATIONS
    start, two, seven = (tf.constant(value, tf.float64) for value in (common.GROWING_START, 2.0, 7.0))

    def body(x):
        return tf.truncatemod(x * two, seven)

    body = tf.function(body) if ARGUMENTS.variant == "function" else body

    def unrolled():
        x = start
        for _ in range(count):
            x = body(x)
        return x

    @tf.function(jit_compile=ARGUMENTS.variant == "while_xla")
    def loop(x):
        return tf.while_loop(lambda i, x: i < count, lambda i, x: (i + 1, body(x)), (0, x))[1]

    run = (lambda: loop(start)) if ARGUMENTS.variant.startswith("while") else unrolled
    return common.measure_growing(run, ARGUMENTS.seconds)


if __name__ == "__main__":
    measure = {"epoch": epochs, "data": data, "pipeline": rows, "map": rows, "growing_graph": growing_graph}.get(ARGUMENTS.case, steps)
    common.report("TensorFlow", tf.__version__, ARGUMENTS, *measure())
