package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"moss/engine/damage"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/id"
)

// told keeps the events.
type told struct {
	mu   sync.Mutex // guards list
	list []string
}

func (l *told) Publish(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, e.Type+" "+e.Action+" "+e.ID+" "+e.Attributes["driver"])
}

func open(t *testing.T, dir string) (*Store, *told) {
	t.Helper()
	events := &told{}
	s, err := Open(Options{Dir: dir, Events: events, Log: zerolog.Nop(), Damage: damage.New(filepath.Dir(dir), nil)})
	if err != nil {
		t.Fatal(err)
	}
	return s, events
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, s *Store, filters map[string][]string) []string {
	t.Helper()
	list, err := s.List(filters)
	must(t, err)
	names := make([]string, 0, len(list))
	for _, v := range list {
		names = append(names, v.Name)
	}
	return names
}

func TestLifeOfAVolume(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	s, events := open(t, dir)
	made, err := s.Create(ctx, CreateOptions{Name: "data", Driver: "local", Labels: map[string]string{"a": "1"}})
	must(t, err)
	if made.Mountpoint != filepath.Join(dir, "data", "_data") || made.Driver != DriverLocal || made.CreatedAt.IsZero() {
		t.Errorf("created %+v", made)
	}
	must(t, os.WriteFile(filepath.Join(made.Mountpoint, "file"), []byte("kept"), 0o600))
	if again, err := s.Create(ctx, CreateOptions{Name: "data", Labels: map[string]string{"b": "2"}}); err != nil || again != made {
		t.Errorf("created again: %+v, %v, want the first one", again, err)
	}
	s, _ = open(t, dir) // the next engine
	found, err := s.Get("data")
	must(t, err)
	if found.Mountpoint != made.Mountpoint || found.Labels["a"] != "1" || !found.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("after a restart %+v, want %+v", found, made)
	}
	if raw, err := os.ReadFile(filepath.Join(found.Mountpoint, "file")); err != nil || string(raw) != "kept" {
		t.Errorf("data after a restart: %q, %v", raw, err)
	}
	s.opt.Events = events
	must(t, s.Remove(ctx, "data"))
	if err := s.Remove(ctx, "data"); !fault.Is(err, fault.NotFound) {
		t.Errorf("second Remove = %v, want fault.NotFound", err)
	}
	if _, err := s.Get("data"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get = %v, want fault.NotFound", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if want := []string{"volume create data local", "volume destroy data local"}; !slices.Equal(events.list, want) {
		t.Errorf("events %q, want %q", events.list, want)
	}
	if len(s.entries) != 0 {
		t.Errorf("the store remembers %d names", len(s.entries))
	}
}

func TestCreateRefuses(t *testing.T) {
	s, events := open(t, t.TempDir())
	for _, tc := range []struct {
		opt  CreateOptions
		like fault.Constructor
		want string
	}{
		{CreateOptions{Name: "a"}, fault.Invalid, "too short"},
		{CreateOptions{Name: "../x"}, fault.Invalid, "invalid characters"},
		{CreateOptions{Name: ".new-x"}, fault.Invalid, "invalid characters"},
		{CreateOptions{Name: "-x"}, fault.Invalid, "invalid characters"},
		{CreateOptions{Name: "a/b"}, fault.Invalid, "use absolute path"},
		{CreateOptions{Name: "a\x00b"}, fault.Invalid, "invalid characters"},
		{CreateOptions{Name: strings.Repeat("a", 256)}, fault.Invalid, "up to 255"},
		{CreateOptions{Name: "ok", Driver: "nfs"}, fault.NotFound, `plugin "nfs" not found`},
		{CreateOptions{Name: "ok", Options: map[string]string{"size": "1"}}, fault.Invalid, `invalid option: "size"`},
	} {
		if _, err := s.Create(t.Context(), tc.opt); !fault.Is(err, tc.like) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Create(%+v) = %v, want %q", tc.opt, err, tc.want)
		}
	}
	v, err := s.Create(t.Context(), CreateOptions{Options: map[string]string{"type": "tmpfs"}})
	must(t, err)
	if !id.Is(v.Name) || v.Status()["type"] != "tmpfs" {
		t.Errorf("created %+v, want a name of hex digits", v)
	}
	if _, err := s.Create(t.Context(), CreateOptions{Name: v.Name, Options: map[string]string{"o": "bind", "device": "/"}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("Create with other options = %v, want fault.Conflict", err)
	}
	if len(events.list) != 1 {
		t.Errorf("events %q, want one", events.list)
	}
}

