#!/usr/bin/env bash
# Compiles every guess of a table and compares the first error: refused.sh TABLE INCLUDE COMPILER
# An entry with several "> " lines accepts any of them: compilers word their own errors differently.
# The header is compiled once, as a precompiled header.
set -eu
table=$1 include=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/all.h" <<'END'
#include <tapegrad/tapegrad.h>
using namespace tapegrad;
struct Net : nn::Model<Net> {
  nn::Linear fc{4, 2};
  void members(nn::Members& m) override { m("fc", fc); }
  Variable forward(const Variable& x) const { return fc(x); }
};
END
"$compiler" -std=c++20 -I"$include" -x c++-header "$work/all.h" -o "$work/all.h.gch"
awk -v out="$work/guess-" '
  /^#/ { next }
  /^> / && expecting { print substr($0, 3) > (file ".expected"); next }
  /^> / {
    expecting = 1
    if (file) print "}" > file
    file = out sprintf("%02d", ++n) ".cpp"
    print substr($0, 3) > (file ".expected")
    print "void guess() {" > file
    next
  }
  { expecting = 0; print > file }
  END { if (file) print "}" > file }' "$table"
status=0 count=0
for guess in "$work"/guess-*.cpp; do
  count=$((count + 1))
  expected=$(cat "$guess.expected")
  if "$compiler" -std=c++20 -I"$include" -include "$work/all.h" -fsyntax-only "$guess" \
      >"$work/log" 2>&1; then
    echo "compiles: $(sed -n 2,3p "$guess")"
    status=1
  elif ! grep -m1 'error:' "$work/log" | grep -qF -- "$expected"; then
    echo "expected: $expected"
    echo "  answer: $(grep -m1 'error:' "$work/log")"
    status=1
  fi
done
echo "$count guesses refused"
[ "$count" -gt 0 ] || status=1
exit $status
