# shellcheck shell=bash
# A scenario of docker-compose 1.29 at one version of the API: two services of a project, from their build to their end.

compose() {
  DOCKER_HOST=unix://$MOSS_SOCK COMPOSE_API_VERSION=$api DOCKER_CONFIG=$dir GREETING=hello timeout --foreground -k 2 60 \
    docker-compose --ansi never -p "$project" -f "$dir/docker-compose.yml" "$@"
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

# compose_scenario VERSION: the version of the API.
compose_scenario() {
  api=$1 project=compose${1#1.}x$RANDOM dir=$BATS_TEST_TMPDIR/project
  compose_files
  compose_up
  compose_use
  compose_verbs
  compose_down
}

compose_files() {
  mkdir -p "$dir/web"
  cat >"$dir/docker-compose.yml" <<'YAML'
version: "2.1"
services:
  store:
    image: busybox
    command: sh -c 'echo kept >/data/kept; echo "store $$GREETING"; sleep 1000'
    environment: {GREETING: "${GREETING}"}
    networks: {back: {aliases: [cellar]}}
    volumes: ["data:/data"]
    stop_grace_period: 0s
  web:
    build: {context: web, args: {WORD: composed}}
    command: sh -c 'httpd -p 8080 -h /www; echo ready; sleep 1000'
    depends_on: [store]
    networks: [back, front]
    ports: ["127.0.0.1::8080"]
    volumes: ["data:/data:ro"]
    labels: {scenario: composed}
    stop_grace_period: 0s
networks: {back: {internal: true}, front: {}}
volumes: {data: {}}
YAML
  printf 'FROM busybox\nARG WORD\nCOPY page /www/index.html\nRUN echo "$WORD" >/word\n' >"$dir/web/Dockerfile"
  echo 'a page' >"$dir/web/page"
}

compose_up() {
  step "config: the file is one, with its variables"
  does config
  expect contains "GREETING: hello" "context: $dir/web"
  step "config: the services"
  does config --services
  expect equal "$(sort <<<"$output" | xargs)" "store web"
  step "build"
  does build
  expect contains "Step 1/4 : FROM busybox" "Successfully tagged ${project}_web:latest"
  step "create without a start"
  does up --no-start
  expect equal "$(states store) $(states web)" "created created"
  step "up: networks, volume and containers, in the order of what depends on what"
  does up -d
  expect equal "$(states store) $(states web)" "running running"
  expect equal "$(dock network ls --filter "name=${project}_" --format '{{.Name}}' | sort | xargs)" "${project}_back ${project}_front"
  expect equal "$(dock volume ls -q --filter "name=${project}_")" "${project}_data"
  step "up again changes nothing"
  does up -d
  expect contains "store_1 is up-to-date" "web_1 is up-to-date"
  step "ps"
  does ps
  expect matches "${project}_store_1 .* Up"
  expect matches "${project}_web_1 .* Up .*->8080/tcp"
  step "ps: the services that are built"
  does ps --services --filter source=build
  expect output web
}

compose_use() {
  step "port, and the page behind it"
  does port web 8080
  eventually 10 curl -sS --fail --max-time 5 -o "$dir/page" "http://$output/"
  expect equal "$(<"$dir/page")" "a page"
  step "logs of a service"
  does logs --no-color store
  expect contains "store_1" "store hello"
  step "logs of all, their last lines"
  last_lines() { output=$(compose logs --no-color --tail=1) && [[ $output == *ready* && $output == *"store hello"* ]]; }
  eventually 10 last_lines
  step "exec: a service finds the other by its name and its alias"
  does exec -T web sh -c 'cat /word; nslookup cellar >/dev/null && nslookup store >/dev/null && echo found'
  expect contains composed found
  step "exec: the volume is shared, and read-only there"
  does exec -T web sh -c 'cat /data/kept; touch /data/x 2>/dev/null || echo read-only'
  expect contains kept read-only
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
  expect contains "${project}_web_1" "httpd -p 8080"
  step "images"
  does images
  expect contains "${project}_web" busybox
  step "run a command in a service of its own"
  does run --rm --no-deps -T -e MORE=less store sh -c 'echo "$GREETING $MORE"'
  expect contains "hello less"
  step "run to the end, then inspect: the exit code is there"
  run compose run --no-deps -T --name "$project-told" store sh -c 'echo out; exit 7'
  expect status 7
  expect equal "$(dock inspect --format '{{.State.Running}} {{.State.ExitCode}}' "$project-told")" "false 7"
  dock rm "$project-told" >/dev/null
  step "scale up and down"
  does up -d --no-recreate --scale store=3
  expect equal "$(states store)" "running running running"
  does up -d --no-recreate --scale store=1
  expect equal "$(states store)" running
}

compose_verbs() {
  step "pause"
  does pause web
  expect equal "$(states web)" paused
  step "unpause"
  does unpause web
  expect equal "$(states web)" running
  step "restart"
  before=$(dock inspect --format '{{.State.StartedAt}}' "${project}_web_1")
  does restart -t 0 web
  [[ $(dock inspect --format '{{.State.StartedAt}}' "${project}_web_1") > $before ]] || fail "web has not started again"
  step "a change of the file makes the container anew, and keeps the others"
  before=$(compose ps -q store)
  sed -i 's/scenario: composed/scenario: changed/' "$dir/docker-compose.yml"
  does up -d
  expect contains "Recreating ${project}_web_1"
  expect equal "$(dock inspect --format '{{.Config.Labels.scenario}}' "${project}_web_1")" changed
  expect equal "$(compose ps -q store)" "$before"
  step "up with a build takes the cache"
  does up -d --build
  expect contains "Using cache"
  step "kill"
  does kill -s KILL web
  expect equal "$(dock inspect --format '{{.State.ExitCode}}' "${project}_web_1")" 137
  step "start"
  does start web
  expect equal "$(states web)" running
  step "stop"
  does stop -t 0
  expect equal "$(states web) $(states store)" "exited exited"
}

compose_down() {
  step "rm"
  does rm -f web
  expect equal "$(states web)" ""
  step "down, with volumes and the image that was built"
  does down -v --rmi local
  expect equal "$(states store)" ""
  expect equal "$(dock network ls -q --filter "name=${project}_") $(dock volume ls -q --filter "name=${project}_")" " "
  run dock inspect --type image "${project}_web"
  expect contains "No such image"
}
