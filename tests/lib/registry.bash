# shellcheck shell=bash
# registry.bash: real registries for tests: Debian's docker-registry, and the token server of tests/tokend in front of it.
#
#   load lib/moss
#   load lib/registry
#   setup_file() {
#     start_engine
#     start_registry plain
#     export PLAIN=$REGISTRY
#   }
#   teardown_file() { stop_registries && stop_engine; }
#
# Each registry has a name of the test file's choice. Its configuration, certificates and logs are in
# $(registry_dir NAME), its blobs in $MOSS_DATA. All listen on loopback, on ports that the kernel chose.

tokend_bin=${MOSS_TOKEND:-$moss_top/.cache/bin/tokend}
registry_bin=$(command -v docker-registry || command -v registry)

# registry_dir NAME: the folder of a registry or token server: config.yml, log, pid, and with TLS ca.crt, client.cert,
# client.key.
registry_dir() { echo "$MOSS_DIR/registries/$1"; }

# outside_name: a name or an address of this machine that does not look like loopback, so that the engine holds registries
# there to TLS. What is sent there stays in the machine all the same.
outside_name() {
  local name
  for name in "$(uname -n)" $(awk '/^127\./ {for (i = 2; i <= NF && $i !~ /^#/; i++) print $i}' /etc/hosts) \
    $(ip -4 -o addr show scope global | awk '{sub("/.*", "", $4); print $4}'); do
    case $name in localhost | localhost.* | *.localhost) continue ;; esac
    [ -z "$(outside_address "$name")" ] || {
      echo "$name"
      return
    }
  done
  fail "this machine has no name and no address besides localhost: put '127.0.0.1 $(uname -n)' into /etc/hosts"
}
outside_address() { getent ahostsv4 "$1" | awk 'NR == 1 {print $1}'; }

# start_registry NAME [OPTION...]: starts a registry and waits until it listens. Sets REGISTRY to its HOST:PORT, exported.
#   --tls             its certificate comes from a CA of its own: ca.crt in its folder. Its host is then outside_name
#   --loopback        with --tls: its host is 127.0.0.1 nevertheless
#   --outside         without --tls: its host is outside_name
#   --certs-of NAME   with --tls: the certificates of another one
#   --client-ca       with --tls: clients need client.cert and client.key of that CA
#   --htpasswd U:P    Basic authentication, for the user U with the password P
#   --token URL NAME  bearer tokens of the token server NAME, which has this URL
#   --proxy URL       a read-only mirror of the registry at URL
start_registry() {
  local name=$1 dir tls=no clients=no loopback=no outside=no auth='' proxy='' host=127.0.0.1 address=127.0.0.1
  shift
  dir=$(registry_dir "$name")
  mkdir -p "$dir" "$MOSS_DATA/registry-$name"
  while [ $# -gt 0 ]; do
    case $1 in
      --tls) tls=yes outside=yes ;;
      --loopback) loopback=yes ;;
      --outside) outside=yes ;;
      --client-ca) clients=yes ;;
      --certs-of)
        cp "$(registry_dir "$2")"/{ca.crt,server.crt,server.key,client.cert,client.key} "$dir/" || return
        shift
        ;;
      --htpasswd)
        "$tokend_bin" htpasswd "${2%%:*}" "${2#*:}" >"$dir/htpasswd" || return
        auth="auth: {htpasswd: {realm: $name, path: $dir/htpasswd}}"
        shift
        ;;
      --token)
        auth="auth: {token: {realm: \"$2\", service: $name, issuer: tokend, rootcertbundle: $(registry_dir "$3")/token.crt}}"
        shift 2
        ;;
      --proxy)
        proxy="proxy: {remoteurl: \"$2\"}"
        shift
        ;;
      *) fail "start_registry: no such option: $1" || return ;;
    esac
    shift
  done
  if [ $outside = yes ] && [ $loopback = no ]; then
    host=$(outside_name) || return
    address=$(outside_address "$host")
  fi
  {
    echo 'version: 0.1'
    echo 'log: {level: info, accesslog: {disabled: false}}'
    echo "storage: {filesystem: {rootdirectory: $MOSS_DATA/registry-$name}, delete: {enabled: true}}"
    echo 'http:'
    echo "  addr: $address:0"
    if [ $tls = yes ]; then
      [ -e "$dir/ca.crt" ] || "$tokend_bin" cert -dir "$dir" -hosts "127.0.0.1,localhost,$host,$address" || return
      echo "  tls:"
      echo "    certificate: $dir/server.crt"
      echo "    key: $dir/server.key"
      [ $clients = no ] || echo "    clientcas: [$dir/ca.crt]"
    fi
    printf '%s\n' "$auth" "$proxy"
  } >"$dir/config.yml"
  # Its settings can come from variables whose names begin with REGISTRY_: it gets none of ours.
  env -i PATH="$PATH" HOME="$dir" "$registry_bin" serve "$dir/config.yml" >>"$dir/log" 2>&1 3>&- 4>&- &
  echo $! >"$dir/pid"
  started "$name" 'listening on '
  REGISTRY=$host:$(sed -nE 's/.*listening on [^ ]*:([0-9]+).*/\1/p' "$dir/log" | tail -n 1)
  export REGISTRY
}

