#!/usr/bin/env bats
# bats file_tags=nosub
# Volumes: named and anonymous ones, what images bring into them, taking them over, and what becomes of them.

load lib/moss
load lib/crash

setup_file() {
  start_engine
  import_busybox
  import_vol
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# import_vol: the image vol, a busybox with a declared volume, content for it, and a link that leads out of the image.
import_vol() {
  mkdir "$MOSS_DIR/canary"
  echo 'of the host' >"$MOSS_DIR/canary/secret"
  python3 - "$MOSS_DIR/busybox.tar" "$MOSS_DIR/vol.tar" "$MOSS_DIR/canary" <<'PYTHON'
import io, sys, tarfile
old, new, canary = sys.argv[1:]
with tarfile.open(old) as src, tarfile.open(new, "w", format=tarfile.PAX_FORMAT) as dst:
    for member in src:
        dst.addfile(member, src.extractfile(member) if member.isreg() else None)
    def add(name, type=tarfile.REGTYPE, content=b"", **fields):
        member = tarfile.TarInfo(name)
        member.type, member.size, member.mtime, member.mode = type, len(content), 1000000000, 0o644
        for key, value in fields.items():
            setattr(member, key, value)
        dst.addfile(member, io.BytesIO(content))
    add("data", tarfile.DIRTYPE, mode=0o751, uid=33, gid=33)
    add("data/file", content=b"of the image\n", mode=0o644, pax_headers={"SCHILY.xattr.user.note": "kept"})
    add("data/mine", content=b"x", mode=0o4750, uid=33, gid=50)
    add("data/hard", tarfile.LNKTYPE, linkname="data/file")
    add("data/link", tarfile.SYMTYPE, linkname="file")
    add("data/absolute", tarfile.SYMTYPE, linkname="/etc/passwd")
    add("data/sub", tarfile.DIRTYPE, mode=0o700)
    add("data/sub/deep", content=b"deep\n")
    add("data/pipe", tarfile.FIFOTYPE, mode=0o620)
    add("out", tarfile.SYMTYPE, linkname=canary)
    add("away", tarfile.SYMTYPE, linkname="../../../../../.." + canary.removesuffix("/canary"))
    add("through", tarfile.SYMTYPE, linkname="data")
    add("other", tarfile.DIRTYPE, mode=0o755)
    add("other/file", content=b"other\n")
    add("afile", content=b"x")
PYTHON
  local answer
  answer=$(curl -sS --max-time 120 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' --data-binary @"$MOSS_DIR/vol.tar" \
    -w '\n%{http_code}' "http://moss/images/create?fromSrc=-&repo=vol&tag=latest&changes=VOLUME%20/data")
  if [ "${answer##*$'\n'}" != 200 ] || [[ $answer == *'"error"'* ]]; then fail "import of vol: $answer"; fi
}

# make NAME JSON: creates a container with these settings beside the command true, and prints its id.
make() { api POST "/containers/create?name=$1" "{\"Cmd\":[\"true\"],$2}" | head -n 1 | jq -r .Id; }
# volume_names: the names of all volumes, sorted.
volume_names() { answer_of /v1.24/volumes -r '.Volumes[].Name'; }
# anonymous NAME DESTINATION: the name of the volume that a container has there.
anonymous() { moss inspect "$1" | jq -r --arg d "$2" '.[0].Mounts[] | select(.Destination == $d).Name'; }
exists() { [ "$(api GET "/volumes/$1" | tail -n 1)" = 200 ]; }
missing() { [ "$(api GET "/volumes/$1" | tail -n 1)" = 404 ]; }
@test "create, inspect, list and remove by the API, in the form of each version" {
  name=$(unique vol)
  run api POST /v1.24/volumes/create "{\"Name\":\"$name\",\"Labels\":{\"a\":\"1\"}}"
  expect line -1 201
  expect equal "$(jq -c '[.Name,.Driver,.Scope,.Labels]' <<<"${lines[0]}")" "[\"$name\",\"local\",\"local\",{\"a\":\"1\"}]"
  expect equal "$(jq -c keys <<<"${lines[0]}")" '["Driver","Labels","Mountpoint","Name","Scope"]'
  point=$(jq -r .Mountpoint <<<"${lines[0]}")
  # The folder is the user's to read and write.
  echo mine >"$point/file"
  expect equal "$(cat "$point/file")" mine
  run api GET "/v1.21/volumes/$name"
  expect line -1 200
  expect equal "$(jq -c keys <<<"${lines[0]}")" '["Driver","Mountpoint","Name"]'
  run api GET /v1.21/volumes
  expect equal "$(jq -c keys <<<"${lines[0]}")" '["Volumes"]'
  run api GET /v1.22/volumes
  expect equal "$(jq -c .Warnings <<<"${lines[0]}")" '[]'
  expect --in "$(jq -r '.Volumes[].Name' <<<"${lines[0]}")" contains "$name"
  # Labels are of 1.24; creating it again returns what is there.
  run api POST /v1.23/volumes/create "{\"Name\":\"$name\",\"Labels\":{\"b\":\"2\"}}"
  expect line -1 201
  run api GET "/v1.24/volumes/$name"
  expect equal "$(jq -c .Labels <<<"${lines[0]}")" '{"a":"1"}'
  run api DELETE "/v1.24/volumes/$name"
  expect line -1 204
  expect equal "$([ -e "$point" ] || echo gone)" gone
  for method in GET DELETE; do
    run api $method "/v1.24/volumes/$name"
    expect line -1 404
    expect contains "no such volume"
  done
  run api GET /v1.20/volumes
  expect line -1 404
}

@test "a volume without a name gets one of 64 hex digits" {
  run api POST /volumes/create '{}'
  expect line -1 201
  name=$(jq -r .Name <<<"${lines[0]}")
  expect --in "$name" matches '^[0-9a-f]{64}$'
  run api DELETE "/volumes/$name"
  expect line -1 204
}

@test "bad names, drivers, options, filters and bodies are refused" {
  for body in '{"Name":"a/b"}' '{"Name":"../x"}' '{"Name":".x"}' '{"Name":"x"}' '{"Name":"-x"}' "{\"Name\":\"$(printf 'a%.0s' {1..256})\"}" \
    '{"DriverOpts":{"colour":"red"}}' '{"DriverOpts":{"type":"nfs","device":":/x","o":"addr=1.2.3.4"}}' '{"DriverOpts":{"o":"bind"}}' \
    '{"DriverOpts":{"type":"none","o":"bind","device":"rel"}}' '{"DriverOpts":{"type":"tmpfs","o":"size=x"}}' '{"Name":5}' '{"Labels":[]}' 'x'; do
    run api POST /v1.24/volumes/create "$body"
    expect line -1 500
  done
  run api POST /v1.24/volumes/create '{"Name":"with-plugin","Driver":"nosuch"}'
  expect line -1 404
  expect contains 'plugin \"nosuch\" not found'
  for filters in '{"colour":["x"]}' '{"dangling":["maybe"]}' 'x'; do
    run curl -sS -G --unix-socket "$MOSS_SOCK" -w '\n%{http_code}' --data-urlencode "filters=$filters" http://moss/v1.24/volumes
    expect line -1 500
  done
  run curl -sS -G --unix-socket "$MOSS_SOCK" -w '\n%{http_code}' --data-urlencode 'filters={"name":["x"]}' http://moss/v1.22/volumes
  expect line -1 500
}

@test "the docker command line: volume create, ls, inspect, rm, filters" {
  name=$(unique dock)
  run dock volume create --label team=a "$name"
  expect output "$name"
  run dock volume ls --filter "name=${name#dock}" --filter driver=loc --format '{{.Name}} {{.Driver}}'
  expect output "$name local"
  run dock volume ls -q --filter dangling=true
  expect contains "$name"
  run dock volume ls -q --filter dangling=false
  expect lacks "$name"
  run dock volume inspect --format '{{.Labels.team}} {{.Scope}}' "$name"
  expect output "a local"
  run dock run --name "$name" -v "$name:/d" busybox sh -c 'echo kept >/d/f'
  expect status 0
  run dock volume ls -q --filter dangling=true
  expect lacks "$name"
  run dock volume rm "$name"
  expect status 1
  expect contains "volume is in use" "$(dock inspect --format '{{.Id}}' "$name")"
  dock rm "$name"
  run dock volume rm "$name"
  expect output "$name"
  run dock volume inspect "$name"
  expect status 1
  run dock volume rm "$name"
  expect status 1
  expect matches "[Nn]o such volume"
  run dock info --format '{{.Plugins.Volume}}'
  expect output "[local]"
}

@test "data of a named volume survives its container, a crash and the engine's restart" {
  name=$(unique data)
  moss run --rm -v "$name:/d" busybox sh -c 'echo kept >/d/f; chmod 600 /d/f'
  crash
  run moss run --rm -v "$name:/d" busybox cat /d/f
  expect output kept
  halt_engine
  spawn_engine
  run moss run --rm -v "$name:/d:ro" busybox sh -c 'cat /d/f; echo x >/d/g'
  expect contains kept "Read-only file system"
  run api DELETE "/volumes/$name"
  expect line -1 204
}

@test "two containers see the same volume at the same time" {
  name=$(unique both)
  moss run -d --name "$name" -v "$name:/a" busybox sh -c 'until [ -e /a/go ]; do sleep 0.05; done; echo answer >/a/reply; exit 7'
  run moss run --rm -v "$name:/b/c" busybox sh -c 'echo >/b/c/go; until [ -s /b/c/reply ]; do sleep 0.05; done; cat /b/c/reply'
  expect output answer
  run moss wait "$name"
  expect output 7
  moss rm "$name"
  run api DELETE "/volumes/$name"
  expect line -1 204
}

@test "anonymous volumes of the client, of Binds and of the image; rm keeps them, rm -v does not" {
  name=$(unique anon)
  id=$(make "$name" '"Image":"vol","Volumes":{"/mine":{},"/mine/":{}},"HostConfig":{"Binds":["/bound"]}')
  expect equal "$(moss inspect "$name" | jq -c '[.[0].Mounts[].Destination] | sort')" '["/bound","/data","/mine"]'
  volumes=$(moss inspect "$name" | jq -r '.[0].Mounts[].Name')
  for v in $volumes; do
    expect --in "$v" matches '^[0-9a-f]{64}$'
    exists "$v"
  done
  moss start "$name"
  expect equal "$(moss wait "$name")" 0
  expect equal "$(moss inspect "$name" | jq -r '.[0].Mounts[].Name')" "$volumes"
  moss rm "$name"
  for v in $volumes; do
    exists "$v"
    run api DELETE "/volumes/$v"
    expect line -1 204
  done
  make "$name" '"Image":"vol","Volumes":{"/mine":{}},"HostConfig":{"Binds":["'"$name"':/named"]}'
  volumes=$(moss inspect "$name" | jq -r '.[0].Mounts[] | select(.Destination != "/named").Name')
  dock rm -v "$name"
  for v in $volumes; do missing "$v"; done
  exists "$name"
  dock volume rm "$name"
}

@test "run --rm takes its anonymous volumes along, and leaves those that others use" {
  before=$(volume_names)
  run dock run --rm -v /data vol sh -c 'cat /data/file; echo more >/data/more'
  expect output "of the image"
  run moss run --rm -v /x -v /y busybox sh -c 'echo a >/x/a; cat /x/a'
  expect output a
  expect equal "$(volume_names)" "$before"
  # The engine's own removal.
  name=$(unique auto)
  api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["true"],"Volumes":{"/v":{}},"HostConfig":{"AutoRemove":true}}'
  moss start "$name"
  eventually 10 is_gone "$name"
  expect equal "$(volume_names)" "$before"
  # One that another container has taken over goes with the last of them.
  make "$name" '"Image":"busybox","Volumes":{"/v":{}}'
  v=$(anonymous "$name" /v)
  make "$name-2" "\"Image\":\"busybox\",\"HostConfig\":{\"VolumesFrom\":[\"$name\"]}"
  dock rm -v "$name"
  exists "$v"
  dock rm -v "$name-2"
  missing "$v"
}

@test "a new volume gets what the image has in its place: content, modes, links, attributes" {
  name=$(unique copy)
  run moss run --rm -v "$name:/data" vol sh -c 'cd /data; cat file link sub/deep; readlink absolute; ls -ld . sub pipe | cut -c 1-10
    stat -c "%h %Y" file; [ file -ef hard ] && echo same; stat -c %a mine'
  expect status 0
  expect output $'of the image\nof the image\ndeep\n/etc/passwd\ndrwxr-x--x\nprw--w----\ndrwx------\n2 1000000000\nsame\n4750'
  point=$(answer_of "/volumes/$name" -r .Mountpoint)
  expect equal "$(python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.note").decode())' "$point/file")" kept
  # What is in it stays: another image's content does not come on top, and what was removed does not come back.
  moss run --rm -v "$name:/data" vol rm -r /data/sub
  run moss run --rm -v "$name:/other" vol sh -c 'cat /other/file; ls /other'
  expect contains "of the image"
  expect lacks sub
  dock volume rm "$name"
}

