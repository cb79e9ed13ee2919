#!/usr/bin/env bash
# Checks the tables of docs/mission.md: mission.sh SOURCE
# Every row of the five texts occurs once, and everything that its third column names exists: the
# programs with their flags, the tests, the ctest entries and the files.
set -u
cd "$1"
status=0
wrong() { echo "docs/mission.md: $*"; status=1; }

diff <(for text in 1:22 2:12 3:27 4:7 5:17; do
         seq -f "S${text%:*}-%02g" "${text#*:}"
       done) <(grep -oE '^\| S[0-9]-[0-9]{2} ' docs/mission.md | tr -d '| ' | sort) ||
  wrong "rows are missing, unknown or given twice"

tests=$(grep -rhoE '^TEST(_F|_P)?\([A-Za-z0-9]+, [A-Za-z0-9_]+' tests --include='*.cpp' |
  sed -E 's/.*\(//; s/, /./')
entries=$(grep -rhoE 'NAME example_[a-z0-9_${}]+|tapegrad_example_test\([a-z0-9_]+' examples/CMakeLists.txt |
  sed -E 's/NAME //; s/tapegrad_example_test\((.*)/example_\1\nexample_\1_device/')
subcommands=$(grep -oE '"(run|gradcheck|bench|list)"' tools/main.cpp tools/options.cpp | tr -d '"' | sed 's/.*://')

# Each item is one name between backquotes.
check() {
  local row=$1 item=$2 program=${2%% *} name flag
  name=${program##*/}
  case $item in
    build/examples/*)
      [ -f "examples/$name/$name.cpp" ] || { wrong "$row: no example $name"; return; }
      for flag in $(grep -oE -- '--[a-z_]+' <<<"$item" | tr -d -); do
        grep -qE "ABSL_FLAG\([^,]+(<[^>]*>)?, $flag," "examples/$name/$name.cpp" ||
          wrong "$row: $name has no flag --$flag"
      done ;;
    build/benchmarks/*)
      grep -qE "tapegrad_(benchmark|steps)\($name " benchmarks/CMakeLists.txt || wrong "$row: no benchmark $name" ;;
    "build/tools/tapegrad --version") ;;
    "build/tools/tapegrad op "*)
      grep -qx "${item##* }" <<<"$subcommands" || wrong "$row: tapegrad has no ${item#* }" ;;
    example_*)
      grep -qxF "$item" <<<"$entries" || wrong "$row: no ctest entry $item" ;;
    */* | *.md | *.txt)
      [ -e "$item" ] || wrong "$row: no file $item" ;;
    *.*)
      grep -qxF "$item" <<<"$tests" || wrong "$row: no test $item" ;;
    *) wrong "$row: \"$item\" is no program, test or file" ;;
  esac
}

rows=0
while IFS= read -r line; do
  rows=$((rows + 1))
  line=${line//\\|/ }
  IFS='|' read -r _ row _ shown result <<<"$line"
  row=${row// /}
  [ -n "${result//[ |]/}" ] || wrong "$row: has no result"
  items=$(grep -oE '`[^`]+`' <<<"$shown" | tr -d '`')
  [ -n "$items" ] || wrong "$row: names nothing that shows it"
  while IFS= read -r item; do
    [ -z "$item" ] || check "$row" "$item"
  done <<<"$items"
done < <(grep -E '^\| S[0-9]' docs/mission.md)
echo "$rows rows checked"
exit $status
