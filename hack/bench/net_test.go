package main

import (
	"maps"
	"testing"
)

func TestLibraries(t *testing.T) {
	const said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibiperf.so.0 => /lib/x86_64-linux-gnu/libiperf.so.0 (0x00007f2a)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f2b)\n"
	want := map[string]string{
		"bin/iperf3":                          "/usr/bin/iperf3",
		"/lib/x86_64-linux-gnu/libiperf.so.0": "/lib/x86_64-linux-gnu/libiperf.so.0",
		"/lib64/ld-linux-x86-64.so.2":         "/lib64/ld-linux-x86-64.so.2",
	}
	if got := parseLdd(said, "/usr/bin/iperf3"); !maps.Equal(got, want) {
		t.Errorf("libraries = %v, want %v", got, want)
	}
}

func TestReceived(t *testing.T) {
	for _, tc := range []struct {
		name, out string
		want      float64 // 0: an error
	}{
		{"a result", `{"end":{"sum_sent":{"bits_per_second":2e9},"sum_received":{"bits_per_second":1.5e9}}}`, 1.5},
		{"refused", `{"end":{},"error":"unable to connect to server: Connection refused"}`, 0},
		{"nothing", ``, 0},
	} {
		got, err := parseReceived([]byte(tc.out))
		if got != tc.want || (err == nil) != (tc.want != 0) {
			t.Errorf("%s: received = %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
}
