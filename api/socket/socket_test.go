package socket

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"moss/engine/fault"
)

// open opens hosts until the test ends.
func open(t *testing.T, opt Options) *Set {
	t.Helper()
	s, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // A test may have closed it.
	return s
}

// reachable reports whether a connection gets into the queue.
func reachable(t *testing.T, network, address string) bool {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), network, address)
	if err != nil {
		return false
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestUnix(t *testing.T) {
	old := syscall.Umask(0) // the socket's mode must not depend on it
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "moss", "moss.sock")
	s := open(t, Options{Hosts: []string{"unix://" + path}})
	for name, want := range map[string]os.FileMode{path: os.ModeSocket | 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("mode of %s = %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if !reachable(t, "unix", path) {
		t.Error("nobody gets into the queue")
	}
	if _, err := Open(t.Context(), Options{Hosts: []string{"unix://" + path}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("the same path again = %v, want a conflict", err)
	}
	if !reachable(t, "unix", path) {
		t.Error("the second try took the first one's socket away")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after Close: %v, want it gone", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close once more = %v", err)
	}
}

// TestForeignPath: a socket that somebody has put in the place of ours is left.
func TestForeignPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := open(t, Options{Hosts: []string{"unix://" + path}})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Hosts: []string{"unix://" + path}})
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if !reachable(t, "unix", path) {
		t.Error("Close took another's socket away")
	}
}

func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Hosts: []string{"unix://" + path}})
	if !reachable(t, "unix", path) {
		t.Error("the socket of a killed engine was not replaced")
	}
}

// TestAtOnce: of many that open the same path, over a stale socket, one wins.
func TestAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	const many = 8
	results := make(chan error, many)
	for range many {
		go func() {
			s, err := Open(context.WithoutCancel(t.Context()), Options{Hosts: []string{"unix://" + path}})
			results <- err
			if err == nil {
				t.Cleanup(func() { _ = s.Close() }) // The folder goes as well.
			}
		}()
	}
	won := 0
	for range many {
		switch err := <-results; {
		case err == nil:
			won++
		case !fault.Is(err, fault.Conflict):
			t.Errorf("a loser gets %v, want a conflict", err)
		}
	}
	if won != 1 || !reachable(t, "unix", path) {
		t.Errorf("%d won, want one that can be reached", won)
	}
}

func TestRefusedHosts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { //nolint:gosec // The test is about such a folder.
		t.Fatal(err)
	}
	for _, tc := range []struct {
		host, want string
		allow      bool
		certified  bool
	}{
		{host: "", want: "want unix:///path"},
		{host: "/run/s", want: "want unix:///path"},
		{host: "http://127.0.0.1:1", want: "unknown scheme"},
		{host: "unix://relative", want: "must be absolute"},
		{host: "unix://@abstract", want: "must be absolute"},
		{host: "unix:///a\x00b", want: "zero byte"},
		{host: "unix:///" + strings.Repeat("x", 107), want: "108 bytes, the kernel allows 107"},
		{host: "unix://" + file, want: "not a socket"},
		{host: "unix://" + open + "/s", want: "others can write"},
		{host: "tcp://127.0.0.1:0", want: "must be allowed explicitly"},
		{host: "tcp://0.0.0.0:0", want: "not on the loopback", allow: true},
		{host: "tcp://example.org:0", want: "is no IP address", certified: true},
		{host: "tcp://:2375", want: "is no IP address", allow: true},
		{host: "tcp://127.0.0.1", want: "want tcp://IP:port", allow: true},
		{host: "fd://", want: "no listening socket"},
		{host: "fd://api", want: "no listening socket"},
	} {
		s, err := Open(t.Context(), Options{
			Hosts: []string{"unix://" + dir + "/first", tc.host}, AllowInsecureTCP: tc.allow, ClientCertificates: tc.certified,
		})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Open(%q) = %v, %v, want an invalid fault with %q", tc.host, s, err, tc.want)
		}
		if _, err := os.Lstat(dir + "/first"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Open(%q) left its first listener behind: %v", tc.host, err)
		}
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "precious" {
		t.Errorf("the file in the way = %q, %v, want it untouched", raw, err)
	}
	if _, err := Open(t.Context(), Options{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Open without hosts = %v, want an invalid fault", err)
	}
}

func TestTCP(t *testing.T) {
	for _, opt := range []Options{
		{Hosts: []string{"tcp://127.0.0.1:0"}, AllowInsecureTCP: true},
		{Hosts: []string{"tcp://localhost:0"}, AllowInsecureTCP: true},
		{Hosts: []string{"tcp://0.0.0.0:0"}, ClientCertificates: true},
	} {
		l, err := net.FileListener(open(t, opt).Files()[0])
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if !reachable(t, "tcp", "127.0.0.1:"+port) {
			t.Errorf("%q: nobody gets in", opt.Hosts)
		}
		_ = l.Close()
	}
}

