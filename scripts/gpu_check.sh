#!/usr/bin/env bash
# Runs everything that needs a real GPU, in about 8 minutes, and writes docs/gpu_results.md:
#   1  all tests of the device        2  random numbers, bit-identical to the CPU's
#   3  cuDNN compared with our own kernels
#   4  every op in every dtype        5  graphs compared with eager steps
#   6  bandwidths                     7  matrix products and cuBLAS alone, attention, batches
#   8  training steps, eager and graphed, and PyTorch's if python3 has torch; ResNet-50 also
#      without cuDNN
#   9  times on the CPU: a step; an epoch for several numbers of rows and batch sizes
#  10  the tables of docs/precision_and_parallelism.md, with copies to the device and the GPU's rows
#  11  output of programs: peaks on both devices in one run, bottleneck, the networks of
#      arXiv 1608.07249, precision, word2vec, resnet_cifar and all other examples
# In a checkout, the script builds first. In the bundle of scripts/make_bundle.sh, it needs only an
# NVIDIA driver and cuBLAS, and uses cuDNN if present. Without a GPU, it prints a message and exits.
set -u
cd "$(dirname "$0")/.."
root=$PWD
begin=$SECONDS
say() { printf '== %3d s  %s\n' $((SECONDS - begin)) "$*" >&2; }
left() { echo $((${GPU_CHECK_SECONDS:-470} - SECONDS + begin)); }

if [ -d bin ] && [ -f COMMIT ]; then  # in the bundle
  tests=bin gpu=bin/gpu examples=bin benchmarks=bin commit=$(cat COMMIT) out=gpu_results.md peers=peers
  images=--data_dir=data predictions=gpu_traffic.md
else
  build=${GPU_CHECK_BUILD:-build-gpu}
  if ! command -v nvidia-smi >/dev/null && [ ! -e /dev/nvidiactl ]; then
    echo "gpu_check: there is no GPU here (no nvidia-smi, no /dev/nvidiactl): nothing was run," \
      "docs/gpu_results.md is as it was" >&2
    exit 77
  fi
  scripts/setup.sh || exit 1
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTAPEGRAD_CUDA=ON \
    -DTAPEGRAD_BUILD_BENCHMARKS=ON >/dev/null || exit 1
  cmake --build "$build" --target gpu_test op_cases_test gpu tables dlbench \
    example_{bottleneck,cartpole,char_gpt,custom_op,lstm_lm,mnist_cnn,peaks,precision} \
    example_{quickstart,resnet_cifar,vae,word2vec} >&2 || exit 1
  begin=$SECONDS  # the time of the build does not count
  tests=$build/bin gpu=$build/benchmarks/gpu examples=$build/examples images=
  benchmarks=$build/benchmarks
  commit=$(git rev-parse --short HEAD)
  out=docs/gpu_results.md peers=benchmarks/peers predictions=docs/gpu_traffic.md
  mkdir -p "$tests"
  ln -sf "$root/$build/tests/gpu/gpu_test" "$root/$build/tests/op_cases_test" "$tests/"
fi

