#!/usr/bin/env bats
# Events: all that happens to a container, as a stream and from the past, with their attributes, by version; times, filters,
# listeners, and the journal that outlives the engine.
# bats file_tags=subids

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
  curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" --data-urlencode "filters={\"container\":[\"$id\"]}" -d "since=$1" -d "until=$2" "http://moss/v${3:-1.24}/events"
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
  image=$(answer_of "/containers/$id/json" -r .Config.Image)
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
copy archive-path extract-to-dir export pause unpause commit commit kill kill die stop start restart kill die stop destroy"
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
  for action in create start stop restart pause unpause top copy archive-path extract-to-dir export update attach detach destroy "health_status: healthy"; do
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

# told QUERY [VERSION]: TYPE:ACTION of the events that a query for the past gives. The filters are JSON in $filters, if any.
told() {
  curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" ${filters:+--data-urlencode "filters=$filters"} "http://moss/v${2:-1.24}/events?$1" |
    jq -r '.Type + ":" + (.Action | sub(":.*"; ""))' | xargs
}

@test "since and until: numbers, dates and durations; wrong ones are refused" {
  filters="{\"volume\":[\"$box\"]}"
  api POST /volumes/create "{\"Name\":\"$box\"}" >/dev/null
  api DELETE "/volumes/$box" >/dev/null
  curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" --data-urlencode "filters=$filters" "http://moss/events?since=0&until=0s" >"$BATS_TEST_TMPDIR/past"
  local nanos
  mapfile -t nanos < <(sed 's/.*"timeNano":\([0-9]*\).*/\1/' "$BATS_TEST_TMPDIR/past")
  expect equal "${#nanos[@]}" 2
  local second=$((nanos[1] / 1000000000)) fraction
  fraction=$(printf %09d $((nanos[1] % 1000000000)))
  local both="volume:create volume:destroy" last=volume:destroy first=volume:create
  expect equal "$(told "since=$((nanos[0] / 1000000000))&until=$((EPOCHSECONDS + 1))")" "$both"
  expect equal "$(told "since=$second.$fraction&until=0s")" "$last"
  expect equal "$(told "since=$(date -u -d "@$second" +%Y-%m-%dT%H:%M:%S).${fraction}Z&until=0s")" "$last"
  expect equal "$(told "since=$(date -d "@$second" +%Y-%m-%dT%H:%M:%S).$fraction&until=0s")" "$last"
  expect equal "$(told "since=$(TZ=UTC-3 date -d "@$second" +%Y-%m-%dT%H:%M:%S).$fraction%2B03:00&until=0s")" "$last"
  expect equal "$(told "since=10m&until=0s")" "$both"
  expect equal "$(told "since=0&until=$second.$(printf %09d $((nanos[1] % 1000000000 - 1)))")" "$first"
  expect equal "$(told "since=2h&until=1h")" ""
  expect equal "$(told "until=0s")" "$both"
  expect equal "$(told "until=$second.$(printf %09d $((nanos[1] % 1000000000 - 1)))")" "$first"
  expect equal "$(told "until=1")" ""
  expect equal "$(told "until=0")" ""
  local query
  for query in since=x until=never since=5\&until=4 since=5m\&until=10m since=2013-02-30 'since=5.1234567890' filters=x 'filters=%7B%22colour%22%3A%5B%22red%22%5D%7D'; do
    answers 400 GET "/v1.24/events?$query"
  done
}

@test "filters: every key, several values, and the versions that have it" {
  local since=$EPOCHREALTIME net
  net=$(api POST /networks/create "{\"Name\":\"$box-n\"}" | head -n 1 | jq -r .Id)
  id=$(api POST "/containers/create?name=$box" '{"Image":"busybox","Cmd":["true"],"Labels":{"color":"red","size":"8"},"HostConfig":{"NetworkMode":"'"$box-n"'","Binds":["'"$box-v"':/v"]}}' |
    head -n 1 | jq -r .Id)
  api POST "/containers/$id/start" >/dev/null
  api POST "/containers/$id/wait" >/dev/null
  api POST "/commit?container=$id&repo=$box-i" '{"Labels":{"color":"red"}}' >/dev/null
  image=$(answer_of "/images/$box-i/json" -r .Id)
  api DELETE "/images/$box-i" >/dev/null
  api DELETE "/containers/$id" >/dev/null
  api DELETE "/networks/$net" >/dev/null
  api DELETE "/volumes/$box-v" >/dev/null
  local at="since=$since&until=0s" container="container:create container:start container:die container:commit container:destroy"
  local network="network:create network:connect network:disconnect network:destroy" volume="volume:create volume:mount volume:unmount volume:destroy"
  local images="image:tag image:untag image:delete"
  for filters in "{\"container\":[\"$id\"]}" "{\"container\":[\"${id:0:9}\",\"nobody\"]}" "{\"container\":{\"/$box\":true}}" '{"type":["container"]}' '{"type":["container"],"label":["size"]}' '{"image":["busybox"]}'; do
    expect equal "$(told "$at")" "$container"
  done
  for filters in "{\"network\":[\"$net\"]}" "{\"network\":[\"$box-n\"]}" "{\"network\":[\"${net:0:9}\"]}" '{"type":["network"]}'; do expect equal "$(told "$at")" "$network"; done
  for filters in "{\"volume\":[\"$box-v\"]}" '{"type":["volume"]}'; do
    expect equal "$(told "$at")" "$volume"
    expect equal "$(told "$at" 1.21)" "$volume"
  done
  for filters in "{\"image\":[\"$image\"]}" "{\"image\":[\"${image:7:12}\"]}" '{"type":["image"]}' '{"type":["image"],"label":["color=red"]}'; do expect equal "$(told "$at")" "$images"; done
  filters='{"type":["image","volume"],"event":["create","untag","destroy"]}'
  expect equal "$(told "$at")" "volume:create image:untag volume:destroy"
  filters='{"label":["color=red","size=8"],"image":["busybox"]}'
  expect equal "$(told "$at")" "$container"
  filters='{"label":["color=red","size=9"]}'
  expect equal "$(told "$at")" ""
  filters='{"type":["daemon"]}'
  expect equal "$(told "$at")" ""
  filters=
  # What volumes and networks do is not for clients that have neither; the rest is.
  expect equal "$(told "$at" 1.20 | tr ' ' '\n' | cut -d: -f 1 | sort -u | xargs)" "container image"
  expect equal "$(told "$at" 1.21 | tr ' ' '\n' | cut -d: -f 1 | sort -u | xargs)" "container image network volume"
  # Attributes of volumes and networks.
  filters="{\"volume\":[\"$box-v\"]}"
  expect equal "$(curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" --data-urlencode "filters=$filters" "http://moss/events?$at" |
    jq -c '[.Action, .Actor.Attributes, .status, .id, .from]' | tr '\n' ' ')" '["create",{"driver":"local"},null,"'"$box-v"'",null] ["mount",{"container":"'"$id"'","destination":"/v","driver":"local","propagation":"","read/write":"true"},null,"'"$box-v"'",null] ["unmount",{"container":"'"$id"'","driver":"local"},null,"'"$box-v"'",null] ["destroy",{"driver":"local"},null,"'"$box-v"'",null] '
  filters="{\"network\":[\"$box-n\"]}"
  expect equal "$(curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" --data-urlencode "filters=$filters" "http://moss/events?$at" |
    jq -c '[.Action, .Actor.Attributes.name, .Actor.Attributes.type, .Actor.Attributes.container, .Actor.ID]' | sort -u | tr '\n' ' ')" '["connect","'"$box-n"'","bridge","'"$id"'","'"$net"'"] ["create","'"$box-n"'","bridge",null,"'"$net"'"] ["destroy","'"$box-n"'","bridge",null,"'"$net"'"] ["disconnect","'"$box-n"'","bridge","'"$id"'","'"$net"'"] '
  answers 200 GET "/v1.24/events?until=1&filters=%7B%22daemon%22%3A%5B%22x%22%5D%7D"
  answers 400 GET "/v1.23/events?until=1&filters=%7B%22daemon%22%3A%5B%22x%22%5D%7D"
}

