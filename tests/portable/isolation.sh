#!/usr/bin/env bash
# Checks that code of a level stays in the object of the level:
#   isolation.sh LIBRARY cpu_avx2.o cpu_avx512.o
# LIBRARY is libtapegrad.a, which contains both objects. Prints violations and fails; otherwise
# prints nothing.
set -eu -o pipefail
library=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# By disassembly: AVX-512 encodings (EVEX, or a mask register) may only occur in cpu_avx512.o, AVX
# encodings (VEX) only in the two objects. A line of objdump has address, bytes, instruction. Byte
# 62 starts EVEX, c4 and c5 start VEX; segment and address prefixes may precede.
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

# By symbols: the linker may only see entry points and data of a level. Since another object may use
# the data of either level, the data may only point to visible data and constants, not to code. No
# code may run at load time.
for object in "$@"; do
  { readelf -WS "$object"; readelf -Ws "$object"; readelf -Wr "$object"; } |
    awk -v object="$(basename "$object")" -v data="$work/$(basename "$object").data" '
    function wrong(what) { print object ": " what }
    /^ *\[ *[0-9]+\] / { sub(/^ *\[ */, ""); section[$1 + 0] = $2 }
    $2 ~ /^\.(preinit_array|init_array|ctors)/ && section[$1 + 0] == $2 { wrong($2) }
    # Columns of a symbol: number, value, size, type, binding, visibility, section, name.
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
    # Columns of a relocation: offset, info, type, value, name.
    /^Relocation section/ { split($0, name, "\047"); rela = name[2] }
    $3 ~ /^R_X86_64_/ && rela in has_data && !($5 in visible) && $5 !~ /^\.rodata/ {
      wrong(substr(rela, 6) " points to " $5)
    }
    END { if (entries != 2) wrong(entries + 0 " entry points") }' | c++filt >>"$work/wrong"
  sort -o "$work/$(basename "$object").data" "$work/$(basename "$object").data"
done
# The linker keeps one of several data objects with one name, so their sizes must be equal.
join "$work"/*.data | awk '$2 != $3 { print $1 " has another size at the other level" }' >>"$work/wrong"

head -20 "$work/wrong" | cut -c1-200
[ ! -s "$work/wrong" ]
