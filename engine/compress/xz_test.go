package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ulikunitz/xz"

	"moss/engine/fault"
)

const (
	xzMagic = "\xfd7zXZ\x00"
	xzHead  = 12   // bytes of the header of a stream
	xzLZMA2 = 0x21 // the filter's number
)

// packXZ packs text with the library's writer.
func packXZ(t testing.TB, text []byte, cfg xz.WriterConfig) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := cfg.NewWriter(&out)
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// noise is text that packs badly, with some repetition.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same text each time
	out := make([]byte, n)
	for i := range out {
		out[i] = byte('a' + r.IntN(20))
	}
	copy(out[n/2:], out[:n/4])
	return out
}

func unpackXZ(raw []byte) ([]byte, error) {
	r, err := Plain(From(iotest.HalfReader(bytes.NewReader(raw))))
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // only read
	return io.ReadAll(r)
}

func TestXZ(t *testing.T) {
	text := noise(300_000)
	one := packXZ(t, text, xz.WriterConfig{})
	for name, tc := range map[string]struct{ raw, want []byte }{
		"one block":     {one, text},
		"nothing":       {packXZ(t, nil, xz.WriterConfig{}), nil},
		"many blocks":   {packXZ(t, text, xz.WriterConfig{BlockSize: 10_000}), text},
		"no checksum":   {packXZ(t, text, xz.WriterConfig{NoCheckSum: true, BlockSize: 100_000}), text},
		"CRC32":         {packXZ(t, text, xz.WriterConfig{CheckSum: xz.CRC32, BlockSize: 100_000}), text},
		"CRC64":         {packXZ(t, text, xz.WriterConfig{CheckSum: xz.CRC64, BlockSize: 100_000}), text},
		"SHA256":        {packXZ(t, text, xz.WriterConfig{CheckSum: xz.SHA256, BlockSize: 100_000}), text},
		"two streams":   {append(bytes.Clone(one), one...), append(bytes.Clone(text), text...)},
		"zeros between": {append(append(bytes.Clone(one), make([]byte, 8)...), one...), append(bytes.Clone(text), text...)},
		"zeros behind":  {append(bytes.Clone(one), make([]byte, 400)...), text},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := unpackXZ(tc.raw); err != nil || !bytes.Equal(got, tc.want) {
				t.Errorf("%d bytes come out, want %d: %v", len(got), len(tc.want), err)
			}
		})
	}
}

// enlarge makes the header of a block, which begins there, ask for a dictionary of 4 GiB.
func enlarge(t *testing.T, raw []byte, at int) []byte {
	t.Helper()
	raw = bytes.Clone(raw)
	size := (int(raw[at]) + 1) * 4
	filter := bytes.Index(raw[at:at+size], []byte{xzLZMA2, 1})
	if filter < 0 {
		t.Fatalf("no block begins at %d", at)
	}
	raw[at+filter+2] = 40
	binary.LittleEndian.PutUint32(raw[at+size-4:], crc32.ChecksumIEEE(raw[at:at+size-4]))
	return raw
}

// TestXZDictionaries asks for memory at each place where a block can begin.
func TestXZDictionaries(t *testing.T) {
	text := noise(64_000)
	one := packXZ(t, text, xz.WriterConfig{})
	two := packXZ(t, text, xz.WriterConfig{BlockSize: 32_000, CheckSum: xz.CRC32})
	second := bytes.LastIndex(two, two[xzHead:xzHead+2]) // its header begins like the first one's
	for name, tc := range map[string]struct {
		raw []byte
		out int // bytes that come before
	}{
		"first block":   {enlarge(t, one, xzHead), 0},
		"second block":  {enlarge(t, two, second), 32_000},
		"second stream": {enlarge(t, append(bytes.Clone(one), one...), len(one)+xzHead), len(text)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := unpackXZ(tc.raw)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "dictionary") || len(got) != tc.out {
				t.Errorf("%d bytes come out, want %d: %v", len(got), tc.out, err)
			}
		})
	}
}

// TestXZDamaged changes and cuts an archive everywhere: what comes out then is an error, or the text (not every
// bit of the format means something).
func TestXZDamaged(t *testing.T) {
	text := noise(2_000)
	raw := packXZ(t, text, xz.WriterConfig{BlockSize: 900, DictCap: 4096})
	for at := len(xzMagic); at < len(raw); at++ { // before, it would be no xz, so plain
		damaged := bytes.Clone(raw)
		damaged[at] ^= 1 << (at % 8)
		if got, err := unpackXZ(damaged); err == nil && !bytes.Equal(got, text) || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("byte %d is another one: %d bytes come out, %v", at, len(got), err)
		}
		if _, err := unpackXZ(raw[:at]); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("cut at %d: %v", at, err)
		}
	}
}

// FuzzXZ holds the reader against the library's, which reads everything that this one does.
func FuzzXZ(f *testing.F) {
	text := noise(500)
	f.Add(packXZ(f, text, xz.WriterConfig{}))
	f.Add(packXZ(f, text, xz.WriterConfig{BlockSize: 100, CheckSum: xz.CRC32}))
	f.Add(append(packXZ(f, text, xz.WriterConfig{CheckSum: xz.SHA256}), packXZ(f, text, xz.WriterConfig{})...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !bytes.HasPrefix(raw, []byte(xzMagic)) {
			return
		}
		got, err := unpackXZ(raw)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("error %v, want an invalid fault", err)
			}
			return
		}
		r, err := xz.NewReader(bytes.NewReader(raw))
		var want []byte
		if err == nil {
			want, err = io.ReadAll(r)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes come out, of the library %d: %v", len(got), len(want), err)
		}
	})
}
