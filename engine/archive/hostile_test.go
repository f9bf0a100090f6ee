package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// TestRacingContainer swaps a folder and a link to the canary while files are copied both ways.
func TestRacingContainer(t *testing.T) {
	for _, to := range []string{"absolute", "relative"} {
		t.Run(to, func(t *testing.T) {
			b := newBox(t)
			target := b.canary
			if to == "relative" {
				target = "../../../canary"
			}
			b.must(os.MkdirAll(b.root+"/work/swap/sub", 0o755))
			b.must(os.WriteFile(b.root+"/work/swap/file", []byte("harmless"), 0o644))
			b.must(os.Symlink(target, b.root+"/work/link"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var all sync.WaitGroup
			all.Go(func() {
				for ctx.Err() == nil {
					if err := unix.Renameat2(unix.AT_FDCWD, b.root+"/work/swap", unix.AT_FDCWD, b.root+"/work/link", unix.RENAME_EXCHANGE); err != nil {
						t.Error(err)
						return
					}
				}
			})
			raw := archiveOf(t, entry("file"), entry("sub/"), entry("sub/made"), hard("sub/hard", "file"))
			outer := archiveOf(t, entry("swap/file"), entry("swap/new/made"), hard("swap/hard", "swap/file"))
			var done [3]int
			shown := func() bool { return done[0]+done[1] > 0 && done[2] > 0 }
			for begin := time.Now(); time.Since(begin) < 1500*time.Millisecond || !shown() && time.Since(begin) < time.Minute; {
				for i, err := range []error{b.unpack("/work/swap", raw), b.unpack("/work", outer), racePack(b)} {
					switch {
					case err == nil:
						done[i]++
					case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP),
						errors.Is(err, unix.ENOTEMPTY), fault.Is(err, fault.Invalid), fault.Is(err, fault.NotFound), fault.Is(err, fault.Internal):
					default:
						t.Errorf("copy %d: %v", i, err)
					}
				}
			}
			cancel()
			all.Wait()
			b.untouched()
			if !shown() {
				t.Errorf("the copies that worked are %v: the test shows nothing", done)
			}
		})
	}
}

// racePack reads what is being swapped, and fails if it is the canary.
func racePack(b *box) error {
	for _, path := range []string{"/work/swap", "/work/swap/file", "/work"} {
		if s, err := b.service().Stat(b.t.Context(), "web", path); err == nil && s.Size == int64(len(secret)) {
			b.t.Errorf("Stat(%s) describes the canary", path)
		}
		raw, _, err := b.pack(path)
		if err != nil {
			return err
		}
		if bytes.Contains(raw, []byte(secret)) {
			b.t.Errorf("Open(%s) reads the canary", path)
		}
	}
	return nil
}

// memory returns what the process has in memory now and the most that it had since forgetPeak, in MiB.
func memory(t *testing.T) (now, most int) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) int {
		_, rest, _ := strings.Cut(string(raw), name+":")
		kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(err)
		}
		return kilobytes >> 10
	}
	return read("VmRSS"), read("VmHWM")
}

// forgetPeak begins the look for the most memory anew. What earlier tests left goes back first: how soon the runtime does
// that by itself depends on how busy the machine is.
func forgetPeak(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// generate writes an archive while it is read.
func generate(write func(w *tar.Writer) error) io.Reader {
	out, in := io.Pipe()
	go func() {
		buffered := bufio.NewWriterSize(in, 1<<20)
		w := tar.NewWriter(buffered)
		in.CloseWithError(errors.Join(write(w), w.Close(), buffered.Flush()))
	}()
	return out
}

func zipped(src io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		w, err := gzip.NewWriterLevel(in, gzip.BestSpeed)
		if err == nil {
			_, err = io.Copy(w, src)
		}
		in.CloseWithError(errors.Join(err, w.Close()))
	}()
	return out
}

