package record_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"moss/engine/fault"
	"moss/engine/record"
)

type object struct {
	Name string
	Size int64
	Tags map[string]string
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestPutGet(t *testing.T) {
	for name, put := range map[string]func(string, any) error{"Put": record.Put, "PutVolatile": record.PutVolatile} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "record.json")
			for _, want := range []object{
				{Name: "first", Size: 1 << 60, Tags: map[string]string{"a": "<&>", "ü": "\u2028"}},
				{Name: "second"},
			} {
				if err := put(path, want); err != nil {
					t.Fatal(err)
				}
				var got object
				if err := record.Get(path, &got); err != nil {
					t.Fatal(err)
				}
				if got.Name != want.Name || got.Size != want.Size || !maps.Equal(got.Tags, want.Tags) {
					t.Errorf("Get = %+v, want %+v", got, want)
				}
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode(); got != 0o600 {
				t.Errorf("mode = %v, want 0600", got)
			}
			if got := names(t, dir); len(got) != 1 {
				t.Errorf("folder holds %q, want only record.json", got)
			}
		})
	}
}

func TestGetErrors(t *testing.T) {
	dir := t.TempDir()
	var v object
	if err := record.Get(filepath.Join(dir, "none.json"), &v); !fault.Is(err, fault.NotFound) {
		t.Errorf("missing file: %v, want a NotFound", err)
	}
	for name, content := range map[string]string{
		"empty": "", "torn": `{"Name":"x`, "zeros": "\x00\x00\x00", "type": `{"Size":"x"}`, "twice": `{"Name":"a"}{}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name+".json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			err := record.Get(path, &v)
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Get(%q) = %v, want an error that names %s", content, err, path)
			}
			if fault.Is(err, fault.NotFound) {
				t.Errorf("Get(%q) = %v, must not be NotFound", content, err)
			}
		})
	}
}

func TestPutErrorsKeepTheOldRecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record.json")
	if err := record.Put(path, object{Name: "old"}); err != nil {
		t.Fatal(err)
	}
	if err := record.Put(path, map[string]any{"x": func() {}}); err == nil {
		t.Error("Put of a func: no error")
	}
	// A folder in the way makes the rename fail.
	blocked := filepath.Join(dir, "blocked")
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := record.Put(blocked, object{}); err == nil {
		t.Error("Put onto a folder: no error")
	}
	if err := record.Put(filepath.Join(dir, "missing", "record.json"), object{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Put into a missing folder: %v, want ErrNotExist in its chain", err)
	}
	var got object
	if err := record.Get(path, &got); err != nil || got.Name != "old" {
		t.Errorf("Get = %+v, %v, want the old record", got, err)
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("folder holds %q, want blocked and record.json", got)
	}
}

func TestRemove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.json")
	if err := record.Put(path, object{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := record.Remove(path); err != nil {
			t.Errorf("Remove: %v", err)
		}
	}
	if err := record.Get(path, &object{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get after Remove: %v, want a NotFound", err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".record-1.tmp", ".record-22.tmp", "record.json", ".record-x", "x.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".record-d.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := record.Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(names(t, dir), " "), ".record-d.tmp .record-x record.json x.tmp"; got != want {
		t.Errorf("after Sweep: %s, want %s", got, want)
	}
	if err := record.Sweep(filepath.Join(dir, "missing")); err != nil {
		t.Errorf("Sweep of a missing folder: %v", err)
	}
}

// What is no file is no record: it is neither followed nor waited for, and never taken for a missing one.
func TestGetWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := record.Put(at("whole"), object{Name: "whole"}); err != nil {
		t.Fatal(err)
	}
	for path, target := range map[string]string{at("link"): at("whole"), at("dangling"): at("nothing")} {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(at("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "dangling", "folder", "pipe"} {
		if err := record.Get(at(name), &object{}); err == nil || fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), at(name)) {
			t.Errorf("Get of a %s: %v, want an error that names it and is no NotFound", name, err)
		}
	}
}

// TestReadersSeeWholeRecords has readers beside a writer: each read must be one of the written records.
func TestReadersSeeWholeRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.json")
	write := func(i int) {
		o := object{Name: strings.Repeat("x", i*37), Size: int64(i * 37)}
		if err := record.PutVolatile(path, o); err != nil {
			t.Error(err)
		}
	}
	write(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var o object
				if err := record.Get(path, &o); err != nil || int64(len(o.Name)) != o.Size {
					t.Errorf("Get = %d bytes of name, size %d, %v", len(o.Name), o.Size, err)
					return
				}
			}
		})
	}
	for i := range 500 {
		write(i)
	}
	close(stop)
	wg.Wait()
}

// TestFullDisk runs itself again in a mount namespace of its own, where it has a small tmpfs.
func TestFullDisk(t *testing.T) {
	const inside = "MOSS_TEST_RECORD_FULL_DISK"
	dir := os.Getenv(inside)
	if dir == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER}
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("in the namespace: %v\n%s", err, out)
		}
		return
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "record.json")
	if err := record.Put(path, object{Name: "old"}); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(string, any) error{"Put": record.Put, "PutVolatile": record.PutVolatile} {
		if err := put(path, object{Name: strings.Repeat("x", 128<<10)}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s on a full disk: %v, want ENOSPC in its chain", name, err)
		}
	}
	var got object
	if err := record.Get(path, &got); err != nil || got.Name != "old" {
		t.Errorf("Get = %q, %v, want the old record", got.Name, err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("folder holds %q, want only record.json", got)
	}
	if err := record.Put(path, object{Name: "new"}); err != nil {
		t.Errorf("Put after the full disk: %v", err)
	}
}
