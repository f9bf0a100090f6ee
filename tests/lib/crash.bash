# shellcheck shell=bash
# Kills at moments that nobody chooses: a share of the time that the work takes, drawn from the test's seed (seed_chance in
# lib/moss.bash). The seed fixes what a test does and when; which of the engine's, the clients' and the kernel's threads runs
# first at that moment it cannot fix, so a repeated run meets the same fault often, but not for certain.

# measure CMD...: runs it undisturbed and sets span to the milliseconds that it takes.
measure() {
  local before
  before=$(date +%s%N)
  "$@" >/dev/null
  span=$((($(date +%s%N) - before) / 1000000 + 1))
}

# pass_moment: waits for a drawn share of span, from none of it to a tenth more than all, and sets after to its milliseconds.
pass_moment() {
  draw 0 1100
  after=$((span * drawn / 1000))
  sleep "$(printf '%d.%03d' $((after / 1000)) $((after % 1000)))" # the moment is what the test is about
}

# killed_during CMD...: runs CMD, kills the engine at some moment of it or shortly after, and waits for the next engine.
killed_during() {
  local old client
  old=$(inner_pid)
  "$@" >/dev/null 2>&1 3>&- &
  client=$!
  pass_moment
  kill -KILL "$old"
  wait $client || true
  eventually 30 another_engine "$old"
}