func TestList(t *testing.T) {
	s, _ := open(t, t.TempDir())
	for _, name := range []string{"web-1", "web-2", "db-1"} {
		_, _, err := s.Hold(t.Context(), CreateOptions{Name: name}, "c-"+name)
		must(t, err)
	}
	s.Release("web-2", "c-web-2")
	_, err := s.Create(t.Context(), CreateOptions{Name: "noted", Labels: map[string]string{"team": "a", "stage": "test"}})
	must(t, err)
	s.entries["noted"].users["c"] = true
	for _, tc := range []struct {
		filters map[string][]string
		want    string
	}{
		{nil, "db-1 noted web-1 web-2"},
		{map[string][]string{"name": {"web"}}, "web-1 web-2"},
		{map[string][]string{"name": {"-1", "nothing"}}, "db-1 web-1"},
		{map[string][]string{"name": {"^web-1$"}}, "web-1"},
		{map[string][]string{"name": {"^eb", "d.*1"}}, "db-1"},
		{map[string][]string{"driver": {"loc"}, "dangling": {"1"}}, "web-2"},
		{map[string][]string{"dangling": {"False"}}, "db-1 noted web-1"},
		{map[string][]string{"driver": {"nfs"}}, ""},
		{map[string][]string{"label": {"team"}}, "noted"},
		{map[string][]string{"label": {"team=a", "stage"}}, "noted"},
		{map[string][]string{"label": {"team=a", "stage=live"}}, ""},
		{map[string][]string{"label": {"tea"}}, ""},
	} {
		if got := strings.Join(names(t, s, tc.filters), " "); got != tc.want {
			t.Errorf("List(%v) = %q, want %q", tc.filters, got, tc.want)
		}
	}
	for _, filters := range []map[string][]string{{"dangling": {"x"}}, {"dangling": {"true", "0"}}, {"name": {"["}}, {"colour": {"a"}}} {
		if _, err := s.List(filters); !fault.Is(err, fault.Invalid) {
			t.Errorf("List(%v) = %v, want fault.Invalid", filters, err)
		}
	}
}

func TestUsersKeepAVolume(t *testing.T) {
	s, _ := open(t, t.TempDir())
	ctx := t.Context()
	if _, err := s.Join(ctx, "data", "one"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Join of none = %v, want fault.NotFound", err)
	}
	v, made, err := s.Hold(ctx, CreateOptions{Name: "data"}, "one")
	must(t, err)
	if _, _, err := s.Hold(ctx, CreateOptions{Name: "data", Options: options("type=tmpfs")}, "refused"); !fault.Is(err, fault.Conflict) {
		t.Fatalf("Hold with other options: %v, want fault.Conflict", err)
	}
	again, madeAgain, err := s.Hold(ctx, CreateOptions{Name: "data"}, "two")
	must(t, err)
	if !made || madeAgain || v != again {
		t.Errorf("made %v, then %v", made, madeAgain)
	}
	if _, err := s.Join(ctx, "data", "two"); err != nil { // twice is as once
		t.Error(err)
	}
	err = s.Remove(ctx, "data")
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "volume is in use - [one, two]") {
		t.Errorf("Remove = %v, want a conflict with the users", err)
	}
	s.Release("data", "one")
	s.Release("data", "nobody")
	s.Release("nothing", "one")
	if err := s.Remove(ctx, "data"); !fault.Is(err, fault.Conflict) {
		t.Errorf("Remove = %v, want fault.Conflict", err)
	}
	s.Release("data", "two")
	must(t, s.Remove(ctx, "data"))
}

