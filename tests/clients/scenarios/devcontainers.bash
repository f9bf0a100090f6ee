# shellcheck shell=bash
# A scenario of the dev containers CLI, which drives the engine by docker's command line: a container from an image, one from
# a Dockerfile, and one with a feature.

# devcontainer VERB ARG...: its messages go to $dir/log, its result, in JSON, is the output.
devcontainer() {
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$dir DOCKER_BUILDKIT=0 HOME=$dir timeout --foreground -k 2 120 \
    node "$moss_top/.cache/clients/node_modules/@devcontainers/cli/devcontainer.js" "$@" 2>"$dir/log"
}

# in_project VERB ARG...: the command succeeds in the project $project.
in_project() {
  local verb=$1
  shift
  run devcontainer "$verb" --workspace-folder "$project" "$@"
  [ "$status" = 0 ] || fail "devcontainer $verb: exit status $status" "$output" "$(tail -n 20 "$dir/log")"
}

# result FIELD: what the last command tells of it.
result() { jq -r ".$1" <<<"${lines[-1]}"; }

# project NAME: begins a project whose devcontainer.json is the input.
project() {
  project=$dir/$1 files=$dir/$1/.devcontainer
  mkdir -p "$files"
  cat >"$files/devcontainer.json"
}

# found: the containers of the project.
found() { dock ps -aq --no-trunc --filter "label=devcontainer.local_folder=$project"; }

devcontainers_scenario() {
  dir=$BATS_TEST_TMPDIR/dev
  name=dev$RANDOM
  mkdir -p "$dir"
  devcontainers_image
  devcontainers_again
  devcontainers_file
  devcontainers_feature
}

devcontainers_image() {
  project image <<JSON
{
  "image": "busybox",
  "workspaceMount": "source=\${localWorkspaceFolder},target=/work,type=bind", "workspaceFolder": "/work",
  "mounts": ["type=volume,source=$name,target=/data"],
  "containerEnv": {"PLACE": "inside"}, "remoteEnv": {"SAID": "\${containerEnv:PLACE}, remote"},
  "init": true, "capAdd": ["SYS_PTRACE"], "runArgs": ["--label", "scenario=$name", "--publish", "127.0.0.1::8080"],
  "initializeCommand": "echo host >initialized",
  "onCreateCommand": "echo created >>/data/told", "postCreateCommand": ["sh", "-c", "echo after >>/data/told"],
  "postStartCommand": "echo started >>/data/told", "postAttachCommand": {"one": "touch /data/one", "two": "touch /data/two"}
}
JSON
  echo "of the host" >"$project/page"
  step "the configuration is read"
  in_project read-configuration
  expect equal "$(result configuration.image)" busybox
  step "up: a container from an image"
  in_project up
  expect equal "$(result outcome) $(result remoteUser) $(result remoteWorkspaceFolder)" "success root /work"
  id=$(result containerId)
  expect equal "$(found)" "$id"
  step "a command ran here before that"
  expect equal "$(<"$project/initialized")" host
  step "its settings are those of the file"
  expect equal "$(dock inspect --format '{{.HostConfig.Init}} {{.HostConfig.CapAdd}} {{.Config.Labels.scenario}}' "$id")" "true [CAP_SYS_PTRACE] $name"
  expect equal "$(dock inspect --format '{{range .Mounts}}{{.Type}} {{.Destination}} {{end}}' "$id" | xargs -n 2 | sort | xargs)" "bind /work volume /data"
  step "its commands ran in their order"
  in_project exec cat /data/told
  expect output $'created\nafter\nstarted'
  step "those of the attachment ran beside each other"
  in_project exec ls /data/one /data/two
  step "exec: the folder of the host is there"
  in_project exec cat page
  expect output "of the host"
  step "exec: variables of the container and of commands"
  in_project exec sh -c 'echo "$PLACE; $SAID"'
  expect output "inside; inside, remote"
  step "exec: a variable of its own"
  in_project exec --remote-env MORE=less sh -c 'echo "$MORE"'
  expect output less
  step "exec: the code of the command"
  run devcontainer exec --workspace-folder "$project" sh -c 'exit 3'
  expect status 3
  step "exec: what is not there"
  run -127 devcontainer exec --workspace-folder "$project" not-there
  step "exec: input"
  expect equal "$(echo given | devcontainer exec --workspace-folder "$project" cat)" given
  step "a file that is made inside is the user's"
  in_project exec touch made
  expect equal "$(stat -c %u "$project/made")" "$(id -u)"
  step "a published port"
  in_project exec sh -c 'mkdir -p /www; echo "a page" >/www/index.html; httpd -p 8080 -h /www'
  eventually 10 curl -sS --fail --max-time 5 -o "$dir/page" "http://$(dock port "$id" 8080 | head -n 1)/"
  expect equal "$(<"$dir/page")" "a page"
}

