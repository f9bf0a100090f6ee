package forward

import (
	"testing"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"

	"moss/engine/fault"
)

// TestReserveLeavesDescriptors opens no port more than the process can bear.
func TestReserveLeavesDescriptors(t *testing.T) {
	p := &Parent{dialer: &dialer{}, most: 2, ports: make(map[int]*entry), nextID: 1}
	spec := port.Spec{Proto: "tcp", ParentIP: "127.0.0.1", ChildIP: "192.0.2.1", ChildPort: 80}
	for i := range 3 {
		spec.ParentPort = 8000 + i
		_, err := p.reserve(spec)
		if got, want := fault.Is(err, fault.Unavailable), i == 2; got != want {
			t.Errorf("port %d: error = %v, refused %t, want %t", i, err, got, want)
		}
	}
	if n := mostPorts(); n < 64 {
		t.Errorf("mostPorts() = %d, want half of what a process may have", n)
	}
}