# start_tokend NAME [ARG...]: starts a token server (see tests/tokend) that knows ann:secret and bob:s3cret-of-bob. Sets
# TOKEND to its URL, exported. With -tls it has a CA of its own, as registries do. Its log has one JSON object for each request: token_log reads it.
start_tokend() {
  local name=$1 dir scheme=http host=127.0.0.1 address=127.0.0.1
  shift
  dir=$(registry_dir "$name")
  mkdir -p "$dir"
  printf 'ann:secret\nbob:s3cret-of-bob\n' >"$dir/users"
  if [[ " $* " == *" -tls "* ]]; then
    scheme=https
    host=$(outside_name) || return
    address=$(outside_address "$host")
    "$tokend_bin" cert -dir "$dir" -hosts "127.0.0.1,localhost,$host,$address" || return
  fi
  : >"$dir/requests"
  "$tokend_bin" serve -dir "$dir" -addr "$address:0" -users "$dir/users" -log "$dir/requests" "$@" \
    >"$dir/log" 2>&1 3>&- 4>&- &
  echo $! >"$dir/pid"
  started "$name" 'ready '
  TOKEND=$scheme://$host:$(sed -n 's/^ready .*:\([0-9]*\)$/\1/p' "$dir/log")/auth/token
  export TOKEND
}

# started NAME TEXT: waits until the server has logged TEXT, or fails with what it logged.
started() {
  local dir
  dir=$(registry_dir "$1")
  eventually 20 said_or_ended "$dir" "$2"
  file_has "$dir/log" "$2" || {
    tail -n 20 "$dir/log" >&2
    fail "$1 did not start"
  }
}
said_or_ended() { file_has "$1/log" "$2" || ended "$(cat "$1/pid")"; }

# token_log NAME [FILTER]: the requests that a token server had, through jq -c.
token_log() { jq -c "${2:-.}" "$(registry_dir "$1")/requests"; }

# forget_token_log NAME: what follows is the test's own.
forget_token_log() { : >"$(registry_dir "$1")/requests"; }

# revoke_refresh_tokens NAME: the token server takes none of those any more that it has issued.
revoke_refresh_tokens() {
  local dir before
  dir=$(registry_dir "$1")
  before=$(revocations "$dir")
  kill -HUP "$(cat "$dir/pid")"
  eventually 10 revoked_again "$dir" "$before"
}
revocations() { grep -cx revoked "$1/log" || true; }
revoked_again() { [ "$(revocations "$1")" -gt "$2" ]; }

# registry_log NAME: the requests that a registry had: METHOD PATH STATUS, one per line.
registry_log() {
  sed -nE 's/^.*"(GET|HEAD|POST|PUT|PATCH|DELETE) ([^ ]*) HTTP\/[0-9.]*" ([0-9]+) .*/\1 \2 \3/p' "$(registry_dir "$1")/log"
}

# trust NAME DIR HOST:PORT [client]: puts a registry's CA into a folder of certificates (certs.d), with the word client a
# client's certificate as well.
trust() {
  mkdir -p "$2/$3"
  cp "$(registry_dir "$1")/ca.crt" "$2/$3/"
  [ "${4:-}" != client ] || cp "$(registry_dir "$1")"/client.{cert,key} "$2/$3/"
}

# image_archive FILE WORD: an archive as `docker save` writes it, for skopeo: one layer with WORD in /word, made without
# the engine.
image_archive() {
  local dir layer config
  dir=$(mktemp -d "$MOSS_DIR/image.XXXXXX")
  echo "$2" >"$dir/word"
  tar -C "$dir" --owner=0 --group=0 --mtime=@0 -cf "$dir/layer.tar" word
  layer=$(sha256sum "$dir/layer.tar" | cut -d' ' -f1)
  case $(uname -m) in
    x86_64) config=amd64 ;;
    aarch64) config=arm64 ;;
    *) config=$(uname -m) ;;
  esac
  jq -cn --arg arch "$config" --arg layer "sha256:$layer" '{architecture: $arch, os: "linux", config: {Cmd: ["/word"]},
    rootfs: {type: "layers", diff_ids: [$layer]}, history: [{created_by: "test"}]}' >"$dir/config.json"
  echo '[{"Config": "config.json", "RepoTags": ["image:latest"], "Layers": ["layer.tar"]}]' >"$dir/manifest.json"
  tar -C "$dir" -cf "$1" manifest.json config.json layer.tar
  rm -rf "$dir"
}

# put_image REF WORD [ARG...]: has skopeo push an image_archive to a registry. ARGs are skopeo's.
put_image() {
  local ref=$1 word=$2 file
  shift 2
  file=$(mktemp "$MOSS_DIR/image.XXXXXX")
  image_archive "$file" "$word"
  skopeo copy -q --authfile "$MOSS_DIR/none.json" --dest-tls-verify=false "$@" "docker-archive:$file" "docker://$ref"
  rm -f "$file"
}

# stop_registry NAME: ends a registry or token server, and waits until it is gone.
stop_registry() {
  local pid
  pid=$(cat "$(registry_dir "$1")/pid") || return
  kill -TERM "$pid" 2>/dev/null || true
  eventually 10 ended "$pid" || kill -KILL "$pid"
}

# stop_registries: ends them all. For teardown_file, before stop_engine: that one looks for what still runs.
stop_registries() {
  local pid
  for pid in "$MOSS_DIR"/registries/*/pid; do
    [ ! -e "$pid" ] || stop_registry "$(basename "$(dirname "$pid")")"
  done
}
