// Package splunk sends a container's output to an event collector of Splunk (HTTP Event Collector) or to a receiver that speaks
// its protocol (docs.splunk.com: Format events for HTTP Event Collector, About HTTP Event Collector Indexer Acknowledgment). It
// knows nothing of containers but what a record and its setup say.
package splunk

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/logdriver"
	"moss/engine/logsink"
)

// Bounds of waiting and of memory.
const (
	connectTimeout = 10 * time.Second // for the connection, and as long again for TLS
	answerTimeout  = 30 * time.Second // for one request and its answer once there is a connection
	idleTimeout    = 10 * time.Second // Splunk closes idle connections after 12 s: this side does it first
	maxAnswer      = 64 << 10         // bytes of an answer that are read
	keptBody       = 64 << 10         // bytes of a request's room that a sender keeps for the next one
	maxBody        = 1_000_000        // bytes of a request before gzip: what Splunk's cloud takes at most is 1 MB
)

// What users of the driver know: a request has up to 1000 events and goes after 5 s at the latest.
const (
	batchRecords = 1000
	batchLinger  = 5 * time.Second
)

// Paths of the collector.
const (
	eventPath = "/services/collector/event/1.0"
	ackPath   = "/services/collector/ack"
)

// sender is a connection to a collector.
type sender struct {
	options logdriver.Splunk
	client  *http.Client
	events  encoder
	body    []byte
	seed    maphash.Seed
	bound   time.Duration // of one request with its connection and answer

	channel string        // of acknowledgements; empty: none are asked for
	receipt receipt       // of the last request, while it is not known whether the indexer has it
	ackWait time.Duration // after which a request counts as lost

	refused  error // not yet reported
	reported bool  // since the last batch without refused events
}

// Open returns a sender for the collector of the options. Unless it is told otherwise it asks the collector: fault.Unavailable
// if that is not there or does not answer as one. Other errors are fault.Invalid, and name the file of certificates where that
// is what is wrong.
func Open(ctx context.Context, setup logsink.Setup) (logsink.Sender, error) {
	options, err := logdriver.ParseSplunk(setup.Options)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(options)
	if err != nil {
		return nil, err
	}
	s := &sender{
		options: options, events: newEncoder(options, setup), seed: maphash.MakeSeed(),
		bound: connectTimeout + answerTimeout, ackWait: ackWait,
		client: &http.Client{
			Transport: transport,
			// A redirect would take the token to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if options.Acknowledge {
		s.channel = newChannel()
	}
	if options.Verify && !setup.Resume {
		if err := s.verifyCollector(ctx); err != nil {
			s.client.CloseIdleConnections()
			return nil, fault.Unavailable("%w", err)
		}
	}
	return s, nil
}

// newTransport returns a transport with bounds on all that waits. Its proxies are those of the environment.
func newTransport(options logdriver.Splunk) (*http.Transport, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: options.CAName,
		InsecureSkipVerify: options.Insecure, //nolint:gosec // the user asks for it
	}
	if options.CAPath != "" {
		pool, err := readCertificates(options.CAPath)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: config,
		TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: answerTimeout, IdleConnTimeout: idleTimeout,
		MaxIdleConns: 1, MaxResponseHeaderBytes: maxAnswer, DisableCompression: true,
	}, nil
}

// maxCertificates bounds the file of certificates. The largest collections of systems have 1 MiB.
const maxCertificates = 8 << 20

// readCertificates reads a file of certificates in PEM.
func readCertificates(path string) (*x509.CertPool, error) {
	about, err := os.Stat(path)
	if err != nil {
		return nil, fault.Invalid("log opt 'splunk-capath': %w", err)
	}
	if !about.Mode().IsRegular() || about.Size() > maxCertificates {
		return nil, fault.Invalid("log opt 'splunk-capath': %s is no file of at most %d bytes", path, maxCertificates)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Invalid("log opt 'splunk-capath': %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fault.Invalid("log opt 'splunk-capath': %s has no certificate", path)
	}
	return pool, nil
}

// newChannel returns a random UUID (RFC 9562, version 4), by which the collector tells senders apart.
func newChannel() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// verifyCollector asks the collector whether it takes events.
func (s *sender) verifyCollector(ctx context.Context) error {
	status, text, err := s.doRequest(ctx, http.MethodOptions, eventPath, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return s.describeAnswer(status, readAnswer(text), text)
	}
	return nil
}

// Batch returns the bounds of Send.
func (s *sender) Batch() logsink.Batch {
	return logsink.Batch{Records: batchRecords, Bytes: maxBody / 2, Linger: batchLinger}
}

// Close gives up the connection.
func (s *sender) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// nameError returns an error with the collector's address, without the token and without what net/http says around its reason.
func (s *sender) nameError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("splunk %s: %w", s.options.URL, ctx.Err())
	}
	if around, ok := errors.AsType[*url.Error](err); ok {
		err = around.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", s.bound)
	}
	return fmt.Errorf("splunk %s: %w", s.options.URL, err)
}

// describeAnswer returns the error of an answer that is no success.
func (s *sender) describeAnswer(status int, a answer, text []byte) error {
	said := a.Text
	if said == "" {
		said = string(text[:min(len(text), 200)])
	}
	said = strings.ReplaceAll(said, string(s.options.Token), "[hidden]")
	return fmt.Errorf("splunk %s: status %d, code %d: %q", s.options.URL, status, a.Code, said)
}