@test "mounts made later below a slave bind appear in the container" {
  name=$(unique slave)
  dir=$BATS_TEST_TMPDIR/folder
  mkdir "$dir"
  # In the engine's own mounts, which follow the host's where these are shared.
  inside() { nsenter --preserve-credentials -U -m -t "$(inner_pid)" "$@"; }
  inside mount -t tmpfs base "$dir"
  inside mount --make-shared "$dir"
  inside mkdir "$dir/later"
  for mode in rslave rprivate; do
    moss run -d --name "$name-$mode" -v "$dir:/b:$mode" busybox sh -c 'until [ -e /b/go ]; do sleep 0.05; done; grep -c " /b/later " /proc/self/mountinfo'
  done
  inside mount -t tmpfs late "$dir/later"
  inside touch "$dir/go"
  moss wait "$name-rslave" "$name-rprivate"
  run moss logs "$name-rslave"
  expect output 1
  run moss logs "$name-rprivate"
  expect output 0
  inside umount -R "$dir"
  moss rm "$name-rslave" "$name-rprivate"
}

# bats test_tags=subids
@test "a new volume's files have the owners that the image gives them" {
  run moss run --rm -v /data vol stat -c '%u:%g %n' /data /data/mine /data/file
  expect output $'33:33 /data\n33:50 /data/mine\n0:0 /data/file'
  run moss run --rm -u www vol sh -c 'echo x >/data/new && stat -c %U /data/new'
  expect output www
}

