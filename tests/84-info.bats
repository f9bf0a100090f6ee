#!/usr/bin/env bats
# What the engine says of itself is what the machine, the kernel and its own processes say: info and version.
# bats file_tags=subids

load lib/moss

setup_file() {
  # What stands in the environment of the engine is shown, without its secrets.
  HTTP_PROXY=http://user:secret@proxy.example:3128 https_proxy=http://plain.example:3129 NO_PROXY=localhost,.example \
    start_engine --label tier=dev --label 'rack=a b' --insecure-registry 10.9.0.0/16 --insecure-registry reg.example:5000 \
    --registry-mirror http://127.0.0.1:1
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# info [VERSION]: the record.
info() { api GET "${1:+/v$1}/info" | head -n 1; }
# of EXPR [VERSION]: what jq finds in it.
of() { info "${2:-}" | jq -c "$1"; }
proc_fds() { find "/proc/$(inner_pid)/fd" -mindepth 1 2>/dev/null | wc -l; }

@test "info: the machine, the kernel and the engine's folder are this one's" {
  local id
  id=$(. /etc/os-release && echo "$PRETTY_NAME")
  expect equal "$(of .NCPU)" "$(nproc)"
  expect equal "$(of .MemTotal)" "$(awk '/^MemTotal:/ {printf "%.0f", $2 * 1024}' /proc/meminfo)"
  expect equal "$(of .KernelVersion)" "\"$(uname -r)\""
  expect equal "$(of .Architecture)" "\"$(uname -m)\""
  expect equal "$(of .OSType)" '"linux"'
  expect equal "$(of .OperatingSystem)" "\"$id\""
  expect equal "$(of .Name)" "\"$(uname -n)\""
  expect equal "$(of '[.DockerRootDir, .EngineRootDir] | unique')" "[\"$MOSS_DATA/root\"]"
  expect equal "$(of .ServerVersion)" "\"$(answer_of /version -r .Version)\""
  local now told
  now=$(date +%s)
  told=$(date -d "$(of .SystemTime | tr -d '"')" +%s)
  [ "$told" -ge "$now" ] && [ "$told" -le "$(date +%s)" ] || fail "the engine's time is $told, this machine's was $now before"
  # One and the same for as long as the folder lives, and no other engine's.
  expect --in "$(of .ID)" matches '^"[0-9a-f]{64}"$'
  expect equal "$(of .ID)" "$(jq .ID "$MOSS_DATA/root/engine.json")"
}

@test "info: settings: labels, proxies without their secrets, registries, debug" {
  expect equal "$(of .Labels)" '["tier=dev","rack=a b"]'
  expect equal "$(of .HttpProxy)" '"http://xxxxx:xxxxx@proxy.example:3128"'
  expect equal "$(of .HttpsProxy)" '"http://plain.example:3129"'
  expect equal "$(of .NoProxy)" '"localhost,.example"'
  expect equal "$(of .Debug)" true
  expect equal "$(of '.RegistryConfig.InsecureRegistryCIDRs | sort')" '["10.9.0.0/16","127.0.0.0/8","::1/128"]'
  expect equal "$(of '.RegistryConfig.IndexConfigs["reg.example:5000"] | [.Name, .Secure, .Official]')" '["reg.example:5000",false,false]'
  expect equal "$(of '.RegistryConfig.IndexConfigs["docker.io"] | [.Mirrors, .Secure, .Official]')" '[["http://127.0.0.1:1/"],true,true]'
  expect --in "$(of .IndexServerAddress)" contains https://
  expect equal "$(of .ExperimentalBuild)" false
  expect equal "$(of '[.SystemStatus, (.DriverStatus | map(.[0]) | contains(["Rootless","Uplink"]))]')" '[null,true]'
  expect equal "$(answer_of /v1.40/info -c '[.ClusterStore, .SystemStatus[0][0], (.DriverStatus | map(.[0]) | contains(["Rootless"]))]')" '["","Rootless",false]'
}

@test "info: storage, plugins, log driver, runtime and its version" {
  expect equal "$(of .LoggingDriver)" '"json-file"'
  expect equal "$(of .Plugins.Volume)" '["local"]'
  expect equal "$(of .Plugins.Network)" '["bridge","host","null"]'
  expect --in "$(of .DriverStatus)" contains Backing
  local runtime path
  runtime=$(of .DefaultRuntime | tr -d '"')
  path=$(of ".Runtimes.$runtime.path" | tr -d '"')
  [ -x "$path" ] || fail "no runtime at $path"
  expect equal "$(of .ExecutionDriver 1.22)" "\"$runtime $("$path" --version | sed -n '1s/.* //p')\""
  expect equal "$(of .ExecutionDriver 1.24)" null
  # No init of the engine's own runs in containers, and it says so.
  expect equal "$(of '[.InitPath, .InitSha1]')" '["",""]'
  expect --in "$(of .SecurityOptions 1.51)" contains '"name=seccomp,profile=' '"name=rootless"'
  expect --in "$(of .SecurityOptions 1.24)" contains '"seccomp"' '"rootless"'
}

@test "info: forwarding is that of the containers' network, whatever the host's is" {
  expect equal "$(of .IPv4Forwarding)" true
  expect equal "$(of .IPv4Forwarding 1.18)" true
  run -0 moss run --rm busybox cat /proc/sys/net/ipv4/ip_forward
  expect matches '^[01]$'
}

@test "info: counts of containers and images follow what happens" {
  local name before
  name=$(unique c)
  before=$(of '[.Containers, .ContainersRunning, .ContainersPaused, .ContainersStopped, .Images]')
  moss create --name "$name" busybox sleep 1000
  add() { jq -c "[.[0] + $1, .[1] + $2, .[2] + $3, .[3] + $4, .[4] + $5]" <<<"$before"; }
  counts() { of '[.Containers, .ContainersRunning, .ContainersPaused, .ContainersStopped, .Images]'; }
  expect equal "$(counts)" "$(add 1 0 0 1 0)"
  moss start "$name"
  expect equal "$(counts)" "$(add 1 1 0 0 0)"
  moss pause "$name"
  expect equal "$(counts)" "$(add 1 0 1 0 0)"
  moss unpause "$name"
  moss commit "$name" "$name:new"
  expect equal "$(counts)" "$(add 1 1 0 0 1)"
  moss rm -f "$name"
  moss rmi "$name:new"
  expect equal "$(counts)" "$before"
}

# is_calm SINCE: what the storage had changed by then (nanoseconds) has reached the disk, the trash is empty, and no sync
# is under way, which would have files of the storage open. While nothing changes, no other sync comes.
is_calm() {
  local begun
  begun=$(sed -n 's/.* synced .*begun=\([^ ]*\) .*what=records.*/\1/p' "$MOSS_DIR/mossd.log" | tail -n 1)
  [ -n "$begun" ] && [ "$(date -d "$begun" +%s%N)" -gt "$1" ] && [ ! -e "$MOSS_DATA/root/storage/unsynced.json" ] &&
    [ -z "$(ls -A "$MOSS_DATA/root/storage/moss-trash")" ] && [ -z "$(find "/proc/$(inner_pid)/fd" -mindepth 1 -lname "$MOSS_DATA/root/storage/*" 2>/dev/null)" ]
}

@test "info: descriptors, goroutines and listeners are the engine's own at that moment" {
  local fds routines pids=() changed i
  moss rm "$(moss create busybox true)" # a change asks for a sync
  changed=$(date +%s%N)
  eventually 30 is_calm "$changed"
  fds=$(of .NFd)
  # The request itself is a connection, and a descriptor more or less may come and go with it.
  [ $((fds - $(proc_fds))) -le 3 ] && [ $(($(proc_fds) - fds)) -le 3 ] || fail "NFd is $fds, /proc shows $(proc_fds)"
  routines=$(of .NGoroutines)
  expect equal "$(of .NEventsListener)" 0
  for i in $(seq 20); do
    curl -sN --max-time 180 --unix-socket "$MOSS_SOCK" http://moss/events >/dev/null &
    pids+=($!)
  done
  listen() { [ "$(of .NEventsListener)" = "$1" ]; }
  eventually 10 listen 20
  [ "$(of .NFd)" -ge $((fds + 20)) ] || fail "NFd is $(of .NFd) with 20 listeners, $fds without"
  [ "$(of .NGoroutines)" -ge $((routines + 20)) ] || fail "NGoroutines is $(of .NGoroutines) with 20 listeners, $routines without"
  kill "${pids[@]}"
  eventually 10 listen 0
  back() { [ "$(of .NFd)" -le $((fds + 2)) ] && [ "$(of .NGoroutines)" -le $((routines + 4)) ]; }
  eventually 10 back
}

@test "version: what the programs, Go and the kernel say, at every version alike" {
  local record v
  record=$(api GET /version | head -n 1)
  expect equal "mossd $(jq -r .Version <<<"$record") ($(jq -r .GitCommit <<<"$record"))" "$("$moss_bin/mossd" --version)"
  expect equal "$(jq -r '[.ApiVersion, .MinAPIVersion, .Os, .KernelVersion] | join(" ")' <<<"$record")" "1.51 1.18 linux $(uname -r)"
  expect --in "$(jq -r .GoVersion <<<"$record")" matches '^go1\.[0-9]+'
  case $(uname -m) in
    x86_64) expect equal "$(jq -r .Arch <<<"$record")" amd64 ;;
    aarch64) expect equal "$(jq -r .Arch <<<"$record")" arm64 ;;
  esac
  # make build tells the time of the commit, so that two builds of it are the same.
  expect --in "$(jq -r .BuildTime <<<"$record")" matches '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$'
  for v in 1.18 1.19 1.20 1.21 1.22 1.23 1.24; do
    expect equal "$(answer_of "/v$v/version" -c .)" "$(jq -c 'del(.Platform, .Components)' <<<"$record")"
  done
}
