# Kills of the engine at moments that nobody chooses.

# measure CMD...: runs it undisturbed and sets span to the milliseconds that it takes.
measure() {
  local before
  before=$(date +%s%N)
  "$@" >/dev/null
  span=$((($(date +%s%N) - before) / 1000000 + 1))
}

# killed_during CMD...: runs CMD, kills the engine at some moment of it or shortly after, and waits for the next engine.
killed_during() {
  local old client after
  old=$(inner_pid)
  after=$((RANDOM % (span * 11 / 10 + 1)))
  "$@" >/dev/null 2>&1 3>&- &
  client=$!
  sleep "$(printf '%d.%03d' $((after / 1000)) $((after % 1000)))" # the moment is what the test is about
  kill -KILL "$old"
  wait $client || true
  eventually 30 another_engine "$old"
}
