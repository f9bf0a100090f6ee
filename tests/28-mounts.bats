#!/usr/bin/env bats
# HostConfig.Mounts, which later versions of the API have beside Binds, Volumes and Tmpfs: what docker run --mount,
# newer composes and client libraries send. It is read at every version.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  dir=$BATS_TEST_TMPDIR/folder
  mkdir "$dir"
}
teardown() { finish; }

# create NAME MOUNTS [FIELDS]: one create with these Mounts; the answer and its status.
create() {
  api POST "/containers/create?name=$1" "{\"Image\":\"busybox\",\"Cmd\":${COMMAND:-[\"true\"]}${3:+,$3},\"HostConfig\":{\"Mounts\":$2}}"
}
volume_names() { answer_of /v1.24/volumes -r '.Volumes[].Name'; }
# inside: a command in the engine's own namespaces.
inside() { nsenter --preserve-credentials -U -m -t "$(inner_pid)" "$@"; }

@test "bind: a folder and a file, read-only and not, in the clients' spellings" {
  echo there >"$dir/file"
  for client in moss dock; do
    run $client run --rm --mount "type=bind,src=$dir,dst=/b" busybox sh -c 'cat /b/file; echo new >/b/new && cat /b/new'
    expect output $'there\nnew'
    run $client run --rm --mount "type=bind,source=$dir,target=/b,readonly" busybox sh -c 'cat /b/file; echo x >/b/x'
    expect contains there "Read-only file system"
    run $client run --rm --mount "type=bind,source=$dir/file,destination=/etc/one,ro=true,consistency=cached" busybox sh -c 'cat /etc/one; echo x >/etc/one'
    expect contains there "Read-only file system"
  done
  # docker makes a source absolute since version 23.
  cd "$dir"
  run moss run --rm --mount type=bind,src=./file,dst=/one busybox cat /one
  expect output there
}

@test "bind: a missing source is refused at create and at start, and made when asked for" {
  name=$(unique miss)
  for client in moss dock; do
    run $client run --rm --name "$name" --mount "type=bind,src=$dir/none,dst=/b" busybox true
    expect status 125
    expect contains "bind source path does not exist: $dir/none"
    expect equal "$(ls -A "$dir")" ""
    is_gone "$name"
  done
  run create "$name" "[{\"Type\":\"bind\",\"Source\":\"$dir/none\",\"Target\":\"/b\"}]"
  expect line -1 400
  # One that was there at the create and is not at the start.
  mkdir "$dir/some"
  moss create --name "$name" --mount "type=bind,src=$dir/some,dst=/b" busybox true
  rmdir "$dir/some"
  run api POST "/containers/$name/start"
  expect line -1 400
  expect contains "bind source path does not exist: $dir/some"
  run moss cp "$name:/b" "$dir/copy"
  expect contains "bind source path does not exist"
  mkdir "$dir/some"
  moss start "$name"
  expect equal "$(moss wait "$name")" 0
  moss rm "$name"
  run moss run --rm --mount "type=bind,src=$dir/a/b,dst=/b,bind-create-src" busybox sh -c 'echo made >/b/f'
  expect status 0
  expect equal "$(cat "$dir/a/b/f")" made
}

@test "bind: propagation, without and with what is mounted below, read-only to any depth" {
  name=$(unique deep)
  inside mount -t tmpfs base "$dir"
  inside mount --make-shared "$dir"
  inside mkdir "$dir/below" "$dir/later"
  inside mount -t tmpfs below "$dir/below"
  inside touch "$dir/below/file"
  try() { run moss run --rm --mount "type=bind,src=$dir,dst=/b,$1" busybox sh -c 'ls /b/below; echo x >/b/below/x && rm /b/below/x && echo written; grep " /b " /proc/self/mountinfo'; }
  try bind-recursive=enabled
  expect contains file written
  expect lacks master: shared:
  for spelling in bind-recursive=disabled bind-nonrecursive; do
    try "$spelling"
    expect status 125
    expect contains BindOptions.NonRecursive "$dir/below"
    run moss run --rm --mount "type=bind,src=$dir/below,dst=/b,$spelling" busybox ls /b
    expect output file
  done
  try ro
  expect contains file "Read-only file system"
  expect lacks written
  try ro,bind-recursive=writable
  expect contains file written
  try ro,bind-recursive=readonly,bind-propagation=rprivate
  expect contains file "Read-only file system"
  expect lacks written
  try bind-propagation=rslave
  expect contains master:
  # A mount made later arrives through a slave, not through the default.
  for mode in rslave rprivate; do
    moss run -d --name "$name-$mode" --mount "type=bind,src=$dir,dst=/b,bind-propagation=$mode" busybox \
      sh -c 'until [ -e /b/go ]; do sleep 0.05; done; grep -c " /b/later " /proc/self/mountinfo'
  done
  inside mount -t tmpfs late "$dir/later"
  inside touch "$dir/go"
  moss wait "$name-rslave" "$name-rprivate"
  run moss logs "$name-rslave"
  expect output 1
  run moss logs "$name-rprivate"
  expect output 0
  moss rm "$name-rslave" "$name-rprivate"
  inside umount -R "$dir"
  run create "$name" "[{\"Type\":\"bind\",\"Source\":\"$dir\",\"Target\":\"/b\",\"BindOptions\":{\"Propagation\":\"rshared\"}}]"
  expect line -1 201
  expect contains "cannot be shared with the host"
  moss rm "$name"
}

