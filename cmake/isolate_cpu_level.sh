#!/bin/sh
# Links the objects of backends/cpu into one that other objects cannot take code from:
#   isolate_cpu_level.sh LEVEL OUT OBJECTS...
# Its entry points, core/dispatch/internal/backends.h, move to a namespace: tapegrad::backends::cpu::LEVEL. What else
# stays visible is the data that the process has once: inline variables, statics of inline functions,
# types as exceptions compare them. All functions become local, and what holds pointers to them: the
# tables of virtual functions. So does the data of backends::cpu itself.
set -eu
level=$1 out=$2
shift 2
entry='^_ZN8tapegrad8backends3cpu(16register_kernels|8describe)'
moved="3cpu${#level}$level"

# Groups dissolve: a group that is kept once in the program would have its local symbols thrown away.
"$LD" -r --force-group-allocation -o "$out.all" "$@"
# readelf: number, value, size, type, binding, visibility, section, name.
"$READELF" -Ws "$out.all" | awk -v entry="$entry" -v moved="$moved" \
  -v keep="$out.keep" -v rename="$out.rename" '
  $5 == "LOCAL" || $7 == "UND" { next }
  $4 == "FUNC" && $8 ~ entry { name = $8; sub("3cpu", moved, name); print $8, name >rename; print name >keep }
  ($4 == "OBJECT" || $4 == "TLS") && $8 !~ /^_ZT[VTC]|8backends3cpu/ { print $8 >keep }'
"$OBJCOPY" --redefine-syms="$out.rename" --keep-global-symbols="$out.keep" "$out.all" "$out"
rm "$out.all" "$out.keep" "$out.rename"
