#!/usr/bin/env bats
# bats file_tags=subids,chance,alone
# Random calls with a model beside them: tests/apifuzz. MOSS_FUZZ_SECONDS is for how long (30), MOSS_FUZZ_FLAGS are further
# arguments, as -workers 1, with which a seed repeats the same calls.

load lib/moss

setup_file() {
  # After the calls everything is removed and the engine comes to rest, and a hang is seen after a minute.
  export BATS_TEST_TIMEOUT=$((${MOSS_FUZZ_SECONDS:-30} + 300))
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  seed_chance
}
teardown() { finish; }

@test "random calls, right and wrong, find nothing" {
  local flags
  read -ra flags <<<"${MOSS_FUZZ_FLAGS:-}"
  run "$moss_top/.cache/bin/apifuzz" "${flags[@]}" -socket "$MOSS_SOCK" -image busybox:latest -seed "$MOSS_SEED" \
    -duration "${MOSS_FUZZ_SECONDS:-30}s" -pid "$(inner_pid)" -run "$MOSS_DIR/run" -data "$MOSS_DATA/root" \
    -log "$MOSS_DIR/mossd.log"
  expect status 0
  printf '%s\n' "${lines[@]: -3}"
}
