package uplink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/fault"
)

// fakes are programs that start and end as a test says.
type fakes struct {
	mu      sync.Mutex       // guards all
	broken  map[string]error // by the program's name: it does not start
	running *process
	starts  []time.Time
	killed  int
}

func (f *fakes) start(p program, _ place) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts = append(f.starts, time.Now())
	if err := f.broken[p.name]; err != nil {
		return nil, err
	}
	run := &process{pid: 1000 + len(f.starts), ended: make(chan error, 1)}
	run.kill = func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.killed++
		run.ended <- errors.New("killed")
		return nil
	}
	f.running = run
	return run, nil
}

func (f *fakes) breaks(broken map[string]error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

func fakeSupervisor(t *testing.T, f *fakes, names ...string) *supervisor {
	t.Helper()
	programs := make([]program, 0, len(names))
	for _, name := range names {
		programs = append(programs, program{name: name})
	}
	s := newSupervisor(Config{StateDir: t.TempDir(), MTU: DefaultMTU}, "", io.Discard, programs...)
	s.start, s.tap = f.start, func(int, string, string) error { return nil }
	return s
}

// TestStartsAgain: at once, then ever more seldom, and at once again after a long life.
func TestStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		s := fakeSupervisor(t, f, Slirp4netns)
		msg, stop, err := s.ConfigureNetwork(1, "", "/netns")
		if err != nil {
			t.Fatal(err)
		}
		if msg.Dev != Device || msg.IP != "10.0.2.100" || msg.Netmask != 24 || msg.Gateway != "10.0.2.2" || msg.MTU != DefaultMTU {
			t.Errorf("the child is told %+v", msg)
		}
		if got, err := ReadStatus(s.cfg.StateDir); err != nil || got.Driver != Slirp4netns || got.PID != 1001 || got.Restarts != 0 {
			t.Errorf("status at first: %+v, %v", got, err)
		}
		for i, milliseconds := range []int{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			want := time.Duration(milliseconds) * time.Millisecond
			died := time.Now()
			f.running.ended <- errors.New("crashed")
			synctest.Wait()
			if got, _ := ReadStatus(s.cfg.StateDir); got.PID != 0 || got.Error != "crashed" || got.Restarts != i {
				t.Errorf("status after death %d: %+v", i+1, got)
			}
			time.Sleep(want + 1)
			synctest.Wait()
			if got := f.starts[len(f.starts)-1].Sub(died); len(f.starts) != i+2 || got != want {
				t.Errorf("start %d comes %s after the death, want %s", len(f.starts), got, want)
			}
			if got, _ := ReadStatus(s.cfg.StateDir); got.PID != f.running.pid || got.Restarts != i+1 {
				t.Errorf("status after start %d: %+v", len(f.starts), got)
			}
		}
		time.Sleep(steady)
		died := time.Now()
		f.running.ended <- errors.New("crashed")
		time.Sleep(firstDelay + 1)
		synctest.Wait()
		if got := f.starts[len(f.starts)-1].Sub(died); got != firstDelay {
			t.Errorf("after a long life the start comes after %s, want %s", got, firstDelay)
		}
		if err := stop(); err != nil || f.killed != 1 {
			t.Errorf("stop: %v, %d killed", err, f.killed)
		}
	})
}

// TestDoesNotStart: one that cannot start again is tried until it can; the reason stands in the status.
func TestDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{}
		s := fakeSupervisor(t, f, Pasta)
		_, stop, err := s.ConfigureNetwork(1, "", "/netns")
		if err != nil {
			t.Fatal(err)
		}
		f.breaks(map[string]error{Pasta: errors.New("no route")})
		f.running.ended <- errors.New("crashed")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, _ := ReadStatus(s.cfg.StateDir); got.PID != 0 || got.Error != "no route" || len(f.starts) < 10 {
			t.Errorf("status %+v after %d starts", got, len(f.starts))
		}
		f.breaks(nil)
		time.Sleep(mostDelay)
		synctest.Wait()
		if got, _ := ReadStatus(s.cfg.StateDir); got.PID != f.running.pid || got.Restarts != 1 {
			t.Errorf("status %+v", got)
		}
		f.running.ended <- errors.New("crashed")
		synctest.Wait()
		before := len(f.starts)
		if err := stop(); err != nil { // while it waits
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if f.killed != 0 || len(f.starts) != before {
			t.Errorf("after the stop: %d killed, %d more starts", f.killed, len(f.starts)-before)
		}
	})
}

func TestTakesTheFirstThatWorks(t *testing.T) {
	no, neither := errors.New("pasta: no route"), errors.New("slirp4netns: no tap")
	for _, tc := range []struct {
		name   string
		broken map[string]error
		driver string
		reason string
	}{
		{"both work", nil, Pasta, ""},
		{"pasta does not", map[string]error{Pasta: no}, Slirp4netns, "pasta: no route"},
		{"none does", map[string]error{Pasta: no, Slirp4netns: neither}, "", ""},
	} {
		s := fakeSupervisor(t, &fakes{broken: tc.broken}, Pasta, Slirp4netns)
		_, stop, err := s.ConfigureNetwork(1, "", "/netns")
		if tc.driver == "" {
			if !errors.Is(err, no) || !errors.Is(err, neither) {
				t.Errorf("%s: ConfigureNetwork = %v, want both reasons", tc.name, err)
			}
			if _, err := ReadStatus(s.cfg.StateDir); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: status: %v, want none", tc.name, err)
			}
			continue
		}
		got, rerr := ReadStatus(s.cfg.StateDir)
		if err != nil || rerr != nil || got.Driver != tc.driver || got.Reason != tc.reason {
			t.Errorf("%s: status %+v, %v, %v; want driver %q, reason %q", tc.name, got, err, rerr, tc.driver, tc.reason)
		}
		if info, err := s.Info(context.Background()); err != nil || info.Driver != tc.driver {
			t.Errorf("%s: Info() = %+v, %v", tc.name, info, err)
		}
		if err := stop(); err != nil {
			t.Errorf("%s: stop: %v", tc.name, err)
		}
	}
}