@test "volume: made with its labels and options, found again, and anonymous ones that go with their container" {
  name=$(unique vol)
  for client in moss dock; do
    run $client run --rm --mount "type=volume,src=$name,dst=/v,volume-label=team=a,volume-label=b" busybox sh -c 'echo kept >/v/f'
    expect status 0
    expect equal "$(answer_of "/v1.24/volumes/$name" -c .Labels)" '{"b":"","team":"a"}'
    run $client run --rm --mount "src=$name,dst=/v,ro" busybox sh -c 'cat /v/f; echo x >/v/x'
    expect contains kept "Read-only file system"
    run $client volume rm "$name"
    expect output "$name"
    before=$(volume_names)
    run $client run --rm --mount dst=/v busybox sh -c 'echo x >/v/f && cat /v/f'
    expect output x
    expect equal "$(volume_names)" "$before"
    # Options of the driver.
    run $client run --rm --mount "src=$name,dst=/v,volume-driver=local,volume-opt=type=tmpfs,volume-opt=device=tmpfs,\"volume-opt=o=size=1m,mode=1770\"" \
      busybox sh -c 'grep " /v " /proc/mounts; stat -c %a /v'
    expect contains "size=1024k" 1770
    run $client run --rm --mount "src=$name,dst=/v,volume-opt=type=tmpfs,volume-opt=device=other" busybox true
    expect status 125
    expect contains "other options"
    $client volume rm "$name"
  done
}

@test "volume: gets the image's content, unless nocopy says otherwise" {
  name=$(unique fill)
  run moss run --rm --mount "src=$name,dst=/var/www" busybox cat /var/www/index.html
  expect output "hello from busybox"
  run dock run --rm --mount "src=$name-2,dst=/var/www,volume-nocopy" busybox ls -A /var/www
  expect output ""
  moss volume rm "$name" "$name-2"
}

