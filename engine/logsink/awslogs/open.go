// Package awslogs sends a container's output to Amazon CloudWatch Logs or to a service that speaks its protocol
// (docs.aws.amazon.com: CloudWatch Logs API reference). It signs its requests itself, and knows nothing of containers but what
// a record and its setup say.
package awslogs

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
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
	idleTimeout    = 30 * time.Second
	maxAnswer      = 64 << 10 // bytes of an answer that are read
	keptBody       = 64 << 10 // bytes of a request's room that a sender keeps for the next one
	batchBytes     = 1_000_000
)

// sender is a connection to the service.
type sender struct {
	options  logdriver.AWSLogs
	stream   string
	composer composer
	client   *http.Client
	finder   *finder
	body     []byte
	bound    time.Duration // of one request with its connection and answer

	endpoint string      // empty: not yet known
	region   string      // empty: not yet known
	key      credentials // without an id: not yet known, or refused
	ready    bool        // the stream is there

	lost     error // first rejection that is not yet reported
	reported bool  // since the last batch without rejected events
}

// Open returns a sender for the stream of the options. Unless the setup is that of a container that runs, it makes the stream,
// or finds region and credentials where no stream is to be made: fault.Unavailable if that does not work. Other errors are
// fault.Invalid.
func Open(ctx context.Context, setup logsink.Setup) (logsink.Sender, error) {
	options, err := logdriver.ParseAWSLogs(setup.Options)
	if err != nil {
		return nil, err
	}
	stream := options.Stream
	if stream == "" && setup.Options["tag"] != "" {
		stream = setup.Container.Tag
	}
	stream = cmp.Or(stream, setup.Container.ID)
	if err := logdriver.CheckStream(stream); err != nil {
		return nil, err
	}
	var begin *regexp.Regexp
	if options.Begin != "" {
		begin = regexp.MustCompile(options.Begin) // the parser has compiled it
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	s := &sender{
		options: options, stream: stream, composer: composer{begin: begin, flush: options.Flush},
		finder: newFinder(options.Credentials), bound: connectTimeout + answerTimeout, ready: !options.CreateStream,
		endpoint: options.Endpoint,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout,
				ResponseHeaderTimeout: answerTimeout, IdleConnTimeout: idleTimeout, MaxIdleConns: 1,
				MaxResponseHeaderBytes: maxAnswer, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if !setup.Resume {
		if err := s.prepareStream(ctx); err != nil {
			s.client.CloseIdleConnections()
			return nil, fault.Unavailable("%w", err)
		}
	}
	return s, nil
}

// Batch returns the bounds of Send.
func (s *sender) Batch() logsink.Batch {
	return logsink.Batch{Records: min(s.options.Buffered, maxPutEvents), Bytes: batchBytes, Linger: s.options.Flush}
}

// Close gives up the connection.
func (s *sender) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// prepareStream finds what requests need and makes the stream, as far as that has not been done.
func (s *sender) prepareStream(ctx context.Context) error {
	if err := s.findRegion(ctx); err != nil {
		return err
	}
	if s.key.id == "" || !s.key.until.IsZero() && time.Until(s.key.until) < renewBefore {
		key, err := s.finder.findCredentials(ctx)
		if err != nil {
			return fmt.Errorf("awslogs %s: %w", s.endpoint, err)
		}
		s.key = key
	}
	if s.ready {
		return nil
	}
	if err := s.makeStream(ctx); err != nil {
		return err
	}
	s.ready = true
	return nil
}

// findRegion finds the region and, with it, the address of the service.
func (s *sender) findRegion(ctx context.Context) error {
	if s.region == "" {
		s.region = cmp.Or(s.options.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	}
	if s.region == "" {
		region, err := s.finder.fetchRegion(ctx)
		if err != nil {
			return fmt.Errorf("awslogs: no region in log opt 'awslogs-region' or AWS_REGION, and none of the machine: %w", err)
		}
		s.region = region
	}
	if s.endpoint == "" {
		domain := "amazonaws.com"
		if strings.HasPrefix(s.region, "cn-") {
			domain = "amazonaws.com.cn"
		}
		s.endpoint = "https://logs." + s.region + "." + domain
	}
	return nil
}

// makeStream makes the stream, and its group where that is missing and was asked for. What is there is no error.
func (s *sender) makeStream(ctx context.Context) error {
	err := s.makeNamed(ctx, "CreateLogStream", true)
	if s.options.CreateGroup && isAnswer(err, "ResourceNotFoundException") {
		if err := s.makeNamed(ctx, "CreateLogGroup", false); err != nil {
			return err
		}
		err = s.makeNamed(ctx, "CreateLogStream", true)
	}
	return err
}

// makeNamed makes the group, or the stream in it.
func (s *sender) makeNamed(ctx context.Context, action string, stream bool) error {
	body := logsink.AppendJSON([]byte(`{"logGroupName":`), s.options.Group)
	if stream {
		body = logsink.AppendJSON(append(body, `,"logStreamName":`...), s.stream)
	}
	_, err := s.doRequest(ctx, action, append(body, '}'))
	if isAnswer(err, "ResourceAlreadyExistsException") {
		return nil
	}
	return err
}
