#!/usr/bin/env bats
# The folder of this boot and the modes of what lies in it: it may be emptied while the engine runs, as tmpfiles does and
# a logout.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# open_files: what others could read or enter, were the folders above not closed, but for what is in layers and volumes, or
# for containers, or made by the storage library or the runtime.
open_files() {
  find "$MOSS_DATA/root" "$MOSS_DIR/run" \( -path "$MOSS_DATA/root/storage" -o -path "$MOSS_DIR/run/storage" -o -name _data \) -prune -o \
    ! -type l ! -name hostname ! -name hosts ! -name resolv.conf ! -name runtime.log -perm /077 -print
}

@test "modes of files do not depend on the umask that the engine was started with" {
  halt_engine
  for mask in 000 077; do
    (umask $mask && spawn_engine)
    MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
    name=$(unique modes)
    moss run -d --name "$name" -v "$name:/new/volume" -v "$MOSS_DATA/$name/bind:/new/bind" -w /new/dir busybox sleep 1000
    run moss exec "$name" sh -c 'umask; stat -c "%a %n" / /new/volume /new/bind /new/dir /etc/hosts /etc/resolv.conf /etc/hostname'
    expect output "0022
755 /
755 /new/volume
755 /new/bind
755 /new/dir
644 /etc/hosts
644 /etc/resolv.conf
644 /etc/hostname"
    run moss run --rm -u 1000 busybox sh -c umask
    expect output 0022
    expect equal "$(open_files)" ''
    for role in "$MOSSD_PID" $(pgrep -P "$MOSSD_PID" -f mossd); do
      expect equal "$(awk '/^Umask:/ {print $2}' "/proc/$role/status")" 0077
    done
    moss rm -f "$name"
    moss volume rm "$name"
    halt_engine
  done
  spawn_engine
}