listeners() { [ "$(answer_of /info .NEventsListener)" = "$1" ]; }

@test "info counts the listeners, and forgets each as its client hangs up" {
  eventually 10 listeners 0
  local clients=() n
  for n in 1 2 3; do
    curl -sSN --max-time 60 --unix-socket "$MOSS_SOCK" -D "$BATS_TEST_TMPDIR/head.$n" http://moss/events >/dev/null 2>&1 3>&- 4>&- &
    clients+=($!)
    # The head comes at once, long before the first event.
    eventually 10 file_has "$BATS_TEST_TMPDIR/head.$n" "200 OK"
    expect equal "$(grep -i '^content-type' "$BATS_TEST_TMPDIR/head.$n" | tr -d '\r')" "Content-Type: application/json"
  done
  listeners 3
  kill "${clients[0]}"
  eventually 10 listeners 2
  kill "${clients[@]:1}"
  eventually 10 listeners 0
}

# follow FILE FILTERS: writes events to FILE, over any number of engines: after each it goes on behind the last one that it
# has. Without a gap and without a duplicate, that is the same as one that never ended. For the background.
follow() {
  exec python3 - "$MOSS_SOCK" "$1" "$2" <<'EOT'
import http.client, json, re, socket, sys, time, urllib.parse
path, out, filters = sys.argv[1], open(sys.argv[2], "w", buffering=1), sys.argv[3]
since = "%.9f" % time.time()
while True:
    try:
        c = http.client.HTTPConnection("moss", timeout=60)
        c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(path)
        c.request("GET", "/v1.24/events?" + urllib.parse.urlencode({"since": since, "filters": filters}))
        answer = c.getresponse()
        out.write("joined\n")
        while line := answer.readline().decode():
            out.write(line)
            nanos = int(re.search(r'"timeNano":(\d+)', line).group(1)) + 1
            since = "%d.%09d" % divmod(nanos, 10**9)
    except (OSError, http.client.HTTPException):
        pass
    out.write("ended\n")
    time.sleep(0.01) # the socket may not be there while the engine starts
EOT
}
joined() { [ "$(grep -c '^joined' "$1")" -gt "$2" ]; }

