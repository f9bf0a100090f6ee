package imagesvc

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/opencontainers/go-digest"
)

// sample returns n bytes that are the same in every run: runs of words with noise between them.
func sample(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // it has to be the same again
	words := strings.Fields("moss is a container engine that belongs to one user it has no root anywhere")
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		if r.IntN(10) == 0 {
			b.WriteByte(byte(r.IntN(256)))
		}
	}
	return b.Bytes()[:n]
}

func gzipped(t *testing.T, plain []byte, slots int) []byte {
	t.Helper()
	g := newGzipper(io.NopCloser(iotest.HalfReader(bytes.NewReader(plain))), digest.FromBytes(plain), make(chan struct{}, slots))
	raw, err := io.ReadAll(g)
	if err := errors.Join(err, g.Close()); err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestGzipIsTheSameEverywhere pins the bytes: registries keep a layer once only if every engine compresses it alike. A change
// of the library that fails here makes every layer travel once more: it belongs into the changelog.
func TestGzipIsTheSameEverywhere(t *testing.T) {
	for _, tc := range []struct {
		name string
		size int
		want string
	}{
		{"nothing", 0, "sha256:ac73670af3abed54ac6fb4695131f4099be9fbe39d6076c5d0264a6bbdae9d83"},
		{"little", 1000, "sha256:5cf8a339a8cbd8ce4ae572274c980da89948d83a46a9202466acc3f275f65bb8"},
		{"one block", gzipBlock, "sha256:4d67f039716d739c16f76ba20193815a2d64133fae4faba3e18c8eae813b153a"},
		{"some blocks", 3*gzipBlock + 12345, "sha256:38c2a7c59825fe5012fa55cd9c163611e36cc418d39903e85d5acb697c323cbd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plain := sample(tc.size)
			for _, slots := range []int{1, 2, 16} {
				raw := gzipped(t, plain, slots)
				if got := digest.FromBytes(raw).String(); got != tc.want {
					t.Errorf("%d bytes with %d processors = %s, want %s", tc.size, slots, got, tc.want)
				}
				r, err := gzip.NewReader(bytes.NewReader(raw))
				if err != nil {
					t.Fatal(err)
				}
				r.Multistream(false)
				if back, err := io.ReadAll(r); err != nil || !bytes.Equal(back, plain) {
					t.Errorf("decompressed: %d bytes, %v, want the %d that went in", len(back), err, len(plain))
				}
			}
		})
	}
}

func TestGzipErrors(t *testing.T) {
	plain := sample(2*gzipBlock + 5)
	boom := errors.New("boom")
	for _, tc := range []struct {
		name string
		src  io.Reader
		want string
	}{
		{"source", io.MultiReader(bytes.NewReader(plain), iotest.ErrReader(boom)), "boom"},
		{"truncated", bytes.NewReader(plain[:len(plain)-1]), "the layer in the store is damaged: its digest is sha256:"},
		{"another end", io.MultiReader(bytes.NewReader(plain), strings.NewReader("x")), "the layer in the store is damaged: its digest is sha256:"},
		{"cut with an error", io.MultiReader(bytes.NewReader(plain[:7]), iotest.ErrReader(io.ErrUnexpectedEOF)), "the layer in the store is damaged: its digest is sha256:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			closed := &layer{Reader: tc.src}
			g := newGzipper(closed, digest.FromBytes(plain), make(chan struct{}, 2))
			_, err := io.Copy(io.Discard, g)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("reading = %v, want %q", err, tc.want)
			}
			if _, again := g.Read(make([]byte, 1)); !errors.Is(again, err) {
				t.Errorf("reading again = %v, want the same", again)
			}
			if err := g.Close(); err != nil || closed.closed != 1 {
				t.Errorf("Close = %v, the source was closed %d times", err, closed.closed)
			}
		})
	}
}

// TestGzipGivenUp closes compressions that nobody reads to their end: none may wait for ever.
func TestGzipGivenUp(t *testing.T) {
	slots := make(chan struct{}, 1)
	for read := range 4 {
		src := &layer{Reader: io.LimitReader(endless{}, 1<<40)}
		g := newGzipper(src, digest.FromString(""), slots)
		if _, err := io.ReadFull(g, make([]byte, read*20_000)); err != nil {
			t.Fatal(err)
		}
		if err := g.Close(); err != nil || src.closed != 1 {
			t.Errorf("Close = %v, the source was closed %d times", err, src.closed)
		}
	}
	if len(slots) != 0 {
		t.Errorf("%d slots are still taken", len(slots))
	}
}

// endless is an archive without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * i)
	}
	return len(p), nil
}

func BenchmarkGzip(b *testing.B) {
	plain := sample(64 << 20)
	sum := digest.FromBytes(plain)
	slots := make(chan struct{}, 2)
	b.SetBytes(int64(len(plain)))
	for b.Loop() {
		g := newGzipper(io.NopCloser(bytes.NewReader(plain)), sum, slots)
		n, err := io.Copy(io.Discard, g)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n)/float64(len(plain)), "ratio")
		if err := g.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
