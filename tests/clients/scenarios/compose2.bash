# shellcheck shell=bash
# A scenario of docker-compose 2 and 5, which agree on 1.51 with the engine by themselves: the services of a project, from
# their build to their end. COMPOSE_CLI names the program, COMPOSE_SOCK another socket than the engine's.

compose() {
  DOCKER_HOST=unix://${COMPOSE_SOCK:-$MOSS_SOCK} DOCKER_CONFIG=$dir DOCKER_BUILDKIT=0 HOME=$dir GREETING=hello timeout --foreground -k 2 120 \
    "$COMPOSE_CLI" --ansi never --progress plain -p "$project" -f "$dir/compose.yaml" "$@"
}

# does ARG...: compose succeeds.
does() {
  run compose "$@"
  [ "$status" = 0 ] || fail "docker-compose $*: exit status $status" "$output"
}

# states SERVICE: the states of a service's containers, in one line.
states() {
  dock ps -a --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$1" -q |
    while read -r id; do dock inspect --format '{{.State.Status}}' "$id"; done | sort | xargs
}

compose2_scenario() {
  project=compose2x$RANDOM dir=$BATS_TEST_TMPDIR/project
  compose2_files
  compose2_up
  compose2_use
  compose2_verbs
  compose2_down
}

compose2_files() {
  mkdir -p "$dir/web"
  cat >"$dir/compose.yaml" <<'YAML'
services:
  store:
    image: busybox
    command: sh -c 'echo kept >/data/kept; echo "store $$GREETING"; sleep 1000'
    environment: {GREETING: "${GREETING}"}
    networks: {back: {aliases: [cellar]}}
    volumes: ["data:/data"]
    healthcheck: {test: [CMD, test, -s, /data/kept], interval: 1s, timeout: 60s}
    stop_signal: SIGKILL
  web:
    build: {context: web, args: {WORD: composed}}
    command: sh -c 'httpd -p 8080 -h /www; echo ready; sleep 1000'
    depends_on: {store: {condition: service_healthy}}
    networks: [back, front]
    ports: ["127.0.0.1::8080"]
    volumes: ["data:/data:ro", /anonymous]
    labels: {scenario: composed}
    stop_signal: SIGKILL
  tool:
    image: busybox
    profiles: [tools]
    init: true
    command: sleep 1000
    depends_on: {store: {condition: service_started}}
    networks: [back]
    stop_signal: SIGKILL
networks: {back: {internal: true}, front: {}}
volumes: {data: {}}
YAML
  printf 'FROM busybox\nARG WORD\nCOPY page /www/index.html\nRUN echo "$WORD" >/word\n' >"$dir/web/Dockerfile"
  echo 'a page' >"$dir/web/page"
}

compose2_up() {
  step "config: the file is one, with its variables"
  does config
  expect contains "GREETING: hello" "context: $dir/web"
  step "config: the services"
  does config --services
  expect equal "$(sort <<<"$output" | xargs)" "store web"
  step "build"
  does build
  expect contains "FROM busybox" "Successfully tagged $project-web:latest"
  step "create without a start"
  does up --no-start
  expect equal "$(states store) $(states web)" "created created"
  step "up: networks, volume and containers, once what they depend on is healthy"
  does up -d
  expect equal "$(states store) $(states web)" "running running"
  expect equal "$(dock network ls --filter "name=${project}_" --format '{{.Name}}' | sort | xargs)" "${project}_back ${project}_front"
  expect equal "$(dock volume ls -q --filter "name=${project}_")" "${project}_data"
  step "up again changes nothing"
  before=$(compose ps -q)
  does up -d
  expect equal "$(compose ps -q)" "$before"
  step "ps"
  does ps --format '{{.Service}} {{.State}} {{.Health}}'
  expect contains "store running healthy" "web running"
}

