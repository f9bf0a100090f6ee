package table

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"moss/engine/fault"
)

// authority makes certificates of one swarm.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "swarm-ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert: cert, key: key, pool: pool}
}

// config returns what a node is authenticated by: its id is the common name, its role the unit, as SwarmKit has it.
func (a *authority) config(t *testing.T, id, role string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: id, OrganizationalUnit: []string{role}},
		DNSNames: []string{role}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	check(t, err)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: a.pool, ClientCAs: a.pool,
		ClientAuth: tls.VerifyClientCertIfGiven, ServerName: "manager", MinVersion: tls.VersionTLS13,
	}
}

func roleOf(s tls.ConnectionState) string { return s.PeerCertificates[0].Subject.OrganizationalUnit[0] }

// manager is a server on loopback.
type manager struct {
	*Server

	addr    string
	stop    func()
	reports chan error
}

func newManager(t *testing.T, a *authority) *manager {
	return newManagerAs(t, a.config(t, "m", "manager"))
}

func newManagerAs(t *testing.T, cfg *tls.Config) *manager {
	t.Helper()
	m := &manager{reports: make(chan error, 1000)}
	m.Server = NewServer(ServerOptions{
		TLS: func() (*tls.Config, error) { return cfg, nil },
		Who: func(s tls.ConnectionState) (string, error) {
			if roleOf(s) == "stranger" {
				return "", fault.Forbidden("no node")
			}
			return s.PeerCertificates[0].Subject.CommonName, nil
		},
		Report: func(_ string, err error) { m.reports <- err },
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	m.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Serve(ctx, l) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		check(t, <-done)
	})
	t.Cleanup(m.stop)
	return m
}

// node is one that follows managers.
type node struct {
	tables  chan *Table
	settled chan uint64
	reports chan error
	stop    func()
}

func follow(t *testing.T, cfg *tls.Config, have *Table, managers ...*manager) *node {
	t.Helper()
	n := &node{tables: make(chan *Table), settled: make(chan uint64, 1000), reports: make(chan error, 1000)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Follow(ctx, FollowOptions{
			Managers: func() (all []string) {
				for _, m := range managers {
					all = append(all, m.addr)
				}
				return all
			},
			TLS:  func() (*tls.Config, error) { return cfg, nil },
			Have: have,
			Check: func(s tls.ConnectionState) error {
				if roleOf(s) != "manager" {
					return fault.Forbidden("no manager")
				}
				return nil
			},
			Apply: func(ctx context.Context, next *Table) error {
				select {
				case n.tables <- next:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
			Settled: func(v uint64) { n.settled <- v },
			Report:  func(_ string, err error) { n.reports <- err },
		})
	}()
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(n.stop)
	return n
}

// until takes tables until one is as wanted.
func (n *node) until(t *testing.T, want *Table) {
	t.Helper()
	for {
		select {
		case got := <-n.tables:
			shown := *got
			shown.Version = want.Version // one that changes nothing for the node is not sent
			if equal(t, &shown, want) {
				return
			}
		case <-t.Context().Done():
			t.Fatal("the table did not come")
		}
	}
}

// busy is a table with one task on each of these nodes, all in one network.
func busy(version uint64, nodes ...string) *Table {
	t := &Table{
		Version: version, Nodes: map[string]Node{}, Networks: map[string]Network{"net": {Name: "net"}}, Services: map[string]Service{},
		Tasks: map[string]Task{},
	}
	for _, n := range nodes {
		t.Nodes[n] = Node{Name: n}
		t.Tasks["t"+n] = Task{Node: n, Attachments: map[string]Attachment{"net": {}}}
	}
	return t
}
