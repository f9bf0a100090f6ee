package logs

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"moss/engine/stdio"
)

// FuzzParse compares the fast parser with encoding/json on any line.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"log":"hello \u003cb\u003e \"x\" \\ \ud83c\udf31 \ud83c\n","stream":"stdout","time":"2026-11-21T07:30:01.123456789Z"}`,
		`{"log":"","stream":"stderr","time":"2024-02-29T23:59:59Z"}`,
		`{"log":"a","stream":"stdout","time":"2026-11-21T07:30:01Z","stream":"stderr","time":"2026-11-21T07:30:02Z"}`,
		`{"log":"a\","stream":"stdout","time":"2026-02-29T07:30:01.Z"}`,
		`{"log":"\ud83c\ud83c\udf31","stream":"stdout","time":"2026-04-31T24:30:01.0000000001Z"}`,
		`{"time":"2026-11-21T07:30:01+01:00","log":"x","stream":"stderr"}`,
		`null`, `{}`, "\x00\x00",
		`{"log":"x\n","stream":"stdout","attrs":{"a":"b","tag":"\u003cx\u003e"},"time":"2026-11-21T07:30:01Z"}`,
		`{"log":"x\n","stream":"stdout","attrs":{"a":"b"},"attrs":{"c":"d"},"time":"2026-11-21T07:30:01Z"}`,
		`{"log":"x\n","stream":"stdout","attrs":[],"time":"2026-11-21T07:30:01Z"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.ReplaceAll(line, []byte("\n"), nil) // the reader splits there
		var p parser
		fast, ok := p.parseFast(line)
		whole, wholeOK := (&parser{}).parse(line)
		slow, _, slowOK := parseSlow(line)
		if again, againOK := parseTwice(line); slowOK && (!againOK || !maps.Equal(again.Attrs, slow.Attrs)) {
			t.Errorf("parse(%q) once more = %+v, %t, want the attributes %v", line, again, againOK, slow.Attrs)
		}
		if !ok {
			if wholeOK != slowOK || slowOK && (whole.Stream != slow.Stream || !whole.Time.Equal(slow.Time) || !bytes.Equal(whole.Line, slow.Line)) {
				t.Errorf("parse(%q) = %+v, %t, want the slow %+v, %t", line, whole, wholeOK, slow, slowOK)
			}
			return
		}
		if !slowOK {
			// The fast one takes raw control characters, which JSON forbids and no log has.
			if bytes.ContainsFunc(line, func(r rune) bool { return r < 0x20 }) {
				return
			}
			t.Fatalf("parseFast(%q) = %+v, but it is no entry", line, fast)
		}
		if fast.Stream != slow.Stream || !fast.Time.Equal(slow.Time) {
			t.Errorf("parseFast(%q) = %+v, want %+v", line, fast, slow)
		}
		if utf8.Valid(line) && !bytes.Equal(fast.Line, slow.Line) {
			t.Errorf("parseFast(%q) has text %q, want %q", line, fast.Line, slow.Line)
		}
	})
}

// FuzzRoundTrip writes any bytes in any chunks, with and without rotation, and reads them back.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("hello\nworld"), uint16(3), uint16(0))
	f.Add([]byte("<\xff&>\r\n\t\x00\u2028苔🌱\"\\"), uint16(1), uint16(100))
	f.Add(bytes.Repeat([]byte("苔"), 12000), uint16(4095), uint16(500))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, in []byte, step, maxSize uint16) {
		path := filepath.Join(dir, "log")
		if err := truncateAll(path); err != nil {
			t.Fatal(err)
		}
		if size := 6*len(in) + 90*(bytes.Count(in, []byte("\n"))+2); maxSize > 0 && size/int(maxSize) > 50 {
			return // too many files
		}
		w, err := Open(path, Options{MaxSize: int64(maxSize), MaxFiles: 100000})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(1700000000, int64(step)*1001).UTC()
		for p := in; len(p) > 0; {
			n := min(len(p), int(step)+1)
			if err := w.Write(stdio.Stderr, p[:n], at); err != nil {
				t.Fatal(err)
			}
			p = p[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, tail := range []int{-1, len(in) + 1} {
			got.Reset()
			err = Read(t.Context(), path, ReadOptions{Stdout: true, Stderr: true, Tail: tail}, func(e Entry) error {
				if e.Stream != stdio.Stderr || e.Time != at {
					t.Errorf("entry %+v, want stderr at %v", e, at)
				}
				if i := bytes.IndexByte(e.Line, '\n'); i >= 0 && i != len(e.Line)-1 {
					t.Errorf("entry %q holds several lines", e.Line)
				}
				got.Write(e.Line)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if want := sanitised(in); got.String() != want {
				t.Errorf("tail %d: wrote %q, read %q", tail, in, got.String())
			}
		}
	})
}

// sanitised replaces each byte that is not UTF-8, as the writer does.
func sanitised(in []byte) string {
	var b strings.Builder
	for _, r := range string(in) {
		b.WriteRune(r)
	}
	return b.String()
}

// FuzzPlain compares the eight-byte steps with the bytewise rule.
func FuzzPlain(f *testing.F) {
	f.Add([]byte("abcdefgh<"))
	f.Add([]byte("\x1f\x20\x21\x22\x7f\x80;<=>?%&'[\\]"))
	f.Fuzz(func(t *testing.T, s []byte) {
		s = s[:min(len(s), 256)] // every start of it is tried: a long one would take longer than the fuzzer waits
		for start := range s {
			want := bytes.IndexFunc(s[start:], func(r rune) bool { return r >= utf8.RuneSelf || needsCare(byte(r)) })
			if want < 0 {
				want = len(s) - start
			}
			if got := plainLen(s[start:]); got != want {
				t.Errorf("plain(%q) = %d, want %d", s[start:], got, want)
			}
		}
	})
}

func truncateAll(path string) error {
	old, err := filepath.Glob(path + "*")
	if err != nil {
		return err
	}
	return removeAll(old)
}

func removeAll(paths []string) error {
	for _, p := range paths {
		if err := os.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// parseTwice returns the second of two readings of a line by one parser, which knows the line's attributes by then.
func parseTwice(line []byte) (Entry, bool) {
	var p parser
	p.parse(line)
	return p.parse(line)
}
