package mesh

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/ca"

	"moss/engine/fault"
)

// newRoot makes the certificate authority of a swarm.
func newRoot(t *testing.T) ca.RootCA {
	t.Helper()
	root, err := ca.CreateRootCA("swarm-ca")
	check(t, err)
	return root
}

// issue writes the certificate of a node, its key, which kek locks, and the root, as SwarmKit does.
func issue(t *testing.T, root ca.RootCA, dir, node, role, swarm string, kek []byte) {
	t.Helper()
	paths := ca.NewConfigPaths(dir)
	check(t, ca.SaveRootCA(root, paths.RootCA))
	_, _, err := root.IssueAndSaveNewCertificates(ca.NewKeyReadWriter(paths.Node, kek, nil), node, role, swarm)
	check(t, err)
}

// newIdentity is a node of the swarm "s".
func newIdentity(t *testing.T, root ca.RootCA, node, role string) *identity {
	t.Helper()
	i := &identity{dir: t.TempDir(), unlock: func(context.Context) [][]byte { return nil }}
	issue(t, root, i.dir, node, role, "s", nil)
	return i
}

// end is one end of a connection.
type end struct {
	state tls.ConnectionState
	err   error
}

// meet has one call the other, with one byte each way: a client of TLS 1.3 hears of a refusal with the first byte.
func meet(t *testing.T, serve, call *tls.Config) (server, client end) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer func() { _ = l.Close() }()
	done := make(chan end)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- end{err: err}
			return
		}
		done <- talk(tls.Server(raw, serve))
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	check(t, err)
	client = talk(tls.Client(raw, call))
	return <-done, client
}

func talk(conn *tls.Conn) end {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, err := conn.Write([]byte("x"))
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	return end{conn.ConnectionState(), err}
}

// connect has one node follow another.
func connect(t *testing.T, manager, node *identity) (server, client end) {
	t.Helper()
	serve, err := manager.serveTLS()
	check(t, err)
	call, err := node.followTLS()
	check(t, err)
	return meet(t, serve, call)
}

func TestNodesOfASwarmKnowEachOther(t *testing.T) {
	root := newRoot(t)
	manager := newIdentity(t, root, "manager1", ca.ManagerRole)
	for node, role := range map[string]string{"worker1": ca.WorkerRole, "manager2": ca.ManagerRole} {
		server, client := connect(t, manager, newIdentity(t, root, node, role))
		check(t, errors.Join(server.err, client.err))
		if who, err := manager.whoIs(server.state); err != nil || who != node {
			t.Errorf("the manager sees %q, %v, want %q", who, err, node)
		}
		if err := newIdentity(t, root, "worker2", ca.WorkerRole).checkManager(client.state); err != nil {
			t.Errorf("the manager is refused: %v", err)
		}
	}
}

func TestWorkerIsNoManager(t *testing.T) {
	root := newRoot(t)
	liar, node := newIdentity(t, root, "worker1", ca.WorkerRole), newIdentity(t, root, "worker2", ca.WorkerRole)
	if _, client := connect(t, liar, node); client.err == nil {
		t.Error("a node follows a worker")
	}
	// Nor is it one for who does not look at the name.
	p, err := liar.readPapers()
	check(t, err)
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{p.pair.Leaf}}
	if err := node.checkManager(state); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a worker as a manager: %v, want it refused", err)
	}
	if err := node.checkManager(tls.ConnectionState{}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("nobody as a manager: %v, want it refused", err)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	root := newRoot(t)
	manager := newIdentity(t, root, "manager1", ca.ManagerRole)
	stranger := newIdentity(t, newRoot(t), "worker1", ca.WorkerRole)
	if server, client := connect(t, manager, stranger); server.err == nil || client.err == nil {
		t.Errorf("a node of another authority: the manager %v, the node %v, want both to refuse", server.err, client.err)
	}
	trusting, err := stranger.followTLS()
	check(t, err)
	trusting.InsecureSkipVerify = true //nolint:gosec // a stranger that does not look whom it calls
	serve, err := manager.serveTLS()
	check(t, err)
	if server, _ := meet(t, serve, trusting); server.err == nil {
		t.Error("a node of another authority is served")
	}
	trusting.Certificates = nil
	if server, _ := meet(t, serve, trusting); server.err == nil {
		t.Error("a node without a certificate is served")
	}
	if who, err := manager.whoIs(tls.ConnectionState{}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("nobody is %q, %v, want it refused", who, err)
	}

	other := &identity{dir: t.TempDir()}
	issue(t, root, other.dir, "worker1", ca.WorkerRole, "another swarm", nil)
	server, _ := connect(t, manager, other)
	if who, err := manager.whoIs(server.state); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a node of another swarm of this authority is %q, %v, want it refused", who, err)
	}
	// A certificate that is none of a node.
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}}
	if who, err := manager.whoIs(state); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a certificate without a name is %q, %v, want it refused", who, err)
	}
}

