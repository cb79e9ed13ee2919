#!/usr/bin/env bash
# Compiles every ```cpp block of the README and docs/: snippets.sh SOURCE INCLUDE COMPILER
# A block with a main() is a program. Any other block is put into a function, after
# `using namespace tapegrad;`. Blocks of one file can use the names of earlier blocks.
set -eu
source=$1 include=$2 compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0 blocks=0
for page in "$source"/README.md "$source"/docs/*.md; do
  awk -v out="$work/$(basename "$page" .md)" '
    /^```cpp$/ { inside = 1; text = ""; next }
    /^```$/ && inside {
      inside = 0
      if (text ~ /int main\(/) { print text > (out "-" ++n ".cpp") }
      else if (text ~ /(^|\n)(struct|class|Variable [a-z_]+\(|#include|namespace)/) top = top text "\n"
      else body = body text "\n"
      next
    }
    inside { text = text $0 "\n" }
    END {
      if (top body != "")
        print "#include <tapegrad/tapegrad.h>\n#include <iostream>\nusing namespace tapegrad;\n" top \
              "[[maybe_unused]] static void snippet() {\n" body "}" > (out "-0.cpp")
    }' "$page"
done
for file in "$work"/*.cpp; do
  blocks=$((blocks + 1))
  "$compiler" -std=c++20 -fsyntax-only -I"$include" "$file" || { echo "in $(basename "$file")"; status=1; }
done
echo "$blocks snippet files compiled"
[ "$blocks" -gt 0 ] || status=1
exit $status
