package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asEngine in the environment makes the test binary be an engine: it notes its start in a file and serves the socket.
const asEngine = "MOSS_TEST_AS_ENGINE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(asEngine); mode != "" {
		os.Exit(engine(mode, os.Args[2]))
	}
	os.Exit(m.Run())
}

func engine(mode, dir string) int {
	_, _ = fmt.Fprintln(os.Stderr, "first line\nlast words")
	switch mode {
	case "dies":
		return 3
	case "holds": // its folder, and serves nobody
		lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 1
		}
		_, _ = fmt.Fprintf(lock, "pid %d on x\n", os.Getpid())
		for { // until it is signalled; a select without cases is a deadlock to the runtime, which ends the process
			time.Sleep(time.Hour)
		}
	}
	note, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	_, _ = fmt.Fprintln(note, os.Getpid())
	if mode == "serves" && !crowded(dir) {
		return 1
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "moss.sock"))
	if err != nil {
		return 1
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "OK")
		if r.URL.Path == "/die" {
			os.Exit(0)
		}
	})}
	_ = server.Serve(listener)
	return 0
}

// starters is how many begin at once.
const starters = 5

// crowded waits until all starters of the parent process are at the start lock: one holds it, the others wait.
func crowded(dir string) bool {
	lock, err := os.Stat(filepath.Join(dir, "start.lock"))
	if err != nil {
		return false
	}
	fds := fmt.Sprintf("/proc/%d/fd/", os.Getppid())
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(time.Millisecond) {
		list, _ := os.ReadDir(fds) // descriptors come and go
		n := 0
		for _, fd := range list {
			if open, err := os.Stat(fds + fd.Name()); err == nil && os.SameFile(open, lock) {
				n++
			}
		}
		if n == starters {
			return true
		}
	}
	return false
}

func starter(t *testing.T, mode string) *Starter {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asEngine, mode)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	env := func(name string) string {
		return map[string]string{"XDG_RUNTIME_DIR": dir, "XDG_STATE_HOME": filepath.Join(dir, "state")}[name]
	}
	place, err := Find("", TLS{}, env)
	if err != nil {
		t.Fatal(err)
	}
	return &Starter{Place: place, Env: env, Binary: self}
}