@test "nocopy, a path through the image's own link, an empty volume made before, and a path that is a file" {
  name=$(unique edge)
  run moss run --rm -v "$name:/data:nocopy" vol ls -A /data
  expect output ""
  dock volume rm "$name"
  dock volume create "$name"
  run moss run --rm -v "$name:/through" vol cat /through/file /data/file
  expect output $'of the image\nof the image'
  dock volume rm "$name"
  run api POST /containers/create '{"Image":"vol","Cmd":["true"],"Volumes":{"/afile":{}}}'
  expect line -1 400
  expect contains "file exists /afile"
  run api POST /containers/create '{"Image":"vol","Cmd":["true"],"Volumes":{"/afile/below":{}}}'
  expect line -1 400
}

@test "a created container's volume has its content before any start" {
  name=$(unique only)
  make "$name" '"Image":"vol"'
  run moss run --rm --volumes-from "$name" busybox cat /data/file
  expect output "of the image"
  dock rm -v "$name"
}

@test "a link of the image does not lead a volume out of the container" {
  name=$(unique out)
  # A runtime may refuse such a place at the start; what it must not do is to take the host's folder for it.
  for place in /out /out/below /away/canary; do
    run moss run --rm -v "$name:$place" vol sh -c "ls -A $place; echo bad >$place/planted"
    expect lacks secret "of the host"
    expect equal "$(ls -A "$MOSS_DIR/canary")" secret
    expect equal "$(cat "$MOSS_DIR/canary/secret")" 'of the host'
    point=$(answer_of "/volumes/$name" -r .Mountpoint)
    expect --in "$(ls -A "$point")" lacks secret
    dock volume rm "$name"
  done
}

