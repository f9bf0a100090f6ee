package stdio_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"moss/engine/fault"
	"moss/engine/stdio"
)

func TestParseDetachKeys(t *testing.T) {
	for _, tc := range []struct {
		in, want string
		bad      bool
	}{
		{in: "", want: "\x10\x11"},
		{in: "ctrl-p,ctrl-q", want: "\x10\x11"},
		{in: "a", want: "a"},
		{in: "Z,ctrl-a,x", want: "Z\x01x"},
		{in: "ctrl-@,ctrl-[,ctrl-^,ctrl-_,ctrl-\\,ctrl-]", want: "\x00\x1b\x1e\x1f\x1c\x1d"},
		{in: "ctrl-,", want: ","},
		{in: "ctrl-,,ctrl-z", want: ",\x1a"},
		{in: "a,ctrl-,,b", want: "a,b"},
		{in: ",", bad: true},
		{in: "a,", bad: true},
		{in: "1", bad: true},
		{in: "ctrl-", bad: true},
		{in: "ctrl-A", bad: true},
		{in: "ctrl-ab", bad: true},
		{in: "ctrl-,x", bad: true},
		{in: "DEL", bad: true},
		{in: "é", bad: true},
	} {
		got, err := stdio.ParseDetachKeys(tc.in)
		if tc.bad {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("ParseDetachKeys(%q) = %q, %v, want an invalid fault", tc.in, got, err)
			}
			continue
		}
		if err != nil || string(got) != tc.want {
			t.Errorf("ParseDetachKeys(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestDetachReader(t *testing.T) {
	for _, tc := range []struct {
		name, keys, in, want string
		detached             bool
	}{
		{name: "nothing", keys: "pq", in: "", want: ""},
		{name: "no keys", keys: "", in: "pq", want: "pq"},
		{name: "not typed", keys: "pq", in: "hello\n", want: "hello\n"},
		{name: "typed", keys: "pq", in: "abpqcd", want: "ab", detached: true},
		{name: "typed first", keys: "pq", in: "pq", want: "", detached: true},
		{name: "one key", keys: "z", in: "az", want: "a", detached: true},
		{name: "broken off", keys: "pq", in: "pxpq", want: "px", detached: true},
		{name: "begins again", keys: "pq", in: "ppq", want: "p", detached: true},
		{name: "overlap", keys: "ppq", in: "pppq", want: "p", detached: true},
		{name: "overlap of two", keys: "abac", in: "ababac", want: "ab", detached: true},
		{name: "held at the end", keys: "pq", in: "abp", want: "abp"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			whole := strings.NewReader(tc.in)
			for name, r := range map[string]io.Reader{
				"whole": whole, "bytes": iotest.OneByteReader(strings.NewReader(tc.in)), "data with error": iotest.DataErrReader(strings.NewReader(tc.in)),
			} {
				got, err := io.ReadAll(stdio.NewDetachReader(r, []byte(tc.keys)))
				if string(got) != tc.want || errors.Is(err, stdio.ErrDetached) != tc.detached {
					t.Errorf("%s: ReadAll(%q) = %q, %v, want %q, detached %v", name, tc.in, got, err, tc.want, tc.detached)
				}
			}
		})
	}
}

func TestDetachReaderPassesError(t *testing.T) {
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("abp"), iotest.ErrReader(broken))
	got, err := io.ReadAll(stdio.NewDetachReader(r, []byte("pq")))
	if string(got) != "abp" || !errors.Is(err, broken) {
		t.Errorf("ReadAll = %q, %v, want %q, %v", got, err, "abp", broken)
	}
}

func FuzzDetachReader(f *testing.F) {
	f.Add([]byte("pq"), []byte("abpqcd"))
	f.Add([]byte("abab"), []byte("abaabab"))
	f.Fuzz(func(t *testing.T, keys, in []byte) {
		want, _, found := bytes.Cut(in, keys)
		if len(keys) == 0 {
			want, found = in, false
		}
		got, err := io.ReadAll(stdio.NewDetachReader(iotest.OneByteReader(bytes.NewReader(in)), keys))
		if !bytes.Equal(got, want) || errors.Is(err, stdio.ErrDetached) != found {
			t.Fatalf("keys %q in %q: got %q, %v, want %q, detached %v", keys, in, got, err, want, found)
		}
	})
}

func FuzzParseDetachKeys(f *testing.F) {
	f.Add("ctrl-p,ctrl-q")
	f.Add("ctrl-,,a")
	f.Fuzz(func(t *testing.T, in string) {
		got, err := stdio.ParseDetachKeys(in)
		if (err == nil) != (len(got) > 0) {
			t.Fatalf("ParseDetachKeys(%q) = %q, %v", in, got, err)
		}
	})
}
