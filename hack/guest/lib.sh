# shellcheck shell=bash
# lib.sh: what build.sh and guest.sh share: where the guest's files are, its virtual machine, its ssh.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
guest_dir() {
  if [ -n "${MOSS_GUEST_DIR:-}" ]; then
    echo "$MOSS_GUEST_DIR"
  elif [ -n "${XDG_CACHE_HOME:-}" ]; then
    echo "$XDG_CACHE_HOME/moss-guest"
  else
    echo /var/tmp/moss-guest
  fi
}
dir=$(guest_dir)
project_size=768M # of the disk for /project; it must not differ from one start to the next
export dir here project_size

die() {
  echo "guest: $*" >&2
  exit 1
}

# open_dir makes the folder of the guest's files private: it holds the keys of the guest.
open_dir() {
  mkdir -p "$dir"
  [ "$(stat -c %u "$dir")" = "$(id -u)" ] || die "$dir belongs to $(stat -c %U "$dir"); set MOSS_GUEST_DIR"
  chmod 0700 "$dir"
}

# machine DISK [ARG...]: starts qemu in the background and leaves pid, port and mon.sock in $dir.
# A saved state loads only into the same devices in the same order. KVM is left alone: where it is itself
# virtual it may run a guest's kernel slower than emulation does. Nothing outside is reachable (restrict=on).
machine() {
  local disk=$1 port
  shift
  for port in $(seq 22322 22422); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port" >"$dir/port"
  [ -e "$dir/project.img" ] || truncate -s "$project_size" "$dir/project.img"
  qemu-system-x86_64 -machine q35 -accel "${MOSS_GUEST_ACCEL:-tcg,thread=multi,tb-size=1024}" \
    -cpu max,-la57 -smp 2 -m 2048 -nodefaults -no-user-config -display none -no-reboot \
    -kernel "$dir/vmlinuz" -initrd "$dir/initrd" \
    -append "root=/dev/vda rootfstype=ext4 rw console=ttyS0 quiet mitigations=off net.ifnames=0" \
    -drive "file=$disk,if=none,id=system,format=qcow2,cache=unsafe" -device virtio-blk-pci,drive=system \
    -drive "file=$dir/project.img,if=none,id=project,format=raw,readonly=on" -device virtio-blk-pci,drive=project \
    -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-net-pci,netdev=net,romfile= \
    -device virtio-rng-pci -chardev "file,id=console,path=$dir/console.log" -serial chardev:console \
    -monitor "unix:$dir/mon.sock,server=on,wait=off" -pidfile "$dir/pid" -daemonize "$@"
}

# running tells whether the machine of $dir/pid is there, and is ours.
running() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) && [ -n "$pid" ] || return 1
  tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "unix:$dir/mon.sock,server=on,wait=off"
}

# ended waits until the machine is gone, a minute at most.
ended() {
  for _ in $(seq 600); do
    running || return 0
    sleep 0.1
  done
  return 1
}

# monitor LINE...: says the lines to qemu's monitor.
monitor() {
  printf '%s\n' "$@" | timeout 180 socat -t180 - "UNIX-CONNECT:$dir/mon.sock" >"$dir/monitor.log" 2>&1 || true
}

# on USER CMD...: runs CMD in the guest over one kept connection per user.
on() {
  local user=$1
  shift
  ssh -F /dev/null -i "$dir/key" -p "$(cat "$dir/port")" \
    -o UserKnownHostsFile="$dir/known_hosts" -o HostKeyAlias=guest -o StrictHostKeyChecking=yes \
    -o IdentitiesOnly=yes -o BatchMode=yes -o LogLevel=ERROR -o ConnectTimeout=60 \
    -o ControlMaster=auto -o ControlPath="$dir/ssh-%r" -o ControlPersist=600 "$user@127.0.0.1" "$@"
}

hang_up() {
  local user
  for user in tester root; do
    [ ! -S "$dir/ssh-$user" ] || on "$user" -O exit 2>/dev/null || true
    rm -f "$dir/ssh-$user"
  done
}

# answers waits until a session of the user tester opens; tells why when the machine ends first.
answers() {
  local end=$((SECONDS + ${1:-300}))
  while [ $SECONDS -lt $end ]; do
    if ! running; then
      tail -n 20 "$dir/console.log" >&2
      die "the virtual machine ended"
    fi
    if timeout 60 ssh -F /dev/null -i "$dir/key" -p "$(cat "$dir/port")" -o UserKnownHostsFile="$dir/known_hosts" \
      -o HostKeyAlias=guest -o BatchMode=yes -o LogLevel=QUIET -o ConnectTimeout=30 tester@127.0.0.1 true 2>/dev/null; then
      return 0
    fi
    sleep 0.3
  done
  die "no ssh within ${1:-300} s; see $dir/console.log"
}
