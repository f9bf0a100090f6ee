package launch

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestFollow has an engine that listens elsewhere and names its socket in the lock of the data folder.
func TestFollow(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, dir, lock string)
		env    string // that names the data folder
		want   bool
	}{
		{name: "named", env: "XDG_DATA_HOME", want: true},
		{name: "by HOME", env: "HOME", want: true},
		{name: "by MOSS_ROOT", env: "MOSS_ROOT", want: true},
		{name: "a folder that others can write to", env: "XDG_DATA_HOME", change: func(t *testing.T, dir, _ string) {
			check(t, os.Chmod(filepath.Join(dir, "run"), 0o777)) //nolint:gosec // that is the test
		}},
		{name: "a link for the lock", env: "XDG_DATA_HOME", change: func(t *testing.T, dir, lock string) {
			check(t, os.Rename(lock, filepath.Join(dir, "other")))
			check(t, os.Symlink(filepath.Join(dir, "other"), lock))
		}},
		{name: "a link for the socket", env: "XDG_DATA_HOME", change: func(t *testing.T, dir, _ string) {
			check(t, os.Rename(filepath.Join(dir, "run", "s"), filepath.Join(dir, "s")))
			check(t, os.Symlink(filepath.Join(dir, "s"), filepath.Join(dir, "run", "s")))
		}},
		{name: "nothing named", env: "XDG_DATA_HOME", change: func(t *testing.T, _, lock string) {
			check(t, os.WriteFile(lock, []byte("pid 1 on x\n"), 0o600))
		}},
		{name: "no data folder", env: ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "f") //nolint:usetesting // t.TempDir is too long for a socket
			check(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			root := map[string]string{"HOME": "/.local/share/moss", "XDG_DATA_HOME": "/moss"}[tc.env]
			check(t, os.MkdirAll(filepath.Join(dir, root), 0o700))
			check(t, os.Mkdir(filepath.Join(dir, "run"), 0o700))
			l, err := net.Listen("unix", filepath.Join(dir, "run", "s"))
			check(t, err)
			defer l.Close() //nolint:errcheck // it ends with the test
			lock := filepath.Join(dir, root, "lock")
			check(t, os.WriteFile(lock, []byte("pid 1 on x\nunix:///nowhere/s\nunix://"+dir+"/run/s\n"), 0o600))
			if tc.change != nil {
				tc.change(t, dir, lock)
			}
			s := &Starter{Env: func(name string) string { return map[string]string{tc.env: dir}[name] }}
			conn, ok := s.dialHolder(context.Background())
			if ok {
				_ = conn.Close()
			}
			if ok != tc.want {
				t.Errorf("follow = %t, want %t", ok, tc.want)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
