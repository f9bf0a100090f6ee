package journal_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"moss/engine/event"
	"moss/engine/event/journal"
	"moss/engine/fault"
)

// open opens a journal that must not have any trouble.
func open(t *testing.T, opt journal.Options) *journal.Journal {
	t.Helper()
	if opt.Trouble == nil {
		opt.Trouble = func(err error) { t.Errorf("trouble: %v", err) }
	}
	j, err := journal.Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func closeJournal(t *testing.T, j *journal.Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func published(seq, nanos int) *event.Published {
	return &event.Published{Seq: uint64(seq), Event: event.Event{ //nolint:gosec // no test has negative ones
		Type: event.TypeContainer, Action: "die", ID: "4f",
		Attributes: map[string]string{"exitCode": strconv.Itoa(seq), "label": "a\nb \"c\" \x00 ü"}, Time: time.Unix(0, int64(nanos)),
	}}
}

// numbers reads all that is later than a time.
func numbers(t *testing.T, j *journal.Journal, after int64) (all []int) {
	t.Helper()
	r := j.After(after)
	var into [7]*event.Published
	for {
		n, err := r.Next(into[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return all
		}
		for _, p := range into[:n] {
			if want := published(int(p.Seq), int(p.Time.UnixNano())); fmt.Sprint(p.Event) != fmt.Sprint(want.Event) { //nolint:gosec // small
				t.Errorf("got %v, want %v", p.Event, want.Event)
			}
			all = append(all, int(p.Seq)) //nolint:gosec // small
		}
	}
}

func TestAfter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	j := open(t, journal.Options{Dir: dir, SegmentBytes: 500})
	for i := range 20 {
		j.Keep([]*event.Published{published(2*i+1, 100*(2*i+1)), published(2*i+2, 100*(2*i+2))})
	}
	check := func(j *journal.Journal) {
		t.Helper()
		for _, tc := range []struct {
			after int64
			first int
		}{{-1 << 63, 1}, {0, 1}, {99, 1}, {100, 2}, {1999, 20}, {2000, 21}, {3999, 40}, {4000, 41}, {1 << 62, 41}} {
			got := numbers(t, j, tc.after)
			if len(got) != 41-tc.first || len(got) > 0 && (got[0] != tc.first || got[len(got)-1] != 40) {
				t.Errorf("after %d: %v, want %d to 40", tc.after, got, tc.first)
			}
		}
	}
	check(j)
	closeJournal(t, j)
	if files, err := os.ReadDir(dir); err != nil || len(files) < 5 {
		t.Fatalf("%d segments, %v, want several", len(files), err)
	}
	j = open(t, journal.Options{Dir: dir, SegmentBytes: 500})
	if got := (event.Place{Seq: 40, Nanos: 4000}); j.End() != got {
		t.Errorf("End = %v, want %v", j.End(), got)
	}
	check(j)
	j.Keep([]*event.Published{published(41, 4100)})
	if got := numbers(t, j, 3900); fmt.Sprint(got) != "[40 41]" {
		t.Errorf("after the second engine's event: %v, want [40 41]", got)
	}
	closeJournal(t, j)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v, want 0700", info.Mode(), err)
	}
}

func TestBound(t *testing.T) {
	dir := t.TempDir()
	j := open(t, journal.Options{Dir: dir, SegmentBytes: 1000, TotalBytes: 5000})
	slow := j.After(0)
	var into [1]*event.Published
	for i := range 500 {
		j.Keep([]*event.Published{published(i+1, i+1)})
		if i == 1 {
			if n, err := slow.Next(into[:]); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	closeJournal(t, j)
	var total int64
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 5000 || total < 3000 {
		t.Errorf("%d bytes in %d segments, want not many less than 5000", total, len(files))
	}
	got := numbers(t, j, 0)
	if len(got) < 20 || got[len(got)-1] != 500 || got[0] != 501-len(got) {
		t.Errorf("kept %v, want the last ones", got)
	}
	if _, err := slow.Next(into[:]); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a reader whose events were removed: %v, want an Unavailable", err)
	}
}

// TestDamage opens journals that a crash, a power cut or a full disk has left.
func TestDamage(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(raw []byte) []byte
		want   string
		end    uint64
	}{
		{"whole", func(raw []byte) []byte { return raw }, "[1 2 3 4]", 3},
		{"torn line", func(raw []byte) []byte { return raw[:len(raw)-5] }, "[1 2 3]", 2},
		{"half a newline", func(raw []byte) []byte { return raw[:len(raw)-1] }, "[1 2 3]", 2},
		{"zeros behind", func(raw []byte) []byte { return append(raw, make([]byte, 5000)...) }, "[1 2 3 4]", 3},
		{"a changed byte", func(raw []byte) []byte { raw[len(raw)-20] ^= 1; return raw }, "[1 2 3]", 2},
		{"a damaged line between", func(raw []byte) []byte { raw[len(raw)/2] ^= 1; return raw }, "[1 3 4]", 3},
		{"zeros between", func(raw []byte) []byte { clear(raw[len(raw)/3+2 : len(raw)/2]); return raw }, "[1 3 4]", 3},
		{"nothing but zeros", func(raw []byte) []byte { clear(raw); return raw }, "[1]", 0},
		{"empty", func([]byte) []byte { return nil }, "[1]", 0},
		{"other text", func([]byte) []byte { return []byte("words\nof another\n\n") }, "[1]", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, journal.Options{Dir: dir})
			j.Keep([]*event.Published{published(1, 1), published(2, 2), published(3, 3)})
			closeJournal(t, j)
			path := filepath.Join(dir, fmt.Sprintf("%020d.events", 1))
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, tc.damage(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			j = open(t, journal.Options{Dir: dir})
			defer closeJournal(t, j)
			end := j.End()
			if end.Seq != tc.end || end.Nanos != int64(tc.end) { //nolint:gosec // small
				t.Errorf("End = %v, want number and time %d", end, tc.end)
			}
			j.Keep([]*event.Published{published(int(end.Seq)+1, int(end.Nanos)+1)}) //nolint:gosec // small
			if got := fmt.Sprint(numbers(t, j, 0)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestFullDisk takes the folder away, and brings it back.
func TestFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	var told []error
	j := open(t, journal.Options{Dir: dir, SegmentBytes: 300, Trouble: func(err error) { told = append(told, err) }})
	j.Keep([]*event.Published{published(1, 1)})
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	for i := 2; i < 12; i++ {
		j.Keep([]*event.Published{published(i, i)})
	}
	if len(told) != 1 {
		t.Errorf("told %d times, want once: %v", len(told), told)
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	j.Keep([]*event.Published{published(12, 12), published(13, 13)})
	got := numbers(t, j, 0)
	if len(got) < 3 || got[0] != 1 || got[len(got)-2] != 12 || got[len(got)-1] != 13 {
		t.Errorf("kept %v, want 1, …, 12, 13", got)
	}
	closeJournal(t, j)
}

func TestGiantsAreNotKept(t *testing.T) {
	var told []error
	j := open(t, journal.Options{Dir: t.TempDir(), Trouble: func(err error) { told = append(told, err) }})
	defer closeJournal(t, j)
	giant, big := published(2, 2), published(3, 3)
	giant.Attributes = map[string]string{"label": strings.Repeat("x", 1<<20)}
	big.Attributes = map[string]string{"label": strings.Repeat("x", 1<<20-1000)}
	j.Keep([]*event.Published{published(1, 1), giant, big, published(4, 4)})
	r := j.After(0)
	var into [9]*event.Published
	var got []uint64
	for {
		n, err := r.Next(into[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		for _, p := range into[:n] {
			got = append(got, p.Seq)
		}
	}
	if fmt.Sprint(got) != "[1 3 4]" || len(told) != 1 {
		t.Errorf("kept %v and told %v, want 1, 3 and 4, and one line", got, told)
	}
}

func FuzzDamaged(f *testing.F) {
	f.Add([]byte("words\n"))
	f.Add([]byte("00000000 1 1 {}\n"))
	dir := f.TempDir()
	j, err := journal.Open(journal.Options{Dir: dir})
	if err != nil {
		f.Fatal(err)
	}
	j.Keep([]*event.Published{published(1, 1), published(2, 2)})
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%020d.events", 1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(bytes.Repeat(raw[:len(raw)-3], 2))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d.events", 1)), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, journal.Options{Dir: dir})
		defer closeJournal(t, j)
		end := j.End()
		added := &event.Published{Seq: end.Seq + 1, Event: event.Event{Type: "t", Time: time.Unix(0, max(end.Nanos, 0)+1)}}
		if end.Nanos == 1<<63-1 {
			return // no later time
		}
		j.Keep([]*event.Published{added})
		r := j.After(end.Nanos)
		var into [2]*event.Published
		if n, err := r.Next(into[:]); n != 1 || err != nil || into[0].Type != "t" {
			t.Errorf("after %q: %d, %v, want the event that was added", raw, n, err)
		}
		r = j.After(0)
		var last int64
		for {
			n, err := r.Next(into[:])
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			for _, p := range into[:n] {
				if p.Time.UnixNano() <= last {
					t.Errorf("time %d after %d", p.Time.UnixNano(), last)
				}
				last = p.Time.UnixNano()
			}
		}
	})
}

// TestRemovedFiles: a segment that somebody has removed is passed over, and not looked for again and again.
func TestRemovedFiles(t *testing.T) {
	dir := t.TempDir()
	j := open(t, journal.Options{Dir: dir, SegmentBytes: 512, TotalBytes: 1 << 20})
	defer closeJournal(t, j)
	for n := 1; n <= 12; n++ {
		j.Keep([]*event.Published{published(n, n*10)})
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d segments, %v, want some", len(files), err)
	}
	all := numbers(t, j, 0)
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	some := numbers(t, j, 0)
	if len(some) == 0 || len(some) >= len(all) || some[0] != 1 || some[len(some)-1] != 12 {
		t.Errorf("without a segment in the middle: %v, want 1 to 12 but for its own", some)
	}
	for _, file := range files[2:] {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if none := numbers(t, j, 0); len(none) > 0 {
		t.Errorf("without any segment: %v, want nothing", none)
	}
}

// A segment that is damaged from its beginning, and what is no file, is set aside; the events of the others are there.
func TestDamagedSegments(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"garbage": func(path string) error { return os.WriteFile(path, []byte("garbage\n{}\n"), 0o600) },
		"folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"link":    func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, journal.Options{Dir: dir})
			j.Keep([]*event.Published{published(1, 1)})
			closeJournal(t, j)
			if err := spoil(filepath.Join(dir, fmt.Sprintf("%020d.events", 9))); err != nil {
				t.Fatal(err)
			}
			var aside []string
			j = open(t, journal.Options{Dir: dir, SetAside: func(path string, _ error) error {
				aside = append(aside, filepath.Base(path))
				return os.Rename(path, filepath.Join(dir, "aside"))
			}})
			defer closeJournal(t, j)
			if len(aside) != 1 || aside[0] != fmt.Sprintf("%020d.events", 9) {
				t.Errorf("set aside: %q", aside)
			}
			if end := j.End(); end.Seq != 1 {
				t.Errorf("the journal ends with %+v, want the event that it had", end)
			}
		})
	}
}
