# The corpus of Dockerfiles in tests/build, and buildah to compare with.

# open_corpus: the base images, in the engine and in buildah's store. For setup_file. Sets CORPUS: the folder of it all.
open_corpus() {
  CORPUS=$MOSS_DATA/corpus
  export CORPUS
  mkdir -m 0700 "$CORPUS" "$CORPUS/docker"
  local bases
  bases=$(echo "$moss_top"/.cache/build/bases-*.tar)
  [ -e "$bases" ] || fail "no base images: tests/build/bases.sh .cache/build makes them" || return
  # Two programs that share nothing but the archive.
  CORPUS_LOAD=$CORPUS/load.log
  corpus_podman load -q -i "$bases" >"$CORPUS_LOAD" 2>&1 &
  local podman=$!
  CLIENT_SECONDS=150 dock load -q -i "$bases" >"$CORPUS/dock.log" || return
  wait $podman || fail "podman load: $(cat "$CORPUS_LOAD")"
}

# corpus_podman: podman, whose store buildah shares, in folders of this file.
corpus_podman() {
  HOME=$CORPUS XDG_RUNTIME_DIR=$CORPUS timeout 150 podman --root "$CORPUS/store" --runroot "$CORPUS/run" \
    --storage-driver overlay --cgroup-manager cgroupfs --events-backend none "$@"
}

# corpus PREFIX...: the cases whose names begin like that come out as buildah makes them.
corpus() {
  run python3 "$BATS_TEST_DIRNAME/build/corpus.py" check "$@"
  expect status 0
}

# close_corpus: what podman keeps its namespaces with ends, and its files go. For teardown_file, before stop_engine.
close_corpus() {
  kill -KILL "$(cat "$CORPUS/libpod/tmp/pause.pid")" 2>/dev/null || true # it heeds no other signal
  unshare --user --map-root-user --map-auto rm -rf "$CORPUS"
}
