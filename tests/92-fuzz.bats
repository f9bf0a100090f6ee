#!/usr/bin/env bats
# bats file_tags=subids
# Random calls with a model beside them: tests/apifuzz. MOSS_FUZZ_SECONDS is for how long (60), MOSS_FUZZ_SEED repeats a
# run, MOSS_FUZZ_FLAGS are further arguments.

load lib/moss

setup_file() {
  # After the calls everything is removed and the engine comes to rest, and a hang is seen after a minute.
  export BATS_TEST_TIMEOUT=$((${MOSS_FUZZ_SECONDS:-60} + 300))
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

@test "random calls, right and wrong, find nothing" {
  local flags
  read -ra flags <<<"${MOSS_FUZZ_FLAGS:-}"
  run "$moss_top/.cache/bin/apifuzz" -socket "$MOSS_SOCK" -image busybox:latest -seed "${MOSS_FUZZ_SEED:-0}" \
    -duration "${MOSS_FUZZ_SECONDS:-60}s" -pid "$(inner_pid)" -run "$MOSS_DIR/run" -data "$MOSS_DATA/root" \
    -log "$MOSS_DIR/mossd.log" "${flags[@]}"
  expect status 0
  printf '%s\n' "${lines[@]: -3}"
}
