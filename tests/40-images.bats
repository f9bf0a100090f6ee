#!/usr/bin/env bats
# bats file_tags=nosub
# Images from archives: every compression, what is broken or hostile, list, inspect, remove.

load lib/moss

setup_file() {
  start_engine
  import_busybox
  box=$(command -v busybox.static || command -v busybox)
  tree=$MOSS_DIR/small
  mkdir -p "$tree/bin" "$tree/etc"
  cp "$box" "$tree/bin/busybox"
  ln -s busybox "$tree/bin/cat"
  ln -s busybox "$tree/bin/ls"
  echo small >"$tree/etc/word"
  chmod -R a+rX "$tree"
  tar -C "$tree" --owner=0 --group=0 -cf "$MOSS_DIR/small.tar" .
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# import_fails NAME FILE [WORD...]: the import of FILE must fail, say WORDs, and leave nothing.
import_fails() {
  local name=$1 file=$2 before
  shift 2
  before=$(stored)
  run moss import "$file" "$name"
  [ "$status" -ne 0 ] || fail "the import succeeded"
  expect contains "$@"
  run moss inspect --type image "$name"
  [ "$status" -ne 0 ] || fail "there is an image $name"
  expect equal "$(stored)" "$before"
}

# stored: the layers that the engine keeps, and what is half-made. The records of containers' layers are backed up some time
# after an earlier test's container has gone, by way of a file beside them: that is no leftover of this test.
stored() {
  find "$MOSS_DATA/root" -maxdepth 4 -path '*overlay*' -not -path '*/l/*' -not -name 'volatile-layers.*' \
    -printf '%P\n' 2>/dev/null | sort
}

@test "plain, gzip, bzip2, xz and zstd archives become images that run" {
  for kind in plain gzip bzip2 xz zstd; do
    name=$(unique "$kind")
    case $kind in
      plain) cp "$MOSS_DIR/small.tar" "$BATS_TEST_TMPDIR/a" ;;
      zstd) zstd -q -o "$BATS_TEST_TMPDIR/a" "$MOSS_DIR/small.tar" ;;
      *) $kind -c "$MOSS_DIR/small.tar" >"$BATS_TEST_TMPDIR/a" ;;
    esac
    run moss import "$BATS_TEST_TMPDIR/a" "$name"
    expect status 0
    expect matches '^sha256:[0-9a-f]{64}$'
    run moss run --rm "$name" cat /etc/word
    expect output small
    moss rmi "$name"
    rm "$BATS_TEST_TMPDIR/a"
  done
}

@test "import reads stdin, takes a message and changes" {
  name=$(unique stdin)
  run moss import -m 'my words' -c 'CMD ["cat", "/etc/word"]' -c 'ENV A=b' - "$name:tag" <"$MOSS_DIR/small.tar"
  expect status 0
  run moss run --rm "$name:tag"
  expect output small
  record=$(moss inspect "$name:tag" | jq '.[0]')
  expect equal "$(jq -r .Comment <<<"$record")" "my words"
  expect --in "$(jq -c .Config.Env <<<"$record")" contains '"A=b"'
  moss rmi "$name:tag"
}

@test "images lists, inspect shows, by name and id" {
  name=$(unique shown)
  id=$(moss import "$MOSS_DIR/small.tar" "$name:v1")
  run moss images
  expect contains "$name" v1 "${id:7:12}"
  run api GET /images/json
  expect line -1 200
  expect contains "$name:v1"
  for ref in "$name:v1" "$id" "${id:7:12}"; do
    expect equal "$(moss inspect --type image "$ref" | jq -r '.[0].Id')" "$id"
  done
  run api GET "/images/$name/json" # :latest
  expect line -1 404
  moss rmi "$name:v1"
}

@test "a name that moves to another image leaves the old one without" {
  name=$(unique moves)
  first=$(moss import "$MOSS_DIR/small.tar" "$name")
  second=$(moss import -m other "$MOSS_DIR/small.tar" "$name")
  expect equal "$(moss inspect --type image "$name" | jq -r '.[0].Id')" "$second"
  expect equal "$(moss inspect --type image "$first" | jq -c '.[0].RepoTags')" '[]'
  moss rmi "$name" "$first"
}

@test "an image in use is not removed: 409, and why" {
  name=$(unique used)
  moss import "$MOSS_DIR/small.tar" "$name"
  moss create --name "$name" "$name" cat
  run api DELETE "/images/$name"
  expect line -1 409
  expect contains "$name"
  run moss rmi "$name"
  [ "$status" -ne 0 ] || fail "removed"
  moss rm "$name"
  run api DELETE "/images/$name"
  expect line -1 200
  expect contains Untagged Deleted
  run api DELETE "/images/$name"
  expect line -1 404
}

