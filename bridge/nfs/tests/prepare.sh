#!/bin/sh
# Installs the real NFS server that the tests of bridge/nfs run against: nfs-ganesha with its VFS back end, and rpcbind,
# which it registers with. Does nothing if they are there. Run as root, or as a user who may use sudo.
set -eu

packages="nfs-ganesha nfs-ganesha-vfs rpcbind"

installed() {
    [ -x /usr/bin/ganesha.nfsd ] && [ -x /usr/sbin/rpcbind ] && ls /usr/lib/*/ganesha/libfsalvfs.so >/dev/null 2>&1
}

fail() {
    echo "prepare: $1" >&2
    exit 1
}

if installed; then
    echo "prepare: nfs-ganesha and rpcbind are installed"
    exit 0
fi

command -v apt-get >/dev/null || fail "no apt-get here: install these Debian packages in another way: $packages"

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "neither root nor sudo: run as root: apt-get install -y $packages"
    as_root="sudo"
fi

# The packages would start their services; the tests start their own, with their own configuration.
echo "prepare: installing $packages with apt-get"
install() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $packages
}
if ! install; then
    echo "prepare: reading the package lists, then trying again"
    $as_root apt-get update || fail "apt-get update failed: see above; is the network there?"
    install || fail "apt-get install $packages failed: see above"
fi

installed || fail "the packages are installed, but ganesha.nfsd, rpcbind or libfsalvfs.so is not where it is looked for"
echo "prepare: nfs-ganesha and rpcbind are installed now"
