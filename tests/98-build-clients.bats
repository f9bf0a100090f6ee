#!/usr/bin/env bats
# Client libraries and docker-compose, unmodified, that build images, at several versions of the API.

# bats file_tags=subids

load lib/moss
load lib/registry
load lib/clients

setup_file() {
  start_engine
  import_busybox
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
  site=$MOSS_DIR/site
  mkdir "$site"
  printf 'FROM busybox\nRUN echo remote >/alone\n' >"$site/Dockerfile"
  mkdir "$MOSS_DIR/context"
  printf 'FROM busybox\nCOPY word /word\n' >"$MOSS_DIR/context/Dockerfile"
  echo remote >"$MOSS_DIR/context/word"
  tar -C "$MOSS_DIR/context" -cf "$site/context.tar" .
  start_site "$site"
}
teardown_file() {
  stop_site
  stop_registries
  stop_engine
}
setup() { begin; }
teardown() { finish; }

@test "docker-py: build of a folder" { each "1.24 1.22 1.21" docker_py Build.test_folder; }
@test "docker-py: the id of what was built" { each "1.24 1.21" docker_py Build.test_id; }
@test "docker-py: builds that fail" { each "1.24 1.21" docker_py Build.test_error; }
@test "docker-py: build of streams" { each "1.24 1.21" docker_py Build.test_streams; }
@test "docker-py: options of a build" { each "1.24 1.21" docker_py Build.test_options; }
@test "docker-py: containers of a build that are kept" { each "1.24" docker_py Build.test_kept_container; }
@test "docker-py: build by a remote" { each "1.24 1.21" docker_py Build.test_remote; }
@test "docker-py: build with credentials" { each "1.24 1.21" docker_py Build.test_credentials; }

@test "dockerode: build of an archive" { each "1.24 1.20" dockerode "build: an archive"; }
@test "dockerode: build of a folder" { each "1.24 1.20" dockerode "build: a folder"; }
@test "dockerode: progress and failures of a build" { each "1.24 1.20" dockerode "build: progress"; }
@test "dockerode: quiet builds and remotes" { each "1.24 1.20" dockerode "build: quiet"; }

@test "docker-compose builds what its services need" {
  [[ $(docker-compose version --short) == 1.* ]] || skip "docker-compose 1.x is not here: hack/install-deps.sh --for test, on Debian 12"
  project=$(unique compose)
  dir=$BATS_TEST_TMPDIR/project
  mkdir -p "$dir/web" "$dir/tools"
  cat >"$dir/docker-compose.yml" <<'YAML'
version: "2.4"
services:
  web:
    build:
      context: web
      dockerfile: Containerfile
      args: {WORD: composed}
      labels: {made.by: compose}
      target: final
    image: ${IMAGE}
    network_mode: none
  tools:
    build: ./tools
    network_mode: none
YAML
  printf 'FROM busybox AS final\nARG WORD\nRUN echo "$WORD" >/word\nCOPY page /page\nCMD ["cat", "/word", "/page"]\nFROM busybox\nRUN exit 1\n' >"$dir/web/Containerfile"
  echo page >"$dir/web/page"
  printf 'FROM busybox\nCMD ["echo", "tools"]\n' >"$dir/tools/Dockerfile"
  compose() {
    IMAGE=$project/web:1 DOCKER_HOST=unix://$MOSS_SOCK COMPOSE_API_VERSION=1.24 DOCKER_CONFIG=$BATS_TEST_TMPDIR \
      timeout --foreground -k 2 120 docker-compose --ansi never -p "$project" -f "$dir/docker-compose.yml" "$@"
  }
  run compose build tools
  expect status 0
  expect contains "Step 1/2 : FROM busybox" "Successfully built" "Successfully tagged"
  run compose build web
  # The version of the file's schema has target, the version of the API has not: the library says so itself.
  [ "$status" = 0 ] || {
    expect contains "target"
    sed -i '/target: final/d' "$dir/docker-compose.yml"
    sed -i '/^FROM busybox$/,$d' "$dir/web/Containerfile"
    compose build web
  }
  run compose up -d
  expect status 0
  log() { compose logs --no-color "$1"; }
  has() { [[ $(log "$1") == *"$2"* ]]; }
  for words in "web composed" "web page" "tools tools"; do
    # shellcheck disable=SC2086 # a service and a text
    eventually 10 has $words
  done
  expect equal "$(dock image inspect --format '{{index .Config.Labels "made.by"}}' "$project/web:1")" compose
  echo changed >"$dir/web/page"
  run compose up -d --build
  expect status 0
  expect contains "Using cache"
  eventually 10 has web changed
  run compose down --rmi all
  expect status 0
  run dock image inspect "$project/web:1"
  expect status 1
}
