# shellcheck shell=bash
# A scenario of Docker's command line, as a person uses it.

# gives WANT ARG...: docker succeeds with just this output.
gives() {
  local want=$1
  shift
  run --separate-stderr dock "$@"
  [ "$status" = 0 ] || fail "docker $*: exit status $status" "$output" "$stderr"
  [ "$output" = "$want" ] || fail "docker $*: got '$output', want '$want'"
}

# refuses TEXT ARG...: docker fails, and says so.
refuses() {
  local text=$1
  shift
  run dock "$@"
  [ "$status" != 0 ] || fail "docker $* succeeded" "$output"
  expect contains "$text"
}

# docker_scenario VERSION: the one that client and engine shall agree on.
docker_scenario() {
  agreed=$1
  name=$(unique docker)
  dir=$BATS_TEST_TMPDIR
  events=$dir/events
  dock events --since "$(date +%s)" --filter "container=$name" --format '{{.Action}}' >"$events" 3>&- 4>&- &
  listener=$!
  docker_images
  docker_container
  docker_ends
  docker_data
  docker_verbs
  docker_network
  docker_removal
}

docker_images() {
  step "version: client and engine agree on $agreed"
  gives "$agreed" version --format '{{.Client.APIVersion}}'
  step "info"
  gives linux info --format '{{.OSType}}'
  step "build"
  mkdir "$dir/context"
  printf 'FROM busybox\nARG WORD\nCOPY page /www/index.html\nRUN echo "$WORD" >/word\nENV A=b\nLABEL made.by=docker\n' >"$dir/context/Dockerfile"
  echo 'a page' >"$dir/context/page"
  DOCKER_BUILDKIT=0 run dock build -t "$name:one" --build-arg WORD=given "$dir/context"
  expect status 0
  expect contains "Step 1/6 : FROM busybox" "Successfully tagged $name:one"
  step "images, with a filter"
  gives "$name:one" images --filter label=made.by=docker --format '{{.Repository}}:{{.Tag}}' "$name"
  step "inspect an image"
  gives "docker given" inspect --type image --format '{{index .Config.Labels "made.by"}} given' "$name:one"
  step "history"
  run dock history --no-trunc "$name:one"
  expect contains "made.by=docker" "WORD=given"
  step "tag, push, remove and pull"
  dock tag "$name:one" "$REGISTRY/$name:one"
  run dock push "$REGISTRY/$name:one"
  expect status 0
  expect contains "one: digest: sha256:"
  gives "Untagged: $REGISTRY/$name:one
Untagged: $REGISTRY/$name@$(sed -nE 's/^one: digest: (sha256:[0-9a-f]+) .*/\1/p' <<<"$output")" rmi "$REGISTRY/$name:one"
  run dock pull "$REGISTRY/$name:one"
  expect status 0
  expect contains "Status: Downloaded newer image for $REGISTRY/$name:one"
  step "save and load"
  dock save -o "$dir/saved.tar" "$REGISTRY/$name:one"
  dock rmi "$REGISTRY/$name:one" >/dev/null
  gives "Loaded image: $REGISTRY/$name:one" load -i "$dir/saved.tar"
  dock rmi "$REGISTRY/$name:one" >/dev/null
  step "import"
  tar -C "$dir/context" -cf "$dir/root.tar" page
  dock import -c 'CMD ["x"]' "$dir/root.tar" "$name:imported" >/dev/null
  gives '[x]' inspect --type image --format '{{.Config.Cmd}}' "$name:imported"
  dock rmi "$name:imported" >/dev/null
  refuses "No such image" inspect --type image "$name:imported"
}

