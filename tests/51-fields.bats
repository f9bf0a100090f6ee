#!/usr/bin/env bats
# Fields of containers, one by one: what lists and inspect show is what is so inside and on the host, and what create is
# given has its effect there.
# bats file_tags=subids

load lib/moss

setup_file() {
  start_engine
  import_busybox
  local change changes=
  for change in 'ENTRYPOINT ["echo","image"]' 'CMD ["cmd"]' 'ENV A=image B=image' 'LABEL a=image b=image' 'EXPOSE 81/tcp' 'ONBUILD RUN true'; do
    changes+="&changes=$(jq -rn --arg c "$change" '$c|@uri')"
  done
  curl -sS --fail --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' --data-binary @"$MOSS_DIR/busybox.tar" \
    "http://moss/v1.24/images/create?fromSrc=-&repo=made&tag=latest$changes" >/dev/null
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

sleeps='"Cmd":["sh","-c","sleep 1000; true"]'
# make JSON [VERSION]: creates $box with these settings, of busybox unless they name another image.
make() {
  run api POST "/v${2:-1.24}/containers/create?name=$box" "$(jq -c '{Image: "busybox"} + .' <<<"{$1}")"
  [ "${lines[-1]}" = 201 ] || fail "create $1: $output"
}
# inspect JQ [VERSION]
inspect() { answer_of "/v${2:-1.24}/containers/$box/json" -c "$1"; }
# entry JQ [VERSION [QUERY]]: the same of the box in the list of all containers.
entry() {
  answer_of "/v${2:-1.24}/containers/json?all=1${3:+&$3}" -c --arg name "/$box" ".[] | select(.Names | index(\$name)) | $1"
}
inside() { moss exec "$box" "$@"; }
# prints JSON: what a container with these settings prints.
prints() {
  make "$1" && moss start -a "$box" && moss rm "$box" >/dev/null
}
refused() { # STATUS TEXT JSON
  run api POST /v1.24/containers/create "$(jq -c '{Image: "busybox", Cmd: ["true"]} + .' <<<"{$3}")"
  [ "${lines[-1]}" = "$1" ] || fail "$3: $output" || return
  expect contains "$2"
}
# has_become WORDS: is this the command line of the container's process by now? The runtime's own process becomes it.
has_become() { [ "$(inside sh -c 'tr "\0" "|" </proc/1/cmdline')" = "$1" ]; }
served() { [ "$(curl -s --max-time 5 "http://127.0.0.1:$1/index.html")" = "hello from busybox" ]; }

@test "a list entry: id, names, image, command, times, state, status and labels" {
  since=$(date +%s)
  make "$sleeps,\"Labels\":{\"one\":\"1\",\"two\":\"\"}"
  id=$(jq -r .Id <<<"${lines[0]}")
  expect equal "$(entry '[.Id, .Names, .Image, .State, .Status]')" "[\"$id\",[\"/$box\"],\"busybox\",\"created\",\"Created\"]"
  created=$(entry .Created)
  if [ "$created" -lt "$since" ] || [ "$created" -gt "$(date +%s)" ]; then fail "Created: $created"; fi
  expect equal "$(date -d "$(inspect .Created | tr -d '"')" +%s)" "$created"
  moss start "$box"
  expect equal "$(entry .Command)" "\"sh -c 'sleep 1000; true'\""
  eventually 10 has_become "sh|-c|sleep 1000; true|"
  expect equal "$(entry '[.State, (.Status | test("^Up "))]')" '["running",true]'
  expect equal "$(entry .Labels)" '{"one":"1","two":""}'
  image=$(answer_of /v1.24/images/busybox/json .Id)
  expect equal "$(entry .ImageID)" "$image"
  expect equal "$(entry '[has("ImageID"), has("State"), has("HostConfig"), has("Mounts")]' 1.20)" '[false,false,false,false]'
  expect equal "$(entry '[has("ImageID"), has("State"), has("HostConfig"), has("Mounts")]' 1.22)" '[true,false,true,false]'
  expect equal "$(entry .HostConfig)" '{"NetworkMode":"default"}'
  moss kill "$box"
  eventually 10 is_exited "$box"
  expect equal "$(entry '[.State, (.Status | test("^Exited \\(137\\) "))]')" '["exited",true]'
}

@test "ports: published ones answer, exposed ones are shown, of a stopped container none" {
  make '"Cmd":["httpd","-f","-h","/var/www"],"ExposedPorts":{"53/udp":{}},"HostConfig":{"PortBindings":{"80/tcp":[{"HostIp":"127.0.0.1","HostPort":""}]}}'
  moss start "$box"
  port=$(entry '.Ports[] | select(.PrivatePort == 80).PublicPort' 1.18)
  eventually 10 served "$port"
  expect equal "$(entry '.Ports | sort_by(.PrivatePort)')" \
    "[{\"PrivatePort\":53,\"Type\":\"udp\"},{\"IP\":\"127.0.0.1\",\"PrivatePort\":80,\"PublicPort\":$port,\"Type\":\"tcp\"}]"
  for v in 1.18 1.24; do
    expect equal "$(inspect .NetworkSettings.Ports $v)" "{\"53/udp\":null,\"80/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"$port\"}]}"
  done
  expect equal "$(inspect '.NetworkSettings | [has("PortMapping"), .PortMapping]' 1.20)" '[true,null]'
  moss stop -t 0 "$box"
  expect equal "$(entry .Ports)" '[]'
  expect equal "$(inspect .NetworkSettings.Ports)" '{}'
  moss rm "$box"
  # What is exposed is what PublishAllPorts publishes; the image's ports belong to it.
  make '"Image":"made","Entrypoint":"httpd","Cmd":["-f","-h","/var/www","-p","81"],"ExposedPorts":{"82/udp":{}},"HostConfig":{"PublishAllPorts":true}'
  expect equal "$(inspect .Config.ExposedPorts)" '{"81/tcp":{},"82/udp":{}}'
  moss start "$box"
  expect equal "$(inspect '.NetworkSettings.Ports | keys')" '["81/tcp","82/udp"]'
  eventually 10 served "$(inspect '.NetworkSettings.Ports["81/tcp"][0].HostPort' | tr -d '"')"
  refused 400 "80/ip" '"ExposedPorts":{"80/ip":{}}'
}

@test "sizes: what the container wrote, and with the image's files, when they are asked for" {
  make '"Cmd":["sh","-c","head -c 3000000 /dev/zero >/made; sleep 1000"]'
  before=$(entry '[.SizeRw, .SizeRootFs]' 1.24 size=1)
  expect equal "$(jq '.[1] - .[0]' <<<"$before")" "$(answer_of /v1.24/images/busybox/json .Size)"
  moss start "$box"
  written() { [ "$(inside stat -c %s /made 2>/dev/null)" = 3000000 ]; }
  eventually 10 written
  grown=$(jq -n --argjson a "$(entry '[.SizeRw, .SizeRootFs]' 1.18 size=1)" --argjson b "$before" '[$a[0] - $b[0], $a[1] - $b[1]]' | jq -c '[.[] | . >= 3000000 and . < 3100000]')
  expect equal "$grown" '[true,true]'
  expect equal "$(entry '[has("SizeRw"), has("SizeRootFs")]')" '[false,false]'
  expect equal "$(answer_of "/v1.21/containers/$box/json?size=1" -c '[.SizeRw, .SizeRootFs]')" "$(entry '[.SizeRw, .SizeRootFs]' 1.24 size=1)"
  expect equal "$(inspect '[has("SizeRw"), has("SizeRootFs")]')" '[false,false]'
  expect equal "$(answer_of "/v1.20/containers/$box/json?size=1" -c '[has("SizeRw"), has("SizeRootFs")]')" '[false,false]'
}

@test "the default network: addresses, gateway, hardware address and namespace are those of the process" {
  make "$sleeps"
  moss start "$box"
  e=$(inspect .NetworkSettings.Networks.bridge)
  expect equal "$(inside ip -o -4 addr show eth0 | awk '{ print $4 }')" "$(jq -r '"\(.IPAddress)/\(.IPPrefixLen)"' <<<"$e")"
  expect equal "$(inside ip route | awk '/^default/ { print $3 }')" "$(jq -r .Gateway <<<"$e")"
  expect equal "$(inside cat /sys/class/net/eth0/address)" "$(jq -r .MacAddress <<<"$e")"
  # There is no other address, of no family: the fields for them are empty.
  expect equal "$(inside ip -o addr show eth0 | wc -l)" 1
  expect equal "$(jq -c '[.IPv6Gateway, .GlobalIPv6Address, .GlobalIPv6PrefixLen]' <<<"$e")" '["","",0]'
  expect equal "$(inspect '.NetworkSettings | [.IPv6Gateway, .GlobalIPv6Address, .GlobalIPv6PrefixLen, .LinkLocalIPv6Address, .LinkLocalIPv6PrefixLen]')" '["","",0,"",0]'
  expect equal "$(inspect '.NetworkSettings | [.SecondaryIPAddresses, .SecondaryIPv6Addresses, .Bridge, .HairpinMode]')" '[null,null,"",false]'
  # Outside of Networks stands the same, before 1.21 there alone.
  expect equal "$(inspect '.NetworkSettings | [.IPAddress, .IPPrefixLen, .Gateway, .MacAddress, .EndpointID]')" \
    "$(jq -c '[.IPAddress, .IPPrefixLen, .Gateway, .MacAddress, .EndpointID]' <<<"$e")"
  for v in 1.18 1.20; do
    expect equal "$(inspect .NetworkSettings $v | jq -c 'del(.Ports)')" \
      "$(jq -c '{Bridge: "", PortMapping: null, Gateway, IPAddress, IPPrefixLen, MacAddress}' <<<"$e")"
  done
  expect equal "$(inspect .NetworkSettings.Networks.bridge 1.21)" "$e"
  expect equal "$(entry .NetworkSettings.Networks.bridge 1.22)" "$e"
  expect equal "$(jq -c '[.NetworkID, .EndpointID | test("^[0-9a-f]{64}$")]' <<<"$e")" '[true,true]'
  expect equal "$(jq -c '[.IPAMConfig, .Links, .Aliases]' <<<"$e")" '[null,null,null]'
  expect equal "$(inspect '.NetworkSettings.SandboxID | test("^[0-9a-f]{64}$")')" true
  key=$(inspect .NetworkSettings.SandboxKey | tr -d '"')
  expect equal "net:[$(stat -Lc %i "/proc/$(inner_pid)/root$key")]" "$(readlink "/proc/$(inspect .State.Pid)/ns/net")"
  # Another container is elsewhere in the same network.
  second=$(unique second)
  moss run -d --name "$second" busybox sleep 1000
  other=$(moss inspect "$second" | jq -c '.[0].NetworkSettings.Networks.bridge')
  moss rm -f "$second"
  expect equal "$(jq -nc --argjson a "$e" --argjson b "$other" '$a | [.NetworkID == $b.NetworkID, .EndpointID == $b.EndpointID, .IPAddress == $b.IPAddress, .MacAddress == $b.MacAddress]')" \
    '[true,false,false,false]'
  moss stop -t 0 "$box"
  expect equal "$(inspect '.NetworkSettings | [.SandboxID, .SandboxKey, .IPAddress, .MacAddress, .Networks.bridge.IPAddress, .Networks.bridge.EndpointID]')" \
    '["","","","","",""]'
}

@test "the networks host and none: their name, a place in them, and no address" {
  for mode in host none; do
    make "$sleeps,\"HostConfig\":{\"NetworkMode\":\"$mode\"}"
    moss start "$box"
    expect equal "$(inspect ".NetworkSettings | [(.Networks | keys), .Networks.$mode.IPAddress, .IPAddress, (.Networks.$mode.NetworkID | length)]")" "[[\"$mode\"],\"\",\"\",64]"
    expect equal "$(entry '[.HostConfig.NetworkMode, (.NetworkSettings.Networks | keys)]')" "[\"$mode\",[\"$mode\"]]"
    moss rm -f "$box"
  done
}

@test "endpoint settings: shown as they were asked for, running or not" {
  net='"NetworkMode":"away"'
  ipam='"IPAMConfig":{"IPv4Address":"192.0.2.9","IPv6Address":"2001:db8::9","LinkLocalIPs":["169.254.1.1"]}'
  make "\"Cmd\":[\"true\"],\"HostConfig\":{$net},\"NetworkingConfig\":{\"EndpointsConfig\":{\"away\":{$ipam,\"Aliases\":[\"front\"]}}}"
  short=$(inspect '.Id[:12]')
  expect equal "$(inspect '.NetworkSettings.Networks.away | [.IPAMConfig, .Aliases, .Links]')" \
    '[{"IPv4Address":"192.0.2.9","IPv6Address":"2001:db8::9","LinkLocalIPs":["169.254.1.1"]},["front",'"$short"'],null]'
  expect equal "$(inspect .NetworkSettings.Networks.away.IPAMConfig 1.22)" '{"IPv4Address":"192.0.2.9","IPv6Address":"2001:db8::9"}'
  # No address of such a network is given out: the start says that there is none.
  run api POST "/containers/$box/start"
  expect line -1 404
  expect contains "network away not found"
  moss rm "$box"
  for field in IPv4Address IPv6Address; do
    refused 400 "invalid ${field%Address} address" "\"HostConfig\":{$net},\"NetworkingConfig\":{\"EndpointsConfig\":{\"away\":{\"IPAMConfig\":{\"$field\":\"here\"}}}}"
    refused 400 "user specified IP address is supported on user defined networks only" \
      "\"NetworkingConfig\":{\"EndpointsConfig\":{\"bridge\":{\"IPAMConfig\":{\"$field\":\"192.0.2.9\"}}}}"
  done
  refused 400 "user specified IP address" '"NetworkingConfig":{"EndpointsConfig":{"bridge":{"IPAMConfig":{"LinkLocalIPs":["169.254.1.1"]}}}}'
  refused 400 "invalid link-local IP address" "\"HostConfig\":{$net},\"NetworkingConfig\":{\"EndpointsConfig\":{\"away\":{\"IPAMConfig\":{\"LinkLocalIPs\":[\"here\"]}}}}"
  # A link of the default network's endpoint leads to the other container, and stays to be seen.
  other=$(unique other)
  moss run -d --name "$other" busybox sleep 1000
  make "$sleeps,\"NetworkingConfig\":{\"EndpointsConfig\":{\"bridge\":{\"IPAMConfig\":{},\"Links\":[\"$other:store\"]}}}"
  moss start "$box"
  expect equal "$(inspect '.NetworkSettings.Networks.bridge | [.IPAMConfig, .Links]')" "[{},[\"$other:store\"]]"
  expect equal "$(inside sh -c 'grep -w store /etc/hosts | cut -f1')" "$(moss inspect "$other" | jq -r '.[0].NetworkSettings.IPAddress')"
  moss rm -f "$other" "$box"
  # Before 1.22 nothing of it is read.
  make "\"Cmd\":[\"true\"],\"NetworkingConfig\":{\"EndpointsConfig\":{\"nowhere\":{}}}" 1.21
}

@test "mounts: what is mounted, with its propagation, in each version's form" {
  dir=$BATS_TEST_TMPDIR/folder
  mkdir "$dir"
  make "$sleeps,\"Volumes\":{\"/data\":{}},\"HostConfig\":{\"Binds\":[\"$dir:/bound:ro,slave\",\"$dir:/plain\"]}"
  moss start "$box"
  point=$(inspect '.Mounts[] | select(.Destination == "/data")')
  bind='{"Destination":"/bound","Mode":"ro,slave","Propagation":"slave","RW":false,"Source":"'$dir'","Type":"bind"}'
  expect equal "$(inspect '.Mounts[] | select(.Destination == "/bound")')" "$bind"
  expect equal "$(entry '.Mounts[] | select(.Destination == "/bound")')" "$bind"
  expect equal "$(inspect '.Mounts[] | select(.Destination == "/bound")' 1.20)" '{"Destination":"/bound","Mode":"ro,slave","RW":false,"Source":"'"$dir"'"}'
  expect equal "$(inspect '.Mounts[] | select(.Destination == "/plain") | [.Mode, .RW, .Propagation]')" '["",true,"rprivate"]'
  expect equal "$(jq -c '[.Type, (.Name | test("^[0-9a-f]{64}$")), .Driver, .RW]' <<<"$point")" '["volume",true,"local",true]'
  run inside grep -E ' /(bound|plain) ' /proc/self/mountinfo
  expect matches ' /bound ro,'
  expect matches ' /plain rw,'
  expect lacks shared:
  # Source is where the files lie.
  inside sh -c 'echo bound >/plain/f; echo volume >/data/f'
  expect equal "$(cat "$dir/f")" bound
  expect equal "$(cat "$(jq -r .Source <<<"$point")/f")" volume
  expect equal "$(inspect '[.Volumes["/bound"], .VolumesRW["/bound"], .VolumesRW["/data"], has("Mounts")]' 1.18)" "[\"$dir\",false,true,false]"
  expect equal "$(inspect '.Volumes["/data"]' 1.18)" "$(jq -c .Source <<<"$point")"
  expect equal "$(inspect '[has("Volumes"), has("VolumesRW")]' 1.20)" '[false,false]'
  moss rm -f -v "$box"
}

@test "inspect: command, image, driver and the files that the engine manages" {
  before=$(date +%s%N)
  make '"Image":"made","Entrypoint":["sh","-c"],"Cmd":["echo said; sleep 1000; true"]'
  id=$(jq -r .Id <<<"${lines[0]}")
  moss start "$box"
  expect equal "$(inspect '[.Id, .Name, .Path, .Args]')" "[\"$id\",\"/$box\",\"sh\",[\"-c\",\"echo said; sleep 1000; true\"]]"
  eventually 10 has_become "sh|-c|echo said; sleep 1000; true|"
  created=$(inspect .Created | tr -d '"')
  expect --in "$created" matches '^[0-9-]{10}T[0-9:]{8}\.[0-9]{1,9}Z$'
  if [ "$(date -d "$created" +%s%N)" -lt "$before" ]; then fail "Created $created is before the request"; fi
  expect equal "$(inspect .Image)" "$(answer_of /v1.24/images/made/json .Id)"
  expect equal "$(inspect .Driver)" "$(answer_of /v1.24/info .Driver)"
  expect equal "$(inspect .Driver)" '"overlay"'
  for v in 1.18 1.20 1.21 1.22; do expect equal "$(inspect .ExecDriver $v)" '"native-0.2"'; done
  expect equal "$(inspect 'has("ExecDriver")')" false
  for file in hostname:HostnamePath hosts:HostsPath resolv.conf:ResolvConfPath; do
    path=$(inspect ".${file#*:}" 1.18 | tr -d '"')
    expect equal "$(cat "$path")" "$(inside cat "/etc/${file%:*}")"
    expect equal "$(stat -c %i "$path")" "$(inside stat -c %i "/etc/${file%:*}")"
  done
  expect equal "$(inside hostname)" "${id:0:12}"
  expect equal "$(inspect .ExecIDs)" null
  exec=$(api POST "/v1.24/containers/$box/exec" '{"Cmd":["sleep","1000"]}' | head -n 1 | jq -r .Id)
  api POST "/v1.24/exec/$exec/start" '{"Detach":true}'
  for v in 1.18 1.24; do expect equal "$(inspect .ExecIDs $v)" "[\"$exec\"]"; done
  log_there() { file_has "$(inspect .LogPath | tr -d '"')" said; }
  eventually 10 log_there
  # The runtime is given no profile and no label either.
  expect equal "$(inspect '[.AppArmorProfile, .MountLabel, .ProcessLabel]')" '["","",""]'
  spec=$(find "$MOSS_DIR/run" -path "*/tasks/$id/config.json")
  expect equal "$(jq -c '[.process.apparmorProfile, .process.selinuxLabel, .linux.mountLabel]' "$spec")" '[null,null,null]'
}

@test "inspect: settings as they were given, in Config and HostConfig" {
  make "$sleeps,\"OnBuild\":[\"RUN true\"],\"HostConfig\":{\"ContainerIDFile\":\"/tmp/some.cid\",\"IpcMode\":\"private\",\"Memory\":8388608}" 1.18
  expect equal "$(inspect '[.Config.OnBuild, .HostConfig.ContainerIDFile, .HostConfig.IpcMode, .HostConfig.Memory, .Config.Memory]' 1.18)" \
    '[["RUN true"],"/tmp/some.cid","private",8388608,8388608]'
  expect equal "$(inspect '.Config | [has("PortSpecs"), .PortSpecs, has("Memory")]' 1.18)" '[true,null,true]'
  expect equal "$(inspect '.Config | [has("PortSpecs"), has("Memory")]' 1.20)" '[false,false]'
  [ ! -e /tmp/some.cid ] || fail "the engine wrote the client's file"
  moss rm "$box"
  # An image's instructions for builds are not its containers'.
  make '"Image":"made"'
  expect equal "$(answer_of /v1.24/images/made/json -c .Config.OnBuild)" '["RUN true"]'
  expect equal "$(inspect .Config.OnBuild)" null
}

@test "State: created, running, exited, with the process and the times" {
  never='"0001-01-01T00:00:00Z"'
  make '"Cmd":["sh","-c","'"$on_tell"'; until [ $told ]; do sleep 0.05; done; exit 7"]'
  expect equal "$(inspect '.State | [.Status, .Running, .Pid, .ExitCode, .Error]')" '["created",false,0,0,""]'
  for v in 1.18 1.24; do expect equal "$(inspect '.State | [.StartedAt, .FinishedAt]' $v)" "[$never,$never]"; done
  expect equal "$(inspect '.State | [has("Status"), has("Dead")]' 1.20)" '[false,false]'
  expect equal "$(inspect '.State | [has("Status"), has("Dead")]' 1.21)" '[true,false]'
  expect equal "$(inspect '.State | [.Dead, .OOMKilled, .Paused, .Restarting]' 1.22)" '[false,false,false,false]'
  before=$(date +%s%N)
  moss start "$box"
  expect equal "$(inspect '.State | [.Status, .Running, .FinishedAt]')" "[\"running\",true,$never]"
  pid=$(inspect .State.Pid 1.18)
  becomes() { [[ $(tr '\0' ' ' <"/proc/$pid/cmdline") == *"until [ \$told ]"* ]]; }
  eventually 10 becomes # the runtime's own process becomes it
  expect equal "$(readlink "/proc/$pid/ns/pid")" "$(inside readlink /proc/1/ns/pid)"
  expect equal "$(inspect .State.Running 1.18)" true
  started=$(inspect .State.StartedAt | tr -d '"')
  expect --in "$started" matches '^[0-9-]{10}T[0-9:]{8}\.[0-9]{1,9}Z$'
  tell "$box"
  expect equal "$(moss wait "$box")" 7
  now=$(date +%s%N)
  expect equal "$(inspect '.State | [.Status, .Running, .Pid, .ExitCode, .Error, .OOMKilled]')" '["exited",false,0,7,"",false]'
  expect equal "$(inspect .State.StartedAt)" "\"$started\""
  finished=$(inspect .State.FinishedAt 1.18 | tr -d '"')
  times="$before $(date -d "$started" +%s%N) $(date -d "$finished" +%s%N) $now"
  expect equal "$(tr ' ' '\n' <<<"$times" | sort -n | xargs)" "$times"
}

@test "State.Error says why the last start failed, and goes with the next one" {
  taken=$(unique taken)
  moss run -d --name "$taken" -p 127.0.0.1::80 busybox sleep 1000
  port=$(moss inspect "$taken" | jq -r '.[0].NetworkSettings.Ports["80/tcp"][0].HostPort')
  make "$sleeps,\"HostConfig\":{\"PortBindings\":{\"80/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"$port\"}]}}"
  run api POST "/containers/$box/start"
  [ "${lines[-1]}" -ge 400 ]
  expect --in "$(inspect .State.Error 1.18)" contains "$port"
  moss rm -f "$taken"
  moss start "$box"
  expect equal "$(inspect '.State | [.Running, .Error]')" '[true,""]'
}

@test "State.Restarting: no process, and one to come" {
  make '"Cmd":["sh","-c","exit 4"],"HostConfig":{"RestartPolicy":{"Name":"always"}}'
  moss start "$box"
  waiting() { [ "$(inspect '.State | [.Running, .Restarting, .Paused, .Pid, .ExitCode]' 1.18)" = '[true,true,false,0,4]' ]; }
  eventually 20 waiting
  counted() { [ "$(inspect .RestartCount 1.18)" -ge 2 ]; }
  eventually 20 counted
}

@test "State.Dead: what could not be removed whole is dead until it can be" {
  make '"Cmd":["true"]'
  id=$(jq -r .Id <<<"${lines[0]}")
  # The engine cannot remove a folder on which something is mounted.
  engine=(nsenter --preserve-credentials -U -m -t "$(inner_pid)")
  "${engine[@]}" mount -t tmpfs none "$MOSS_DATA/root/containers/$id"
  run api DELETE "/containers/$box"
  "${engine[@]}" umount "$MOSS_DATA/root/containers/$id"
  expect line -1 500
  expect equal "$(inspect '.State | [.Dead, .Running]' 1.22)" '[true,false]'
  expect equal "$(inspect '.State | [.Dead, .Status]')" '[true,"dead"]'
  expect equal "$(entry '[.State, .Status]')" '["dead","Dead"]'
  run api DELETE "/containers/$box"
  expect line -1 204
}

@test "Cmd and Entrypoint: lists and strings, over the image's" {
  run prints '"Image":"made"'
  expect output "image cmd"
  run prints '"Image":"made","Cmd":["mine","too"]'
  expect output "image mine too"
  run prints '"Image":"made","Cmd":"mine"'
  expect output "image mine"
  run prints '"Image":"made","Entrypoint":["echo","own"]' # which resets the image's command
  expect output own
  run prints '"Image":"made","Entrypoint":"pwd"'
  expect output /
  run prints '"Image":"made","Entrypoint":[""],"Cmd":["echo","none"]'
  expect output none
  refused 400 "No command specified" '"Cmd":[]'
  id=$(answer_of /v1.24/images/made/json -r .Id)
  for image in made:latest "$id" "${id:7:12}"; do
    run prints "\"Image\":\"$image\",\"Cmd\":[\"by\",\"$image\"]"
    expect output "image by $image"
  done
}

@test "Env and Labels: the image's, with the client's over them" {
  run prints '"Image":"made","Entrypoint":"env","Env":["B=own","C=own=too"]'
  expect contains A=image B=own C=own=too
  expect lacks B=image
  make '"Image":"made","Labels":{"b":"own","c":""}'
  expect equal "$(inspect .Config.Labels)" '{"a":"image","b":"own","c":""}'
  expect equal "$(entry .Labels)" '{"a":"image","b":"own","c":""}'
}

@test "Tty, OpenStdin: what the process finds on its input" {
  find='"Cmd":["sh","-c","readlink /proc/self/fd/0; [ -t 1 ] && echo terminal; true"]'
  run prints "$find"
  expect output /dev/null
  run prints "$find,\"OpenStdin\":true,\"StdinOnce\":true"
  expect contains pipe:
  for open in true false; do
    # What a command on a terminal says just before it ends may get lost.
    make "${find/true\"/sleep 1000\"},\"Tty\":true,\"OpenStdin\":$open"
    moss start "$box"
    eventually 10 log_has "$box" terminal
    run moss logs "$box"
    expect contains /dev/pts/0
    moss rm -f "$box"
  done
}

@test "AttachStdin, AttachStdout and AttachStderr are kept for clients, and attach takes what it asks for" {
  script='"Cmd":["sh","-c","echo out; echo err >&2; sleep 1000"]'
  for v in 1.18 1.24; do
    make "$script,\"AttachStdin\":true,\"AttachStdout\":false,\"AttachStderr\":true" $v
    expect equal "$(inspect '.Config | [.AttachStdin, .AttachStdout, .AttachStderr]' $v)" '[true,false,true]'
    moss rm "$box"
  done
  make "$script,\"AttachStdout\":false,\"AttachStderr\":true"
  moss start "$box"
  both() { [[ $(moss logs "$box" 2>&1) == *out*err* || $(moss logs "$box" 2>&1) == *err*out* ]]; }
  eventually 10 both
  run curl -s --max-time 180 --unix-socket "$MOSS_SOCK" -X POST "http://moss/v1.24/containers/$box/attach?logs=1&stdout=1" --output "$BATS_TEST_TMPDIR/attached"
  expect equal "$(tail -c +9 "$BATS_TEST_TMPDIR/attached")" out
  # The docker command says by them what it is attached to.
  moss rm -f "$box"
  dock run -a stderr --name "$box" busybox true
  expect equal "$(inspect '.Config | [.AttachStdin, .AttachStdout, .AttachStderr]')" '[false,false,true]'
}

@test "Hostname must be one of RFC 1123, as must Domainname, and is the container's" {
  for bad in -a 'a b' a_b a..b "$(printf 'a%.0s' {1..64})"; do
    refused 400 "invalid hostname format" "\"Hostname\":\"$bad\""
    refused 400 "invalid domainname format" "\"Domainname\":\"$bad\""
  done
  run prints '"Hostname":"front.example","Cmd":["sh","-c","hostname; cat /etc/hostname; echo $HOSTNAME"]'
  expect output $'front.example\nfront.example\nfront.example'
}

@test "Hostname before 1.24 may have other forms, and is the container's" {
  make '"Hostname":"my_front","Cmd":["sh","-c","hostname; cat /etc/hostname; echo $HOSTNAME"]' 1.23
  run moss start -a "$box"
  expect output $'my_front\nmy_front\nmy_front'
  for bad in 'a b' 'a/b' 'a\nb' "$(printf 'a%.0s' {1..65})"; do
    run api POST /v1.18/containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"Hostname\":\"$bad\"}"
    expect line -1 400
    expect contains "invalid hostname format"
  done
}

@test "NetworkDisabled: a loopback and nothing else, shown as given" {
  make "$sleeps,\"NetworkDisabled\":true"
  moss start "$box"
  expect equal "$(inside ls /sys/class/net)" lo
  expect equal "$(inspect '[.Config.NetworkDisabled, .NetworkSettings.IPAddress, .NetworkSettings.Gateway]' 1.18)" '[true,"",""]'
}

@test "MacAddress: the interface has it, and what is no address of one is refused" {
  make "$sleeps,\"MacAddress\":\"02:42:AC:11:be:ee\""
  moss start "$box"
  expect equal "$(inside cat /sys/class/net/eth0/address)" 02:42:ac:11:be:ee
  for v in 1.18 1.24; do expect equal "$(inspect '[.Config.MacAddress, .NetworkSettings.MacAddress]' $v)" '["02:42:ac:11:be:ee","02:42:ac:11:be:ee"]'; done
  refused 400 MacAddress '"MacAddress":"ff:ff:ff:ff:ff:ff"'
  refused 400 MacAddress '"MacAddress":"02:42"'
}

@test "Volumes: each path is a volume of its own, and a relative one is refused" {
  make "$sleeps,\"Volumes\":{\"/one\":{},\"/two\":{}}"
  moss start "$box"
  inside sh -c 'echo one >/one/f'
  expect equal "$(inside ls /two)" ""
  expect equal "$(inside grep -cE ' /(one|two) ' /proc/self/mountinfo)" 2
  moss restart -t 0 "$box"
  expect equal "$(inside cat /one/f)" one
  expect equal "$(inspect '[(.Config.Volumes | keys), (.Mounts | length)]')" '[["/one","/two"],2]'
  refused 400 "relative" '"Volumes":{"relative":{}}'
  moss rm -f -v "$box"
}
