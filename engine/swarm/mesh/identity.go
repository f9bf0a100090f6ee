package mesh

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/moby/swarmkit/v2/ca"
	"github.com/moby/swarmkit/v2/ca/keyutils"

	"moss/engine/fault"
)

// identity authenticates this node to others of its swarm, by the certificate that SwarmKit keeps. It is safe for concurrent
// use.
type identity struct {
	dir    string                             // of the certificates
	unlock func(ctx context.Context) [][]byte // what may open the key of a manager that locks it
	admit  func(node string) bool             // whether the swarm has this node; nil: any that has a certificate

	mu    sync.Mutex // guards what follows
	files [3][]byte  // as they were read
	now   *papers
}

// papers are what the certificate's files say.
type papers struct {
	node, swarm string
	pair        tls.Certificate
	roots       *x509.CertPool
}

// unlockLimit bounds the question for the key of the managers' keys.
const unlockLimit = 3 * time.Second

// The files of SwarmKit's certificates.
const (
	certName = "swarm-node.crt"
	keyName  = "swarm-node.key"
	rootName = "swarm-root-ca.crt"
)

// readPapers returns what the files say now. They are parsed again only when they have changed: SwarmKit renews certificates, and
// changes the root.
func (i *identity) readPapers() (*papers, error) {
	var files [3][]byte
	for n, name := range []string{certName, keyName, rootName} {
		raw, err := os.ReadFile(filepath.Join(i.dir, name))
		if err != nil {
			return nil, fmt.Errorf("read this node's certificate: %w", err)
		}
		files[n] = raw
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	same := i.now != nil
	for n, raw := range files {
		same = same && bytes.Equal(raw, i.files[n])
	}
	if same {
		return i.now, nil
	}
	p, err := i.parsePapers(files[0], files[1], files[2])
	if err != nil {
		return nil, fmt.Errorf("read this node's certificate: %w", err)
	}
	i.files, i.now = files, p
	return p, nil
}

func (i *identity) parsePapers(cert, key, root []byte) (*papers, error) {
	p := &papers{roots: x509.NewCertPool()}
	if !p.roots.AppendCertsFromPEM(root) {
		return nil, errors.New("the swarm's root holds no certificate")
	}
	key, err := i.openKey(key)
	if err != nil {
		return nil, err
	}
	if p.pair, err = tls.X509KeyPair(cert, key); err != nil { // the key is written before the certificate: it fits soon
		return nil, err
	}
	p.node, p.swarm, _, err = readSubject(p.pair.Leaf)
	return p, err
}

// openKey takes the encryption off a key.
func (i *identity) openKey(text []byte) ([]byte, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the key is damaged")
	}
	if keyutils.IsEncryptedPEMBlock(block) {
		ctx, cancel := context.WithTimeout(context.Background(), unlockLimit)
		defer cancel()
		opened, err := decryptKey(block, i.unlock(ctx))
		if err != nil {
			return nil, err
		}
		block = opened
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}), nil // without SwarmKit's headers
}

func decryptKey(block *pem.Block, keys [][]byte) (*pem.Block, error) {
	for _, k := range keys {
		der, err := keyutils.Default.DecryptPEMBlock(block, k)
		if err != nil {
			continue
		}
		kind := block.Type
		if kind == "ENCRYPTED PRIVATE KEY" {
			kind = "PRIVATE KEY"
		}
		return &pem.Block{Type: kind, Bytes: der}, nil
	}
	return nil, errors.New("the key is locked, and what unlocks it is not known yet")
}

// readSubject reads what SwarmKit writes into a certificate.
func readSubject(c *x509.Certificate) (node, swarm, role string, err error) {
	if c == nil || c.Subject.CommonName == "" || len(c.Subject.Organization) != 1 || len(c.Subject.OrganizationalUnit) != 1 {
		return "", "", "", fault.Forbidden("it is no certificate of a node of a swarm")
	}
	return c.Subject.CommonName, c.Subject.Organization[0], c.Subject.OrganizationalUnit[0], nil
}

// serveTLS returns what a manager is authenticated by.
func (i *identity) serveTLS() (*tls.Config, error) {
	p, err := i.readPapers()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{p.pair}, ClientCAs: p.roots, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, // each connection is looked at
	}, nil
}

// followTLS returns what a node is authenticated by. The other side must have a manager's certificate.
func (i *identity) followTLS() (*tls.Config, error) {
	p, err := i.readPapers()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{p.pair}, RootCAs: p.roots, ServerName: ca.ManagerRole, MinVersion: tls.VersionTLS13,
	}, nil
}

// whoIs returns the id of a node of this swarm; fault.Forbidden for another one's, and for one that was removed.
func (i *identity) whoIs(s tls.ConnectionState) (string, error) {
	node, _, err := i.readPeer(s)
	if err != nil {
		return "", err
	}
	if i.admit != nil && !i.admit(node) {
		return "", fault.Forbidden("the swarm has no node %s", node)
	}
	return node, nil
}

// checkManager refuses who is no manager of this swarm, with fault.Forbidden.
func (i *identity) checkManager(s tls.ConnectionState) error {
	node, role, err := i.readPeer(s)
	if err == nil && role != ca.ManagerRole {
		err = fault.Forbidden("node %s is no manager", node)
	}
	return err
}

func (i *identity) readPeer(s tls.ConnectionState) (node, role string, err error) {
	p, err := i.readPapers()
	if err != nil {
		return "", "", err
	}
	if len(s.PeerCertificates) == 0 {
		return "", "", fault.Forbidden("a node without a certificate")
	}
	node, swarm, role, err := readSubject(s.PeerCertificates[0])
	if err == nil && swarm != p.swarm {
		err = fault.Forbidden("node %s is of another swarm", node)
	}
	return node, role, err
}
