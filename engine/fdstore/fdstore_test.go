package fdstore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// start is a new engine's beginning.
func start(t *testing.T, s *Shelf) *Store {
	t.Helper()
	fd, err := s.Serve()
	if err != nil {
		t.Fatal(err)
	}
	store, err := openStore(fd)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// end is its death.
func end(t *testing.T, s *Shelf, store *Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s.Wait()
}

func file(t *testing.T, content string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
	return f
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	if f == nil {
		return "nothing"
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, 100)
	n, _ := f.ReadAt(buf, 0)
	return string(buf[:n])
}

func put(t *testing.T, s *Store, name string, f *os.File) {
	t.Helper()
	if err := s.Put(name, f.Fd()); err != nil {
		t.Fatal(err)
	}
}

// TestEngines goes through the lives of three engines.
func TestEngines(t *testing.T) {
	var shelf Shelf
	shelf.Warn = func(err error) { t.Error(err) }
	defer shelf.Close()

	first := start(t, &shelf)
	if got := first.Names(); len(got) != 0 {
		t.Errorf("a new shelf has %q", got)
	}
	put(t, first, "a", file(t, "one"))
	put(t, first, "b", file(t, "two"))
	put(t, first, "c", file(t, "three"))
	put(t, first, "b", file(t, "two again"))
	if err := errors.Join(first.Drop("c"), first.Drop("never there")); err != nil {
		t.Fatal(err)
	}
	end(t, &shelf, first)

	second := start(t, &shelf)
	if got, want := second.Names(), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("the second engine finds %q, want %q", got, want)
	}
	if got, want := content(t, second.Take("b")), "two again"; got != want {
		t.Errorf("b holds %q, want %q", got, want)
	}
	if second.Take("b") != nil || second.Take("c") != nil {
		t.Error("what was taken, or dropped, came again")
	}
	if err := second.Drop("a"); err != nil {
		t.Fatal(err)
	}
	end(t, &shelf, second)

	third := start(t, &shelf)
	if got, want := third.Names(), []string{"b"}; !slices.Equal(got, want) {
		t.Errorf("the third engine finds %q, want %q", got, want)
	}
	f := third.Take("b")
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a descriptor would be inherited: %#x, %v", flags, err)
	}
	if got, want := content(t, f), "two again"; got != want {
		t.Errorf("b holds %q, want %q", got, want)
	}
	end(t, &shelf, third)
}

// TestMany looks that all that fits comes back, that more is refused, and that nothing is open at the end.
func TestMany(t *testing.T) {
	before := openFiles(t)
	var refused []error
	shelf := Shelf{Warn: func(err error) { refused = append(refused, err) }}
	store := start(t, &shelf)
	f := file(t, "x")
	const over = 3
	count := min(MaxCount, fileLimit(t)/3)
	for i := range count + over {
		put(t, store, fmt.Sprintf("%0*d", MaxName, i), f)
	}
	end(t, &shelf, store)
	if count == MaxCount && len(refused) != over {
		t.Errorf("%d were refused, want %d: %v", len(refused), over, refused)
	}
	store = start(t, &shelf)
	if got, want := len(store.Names()), min(count+over, MaxCount); got != want {
		t.Errorf("%d came back, want %d", got, want)
	}
	end(t, &shelf, store)
	shelf.Close()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are open at the end, %d were before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func fileLimit(t *testing.T) int {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(min(limit.Cur, 1<<20))
}

// TestDeafEngine: one that dies without hearing the list has still said what it said.
func TestDeafEngine(t *testing.T) {
	shelf := Shelf{Warn: func(err error) { t.Log(err) }}
	defer shelf.Close()
	store := start(t, &shelf)
	put(t, store, "a", file(t, "one"))
	end(t, &shelf, store)

	fd, err := shelf.Serve()
	if err != nil {
		t.Fatal(err)
	}
	f := file(t, "two")
	rights := unix.UnixRights(int(f.Fd()))
	if err := errors.Join(sendMessage(fd, []byte{opList}, nil), sendMessage(fd, []byte("Pb"), rights), unix.Close(fd)); err != nil {
		t.Fatal(err)
	}
	shelf.Wait()

	store = start(t, &shelf)
	if got, want := store.Names(), []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("the next engine finds %q, want %q", got, want)
	}
	end(t, &shelf, store)
}