@test "VolumesFrom: a chain, read-only, of stopped containers, binds too; own mounts win" {
  name=$(unique from)
  mkdir "$BATS_TEST_TMPDIR/host" "$BATS_TEST_TMPDIR/mine"
  echo host >"$BATS_TEST_TMPDIR/host/f"
  echo mine >"$BATS_TEST_TMPDIR/mine/f"
  moss run --name "$name-1" -v "$name:/named" -v /anon -v "$BATS_TEST_TMPDIR/host:/host" busybox sh -c 'echo 1 >/named/f; echo 2 >/anon/f'
  make "$name-2" "\"Image\":\"busybox\",\"HostConfig\":{\"VolumesFrom\":[\"$name-1:ro\"]}"
  moss rm "$name-1"
  run moss run --name "$name-3" --volumes-from "$name-2" busybox sh -c 'exec 2>&1; cat /named/f /anon/f /host/f; echo x >/named/g; echo x >/host/g'
  expect contains $'1\n2\nhost' "can't create /named/g: Read-only" "can't create /host/g: Read-only"
  # The client's own mounts and tmpfs win, its Config.Volumes give way, and the second container goes over the first.
  run moss run --rm --volumes-from "$name-3" -v "$BATS_TEST_TMPDIR/mine:/host" --tmpfs /named -v /anon busybox sh -c \
    'cat /host/f /anon/f; ls -A /named; grep -c " /named tmpfs" /proc/mounts'
  expect output $'mine\n2\n1'
  expect equal "$(moss inspect "$name-3" | jq -c '.[0].HostConfig.VolumesFrom, ([.[0].Mounts[] | .RW] | unique)')" "[\"$name-2\"]"$'\n[false]'
  # It starts again from its own record.
  moss rm "$name-2"
  run moss start -a "$name-3"
  expect contains $'1\n2\nhost'
  run api DELETE "/volumes/$name"
  expect line -1 409
  dock rm -v "$name-3"
  dock volume rm "$name"
}

@test "VolumesFrom: a missing container, itself, a bad mode and an empty name are 400" {
  name=$(unique self)
  before=$(volume_names)
  run api POST "/containers/create?name=$name" '{"Image":"vol","Cmd":["true"],"HostConfig":{"VolumesFrom":["nobody-here"]}}'
  expect line -1 400
  expect contains "No such container: nobody-here"
  run api POST "/containers/create?name=$name" "{\"Image\":\"vol\",\"Cmd\":[\"true\"],\"HostConfig\":{\"VolumesFrom\":[\"/$name\"]}}"
  expect line -1 400
  expect contains VolumesFrom
  for from in "$name:maybe" ":ro" "$name:rslave" "$name:nocopy"; do
    run api POST "/containers/create" "{\"Image\":\"vol\",\"Cmd\":[\"true\"],\"HostConfig\":{\"VolumesFrom\":[\"$from\"]}}"
    expect line -1 400
  done
  expect equal "$(volume_names)" "$before"
}

@test "duplicate, relative and misspelt mounts are 400 and leave nothing behind" {
  before=$(volume_names)
  name=$(unique bad)
  for host in '{"Binds":["'"$name"':/x","/x"]}' '{"Binds":["'"$name"':/x","/tmp:/x/"]}' '{"Binds":["'"$name"':/x"],"Tmpfs":{"/x":""}}' \
    '{"Binds":["'"$name"':x"]}' '{"Binds":["'"$name"':/"]}' '{"Binds":["rel/path:/x"]}' '{"Binds":["'"$name"':/x:rshared"]}' \
    '{"Binds":["'"$name"':/x:maybe"]}' '{"Binds":["/tmp:/x:nocopy"]}' '{"Binds":["v:/x"]}' '{"Binds":["-'"$name"':/x"]}' \
    '{"Binds":["'"$name"':/x","-'"$name"':/y"]}' '{"Binds":["'"$name"':/afile","'"$name"':/data"]}'; do
    run api POST /containers/create "{\"Image\":\"vol\",\"Cmd\":[\"true\"],\"HostConfig\":$host}"
    expect line -1 400
  done
  for path in rel / ''; do
    run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"Volumes\":{\"$path\":{}}}"
    expect line -1 400
  done
  run api POST /containers/create '{"Image":"busybox","Cmd":["true"],"Volumes":{"/x":{}},"HostConfig":{"VolumeDriver":"nosuch"}}'
  expect line -1 501
  expect contains VolumeDriver
  expect equal "$(volume_names)" "$before"
  # A volume that was there before the failed create stays.
  dock volume create "$name"
  run api POST /containers/create "{\"Image\":\"vol\",\"Cmd\":[\"true\"],\"HostConfig\":{\"Binds\":[\"$name:/afile\"]}}"
  expect line -1 400
  dock volume rm "$name"
}