// TestBombs unpacks traps: they are refused, or do no harm, and the memory stays small.
func TestBombs(t *testing.T) {
	growth := 64 // MiB that a trap may take, beside what the test program has
	if raceDetector {
		growth *= 3 // it keeps account of each word of memory that was used, and collects garbage late
	}
	entries := func(n int, header func(i int) *tar.Header) io.Reader {
		return generate(func(w *tar.Writer) error {
			for i := range n {
				if err := w.WriteHeader(header(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, tc := range []struct {
		name string
		src  func() io.Reader
		want string // part of the error; empty: it works
	}{
		{"zeros in gzip", func() io.Reader {
			return zipped(generate(func(w *tar.Writer) error {
				err := w.WriteHeader(&tar.Header{Name: "zeros", Size: 1 << 40, Mode: 0o600})
				for zero := make([]byte, 1<<20); err == nil; {
					_, err = w.Write(zero)
				}
				return err
			}))
		}, "times its size"},
		{"a million devices", func() io.Reader {
			return entries(1_000_000, func(i int) *tar.Header {
				return &tar.Header{Name: "dev" + strconv.Itoa(i), Typeflag: tar.TypeChar}
			})
		}, ""},
		{"many folders", func() io.Reader {
			return entries(60_000, func(int) *tar.Header { return &tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o700} })
		}, ""},
		{"implied folders", func() io.Reader {
			return entries(300, func(i int) *tar.Header {
				return &tar.Header{Name: strconv.Itoa(i) + "/" + strings.Repeat("a/", 490) + "f"}
			})
		}, "folders that it does not list"},
		{"links that walk about", func() io.Reader {
			return entries(3000, func(i int) *tar.Header {
				switch {
				case i < 30:
					return &tar.Header{Name: fmt.Sprint("l", i), Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("../dest/", 500) + fmt.Sprint("l", i+1)}
				case i == 30:
					return &tar.Header{Name: "l30/", Typeflag: tar.TypeDir}
				default:
					return &tar.Header{Name: fmt.Sprintf("l0/%d/f", i)}
				}
			})
		}, "too many symbolic links"},
		{"sparse", func() io.Reader { return bytes.NewReader(sparse(t, 1<<60)) }, "sparse entries pretend"},
		{"large pax headers", func() io.Reader {
			raw := archiveOf(t, entry("x"))
			octal(raw[124:136], 1<<32)
			raw[156] = tar.TypeXHeader
			seal(raw[:512])
			return io.MultiReader(bytes.NewReader(raw[:512]), endless{})
		}, "entry 1 of the archive: archive/tar: header field too long"},
		{"deep", func() io.Reader {
			return entries(1, func(int) *tar.Header {
				return &tar.Header{Name: strings.Repeat("d/", 2000), Typeflag: tar.TypeDir}
			})
		}, "folders deep"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBox(t)
			forgetPeak(t)
			before, _ := memory(t)
			err := b.service().Unpack(t.Context(), "web", "/dest", tc.src(), UnpackOptions{})
			_, most := memory(t)
			t.Logf("%d MiB before, %d MiB at most", before, most)
			if most-before > growth {
				t.Errorf("it took %d MiB, want at most %d", most-before, growth)
			}
			if tc.want == "" {
				if err != nil {
					t.Errorf("Unpack: %v", err)
				}
				return
			}
			holds(t, "Unpack", err, fault.Invalid, tc.want)
		})
	}
}

// sparse makes an archive of one old GNU sparse file that pretends to a size and has one byte at its beginning.
func sparse(t *testing.T, size int64) []byte {
	t.Helper()
	raw := archiveOf(t, entry("s", func(h *tar.Header) { h.Format = tar.FormatGNU }))
	block := raw[:512]
	block[156] = tar.TypeGNUSparse
	octal(block[386:398], 0) // where its one piece begins
	octal(block[398:410], 1) // and how long it is
	large(block[410:422], size)
	octal(block[422:434], 0)
	block[482] = 0 // no more pieces
	large(block[483:495], size)
	seal(block)
	return raw
}

// octal, large and seal fill the fields of a tar header.
func octal(field []byte, value int64) { copy(field, fmt.Sprintf("%0*o\x00", len(field)-1, value)) }

func large(field []byte, value int64) {
	clear(field)
	binary.BigEndian.PutUint64(field[len(field)-8:], uint64(value))
	field[0] = 0x80
}

func seal(block []byte) {
	copy(block[148:156], "        ")
	sum := int64(0)
	for _, c := range block {
		sum += int64(c)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// endless is a source of zeros.
type endless struct{}

// Read gives zeros.
func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestSparseStaysSparse unpacks a sparse file that is not too large.
func TestSparseStaysSparse(t *testing.T) {
	b := newBox(t)
	b.must(b.unpack("/dest", sparse(t, 1<<30)))
	var st unix.Stat_t
	b.must(unix.Stat(b.root+"/dest/s", &st))
	if st.Size != 1<<30 || st.Blocks*512 > 2<<20 {
		t.Errorf("it has %d bytes in %d blocks, want 1 GiB in few", st.Size, st.Blocks)
	}
}
