#!/usr/bin/env python3
"""Writes tests/apps/logs: what common training programs print, which `isochron analyze` reads without a pattern.

    make_log_samples.py [NAME...]   run the programs below and keep what they print; all of them, or those named

Run it with a Python that has tensorflow-cpu, tf-keras, torch, lightning, transformers, accelerate, tqdm and rich. Each
program trains a small model for a second or two on one thread; those whose output differs on a terminal run in one too.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "apps" / "logs"
MOST_BYTES = 30_000

KERAS = """
import os, time
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what TensorFlow says of the machine
import numpy
import {keras} as keras
class Delay(keras.callbacks.Callback):  # a step of some milliseconds
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.004)
x, y = numpy.random.rand(320, 8).astype("float32"), numpy.random.rand(320, 1).astype("float32")
model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=16, epochs={epochs}, verbose={verbose}, callbacks=[Delay()], {more})
{after}
"""

TQDM = """
import sys, time
from tqdm import tqdm
def work(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
"""

LIGHTNING = """
import logging, time, warnings
warnings.filterwarnings("ignore")
import torch
import lightning
from lightning.pytorch.callbacks import RichProgressBar, TQDMProgressBar
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        time.sleep(0.005)
        loss = self.layer(batch[0]).square().mean()
        self.log("train_loss", loss, prog_bar=True)
        return loss
    def validation_step(self, batch, index):
        time.sleep(0.002)
        self.log("val_loss", self.layer(batch[0]).square().mean(), prog_bar=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
def loader(batches):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(4 * batches, 8)), batch_size=4)
trainer = lightning.Trainer(max_epochs=8, accelerator="cpu", enable_checkpointing=False, enable_model_summary=False,
                            logger=lightning.pytorch.loggers.CSVLogger("logs"), callbacks=[{bar}])
trainer.fit(Model(), loader(32), loader(10))
"""

TRAINER = """
import time, torch, transformers
torch.set_num_threads(1)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, x, labels=None):
        time.sleep(0.01)
        y = self.layer(x)
        return {"loss": (y - labels).square().mean(), "logits": y}
class Data(torch.utils.data.Dataset):
    def __init__(self, count): self.x = torch.rand(count, 8)
    def __len__(self): return len(self.x)
    def __getitem__(self, i): return {"x": self.x[i], "labels": self.x[i].sum(0, keepdim=True)}
arguments = transformers.TrainingArguments("out", num_train_epochs=5, per_device_train_batch_size=4,
    eval_strategy="epoch", logging_steps=20, save_strategy="no", report_to=[], use_cpu=True, dataloader_pin_memory=False)
transformers.Trainer(Model(), arguments, train_dataset=Data(160), eval_dataset=Data(160)).train()
"""

# The two reference scripts aren't packages; the programs below print in the same way.
IMAGENET = TQDM + """
for epoch in range(2):
    for phase, batches in (("Epoch: [{}]".format(epoch), 400), ("Test: ", 100)):
        total = 0
        for i in range(batches):
            seconds = 0.0015 if phase == "Test: " else 0.002
            work(seconds)
            total += seconds * (1 + i % 3 / 10)
            if i % 10 == 0 or (phase != "Test: " and i % 10 == 9 and i > 390):
                meter = "{name} {val:6.3f} ({avg:6.3f})"
                count = "[{:" + str(len(str(batches))) + "d}/{}]"
                print(phase + count.format(i + 1, batches),
                      meter.format(name="Time", val=1e2 * seconds * (1 + i % 3 / 10), avg=1e2 * total / (i + 1)),
                      meter.format(name="Data", val=0.001, avg=0.002), "Loss {:.4e} ({:.4e})".format(6.9, 6.91),
                      "Acc@1 {:6.2f} ({:6.2f})".format(0.39, 0.4), sep="\\t")
    print(" * Acc@1 0.400 Acc@5 1.200")
"""

TORCHVISION = """
import datetime, time
for epoch in range(4):
    for header, batches in ((f"Epoch: [{epoch}]", 320), ("Test: ", 60)):
        start = time.perf_counter()
        for i in range(0, batches, 10):
            seconds = (0.21 if header == "Test: " else 0.48) * (1 + (i * 7 + epoch) % 11 / 100)
            eta = datetime.timedelta(seconds=int(seconds * (batches - i)))
            print(header, f" [{i:3d}/{batches}]  eta: {eta}  lr: 0.02  loss: 1.{i:04d} (1.2000)  time: {seconds:.4f}  "
                  f"data: {0.0003:.4f}  max mem: 3512")
        print(f"{header} Total time: {datetime.timedelta(seconds=int(batches * 0.5))} (0.5012 s / it)")