@test "inspect and lists show volumes as each version has them, and lists find them" {
  name=$(unique show)
  make "$name" "\"Image\":\"busybox\",\"Volumes\":{\"/anon\":{}},\"HostConfig\":{\"Binds\":[\"$name:/named:ro\"]}"
  anon=$(anonymous "$name" /anon)
  point=$(answer_of "/volumes/$name" -r .Mountpoint)
  inspect() { answer_of "/v$1/containers/$name/json" -c "$2"; }
  expect equal "$(inspect 1.24 '.Mounts | sort_by(.Destination)[1]')" \
    "{\"Destination\":\"/named\",\"Driver\":\"local\",\"Mode\":\"ro\",\"Name\":\"$name\",\"Propagation\":\"\",\"RW\":false,\"Source\":\"$point\",\"Type\":\"volume\"}"
  expect equal "$(inspect 1.24 '.Mounts | sort_by(.Destination)[0] | [.Name,.Mode,.RW]')" "[\"$anon\",\"\",true]"
  expect equal "$(inspect 1.21 '.Mounts | sort_by(.Destination)[1]')" \
    "{\"Destination\":\"/named\",\"Mode\":\"ro\",\"RW\":false,\"Source\":\"$point\"}"
  expect equal "$(inspect 1.20 '.Volumes')" null
  expect equal "$(inspect 1.18 '[.Mounts, .Volumes["/named"], .VolumesRW["/named"], .VolumesRW["/anon"]]')" "[null,\"$point\",false,true]"
  for v in "$name" /named "$anon"; do
    run dock ps -a --filter "volume=$v" --format '{{.Names}}'
    expect output "$name"
  done
  run dock ps -aq --filter volume=/nowhere
  expect output ""
  run dock ps -a --no-trunc --filter "volume=$name" --format '{{.Mounts}}'
  expect contains "$name"
  dock rm -v "$name"
  dock volume rm "$name"
}

