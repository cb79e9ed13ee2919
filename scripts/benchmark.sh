#!/usr/bin/env bash
# Compares tapegrad with the distribution's libtorch, and writes docs/benchmarks.md and its picture;
# also writes docs/unseen.md if $PYTHON has a PyTorch and no workload is named.
#   scripts/benchmark.sh [--rounds=N] [--more] [workload...]
#   scripts/benchmark.sh --tables     writes docs/precision_and_parallelism.md instead (one minute)
#   scripts/benchmark.sh --unseen     writes docs/unseen.md only: networks as users
#                                     write them, beside the PyTorch of $PYTHON and torch.compile
#   scripts/benchmark.sh --dlbench [--quick]   writes docs/dlbench.md instead: the networks of arXiv
#                                     1608.07249 beside PyTorch; --quick: the smallest batches
#   scripts/benchmark.sh --examples   prints times of steps of char_gpt, lstm_lm, vae and cartpole
# Each workload runs in its own process. Processes of tapegrad and libtorch alternate, N rounds
# (default 2) with 1 and with 2 threads. libtorch uses OpenBLAS with OpenMP, AVX-512 if available,
# and an allocator that keeps its memory. If pip has installed a newer PyTorch for $PYTHON
# (python3), it and torch.compile are further columns. The workload "epoch" is an epoch of
# Fashion-MNIST, with 2 threads only. The machine should be idle. --more adds to the measurements
# of the previous run.
set -eu
cd "$(dirname "$0")/.."
rounds=2 more=false workloads=() tables=false steps= quick=false cuda=OFF
for word in "$@"; do
  case $word in
    --rounds=*) rounds=${word#*=} ;;
    --more) more=true ;;
    --tables) tables=true ;;
    --unseen | --dlbench | --examples) steps=${word#--} ;;
    --quick) quick=true ;;
    -h | --help) sed -n '2,18s/^# \{0,1\}//p' "$0"; exit ;;
    *) workloads+=("$word") ;;
  esac
done
everything=false
[ -n "$steps" ] || [ ${#workloads[@]} -gt 0 ] ||
  everything=true workloads=(ops peaks keras_cnn article_cnn_8 article_cnn_128 lstm_lm gpt resnet18 epoch)

if $tables; then
  scripts/setup.sh
  nvidia-smi -L >/dev/null 2>&1 && cuda=AUTO
else
  scripts/setup.sh python3
  scripts/setup.sh libtorch-dev || echo "without libtorch"
fi
build=build-benchmark
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPEGRAD_BUILD_TESTS=OFF \
  -DTAPEGRAD_BUILD_TOOLS=OFF -DTAPEGRAD_BUILD_EXAMPLES=OFF -DTAPEGRAD_BUILD_BENCHMARKS=ON \
  -DTAPEGRAD_CUDA=$cuda -DTAPEGRAD_WERROR="${WERROR:-OFF}" >/dev/null
if $tables; then
  cmake --build $build --target tables
  $build/benchmarks/tables docs "$(git rev-parse --short HEAD)"
  echo "docs/precision_and_parallelism.md is written"
  exit
fi
# interleave PROGRAM PEER OPTION...: times tapegrad and the PyTorch of $PYTHON alternately.
interleave() {
  local program=$build/benchmarks/$1 peer=benchmarks/peers/$2
  cmake --build $build --target "$1" >&2
  shift 2
  python3 benchmarks/interleave.py --rounds="$rounds" "$@" "$program" "$peer" \
    ${workloads[@]+"${workloads[@]}"}
}
case $steps in
  unseen)
    interleave unseen torch_unseen.py --captured --compile --page=benchmarks/unseen/preface.md >docs/unseen.md.new
    ;;
  dlbench)
    if $quick; then
      workloads=({fcn5,fcn8}/64 {alexnet,resnet50}/16 fcn_r/342 alexnet_r/64 resnet56/11 lstm/32)
    fi
    interleave dlbench torch_dlbench.py --page=benchmarks/dlbench/preface.md >docs/dlbench.md.new
    ;;
  examples)
    interleave example_steps torch_examples.py
    exit
    ;;
esac
if [ -n "$steps" ]; then
  mv "docs/$steps.md.new" "docs/$steps.md"
  echo "docs/$steps.md is written"
  exit
fi
# Prints the folder and version of a PyTorch that is not the distribution's.
newer=$("${PYTHON:-python3}" -c 'import importlib.util as util
print(util.find_spec("torch").submodule_search_locations[0])' 2>/dev/null) || newer=
case $newer in /usr/lib/*) newer= ;; esac
[ -z "$newer" ] || version=$(sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$newer/version.py")
cmake -S . -B $build -DTAPEGRAD_NEWER_TORCH="$newer" >/dev/null
cmake --build $build

libraries=/usr/lib/$(gcc -print-multiarch)/openblas-openmp
keep=(MALLOC_MMAP_THRESHOLD_=8000000000 MALLOC_TRIM_THRESHOLD_=16000000000
      MALLOC_TOP_PAD_=268435456)
peer=(env LD_LIBRARY_PATH="$libraries" "${keep[@]}")
grep -q avx512f /proc/cpuinfo && peer+=(OPENBLAS_CORETYPE=SkylakeX ATEN_CPU_CAPABILITY=avx512)

lines=$build/lines.tsv
$more || : >"$lines"
# record PROGRAM THREADS COMMAND...: runs the command and prefixes its lines with program and
# threads.
record() {
  local program=$1 threads=$2
  shift 2
  OMP_NUM_THREADS=$threads "$@" | sed "s/^/$program\t$threads\t/" >>"$lines"
}
for threads in 2 1; do
  for round in $(seq "$rounds"); do
    record machine "$threads" $build/benchmarks/limits
    for workload in "${workloads[@]}"; do
      printf '%d threads, round %d of %d: %s\n' "$threads" "$round" "$rounds" "$workload" >&2
      [ "$threads-$workload" = 1-epoch ] && continue  # takes as long as all others together
      command=(training "$workload")
      case $workload in ops | epoch) command=("$workload") ;; esac
      record ours "$threads" $build/benchmarks/"${command[@]}"
      is_training=false
      case $workload in ops | epoch) ;; *) is_training=true ;; esac
      if $is_training; then
        record captured "$threads" $build/benchmarks/training --captured "$workload"
      fi
      if [ -x $build/benchmarks/peers/torch_ops ]; then
        record libtorch "$threads" "${peer[@]}" $build/benchmarks/peers/torch_"${command[@]}"
      fi
      if [ -n "$newer" ]; then
        record "PyTorch $version" "$threads" env "${keep[@]}" \
          $build/benchmarks/peers/newer_torch_"${command[@]}"
        if $is_training; then
          record torch.compile "$threads" env "${keep[@]}" "${PYTHON:-python3}" \
            benchmarks/peers/torch_training.py --compile "$workload.step"
        fi
      fi
    done
  done
done
python3 benchmarks/table.py "$lines" "$(git rev-parse --short HEAD)" >docs/benchmarks.md
python3 benchmarks/picture.py docs/benchmarks.md >docs/images/benchmarks.svg
echo "docs/benchmarks.md and docs/images/benchmarks.svg are written"
if $everything && [ -n "$newer" ]; then exec scripts/benchmark.sh --rounds="$rounds" --unseen; fi
