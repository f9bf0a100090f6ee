# Client libraries, unmodified: what tests that drive the engine with them have in common.

# docker_py VERSION CASE: a class of tests/clients/docker_py.py, or one test of it as Class.test_name. Python is the
# system's: the library is its package.
docker_py() {
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR API_VERSION=$1 timeout --foreground 120 \
    /usr/bin/python3 "$BATS_TEST_DIRNAME/clients/docker_py.py" -v "$2" 2>&1
}

# python_scenario VERSION: the scenario of docker-py. PYTHONPATH may lead to another release than the system's.
python_scenario() {
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR API_VERSION=$1 timeout --foreground 120 \
    /usr/bin/python3 "$moss_top/tests/clients/scenarios/docker_py.py" 2>&1
}

# dockerode VERSION NAME: the tests of tests/clients/dockerode.js whose name begins with NAME.
dockerode() {
  NODE_PATH=$moss_top/.cache/clients/node_modules API_VERSION=$1 timeout --foreground 120 \
    node --test --test-name-pattern "^$2" "$BATS_TEST_DIRNAME/clients/dockerode.js" 2>&1
}

# start_site DIR: serves the files of a folder by HTTP until stop_site. Sets SITE to its URL, exported.
start_site() {
  python3 -u -m http.server --bind 127.0.0.1 --directory "$1" 0 >"$MOSS_DIR/web" 2>&1 3>&- 4>&- &
  echo $! >"$MOSS_DIR/web.pid"
  eventually 10 file_has "$MOSS_DIR/web" 'port '
  SITE=http://127.0.0.1:$(sed -nE 's/.* port ([0-9]+).*/\1/p' "$MOSS_DIR/web")
  export SITE
}
stop_site() { kill "$(cat "$MOSS_DIR/web.pid")" || true; }

# each VERSIONS CLIENT PART: the part passes at every version, or at the first where not the whole is run.
each() {
  local v
  for v in $1; do
    run "$2" "$v" "$3"
    expect status 0
    expect lacks "Ran 0 tests" "# tests 0"
    [ -n "${MOSS_WHOLE:-}" ] || break
  done
}

# scenario CLIENT CMD...: the command is a scenario: it prints "step N: TEXT" for each of its steps, and ends with 0.
scenario() {
  local client=$1
  shift
  run "$@"
  expect status 0
  steps=$(grep -cE '^step [0-9]+: ' <<<"$output") || true
  enough_steps "$client"
}

# step TEXT: begins the next step of a scenario in Bash. enough_steps CLIENT ends it: there were 25 of them or more.
step() {
  steps=$((${steps:-0} + 1))
  echo "step $steps: $1"
}
enough_steps() {
  [ "$steps" -ge 25 ] || fail "$1: $steps steps, want 25 or more"
  echo "# $1: $steps steps" >&3
}
