package forward

import (
	"testing"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/port"

	"moss/engine/fault"
)

// SetSourceWait changes how long a connection with the client's address is waited for: a test knows whether it comes.
func (p *Parent) SetSourceWait(d time.Duration) { p.dialer.sourceWait = d }

// SetCutWait changes how long the connections of a port that is opened later go on once it is closed.
func (p *Parent) SetCutWait(d time.Duration) { p.waits.cut = d }

// SetRefuseWait changes how long the clients of a port that is opened later have for their first words.
func (p *Parent) SetRefuseWait(d time.Duration) { p.waits.refuse = d }

// TestReserveLeavesDescriptors opens no port more than the process can bear.
func TestReserveLeavesDescriptors(t *testing.T) {
	p := &Parent{dialer: &dialer{}, files: 4, ports: make(map[int]*entry), taken: make(map[place]int), nextID: 1}
	spec := port.Spec{Proto: "tcp", ParentIP: "127.0.0.1", ChildIP: "192.0.2.1", ChildPort: 80}
	for i := range 3 {
		spec.ParentPort = 8000 + i
		_, err := p.reservePort(spec)
		if got, want := fault.Is(err, fault.Unavailable), i == 2; got != want {
			t.Errorf("port %d: error = %v, refused %t, want %t", i, err, got, want)
		}
	}
}

// TestAdmitLeavesDescriptors carries no connection more than the process can bear, beside the ports that are open.
func TestAdmitLeavesDescriptors(t *testing.T) {
	p := &Parent{files: filesOfOthers + 2*filesOfConnection + 1, ports: map[int]*entry{1: {}}}
	for range 2 {
		if !p.admitConnection() {
			t.Fatal("a connection was refused though there are descriptors for it")
		}
	}
	if p.admitConnection() {
		t.Error("a connection was taken without descriptors for it")
	}
	p.releaseConnection()
	if !p.admitConnection() {
		t.Error("a connection was refused after another had ended")
	}
	if n := mostFiles(); n < filesOfOthers {
		t.Errorf("mostFiles() = %d, want what a process may have", n)
	}
}
