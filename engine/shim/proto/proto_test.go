package proto_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"moss/engine/fault"
	"moss/engine/shim/proto"
	"moss/engine/task"
)

func TestMessageRoundTrip(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 5, time.UTC)
	want := proto.Reply{
		State: &proto.Record{Pid: 7, StartedAt: at, Exit: &proto.Exit{Code: 137, At: at, OOMKilled: true, Error: "why"}},
		Mark:  &task.Mark{Inode: 1 << 63, Size: 12},
	}
	var buf bytes.Buffer
	if err := proto.Write(&buf, want); err != nil {
		t.Fatal(err)
	}
	buf.WriteString("the stream that follows")
	var got proto.Reply
	if err := proto.Read(iotest.OneByteReader(&buf), &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if rest := buf.String(); rest != "the stream that follows" {
		t.Errorf("Read left %q, want the whole rest", rest)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		is       error
	}{
		{"nothing", "", io.EOF},
		{"cut length", "\x00\x00", io.ErrUnexpectedEOF},
		{"cut body", "\x00\x00\x00\x09{}", io.ErrUnexpectedEOF},
		{"no body", "\x00\x00\x00\x09", io.ErrUnexpectedEOF},
		{"too large", "\x7f\x00\x00\x00{}", nil},
		{"not JSON", "\x00\x00\x00\x02[}", nil},
	} {
		var req proto.Request
		err := proto.Read(strings.NewReader(tc.in), &req)
		if tc.is != nil && !errors.Is(err, tc.is) || tc.is == nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: Read = %v, want %v (nil: invalid)", tc.name, err, tc.is)
		}
	}
	if err := proto.Write(io.Discard, strings.Repeat("x", proto.MaxMessage)); !fault.Is(err, fault.Invalid) {
		t.Errorf("Write of a huge message = %v, want invalid", err)
	}
}

func TestFailureKeepsItsKind(t *testing.T) {
	for _, mk := range []fault.Constructor{fault.NotFound, fault.Forbidden, fault.Conflict, fault.Invalid, fault.Unavailable, fault.Unsupported, fault.Internal} {
		in := mk("text with %% and %d", 3)
		if got := proto.Fail(in).Err(); got.Error() != in.Error() || fault.KindOf(got) != fault.KindOf(in) {
			t.Errorf("Fail(%v).Err() = %v, kind %d, want kind %d", in, got, fault.KindOf(got), fault.KindOf(in))
		}
	}
	if err := (proto.Reply{}).Err(); err != nil {
		t.Errorf("Err of an empty reply = %v, want nil", err)
	}
}

func TestRecordFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := proto.ReadRecord(dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("ReadRecord of an empty folder = %v, want not found", err)
	}
	at := time.Now().UTC().Round(0)
	want := proto.Record{Pid: 5, StartedAt: at, Exit: &proto.Exit{Code: 1, At: at}}
	for range 2 {
		if err := proto.WriteRecord(dir, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := proto.ReadRecord(dir)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadRecord = %+v, %v, want %+v", got, err, want)
	}
	if s := got.Status(); s.Pid != 0 || s.Exit == nil || s.Exit.Code != 1 {
		t.Errorf("Status = %+v, want no pid and exit code 1", s)
	}
	for name, text := range map[string]string{"cut": `{"pid":`, "no exit": `{"pid":3}`} {
		if err := os.WriteFile(filepath.Join(dir, proto.ExitFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := proto.ReadRecord(dir); !fault.Is(err, fault.Invalid) {
			t.Errorf("ReadRecord of a %s file = %v, want invalid", name, err)
		}
	}
}

func TestSpecFile(t *testing.T) {
	dir := t.TempDir()
	want := task.Spec{ID: "a", Dir: dir, Terminal: true, Width: 80, Log: task.Log{Driver: "none", MaxFiles: 1}, Runtime: task.Runtime{Path: "/bin/crun", GlobalArgs: []string{"--x"}}}
	if err := proto.WriteSpec(dir, want); err != nil {
		t.Fatal(err)
	}
	if got, err := proto.ReadSpec(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadSpec = %+v, %v, want %+v", got, err, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v, want only the spec", entries, err)
	}
}

func FuzzRead(f *testing.F) {
	var buf bytes.Buffer
	if err := proto.Write(&buf, proto.Request{Op: proto.OpAttach, Attach: &task.Attach{Stdout: true}}); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		var req proto.Request
		if err := proto.Read(bytes.NewReader(in), &req); err != nil {
			return
		}
		var again bytes.Buffer
		if err := proto.Write(&again, req); err != nil {
			t.Fatalf("Write(%+v) = %v", req, err)
		}
		var got proto.Request
		if err := proto.Read(&again, &got); err != nil || !reflect.DeepEqual(got, req) {
			t.Fatalf("round trip of %+v = %+v, %v", req, got, err)
		}
	})
}

func TestCheckExecID(t *testing.T) {
	good := strings.Repeat("0123456789abcdef", 4)
	if err := proto.CheckExecID(good); err != nil {
		t.Errorf("CheckExecID(%q) = %v, want nil", good, err)
	}
	for _, bad := range []string{"", "..", good[1:], good + "0", strings.ToUpper(good), "/" + good[1:], good[:63] + "\n", good[:60] + "../x"} {
		if err := proto.CheckExecID(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("CheckExecID(%q) = %v, want invalid", bad, err)
		}
	}
}

func FuzzCheckExecID(f *testing.F) {
	f.Add(strings.Repeat("a", 64))
	f.Fuzz(func(t *testing.T, id string) {
		if proto.CheckExecID(id) == nil && proto.ExecDir("/d", id) != "/d/"+proto.ExecFolder+"/"+id {
			t.Fatalf("CheckExecID takes %q, whose folder is %s", id, proto.ExecDir("/d", id))
		}
	})
}
