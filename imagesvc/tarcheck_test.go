package imagesvc

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
	"testing/iotest"

	"moss/engine/fault"
)

// archive makes a tar archive of the given headers; regular files are filled with as many bytes as they say.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := range headers {
		h := headers[i]
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg || h.Typeflag == 0 {
			if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func file(name string, size int64) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}
}

func checked(raw []byte, limits Limits) ([]byte, error) {
	src := bytes.NewReader(raw)
	read := func() int64 { return int64(len(raw) - src.Len()) }
	return io.ReadAll(newChecker(iotest.HalfReader(src), limits.withDefaults(), read))
}

func TestCheckerPassesOn(t *testing.T) {
	for name, raw := range map[string][]byte{
		"files": archive(t, tar.Header{Name: "etc/", Typeflag: tar.TypeDir}, file("etc/a", 1000), file("etc/b", 512), file("c", 0),
			tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/../../etc/passwd"},
			tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "etc/a"},
			tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}),
		"absolute":        archive(t, file("/etc/passwd", 7)),
		"dots inside":     archive(t, file("a/../b", 7)),
		"the same twice":  archive(t, file("a", 7), file("a", 9)),
		"long names":      archive(t, file(strings.Repeat("d/", 300)+"f", 3), file(strings.Repeat("n", 250), 600_000)),
		"no entries":      archive(t),
		"root folder":     archive(t, tar.Header{Name: "./", Typeflag: tar.TypeDir}, file("./a", 1)),
		"whiteout":        archive(t, file(".wh.a", 0), file("d/.wh..wh..opq", 0)),
		"extended header": archive(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := checked(raw, Limits{})
			if err != nil || !bytes.Equal(got, raw) {
				t.Errorf("%d of %d bytes came through, %v", len(got), len(raw), err)
			}
			padded := append(bytes.Clone(raw), bytes.Repeat([]byte{0, 1}, 4500)...)
			got, err = checked(padded, Limits{})
			if err != nil || !bytes.Equal(got, padded) {
				t.Errorf("with padding: %d of %d bytes came through, %v", len(got), len(padded), err)
			}
			got, err = checked(raw[:len(raw)-blockSize], Limits{})
			if err != nil || !bytes.Equal(got, raw[:len(raw)-blockSize]) {
				t.Errorf("with half an end mark: %d of %d bytes came through, %v", len(got), len(raw), err)
			}
		})
	}
}

func TestCheckerRefuses(t *testing.T) {
	plain := archive(t, file("a", 1000), file("b", 100))
	for _, tc := range []struct {
		name   string
		raw    []byte
		limits Limits
		want   string
	}{
		{"nothing", nil, Limits{}, "the archive is empty"},
		{"text", []byte(strings.Repeat("this is no archive\n", 100)), Limits{}, "this is not a tar archive"},
		{"short text", []byte("hello"), Limits{}, "unexpected EOF"},
		{"parent", archive(t, file("../a", 1)), Limits{}, `the name "../a" leads out`},
		{"absolute parent", archive(t, file("/../a", 1)), Limits{}, "the name"},
		{"hidden parent", archive(t, file("a/../../b", 1)), Limits{}, "the name"},
		{"hard link out", archive(t, tar.Header{Name: "a", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}), Limits{}, "the link target"},
		{"empty link", archive(t, tar.Header{Name: "a", Typeflag: tar.TypeLink}), Limits{}, "the link target of an entry is empty"},
		{"root as link", archive(t, tar.Header{Name: ".", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), Limits{}, "entry \".\" would take"},
		{"whiteout of the parent", archive(t, file("a/.wh...", 0)), Limits{}, "entry \"a/.wh...\" hides"},
		{"unknown type", archive(t, tar.Header{Name: "a", Typeflag: 'Z'}), Limits{}, "entry \"a\" has an unknown type"},
		{"many entries", archive(t, file("a", 0), file("b", 0), file("c", 0)), Limits{Entries: 2}, "the archive has more than 2 entries"},
		{"deep", archive(t, file(strings.Repeat("d/", 600)+"f", 0)), Limits{}, "the name \"d/d/"},
		{"long", archive(t, file(strings.Repeat("n", 5000), 0)), Limits{}, "the name of an entry has more than"},
		{"long link", archive(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("n", 5000)}), Limits{}, "the link of entry"},
		{
			"long headers", archive(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"X.y": strings.Repeat("z", 9000)}}),
			Limits{HeaderLen: 8000},
			"an entry's headers have more than",
		},
		{"endless headers", endlessHeaders(t), Limits{}, "an entry's headers have more than"},
		{"sparse", sparse(t, 1<<40), Limits{}, "sparse entry \"big\""},
		{"in a file", plain[:900], Limits{}, "unexpected EOF"},
		{"in a header", plain[:1800], Limits{}, "unexpected EOF"},
		{"in the padding", plain[:512+1000], Limits{}, "unexpected EOF"},
		{"between entries", plain[:512+1024], Limits{}, "unexpected EOF"},
		{"before the end mark", plain[:len(plain)-1024], Limits{}, "unexpected EOF"},
		{"damaged", append(bytes.Clone(plain[:1536]), bytes.Repeat([]byte("z"), 512)...), Limits{}, "entry 2 of the archive"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := checked(tc.raw, tc.limits)
			if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error %v, want an invalid fault %q", err, tc.want)
			}
			if bytes.HasSuffix(got, make([]byte, 2*blockSize)) {
				t.Error("what came through looks like a whole archive")
			}
		})
	}
}

