#!/usr/bin/env bash
# Each number of the table in docs/robustness.md must be in a test, and each T-number of a test in
# the table: promises.sh SOURCE
set -eu
cd "$1"
numbers() { grep -oE '\bT[0-9]{2}(_|\b)' | tr -d _ | sort -u; }
documented=$(awk -F'|' '/^\| T/ { print $2 }' docs/robustness.md | numbers)
tested=$(grep -rhE '\bT[0-9]{2}(_|\b)' tests --include='*.cpp' --include='*.cu' | numbers)
diff <(echo "$documented") <(echo "$tested") && exit 0
echo "< in docs/robustness.md and in no test; > in a test and not in docs/robustness.md"
exit 1
