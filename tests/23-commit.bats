#!/usr/bin/env bats
# bats file_tags=nosub
# Commit: an image of what a container has changed, with its configuration, and containers made from it.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# commit QUERY [BODY]: the answer, its status last.
commit() { api POST "/commit?$1" "${@:2}"; }
image() { api GET "/v1.24/images/$1/json" | head -n 1; }
drop() { api DELETE "/images/$1?force=1" >/dev/null; }

@test "an image of a container holds its files, and containers of the image have them" {
  name=$(unique src)
  moss run --name "$name" busybox sh -c 'echo written >/etc/new; rm /var/www/index.html; mkdir /data; echo deep >/data/file; chmod 600 /data/file'
  run commit "container=$name&repo=$name&tag=one&comment=for+a+test&author=me"
  expect line -1 201
  id=$(jq -r .Id <<<"${lines[0]}")
  expect --in "$id" matches '^sha256:[0-9a-f]{64}$'
  run moss run --rm "$name:one" sh -c 'cat /etc/new /data/file; ls /var/www; stat -c %a /data/file'
  expect status 0
  expect output $'written\ndeep\n600'
  expect equal "$(image "$name:one" | jq -c '[.Id,.Comment,.Author,.Container,.RepoTags]')" \
    "[\"$id\",\"for a test\",\"me\",\"$(moss inspect "$name" | jq -r '.[0].Id')\",[\"$name:one\"]]"
  expect equal "$(image "$name:one" | jq -r .Parent)" "$(image busybox | jq -r .Id)"
  expect equal "$(image "$name:one" | jq '.RootFS.Layers | length')" 2
  moss rm "$name"
  drop "$name:one"
}

@test "the image has the container's configuration, the body's over it, and the changes last" {
  name=$(unique conf)
  moss create --name "$name" -e A=1 -e B=2 -w /tmp -u 33 --label kept=yes busybox sh -c 'echo default'
  run commit "container=$name&repo=$name" '{"Env":["B=3","C=4"],"Labels":{"added":"1"},"User":"www"}'
  expect line -1 201
  expect equal "$(image "$name" | jq -c '.Config | [.User,.WorkingDir,.Cmd,.Labels.kept,.Labels.added]')" '["www","/tmp",["sh","-c","echo default"],"yes","1"]'
  expect equal "$(image "$name" | jq -c '.Config.Env | map(select(test("^[A-D]=")))')" '["B=3","C=4","A=1"]'
  drop "$name"
  run commit "container=$name&repo=$name&changes=CMD+%5B%22echo%22%2C%22changed%22%5D%0AENV+D%3D5&changes=ENV+B%3D6&changes=LABEL+x%3Dy&changes=EXPOSE+8080"
  expect line -1 201
  expect equal "$(image "$name" | jq -c '.Config | [.Cmd,.Labels.x,.ExposedPorts]')" '[["echo","changed"],"y",{"8080/tcp":{}}]'
  expect equal "$(image "$name" | jq -c '.Config.Env | map(select(test("^[A-D]=")))')" '["D=5","B=6","A=1"]'
  run moss run --rm -u 0 "$name"
  expect output changed
  moss rm "$name"
  drop "$name"
}

@test "no file of the runtime's own gets into the image" {
  name=$(unique clean)
  moss run --name "$name" -v "$BATS_TEST_TMPDIR:/mnt/point" --tmpfs /run/tmp busybox true
  run commit "container=$name&repo=$name"
  expect line -1 201
  run moss run --rm --network none "$name" sh -c 'ls -d /mnt /run /run/tmp 2>&1; ls /dev | grep -c . >/dev/null; grep -c "$(hostname)" /etc/hosts'
  expect contains '/mnt: No such file' '/run: No such file'
  moss rm "$name"
  drop "$name"
}

@test "a mount point behind a link of the image's is no file of a container at rest" {
  name=$(unique link)
  moss run --name "$name" busybox sh -c 'mkdir /real; ln -s /real /link'
  run commit "container=$name&repo=$name"
  expect line -1 201
  moss rm "$name"
  moss run --name "$name" --tmpfs /link/made "$name" true
  run commit "container=$name&repo=$name&tag=again"
  expect line -1 201
  run moss run --rm "$name:again" ls /real
  expect output ""
  moss rm "$name"
  drop "$name:again"
  drop "$name"
}

