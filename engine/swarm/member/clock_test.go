package member

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/ca/keyutils"

	"moss/engine/fault"
)

// authority signs as the managers of a swarm do.
type authority struct {
	root *x509.Certificate
	key  any
}

// authorityOf reads the key of a swarm, which its managers have in their store alone.
func authorityOf(t *testing.T, manager *Member) authority {
	t.Helper()
	watch, err := manager.Watch()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := watch.Watch(t.Context(), &api.WatchRequest{Entries: []*api.WatchRequest_WatchEntry{
		{Kind: "cluster", Action: api.WatchActionKindUpdate},
	}})
	if err == nil {
		_, err = stream.Recv() // that nothing is missed from now on
	}
	if err != nil {
		t.Fatal(err)
	}
	rotateWorkerToken(t, manager)
	message, err := stream.Recv()
	if err != nil || len(message.Events) == 0 {
		t.Fatalf("the change of a swarm: %v, %v", message, err)
	}
	root := message.Events[0].Object.GetCluster().RootCA
	key, err := keyutils.Default.ParsePrivateKeyPEMWithPassword(root.CAKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	return authority{parseCertificate(t, root.CACert), key}
}

func parseCertificate(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("no certificate: %s", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// moveCertificate makes the certificate of a node one of another time, and returns what it was.
func (a authority) moveCertificate(t *testing.T, dir string, since, until time.Duration) (old []byte) {
	t.Helper()
	path := filepath.Join(dir, stateName, "certificates", "swarm-node.crt")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, now := parseCertificate(t, old), time.Now()
	moved := &x509.Certificate{
		SerialNumber: c.SerialNumber, Subject: c.Subject, DNSNames: c.DNSNames, KeyUsage: c.KeyUsage, ExtKeyUsage: c.ExtKeyUsage,
		BasicConstraintsValid: true, NotBefore: now.Add(since), NotAfter: now.Add(until),
	}
	der, err := x509.CreateCertificate(rand.Reader, moved, a.root, c.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return old
}

func writeFile(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestExpiredWorker: a node whose certificate has expired while it was away says so, and comes back as another one.
func TestExpiredWorker(t *testing.T) {
	t.Parallel()
	manager, opt := open(t, options(t)), options(t)
	_, addr := initSwarm(t, manager, InitOptions{})
	signer := authorityOf(t, manager)
	token := cluster(t, manager).RootCA.JoinTokens.Worker
	worker := open(t, opt)
	join(t, worker, addr, token)
	id := worker.Status().NodeID
	worker.Close()
	signer.moveCertificate(t, opt.Dir, -48*time.Hour, -time.Minute)
	worker = open(t, opt)
	await(t, "the node says so", func() bool { return worker.Status().State == Failed })
	if s := worker.Status(); s.Error != errExpired.Error() {
		t.Errorf("Status: got %+v, want %v", s, errExpired)
	}
	_, err := worker.Control()
	wantFault(t, "Control", err, fault.NotAcceptable, "expired")
	if err := worker.Leave(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	join(t, worker, addr, token)
	if s := worker.Status(); s.State != Active || s.NodeID == id {
		t.Errorf("Status after leave and join: got %+v, want active as another node than %s", s, id)
	}
}

// TestExpiredManager: the one manager of a swarm whose certificate has expired keeps the swarm by force.
func TestExpiredManager(t *testing.T) {
	t.Parallel()
	opt := options(t)
	m := open(t, opt)
	id, _ := initSwarm(t, m, InitOptions{})
	signer, swarm := authorityOf(t, m), cluster(t, m).ID
	m.Close()
	signer.moveCertificate(t, opt.Dir, -48*time.Hour, -time.Minute)
	m = open(t, opt)
	await(t, "the manager says so", func() bool { return m.Status().Error == errExpired.Error() })
	if again, err := m.Init(t.Context(), InitOptions{ForceNewCluster: true}); err != nil || again != id {
		t.Fatalf("Init with ForceNewCluster: got %s, %v, want %s", again, err, id)
	}
	if got := cluster(t, m).ID; got != swarm {
		t.Errorf("swarm: got %s, want %s", got, swarm)
	}
	await(t, "its certificate is a new one", func() bool {
		raw, err := os.ReadFile(filepath.Join(m.Certificates(), "swarm-node.crt"))
		return err == nil && time.Now().Before(parseCertificate(t, raw).NotAfter)
	})
}

// TestClockBehind: a machine that starts with a clock that is behind takes its place in the swarm once the clock is right.
func TestClockBehind(t *testing.T) {
	t.Parallel()
	manager, opt := open(t, options(t)), options(t)
	_, addr := initSwarm(t, manager, InitOptions{})
	signer := authorityOf(t, manager)
	worker := open(t, opt)
	join(t, worker, addr, cluster(t, manager).RootCA.JoinTokens.Worker)
	id := worker.Status().NodeID
	worker.Close()
	old := signer.moveCertificate(t, opt.Dir, time.Hour, 48*time.Hour)
	worker = open(t, opt)
	await(t, "the node says so", func() bool { return worker.Status().Error == errEarly.Error() })
	writeFile(t, filepath.Join(worker.Certificates(), "swarm-node.crt"), old)
	await(t, "the node is back", func() bool { return worker.Status().State == Active })
	if s := worker.Status(); s.NodeID != id || s.Error != "" {
		t.Errorf("Status: got %+v, want %s without an error", s, id)
	}
}

// TestJoinWithClockBehind: to a machine whose clock is two hours behind, the managers' certificates are not valid yet.
func TestJoinWithClockBehind(t *testing.T) {
	t.Parallel()
	opt := options(t)
	manager := open(t, opt)
	_, addr := initSwarm(t, manager, InitOptions{})
	signer := authorityOf(t, manager)
	signer.moveCertificate(t, opt.Dir, time.Hour, 48*time.Hour)
	key := writeBareKey(t, filepath.Join(manager.Certificates(), "swarm-node.key"))
	papers, err := tls.LoadX509KeyPair(filepath.Join(manager.Certificates(), "swarm-node.crt"), key)
	if err != nil {
		t.Fatal(err)
	}
	front := proxyTLS(t, addr, papers)
	worker := open(t, options(t))
	begun := time.Now()
	err = worker.Join(t.Context(), JoinOptions{
		ListenAddr: "127.0.0.1:" + freePort(t), RemoteAddrs: []string{front}, Token: cluster(t, manager).RootCA.JoinTokens.Worker,
	})
	wantFault(t, "Join", err, fault.Invalid, "certificate has expired or is not yet valid: current time")
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("Join took %v", took)
	}
	if s := worker.Status(); s.State != Inactive {
		t.Errorf("Status: got %+v, want inactive", s)
	}
}

// writeBareKey writes a node's key without SwarmKit's headers into a file of its own.
func writeBareKey(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	block.Headers = nil
	bare := filepath.Join(t.TempDir(), "key")
	writeFile(t, bare, pem.EncodeToMemory(block))
	return bare
}

// proxyTLS passes on what clients say to a manager, in its place and with other papers.
func proxyTLS(t *testing.T, manager string, papers tls.Certificate) string {
	t.Helper()
	protocols := []string{"h2"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{papers}, NextProtos: protocols, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go passOn(client, manager, protocols)
		}
	}()
	return l.Addr().String()
}

func passOn(client net.Conn, manager string, protocols []string) {
	defer func() { _ = client.Close() }()
	cfg := &tls.Config{InsecureSkipVerify: true, NextProtos: protocols} //nolint:gosec // it is the client that looks
	server, err := tls.Dial("tcp", manager, cfg)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