devcontainers_again() {
  step "up again finds the container"
  in_project up
  expect equal "$(result containerId)" "$id"
  step "a stopped one is started, with the command of starts alone"
  dock stop -t 0 "$id" >/dev/null
  in_project up
  expect equal "$(result containerId)" "$id"
  in_project exec cat /data/told
  expect output $'created\nafter\nstarted\nstarted'
  step "commands are run by a verb of its own"
  in_project run-user-commands
  expect equal "$(result outcome)" success
  step "a container that has to be there"
  in_project up --expect-existing-container
  step "one that is made anew keeps the volume"
  in_project up --remove-existing-container
  [ "$(result containerId)" != "$id" ] || fail "the container is the one before"
  expect equal "$(found)" "$(result containerId)"
  in_project exec sh -c 'wc -l </data/told'
  expect output 7
  step "a container that another client made is set up"
  dock run -d --name "$name" busybox sleep 1000 >/dev/null
  run devcontainer set-up --container-id "$name"
  expect equal "$(result outcome)" success
  run devcontainer exec --container-id "$name" echo there
  expect output there
  step "what has no configuration is refused"
  mkdir -p "$dir/empty"
  run devcontainer up --workspace-folder "$dir/empty"
  expect status 1
}

devcontainers_file() {
  project file <<'JSON'
{
  "build": {"dockerfile": "Dockerfile", "context": "..", "args": {"WORD": "built"}, "target": "second"},
  "overrideCommand": false, "updateRemoteUserUID": false, "remoteUser": "root"
}
JSON
  cat >"$files/Dockerfile" <<'TEXT'
FROM busybox AS first
ARG WORD=none
RUN echo "$WORD" >/word
FROM first AS second
COPY note /note
HEALTHCHECK --interval=1s CMD test -e /note
CMD ["sh", "-c", "echo ready; sleep 1000"]
FROM second
RUN exit 1
TEXT
  echo noted >"$project/note"
  step "up: a container from a Dockerfile, by its target"
  in_project up
  expect equal "$(result outcome)" success
  id=$(result containerId)
  step "the argument and the file of the context are in it"
  in_project exec cat /word /note
  expect output $'built\nnoted'
  step "its own command runs"
  ready() { [ "$(dock logs "$id")" = $'Container started\nready' ]; }
  eventually 10 ready # the first is the entrypoint's, by which the client knows
  step "build: an image with a name"
  in_project build --image-name "$name:image"
  expect equal "$(dock run --rm "$name:image" cat /word)" built
  step "a build that fails tells why"
  echo 'RUN echo "this fails"; exit 7' >>"$files/Dockerfile"
  sed -i 's/"second"/"third"/' "$files/devcontainer.json"
  sed -i 's/^FROM second$/FROM second AS third/' "$files/Dockerfile"
  run devcontainer build --workspace-folder "$project"
  expect status 1
  expect --in "$(<"$dir/log")" contains "returned a non-zero code: 1"
}

devcontainers_feature() {
  project feature <<'JSON'
{"image": "busybox", "features": {"./greeter": {"word": "moin"}}}
JSON
  mkdir "$files/greeter"
  cat >"$files/greeter/devcontainer-feature.json" <<'JSON'
{
  "id": "greeter", "version": "1.0.0", "name": "A greeting", "options": {"word": {"type": "string", "default": "hello"}},
  "containerEnv": {"GREETER": "there"}, "mounts": [{"source": "greeter-${devcontainerId}", "target": "/greetings", "type": "volume"}],
  "entrypoint": "/usr/local/bin/first", "init": true
}
JSON
  cat >"$files/greeter/install.sh" <<'TEXT'
#!/bin/sh
set -e
mkdir -p /usr/local/bin
printf '#!/bin/sh\necho "%s, $1"\n' "$WORD" >/usr/local/bin/greet
printf '#!/bin/sh\ntouch /greetings/first\nexec "$@"\n' >/usr/local/bin/first
chmod 755 /usr/local/bin/*
TEXT
  step "up: a container with a feature"
  in_project up
  expect equal "$(result outcome)" success
  id=$(result containerId)
  step "what the feature has installed, with its option"
  in_project exec greet you
  expect output "moin, you"
  step "its variable, its mount and its entrypoint"
  in_project exec sh -c 'echo "$GREETER"; ls /greetings'
  expect output $'there\nfirst'
  expect equal "$(dock inspect --format '{{.HostConfig.Init}}' "$id")" true
  step "all go"
  for project in image file feature; do
    project=$dir/$project
    for id in $(found); do dock rm -f -v "$id" >/dev/null; done
    expect equal "$(found)" ""
  done
}
