package syslog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"moss/engine/fault"
	"moss/engine/logdriver"
)

const (
	verdictTime = time.Second // waited for the word of a receiver that wants a certificate; not all say that they take it
	mostFile    = 1 << 20     // bytes of a file with certificates or a key
)

// newTLSConfig returns the settings of connections. The files are read. The error is fault.Invalid and names the option and
// the file.
func newTLSConfig(o logdriver.Syslog) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fault.Invalid("log opt 'syslog-address': %w", err)
	}
	config := &tls.Config{
		ServerName: host, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: o.SkipVerify, //nolint:gosec // the user's wish
	}
	if o.CACert != "" {
		pem, err := readFile("syslog-tls-ca-cert", o.CACert)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.Invalid("log opt 'syslog-tls-ca-cert': %s has no certificate", o.CACert)
		}
	}
	if o.Cert == "" {
		return config, nil
	}
	cert, err := readFile("syslog-tls-cert", o.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readFile("syslog-tls-key", o.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fault.Invalid("log opts 'syslog-tls-cert' and 'syslog-tls-key': %s and %s: %w", o.Cert, o.Key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// readFile reads a file that an option names.
func readFile(option, path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer does not hold it up
	if err != nil {
		return nil, fault.Invalid("log opt '%s': %w", option, err)
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostFile) {
		err = fmt.Errorf("%s is no file of at most %d bytes", path, mostFile)
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(file, mostFile))
	}
	if err != nil {
		return nil, fault.Invalid("log opt '%s': %w", option, err)
	}
	return data, nil
}

// shakeHands makes a connection with TLS of one without, which it takes over.
//
// With TLS 1.3 the handshake is over before the receiver has looked at this side's certificate: what is sent then would be
// lost if it says no. Where it asked for one, its word is waited for, no longer than wait: a refusal, or the ticket that follows
// a consent. A receiver that has said nothing by then has consented.
func shakeHands(ctx context.Context, raw net.Conn, base *tls.Config, wait time.Duration) (*connection, error) {
	v := &verdict{taken: make(chan struct{})}
	config := base.Clone()
	config.ClientSessionCache = v
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		v.asked = true
		if len(base.Certificates) > 0 {
			return &base.Certificates[0], nil
		}
		return &tls.Certificate{}, nil
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	c := newConnection(conn, raw)
	if v.asked && conn.ConnectionState().Version >= tls.VersionTLS13 {
		if err := v.awaitWord(ctx, c, wait); err != nil {
			c.closeAndWait()
			return nil, err
		}
	}
	return c, nil
}

// verdict learns what a receiver says to a certificate. It takes the place of a cache of sessions, and has none.
type verdict struct {
	asked bool // the receiver wants a certificate
	once  sync.Once
	taken chan struct{} // closed when a ticket came
}

// Get finds no session.
func (v *verdict) Get(string) (*tls.ClientSessionState, bool) { return nil, false }

// Put notes that there was a ticket.
func (v *verdict) Put(string, *tls.ClientSessionState) { v.once.Do(func() { close(v.taken) }) }

// awaitWord waits for the receiver's word.
func (v *verdict) awaitWord(ctx context.Context, c *connection, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-v.taken:
		return nil
	case <-c.ended:
		if c.reason != nil {
			return c.reason
		}
		return errors.New("the receiver closed the connection after it had asked for a certificate")
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
