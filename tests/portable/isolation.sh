#!/usr/bin/env bash
# Code of a level stays in the object of that level: isolation.sh LIBRARY cpu_avx2.o cpu_avx512.o
# LIBRARY is libtapegrad.a, which holds the two. Prints what is wrong, and fails; else says nothing.
set -eu -o pipefail
library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# By disassembly: encodings of AVX-512 (EVEX, or a mask register) stand in cpu_avx512.o only, those of
# AVX (VEX) in the two. A line of objdump is: address, bytes, instruction. 62 begins EVEX, c4 and c5
# begin VEX; prefixes of segments and addresses may stand before.
objdump -dw "$library" | awk -F'\t' '
  / file format / { object = $1; sub(":.*", "", object) }
  /^[0-9a-f]+ <.*>:$/ { split($0, name, /[<>]/) }
  NF < 3 { next }
  {
    sub(/^((2e|36|3e|26|64|65|67) )+/, "", $2)
    level = $2 ~ /^62 / || $3 ~ /%k[0-7]/ ? 2 : $2 ~ /^c[45] / ? 1 : 0
    allowed = object == "cpu_avx512.o" ? 2 : object == "cpu_avx2.o"
    if (level > highest[object]) highest[object] = level
    if (level > allowed && !told[name[2]]++) print object ": " name[2] ": " $3
  }
  END {
    if (highest["cpu_avx512.o"] != 2 || highest["cpu_avx2.o"] != 1)
      print "the levels themselves have none of their instructions"
  }' | c++filt >"$work/wrong"

# By symbols: the linker sees of a level its entry points, and data. The data must not point into the
# object, since others may get it: to shown data and constants only. Nothing runs as it is loaded.
for object in "$@"; do
  { readelf -WS "$object"; readelf -Ws "$object"; readelf -Wr "$object"; } |
    awk -v object="$(basename "$object")" -v data="$work/$(basename "$object").data" '
    function wrong(what) { print object ": " what }
    /^ *\[ *[0-9]+\] / { sub(/^ *\[ */, ""); section[$1 + 0] = $2 }
    $2 ~ /^\.(preinit_array|init_array|ctors)/ && section[$1 + 0] == $2 { wrong($2) }
    # A symbol: number, value, size, type, binding, visibility, section, name.
    $1 ~ /^[0-9]+:$/ && $5 != "LOCAL" {
      visible[$8]
      if ($7 == "UND") next
      if ($4 == "FUNC" && $8 ~ /^_ZN8tapegrad8backends3cpu[46]avx[0-9]+(16register_kernels|8describe)/)
        ++entries
      else if ($4 != "OBJECT" && $4 != "TLS")
        wrong("shows the function " $8)
      else {
        print $8, $3 >data
        has_data[".rela" section[$7]]
      }
    }
    # A relocation: offset, info, type, value, name.
    /^Relocation section/ { split($0, name, "\047"); rela = name[2] }
    $3 ~ /^R_X86_64_/ && rela in has_data && !($5 in visible) && $5 !~ /^\.rodata/ {
      wrong(substr(rela, 6) " points to " $5)
    }
    END { if (entries != 2) wrong(entries + 0 " entry points") }' | c++filt >>"$work/wrong"
  sort -o "$work/$(basename "$object").data" "$work/$(basename "$object").data"
done
# The linker keeps one of several with the same name.
join "$work"/*.data | awk '$2 != $3 { print $1 " has another size at the other level" }' >>"$work/wrong"

head -20 "$work/wrong" | cut -c1-200
[ ! -s "$work/wrong" ]
