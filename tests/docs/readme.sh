#!/usr/bin/env bash
# Compares README.md with the files that it shows: readme.sh SOURCE
# The network is the text that examples/mnist_cnn trains; the picture is the table of
# docs/benchmarks.md, where there is a Python to draw it again.
set -eu
cd "$1"
network() { sed -n '/^struct Net /,/^};/p' "$1"; }
[ -n "$(network README.md)" ] || { echo "README.md has no struct Net"; exit 1; }
diff <(network README.md) <(network examples/mnist_cnn/mnist_cnn.cpp) ||
  { echo "< in README.md, > in examples/mnist_cnn/mnist_cnn.cpp"; exit 1; }

command -v python3 >/dev/null || exit 0
python3 benchmarks/picture.py docs/benchmarks.md | cmp -s - docs/images/benchmarks.svg ||
  { echo "docs/images/benchmarks.svg is out of date: python3 benchmarks/picture.py docs/benchmarks.md >docs/images/benchmarks.svg"; exit 1; }