@test "the past outlives the engine: replaced, killed, stopped and started; without gap or duplicate" {
  local log=$BATS_TEST_TMPDIR/followed since=$EPOCHREALTIME follower how old n=0 k want=""
  follow "$log" '{"type":["volume","daemon"]}' 2>"$BATS_TEST_TMPDIR/followed.err" 3>&- 4>&- &
  follower=$!
  eventually 10 joined "$log" 0
  for how in HUP KILL HUP KILL restart; do
    for k in 1 2 3 4 5 6; do
      api POST /volumes/create "{\"Name\":\"$box-$((++n))\"}" >/dev/null
      want+="create $box-$n "
    done
    eventually 10 file_has "$log" "\"$box-$n\"" # a kill may take what nobody has heard yet
    old=$(inner_pid)
    case $how in
      HUP) kill -HUP "$MOSSD_PID" && want+="reload " ;;
      KILL) kill -KILL "$old" ;;
      restart) halt_engine && spawn_engine ;;
    esac
    eventually 30 another_engine "$old"
    # This one happens before the follower is back, maybe.
    api DELETE "/volumes/$box-$n" >/dev/null
    want+="destroy $box-$n "
  done
  eventually 10 file_has "$log" "\"destroy\",\"Actor\":{\"ID\":\"$box-$n\""
  kill "$follower"
  wait "$follower" || true
  grep '^{' "$log" >"$BATS_TEST_TMPDIR/live"
  expect equal "$(jq -r '.Action + " " + if .Type == "daemon" then "" else .Actor.ID end' "$BATS_TEST_TMPDIR/live" | xargs)" "$(xargs <<<"$want")"
  sed 's/.*"timeNano":\([0-9]*\).*/\1/' "$BATS_TEST_TMPDIR/live" | sort -cnu
  # Who asks now gets the very same.
  curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" --data-urlencode 'filters={"type":["volume","daemon"]}' "http://moss/v1.24/events?since=$since&until=0s" | diff "$BATS_TEST_TMPDIR/live" -
  # The reload is about this engine, and not for clients before 1.24.
  name=$(answer_of /info -r .Name)
  for filters in '{"type":["daemon"]}' "{\"daemon\":[\"$name\"]}" "{\"daemon\":[\"$(answer_of /info -r .ID)\"]}" '{"event":["reload"]}'; do
    expect equal "$(told "since=$since&until=0s")" "daemon:reload daemon:reload"
  done
  expect equal "$(jq -r 'select(.Type == "daemon").Actor.Attributes | [.name, .["log-level"]] | join(" ")' "$BATS_TEST_TMPDIR/live" | sort -u)" "$name debug"
  expect equal "$(told "since=$since&until=0s" 1.23)" ""
}

