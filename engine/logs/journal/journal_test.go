package journal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logs"
	"moss/engine/logs/journal"
	"moss/engine/stdio"
)

// listen makes a socket such as journald's. receive returns the next entry's fields.
func listen(t *testing.T) (path string, receive func() map[string]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return path, func() map[string]string {
		t.Helper()
		buf := make([]byte, 64<<10)
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("no entry came: %v", err)
		}
		return fields(t, buf[:n])
	}
}

// fields reads the journal's native protocol.
func fields(t *testing.T, b []byte) map[string]string {
	t.Helper()
	got := map[string]string{}
	for len(b) > 0 {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		if !ok {
			t.Fatalf("an entry ends in the middle of a field: %q", b)
		}
		if name, value, text := bytes.Cut(line, []byte{'='}); text {
			got[string(name)], b = string(value), rest
			continue
		}
		size := binary.LittleEndian.Uint64(rest)
		got[string(line)] = string(rest[8 : 8+size])
		b = rest[8+size+1:]
	}
	return got
}

func open(t *testing.T, opts journal.Options) *journal.Writer {
	t.Helper()
	w, err := journal.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func TestWriterSendsLines(t *testing.T) {
	socket, receive := listen(t)
	end := filepath.Join(t.TempDir(), "end")
	w := open(t, journal.Options{
		Socket: socket, ID: "abc", EndFile: end,
		Fields: map[string]string{"CONTAINER_NAME": "web", "com.example-label": "x\ny", "__": "nothing of it is a name"},
	})
	at := time.Date(2026, 11, 21, 10, 0, 0, 5, time.UTC)
	long := strings.Repeat("z", 16<<10)
	for _, step := range []struct {
		stream stdio.Stream
		chunk  string
		want   []map[string]string
	}{
		{stdio.Stdout, "one\ntw", []map[string]string{{"MESSAGE": "one", "PRIORITY": "6"}}},
		{stdio.Stderr, "bad\x00\xff\n", []map[string]string{{"MESSAGE": "bad\x00\xff", "PRIORITY": "3"}}},
		{stdio.Stdout, "o\n\n", []map[string]string{{"MESSAGE": "two"}, {"MESSAGE": ""}}},
		{stdio.Stdout, long + "end\n", []map[string]string{{"MESSAGE": long, "CONTAINER_PARTIAL_MESSAGE": "true"}, {"MESSAGE": "end"}}},
		{stdio.Stdout, long + "\n", []map[string]string{{"MESSAGE": long}}},
		{stdio.Stdout, long, []map[string]string{{"MESSAGE": long, "CONTAINER_PARTIAL_MESSAGE": "true"}}},
		{stdio.Stdout, "\n", []map[string]string{{"MESSAGE": ""}}},
	} {
		if err := w.Write(step.stream, []byte(step.chunk), at); err != nil {
			t.Fatal(err)
		}
		for _, want := range step.want {
			got := receive()
			for name, value := range want {
				if got[name] != value {
					t.Errorf("%s: got %.40q, want %.40q", name, got[name], value)
				}
			}
			if got["CONTAINER_PARTIAL_MESSAGE"] != want["CONTAINER_PARTIAL_MESSAGE"] {
				t.Errorf("partial: got %q for %.40q", got["CONTAINER_PARTIAL_MESSAGE"], want["MESSAGE"])
			}
			if got["CONTAINER_ID_FULL"] != "abc" || got["CONTAINER_NAME"] != "web" || got["COM_EXAMPLE_LABEL"] != "x\ny" ||
				got["SYSLOG_TIMESTAMP"] != "2026-11-21T10:00:00.000000005Z" {
				t.Errorf("fields: got %v", got)
			}
		}
	}
	if err := w.Write(stdio.Stderr, []byte("prompt> "), at); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := receive(); got["MESSAGE"] != "prompt> " || got["CONTAINER_PARTIAL_MESSAGE"] != "true" {
		t.Errorf("after Flush: got %v", got)
	}
	if err := w.Write(stdio.Stdout, []byte("no newline"), at); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	last := receive()
	if last["MESSAGE"] != "no newline" || last["CONTAINER_PARTIAL_MESSAGE"] != "true" {
		t.Errorf("the last entry: got %v", last)
	}
	text, err := os.ReadFile(end)
	if want := last["CONTAINER_LOG_EPOCH"] + " " + last["CONTAINER_LOG_ORDINAL"]; err != nil || string(text) != want {
		t.Errorf("end file: got %q, %v, want %q", text, err, want)
	}
	if err := w.Write(stdio.Stdout, []byte("x\n"), at); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Close: got %v, want %v", err, os.ErrClosed)
	}
}

