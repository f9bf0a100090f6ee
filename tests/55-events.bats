#!/usr/bin/env bats
# The events of containers: all that happens to one, as a stream and from the past, with their attributes, by version.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  box=$(unique box)
}
teardown() {
  moss rm -f "$box" >/dev/null 2>&1 || true
  finish
}

# events SINCE UNTIL [VERSION]: what is remembered of $id between the two.
events() {
  curl -sS -G --max-time 30 --unix-socket "$MOSS_SOCK" --data-urlencode "filters={\"container\":[\"$id\"]}" -d "since=$1" -d "until=$2" "http://moss/v${3:-1.24}/events"
}
actions() { jq -r '.Action' | grep -v '^health_status' | sed 's/^\(exec_[a-z]*\): .*/\1/' | xargs; }
attributes() { jq -c --arg a "$1" 'select(.Action == $a).Actor.Attributes | del(.name, .image, .color)' "$BATS_TEST_TMPDIR/past" | xargs -0; }

# answers STATUS METHOD PATH [BODY]
answers() {
  local args=(-X "$2")
  [ $# -lt 4 ] || args+=(-H 'Content-Type: application/json' --data-binary "$4")
  expect equal "$(curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" "${args[@]}" -o /dev/null -w '%{http_code}' "http://moss$3") $2 $3" "$1 $2 $3"
}

# keys ID: attaches to the container and starts it, makes an exec in it and starts that, leaving both by their detach keys.
# Prints the id of the exec.
keys() {
  python3 - "$MOSS_SOCK" "$1" <<'EOT'
import json, socket, sys
sock, box = sys.argv[1:]
def ask(path, body=None, upgrade=False):
    s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(sock)
    head = [f"POST /v1.24/{path} HTTP/1.1", "Host: x", f"Content-Length: {len(body or '')}"]
    head += ["Content-Type: application/json"] if body else []
    head += ["Upgrade: tcp", "Connection: Upgrade"] if upgrade else ["Connection: close"]
    s.sendall(("\r\n".join(head) + "\r\n\r\n" + (body or "")).encode())
    if upgrade:
        assert b"101" in s.recv(4096)
        return s
    return b"".join(iter(lambda: s.recv(4096), b""))
def leave(s, keys):
    s.sendall(keys)
    while s.recv(4096): pass
viewer = ask(f"containers/{box}/attach?stream=1&stdin=1&stdout=1", upgrade=True)
assert b" 204" in ask(f"containers/{box}/start")
leave(viewer, b"\x10\x11")
made = ask(f"containers/{box}/exec", '{"Cmd":["sleep","1001"],"Tty":true,"AttachStdin":true,"AttachStdout":true,"DetachKeys":"ctrl-x"}')
instance = json.loads(made.split(b"\r\n\r\n")[1])["Id"]
leave(ask(f"exec/{instance}/start", '{"Tty":true}', upgrade=True), b"\x18")
print(instance)
EOT
}

