#!/usr/bin/env bats
# The guest is what the other tests here count on.

load ../lib/moss

@test "systemd runs, for the machine and for the user" {
  run systemctl is-system-running
  expect output running
  run systemctl --user is-system-running
  expect output running
}

@test "cgroup v2 alone, with five controllers for the user's manager" {
  [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]
  run cat "/sys/fs/cgroup/user.slice/user-$(id -u).slice/user@$(id -u).service/cgroup.controllers"
  for c in cpu cpuset io memory pids; do expect contains $c; done
}

@test "the user has sub-ids, a runtime folder and the devices" {
  has_subids
  [ "$(stat -c %a "$XDG_RUNTIME_DIR")" = 700 ]
  [ -w /dev/net/tun ]
  [ -w /dev/fuse ]
}
