package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/fault"
)

// TLS names the files that TLS needs, in PEM. They are read at the start and again whenever they change.
type TLS struct {
	Cert, Key string // the engine's own certificate, with those between it and its authority, and the key
	// CA is whose certificates clients must show. Empty: clients show none, and the sockets must be on the loopback.
	CA string
}

// certificates holds what the files said when they were last good. A nil one is no TLS. All methods may be called at the
// same time.
type certificates struct {
	files TLS
	log   zerolog.Logger

	mu    sync.Mutex // guards stamp, now and leaf
	stamp string     // of the files as they were last read, good or not
	now   *tls.Config
	leaf  *x509.Certificate
}

// loadCertificates reads the files for the first time. What cannot be used is fault.Invalid.
func loadCertificates(files *TLS, log zerolog.Logger) (*certificates, error) {
	if files == nil {
		return nil, nil //nolint:nilnil // no TLS
	}
	c := &certificates{files: *files, log: log, stamp: stampOf(*files)}
	var err error
	if c.now, c.leaf, err = c.readFiles(); err != nil {
		return nil, fault.Invalid("TLS: %w", err)
	}
	return c, nil
}

// verifiesClients reports whether clients must show a certificate.
func (c *certificates) verifiesClients() bool { return c != nil && c.files.CA != "" }

// coversHost reports whether the certificate was made for a host.
func (c *certificates) coversHost(host string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	leaf := c.leaf
	c.mu.Unlock()
	if len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 && leaf.Subject.CommonName != "" {
		return strings.EqualFold(leaf.Subject.CommonName, host) // of old certificates, which some clients still take
	}
	return leaf.VerifyHostname(host) == nil
}

// listenerConfig returns the configuration of a listener: each client gets what the files say when it comes.
func (c *certificates) listenerConfig() *tls.Config {
	outer := c.currentConfig()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.currentConfig(), nil }
	return outer
}

// currentConfig reads the files again if they have changed. Where they are no good the last good ones stay, and the log says so
// once: a certificate is replaced by a file at a time.
func (c *certificates) currentConfig() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stamp := stampOf(c.files); stamp != c.stamp {
		c.stamp = stamp
		if now, leaf, err := c.readFiles(); err != nil {
			c.log.Warn().Err(err).Msg("changed TLS files not taken")
		} else {
			c.now, c.leaf = now, leaf
			c.log.Info().Time("until", leaf.NotAfter).Msg("changed TLS files taken")
		}
	}
	return c.now.Clone()
}

// stampOf changes when a file does.
func stampOf(files TLS) string {
	var b bytes.Buffer
	for _, name := range []string{files.Cert, files.Key, files.CA} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintf(&b, "%d %d", info.Size(), info.ModTime().UnixNano())
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				fmt.Fprintf(&b, " %d %d", stat.Ino, stat.Ctim.Nano())
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// readFiles makes a configuration of the files.
func (c *certificates) readFiles() (*tls.Config, *x509.Certificate, error) {
	if err := c.checkKey(); err != nil {
		return nil, nil, err
	}
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s and key %s: %w", c.files.Cert, c.files.Key, err)
	}
	switch now := time.Now(); {
	case now.After(pair.Leaf.NotAfter):
		c.log.Warn().Str("file", c.files.Cert).Time("until", pair.Leaf.NotAfter).
			Msg("the TLS certificate has expired: clients will refuse it")
	case now.Before(pair.Leaf.NotBefore):
		c.log.Warn().Str("file", c.files.Cert).Time("from", pair.Leaf.NotBefore).
			Msg("the TLS certificate is not valid yet: clients will refuse it")
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1", "http/1.0"},
		// A client that comes again shows its certificate again: the authority may have changed.
		SessionTicketsDisabled: true,
	}
	if c.files.CA == "" {
		return config, pair.Leaf, nil
	}
	raw, err := os.ReadFile(c.files.CA)
	if err != nil {
		return nil, nil, fmt.Errorf("authority of the clients' certificates: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(raw) {
		return nil, nil, fmt.Errorf("authority of the clients' certificates: there is no certificate in %s", c.files.CA)
	}
	return config, pair.Leaf, nil
}

// checkKey refuses a key that others of this machine have read.
func (c *certificates) checkKey() error {
	info, err := os.Stat(c.files.Key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	const others, group = 0o007, 0o070
	switch mode := info.Mode().Perm(); {
	case mode&others != 0:
		return fmt.Errorf("key: others can read %s (mode %04o): chmod 600", c.files.Key, mode)
	case mode&group != 0:
		c.log.Warn().Str("file", c.files.Key).Msg("a group can read the TLS key")
	}
	return nil
}