@test "everything that happens to a container, in order, live and from the past, with its attributes" {
  id=$(api POST "/containers/create?name=$box-0" '{"Image":"busybox","Cmd":["cat"],"Tty":true,"OpenStdin":true,"Labels":{"color":"red"},
    "Healthcheck":{"Test":["CMD","true"],"Interval":100000000}}' | head -n 1 | jq -r .Id)
  image=$(api GET "/containers/$id/json" | head -n 1 | jq -r .Config.Image)
  curl -sSN -G --max-time 120 --unix-socket "$MOSS_SOCK" --data-urlencode "filters={\"container\":[\"$id\"]}" "http://moss/v1.24/events?since=0" \
    >"$BATS_TEST_TMPDIR/live" 3>&- 4>&- &
  live=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/live" '"create"'
  api POST "/containers/$id/rename?name=$box" >/dev/null
  instance=$(keys "$id")
  eventually 10 file_has "$BATS_TEST_TMPDIR/live" '"health_status: healthy"'
  while read -r want method path body; do
    answers "$want" "$method" "/v1.24/$path" ${body:+"$body"}
  done <<LIST
200 POST containers/$id/resize?h=21&w=82
200 GET containers/$id/top
204 POST containers/$id/pause
204 POST containers/$id/unpause
200 POST containers/$id/update {"CpuShares":2}
200 POST containers/$id/copy {"Resource":"/etc/passwd"}
200 GET containers/$id/archive?path=/etc/passwd
200 PUT containers/$id/archive?path=/tmp
200 GET containers/$id/export
201 POST commit?container=$id&repo=$box&tag=v1&comment=words
201 POST commit?container=$id&pause=0
204 POST containers/$id/kill?signal=WINCH
204 POST containers/$id/restart?t=0
204 POST containers/$id/stop?t=0
304 POST containers/$id/stop
200 POST containers/$id/wait
200 GET containers/$id/json
200 GET containers/$id/logs?stdout=1
204 DELETE containers/$id
LIST
  eventually 10 file_has "$BATS_TEST_TMPDIR/live" '"destroy"'
  kill $live
  events 0 "$((EPOCHSECONDS + 1))" >"$BATS_TEST_TMPDIR/past"
  diff "$BATS_TEST_TMPDIR/live" "$BATS_TEST_TMPDIR/past"
  expect equal "$(actions <"$BATS_TEST_TMPDIR/past")" "create rename attach start detach exec_create exec_start exec_detach resize top pause unpause update \
copy export pause unpause commit commit kill kill die stop start restart kill die stop destroy"
  # What every event has.
  expect equal "$(jq -c '[.Type, .id == .Actor.ID, .status == .Action, .from, .Actor.Attributes.image, .Actor.Attributes.color, .time == (.timeNano / 1000000000 | floor)]' \
    "$BATS_TEST_TMPDIR/past" | sort -u)" "[\"container\",true,true,\"$image\",\"$image\",\"red\",true]"
  expect equal "$(jq -r .id "$BATS_TEST_TMPDIR/past" | sort -u)" "$id"
  sed 's/.*"timeNano":\([0-9]*\).*/\1/' "$BATS_TEST_TMPDIR/past" | sort -cnu # jq's numbers are too short for it
  expect equal "$(jq -r '.Actor.Attributes.name' "$BATS_TEST_TMPDIR/past" | uniq | xargs)" "$box-0 $box"
  # What some have beside it.
  expect equal "$(attributes rename)" "{\"oldName\":\"/$box-0\"}"
  expect equal "$(attributes resize)" '{"height":"21","width":"82"}'
  expect equal "$(attributes die)" $'{"exitCode":"137"}\n{"exitCode":"137"}'
  expect equal "$(attributes kill)" $'{"signal":"28"}\n{"signal":"9"}\n{"signal":"9"}'
  expect equal "$(attributes commit | jq -r .imageRef | xargs)" "$box:v1"
  expect equal "$(attributes commit | jq -r .comment | xargs)" words
  expect equal "$(attributes commit | jq -r '.imageID[:7]' | uniq)" sha256:
  for action in "exec_create: sleep 1001" "exec_start: sleep 1001" exec_detach; do expect equal "$(attributes "$action")" "{\"execID\":\"$instance\"}"; done
  for action in create start stop restart pause unpause top copy export update attach detach destroy "health_status: healthy"; do
    expect equal "$(attributes "$action" | sort -u | xargs)" "{}"
  done
  # From the event of the rename to that of the update, both of them included.
  at() { sed -n "s/.*\"Action\":\"$1\".*\"timeNano\":\([0-9]*\)\([0-9]\{9\}\).*/\1.\2/p" "$BATS_TEST_TMPDIR/past"; }
  expect equal "$(events "$(at rename)" "$(at update)" | actions)" "rename attach start detach exec_create exec_start exec_detach resize top pause unpause update"
  expect equal "$(events "$(at destroy)" "$(at destroy)" | actions)" destroy
  # Clients before 1.24 do not know these three.
  for v in 1.18 1.23; do
    expect equal "$(events 0 "$((EPOCHSECONDS + 1))" $v | jq -r .status | grep -cE '^(detach|exec_detach|health_status)')" 0
    expect equal "$(events 0 "$((EPOCHSECONDS + 1))" $v | actions)" "$(actions <"$BATS_TEST_TMPDIR/past" | sed 's/ detach//; s/ exec_detach//')"
  done
  api DELETE "/images/$box:v1" >/dev/null
  api DELETE "/images/$(attributes commit | jq -r .imageID | tail -n 1)" >/dev/null
}

# bats test_tags=cgroups
@test "out of memory is told before the end" {
  id=$(api POST "/containers/create?name=$box" '{"Image":"busybox","Cmd":["tail","/dev/zero"],"Labels":{"color":"red"},"HostConfig":{"Memory":16777216}}' | head -n 1 | jq -r .Id)
  moss start "$box"
  moss wait "$box"
  events 0 "$((EPOCHSECONDS + 1))" >"$BATS_TEST_TMPDIR/past"
  expect equal "$(actions <"$BATS_TEST_TMPDIR/past")" "create start oom die"
  expect equal "$(jq -c 'select(.Action == "oom") | [.from, .Actor.Attributes]' "$BATS_TEST_TMPDIR/past")" "[\"busybox\",{\"color\":\"red\",\"image\":\"busybox\",\"name\":\"$box\"}]"
}
