#!/bin/sh
# another_compiler.sh COMPILER GIVEN ARGUMENTS...: a compiler launcher that runs COMPILER instead of
# GIVEN, through ccache if it is installed.
compiler=$1
shift 2
exec $(command -v ccache) "$compiler" "$@"