# Adds cuBLAS and cuDNN of a toolkit, or of PyTorch's packages, to the library path.
for folder in /usr/local/cuda/lib64 $(python3 -c 'import glob, site
for s in site.getsitepackages() + [site.getusersitepackages()]:
    print(*glob.glob(s + "/nvidia/*/lib"))' 2>/dev/null); do
  [ -d "$folder" ] && LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
export LD_LIBRARY_PATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$tests/gpu_test" --gtest_list_tests >"$work/list" 2>&1
status=$?
if [ $status -ne 0 ]; then  # 77: there is no GPU
  echo "gpu_check: $(tail -1 "$work/list"); nothing was run, $out is as it was" >&2
  exit $status
fi

failed=0
# part NAME COMMAND...: runs the command and records its verdict. Prints its output if it fails.
part() {
  local name=$1 seconds=$(left)
  shift
  say "$name"
  if [ "$seconds" -lt 5 ]; then
    printf '| %s | not run: no time left |\n' "$name" >>"$work/verdicts"
    failed=1
  elif timeout "$seconds" "$@" >"$work/log" 2>&1; then
    printf '| %s | passed: %s |\n' "$name" \
      "$(grep -aE '^\[ +PASSED' "$work/log" | tail -1 | tr -s '[] ' ' ')" >>"$work/verdicts"
  else
    printf '| %s | **failed** |\n' "$name" >>"$work/verdicts"
    failed=1
    grep -aE 'Failure|FAILED|rror' "$work/log" | head -40 | tee -a "$work/failures" >&2
  fi
}
# lines SED COMMAND...: runs a measurement and stores those output lines that the sed script prints.
lines() {
  local sed=$1 seconds=$(left)
  shift
  [ "$seconds" -lt 5 ] && { echo "no time left for: $*" | tee -a "$work/failures" >&2; return; }
  timeout "$seconds" "$@" 2>>"$work/failures" | sed -nE "$sed" >>"$work/lines"
  [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
}
# predicted MODEL: prints the least milliseconds of an eager and of a graphed step, which were counted
# without a GPU, for an H200 or else an H100.
predicted() {
  local memory=8
  nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | grep -q H200 && memory=10
  awk -F' *[|] *' -v model="$1" -v device=$memory '/^## / { here = /^## Prediction/ }
    here && $2 == model { printf "%.3g\t%.3g", ($5 > $device ? $5 : $device) / 1000, $device / 1000 }' \
    "$predictions" 2>/dev/null
}
value() { awk -F'\t' -v name="$1" '$1 == name { print $2 }' "$work/lines" | sort -g | head -1; }

: >"$work/lines"
: >"$work/failures"
part "tests of the device" "$tests/gpu_test" --gtest_filter='-CudaRandom*:GraphedStep*:CudaConvolution*:*Cudnn*'
part "random numbers" "$tests/gpu_test" --gtest_filter='CudaRandom*'
part "with and without cuDNN" "$tests/gpu_test" --gtest_filter='CudaConvolution*:*Cudnn*'
grep -a -A1 'Skipped$' "$work/log" | tail -1 >>"$work/failures"  # the reason, if cuDNN is missing
part "convolutions by im2col" env TAPEGRAD_DEVICE=cuda TAPEGRAD_FAST_PATHS=0 \
  "$tests/op_cases_test" --gtest_filter='conv*'
part "every op" env TAPEGRAD_DEVICE=cuda "$tests/op_cases_test" \
  --gtest_filter='*/values:*/layouts:*/operands:*/gradients-reduce.sum/6/gradients:reduce.mean/6/gradients'
part "graphs" "$tests/gpu_test" --gtest_filter='GraphedStep*'
if command -v compute-sanitizer >/dev/null; then
  part "compute-sanitizer" compute-sanitizer --error-exitcode 1 "$tests/gpu_test" \
    --gtest_filter='CudaLongRows*:CudaTraining.Words:CudaAttention.*'
fi
export TAPEGRAD_DEVICE=cuda
say "bandwidths"
lines p "$gpu" bandwidth
TAPEGRAD_FAST_PATHS=0 lines 's/^(batch_norm|max_pool2d|avg_pool2d)/without_cudnn_&/p' "$gpu" bandwidth
say "matrix products"
lines p "$gpu" products
say "batches"
lines p "$gpu" loading
say "attention"
lines p "$gpu" attention
TAPEGRAD_FAST_PATHS=0 lines 's/^attention[.]b/attention_without_cudnn.b/p' "$gpu" attention
workloads=(peaks keras_cnn keras_cnn_1024 article_cnn_8 article_cnn_128 lstm_lm gpt resnet18 resnet50)
with_torch=$(python3 -c 'import torch; print(torch.__version__ if torch.cuda.is_available() else "")' \
  2>/dev/null)
for round in 1 2; do
  for workload in "${workloads[@]}"; do
    say "$workload, round $round"
    lines p "$gpu" steps "$workload"
    [ -n "$with_torch" ] && lines p python3 "$peers/torch_gpu.py" "$workload"
  done
done

say "resnet50 without cuDNN"
TAPEGRAD_FAST_PATHS=0 lines s/^resnet50/resnet50_columns/p "$gpu" steps resnet50
workloads+=(resnet50_columns)

export OMP_NUM_THREADS=2
say "on the CPU"
TAPEGRAD_DEVICE=cpu lines 's/^peaks[.]eager/peaks.cpu/p' "$gpu" steps peaks
for device in cpu cuda graph; do
  switch=(--device=$device)
  [ $device = graph ] && switch=(--device=cuda --graph)
  say "an epoch, $device"
  lines "s/^ *([0-9]+) +([0-9.e-]+)$/rows.\1.$device\t\2\tms/p" "$examples/peaks" --sweep "${switch[@]}"
  for batch in 8 128; do
    lines "s/^an epoch of .*: (.*) s$/batch.$batch.$device\t\1\ts/p" "$examples/mnist_cnn" \
      --net=scratch --batch_size=$batch --progress=none ${images:+"$images"} "${switch[@]}"
  done
done

: >"$work/programs"
# program SED PATH ARGUMENT...: stores lines of a program's output, if the program exists.
program() {
  local sed=$1 path=$2 name=${2##*/} seconds=$(left)
  shift 2
  [ -x "$path" ] || return
  [ "$seconds" -lt 5 ] && { echo "no time left for: $name $*" >>"$work/failures"; return; }
  say "$name $*"
  printf '\n$ %s %s\n' "$name" "$*" >>"$work/programs"
  timeout "$seconds" "$path" "$@" 2>>"$work/failures" | sed -nE "$sed" >>"$work/programs"
  [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
}
TAPEGRAD_DEVICE='' program '/^(device|cpu|cuda|the losses)/p' "$examples/peaks" --epochs=500 --out="$work"
mkdir -p "$work/images"
TAPEGRAD_DEVICE='' program p "$benchmarks/tables" "$work" "$commit"
program p "$examples/bottleneck" ${images:+"$images"}
program p "$benchmarks/dlbench" {fcn5,fcn8}/64 {alexnet,resnet50}/16 fcn_r/{342,4096} alexnet_r/{64,2048} \
  resnet56/{11,128} lstm/{32,1024}
program p "$examples/custom_op"
program p "$examples/precision" --epochs=1 ${images:+"$images"}
for device in cpu cuda; do
  program '/^(epoch|[^|].*words)/p' "$examples/word2vec" --corpus=/usr/share/common-licenses --epochs=2 \
    --device=$device
done
program '/^(ResNet|epoch|  +[0-9]| *[0-9.]+ %)/p' "$examples/resnet_cifar" --amp=bf16 ${images:+"$images"}
program '/^(step|fastest|[0-9]+ letters)/p' "$examples/char_gpt" --steps=200
program '/^(epoch|fastest)/p' "$examples/lstm_lm" --epochs=2
program '/^(epoch|fastest)/p' "$examples/vae" --epochs=1 ${images:+"$images"}
program '/^(episode|[0-9]+ steps)/p' "$examples/cartpole" --episodes=50
program p "$examples/quickstart"

{
  echo "# Results on a GPU"
  echo
  echo "Written by scripts/gpu_check.sh on $(date -u +%F), commit $commit."
  echo
  echo '```'
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
  echo "PyTorch: ${with_torch:-none}"
  echo '```'
  printf '\n| checked | |\n|---|---|\n'
  cat "$work/verdicts"
  printf '\n| 256 MiB | GB/s | of copy |\n|---|---|---|\n'
  awk -F'\t' '$3 == "GB/s" { split($1, n, "."); if (n[1] == "copy") copy[n[2]] = $2
    printf "| %s | %.0f | %.0f %% |\n", $1, $2, 100 * $2 / copy[n[2]] }' "$work/lines"
  printf '\n| product | TFLOP/s | of cuBLAS alone |\n|---|---|---|\n'
  awk -F'\t' '$3 == "TFLOP/s" { what = $1; sub(/^[^.]*[.]/, "", what)
    if ($1 ~ /^cublas[.]/) alone[what] = $2
    printf "| %s | %.1f | %s |\n", $1, $2, (alone[what] > 0 ? sprintf("%.0f %%", 100 * $2 / alone[what]) : "") }' \
    "$work/lines"
  printf '\n| ms per step, minimum of two rounds | eager | graphed | PyTorch eager | PyTorch / graphed |'
  printf ' predicted eager, at least | predicted graphed, at least |\n|---|---|---|---|---|---|---|\n'
  for workload in "${workloads[@]}"; do
    printf '%s\t%s\t%s\t%s\t%s\n' "$workload" "$(value "$workload.eager")" \
      "$(value "$workload.graph")" "$(value "$workload.torch")" "$(predicted "$workload")"
  done | awk -F'\t' '{ printf "| %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4 == "" ? "" : $4,
    ($3 > 0 && $4 > 0 ? sprintf("%.2f", $4 / $3) : ""), $5, $6 }'
  # across TITLE PREFIX COLUMN...: prints the lines PREFIX.row.column as a table.
  across() {
    local title=$1 prefix=$2 row column
    shift 2
    printf '\n| %s |' "$title" && printf ' %s |' "$@" && printf '\n|---|' && printf -- '---|%.0s' "$@"
    echo
    for row in $(awk -F'[.\t]' -v p="$prefix" '$1 == p { print $2 }' "$work/lines" | sort -nu); do
      printf '| %s |' "$row"
      for column in "$@"; do printf ' %s |' "$(value "$prefix.$row.$column")"; done
      echo
    done
  }
  across "peaks: ms per epoch, by number of rows" rows cpu cuda graph
  across "small CNN: s per epoch, by batch size" batch cpu cuda graph
  across "40,000 rows: ms per epoch, by batch size" epoch device_loader without_loader
  awk -v cpu="$(value peaks.cpu)" -v graph="$(value peaks.graph)" 'BEGIN { if (cpu > 0 && graph > 0)
    printf "\nThe step of peaks on two threads of the CPU: %s ms, %.1f times the graphed one.\n", cpu, cpu / graph }'
  printf '\nWhat the programs printed:\n\n```'
  cat "$work/programs"
  echo '```'
  sed -n '/^## /,$ { /^!\[/d; p; }' "$work/precision_and_parallelism.md" 2>/dev/null
  if [ -s "$work/failures" ]; then
    printf '\nFailures and messages:\n\n```\n'
    cat "$work/failures"
    echo '```'
  fi
} >"$work/results.md"
cp "$work/results.md" "$out"
say "$out is written"
exit $failed
