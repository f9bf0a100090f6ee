package top

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/task"
)

// world is a fake of one container and of those who listen.
type world struct {
	task.Task
	record *container.Record
	err    error
	pids   []int
	events []event.Event
}

func (w *world) Running(string) (*container.Record, task.Task, error) { return w.record, w, w.err }
func (w *world) Pids(context.Context) ([]int, error)                  { return w.pids, nil }
func (w *world) Publish(e event.Event)                                { w.events = append(w.events, e) }

func newWorld(pids ...int) *world {
	return &world{pids: pids, record: &container.Record{
		ID: "4fa6", Name: "web", Image: "busybox", State: container.Running, Config: container.Config{Labels: map[string]string{"a": "1"}},
	}}
}

func (w *world) service(dir, path string) *Service {
	return New(Options{Containers: w, Events: w, Proc: dir, Path: path})
}

// ticks is a time of the trees below: after boot, in ticks.
func ticks(d time.Duration) string { return strconv.Itoa(int(d / (10 * time.Millisecond))) }

// tree makes a proc with a machine that has been up for an hour and four processes.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("stat", "cpu 1 0 0 0\ncpu0 1 0 0 0\nbtime 1448064000\n")
	write("uptime", "3600.00 7000.00\n")
	write("meminfo", "MemTotal: 1024 kB\n")
	for _, p := range []struct{ pid, name, rest, ids, args string }{
		{"10", "sh", "S 1 10 10 34817 10 0 0 0 0 0 3000 6000 0 0 20 0 1 0 " + ticks(55*time.Minute) + " 2048000 16 0", "0\t0", "sh\x00-c\x00sleep 1\x00"},
		{"11", "we)(ird\n", "R 10 10 10 0 -1 0 0 0 0 0 0 0 0 0 39 19 4 0 " + ticks(time.Hour) + " 0 0 0", "4000000000\t4000000001", "a\x00\x00b\nc\x1b[2J\xff\u202e\x00"},
		{"12", "gone", "Z 10 10 10 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " + ticks(time.Hour) + " 0 0 0", "0\t0", ""},
		{"13", "kernel", "I 0 0 0 1025 -1 0 0 0 0 0 0 0 0 0 0 -20 1 0 0 0 0 0", "0\t0", ""},
	} {
		write(p.pid+"/stat", p.pid+" ("+p.name+") "+p.rest+strings.Repeat(" 0", 30)+"\n")
		write(p.pid+"/status", "Uid:\t"+p.ids+"\t0\t0\nGid:\t0\t0\t0\t0\nVmLck:\t4 kB\nVmRSS:\t64 kB\n")
		write(p.pid+"/cmdline", p.args)
	}
	return dir
}

func TestNative(t *testing.T) {
	w := newWorld(10, 11, 12, 13, 14) // 14 has just ended
	s := w.service(tree(t), "")
	const mess = "a  b?c?[2J??"
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"-e", []string{
			"PID|TTY|TIME|CMD", "10|pts/1|00:01:30|sh", "11|?|00:00:00|we)(ird?", "12|?|00:00:00|gone <defunct>", "13|tty1|00:00:00|kernel",
		}},
		{"-o pid,ppid,pgid,sid -o uid,ruid,user,gid,group", []string{
			"PID|PPID|PGID|SID|UID|RUID|USER|GID|GROUP", "10|1|10|10|0|0|root|0|root",
			"11|10|10|10|4000000001|4000000000|4000000001|0|root", "12|10|10|10|0|0|root|0|root", "13|0|0|0|0|0|root|0|root",
		}},
		{"-eo pid,args,stat,s", []string{
			"PID|COMMAND|STAT|S", "10|sh -c sleep 1|SLs+|S", "11|" + mess + "|RNLl|R", "12|[gone] <defunct>|ZL|Z", "13|[kernel]|I<L|I",
		}},
		{"axo pid,vsz,rss,pmem,ni,pri,nlwp,etime,etimes,times,bsdtime", []string{
			"PID|VSZ|RSS|%MEM|NI|PRI|NLWP|ELAPSED|ELAPSED|TIME|TIME", "10|2000|64|6.2|0|19|1|05:00|300|90|1:30",
			"11|0|64|6.2|19|0|4|00:00|0|0|0:00", "12|0|64|6.2|0|19|1|00:00|0|0|0:00", "13|0|64|6.2|-20|39|1|01:00:00|3600|0|0:00",
		}},
		{"--format=pid,c", []string{"PID|C", "10|30", "11|0", "12|0", "13|0"}},
	} {
		got, err := s.Top(t.Context(), "web", tc.args)
		if err != nil {
			t.Errorf("%s: %v", tc.args, err)
			continue
		}
		lines := make([]string, 0, 1+len(got.Rows))
		lines = append(lines, strings.Join(got.Titles, "|"))
		for _, row := range got.Rows {
			lines = append(lines, strings.Join(row, "|"))
		}
		if !reflect.DeepEqual(lines, tc.want) {
			t.Errorf("%s:\n got %q\nwant %q", tc.args, lines, tc.want)
		}
	}
}