func TestRemovedNodeIsRefused(t *testing.T) {
	root := newRoot(t)
	manager, node := newIdentity(t, root, "manager1", ca.ManagerRole), newIdentity(t, root, "worker1", ca.WorkerRole)
	has := true
	manager.admit = func(id string) bool { return has && id == "worker1" }
	server, _ := connect(t, manager, node)
	if _, err := manager.whoIs(server.state); err != nil {
		t.Errorf("a node of the swarm: %v", err)
	}
	has = false
	if who, err := manager.whoIs(server.state); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a node that was removed is %q, %v, want it refused", who, err)
	}
}

func TestLockedKey(t *testing.T) {
	root := newRoot(t)
	kek := bytes.Repeat([]byte{7}, 32)
	var keys [][]byte
	i := &identity{dir: t.TempDir(), unlock: func(context.Context) [][]byte { return keys }}
	issue(t, root, i.dir, "manager1", ca.ManagerRole, "s", kek)
	for name, wrong := range map[string][][]byte{
		"no key": nil, "another key": {bytes.Repeat([]byte{8}, 32)}, "an empty key": {{}}, "a long key": {bytes.Repeat(kek, 100)},
	} {
		keys = wrong
		if _, err := i.serveTLS(); err == nil {
			t.Errorf("%s opens it", name)
		}
	}
	keys = [][]byte{bytes.Repeat([]byte{8}, 32), kek}
	node := newIdentity(t, root, "worker1", ca.WorkerRole)
	server, client := connect(t, i, node)
	check(t, errors.Join(server.err, client.err, node.checkManager(client.state)))
	// It stays open: the key is not asked for again while the files are the same.
	keys = nil
	if _, err := i.serveTLS(); err != nil {
		t.Errorf("once it was open: %v", err)
	}
}

func TestRenewedCertificate(t *testing.T) {
	root := newRoot(t)
	i := newIdentity(t, root, "worker1", ca.WorkerRole)
	first, err := i.readPapers()
	check(t, err)
	if again, err := i.readPapers(); err != nil || again != first {
		t.Errorf("files that are the same are read anew: %v", err)
	}
	old, err := os.ReadFile(filepath.Join(i.dir, certName))
	check(t, err)
	issue(t, root, i.dir, "worker1", ca.ManagerRole, "s", nil) // the node is promoted
	fresh, err := os.ReadFile(filepath.Join(i.dir, certName))
	check(t, err)

	// The key is written before the certificate.
	check(t, os.WriteFile(filepath.Join(i.dir, certName), old, 0o600))
	if _, err := i.readPapers(); err == nil {
		t.Error("a key that does not fit its certificate is taken")
	}
	check(t, os.WriteFile(filepath.Join(i.dir, certName), fresh, 0o600))
	server, client := connect(t, i, newIdentity(t, root, "worker2", ca.WorkerRole))
	check(t, errors.Join(server.err, client.err))

	other := newRoot(t)
	check(t, ca.SaveRootCA(other, ca.NewConfigPaths(i.dir).RootCA))
	next, err := i.readPapers()
	check(t, err)
	if next.roots.Equal(first.roots) {
		t.Error("the root is the old one still")
	}
	for _, name := range []string{certName, keyName, rootName} {
		path := filepath.Join(i.dir, name)
		was, err := os.ReadFile(path)
		check(t, err)
		for _, broken := range []string{"", "-----BEGIN X-----\n", "x"} {
			check(t, os.WriteFile(path, []byte(broken), 0o600))
			if _, err := i.readPapers(); err == nil {
				t.Errorf("%s with %q is taken", name, broken)
			}
		}
		check(t, os.Remove(path))
		if _, err := i.readPapers(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("without %s: %v", name, err)
		}
		check(t, os.WriteFile(path, was, 0o600))
	}
	if _, err := i.readPapers(); err != nil {
		t.Errorf("with all files back: %v", err)
	}
}
