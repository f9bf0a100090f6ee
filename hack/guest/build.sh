#!/bin/bash
# build.sh: makes the guest: a Debian 12 disk, its kernel and a saved state with everything started.
# Called by guest.sh build. Root only: the file tree is made with its real owners.
#
# Left in the guest's folder (MOSS_GUEST_DIR, $XDG_CACHE_HOME/moss-guest or /var/tmp/moss-guest):
# rootfs-KEY.tar (the packages), disk.img, vmlinuz, initrd, key, known_hosts, booted.qcow2, stamp.
set -euo pipefail
# shellcheck source=hack/guest/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

suite=bookworm
[ "$(id -u)" = 0 ] || die "building the guest needs root (as an ordinary user, take a folder that root built)"
[ "$(uname -m)" = x86_64 ] || die "the guest is x86-64 only"
open_dir
cd "$dir"

read -ra packages <<<"$(grep -v '^#' "$here/packages.txt" | tr '\n' ' ')"
sum() { sha256sum | cut -c1-16; }
key=$(printf '%s\n' $suite "${packages[@]}" | sum)
stamp=$(cat "$here"/*.sh "$here/packages.txt" <(tar -C "$here/overlay" --sort=name --mtime=@0 --owner=0 --group=0 --mode=go-w -cf - .) | sum)
if [ -e booted.qcow2 ] && [ "$(cat stamp 2>/dev/null)" = "$stamp" ]; then
  echo "guest: $dir is up to date"
  exit 0
fi
running && die "the guest is running: guest.sh stop first"

began=$SECONDS
if [ ! -e "rootfs-$key.tar" ]; then
  rm -f rootfs-*.tar
  "$here/../debian-sources.sh" $suite | mmdebstrap --quiet --format=tar --mode=root --variant=minbase \
    --include="$(IFS=, && echo "${packages[*]}")" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --aptopt='Acquire::Languages "none"' \
    $suite "rootfs-$key.part" -
  mv "rootfs-$key.part" "rootfs-$key.tar"
fi
echo "guest: packages after $((SECONDS - began)) s"

root=$(mktemp -d "$dir/root.XXXXXX")
proc=no
cleanup() {
  [ $proc = no ] || umount "$root/proc"
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT
tar -C "$root" --numeric-owner --xattrs --xattrs-include='*' -xf "rootfs-$key.tar"
rm -rf "${root:?}"/dev/* "${root:?}"/var/cache/apt/archives/*.deb "${root:?}"/var/lib/apt/lists/*
rm -f "$root/etc/resolv.conf"
chroot "$root" useradd --create-home --uid 1000 --shell /bin/bash tester
tar -C "$here/overlay" --owner=0 --group=0 --mode=u=rwX,go=rX -cf - . | tar -C "$root" -xf -

# Keys: ours into the guest, the guest's into known_hosts, so that nothing is trusted on first sight.
rm -f key key.pub
ssh-keygen -q -t ed25519 -N '' -C guest -f key
for home in root home/tester; do
  install -d -m 0700 "$root/$home/.ssh"
  install -m 0600 key.pub "$root/$home/.ssh/authorized_keys"
done
chroot "$root" chown -R tester:tester /home/tester/.ssh
awk '{print "guest", $1, $2}' "$root/etc/ssh/ssh_host_ed25519_key.pub" >known_hosts

# Services: a network, ssh, and nothing that wakes up by itself or costs boot time in an emulator.
chroot "$root" systemctl -q enable systemd-networkd.service ssh.service
chroot "$root" systemctl -q mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  fstrim.timer e2scrub_reap.service ldconfig.service systemd-firstboot.service systemd-hwdb-update.service \
  systemd-networkd-wait-online.service systemd-pcrphase-sysinit.service systemd-pcrphase.service systemd-pstore.service \
  systemd-timesyncd.service systemd-update-utmp.service systemd-update-utmp-runlevel.service getty@tty1.service \
  modprobe@configfs.service modprobe@drm.service modprobe@efi_pstore.service modprobe@loop.service \
  dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount
rm -f "$root/etc/machine-id"
chroot "$root" systemd-machine-id-setup >/dev/null 2>&1
install -d "$root/project"

# A file system of its own that is soon full, of bytes and of inodes.
install -d "$root/small"
truncate -s 192M "$root/var/small.img"
mke2fs -q -t ext4 -m 0 -N 2500 -O ^has_journal -E root_owner=1000:1000 "$root/var/small.img"

# An initrd with the four modules of the virtual machine only: each one more is seconds of emulation.
printf '%s\n' virtio_pci virtio_blk virtio_mmio ext4 >>"$root/etc/initramfs-tools/modules"
sed -i 's/^MODULES=.*/MODULES=list/; s/^COMPRESS=.*/COMPRESS=lz4/' "$root/etc/initramfs-tools/initramfs.conf"
kernels=("$root"/lib/modules/*)
kernel=$(basename "${kernels[0]}")
mount --bind /proc "$root/proc"
proc=yes
chroot "$root" env FSTYPE=ext4 update-initramfs -c -k "$kernel" >/dev/null
umount "$root/proc"
proc=no
cp "$root/boot/vmlinuz-$kernel" vmlinuz
cp "$root/boot/initrd.img-$kernel" initrd
rm -f "$root"/boot/*

rm -f disk.img booted.qcow2 booting.qcow2 project.img stamp
truncate -s 6G disk.img
mke2fs -q -t ext4 -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" disk.img
echo "guest: disk after $((SECONDS - began)) s"

qemu-img create -q -f qcow2 -b disk.img -F raw booting.qcow2
machine booting.qcow2
answers 600
# The saved state is one at rest: units started, the user's manager up, no session open.
on root 'systemctl is-system-running --wait' || true
on tester 'systemctl --user is-system-running --wait' || true
hang_up
sleep 2
monitor 'savevm booted' quit
ended || die "the virtual machine does not end"
mv booting.qcow2 booted.qcow2
echo "$stamp" >stamp
echo "guest: built in $((SECONDS - began)) s in $dir"
