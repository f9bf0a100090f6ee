# Client libraries, unmodified: what tests that drive the engine with them have in common.

# docker_py VERSION CASE: a class of tests/clients/docker_py.py, or one test of it as Class.test_name. Python is the
# system's: the library is its package.
docker_py() {
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR API_VERSION=$1 timeout --foreground 120 \
    /usr/bin/python3 "$BATS_TEST_DIRNAME/clients/docker_py.py" -v "$2" 2>&1
}

# dockerode VERSION NAME: the tests of tests/clients/dockerode.js whose name begins with NAME.
dockerode() {
  NODE_PATH=$moss_top/.cache/clients/node_modules API_VERSION=$1 timeout --foreground 120 \
    node --test --test-name-pattern "^$2" "$BATS_TEST_DIRNAME/clients/dockerode.js" 2>&1
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