func TestOpenAfterACrash(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	for _, name := range []string{"good", "copying", "damaged", "settled", "pending", "shared"} {
		_, _, err := s.Hold(t.Context(), CreateOptions{Name: name}, "gone")
		must(t, err)
	}
	must(t, s.Settle("settled"))
	must(t, s.Settle("settled"))
	data := func(name, file string) string { return filepath.Join(dir, name, "_data", file) }
	for _, name := range []string{"good", "damaged"} {
		must(t, os.WriteFile(data(name, "file"), nil, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "copying", "_copy"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "damaged", "volume.json"), []byte(`{"Name":"good","Labels":{"a":"b"}}`), 0o600))
	for _, half := range []string{".new-1/_data", ".gone-2/_data/x", "empty"} {
		must(t, os.MkdirAll(filepath.Join(dir, half), 0o700))
	}
	s, events := open(t, dir)
	if got, want := names(t, s, nil), []string{"copying", "damaged", "good", "pending", "settled", "shared"}; !slices.Equal(got, want) {
		t.Errorf("volumes %q, want %q", got, want)
	}
	for _, path := range []string{".new-1", ".gone-2", "copying/_copy"} {
		if _, err := os.Lstat(filepath.Join(dir, path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	// "one" is there and was what good and damaged were made for; "gone" never came into being.
	for _, name := range []string{"good", "damaged", "copying"} {
		must(t, os.WriteFile(filepath.Join(dir, name, pendingName), []byte("one"), 0o600))
	}
	users := map[string][]string{"one": {"good", "lost"}, "two": {"shared"}}
	must(t, s.Restore(t.Context(), users, func(string) bool { return false }))
	if got, want := names(t, s, nil), []string{"copying", "damaged", "good", "settled", "shared"}; !slices.Equal(got, want) {
		t.Errorf("volumes after Restore %q, want %q", got, want)
	}
	if want := []string{"volume destroy pending local"}; !slices.Equal(events.list, want) {
		t.Errorf("events %q, want %q", events.list, want)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", pendingName))
	if err != nil || len(left) != 0 {
		t.Errorf("not settled: %v, %v", left, err)
	}
	if _, err := os.Stat(data("damaged", "file")); err != nil {
		t.Errorf("data of the damaged one: %v", err)
	}
	if v, err := s.Get("damaged"); err != nil || len(v.Labels) > 0 {
		t.Errorf("the damaged one is %+v, %v; want it without labels", v, err)
	}
	if found, err := damage.New(filepath.Dir(dir), nil).All(); err != nil || len(found) != 2 || found[0].Path != filepath.Base(dir)+"/damaged/volume.json" || found[1].Path != filepath.Base(dir)+"/empty" {
		t.Errorf("set aside: %v, %v; want its record, and the folder without data", found, err)
	}
	if got := names(t, s, map[string][]string{"dangling": {"false"}}); !slices.Equal(got, []string{"good", "shared"}) {
		t.Errorf("in use: %q", got)
	}
	// What a record names and the disk has lost is made again.
	if _, err := s.Mount(t.Context(), "lost", "one", ""); !fault.Is(err, fault.NotFound) {
		t.Errorf("Mount of the lost one = %v, want fault.NotFound", err)
	}
	if _, made, err := s.Hold(t.Context(), CreateOptions{Name: "lost"}, "one"); err != nil || !made {
		t.Errorf("Hold of the lost one: made %v, %v", made, err)
	}
}

func TestMountSources(t *testing.T) {
	s, _ := open(t, t.TempDir())
	device := t.TempDir()
	plain, err := s.Create(t.Context(), CreateOptions{Name: "plain"})
	must(t, err)
	_, err = s.Create(t.Context(), CreateOptions{Name: "bound", Options: map[string]string{"o": "bind,ro", "device": device + "/"}})
	must(t, err)
	for name, want := range map[string]Source{"plain": {Dir: plain.Mountpoint}, "bound": {Dir: device, ReadOnly: true}} {
		if got, err := s.Mount(t.Context(), name, "c", ""); err != nil || got != want {
			t.Errorf("Mount(%s) = %+v, %v, want %+v", name, got, err, want)
		}
		must(t, s.Unmount(t.Context(), name, "c"))
	}
	must(t, os.Remove(device))
	if _, err := s.Mount(t.Context(), "bound", "c", ""); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), device) {
		t.Errorf("Mount without its device = %v, want fault.Invalid that names it", err)
	}
	must(t, s.Unmount(t.Context(), "nothing", "c"))
}

// TestHoldAgainstRemove has containers come and go while somebody removes: who holds a volume has it.
func TestHoldAgainstRemove(t *testing.T) {
	s, _ := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var users, removers sync.WaitGroup
	for range 2 {
		removers.Go(func() {
			for ctx.Err() == nil {
				err := s.Remove(ctx, "data")
				if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) && !errors.Is(err, context.Canceled) {
					t.Errorf("Remove = %v", err)
					return
				}
			}
		})
	}
	for i := range 4 {
		users.Go(func() {
			for round := range 25 {
				containerID := strconv.Itoa(i)
				v, _, err := s.Hold(t.Context(), CreateOptions{Name: "data"}, containerID)
				if err != nil {
					t.Errorf("Hold = %v", err)
					return
				}
				path := filepath.Join(v.Mountpoint, fmt.Sprint(i, "-", round))
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Errorf("the volume is gone while it is held: %v", err)
				}
				s.Release("data", containerID)
			}
		})
	}
	users.Wait()
	cancel()
	removers.Wait()
	if err := s.Remove(t.Context(), "data"); err != nil && !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	if len(s.entries) != 0 {
		t.Errorf("the store remembers %v", s.entries)
	}
}