// TestStrangers: nothing that comes over the socket hurts the shelf.
func TestStrangers(t *testing.T) {
	var warned int
	shelf := Shelf{Warn: func(error) { warned++ }}
	defer shelf.Close()
	store := start(t, &shelf)
	put(t, store, "a", file(t, "one"))
	before := openFiles(t)
	f := int(file(t, "x").Fd())
	long := "P" + strings.Repeat("n", MaxName+1)
	for _, m := range []struct {
		text string
		fds  []int
	}{
		{"P", []int{f}},
		{"Pb", nil},
		{"Pb", []int{f, f}},
		{"Pb\x00c", []int{f}},
		{long, []int{f}},
		{"Da", []int{f}},
		{"L", []int{f}},
		{"Xa", nil},
		{"Pmany", slices.Repeat([]int{f}, batch+2)},
		{strings.Repeat("P", 100_000), nil},
	} {
		if err := sendMessage(store.fd, []byte(m.text), unix.UnixRights(m.fds...)); err != nil {
			t.Errorf("send %.20q: %v", m.text, err)
		}
	}
	end(t, &shelf, store)
	if want := 10; warned != want {
		t.Errorf("%d warnings, want %d", warned, want)
	}
	store = start(t, &shelf)
	if got, want := store.Names(), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("%q are kept, want %q", got, want)
	}
	if after := openFiles(t); after > before+3 { // that of the file, and a's on both sides
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
	end(t, &shelf, store)
}

func TestNames(t *testing.T) {
	var shelf Shelf
	defer shelf.Close()
	store := start(t, &shelf)
	f := file(t, "x")
	for _, name := range []string{"", "a\x00b", strings.Repeat("n", MaxName+1)} {
		if store.Put(name, f.Fd()) == nil {
			t.Errorf("Put(%q) is accepted", name)
		}
	}
	end(t, &shelf, store)
}

// TestFromEnv looks at processes that nobody supervises, or that are told nonsense.
func TestFromEnv(t *testing.T) {
	t.Setenv(Env, "")
	_ = os.Unsetenv(Env)
	s, err := FromEnv()
	if s != nil || err != nil {
		t.Errorf("FromEnv without a supervisor = %v, %v", s, err)
	}
	if err := errors.Join(s.Put("a", 1), s.Drop("a"), s.Close()); err != nil || s.Take("a") != nil || len(s.Names()) != 0 {
		t.Errorf("nothing keeps something: %v", err)
	}
	for _, bad := range []string{"", "x", "2", "-1", "100000"} {
		t.Setenv(Env, bad)
		if s, err := FromEnv(); err == nil {
			t.Errorf("FromEnv with %q = %v, want an error", bad, s)
		}
		if v, there := os.LookupEnv(Env); there {
			t.Errorf("%s=%q would be inherited", Env, v)
		}
	}
}

// FuzzHandle sends the shelf whatever there may be.
func FuzzHandle(f *testing.F) {
	f.Add(byte(opPut), "name", uint8(1))
	f.Add(byte(opDrop), "name", uint8(0))
	f.Add(byte('X'), "\x00", uint8(3))
	f.Fuzz(func(t *testing.T, op byte, name string, count uint8) {
		if op == opList {
			return // needs somebody to tell
		}
		shelf := Shelf{held: make(map[string]int)}
		var fds []int
		for range count % 4 {
			fd, err := unix.Dup(0)
			if err != nil {
				t.Skip(err)
			}
			fds = append(fds, fd)
		}
		err := shelf.handleMessage(op, name, fds)
		if kept := err == nil && op == opPut; kept != (len(shelf.held) == 1) {
			t.Errorf("handle(%q, %q, %d) = %v and keeps %d", op, name, len(fds), err, len(shelf.held))
		}
		shelf.Close()
		for _, fd := range fds {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
				t.Errorf("handle(%q, %q, %d) leaves descriptor %d open", op, name, len(fds), fd)
				_ = unix.Close(fd)
			}
		}
	})
}
