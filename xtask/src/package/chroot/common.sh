# Functions of the scripts that run in a chroot.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
clang=$(cat /etc/longshore-clang)
new=$(echo /packages/new/*.deb)
old=$(echo /packages/old/*.deb)
names=$(for file in $new; do dpkg-deb -f "$file" Package; done)

step() { echo "-- $*"; }

fail() { echo "error: $*" >&2; exit 1; }

# Installs package files with their dependencies, and nothing that is only recommended.
install_files() {
  apt-get -qq install --no-install-recommends --allow-downgrades "$@" >/tmp/apt.log 2>&1 ||
    { cat /tmp/apt.log; fail "apt-get cannot install $*"; }
}

# Runs a command as the user, in the user's folder, with the output in /tmp/output.
as_user() {
  runuser -u user -- sh -c "cd; $1" >/tmp/output 2>&1 || { cat /tmp/output; fail "failed: $1"; }
}

# Ends the test unless the last output contains a text.
expect() {
  grep -q -F -e "$1" /tmp/output || { cat /tmp/output; fail "the output has no '$1'"; }
}

# Prints every file with its type, mode, owner and contents. Logs, caches and the lists of the
# package manager change with every installation.
snapshot() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages \
    -o -path /home -o -path /var/cache -o -path /var/lib/apt -o -path /var/log \
    -o -path /etc/ld.so.cache \) -prune \
    -o -printf '%y %m %u:%g %p %l\n' | grep -v ' /var/lib/dpkg/.*\(-old\|lock\)' | sort
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages \
    -o -path /home -o -path /var/cache -o -path /var/lib/apt -o -path /var/log \
    -o -path /var/lib/dpkg -o -path /etc/ld.so.cache \) -prune -o -type f -print0 |
    sort -z | xargs -0 sha256sum
}