"""

SAMPLES = {  # name: (program, terminal)
    "keras3": (KERAS.format(keras="keras", epochs=12, verbose=1, more="", after="model.evaluate(x, y, batch_size=32)"), False),
    "keras3_terminal": (KERAS.format(keras="keras", epochs=10, verbose=1, more="validation_split=0.1", after=""), True),
    "keras3_lines": (KERAS.format(keras="keras", epochs=12, verbose=2, more="validation_split=0.1", after=""), False),
    "keras2": (KERAS.format(keras="tf_keras", epochs=10, verbose=1, more="",
                            after="model.evaluate(x, y, batch_size=32)"), False),
    "keras2_terminal": (KERAS.format(keras="tf_keras", epochs=10, verbose=1, more="", after=""), True),
    "keras2_lines": (KERAS.format(keras="tf_keras", epochs=12, verbose=2, more="", after=""), False),
    "tqdm": (TQDM + """
for i in tqdm(range(1500), mininterval=0.02):
    work(0.001 + 0.002 * i / 1500)
""", False),
    "tqdm_epochs": (TQDM + """
for epoch in range(10):
    bar = tqdm(range(25), desc=f"Epoch {epoch + 1}/10", unit="batch")
    for i in bar:
        work(0.004)
        bar.set_postfix(loss=1 / (1 + i), lr=1e-3)
    for i in tqdm(range(10), desc="Validating", unit="batch", leave=False):
        work(0.002)
""", False),
    "tqdm_nested": (TQDM + """
for epoch in tqdm(range(8), desc="epochs"):
    for i in tqdm(range(30), desc=f"epoch {epoch}, lr 1e-3", leave=False):
        work(0.004)
""", True),
    "tqdm_slow": (TQDM + """
for i in tqdm(range(12), unit="chunk", ncols=60):
    work(0.02)
    time.sleep(1.1)
""", False),
    "tqdm_scaled": (TQDM + """
bar = tqdm(total=12_000_000, unit="tok", unit_scale=True, mininterval=0.02, ascii=True)
for i in range(600):
    work(0.002)
    bar.update(20_000)
bar.close()
stream = tqdm(iter(range(80)), desc="stream", unit="row", mininterval=0.1)
for i in stream:
    work(0.004)
""", False),
    "lightning": (LIGHTNING.replace("{bar}", "TQDMProgressBar(refresh_rate=8)"), False),
    "lightning_rich": (LIGHTNING.replace("{bar}", "RichProgressBar(refresh_rate=8, leave=True)"), False),
    "lightning_rich_terminal": (LIGHTNING.replace("{bar}", "RichProgressBar(refresh_rate=16)"), True),
    "transformers": (TRAINER, False),
    "imagenet": (IMAGENET, False),
    "torchvision": (TORCHVISION, False),
    "loop_epochs": (TQDM + """
for epoch in range(1, 11):
    start = time.time()
    work(0.03 * (1 + epoch / 10))
    print(f"Epoch {epoch}/10, Loss: {1 / epoch:.4f}, Time: {time.time() - start:.3f} seconds")
    start = time.time()
    work(0.01)
    print(f"  validated epoch {epoch}: accuracy {0.5 + epoch / 100:.2f}, took {time.time() - start:.3f}s")
""", False),
    "loop_steps": (TQDM + """
for step in range(0, 10000, 100):
    start = time.perf_counter()
    work(0.003)
    print(f"step {step}: {1e3 * (time.perf_counter() - start):.2f} ms")
""", False),
}


def output_of(program, terminal):
    environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1",
                   "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
                   "CUDA_VISIBLE_DEVICES": "", "TERM": "xterm", "COLUMNS": "100", "LINES": "30", "LANG": "C.UTF-8",
                   "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.py"
        path.write_text(program, encoding="utf-8")
        command = [sys.executable, str(path)]
        if terminal:
            inside = "stty cols 100 rows 30; exec " + shlex.join(command)
            command = ["script", "-qefc", "bash -c " + shlex.quote(inside), "/dev/null"]
        done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout.decode(errors="replace"))
        return done.stdout


def main():
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or SAMPLES:
        content = output_of(*SAMPLES[name])
        private = re.search(rb"/(home|tmp|root|usr|work)/|site-packages", content)
        if private or len(content) > MOST_BYTES:
            sys.exit(f"{name}: {len(content)} bytes, {private and content[max(0, private.start() - 200):][:400]}")
        (FOLDER / f"{name}.log").write_bytes(content)
        print(f"{name}: {len(content)} bytes")


if __name__ == "__main__":
    main()
