#!/usr/bin/env bash
# Writes an English corpus for the example: corpus.sh [FILE], by default build/corpus/kjv.txt.
# The text is the King James Bible of Debian's packages bible-kjv and bible-kjv-text, which are
# installed if they are missing: one verse per line, without its number. 4.1 MB, 790,000 words.
set -eu
cd "$(dirname "$0")/../.."
file=${1:-build/corpus/kjv.txt}
scripts/setup.sh bible-kjv bible-kjv-text
mkdir -p "$(dirname "$file")"
bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' >"$file.part"
mv "$file.part" "$file"
wc -wc "$file"