@test "events: create, mount, unmount, destroy, with what they are about" {
  name=$(unique ev)
  since=$(date +%s)
  dock run --name "$name" -v "$name:/d:ro" busybox true
  dock rm "$name"
  dock volume rm "$name"
  run curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" --data-urlencode "filters={\"volume\":[\"$name\"]}" \
    "http://moss/v1.24/events?since=$since&until=$(($(date +%s) + 1))"
  expect equal "$(jq -r .Action <<<"$output" | tr '\n' ' ')" "create mount unmount destroy "
  expect equal "$(jq -r .Type <<<"$output" | sort -u)" volume
  expect equal "$(jq -c 'select(.Action == "mount").Actor.Attributes | del(.container)' <<<"$output")" \
    '{"destination":"/d","driver":"local","propagation":"","read/write":"false"}'
  expect equal "$(jq -r 'select(.Action == "mount" or .Action == "unmount").Actor.Attributes.container | length' <<<"$output" | tr '\n' ' ')" "64 64 "
  expect equal "$(jq -c 'select(.Action == "destroy").Actor.Attributes' <<<"$output")" '{"driver":"local"}'
}

# bats test_tags=chance
@test "a crash in the middle of creates leaves no volume without its container" {
  seed_chance
  before=$(volume_names)
  name=$(unique crash)
  (
    i=0
    while [ ! -e "$BATS_TEST_TMPDIR/stop" ]; do
      i=$((i + 1))
      make "$name-$i" "\"Image\":\"vol\",\"Volumes\":{\"/a\":{},\"/b\":{}},\"HostConfig\":{\"Binds\":[\"$name-$i:/n\"]}" || true
    done
  ) >"$BATS_TEST_TMPDIR/ids" 2>/dev/null 3>&- &
  maker=$!
  span=400
  ids() { grep -cE '^[0-9a-f]{64}$' "$BATS_TEST_TMPDIR/ids"; }
  more() { [ "$(ids)" -gt $((seen + 3)) ]; }
  for _ in $(seq "${MOSS_CHANCE_ROUNDS:-3}"); do
    seen=$(ids || true)
    eventually 20 more
    pass_moment
    crash
  done
  touch "$BATS_TEST_TMPDIR/stop"
  wait $maker || true
  crash
  made=$(answer_of '/containers/json?all=1' -r '.[].Names[0]' | grep -cF "/$name-")
  [ "$made" -gt 3 ] || fail "only $made containers were made"
  used=$(answer_of '/containers/json?all=1' -r '.[].Mounts[].Name' | sort)
  expect equal "$(volume_names | sort)" "$(printf '%s\n%s\n' "$before" "$used" | sort -u | grep .)"
  expect equal "$(find "$MOSS_DATA/root/volumes" -maxdepth 2 \( -name '.*' -o -name pending -o -name _copy \))" ""
  # The removal of volumes is finished by the next engine, too.
  for c in $(answer_of '/containers/json?all=1' -r '.[].Names[0]' | grep -F "/$name-"); do
    echo "DELETE /containers$c?v=1"
  done >"$BATS_TEST_TMPDIR/removals"
  (while read -r method path; do api "$method" "$path"; done <"$BATS_TEST_TMPDIR/removals") >/dev/null 2>&1 3>&- &
  remover=$!
  span=400
  pass_moment
  crash
  wait $remover || true
  while read -r method path; do api "$method" "$path" >/dev/null; done <"$BATS_TEST_TMPDIR/removals"
  expect equal "$(volume_names | grep -vF "$name-" | sort)" "$(sort <<<"$before")"
  for v in $(volume_names | grep -F "$name-"); do dock volume rm "$v"; done
}

@test "a volume of tmpfs lives as long as its containers, with the size that was asked for" {
  name=$(unique tmp)
  run dock volume create -o type=tmpfs -o device=tmpfs -o o=size=1m,mode=1770 "$name"
  expect output "$name"
  moss run -d --name "$name" -v "$name:/t" busybox sh -c 'echo hot >/t/f; sleep 1000'
  moss run -d --name "$name-2" -v "$name:/t" busybox sleep 1000
  crash
  eventually 10 is_running "$name-2"
  run moss run --rm -v "$name:/t" busybox sh -c 'cat /t/f; grep " /t " /proc/mounts; stat -c %a /t; dd if=/dev/zero of=/t/big bs=1M count=3'
  expect contains hot "size=1024k" 1770 "No space left"
  moss rm -f "$name" "$name-2"
  run moss run --rm -v "$name:/t" busybox ls -A /t
  expect output ""
  run api POST /volumes/create "{\"Name\":\"$name\",\"DriverOpts\":{\"type\":\"tmpfs\"}}"
  expect line -1 409
  dock volume rm "$name"
  dock volume create -o type=tmpfs -o o=uid=4000000000 "$name"
  run -125 dock run --rm -v "$name:/t" busybox true
  expect contains "mount volume $name" 'the kernel does not take its options "uid=4000000000"'
  dock volume rm "$name"
}

@test "a volume that binds a folder of the user's, and one whose folder is missing" {
  name=$(unique bind)
  dir=$BATS_TEST_TMPDIR/folder
  mkdir "$dir"
  echo there >"$dir/f"
  dock volume create -o type=none -o o=bind,ro -o "device=$dir" "$name"
  run moss run --rm -v "$name:/b" busybox sh -c 'cat /b/f; echo x >/b/g'
  expect contains there "Read-only file system"
  dock volume rm "$name"
  expect equal "$(cat "$dir/f")" there
  dock volume create -o o=bind -o "device=$dir" "$name"
  moss run --rm -v "$name:/b" busybox sh -c 'echo here >/b/g'
  expect equal "$(cat "$dir/g")" here
  rm -r "$dir"
  run moss run --rm -v "$name:/b" busybox true
  expect status 125
  expect contains "$name"
  dock volume rm "$name"
}

@test "a start with a HostConfig (up to 1.23) takes binds and volumes from it" {
  name=$(unique old)
  dir=$BATS_TEST_TMPDIR/folder
  mkdir "$dir"
  make "$name" '"Image":"busybox","Volumes":{"/v":{},"/w":{}},"Cmd":["sh","-c","echo 1 >>/v/f; echo 2 >>/w/f; wc -l </v/f; echo 3 >/n/f"]'
  v=$(anonymous "$name" /v) w=$(anonymous "$name" /w)
  run api POST "/v1.22/containers/$name/start" "{\"Binds\":[\"$dir:/w\",\"$name:/n\"]}"
  expect line -1 204
  expect equal "$(moss wait "$name")" 0
  expect equal "$(cat "$dir/f")" 2
  expect equal "$(anonymous "$name" /v)" "$v"
  exists "$v"
  missing "$w"
  # The same again keeps the data; a bad one changes nothing.
  run api POST "/v1.22/containers/$name/start" "{\"VolumesFrom\":[\"$name\"]}"
  expect line -1 500
  run api POST "/v1.22/containers/$name/start" "{\"Binds\":[\"$name:/n\",\"-bad:/w\"]}"
  expect line -1 500
  expect equal "$(moss inspect "$name" | jq -c '[.[0].Mounts[].Destination] | sort')" '["/n","/v","/w"]'
  run moss start -a "$name"
  expect contains 2
  dock rm -v "$name"
  missing "$v"
  dock volume rm "$name"
}

@test "bind modes: ro, rw, z, and propagations that a user can have" {
  dir=$BATS_TEST_TMPDIR/folder
  mkdir "$dir"
  for mode in ro rw z Z ro,Z rw,z private rprivate slave,ro rslave; do
    run moss run --rm -v "$dir:/b:$mode" busybox sh -c 'echo x >/b/f && echo written; grep " /b " /proc/self/mountinfo'
    case $mode in
      *ro) expect contains "Read-only" " ro," && expect lacks written ;;
      ro*) expect contains "Read-only" " ro," && expect lacks written ;;
      *) expect contains written " rw," ;;
    esac
  done
  run moss run --rm -v "$dir:/b:rprivate" busybox grep ' /b ' /proc/self/mountinfo
  expect lacks master: shared:
  name=$(unique shared)
  run api POST "/containers/create?name=$name" "{\"Image\":\"busybox\",\"Cmd\":[\"grep\",\" /b \",\"/proc/self/mountinfo\"],\"HostConfig\":{\"Binds\":[\"$dir:/b:rshared\"]}}"
  expect line -1 201
  expect contains "cannot be shared with the host"
  run moss start -a "$name"
  expect contains shared:
  moss rm "$name"
}