@test "volume: a subpath is a folder or a file of the volume, and no link leads out of it" {
  name=$(unique sub)
  moss run --rm -v "$name:/v" busybox sh -c "mkdir -p /v/a/b; echo deep >/v/a/b/f; echo own >/v/conf; ln -s /etc /v/abs; ln -s ../../../../../../../.. /v/up; ln -s a/b /v/in; ln -s '$dir' /v/out"
  echo 'of the host' >"$dir/secret"
  point=$(answer_of "/volumes/$name" -r .Mountpoint)
  run moss run --rm --mount "src=$name,dst=/s,volume-subpath=a/b" busybox sh -c 'ls /s; cat /s/f; echo more >/s/more'
  expect output $'f\ndeep'
  expect equal "$(cat "$point/a/b/more")" more
  rm "$point/a/b/more"
  # As docker sends it since version 26.
  COMMAND='["sh","-c","ls /s; cat /s/f; echo more >/s/more"]' run create "$name" \
    "[{\"Type\":\"volume\",\"Source\":\"$name\",\"Target\":\"/s\",\"VolumeOptions\":{\"Subpath\":\"a/b\"}}]"
  expect line -1 201
  moss start "$name"
  expect equal "$(moss wait "$name")" 0
  run moss logs "$name"
  expect output $'f\ndeep'
  expect equal "$(cat "$point/a/b/more")" more
  rm "$point/a/b/more"
  moss rm "$name"
  run moss run --rm --mount "src=$name,dst=/s,volume-subpath=conf,ro" --mount "src=$name,dst=/t,volume-subpath=in" --mount "src=$name,dst=/all" busybox \
    sh -c 'cat /s /t/f; ls /all/a; (echo x >/s) 2>/dev/null || echo read-only'
  expect output $'own\ndeep\nb\nread-only'
  for subpath in none conf/below abs up/etc out out/secret; do
    run moss run --rm --name "$name" --mount "src=$name,dst=/s,volume-subpath=$subpath" busybox sh -c 'ls -A /s; cat /s/secret'
    expect status 125
    expect contains "subpath $subpath"
    expect lacks "of the host"
    is_gone "$name"
  done
  # up leads to the volume's own root: there is nothing above.
  run moss run --rm --mount "src=$name,dst=/s,volume-subpath=up" busybox cat /s/conf
  expect output own
  # A container that is not running shows it to a copy, one that runs keeps it over the engine's crash, and its end clears up.
  moss create --name "$name" --mount "src=$name,dst=/s,volume-subpath=a/b" busybox sh -c 'until [ -e /s/go ]; do sleep 0.05; done; ls /s'
  run moss cp "$name:/s/f" -
  expect contains deep
  expect equal "$(ls "${point%/_data}/_parts")" ""
  moss start "$name"
  crash
  touch "$point/a/b/go"
  expect equal "$(moss wait "$name")" 0
  run moss logs "$name"
  expect output $'f\ngo'
  expect equal "$(ls "${point%/_data}/_parts")" ""
  # One that ends while there is no engine leaves nothing either, and others may take it over.
  rm "$point/a/b/go"
  moss start "$name"
  run moss run --rm --volumes-from "$name" busybox cat /s/f
  expect output deep
  old=$(inner_pid)
  kill -STOP "$old"
  touch "$point/a/b/go"
  kill -KILL "$old"
  another() { local now && now=$(inner_pid 2>/dev/null) && [ "$now" != "$old" ] && ping_ok; }
  eventually 20 another
  eventually 10 is_exited "$name"
  expect equal "$(ls "${point%/_data}/_parts")" ""
  moss rm "$name"
  moss volume rm "$name"
  run inside grep -F _parts /proc/self/mountinfo
  expect output ""
}

@test "volume: a container that swaps a folder for a link does not get the host's" {
  name=$(unique race)
  echo 'of the host' >"$dir/secret"
  moss run -d --name "$name" -v "$name:/v" busybox sh -c "mkdir -p /v/real/sub; ln -s '$dir' /v/real/link
    while :; do ln -sfn real/sub /v/x; ln -sfn '$dir' /v/x; done"
  for _ in 1 2 3 4 5 6 7 8; do
    run moss run --rm --mount "src=$name,dst=/s,volume-subpath=x" busybox ls -A /s
    expect lacks secret
  done
  moss rm -f "$name"
  moss volume rm "$name"
}

@test "tmpfs: size, mode, read-only, and the options that a tmpfs has by default" {
  for client in moss dock; do
    run $client run --rm --mount type=tmpfs,dst=/t,tmpfs-size=1m,tmpfs-mode=1770 busybox sh -c 'grep " /t " /proc/mounts; stat -c %a /t; dd if=/dev/zero of=/t/x bs=1M count=3'
    expect contains 1770 "No space left"
    expect matches '^tmpfs /t tmpfs rw,nosuid,nodev,noexec,.*size=1024k'
    run $client run --rm --mount type=tmpfs,dst=/t,readonly busybox sh -c 'echo x >/t/x'
    expect contains "Read-only file system"
  done
  name=$(unique opts)
  COMMAND='["grep"," /t ","/proc/mounts"]' create "$name" '[{"Type":"tmpfs","Target":"/t","TmpfsOptions":{"Options":[["exec"],["uid","0"]]}}]'
  run moss start -a "$name"
  expect contains " rw,nosuid,nodev,"
  expect lacks noexec
  moss rm "$name"
}

