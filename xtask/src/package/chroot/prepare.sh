#!/bin/sh
# Installs what users of the packages have already: compilers and tools. Runs as root in a new
# system.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
# A mirror of Debian unstable may be some weeks behind. The output needs no terminal.
printf 'Acquire::Check-Valid-Until "false";\nDpkg::Use-Pty "0";\n' >/etc/apt/apt.conf.d/90test
apt-get -qq update
for version in 22 21 20 19 16; do
  if apt-cache show "clang-$version" >/dev/null 2>&1; then break; fi
done
apt-get -qq install --no-install-recommends \
  "clang-$version" "lld-$version" "clang-tools-$version" "libomp-$version-dev" "llvm-$version" \
  build-essential cargo rustc cmake pkgconf dpkg-dev debhelper procps >/dev/null
echo "$version" >/etc/longshore-clang
useradd --create-home user
apt-get clean