@test "a running container stands still meanwhile and goes on; pause=0 leaves it alone" {
  # Its file changes and never becomes shorter: without a pause an archive of it would have an end before its time.
  name=$(unique still)
  since=$(date +%s)
  moss run -d --name "$name" busybox sh -c 'i=0; while :; do i=$((i+1)); printf %09d $i 1<>/count; echo tick $i; sleep 0.02; done'
  eventually 10 log_has "$name" "tick 3"
  run commit "container=$name&repo=$name&pause=0"
  expect line -1 201
  run moss events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name"
  expect contains commit
  expect lacks pause
  run commit "container=$name&repo=$name"
  expect line -1 201
  is_running "$name"
  before=$(moss logs "$name" | wc -l)
  more() { [ "$(moss logs "$name" | wc -l)" -gt "$before" ]; }
  eventually 10 more
  run moss events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name"
  expect contains pause unpause commit
  api POST "/containers/$name/pause"
  run commit "container=$name"
  expect line -1 201
  drop "$(jq -r .Id <<<"${lines[0]}")"
  expect equal "$(state "$name")" paused
  moss rm -f "$name"
  drop "$name"
}

@test "mistakes are refused before anything is made" {
  name=$(unique bad)
  moss run -d --name "$name" busybox sleep 1000
  images=$(answer_of '/images/json?all=1' length)
  run commit "container=no-such-container&repo=x"
  expect line -1 404
  expect contains no-such-container
  for query in repo=UPPER repo=a\&tag=-x repo=a/../b "tag=only" "repo=busybox@sha256:$(printf '0%.0s' {1..64})" \
    'changes=FROM+x' 'changes=NONSENSE' 'changes=USER' 'changes=EXPOSE+none' 'changes=STOPSIGNAL+NOPE'; do
    run commit "container=$name&$query"
    expect line -1 400
  done
  run commit "container=$name" '{"Env":5}'
  expect line -1 400
  expect contains Env
  run commit "container=$name" '{'
  expect line -1 400
  for body in '{"StopSignal":"NOPE"}' '{"ExposedPorts":{"x":{}}}' '{"Healthcheck":{"Test":["NOPE"]}}' '{"Volumes":{"rel":{}}}'; do
    run commit "container=$name" "$body"
    expect line -1 400
    expect contains "$(jq -r 'keys[0]' <<<"$body")"
  done
  expect equal "$(answer_of '/images/json?all=1' length)" "$images"
  is_running "$name"
  moss rm -f "$name"
}

@test "an image without a name is there by its id" {
  name=$(unique anon)
  moss run --name "$name" busybox sh -c 'echo x >/x'
  run commit "container=$name" null
  expect line -1 201
  id=$(jq -r .Id <<<"${lines[0]}")
  run moss run --rm "$id" cat /x
  expect output x
  moss rm "$name"
  drop "$id"
}

@test "docker commit, and docker runs the result" {
  name=$(unique docker)
  dock run --name "$name" busybox sh -c 'echo by docker >/file'
  run dock commit -m message -a author -c 'ENV Q=1' -c 'CMD ["cat","/file"]' "$name" "$name:v1"
  expect status 0
  expect matches '^sha256:'
  run dock run --rm "$name:v1"
  expect output 'by docker'
  run dock run --rm "$name:v1" sh -c 'echo $Q'
  expect output 1
  dock rm "$name"
  drop "$name:v1"
}

@test "an image of an image of a container" {
  name=$(unique chain)
  moss run --name "$name" busybox sh -c 'echo 1 >/one'
  commit "container=$name&repo=$name&tag=1" >/dev/null
  moss rm "$name"
  moss run --name "$name" "$name:1" sh -c 'echo 2 >/two; rm /one'
  run commit "container=$name&repo=$name&tag=2"
  expect line -1 201
  run moss run --rm "$name:2" sh -c 'cat /two; ls /one'
  expect contains 2 'No such file'
  run api GET "/v1.24/containers/json?all=1&filters=%7B%22ancestor%22%3A%5B%22busybox%22%5D%7D"
  expect contains "$name"
  moss rm "$name"
  drop "$name:2"
  drop "$name:1"
}