func TestWriterFollowsANewJournal(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	address := &net.UnixAddr{Name: socket, Net: "unixgram"}
	old, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, journal.Options{Socket: socket, ID: "abc"})
	if err := errors.Join(old.Close(), os.Remove(socket)); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(stdio.Stdout, []byte("nobody listens\n"), time.Now()); err == nil {
		t.Error("Write without a journal: got no error")
	}
	fresh, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close() //nolint:errcheck // a test's end
	if err := w.Write(stdio.Stdout, []byte("again\n"), time.Now()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<10)
	if err := fresh.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, err := fresh.Read(buf)
	if err != nil || fields(t, buf[:n])["MESSAGE"] != "again" {
		t.Errorf("the new journal got %q, %v, want the line", buf[:n], err)
	}
}

func TestOpenWithoutJournal(t *testing.T) {
	_, err := journal.Open(journal.Options{Socket: filepath.Join(t.TempDir(), "none"), ID: "abc"})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("Open: got %v, want unavailable", err)
	}
}

// program makes a journalctl that prints a file, with or without an end.
func program(t *testing.T, output string, tail string) (path, argsFile string) {
	t.Helper()
	dir := t.TempDir()
	path, argsFile = filepath.Join(dir, "journalctl"), filepath.Join(dir, "args")
	if err := os.WriteFile(filepath.Join(dir, "out"), []byte(output), 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$*\" >>%s\ncat %s/out\n%s\n", argsFile, dir, tail)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path, argsFile
}

const stored = `{"MESSAGE":"one","PRIORITY":"6","SYSLOG_TIMESTAMP":"2026-11-21T10:00:00Z","CONTAINER_LOG_EPOCH":"e","CONTAINER_LOG_ORDINAL":"1"}
{"MESSAGE":[98,255,0],"PRIORITY":"3","SYSLOG_TIMESTAMP":"2026-11-21T10:00:01Z","CONTAINER_LOG_EPOCH":"e","CONTAINER_LOG_ORDINAL":"2"}
this is no entry
{"MESSAGE":"part","PRIORITY":"6","CONTAINER_PARTIAL_MESSAGE":"true","__REALTIME_TIMESTAMP":"1795255202000000","CONTAINER_LOG_EPOCH":"e","CONTAINER_LOG_ORDINAL":"3"}
`

func read(ctx context.Context, src journal.Source, opts logs.ReadOptions) (got []string, err error) {
	err = journal.Read(ctx, src, opts, func(e logs.Entry) error {
		got = append(got, fmt.Sprintf("%s %s %q", e.Time.UTC().Format(time.TimeOnly), e.Stream, e.Line))
		return nil
	})
	return got, err
}