docker_container() {
  step "network create"
  dock network create --label "scenario=$name" "$name" >/dev/null
  gives "$name bridge" network ls --filter "label=scenario=$name" --format '{{.Name}} {{.Driver}}'
  step "volume create"
  gives "$name" volume create --label "scenario=$name" "$name"
  gives "$name" volume ls --filter "label=scenario=$name" --format '{{.Name}}'
  step "run in the background, with a port, a volume, a network and an alias"
  id=$(dock run -d --name "$name" --hostname web --label "scenario=$name" --env E=f --network "$name" --network-alias web -p 127.0.0.1::8080 -v "$name:/data" \
    "$name:one" sh -c 'echo up; echo err >&2; echo kept >/data/kept; httpd -p 8080 -h /www; sleep 1000')
  expect equal ${#id} 64
  step "ps, with filters"
  gives "$name $name:one" ps --no-trunc --filter "label=scenario=$name" --filter status=running --format '{{.Names}} {{.Image}}'
  step "inspect a container"
  gives "running web /data" inspect --format '{{.State.Status}} {{.Config.Hostname}} {{(index .Mounts 0).Destination}}' "$name"
  step "port, and the page behind it"
  address=$(dock port "$name" 8080/tcp)
  eventually 10 curl -sS --fail --max-time 5 -o "$dir/page" "http://$address/"
  expect equal "$(<"$dir/page")" "a page"
  step "run and remove: another container reaches the first by its alias"
  gives "a page" run --rm --network "$name" busybox wget -q -O - http://web:8080/
  step "run with input, and the code of the command"
  run dock run -i --rm --network none busybox sh -c 'cat; exit 7' <<<words
  expect status 7
  expect output words
  step "logs"
  run --separate-stderr dock logs --tail 5 "$name"
  expect equal "$output $stderr" "up err"
}

docker_ends() {
  local round
  step "attach to the end, then inspect: the exit code is there"
  for round in 1 2 3; do # an engine that tells too late does so now and then
    dock create --name "$name-told$round" --network none busybox sh -c 'echo out; exit 7' >/dev/null
    run dock start -a "$name-told$round"
    expect status 7
    expect output out
    gives "false 7" inspect --format '{{.State.Running}} {{.State.ExitCode}}' "$name-told$round"
    dock rm "$name-told$round" >/dev/null
  done
  step "attach to one that runs: input, output, and the code"
  dock run -d -i --name "$name-runs" --network none busybox sh -c 'read -r word; echo "got $word"; exit 5' >/dev/null
  run dock attach "$name-runs" <<<words
  expect status 5
  expect output "got words"
  dock rm "$name-runs" >/dev/null
  step "kill during an exec: it ends, and its code is not 0"
  dock run -d --name "$name-killed" --network none busybox sleep 1000 >/dev/null
  dock exec "$name-killed" sh -c 'echo here; sleep 1000' >"$dir/exec" 2>&1 3>&- 4>&- &
  client=$!
  eventually 10 file_has "$dir/exec" here
  dock kill "$name-killed" >/dev/null
  code=0
  wait "$client" || code=$?
  [ $code != 0 ] || fail "docker exec in a killed container: exit status 0"
  dock rm "$name-killed" >/dev/null
}

docker_data() {
  step "exec: variables of the container, and the code"
  run dock exec "$name" sh -c 'echo "$E"; exit 3'
  expect status 3
  expect output f
  step "exec: another user, input"
  expect equal "$(dock exec -i -u 0 "$name" cat <<<given)" given
  step "cp into the container"
  dock cp "$dir/page" "$name:/tmp/copied" 2>/dev/null
  gives "a page" exec "$name" cat /tmp/copied
  step "cp out of the container, as a file and as an archive"
  dock cp "$name:/data/kept" "$dir/kept" 2>/dev/null
  expect equal "$(<"$dir/kept")" kept
  expect equal "$(dock cp "$name:/data/kept" - | tar -xO)" kept
  step "diff"
  run dock diff "$name"
  expect contains "A /tmp/copied"
  step "export"
  expect equal "$(dock export "$name" | tar -xO word)" given
  step "top"
  run dock top "$name"
  expect contains PID httpd
  step "stats"
  gives "$name" stats --no-stream --format '{{.Name}}' "$name"
}

docker_verbs() {
  step "pause and unpause"
  dock pause "$name" >/dev/null
  gives paused inspect --format '{{.State.Status}}' "$name"
  refuses "is paused" exec "$name" true
  dock unpause "$name" >/dev/null
  step "update"
  dock update --cpu-shares 200 "$name" >/dev/null 2>&1
  gives 200 inspect --format '{{.HostConfig.CpuShares}}' "$name"
  step "restart"
  before=$(dock inspect --format '{{.State.StartedAt}}' "$name")
  gives "$name" restart -t 0 "$name"
  [[ $(dock inspect --format '{{.State.StartedAt}}' "$name") > $before ]] || fail "it has not started again"
  step "commit"
  dock commit -m words -c 'CMD ["cat", "/tmp/copied"]' "$name" "$name:two" >/dev/null
  gives "a page" run --rm --network none "$name:two"
  dock rmi "$name:two" >/dev/null
}

docker_network() {
  step "network disconnect and connect"
  dock network disconnect "$name" "$name"
  gives 0 network inspect --format '{{len .Containers}}' "$name"
  dock network connect --alias other "$name" "$name"
  gives "a page" run --rm --network "$name" busybox wget -q -O - http://other:8080/
}

docker_removal() {
  step "kill, and wait"
  gives "$name" kill -s KILL "$name"
  gives 137 wait "$name"
  step "a volume and a name in use stay"
  refuses "in use" volume rm "$name"
  refuses "already in use" create --name "$name" busybox true
  step "rm"
  gives "$name" rm -v "$name"
  refuses "No such container" start "$name"
  step "network rm, volume rm, rmi"
  gives "$name" network rm "$name"
  gives "$name" volume rm "$name"
  run dock rmi "$name:one"
  expect status 0
  expect contains "Untagged: $name:one" "Deleted: sha256:"
  step "the events that a listener got since the start, in order"
  eventually 10 file_has "$events" destroy
  kill "$listener"
  wait "$listener" 2>/dev/null || true
  wanted="create start pause unpause update kill die stop start restart pause unpause commit kill die destroy"
  expect equal "$(grep -vE '^(exec_|attach|archive|extract|export|top|copy|resize)' "$events" | xargs)" "$wanted"
}