func TestParseOptions(t *testing.T) {
	for text, want := range map[string]backing{
		"":                         {},
		"type=tmpfs":               {kind: kindTmpfs, device: "tmpfs"},
		"type=tmpfs;device=x;o=":   {kind: kindTmpfs, device: "x"},
		"type=tmpfs;o=ro,size=50%": {kind: kindTmpfs, device: "tmpfs", data: "size=50%", readOnly: true},
		"type=tmpfs;o=size=1m,rw,uid=5,gid=6,mode=1777,nr_inodes=9k": {kind: kindTmpfs, device: "tmpfs", data: "size=1m,uid=5,gid=6,mode=1777,nr_inodes=9k"},
		"type=none;o=bind;device=/a/../b":                            {kind: kindBind, device: "/b"},
		"o=rbind,ro;device=/a":                                       {kind: kindBind, device: "/a", readOnly: true},
		"o=bind,nodev,noexec,nodev;device=/a":                        {kind: kindBind, device: "/a", flags: "nodev,noexec"},
		"type=tmpfs;o=exec,dev,nosuid,size=1k":                       {kind: kindTmpfs, device: "tmpfs", data: "size=1k", flags: "nosuid"},
	} {
		if got, err := parseOptions(options(text)); err != nil || got != want {
			t.Errorf("parseOptions(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"type=nfs;device=:/x", "type=bind;device=/a", "o=bind", "o=bind;device=a", "o=bind,sync;device=/a", "o=bind,noexec,exec;device=/a", "type=ext4;o=bind;device=/a",
		"type=tmpfs;o=noatime", "type=tmpfs;o=size=", "type=tmpfs;o=size=k", "type=tmpfs;o=mode=9", "type=tmpfs;o=mode=17777", "type=tmpfs;o=nr_inodes=5%",
		"type=tmpfs;o=uid=4294967295", "type=tmpfs;o=uid=-1", "size=1", "device=/a", "type=tmpfs;o=size=1,mpol=x", "type=none;o=ro;device=/a",
	} {
		if got, err := parseOptions(options(text)); !fault.Is(err, fault.Invalid) {
			t.Errorf("parseOptions(%q) = %+v, %v, want fault.Invalid", text, got, err)
		}
	}
}

func options(text string) map[string]string {
	parsed := map[string]string{}
	for pair := range strings.SplitSeq(text, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			parsed[key] = value
		}
	}
	return parsed
}

func FuzzParseOptions(f *testing.F) {
	f.Add("tmpfs", "tmpfs", "size=1m,ro")
	f.Add("none", "/a", "bind")
	f.Fuzz(func(t *testing.T, kind, device, o string) {
		b, err := parseOptions(map[string]string{"type": kind, "device": device, "o": o})
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("error %v is not fault.Invalid", err)
			}
			return
		}
		if b.kind == kindFolder || b.kind == kindBind && !filepath.IsAbs(b.device) || strings.ContainsAny(b.data+b.device, "\x00") {
			t.Errorf("parseOptions(%q, %q, %q) = %+v", kind, device, o, b)
		}
	})
}

func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"data", "../x", ".new-1", "a", "a_b.c-d"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) == nil && (name[0] == '.' || filepath.Base(name) != name || len(name) > 255 || len(name) < 2) {
			t.Errorf("CheckName(%q) takes it", name)
		}
	})
}
