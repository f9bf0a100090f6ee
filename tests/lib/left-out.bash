# shellcheck shell=bash
# left-out.bash: what tests/run.sh and tests/guest.sh do where this user cannot run a whole stage.

# left_out STAGE REASON: says so and ends the script. make compat reads the file that stays in KEEP_TAP.
left_out() {
  echo "$1: left out: $2"
  if [ -n "${KEEP_TAP:-}" ]; then rm -f "$KEEP_TAP/$1.tap"; fi
  keep_left "$1" "$2"
  exit 0
}

# keep_left STAGE REASON: keeps for make compat that not all of a stage has run.
keep_left() {
  [ -n "${KEEP_TAP:-}" ] || return 0
  mkdir -p "$KEEP_TAP"
  echo "$2" >"$KEEP_TAP/$1.left"
}

# keep_tap STAGE LOG: keeps what a stage's tests said for make compat.
keep_tap() {
  [ -n "${KEEP_TAP:-}" ] || return 0
  mkdir -p "$KEEP_TAP"
  rm -f "$KEEP_TAP/$1.left"
  cp "$2" "$KEEP_TAP/$1.tap"
}
