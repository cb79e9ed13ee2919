#!/usr/bin/env bash
# Holds the cost of compiling the README's program: compile_cost.sh SOURCE INCLUDE COMPILER
# Processor time varies with other programs. The memory that g++ takes and the number of functions
# in the object do not, and the time follows them. The limits are those of g++ 12.
set -eu
source=$1 include=$2 compiler=$3
# Clang defines __GNUC__, too.
macros=$("$compiler" -x c++ -dM -E /dev/null)
if ! grep -q '__GNUC__ 12$' <<<"$macros" || grep -q __clang__ <<<"$macros"; then
  echo "skipped: the limits are those of g++ 12"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```cpp$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$source/README.md" >"$work/program.cpp"
grep -q 'int main()' "$work/program.cpp" || { echo "README.md has no program"; exit 1; }
"$compiler" -std=c++20 -O0 -ftime-report -c -I"$include" "$work/program.cpp" -o "$work/program.o" 2>"$work/report"
memory=$(awk '/TOTAL/ { print int($NF) }' "$work/report")
functions=$(nm "$work/program.o" | grep -c ' [TW] ')
echo "$memory MB of the compiler, $functions functions in the object"
status=0
[ "$memory" -gt 0 ] && [ "$memory" -le 280 ] || { echo "limit: 280 MB"; status=1; }
[ "$functions" -gt 0 ] && [ "$functions" -le 350 ] || { echo "limit: 350 functions"; status=1; }
[ $status = 0 ] || echo "docs/architecture.md, \"Time of compilation\", has the rules for headers"
exit $status
