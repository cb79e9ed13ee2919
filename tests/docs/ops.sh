#!/usr/bin/env bash
# docs/ops.md must equal the tool's output: ops.sh TOOL SOURCE
set -eu
cd "$2"
"$1" op list --format=markdown | diff -u docs/ops.md - && exit 0
echo "docs/ops.md is out of date. Renew it:"
echo "  build/tools/tapegrad op list --format=markdown >docs/ops.md"
exit 1