// script is a program of sh that says on descriptor 3 that it is ready.
func script(text string) program {
	return program{
		name: "script", binary: "/bin/sh", notify: readyPipe, explain: func(said error) error { return said },
		args: func(place) []string { return []string{"-c", text} },
	}
}

func TestProgram(t *testing.T) {
	var log bytes.Buffer
	run, err := script("echo hello; echo 1 >&3; echo last words >&2; exit 3").start(place{}, &log)
	if err != nil {
		t.Fatal(err)
	}
	if why := <-run.ended; why.Error() != "exit status 3:\nhello\nlast words" {
		t.Errorf("the end is explained by %q", why)
	}
	if got := log.String(); got != "hello\nlast words\n" {
		t.Errorf("the log got %q", got)
	}
	_, err = script("echo cannot >&2; exit 4").start(place{}, io.Discard)
	if err == nil || err.Error() != "start script: exit status 4:\ncannot" {
		t.Errorf("one that ends before it is ready: %v", err)
	}
	begin := time.Now()
	if _, err = script("exec 3>&-; exec sleep 60").start(place{}, io.Discard); err == nil || time.Since(begin) > startWait {
		t.Errorf("one that will never be ready: %v", err)
	}
	if _, err = (program{name: "x", binary: t.TempDir() + "/none", notify: readyPipe, args: script("").args}).start(place{}, io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
	run, err = script("echo 1 >&3; exec sleep 60").start(place{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	_ = run.killAndWait()
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(run.pid))); !os.IsNotExist(err) {
		t.Errorf("the process is still there: %v", err)
	}
}

// TestReadyAndEnded has both news there at once: whichever is seen first, a process that was ready has started.
func TestReadyAndEnded(t *testing.T) {
	for _, tc := range []struct{ said, want string }{{"1", ""}, {"", "over"}} {
		for range 200 {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.WriteString(tc.said); err != nil {
				t.Fatal(err)
			}
			p := &process{kill: func() error { return nil }, ended: make(chan error, 1)}
			p.ended <- errors.New("over")
			got := ""
			if err := p.awaitReady(r); err != nil {
				got = err.Error()
			}
			if got != tc.want || got == "" && len(p.ended) != 1 {
				t.Fatalf("await of what said %q and ended = %q, want %q and the end still to be heard of", tc.said, got, tc.want)
			}
			if err := errors.Join(r.Close(), w.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestReadyFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	for range 2 { // the second time in the place of the first
		p := script(`echo $$ >` + path + `; exec sleep 60`)
		p.notify = func(*exec.Cmd) (*os.File, error) { return readyFIFO(path) }
		run, err := p.start(place{}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		_ = run.killAndWait()
	}
	p := script("exit 5")
	p.notify = func(*exec.Cmd) (*os.File, error) { return readyFIFO(path) }
	if _, err := p.start(place{}, io.Discard); err == nil || !strings.Contains(err.Error(), "exit status 5") {
		t.Errorf("one that ends before it is ready: %v", err)
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	if err := Watch(context.Background(), dir, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("Watch of nothing = %v, want a NotFound fault", err)
	}
	put := func(s Status) {
		t.Helper()
		if err := s.writeTo(dir); err != nil {
			t.Fatal(err)
		}
	}
	put(Status{Driver: Pasta, PID: 1})
	ctx, cancel := context.WithCancel(context.Background())
	seen, ended := make(chan Status), make(chan error)
	go func() { ended <- Watch(ctx, dir, func(s Status) { seen <- s }) }()
	next := func(pid int) {
		t.Helper()
		select {
		case got := <-seen:
			if got.PID != pid || got.At.IsZero() {
				t.Errorf("seen %+v, want pid %d", got, pid)
			}
		case <-time.After(time.Minute):
			t.Fatalf("pid %d not seen", pid)
		}
	}
	next(1)
	put(Status{Driver: Pasta, PID: 2})
	next(2)
	if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	put(Status{Driver: Pasta, PID: 3})
	next(3)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Watch = %v", err)
	}
}

func TestHostTarget(t *testing.T) {
	for _, tc := range []struct {
		driver   string
		loopback bool
		to       string
		lead     bool
	}{
		{Slirp4netns, false, "invalid IP", true},
		{Pasta, false, "invalid IP", true},
		{Gvisor, false, "invalid IP", true},
		{Slirp4netns, true, "invalid IP", false},
		{Pasta, true, "invalid IP", false},
		{Gvisor, true, "10.0.2.1", true},
		{None, false, "invalid IP", false},
		{None, true, "invalid IP", false},
	} {
		to, lead := Config{Driver: tc.driver, HostLoopback: tc.loopback}.HostTarget()
		if to.String() != tc.to || lead != tc.lead {
			t.Errorf("HostTarget of %s, loopback %v = %s, %v; want %s, %v", tc.driver, tc.loopback, to, lead, tc.to, tc.lead)
		}
	}
}