func TestRead(t *testing.T) {
	bin, args := program(t, stored, "")
	all := logs.ReadOptions{Stdout: true, Stderr: true, Tail: -1}
	one, two, part := `10:00:00 stdout "one\n"`, `10:00:01 stderr "b\xff\x00\n"`, `10:00:02 stdout "part"`
	since, until := all, all
	since.Since, until.Until = time.Date(2026, 11, 21, 10, 0, 1, 0, time.UTC), time.Date(2026, 11, 21, 10, 0, 1, 0, time.UTC)
	for _, tc := range []struct {
		name, args string
		opts       logs.ReadOptions
		want       []string
	}{
		{"all", "CONTAINER_ID_FULL=abc", all, []string{one, two, part}},
		{"one stream", "PRIORITY=3", logs.ReadOptions{Stderr: true, Tail: -1}, []string{two}},
		{"tail", "--lines=2", logs.ReadOptions{Stdout: true, Stderr: true, Tail: 2}, []string{one, two, part}},
		{"none", "", logs.ReadOptions{Stdout: true}, nil},
		{"since", "--since=@1795255201", since, []string{two, part}},
		{"until", "--until=@1795255211", until, []string{one, two}},
	} {
		if err := os.WriteFile(args, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := read(t.Context(), journal.Source{Program: bin, ID: "abc"}, tc.opts)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, %v, want %q", tc.name, got, err, tc.want)
		}
		if asked, _ := os.ReadFile(args); !strings.Contains(string(asked), tc.args) {
			t.Errorf("%s: journalctl was asked %q, want %q in it", tc.name, asked, tc.args)
		}
	}
}

func TestReadFollowEndsWithTheLastEntry(t *testing.T) {
	bin, _ := program(t, stored, "exec sleep 60")
	endFile := filepath.Join(t.TempDir(), "end")
	if err := os.WriteFile(endFile, []byte("e 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	// waitStored asks the same program, which never ends when it follows: give it one that answers at once.
	over := make(chan struct{})
	close(over)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := read(ctx, journal.Source{Program: wrapped(t, bin), ID: "abc", EndFile: endFile},
		logs.ReadOptions{Stdout: true, Stderr: true, Tail: -1, Follow: true, End: over})
	if err != nil || len(got) != 3 {
		t.Errorf("got %q, %v, want the three entries", got, err)
	}
}

// wrapped answers at once where nothing is followed.
func wrapped(t *testing.T, follower string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journalctl")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *--follow*) exec %s \"$@\" ;; *) echo 3 ;; esac\n", follower)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadFollowEndsWithTheCaller(t *testing.T) {
	bin, _ := program(t, stored, "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := journal.Read(ctx, journal.Source{Program: bin, ID: "abc"}, logs.ReadOptions{Stdout: true, Stderr: true, Tail: -1, Follow: true},
		func(logs.Entry) error {
			if n++; n == 3 {
				cancel()
			}
			return nil
		})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	refused := errors.New("enough")
	err = journal.Read(t.Context(), journal.Source{Program: bin, ID: "abc"}, logs.ReadOptions{Stdout: true, Tail: -1, Follow: true},
		func(logs.Entry) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
}

func TestReadWithoutJournalctl(t *testing.T) {
	opts := logs.ReadOptions{Stdout: true, Tail: -1}
	if _, err := read(t.Context(), journal.Source{Program: t.TempDir() + "/journalctl", ID: "abc"}, opts); !fault.Is(err, fault.Unavailable) {
		t.Errorf("no program: got %v, want unavailable", err)
	}
	bin, _ := program(t, "", "echo 'No access' >&2; exit 1")
	if _, err := read(t.Context(), journal.Source{Program: bin, ID: "abc"}, opts); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "No access") {
		t.Errorf("a failing one: got %v, want unavailable with its words", err)
	}
}

func TestFieldName(t *testing.T) {
	for in, want := range map[string]string{
		"com.example/x": "COM_EXAMPLE_X", "_PID": "PID", "9lives": "LIVES", "": "", "é": "", strings.Repeat("a", 90): strings.Repeat("A", 64),
	} {
		if got := journal.FieldName(in); got != want {
			t.Errorf("FieldName(%q): got %q, want %q", in, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(stored))
	f.Fuzz(func(t *testing.T, out []byte) {
		if len(out) > 64<<10 {
			return
		}
		bin, _ := program(t, string(out), "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := read(ctx, journal.Source{Program: bin, ID: "abc"}, logs.ReadOptions{Stdout: true, Stderr: true, Tail: -1}); err != nil {
			t.Errorf("Read of %q: %v", out, err)
		}
	})
}
