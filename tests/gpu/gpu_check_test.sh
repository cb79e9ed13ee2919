#!/usr/bin/env bash
# Runs scripts/gpu_check.sh as in the bundle, with programs that print prepared output, and checks
# its report.
#   gpu_check_test.sh SOURCE_FOLDER
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"/{bin,scripts,data}
cp "$1/scripts/gpu_check.sh" "$folder/scripts"
echo abc1234 >"$folder/COMMIT"
cp "$1/docs/gpu_traffic.md" "$folder"
program() {  # NAME: writes a script from standard input
  { echo '#!/usr/bin/env bash' && cat; } >"$folder/bin/$1"
  chmod +x "$folder/bin/$1"
}
program gpu_test <<'end'
case $1 in
  *'-CudaRandom'*) echo '[  FAILED  ] Some.Test' && exit 1 ;;
  *) echo '[  PASSED  ] 3 tests.' ;;
esac
end
cp "$folder/bin/gpu_test" "$folder/bin/op_cases_test"
program gpu <<'end'
line() { printf '%s\t%s\t%s\n' "$@"; }
case $1 in
  bandwidth) line copy.float32 4000 GB/s && line max_pool2d.float32 $((${TAPEGRAD_FAST_PATHS:-1} * 1000 + 1000)) GB/s ;;
  products) line cublas.bfloat16.8192 700 TFLOP/s && line matmul.bfloat16.8192 693 TFLOP/s ;;
  loading) line epoch.1000.device_loader 2.5 ms && line epoch.1000.without_loader 2 ms ;;
  attention) line attention.bfloat16.64 300 TFLOP/s ;;
  steps) [ "$TAPEGRAD_DEVICE" = cpu ] && line "$2.eager" 0.6 ms
    [ "$TAPEGRAD_DEVICE" = cuda ] && line "$2.eager" 0.2 ms && line "$2.graph" 0.05 ms ;;
esac
end
program peaks <<'end'
[ "$2" = --device=cpu ] && printf '  rows    ms per epoch\n   100           0.013\n 40000            0.66\n'
[ "${3:-}" = --graph ] && printf '  rows    ms per epoch\n   100           0.011\n 40000            0.05\n'
true
end
program tables <<'end'
[ -z "$TAPEGRAD_DEVICE" ] && [ "$2" = abc1234 ] && [ -d "$1/images" ] &&
  printf '# Title\n\n## Precision\n\n| cuda | float16 | 8.00 |\n\n![plot](images/a.svg)\n' >"$1/precision_and_parallelism.md"
end
program bottleneck <<'end'
[ "$TAPEGRAD_DEVICE" = cuda ] && echo '  on the CPU      0.9x   10 loops, best of 5: 1.5 ms per loop'
end
program dlbench <<'end'
[[ " $* " = *" fcn_r/4096 "* ]] && printf 'fcn_r/4096\t2.5\tms\n'
end
program mnist_cnn <<'end'
[[ " $* " = *" --data_dir=data "* ]] && echo 'an epoch of 2 steps at 130.484 ms: 0.26 s'
end

status=0
(cd "$folder" && scripts/gpu_check.sh) 2>"$folder/log" || status=$?
results=$folder/gpu_results.md
expect() { grep -qFx -- "$1" "$results" || { echo "not found: $1" && cat "$results" "$folder/log" && exit 1; }; }
[ "$status" -eq 1 ]  # because one part failed
expect '| tests of the device | **failed** |'
expect '| random numbers | passed:  PASSED 3 tests. |'
expect '| max_pool2d.float32 | 2000 | 50 % |'
expect '| without_cudnn_max_pool2d.float32 | 1000 | 25 % |'
expect '| matmul.bfloat16.8192 | 693.0 | 99 % |'
expect '| attention_without_cudnn.bfloat16.64 | 300.0 |  |'
grep -qE '^\| gpt \| 0.2 \| 0.05 \|  \|  \| [0-9.]+ \| [0-9.]+ \|$' "$results"
expect '| resnet50_columns | 0.2 | 0.05 |  |  |  |  |'
expect '| 40000 | 0.66 |  | 0.05 |'
expect '| 128 | 0.26 | 0.26 | 0.26 |'
expect '| 1000 | 2.5 | 2 |'
expect 'The step of peaks on two threads of the CPU: 0.6 ms, 12.0 times the graphed one.'
expect '[  FAILED  ] Some.Test'
expect '## Precision'
expect '| cuda | float16 | 8.00 |'
expect '  on the CPU      0.9x   10 loops, best of 5: 1.5 ms per loop'
expect $'fcn_r/4096\t2.5\tms'
! grep -q 'images/a.svg' "$results"  # the plot is not beside the page
echo "its page has all of it"