func TestEvent(t *testing.T) {
	w := newWorld(10)
	if _, err := w.service(tree(t), "").Top(t.Context(), "web", ""); err != nil {
		t.Fatal(err)
	}
	if len(w.events) != 1 || w.events[0].Action != "top" || w.events[0].ID != "4fa6" ||
		!reflect.DeepEqual(w.events[0].Attributes, map[string]string{"a": "1", "name": "web", "image": "busybox"}) {
		t.Errorf("events = %+v, want one top", w.events)
	}
	if w.record.Config.Labels["name"] != "" {
		t.Error("the record was changed")
	}
}

func TestErrors(t *testing.T) {
	dir := tree(t)
	for _, tc := range []struct {
		name, args, path string
		running          error
		kind             fault.Constructor
		text             string
	}{
		{"not running", "", "", container.NotRunning("web"), fault.Conflict, "Container web is not running"},
		{"no pid column", "-o comm", "", nil, fault.Invalid, "Couldn't find PID field in ps output"},
		{"another column called PID", "-o pid,comm=PID", "/usr/bin", nil, fault.Invalid, "is not allowed"},
		{"and with a blank", "-o pid -o comm= PID", "/usr/bin", nil, fault.Invalid, "is not allowed"},
		{"no ps", "-l", "/nowhere:relative:", nil, fault.Unsupported, "need a ps on the host"},
	} {
		w := newWorld(10)
		w.err = tc.running
		got, err := w.service(dir, tc.path).Top(t.Context(), "web", tc.args)
		if !fault.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.text) || len(w.events) != 0 {
			t.Errorf("%s: Top(%q) = %+v, %v, want %q", tc.name, tc.args, got, err, tc.text)
		}
	}
}

// TestLikePS compares with the ps of this machine, for a process that does nothing.
func TestLikePS(t *testing.T) {
	ps, err := exec.LookPath("ps")
	if err != nil {
		t.Skip("needs ps: install procps")
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()         //nolint:errcheck // It was killed.
	defer cmd.Process.Kill() //nolint:errcheck // It may have ended.
	pid := cmd.Process.Pid
	w := newWorld(pid)
	s := w.service("/proc", filepath.Dir(ps))
	for _, args := range []string{
		"-ef", "aux", "-aux", "ax", "-e", "-eo pid,ppid,pgid,sid,uid,ruid,gid,tty,comm,args", "-o pid,stat,s,ni,pri,nlwp,time,stime",
		"-o pid,vsz,rss,psr,%cpu,%mem,c -o lstart", "-A -ww -o pid,cmd", "-opid,ucmd,bsdtime,cputime,start_time,etimes",
	} {
		words := strings.Fields(args)
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "x") || strings.Contains(w, "e") || w == "-A" }) {
			words = append(words, "-e")
		}
		var native, theirs *Table
		for deadline := time.Now().Add(time.Minute); ; { // the second may turn between the two
			var err error
			if native, err = s.Top(t.Context(), "web", args); err != nil {
				t.Fatalf("%s: %v", args, err)
			}
			if theirs, err = s.hostPS(t.Context(), []int{pid}, words); err != nil {
				t.Fatalf("ps %s: %v", words, err)
			}
			fillNames(theirs, native)
			if reflect.DeepEqual(native, theirs) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s:\n got %q\n ps: %q", args, native, theirs)
			}
		}
	}
}

