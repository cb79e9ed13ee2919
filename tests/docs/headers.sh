#!/usr/bin/env bash
# The public headers compile without a warning that a user may have turned on, and with clang 14,
# whose <source_location> lacks a builtin: headers.sh INCLUDE COMPILER
set -eu
include=$1 compiler=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/program.cpp" <<'END'
#include <tapegrad/tapegrad.h>
int main() {
  const tapegrad::Variable x = tapegrad::randn({2, 3});
  return int(x.sum(1).numel()) - 2;
}
END
status=0
for each in "$compiler" clang++-14 clang++-16; do
  command -v "$each" >/dev/null || continue
  "$each" -std=c++20 -fsyntax-only -I"$include" -Wall -Wextra -Wshadow -Wconversion -Werror \
    "$work/program.cpp" || status=1
  echo "$each: done"
done
exit $status
