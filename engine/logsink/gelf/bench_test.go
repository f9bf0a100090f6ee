package gelf

import (
	"bytes"
	"io"
	"testing"
	"time"

	"moss/engine/logsink"
	"moss/engine/stdio"
)

// BenchmarkSend sends lines of 100 bytes to a receiver that reads as fast as it can.
func BenchmarkSend(b *testing.B) {
	l, stream := listenTCP(b, "127.0.0.1:0")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 1<<20))
			_ = c.Close()
		}
	}()
	c, datagrams := listenUDP(b, "127.0.0.1:0")
	go func() {
		for p := make([]byte, 64<<10); ; {
			if _, _, err := c.ReadFrom(p); err != nil {
				return
			}
		}
	}()
	for name, setup := range map[string]logsink.Setup{
		"tcp": newSetup("tcp://" + stream), "udp": newSetup("udp://" + datagrams),
		"udp plain": newSetup("udp://"+datagrams, "gelf-compression-type", "none"),
	} {
		b.Run(name, func(b *testing.B) {
			s := open(b, setup)
			records := make([]logsink.Record, s.Batch().Records)
			for i := range records {
				records[i] = logsink.Record{At: time.Now(), Stream: stdio.Stdout, Text: bytes.Repeat([]byte("x"), 100)}
			}
			b.SetBytes(100 * int64(len(records)))
			b.ReportAllocs()
			for b.Loop() {
				if n, err := s.Send(b.Context(), records, true); n != len(records) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
