package conn

import (
	"bytes"
	"testing"

	"moss/engine/stdio"
)

// FuzzUnframe compares with the reader of package stdio, whatever pieces the bytes come in.
func FuzzUnframe(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x02hi\x02\x00\x00\x00\x00\x00\x00\x00"), 3)
	f.Add([]byte("no frames"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = max(size, 1)
		var got, want [2]bytes.Buffer
		var u unframer
		var err error
		for rest := data; err == nil && len(rest) > 0; {
			n := min(size, len(rest))
			err = u.emitPayloads(rest[:n], func(stream stdio.Stream, payload []byte) error {
				got[stream-1].Write(payload)
				return nil
			})
			rest = rest[n:]
		}
		wantErr := stdio.Demux(bytes.NewReader(data), &want[0], &want[1])
		for i := range got {
			if !bytes.Equal(got[i].Bytes(), want[i].Bytes()) {
				t.Errorf("stream %d of %q in pieces of %d = %q, want %q", i+1, data, size, got[i].Bytes(), want[i].Bytes())
			}
		}
		if err != nil && wantErr == nil {
			t.Errorf("feed(%q) = %v, want nil", data, err)
		}
	})
}