compose2_use() {
  step "port, and the page behind it"
  does port web 8080
  eventually 10 curl -sS --fail --max-time 5 -o "$dir/page" "http://$output/"
  expect equal "$(<"$dir/page")" "a page"
  step "logs of a service"
  does logs --no-color store
  expect contains "store-1" "store hello"
  step "logs of all, their last lines"
  last_lines() { output=$(compose logs --no-color --tail=1) && [[ $output == *ready* && $output == *"store hello"* ]]; }
  eventually 10 last_lines
  step "exec: a service finds the other by its name and its alias"
  does exec -T web sh -c 'cat /word; nslookup cellar >/dev/null && nslookup store >/dev/null && echo found'
  expect contains composed found
  step "exec: the volume is shared, and read-only there"
  does exec -T web sh -c 'cat /data/kept; touch /data/x 2>/dev/null || echo read-only'
  expect contains kept read-only
  step "exec: a variable and a working folder"
  does exec -T -e WORD=given -w /data store sh -c 'echo "$WORD"; pwd'
  expect output $'given\n/data'
  step "exec: the code of the command"
  run compose exec -T store sh -c 'exit 3'
  expect status 3
  step "kill during an exec: it ends, and its code is not 0"
  compose exec -T store sh -c 'echo here; sleep 1000' >"$dir/exec" 2>&1 3>&- 4>&- &
  client=$!
  eventually 10 file_has "$dir/exec" here
  does kill -s KILL store
  code=0
  wait "$client" || code=$?
  [ $code != 0 ] || fail "docker-compose exec in a killed container: exit status 0"
  does start store
  step "top"
  does top
  expect contains "httpd -p 8080"
  step "images"
  does images
  expect contains "$project-web" busybox
  step "run a command in a service of its own, which goes with its end"
  does run --rm --no-deps -T --name "$project-more" -e MORE=less store sh -c 'echo "$GREETING $MORE"'
  expect contains "hello less"
  eventually 10 is_gone "$project-more"
  step "run to the end, then inspect: the exit code is there"
  run compose run --no-deps -T --name "$project-told" store sh -c 'echo out; exit 7'
  expect status 7
  expect equal "$(dock inspect --format '{{.State.Running}} {{.State.ExitCode}}' "$project-told")" "false 7"
  MOSS_SOCK=${COMPOSE_SOCK:-$MOSS_SOCK} dock rm "$project-told" >/dev/null # a recording needs it too
  step "cp"
  does cp "$dir/web/page" store:/tmp/page
  does exec -T store cat /tmp/page
  expect output "a page"
  step "scale up and down"
  does up -d --no-recreate --scale store=3
  expect equal "$(states store)" "running running running"
  does up -d --no-recreate --scale store=1
  expect equal "$(states store)" running
}

compose2_verbs() {
  step "pause"
  does pause web
  expect equal "$(states web)" paused
  step "unpause"
  does unpause web
  expect equal "$(states web)" running
  step "restart"
  before=$(dock inspect --format '{{.State.StartedAt}}' "$project-web-1")
  does restart -t 0 web
  [[ $(dock inspect --format '{{.State.StartedAt}}' "$project-web-1") > $before ]] || fail "web has not started again"
  step "a change of the file makes the container anew with its anonymous volume, and keeps the others"
  does exec -T web sh -c 'echo kept >/anonymous/kept'
  before=$(compose ps -q store)
  sed -i 's/scenario: composed/scenario: changed/' "$dir/compose.yaml"
  does up -d
  expect equal "$(dock inspect --format '{{.Config.Labels.scenario}}' "$project-web-1")" changed
  expect equal "$(compose ps -q store)" "$before"
  does exec -T web cat /anonymous/kept
  expect output kept
  step "kill"
  does kill -s KILL web
  expect equal "$(dock inspect --format '{{.State.ExitCode}}' "$project-web-1")" 137
  step "start"
  does start web
  expect equal "$(states web)" running
  step "stop"
  does stop -t 0
  expect equal "$(states web) $(states store)" "exited exited"
}

compose2_down() {
  step "a service of a profile is there when it is asked for"
  expect equal "$(states tool)" ""
  does --profile tools up -d --wait
  expect equal "$(states tool) $(states web)" "running running"
  does --profile tools exec -T tool sh -c 'tr "\0" " " </proc/1/cmdline'
  expect contains "sleep 1000"
  expect equal "$(dock inspect --format '{{.HostConfig.Init}}' "$project-tool-1")" true
  does --profile tools rm -f -s tool
  expect equal "$(states tool)" ""
  does stop -t 0
  step "rm"
  does rm -f web
  expect equal "$(states web)" ""
  step "down, with volumes and the image that was built"
  does down -v --rmi local
  expect equal "$(states store)" ""
  expect equal "$(dock network ls -q --filter "name=${project}_") $(dock volume ls -q --filter "name=${project}_")" " "
  run dock inspect --type image "$project-web"
  expect contains "No such image"
}
