#!/usr/bin/env bats
# Client libraries, unmodified, on images and registries: docker-py and dockerode, at several versions of the API.

load lib/moss
load lib/registry

setup_file() {
  start_engine
  import_busybox
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
  start_registry plain
  curl -sS --fail --unix-socket "$MOSS_SOCK" -o "$MOSS_DIR/box.tar" http://moss/images/busybox/get
  for tag in one two; do
    skopeo copy -q --dest-tls-verify=false "docker-archive:$MOSS_DIR/box.tar" "docker://$REGISTRY/lib/box:$tag"
  done
  python3 -u -m http.server --bind 127.0.0.1 --directory "$MOSS_DIR" 0 >"$MOSS_DIR/web" 2>&1 3>&- 4>&- &
  echo $! >"$MOSS_DIR/web.pid"
  eventually 10 file_has "$MOSS_DIR/web" 'port '
  SITE=http://127.0.0.1:$(sed -nE 's/.* port ([0-9]+).*/\1/p' "$MOSS_DIR/web")
  export SITE
}
teardown_file() {
  kill "$(cat "$MOSS_DIR/web.pid")" || true
  stop_registries
  stop_engine
}
setup() { begin; }
teardown() { finish; }

# docker_py VERSION TEST: one of the tests of images of tests/clients/docker_py.py. Python is the system's: the library is
# its package.
docker_py() {
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR API_VERSION=$1 timeout --foreground 120 \
    /usr/bin/python3 "$BATS_TEST_DIRNAME/clients/docker_py.py" -v "Images.test_$2" 2>&1
}

# dockerode VERSION NAME: the tests of tests/clients/dockerode.js whose name begins with NAME, behind "images: ".
dockerode() {
  NODE_PATH=$moss_top/.cache/clients/node_modules API_VERSION=$1 timeout --foreground 120 \
    node --test --test-name-pattern "^images: $2" "$BATS_TEST_DIRNAME/clients/dockerode.js" 2>&1
}

# each VERSIONS CLIENT PART: the part passes at every version.
each() {
  local v
  for v in $1; do
    run "$2" "$v" "$3"
    expect status 0
    expect lacks "Ran 0 tests" "# tests 0"
  done
}

@test "docker-py: pull" { each "1.24 1.21" docker_py pull; }
@test "docker-py: pull of what is not there" { each "1.24 1.21" docker_py pull_what_is_not_there; }
@test "docker-py: push" { each "1.24 1.21" docker_py push; }
@test "docker-py: credentials" { each "1.24 1.21" docker_py credentials; }
@test "docker-py: login" { each "1.24 1.21" docker_py login; }
@test "docker-py: tag, history, inspect, remove" { each "1.24 1.22 1.21" docker_py tag_history_inspect_remove; }
@test "docker-py: save and load" { each "1.24 1.22 1.21" docker_py save_and_load; }
@test "docker-py: import" { each "1.24 1.21" docker_py import; }
@test "docker-py: search" { each "1.24 1.21" docker_py search; }

@test "dockerode: pull" { each "1.24 1.20" dockerode pull; }
@test "dockerode: push and credentials" { each "1.24 1.20" dockerode push; }
@test "dockerode: login" { each "1.24 1.20" dockerode login; }
@test "dockerode: tag, list, inspect, history, remove" { each "1.24 1.20" dockerode tag; }
@test "dockerode: save and load" { each "1.24 1.20" dockerode save; }
@test "dockerode: import" { each "1.24 1.20" dockerode import; }
@test "dockerode: search" { each "1.24 1.20" dockerode search; }