func TestStartsOneEngine(t *testing.T) {
	s := starter(t, "serves")
	var all sync.WaitGroup
	for range starters {
		all.Go(func() {
			own := Starter{Place: s.Place, Env: s.Env, Binary: s.Binary}
			conn, err := own.Dial(t.Context(), s.Place.Host.Network, s.Place.Host.Address)
			if err != nil {
				t.Errorf("Dial: %v", err)
				return
			}
			_ = conn.Close()
		})
	}
	all.Wait()
	raw, err := os.ReadFile(filepath.Join(s.Place.RunDir, "starts"))
	if err != nil || strings.Count(string(raw), "\n") != 1 {
		t.Errorf("engines started: %q, %v, want one", raw, err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
		if session, err := unix.Getsid(pid); err != nil || session != pid {
			t.Errorf("the engine's session is %d, %v, want its own, %d", session, err, pid)
		}
	}
	conn, err := s.Dial(t.Context(), s.Place.Host.Network, s.Place.Host.Address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprint(conn, "GET /die HTTP/1.0\r\n\r\n")
	_, _ = conn.Read(make([]byte, 1)) // until it is gone
	_ = conn.Close()
}

// TestDialOutlastsAnEngine: one that is being stopped takes connections and hangs up; the socket goes at last.
func TestDialOutlastsAnEngine(t *testing.T) {
	s := starter(t, "serves alone")
	check(t, prepareRunDir(s.Place.RunDir))
	ending, err := net.Listen("unix", s.Place.Host.Address)
	check(t, err)
	const cut = 3
	served := make(chan error, 1)
	go func() {
		for range cut {
			conn, err := ending.Accept()
			if err != nil {
				served <- err
				return
			}
			_ = conn.Close()
		}
		_ = ending.Close()
		served <- nil
	}()
	conn, err := s.Dial(t.Context(), s.Place.Host.Network, s.Place.Host.Address)
	check(t, err)
	_ = ending.Close()
	check(t, <-served)
	_, _ = fmt.Fprint(conn, "GET /die HTTP/1.0\r\n\r\n")
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the next engine: %v", err)
	}
	_ = conn.Close()
	if raw, err := os.ReadFile(filepath.Join(s.Place.RunDir, "starts")); err != nil || strings.Count(string(raw), "\n") != 1 {
		t.Errorf("engines started: %q, %v, want one", raw, err)
	}
}

func TestEngineDiesWhileStarting(t *testing.T) {
	s := starter(t, "dies")
	_, err := s.Dial(t.Context(), s.Place.Host.Network, s.Place.Host.Address)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.HasSuffix(err.Error(), ": last words") {
		t.Errorf("Dial = %v, want the exit status and the log's last line", err)
	}
}

func TestNamedEngineIsNotStarted(t *testing.T) {
	s := starter(t, "serves")
	var err error
	if s.Place, err = Find("unix://"+filepath.Join(t.TempDir(), "moss.sock"), TLS{}, s.Env); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Dial(t.Context(), s.Place.Host.Network, s.Place.Host.Address); !isNotListening(err) {
		t.Errorf("Dial = %v, want the plain refusal", err)
	}
}

func TestStayStartsNothing(t *testing.T) {
	s := starter(t, "serves")
	s.Stay()
	if _, err := s.Dial(t.Context(), s.Place.Host.Network, s.Place.Host.Address); !isNotListening(err) {
		t.Errorf("Dial = %v, want the plain refusal", err)
	}
	if _, err := os.Stat(filepath.Join(s.Place.RunDir, "starts")); !isMissing(err) {
		t.Errorf("an engine was started: %v", err)
	}
}

func TestStartIsBounded(t *testing.T) {
	s := starter(t, "serves")
	if err := prepareRunDir(s.Place.RunDir); err != nil {
		t.Fatal(err)
	}
	release, err := takeStartLock(t.Context(), filepath.Join(s.Place.RunDir, "start.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Dial(ctx, s.Place.Host.Network, s.Place.Host.Address); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Dial while another starts = %v, want the deadline", err)
	}
}

func TestFind(t *testing.T) {
	private, open, temp := t.TempDir(), t.TempDir(), t.TempDir()
	for dir, mode := range map[string]os.FileMode{private: 0o700, open: 0o755} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	own, link := "unix://"+private+"/moss/moss.sock", filepath.Join(temp, "link")
	check(t, os.Symlink(private, link))
	uid := strconv.Itoa(os.Geteuid())
	fallback := "unix://" + filepath.Join(temp, "moss-"+uid, "moss.sock")
	if checkPrivate("/run/user/"+uid, os.Geteuid()) == nil {
		fallback = "unix:///run/user/" + uid + "/moss/moss.sock"
	}
	for _, tc := range []struct {
		name, flag string
		env        map[string]string
		want       string
	}{
		{"flag", "unix:///f", map[string]string{"MOSS_HOST": "unix:///m"}, "unix:///f"},
		{"MOSS_HOST", "", map[string]string{"MOSS_HOST": "unix:///m", "DOCKER_HOST": "unix:///d"}, "unix:///m"},
		{"DOCKER_HOST", "", map[string]string{"DOCKER_HOST": "tcp://d:1", "XDG_RUNTIME_DIR": private}, "tcp://d:1"},
		{"default", "", map[string]string{"XDG_RUNTIME_DIR": private}, "unix://" + private + "/moss/moss.sock"},
		{"default in a flag", own, map[string]string{"XDG_RUNTIME_DIR": private}, own},
		{"default in MOSS_HOST", "", map[string]string{"XDG_RUNTIME_DIR": private, "MOSS_HOST": own}, own},
		{"default in DOCKER_HOST", "", map[string]string{"XDG_RUNTIME_DIR": private, "DOCKER_HOST": own}, own},
		{"default written in another way", "unix://" + private + "/x/../moss/moss.sock", map[string]string{"XDG_RUNTIME_DIR": private}, "unix://" + private + "/x/../moss/moss.sock"},
		{"default by a link above", "unix://" + link + "/moss/moss.sock", map[string]string{"XDG_RUNTIME_DIR": private}, "unix://" + link + "/moss/moss.sock"},
		{"another name beside it", "unix://" + private + "/moss/other.sock", map[string]string{"XDG_RUNTIME_DIR": private}, "unix://" + private + "/moss/other.sock"},
		{"default without XDG_RUNTIME_DIR", "", map[string]string{"TMPDIR": temp}, fallback},
		{"default with an open XDG_RUNTIME_DIR", "", map[string]string{"XDG_RUNTIME_DIR": open, "TMPDIR": temp}, fallback},
		{"bad", "ssh://x", nil, ""},
		{"bad MOSS_HOST", "", map[string]string{"MOSS_HOST": "ssh://x"}, ""},
		{"bad DOCKER_HOST", "", map[string]string{"DOCKER_HOST": "ssh://x"}, ""},
	} {
		place, err := Find(tc.flag, TLS{}, func(name string) string { return tc.env[name] })
		if (tc.want == "") != (err != nil) || (err == nil && place.Host.String() != tc.want) {
			t.Errorf("%s: %v, %v, want %s", tc.name, place, err, tc.want)
		}
		if source, bad := strings.CutPrefix(tc.name, "bad "); bad && (err == nil || !strings.HasPrefix(err.Error(), source+": ")) {
			t.Errorf("%s: %v, want the variable's name", tc.name, err)
		}
		if err == nil && tc.env[tc.name] != "" && place.Source != tc.name {
			t.Errorf("%s: source %q", tc.name, place.Source)
		}
		if err == nil && (place.RunDir != "") != strings.HasPrefix(tc.name, "default") {
			t.Errorf("%s: run folder %q; only the default place has one", tc.name, place.RunDir)
		}
	}
}

func TestUnsafeRunFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "moss")
	if err := prepareRunDir(dir); err != nil {
		t.Errorf("prepare of a new folder = %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := prepareRunDir(dir); err == nil || !strings.Contains(err.Error(), "open to others") {
		t.Errorf("prepare of an open folder = %v, want a refusal", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := prepareRunDir(link); err == nil {
		t.Error("prepare of a link passes, want a refusal")
	}
}

func TestUnitState(t *testing.T) {
	for text, want := range map[string]unitState{
		"": unitNone,
		"ActiveState=inactive\nUnitFileState=\n\nActiveState=inactive\nUnitFileState=disabled\n":      unitNone,
		"ActiveState=inactive\nUnitFileState=enabled\n":                                               unitEnabled,
		"ActiveState=inactive\nUnitFileState=enabled\n\nActiveState=active\nUnitFileState=disabled\n": unitActive,
		"ActiveState=failed\nUnitFileState=static\n":                                                  unitNone,
	} {
		if got := unitStateOf(text); got != want {
			t.Errorf("unitStateOf(%q) = %d, want %d", text, got, want)
		}
	}
}
