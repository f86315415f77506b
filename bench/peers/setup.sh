#!/bin/sh
# Makes the environments of the peers: FOLDER/tf (TensorFlow, Keras, JAX) and FOLDER/torch (PyTorch).
#   bench/peers/setup.sh FOLDER       PYTHON=python3.11 chooses the interpreter
set -eu
if [ $# -ne 1 ]; then
  echo "usage: setup.sh FOLDER" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
for name in tf torch; do
  "${PYTHON:-python3}" -m venv "$1/$name"
  "$1/$name/bin/python" -m pip install --quiet -r "$here/requirements-$name.txt"
  touch "$1/$name/complete"
done
