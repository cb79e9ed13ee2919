#!/bin/sh
# Links the objects of backends/cpu into one object from which the linker cannot take functions:
#   isolate_cpu_level.sh LEVEL OUT OBJECTS...
# The entry points (core/dispatch/internal/backends.h) are renamed into the namespace
# tapegrad::backends::cpu::LEVEL. All other functions become local, and so do virtual tables, which
# point to functions, and the data of backends::cpu. The remaining data must exist once per process
# and stays visible: inline variables, statics of inline functions, and the type information that
# exceptions compare.
set -eu
level=$1 out=$2
shift 2
entry='^_ZN8tapegrad8backends3cpu(16register_kernels|8describe)'
moved="3cpu${#level}$level"

# Dissolves section groups. Otherwise the linker would keep one copy of a group per program and drop
# the local symbols of the others.
"$LD" -r --force-group-allocation -o "$out.all" "$@"
# Columns of readelf: number, value, size, type, binding, visibility, section, name.
"$READELF" -Ws "$out.all" | awk -v entry="$entry" -v moved="$moved" \
  -v keep="$out.keep" -v rename="$out.rename" '
  $5 == "LOCAL" || $7 == "UND" { next }
  $4 == "FUNC" && $8 ~ entry { name = $8; sub("3cpu", moved, name); print $8, name >rename; print name >keep }
  ($4 == "OBJECT" || $4 == "TLS") && $8 !~ /^_ZT[VTC]|8backends3cpu/ { print $8 >keep }'
"$OBJCOPY" --redefine-syms="$out.rename" --keep-global-symbols="$out.keep" "$out.all" "$out"
rm "$out.all" "$out.keep" "$out.rename"