// endlessHeaders is 16 MiB of extended headers for one entry that never comes.
func endlessHeaders(t *testing.T) []byte {
	t.Helper()
	one := archive(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"X.y": strings.Repeat("z", 500_000)}})
	at := len(one) - 3*blockSize // the entry's own header, before the end mark
	if one[at] != 'a' || one[at+1] != 0 {
		t.Fatalf("the entry's own header is not at %d", at)
	}
	return bytes.Repeat(one[:at], 32)
}

// sparse is an archive of one entry in GNU's old sparse format that holds nothing and pretends to size.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	raw := archive(t, tar.Header{Name: "big", Typeflag: tar.TypeReg, Format: tar.FormatGNU})
	block := raw[:blockSize]
	block[156] = tar.TypeGNUSparse
	octal := func(at, width int, v int64) {
		digits := []byte(strings.Repeat("0", width-1))
		for i := len(digits) - 1; v > 0; i-- {
			digits[i], v = byte('0'+v%8), v/8
		}
		copy(block[at:], digits)
	}
	base256 := func(at, width int, v int64) {
		for i := range width {
			block[at+width-1-i] = byte(v >> (8 * i) & 0xff)
			if i >= 8 {
				block[at+width-1-i] = 0
			}
		}
		block[at] |= 0x80
	}
	base256(386, 12, size) // one empty piece at the end
	octal(398, 12, 0)
	base256(483, 12, size) // the real size
	copy(block[148:156], "        ")
	var sum int64
	for _, b := range block {
		sum += int64(b)
	}
	octal(148, 7, sum)
	block[154], block[155] = 0, ' '
	return raw
}

func TestCheckerTakesSmallSparse(t *testing.T) {
	raw := sparse(t, 1<<20)
	got, err := checked(raw, Limits{})
	if err != nil || !bytes.Equal(got, raw) {
		t.Errorf("%d of %d bytes came through, %v", len(got), len(raw), err)
	}
}

func TestCheckerRatio(t *testing.T) {
	raw := archive(t, file("a", 1<<20))
	c := newChecker(bytes.NewReader(raw), Limits{Free: 1000, Ratio: 10}.withDefaults(), func() int64 { return 5000 })
	if _, err := io.Copy(io.Discard, c); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "more than 10 times its size") {
		t.Errorf("a bomb: %v", err)
	}
	c = newChecker(io.MultiReader(bytes.NewReader(archive(t)), bytes.NewReader(make([]byte, 1<<20))),
		Limits{Free: 5000, Ratio: 10}.withDefaults(), func() int64 { return 100 })
	if _, err := io.Copy(io.Discard, c); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "more than 10 times its size") {
		t.Errorf("a bomb behind the end: %v", err)
	}
}

func TestCheckerKeepsSourceErrors(t *testing.T) {
	boom := errors.New("boom")
	raw := archive(t, file("a", 1000))
	for _, n := range []int{0, 100, 600, 1100, 1536} {
		c := newChecker(io.MultiReader(bytes.NewReader(raw[:n]), iotest.ErrReader(boom)), Limits{}.withDefaults(), func() int64 { return 1 })
		if _, err := io.Copy(io.Discard, c); !errors.Is(err, boom) || fault.Is(err, fault.Invalid) {
			t.Errorf("after %d bytes: %v, want boom", n, err)
		}
	}
}

func FuzzChecker(f *testing.F) {
	f.Add(archive(f, file("a", 10), tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "a"}))
	f.Add(archive(f, file(strings.Repeat("n", 200), 600), tar.Header{Name: "d/", Typeflag: tar.TypeDir}))
	f.Add(archive(f, tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 3, PAXRecords: map[string]string{"X.y": "z"}}))
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		limits := Limits{Entries: 100, HeaderLen: 64 << 10, NameLen: 300, Depth: 20, Sparse: 1 << 20}
		got, err := checked(raw, limits)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%v is no invalid fault", err)
			}
			return
		}
		r := tar.NewReader(bytes.NewReader(got))
		for n := 0; ; n++ {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
				t.Fatalf("what came through is no archive: %v", err)
			}
			if n >= 100 {
				t.Fatalf("more than 100 entries came through")
			}
			if h.Typeflag == tar.TypeXGlobalHeader {
				continue
			}
			if clean := path.Join("/root", "./"+h.Name); clean != "/root" && !strings.HasPrefix(clean, "/root/") {
				t.Errorf("entry %q came through", h.Name)
			}
			if len(h.Name) > 300 || h.Size > 1<<20 && int(h.Size) > len(raw) {
				t.Errorf("entry %q of %d bytes came through", h.Name, h.Size)
			}
		}
	})
}
