#!/usr/bin/env bats
# Client libraries, unmodified: docker-py and dockerode, at the newest version of the API and at older ones.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# docker_py VERSION CASE: one class of tests/clients/docker_py.py. Python is the system's: the library is its package.
docker_py() {
  DOCKER_HOST=unix://$MOSS_SOCK API_VERSION=$1 timeout --foreground 120 \
    /usr/bin/python3 "$BATS_TEST_DIRNAME/clients/docker_py.py" -v "$2" 2>&1
}

# dockerode VERSION NAME: the tests of tests/clients/dockerode.js whose name begins with NAME.
dockerode() {
  NODE_PATH=$moss_top/.cache/clients/node_modules API_VERSION=$1 timeout --foreground 120 \
    node --test --test-name-pattern "^$2:" "$BATS_TEST_DIRNAME/clients/dockerode.js" 2>&1
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

@test "docker-py: attach" { each "1.24 1.22 1.21" docker_py Attach; }
@test "docker-py: exec" { each "1.24 1.22 1.21" docker_py Exec; }
@test "docker-py: stats" { each "1.24 1.21" docker_py Stats; }
@test "docker-py: archive, export, diff" { each "1.24 1.21" docker_py Archive; }
@test "docker-py: events" { each "1.24 1.22" docker_py Events; }
@test "docker-py: commit, update, top, pause, rename, kill, logs, list, volumes" { each "1.24 1.22 1.21" docker_py Verbs; }

@test "dockerode: attach" { each "1.24 1.20" dockerode attach; }
@test "dockerode: exec" { each "1.24 1.20" dockerode exec; }
@test "dockerode: stats" { each "1.24 1.20" dockerode stats; }
@test "dockerode: archive" { each "1.24 1.20" dockerode archive; }
@test "dockerode: events" { each "1.24" dockerode events; }
@test "dockerode: top, changes, export, pause, rename, update, commit" { each "1.24 1.20" dockerode verbs; }