@test "a bind's missing source is made, also below a missing one" {
  dir=$BATS_TEST_TMPDIR/not/there
  moss run --rm -v "$dir:/b" busybox sh -c 'echo made >/b/f'
  expect equal "$(cat "$dir/f")" made
}

@test "a read-only root keeps volumes, binds, tmpfs and /dev/shm writable" {
  name=$(unique ro)
  mkdir "$BATS_TEST_TMPDIR/b"
  run moss run --rm --read-only -v "$name:/data" -v /anon -v "$BATS_TEST_TMPDIR/b:/b" --tmpfs /t vol sh -c \
    'for d in /data /anon /b /t /dev/shm; do echo x >$d/new && echo "$d ok"; done; cat /data/file; echo x >/new; echo x >/other/new'
  expect contains "/data ok" "/anon ok" "/b ok" "/t ok" "/dev/shm ok" "of the image" "can't create /new: Read-only" "can't create /other/new: Read-only"
  dock volume rm "$name"
}

@test "tmpfs and /dev/shm have the size and the options that were asked for" {
  run dock run --rm --tmpfs /t:size=1m,mode=1770,exec --shm-size 2m busybox sh -c 'grep -E " (/t|/dev/shm) " /proc/mounts; stat -c %a /t; df -k /dev/shm /t | tail -n 2'
  expect contains 1770
  expect matches '^tmpfs /t tmpfs rw,nosuid,nodev,.*size=1024k'
  expect matches '^shm /dev/shm tmpfs rw,nosuid,nodev,noexec,.*size=2048k'
  run dock run --rm --tmpfs /t busybox sh -c 'grep " /t " /proc/mounts; df -k /dev/shm | tail -n 1'
  expect matches 'noexec'
  expect contains 65536
  run api POST /containers/create '{"Image":"busybox","Cmd":["true"],"HostConfig":{"ShmSize":-1}}'
  expect line -1 400
}

@test "lists by label and removal by force, of later versions, are served from 1.24 on and at every one" {
  name=$(unique later)
  api POST /v1.24/volumes/create "{\"Name\":\"$name\",\"Labels\":{\"team\":\"$name\",\"stage\":\"test\"}}"
  for client in moss dock; do
    for filter in "label=team=$name" "label=team"; do
      run $client volume ls -q --filter "$filter" --filter label=stage=test
      expect output "$name"
    done
    run $client volume ls -q --filter "label=team=$name" --filter label=stage=live
    expect output ""
  done
  run curl -sS -G --unix-socket "$MOSS_SOCK" -w '\n%{http_code}' --data-urlencode 'filters={"label":["team"]}' http://moss/v1.22/volumes
  expect line -1 500
  id=$(make "$name" "\"Image\":\"busybox\",\"HostConfig\":{\"Binds\":[\"$name:/d\"]}")
  run api DELETE "/v1.21/volumes/$name?force=1"
  expect line -1 409
  expect contains "remove $name: volume is in use - [$id]"
  moss rm "$name"
  for _ in 1 2; do
    run api DELETE "/v1.21/volumes/$name?force=1"
    expect line -1 204
  done
  run api DELETE "/v1.21/volumes/$name?force=0"
  expect line -1 404
}

@test "what an ordinary user cannot mount is refused when the volume is made, with the reason" {
  name=$(unique nfs)
  for opts in '"type":"nfs","device":":/x","o":"addr=127.0.0.1,rw"' '"type":"cifs","device":"//127.0.0.1/x","o":"username=x"' \
    '"type":"overlay","device":"overlay","o":"lowerdir=/tmp"' '"type":"ext4","device":"/dev/sda1"'; do
    run api POST /v1.24/volumes/create "{\"Name\":\"$name\",\"DriverOpts\":{$opts}}"
    expect line -1 500
    expect contains "an ordinary user can have"
    missing "$name"
  done
}

