#!/bin/sh
# Installs the packages in a Debian system, uses them as a user would, and removes them.
. /packages/common.sh

step "drivers: only plugins of vendors recommend them"
for file in $new; do
  name=$(dpkg-deb -f "$file" Package)
  case $name in
    liblongshore-plugin-cuda|liblongshore-plugin-amdgpu|liblongshore-plugin-vulkan) continue ;;
    liblongshore-plugin-mpi) continue ;;
  esac
  if dpkg-deb -f "$file" Depends Recommends | grep -i -E 'cuda|nvidia|amdhip|vulkan|mesa|mpi'; then
    fail "$name pulls in a driver"
  fi
done

snapshot >/tmp/before

step "installation"
install_files $new
apt-get -qq check

step "the command, its manual and the demo"
as_user 'longshore --version && longshore devices && longshore plugins'
expect 'host:0'
test -e /usr/share/man/man1/longshore.1.gz || fail "there is no manual page"
cat >/home/user/saxpy.c <<'END'
#include <longshore_device.h>
LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {
  uint64_t i = longshore_global_id(0);
  if (i < n) y[i] += a * x[i];
}
END
as_user "longshore cc saxpy.c && longshore run saxpy.img --items 4 --arg u64=4 --arg f32=2.5 \
  --arg 'f32[4]=iota' --arg 'out:f32[4]=one'"
expect 'argument 3: f32[4] = 1, 3.5, 6, 8.5'

step "longshore check"
as_user 'longshore check --backend host'
grep " passed, " /tmp/output

step "isolated plugin"
as_user 'LONGSHORE_ISOLATE=host longshore plugins'
expect 'isolated'

step "a C program by pkg-config, one by CMake"
as_user 'cp -r /usr/share/doc/longshore/examples . && cd examples && longshore cc kernels.c &&
  cc saxpy.c $(pkg-config --cflags --libs LLVMOffload) -o saxpy && ./saxpy kernels.img'
cp /packages/CMakeLists.txt /home/user/examples/
as_user 'cd examples && cmake -S . -B build && cmake --build build && build/shared kernels.img &&
  build/static kernels.img'

step "an OpenMP program"
cat >/home/user/first.c <<'END'
#include <omp.h>
#include <stdio.h>
int main(void) {
  int on_device = 0, sum = 0;
#pragma omp target map(from : on_device)
  on_device = !omp_is_initial_device();
#pragma omp target teams distribute parallel for reduction(+ : sum)
  for (int i = 1; i <= 100; i++) sum += i;
  printf("devices: %d, on a device: %d, sum: %d\n", omp_get_num_devices(), on_device, sum);
  return 0;
}
END
llvm=/usr/lib/llvm-$clang/lib
as_user "clang-$clang -O2 -g -fopenmp -fopenmp-targets=x86_64-pc-linux-gnu -L/usr/lib/longshore/openmp \
  -L$llvm first.c -o first &&
  LD_LIBRARY_PATH=/usr/lib/longshore/openmp:$llvm ./first"
expect 'devices: 1, on a device: 1, sum: 5050'

step "plugins of a vendor, with this and with other versions of the interface"
vendor() { # NAME EDIT: makes and installs a plugin as a package, with an edited header.
  as_user "rm -rf $1 && cp -r examples/plugin-c $1 && cd $1 &&
    sed '$2' /usr/include/longshore_plugin.h >longshore_plugin.h &&
    make BACKEND=$1 INCLUDE=\$PWD &&
    mkdir -p package/DEBIAN package/usr/lib/longshore &&
    cp liblongshore_plugin_$1.so package/usr/lib/longshore/ &&
    printf 'Package: liblongshore-plugin-$1\nVersion: 1.0\nArchitecture: all\nMaintainer: Vendor <vendor@example.invalid>\nDescription: plugin of a vendor\n' >package/DEBIAN/control &&
    dpkg-deb --build --root-owner-group package $1.deb"
  install_files "/home/user/$1/$1.deb"
}
vendor sample ''
vendor minor 's/\(INTERFACE_MINOR\) 0/\1 1/'
vendor major 's/\(INTERFACE_MAJOR\) 1/\1 2/'
for backend in sample minor; do
  as_user "LONGSHORE_BACKEND=$backend longshore devices"
  expect "$backend:0"
done
as_user 'LONGSHORE_BACKEND=major longshore plugins || true'
expect '2.0'
expect '1.0'
as_user '! LONGSHORE_BACKEND=major longshore run saxpy.img --items 1'
apt-get -qq purge liblongshore-plugin-sample liblongshore-plugin-minor liblongshore-plugin-major \
  >/tmp/apt.log

step "projects of new-plugin as packages: C, and Rust with the packed crates alone"
use_project() { # LANGUAGE
  apt-get -qq install /home/user/longshore-plugin-*.deb >/tmp/apt.log 2>&1 ||
    { cat /tmp/apt.log; fail "the package of the project in $1 cannot be installed"; }
  as_user "LONGSHORE_BACKEND=$1 longshore devices"
  expect "$1:0"
  as_user "longshore check --backend $1"
  grep " passed, " /tmp/output
  apt-get -qq purge "longshore-plugin-$1" >/tmp/apt.log
  rm -f /home/user/longshore-plugin-*
}
as_user 'longshore new-plugin inc --lang c && cd inc && dpkg-buildpackage -us -uc -b'
use_project inc
rust=$(rustc --version | cut -d ' ' -f 2)
if [ "$(printf '1.85\n%s\n' "$rust" | sort -V | head -n 1)" = 1.85 ]; then
  as_user 'longshore new-plugin inrust --lang rust --path /packages/crates/longshore-plugin-api &&
    cd inrust && mkdir .cargo && cp /packages/vendored.toml .cargo/config.toml &&
    sed -i "/^.patch.crates-io.$/r /packages/patch.toml" Cargo.toml &&
    dpkg-buildpackage -us -uc -b'
  use_project inrust
else
  echo "skipped: the interface needs Rust 1.85, and this release has $rust"
fi

step "an older version, an upgrade, a downgrade, an upgrade"
for packages in "$old" "$new" "$old" "$new"; do
  install_files $packages
  as_user 'longshore devices'
  expect 'host:0'
done
test ! -e /usr/lib/longshore/only-in-old || fail "an upgrade left a file of the old version"

step "removal"
apt-get -qq purge $names >/tmp/apt.log
apt-get -qq autoremove --purge >/tmp/apt.log
snapshot >/tmp/after
diff /tmp/before /tmp/after >/tmp/difference || { cat /tmp/difference; fail "files were left or changed"; }
echo "-- nothing is left"
