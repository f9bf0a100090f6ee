package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
)

// TLSFiles name, in PEM, what TLS needs on a client's side.
type TLSFiles struct {
	// CA is whom the engine's certificate must come from. Empty: the certificate is not looked at.
	CA string
	// Cert and Key are shown to the engine; both or none.
	Cert, Key string
}

// LoadTLS reads the files. The names that the engine's certificate must have are those by which it is called.
func LoadTLS(files TLSFiles) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if files.CA == "" {
		config.InsecureSkipVerify = true //nolint:gosec // asked for: TLS without looking who answers
	} else {
		raw, err := os.ReadFile(files.CA)
		if err != nil {
			return nil, fmt.Errorf("authority of the engine's certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("authority of the engine's certificate: there is no certificate in %s", files.CA)
		}
	}
	if files.Cert != "" || files.Key != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %q and key %q: %w", files.Cert, files.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// handshakeTLS speaks TLS on a connection, which is closed if that fails.
func (c *Client) handshakeTLS(ctx context.Context, plain net.Conn) (net.Conn, error) {
	config := c.tls
	if config.ServerName == "" {
		config = config.Clone()
		name, _, err := net.SplitHostPort(c.host.Address)
		if err != nil {
			name = c.host.Address
		}
		config.ServerName = name
	}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, err
	}
	return conn, nil
}