@test "an image that is in use is removed by force only when nothing runs" {
  name=$(unique forced)
  moss import "$MOSS_DIR/small.tar" "$name"
  moss run -d -i --name "$name" "$name" cat
  run api DELETE "/images/$name?force=1"
  [ "${lines[-1]}" = 409 ] || [ "${lines[-1]}" = 200 ] || fail "status ${lines[-1]}"
  is_running "$name" # whatever was answered, its files stay
  moss rm -f "$name"
  moss rmi -f "$name" || true
}

@test "a truncated archive is refused and leaves nothing" {
  name=$(unique cut)
  head -c 300000 "$MOSS_DIR/small.tar" >"$BATS_TEST_TMPDIR/a"
  import_fails "$name" "$BATS_TEST_TMPDIR/a"
  gzip -c "$MOSS_DIR/small.tar" | head -c 300000 >"$BATS_TEST_TMPDIR/b"
  import_fails "$name" "$BATS_TEST_TMPDIR/b"
  xz -0 -c "$MOSS_DIR/small.tar" | head -c 300000 >"$BATS_TEST_TMPDIR/c"
  import_fails "$name" "$BATS_TEST_TMPDIR/c"
}

@test "what is no archive is refused" {
  name=$(unique junk)
  head -c 100000 /dev/urandom >"$BATS_TEST_TMPDIR/a"
  import_fails "$name" "$BATS_TEST_TMPDIR/a"
  : >"$BATS_TEST_TMPDIR/empty"
  run moss import "$BATS_TEST_TMPDIR/empty" "$name"
  expect matches .
  echo '{"not": "tar"}' >"$BATS_TEST_TMPDIR/b"
  import_fails "$name" "$BATS_TEST_TMPDIR/b"
}

# hostile KIND FILE: writes an archive that tries to leave its folder.
hostile() {
  /usr/bin/env python3 - "$@" <<'PY'
import io, sys, tarfile
kind, path = sys.argv[1:]
with tarfile.open(path, "w") as t:
    def add(name, type=tarfile.REGTYPE, link="", data=b"x"):
        i = tarfile.TarInfo(name)
        i.type, i.linkname, i.mode = type, link, 0o755
        i.size = len(data) if type == tarfile.REGTYPE else 0
        t.addfile(i, io.BytesIO(data))
    add("etc", tarfile.DIRTYPE)
    if kind == "dotdot":
        add("../../../../../../../../../../tmp/moss-escaped")
    elif kind == "absolute":
        add("/tmp/moss-escaped")
    elif kind == "hardlink":
        add("passwd", tarfile.LNKTYPE, "../../../../../../../../../../etc/passwd")
    elif kind == "symlink":
        add("out", tarfile.SYMTYPE, "/tmp")
        add("out/moss-escaped")
    elif kind == "parent-symlink":
        add("out", tarfile.SYMTYPE, "../../../../../../../../../../tmp")
        add("out/moss-escaped")
PY
}

@test "a hostile archive writes nothing outside" {
  rm -f /tmp/moss-escaped
  for kind in dotdot absolute hardlink symlink parent-symlink; do
    name=$(unique "$kind")
    hostile "$kind" "$BATS_TEST_TMPDIR/$kind.tar"
    run moss import "$BATS_TEST_TMPDIR/$kind.tar" "$name"
    [ ! -e /tmp/moss-escaped ] || fail "$kind: written outside"
    case $kind in
      dotdot | hardlink) [ "$status" -ne 0 ] || fail "$kind was taken: $output" ;;
    esac
    [ "$status" -ne 0 ] || moss rmi "$name"
  done
  inside() { moss run --rm -v "$MOSS_DIR/small:/s" "$1" ls /; }
}

@test "bad names and missing parameters are 400" {
  for q in "fromSrc=-&repo=UPPER" "fromSrc=-&repo=a/../b" "fromSrc=-&repo=ok&tag=a%20b" "" "fromSrc=-&repo=ok&changes=NOPE%20x" \
    "fromSrc=-&tag=alone" "fromSrc=-&repo=sha256&tag=abc" "fromSrc=-&repo=ok&platform=plan9" "fromSrc=-&fromImage=ok"; do
    run curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST -T "$MOSS_DIR/small.tar" -w '\n%{http_code}' "http://moss/images/create?$q"
    expect line -1 400
    expect matches '"message":".+"'
  done
}

@test "two imports at once both succeed" {
  name=$(unique both)
  pids=()
  for i in 1 2 3 4; do
    moss import -m "$i" "$MOSS_DIR/small.tar" "$name:$i" >/dev/null 3>&- &
    pids+=($!)
  done
  for p in "${pids[@]}"; do wait "$p"; done
  for i in 1 2 3 4; do expect equal "$(moss run --rm "$name:$i" cat /etc/word)" small; done
  moss rmi "$name:1" "$name:2" "$name:3" "$name:4"
}
