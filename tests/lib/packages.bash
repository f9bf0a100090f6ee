# shellcheck shell=bash
# An image with this machine's own apt, dpkg and rpm, and packages of ours for them: nothing is fetched.

# take TREE PROGRAM...: copies programs of this machine and the libraries that they need, to where they are here.
take() {
  local tree=$1 program library
  shift
  for program in "$@"; do
    program=$(command -v "$program") || fail "$program is missing: hack/install-deps.sh --for test" || return
    cp -L --parents --remove-destination "$program" "$tree"
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
      [ -e "$tree/$library" ] || cp -L --parents "$library" "$tree"
    done
  done
}

# deb FILE: a package of dpkg's whose only file belongs to www, as its folder does once it is set up.
deb() {
  local dir
  dir=$(mktemp -d "$MOSS_DIR/deb.XXXXXX")
  mkdir -p "$dir/control" "$dir/data/srv/deb"
  echo data >"$dir/data/srv/deb/file"
  chmod 0755 "$dir"/{control,data,data/srv,data/srv/deb}
  printf '%s\n' 'Package: moss-deb' 'Version: 1' 'Architecture: all' 'Maintainer: nobody' 'Description: a test' >"$dir/control/control"
  printf '#!/bin/sh\nset -e\nchown www:www /srv/deb\nsu www -s /bin/sh -c "touch /srv/deb/made"\n' >"$dir/control/postinst"
  chmod 0755 "$dir/control/postinst"
  tar -C "$dir/control" --owner=0 --group=0 -cf "$dir/control.tar" .
  tar -C "$dir/data" --owner=www:33 --group=www:33 -cf "$dir/data.tar" .
  echo 2.0 >"$dir/debian-binary"
  (cd "$dir" && ar rc "$1" debian-binary control.tar data.tar)
}

# rpm_file FILE: the same for rpm.
rpm_file() {
  local dir
  dir=$(mktemp -d "$MOSS_DIR/rpm.XXXXXX")
  cat >"$dir/moss-rpm.spec" <<'SPEC'
Name: moss-rpm
Version: 1
Release: 1
Summary: a test
License: none
BuildArch: noarch
%description
A test.
%install
mkdir -p %{buildroot}/srv/rpm
echo data >%{buildroot}/srv/rpm/file
%post
chown www:www /srv/rpm
su www -s /bin/sh -c "touch /srv/rpm/made"
%files
%attr(0755, root, root) %dir /srv/rpm
%attr(0640, www, www) /srv/rpm/file
SPEC
  HOME=$dir rpmbuild -bb --quiet --define "_topdir $dir" --define '_binary_payload w.ufdio' "$dir/moss-rpm.spec" >"$dir/log" 2>&1 ||
    fail "rpmbuild: $(cat "$dir/log")" || return
  cp "$dir"/RPMS/noarch/moss-rpm-1-1.noarch.rpm "$1"
}

# import_packages IMAGE: the image. Its packages are /repo/moss-deb.deb and /repo/moss-rpm.rpm, and /repo is a source of apt's.
import_packages() {
  local tree=$MOSS_DIR/packages
  [ -e "$MOSS_DIR/busybox.tar" ] || busybox_tar "$MOSS_DIR/busybox.tar"
  mkdir "$tree"
  tar -C "$tree" --no-same-owner -xf "$MOSS_DIR/busybox.tar"
  mkdir -p "$tree"/{repo,sbin,usr/lib/apt,srv,var/log/apt} "$tree"/etc/apt/{apt.conf.d,preferences.d,sources.list.d,trusted.gpg.d} \
    "$tree"/var/lib/{apt/lists/partial,dpkg/info,dpkg/updates,dpkg/triggers,rpm} "$tree/var/cache/apt/archives/partial"
  take "$tree" apt-get dpkg dpkg-deb dpkg-split dpkg-query tar rpm /usr/lib/apt/methods/file /usr/lib/apt/methods/copy /usr/lib/apt/methods/store
  cp -rL --parents /usr/share/dpkg "$tree" # its table of architectures
  mkdir -p "$tree/usr/lib/rpm" && cp -rL /usr/lib/rpm/{macros,macros.d,rpmrc,platform} "$tree/usr/lib/rpm/"
  ln -sf ../bin/true "$tree/sbin/ldconfig" # dpkg wants to see one
  echo '_apt:x:42:65534::/nonexistent:/bin/false' >>"$tree/etc/passwd"
  : >"$tree/var/lib/dpkg/status"
  deb "$tree/repo/moss-deb.deb"
  rpm_file "$tree/repo/moss-rpm.rpm"
  {
    dpkg-deb --field "$tree/repo/moss-deb.deb"
    printf 'Filename: ./moss-deb.deb\nSize: %s\nSHA256: %s\n' "$(stat -c %s "$tree/repo/moss-deb.deb")" "$(sha256sum <"$tree/repo/moss-deb.deb" | cut -d ' ' -f 1)"
  } >"$tree/repo/Packages"
  echo 'deb [trusted=yes] file:/repo ./' >"$tree/etc/apt/sources.list"
  chmod -R go+rX "$tree"
  tar -C "$tree" --owner=0 --group=0 -cf "$MOSS_DIR/packages.tar" .
  rm -rf "$tree"
  moss import "$MOSS_DIR/packages.tar" "$1" >/dev/null
  rm "$MOSS_DIR/packages.tar"
}