@test "a bind that cannot be reached says so, at the start and in copies, and the container stays as it was" {
  name=$(unique closed)
  make "$name" '"Image":"busybox","HostConfig":{"Binds":["/root/closed/x:/b"]}'
  run api POST "/containers/$name/start"
  expect line -1 400
  expect contains "bind source path cannot be used" /root/closed/x
  expect equal "$(state "$name")" created
  run moss cp "$name:/b" "$BATS_TEST_TMPDIR/copy"
  expect contains "bind source path cannot be used"
  moss rm "$name"
  echo x >"$BATS_TEST_TMPDIR/file"
  run moss run --rm -v "$BATS_TEST_TMPDIR/file/below:/b" busybox true
  expect contains "bind source path cannot be used"
  # What is there and of no use to this user, folder or file; what they may enter alone is of some.
  for closed in /lost+found /etc/shadow; do
    [ -e "$closed" ] && [ ! -r "$closed" ] && [ ! -x "$closed" ] || continue
    run moss run --rm -v "$closed:/b" busybox true
    expect contains "bind source path cannot be used" "$closed" "permission denied"
  done
  mkdir "$BATS_TEST_TMPDIR/enter"
  chmod 0111 "$BATS_TEST_TMPDIR/enter"
  moss run --rm -v "$BATS_TEST_TMPDIR/enter:/b" busybox true
}

# bats test_tags=chance
@test "many create, use and remove one volume at once: each answer is one of the documents', and nothing is half there" {
  seed_chance
  name=$(unique many)
  worker() {
    for _ in {1..15}; do
      api POST /volumes/create "{\"Name\":\"$name\",\"Labels\":{\"a\":\"1\"}}" | tail -n 1
      api POST "/containers/create?name=$name-$1" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"Binds\":[\"$name:/d\"]}}" | tail -n 1
      api DELETE "/volumes/$name" | tail -n 1
      api DELETE "/containers/$name-$1" | tail -n 1
    done
  }
  local pids=()
  for n in 1 2 3; do
    worker $n >"$BATS_TEST_TMPDIR/$n" 2>&1 3>&- &
    pids+=($!)
  done
  wait "${pids[@]}"
  expect equal "$(sort -u "$BATS_TEST_TMPDIR"/[123] | grep -vxE '201|204|404|409')" ""
  # The create of a container never meets a volume that is going, so none of these failed.
  expect equal "$(cat "$BATS_TEST_TMPDIR"/[123] | grep -c 201)" 90
  api DELETE "/volumes/$name?force=1"
  expect equal "$(find "$MOSS_DATA/root/volumes" -maxdepth 1 \( -name '.*' -o -name "$name" \))" ""
}

@test "a full disk: the create that copies an image's content fails clearly and leaves no volume" {
  name=$(unique full)
  volumes=$MOSS_DATA/root/volumes
  # A small file system over the volumes, which the next engine opens.
  nsenter --preserve-credentials -U -m -t "$(inner_pid)" mount -t tmpfs -o size=256k,mode=0700 small "$volumes"
  crash
  run api POST "/containers/create?name=$name" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"Binds\":[\"$name:/bin\"]}}"
  expect line -1 500
  expect contains "no space left on device" "$name"
  is_gone "$name"
  missing "$name"
  expect equal "$(nsenter --preserve-credentials -U -m -t "$(inner_pid)" ls -A "$volumes")" ""
  moss volume create "$name"
  run moss run --rm -v "$name:/d" busybox sh -c 'cat /dev/zero >/d/fill; echo still'
  expect contains "No space left" still
  # With nothing left a volume is made whole or not at all, and what is there can go.
  run api POST /volumes/create "{\"Name\":\"$name-2\"}"
  if [ "${lines[-1]}" != 201 ]; then
    expect contains "no space left on device"
    missing "$name-2"
  fi
  api DELETE "/volumes/$name-2?force=1"
  run moss volume rm "$name"
  expect output "$name"
  expect equal "$(nsenter --preserve-credentials -U -m -t "$(inner_pid)" ls -A "$volumes")" ""
  nsenter --preserve-credentials -U -m -t "$(inner_pid)" umount -l "$volumes"
  crash
}

@test "a volume's options noexec, nosuid and nodev hold in its containers, also read-only" {
  name=$(unique flags)
  dock volume create -o type=tmpfs -o o=size=4m,noexec,nodev "$name"
  mkdir "$BATS_TEST_TMPDIR/folder"
  dock volume create -o o=bind,nosuid,noexec -o "device=$BATS_TEST_TMPDIR/folder" "$name-b"
  for access in rw ro; do
    for volume in "$name" "$name-b"; do
      moss run -d --name "$name" -v "$volume:/w" busybox sleep 1000
      moss exec "$name" cp /bin/busybox /w/box
      run moss run --rm -v "$volume:/v:$access" busybox sh -c 'grep " /v " /proc/mounts; /v/box true; echo "left $?"'
      expect contains noexec "left 126"
      [ "$volume" != "$name" ] || expect contains nodev
      [ "$volume" = "$name" ] || expect contains nosuid
      moss rm -f "$name"
    done
  done
  moss volume rm "$name" "$name-b"
}
