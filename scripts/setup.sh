#!/usr/bin/env bash
# Installs the distribution packages (Debian 12) that tapegrad needs, and prints their names. Can be
# sourced or run; does nothing if all packages are installed.
set -eu

packages=(g++ cmake ninja-build ccache pkg-config libabsl-dev libgtest-dev libbenchmark-dev
          libxsimd-dev libdnnl-dev libopenblas-openmp-dev zlib1g-dev nlohmann-json3-dev
          dataset-fashion-mnist "$@")
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; install them, or run as root" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing from the distribution: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
