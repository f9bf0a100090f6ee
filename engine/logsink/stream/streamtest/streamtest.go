// Package streamtest makes certificates for the receivers of tests.
package streamtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority vouches for a receiver at localhost and 127.0.0.1.
type Authority struct {
	File string      // with its certificate, for SSL_CERT_FILE
	TLS  *tls.Config // of the receiver
}

// New makes an authority whose file is in dir.
func New(dir string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	form := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	a := &Authority{
		File: filepath.Join(dir, "authority.pem"),
		TLS: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12,
		},
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, os.WriteFile(a.File, text, 0o600)
}

// Trust makes an authority that this process trusts, beside none, and calls run: what TestMain is for, since the system's
// authorities are read once. It returns run's result, or an error that is to end the tests.
func Trust(run func(trusted *Authority) int) (code int, err error) {
	dir, err := os.MkdirTemp("", "moss-authority")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trusted, err := New(dir)
	if err != nil {
		return 1, err
	}
	for name, value := range map[string]string{"SSL_CERT_FILE": trusted.File, "SSL_CERT_DIR": dir} {
		if err := os.Setenv(name, value); err != nil {
			return 1, err
		}
	}
	return run(trusted), nil
}