func TestHanded(t *testing.T) {
	names := []string{"api", "other", "api"}
	handed := make([]Handed, 0, len(names))
	for _, name := range names {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() }) // The folder goes as well.
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		handed = append(handed, Handed{Name: name, File: f})
	}
	for _, tc := range []struct {
		hosts []string
		want  []int // which of handed; nil: refused
	}{
		{[]string{"fd://"}, []int{0, 1, 2}},
		{[]string{"fd://*"}, []int{0, 1, 2}},
		{[]string{"fd://api"}, []int{0, 2}},
		{[]string{"fd://4"}, []int{1}},
		{[]string{"fd://other", "fd://"}, []int{1, 0, 2}},
		{[]string{"fd://6"}, nil},
		{[]string{"fd://none"}, nil},
		{[]string{"fd://-1"}, nil},
	} {
		s, err := Open(t.Context(), Options{Hosts: tc.hosts, Handed: handed})
		if tc.want == nil {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "4 (other)") {
				t.Errorf("%q: %v, want an invalid fault that lists what there is", tc.hosts, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := s.Files()
		if len(got) != len(tc.want) {
			t.Fatalf("%q: %d sockets, want %v", tc.hosts, len(got), tc.want)
		}
		for i, n := range tc.want {
			if got[i] != handed[n].File {
				t.Errorf("%q: socket %d is %s, want number %d", tc.hosts, i, got[i].Name(), n)
			}
		}
	}
}

// TestHandedToEverybody holds that sockets of others' making are no wider open than those that are opened here.
func TestHandedToEverybody(t *testing.T) {
	open, err := os.MkdirTemp("/tmp", "handed") //nolint:usetesting // That of testing is in a folder that is closed to others.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(open) }) // It is a temporary one.
	shut := t.TempDir()
	for dir, mode := range map[string]os.FileMode{open: 0o755, shut: 0o700} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		address string
		mode    os.FileMode
		want    string // empty: it is taken
	}{
		{filepath.Join(open, "all"), 0o666, "every user of this machine"},
		{filepath.Join(open, "group"), 0o660, ""},
		{filepath.Join(open, "own"), 0o600, ""},
		{filepath.Join(shut, "all"), 0o666, ""},
		{"@" + filepath.Base(open), 0, "no file"},
	} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tc.address, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() }) // The folder goes as well.
		if tc.mode != 0 {
			if err := os.Chmod(tc.address, tc.mode); err != nil {
				t.Fatal(err)
			}
		}
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Options{Hosts: []string{"fd://"}, Handed: []Handed{{File: f}}})
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s with mode %04o: %v, want it taken", tc.address, tc.mode, err)
		case tc.want != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s with mode %04o: %v, %v, want an invalid fault with %q", tc.address, tc.mode, s, err, tc.want)
		}
		if s != nil {
			_ = s.Close() // It has opened nothing.
		}
	}
	if _, err := Open(t.Context(), Options{Hosts: []string{"fd://"}, Handed: []Handed{{File: os.Stdin}}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("what does not listen: %v, want an invalid fault", err)
	}
}

func TestGroup(t *testing.T) {
	gid := os.Getegid()
	base := t.TempDir()
	made := filepath.Join(base, "made", "s")
	s := open(t, Options{Hosts: []string{"unix://" + made}, Group: strconv.Itoa(gid)})
	for name, want := range map[string]os.FileMode{made: os.ModeSocket | 0o660, filepath.Dir(made): os.ModeDir | 0o710} {
		info, err := os.Stat(name)
		if err != nil || info.Mode() != want {
			t.Errorf("mode of %s = %v, %v, want %v", name, info.Mode(), err, want)
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Gid) != gid {
			t.Errorf("group of %s = %d, want %d", name, stat.Gid, gid)
		}
	}
	if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "cannot reach") {
		t.Errorf("Notes = %q, want a word about the closed folder above", notes)
	}
	for _, group := range []string{"no-such-group", "4294967295", "-1", strconv.Itoa(foreignGroup(t))} {
		path := filepath.Join(base, "refused")
		if _, err := Open(t.Context(), Options{Hosts: []string{"unix://" + path}, Group: group}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), group) {
			t.Errorf("group %q: %v, want an invalid fault that names it", group, err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("group %q: a socket is left: %v", group, err)
		}
	}
}

// foreignGroup returns a group that this process is not in.
func foreignGroup(t *testing.T) int {
	t.Helper()
	mine, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	own := map[int]bool{os.Getegid(): true}
	for _, g := range mine {
		own[g] = true
	}
	gid := 1
	for own[gid] {
		gid++
	}
	return gid
}