// fillNames completes the long names that ps cuts.
func fillNames(theirs, native *Table) {
	for i, row := range theirs.Rows {
		for j, text := range row {
			short, cut := strings.CutSuffix(text, "+")
			if cut && i < len(native.Rows) && j < len(native.Rows[i]) && strings.HasPrefix(native.Rows[i][j], short) {
				row[j] = native.Rows[i][j]
			}
		}
	}
}

func TestHostPSRefuses(t *testing.T) {
	ps, err := exec.LookPath("ps")
	if err != nil {
		t.Skip("needs ps: install procps")
	}
	s := newWorld(10).service("/proc", filepath.Dir(ps))
	for _, args := range []string{"-o nonsense", "--nonsense", "-o", "a\x00b", "-C " + strings.Repeat("x", 1<<18)} {
		if got, err := s.Top(t.Context(), "web", args); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Top(%q) = %+v, %v, want fault.Invalid on one line", args, got, err)
		}
	}
	if got, err := s.Top(t.Context(), "web", "-l -C nonsense"); err != nil || got.Titles[0] != "F" || len(got.Rows) != 0 {
		t.Errorf("Top that finds nothing = %+v, %v, want titles", got, err)
	}
}

func TestParseArgs(t *testing.T) {
	for _, tc := range []struct {
		args string
		want string // titles; empty: left to a real ps
	}{
		{"", "UID PID PPID C STIME TTY TIME CMD"},
		{"-ef", "UID PID PPID C STIME TTY TIME CMD"},
		{"-e -f", "UID PID PPID C STIME TTY TIME CMD"},
		{"aux", "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"},
		{"-auxww", "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"},
		{"ax", "PID TTY STAT TIME COMMAND"},
		{"-A", "PID TTY TIME CMD"},
		{"-o pid,comm -o cmd", "PID COMMAND CMD"},
		{"-eopid", "PID"},
		{"-u root", ""},
		{"axf", ""},
		{"axe", ""},
		{"-l", ""},
		{"-eL", ""},
		{"-o pid=", ""},
		{"-o pid,nonsense", ""},
		{"-o", ""},
		{"-", ""},
		{"--forest", ""},
		{"-f -o pid", ""},
		{"1234", ""},
	} {
		a, err := parseArgs(tc.args)
		titles := make([]string, 0, len(a.columns))
		for _, c := range a.columns {
			titles = append(titles, c.title)
			if c.show == nil {
				t.Errorf("%q: column %s shows nothing", tc.args, c.title)
			}
		}
		if got := strings.Join(titles, " "); got != tc.want || err != nil {
			t.Errorf("parseArgs(%q) = %q, %v, want %q", tc.args, got, err, tc.want)
		}
	}
}

func TestParseTable(t *testing.T) {
	const text = "  PID TTY   CMD\n   10 ?     sh -c  a  b \n   11 ?     other\n    - -     -\n   10\n    - pts/1 thread of 10\n    x ?     y\n"
	want := &Table{Titles: []string{"PID", "TTY", "CMD"}, Rows: [][]string{{"10", "?", "sh -c  a  b"}, {"10", "", ""}, {"-", "pts/1", "thread of 10"}}}
	if got, err := parseTable(text, []int{10, 12}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parseTable = %q, %v, want %q", got, err, want)
	}
	if got, err := parseTable("CMD\nPID\n", nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("parseTable without PID = %q, %v, want fault.Invalid", got, err)
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add("  PID TTY   CMD\n   10 ?     sh -c  a  b \n    - -     -\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := parseTable(text, []int{10})
		if err != nil {
			return
		}
		for _, row := range table.Rows {
			if len(row) != len(table.Titles) || strings.ContainsAny(strings.Join(row, ""), "\n\r\x1b\x00") {
				t.Errorf("parseTable(%q) has the row %q for %q", text, row, table.Titles)
			}
		}
	})
}

func FuzzParseArgs(f *testing.F) {
	f.Add("-eo pid,args aux")
	f.Fuzz(func(t *testing.T, args string) {
		a, err := parseArgs(args)
		if err == nil && len(a.columns) > 20*len(args)+20 {
			t.Errorf("parseArgs(%q) has %d columns", args, len(a.columns))
		}
	})
}