@test "a journal that was cut short or damaged is read as far as it goes" {
  filters="{\"volume\":[\"$box\"]}"
  api POST /volumes/create "{\"Name\":\"$box\"}" >/dev/null
  halt_engine
  local last
  last=$(find "$MOSS_DATA/root/events" -name '*.events' | sort | tail -n 1)
  expect equal "$(stat -c %a "$MOSS_DATA/root/events" "$last" | xargs)" "700 600"
  printf '1234abcd 99 99 {"type":"vol' >>"$last"
  head -c 5000 /dev/zero >>"$last"
  spawn_engine
  expect equal "$(told "since=0&until=0s")" volume:create
  api DELETE "/volumes/$box" >/dev/null
  expect equal "$(told "since=0&until=0s")" "volume:create volume:destroy"
  # Without the folder the engine works; it is made again at the next start.
  halt_engine
  rm -r "$MOSS_DATA/root/events"
  : >"$MOSS_DATA/root/events"
  spawn_engine
  grep -q "events are kept in memory only" "$MOSS_DIR/mossd.log"
  api POST /volumes/create "{\"Name\":\"$box\"}" >/dev/null
  expect equal "$(told "since=0&until=0s")" volume:create
  halt_engine
  rm "$MOSS_DATA/root/events"
  spawn_engine
  api DELETE "/volumes/$box" >/dev/null
  expect equal "$(told "since=0&until=0s")" volume:destroy
}

@test "moss events: since, until, filters and formats" {
  local since=$EPOCHREALTIME
  moss volume create "$box" >/dev/null
  moss volume rm "$box" >/dev/null
  run moss events --since "$since" --until 0s --filter type=volume --filter "volume=$box"
  expect status 0
  expect matches "^[0-9-]+T[0-9:.]+[^ ]* volume create $box \\(driver=local\\)$"
  expect equal "${#lines[@]}" 2
  run moss events --since 10m --until "$(date +%Y-%m-%dT%H:%M:%S --date='+1 second')" --filter "volume=$box" --filter event=destroy --format '{{.Type}} {{.Action}} {{.Actor.ID}}'
  expect output "volume destroy $box"
  expect equal "$(moss events --since "$since" --until 0s -f "volume=$box" --format json | jq -r .Action | xargs)" "create destroy"
  run moss events --since yesterday
  expect status 125
  run moss events --until 0s --filter colour=red
  expect status 1
  expect contains colour
}
