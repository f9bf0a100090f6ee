package syslog

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// BenchmarkSend sends lines of 100 bytes to a receiver that reads as fast as it can.
func BenchmarkSend(b *testing.B) {
	for _, way := range []string{"unix", "tcp", "unixgram", "udp"} {
		for _, format := range []string{"", "rfc5424micro"} {
			b.Run(way+" "+format, func(b *testing.B) { benchmarkSend(b, way, format) })
		}
	}
}

func benchmarkSend(b *testing.B, way, format string) {
	b.Helper()
	address := b.TempDir() + "/s"
	if way == "tcp" || way == "udp" {
		address = "127.0.0.1:0"
	}
	switch way {
	case "unix", "tcp":
		listener, err := net.Listen(way, address)
		if err != nil {
			b.Fatal(err)
		}
		defer listener.Close() //nolint:errcheck // only read
		address = listener.Addr().String()
		go func() {
			if conn, err := listener.Accept(); err == nil {
				readAll(conn)
			}
		}()
	default:
		conn, err := net.ListenPacket(way, address)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // ends readAll
		address = conn.LocalAddr().String()
		go readAll(conn.(io.Reader))
	}
	options := map[string]string{"syslog-address": way + "://" + address, "syslog-format": format}
	s, err := Open(b.Context(), describeContainer("tag", options))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // does not fail
	all := makeRecords(strings.Split(strings.Repeat(fmt.Sprintf("%0100d ", 1), 500), " ")[:500]...)
	b.SetBytes(500 * 100)
	b.ReportAllocs()
	for b.Loop() {
		if n, err := s.Send(b.Context(), all, true); n != len(all) || err != nil {
			b.Fatalf("Send = %d, %v", n, err)
		}
	}
}

// readAll reads until the end, without a place for it.
func readAll(r io.Reader) {
	buf := make([]byte, 1<<20)
	for {
		if _, err := r.Read(buf); err != nil {
			return
		}
	}
}