@test "inspect shows the mounts as they were asked for and as they are, at every version, also after a restart of the engine" {
  name=$(unique show)
  asked="[{\"Type\":\"bind\",\"Source\":\"$dir\",\"Target\":\"/b\",\"ReadOnly\":true,\"BindOptions\":{\"Propagation\":\"rslave\"}},\
{\"Type\":\"volume\",\"Source\":\"$name\",\"Target\":\"/v\",\"VolumeOptions\":{\"NoCopy\":true,\"Labels\":{\"a\":\"b\"},\"DriverConfig\":{\"Name\":\"local\"}}},\
{\"Type\":\"tmpfs\",\"Target\":\"/t\",\"TmpfsOptions\":{\"SizeBytes\":1048576,\"Mode\":1023}}]"
  for v in 1.18 1.20 1.24; do
    run api POST "/v$v/containers/create?name=$name-$v" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"Mounts\":$asked}}"
    expect line -1 201
    expect equal "$(answer_of "/v$v/containers/$name-$v/json" -c .HostConfig.Mounts)" "$(jq -c . <<<"$asked")"
  done
  point=$(answer_of "/volumes/$name" -r .Mountpoint)
  points() { answer_of "/v1.24/containers/$name-1.24/json" -c '.Mounts | sort_by(.Destination)[] | [.Name,.Source,.Destination,.Driver,.Mode,.RW,.Propagation]'; }
  want="[\"\",\"$dir\",\"/b\",\"\",\"\",false,\"rslave\"]
[\"\",\"\",\"/t\",\"\",\"\",true,\"\"]
[\"$name\",\"$point\",\"/v\",\"local\",\"\",true,\"\"]"
  expect equal "$(points | sed 's/null/""/g')" "$want"
  halt_engine
  spawn_engine
  expect equal "$(points | sed 's/null/""/g')" "$want"
  expect equal "$(moss inspect "$name-1.24" | jq -c '.[0].HostConfig.Mounts')" "$(jq -c . <<<"$asked")"
  moss start "$name-1.24"
  expect equal "$(moss wait "$name-1.24")" 0
  # The layer holds nothing of them.
  run moss diff "$name-1.24"
  expect output ""
  moss rm "$name-1.18" "$name-1.20" "$name-1.24"
  moss volume rm "$name"
}

@test "image: its files are there, read only, and it stays as long as the container" {
  name=$(unique image)
  printf 'FROM busybox\nRUN mkdir -p /data/sub && echo of the image >/data/sub/file && ln -s /etc/passwd /data/out && ln -s /data/sub /data/in && ln -s / /data/root\n' |
    moss build -q -t "$name" - >/dev/null
  for client in moss dock; do
    run $client run --rm --mount "type=image,src=$name,dst=/i" busybox sh -c 'cat /i/data/sub/file; touch /i/x'
    expect contains "of the image" "Read-only file system"
    run $client run --rm --mount "type=image,src=$name,dst=/i,image-subpath=data/in" busybox sh -c 'ls /i; touch /i/x'
    expect contains file "Read-only file system"
  done
  run moss run --rm --mount "type=image,src=$name,dst=/one,image-subpath=data/sub/file" busybox cat /one
  expect output "of the image"
  # A link of the image leads to what the image has there.
  run moss run --rm --mount "type=image,src=$name,dst=/i,image-subpath=data/root" busybox ls /i/data
  expect contains in out root sub
  run moss run --rm --mount "type=image,src=$name,dst=/i,image-subpath=data/none" busybox true
  expect status 125
  expect contains "subpath data/none does not exist"

  moss create --name "$name" --mount "type=image,src=$name,dst=/i" busybox sh -c 'cat /i/data/sub/file; exec sleep 1000' >/dev/null
  expect equal "$(moss inspect "$name" | jq -c '.[0].Mounts[] | [.Type, .Source, .Destination, .RW]')" "[\"image\",\"$name\",\"/i\",false]"
  moss cp "$name:/i/data/sub/file" "$dir/copied"
  expect equal "$(<"$dir/copied")" "of the image"
  run moss cp "$dir/copied" "$name:/i/data/new"
  expect status 1
  run moss rmi "$name"
  expect status 1
  expect contains "is using its referenced image"
  moss start "$name" >/dev/null
  id=$(moss inspect --type image --format '{{.Id}}' "$name")
  run moss rmi -f "$id"
  expect status 1
  expect contains "is being used by running container"
  run moss exec "$name" cat /i/data/sub/file
  expect output "of the image"
  # An engine that ends ends the container, too; the next start has the files again.
  halt_engine
  spawn_engine
  moss start "$name" >/dev/null
  run moss exec "$name" cat /i/data/sub/file
  expect output "of the image"
  moss restart -t 0 "$name" >/dev/null
  run moss exec "$name" cat /i/data/sub/file
  expect output "of the image"
  # Another container takes it over.
  run moss run --rm --volumes-from "$name" busybox cat /i/data/sub/file
  expect output "of the image"
  moss rm -f "$name" >/dev/null
  moss rmi "$name" >/dev/null
  run moss inspect --type image "$id"
  expect contains "No such image"
}

@test "what cannot be is refused with its name, and leaves nothing behind" {
  before=$(volume_names)
  name=$(unique bad)
  refused() {
    run create "$name" "$2"
    expect line -1 "$1"
    expect contains "Mounts: " "$3"
    is_gone "$name"
  }
  refused 501 '[{"Type":"npipe","Source":"x","Target":"/x"}]' npipe
  refused 501 '[{"Type":"cluster","Source":"x","Target":"/x"}]' cluster
  refused 400 '[{"Type":"image","Target":"/x"}]' Source
  refused 400 '[{"Type":"bind","Source":"/tmp","Target":"/x","BindOptions":{"ReadOnlyNonRecursive":true}}]' ReadOnlyNonRecursive
  refused 400 '[{"Type":"image","Source":"nosuch","Target":"/x"}]' 'No such image: nosuch:latest'
  refused 400 '[{"Type":"image","Source":"busybox","Target":"/x","ImageOptions":{"Subpath":"../x"}}]' Subpath
  refused 400 '[{"Type":"bind","Source":"/tmp","Target":"/x","ImageOptions":{"Subpath":"x"}}]' ImageOptions
  refused 501 '[{"Type":"volume","Target":"/x","VolumeOptions":{"DriverConfig":{"Name":"nosuch"}}}]' 'VolumeOptions.DriverConfig.Name nosuch'
  refused 400 '[{"Target":"/x"}]' 'mount type unknown'
  refused 400 '[{"Type":"bind","Source":"rel","Target":"/x"}]' Source
  refused 400 '[{"Type":"volume","Source":"a/b","Target":"/x"}]' Source
  refused 400 '[{"Type":"volume","Source":"../x","Target":"/x"}]' Source
  refused 400 '[{"Type":"tmpfs","Source":"x","Target":"/x"}]' Source
  refused 400 '[{"Type":"tmpfs","Target":"x"}]' 'must be absolute'
  refused 400 '[{"Type":"tmpfs","Target":"/"}]' "can't be '/'"
  refused 400 '[{"Type":"tmpfs"}]' Target
  refused 400 '[{"Type":"tmpfs","Target":"/x","BindOptions":{}}]' BindOptions
  refused 400 '[{"Type":"volume","Target":"/x","ReadOnly":true}]' ReadOnly
  refused 400 '[{"Type":"volume","Source":"v1","Target":"/x","VolumeOptions":{"Subpath":"../x"}}]' Subpath
  refused 400 "[{\"Type\":\"volume\",\"Source\":\"$name\",\"Target\":\"/x\"},{\"Type\":\"tmpfs\",\"Target\":\"/x/\"}]" 'Duplicate mount point: /x'
  run api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["true"],"HostConfig":{"Mounts":{}}}'
  expect line -1 400
  run create "$name" '[{"Type":"tmpfs","Target":"/x","TmpfsOptions":{"Mode":-1}}]'
  expect line -1 400
  expect contains Mode
  # What is wrong with the driver's options is known when the volume is made; the one before it goes again.
  run create "$name" "[{\"Type\":\"volume\",\"Source\":\"$name\",\"Target\":\"/x\"},{\"Type\":\"volume\",\"Source\":\"$name-2\",\"Target\":\"/y\",\"VolumeOptions\":{\"DriverConfig\":{\"Options\":{\"type\":\"nfs\",\"device\":\":/x\",\"o\":\"addr=127.0.0.1\"}}}}]"
  expect line -1 400
  expect contains nfs
  expect equal "$(volume_names)" "$before"
  for mount in dst=/x,colour=red type=bind,dst=/x,tmpfs-size=1m src=v1 type=tmpfs,dst=/x,tmpfs-mode=9; do
    run moss run --rm --mount "$mount" busybox true
    expect status 125
    expect contains "mount \"$mount\""
  done
}

# bats test_tags=subids
@test "a container that keeps the user's id has all kinds of mounts, and owns what it makes" {
  name=$(unique keep)
  moss run --rm -v "$name:/v" busybox sh -c 'mkdir /v/sub; chmod 777 /v /v/sub'
  run moss run --rm --userns keep-id --user "$(id -u)" --mount "src=$name,dst=/s,volume-subpath=sub" --mount "type=bind,src=$dir,dst=/b" \
    --mount type=tmpfs,dst=/t,tmpfs-size=1m busybox sh -c 'for d in /s /b /t; do echo x >$d/f && stat -c "%u $d" $d/f; done'
  expect output "$(printf '%s\n' "$(id -u) /s" "$(id -u) /b" "$(id -u) /t")"
  expect equal "$(stat -c %u "$dir/f")" "$(id -u)"
  moss volume rm "$name"
}
