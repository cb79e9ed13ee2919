#!/usr/bin/env bash
# Compares README.md with the files that it shows: readme.sh SOURCE
# The network is the text that examples/mnist_cnn trains. The numbers, here and in docs/mission.md,
# are those of docs/benchmarks.md and docs/ops.md. The picture is the table of docs/benchmarks.md, if
# there is a Python to draw it again.
set -eu
cd "$1"
network() { sed -n '/^struct Net /,/^};/p' "$1"; }
[ -n "$(network README.md)" ] || { echo "README.md has no struct Net"; exit 1; }
diff <(network README.md) <(network examples/mnist_cnn/mnist_cnn.cpp) ||
  { echo "< in README.md, > in examples/mnist_cnn/mnist_cnn.cpp"; exit 1; }

# value ROW COLUMN: a number of the first table, which is for two threads; 4 is tapegrad, 6 libtorch
value() {
  awk -F'|' -v row=" $1 " -v column="$2" '$2 == row { split($column, v, " "); print v[1]; exit }' \
    docs/benchmarks.md
}
quoted() { grep -qF "$2" "$1" || { echo "$1 lacks \"$2\", a number of docs/"; exit 1; }; }
quoted README.md "$(awk "BEGIN { printf \"%.2g µs (libtorch: %.2g µs)\",
  $(value op.backward 4) / 1000, $(value op.backward 6) / 1000 }")"
quoted README.md "$(value keras_cnn.memory 4) MiB ($(value keras_cnn.memory 6) MiB)"
quoted docs/mission.md "$(value op.backward 4) ns per op with its gradient"
quoted docs/mission.md "$(awk "BEGIN { printf \"%.2f ms a step of 8, %.2f ms of 128\",
  $(value article_cnn_8.step 4), $(value article_cnn_128.step 4) }")"
ops=$(grep -c '^| `' docs/ops.md)
quoted README.md "complete: $ops ops"
quoted docs/mission.md "$ops ops; on the stand-in"

command -v python3 >/dev/null || exit 0
python3 benchmarks/picture.py docs/benchmarks.md | cmp -s - docs/images/benchmarks.svg ||
  { echo "docs/images/benchmarks.svg is out of date: python3 benchmarks/picture.py docs/benchmarks.md >docs/images/benchmarks.svg"; exit 1; }
