#!/bin/sh
# another_compiler.sh COMPILER GIVEN ARGUMENTS...: a compiler launcher that runs COMPILER, through
# ccache where it is installed, in place of the one that was given.
compiler=$1
shift 2
exec $(command -v ccache) "$compiler" "$@"
