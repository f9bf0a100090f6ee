package awslogs

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"moss/engine/logsink"
	"moss/engine/stdio"
)

const (
	testKey     = "AKIDEXAMPLE"
	testSecret  = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	testSession = "session-of-a-role"
)

// put is what the service reads; a field that is not here fails the test.
type put struct {
	LogGroupName  string `json:"logGroupName"`
	LogStreamName string `json:"logStreamName"`
	LogEvents     []struct {
		Timestamp int64  `json:"timestamp"`
		Message   string `json:"message"`
	} `json:"logEvents"`
}

// cloud is a service that holds each request to the protocol.
type cloud struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex // guards the fields below
	session   string     // of the credentials that are valid
	region    string
	streams   map[string][]string // by group
	puts      []put
	actions   []string
	headers   []http.Header
	bad       string                                                  // an event with this text is refused
	badStatus int                                                     // in place of the service's own answer to that
	answer    func(w http.ResponseWriter, action string) bool         // answers itself, if true
	after     func(w http.ResponseWriter, action string, p *put) bool // the same, once the events are kept
}

func newCloud(t *testing.T) *cloud {
	c := &cloud{t: t, region: "eu-test-1", streams: map[string][]string{"group": nil}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	for _, name := range []string{
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
		"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_ACCESS_KEY_ID", testKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testSecret)
	return c
}

func fail(w http.ResponseWriter, status int, kind, text string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"__type":"com.amazonaws.logs#%s","message":%q}`, kind, text)
}

// checkSignature computes the signature anew, from the request as it came.
func (c *cloud) checkSignature(r *http.Request, body []byte) string {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=")
	parts := strings.Split(rest, ", ")
	if !ok || len(parts) != 3 {
		return "no authorization"
	}
	stamp := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", stamp)
	if err != nil || time.Since(at).Abs() > 5*time.Minute {
		return "date " + stamp
	}
	day := at.Format("20060102")
	if want := testKey + "/" + day + "/" + c.region + "/logs/aws4_request"; parts[0] != want {
		return "credential " + parts[0] + ", want " + want
	}
	signed := strings.Split(strings.TrimPrefix(parts[1], "SignedHeaders="), ";")
	if !slices.IsSorted(signed) {
		return "headers are not sorted"
	}
	for _, name := range []string{"content-type", "host", "x-amz-date", "x-amz-target"} {
		if !slices.Contains(signed, name) {
			return name + " is not signed"
		}
	}
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-amz") && !slices.Contains(signed, name) {
			return name + " is not signed"
		}
	}
	canonical := []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery}
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		canonical = append(canonical, name+":"+value)
	}
	payload := sha256.Sum256(body)
	canonical = append(canonical, "", strings.Join(signed, ";"), hex.EncodeToString(payload[:]))
	hash := sha256.Sum256([]byte(strings.Join(canonical, "\n")))
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + day + "/" + c.region + "/logs/aws4_request\n" + hex.EncodeToString(hash[:])
	sign := func(key []byte, text string) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	key := sign(sign(sign(sign([]byte("AWS4"+testSecret), day), c.region), "logs"), "aws4_request")
	if parts[2] != "Signature="+hex.EncodeToString(sign(key, text)) {
		return "signature"
	}
	if r.Header.Get("X-Amz-Security-Token") != c.session {
		return "security token"
	}
	return ""
}

func (c *cloud) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Errorf("body of %s %s: %v", r.Method, r.URL, err)
	}
	action, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "Logs_20140328.")
	if !ok || r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		c.t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
	}
	c.actions, c.headers = append(c.actions, action), append(c.headers, r.Header)
	if c.answer != nil && c.answer(w, action) {
		return
	}
	if wrong := c.checkSignature(r, body); wrong != "" {
		fail(w, http.StatusBadRequest, "InvalidSignatureException", "does not match: "+wrong)
		return
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	var p put
	if err := decoder.Decode(&p); err != nil || decoder.More() {
		c.t.Errorf("body %q: %v", body, err)
	}
	switch action {
	case "CreateLogGroup":
		if _, ok := c.streams[p.LogGroupName]; ok {
			fail(w, http.StatusBadRequest, "ResourceAlreadyExistsException", "group")
			return
		}
		c.streams[p.LogGroupName] = nil
	case "CreateLogStream":
		streams, ok := c.streams[p.LogGroupName]
		if !ok {
			fail(w, http.StatusBadRequest, "ResourceNotFoundException", "The specified log group does not exist.")
			return
		}
		if slices.Contains(streams, p.LogStreamName) {
			fail(w, http.StatusBadRequest, "ResourceAlreadyExistsException", "stream")
			return
		}
		c.streams[p.LogGroupName] = append(streams, p.LogStreamName)
	case "PutLogEvents":
		c.takeEvents(w, &p)
	default:
		c.t.Errorf("action %q", action)
	}
}

func (c *cloud) takeEvents(w http.ResponseWriter, p *put) {
	if !slices.Contains(c.streams[p.LogGroupName], p.LogStreamName) {
		fail(w, http.StatusBadRequest, "ResourceNotFoundException", "The specified log stream does not exist.")
		return
	}
	size := 0
	for i, e := range p.LogEvents {
		size += len(e.Message) + 26
		switch {
		case e.Message == "" || !utf8.ValidString(e.Message) || len(e.Message)+26 > 256<<10:
			c.t.Errorf("event %d of %d bytes", i, len(e.Message))
		case i > 0 && e.Timestamp < p.LogEvents[i-1].Timestamp:
			c.t.Errorf("event %d is older than the one before", i)
		case c.bad != "" && strings.Contains(e.Message, c.bad):
			if c.badStatus != 0 {
				w.WriteHeader(c.badStatus)
			} else {
				fail(w, http.StatusBadRequest, "InvalidParameterException", "Log event is bad")
			}
			return
		}
	}
	if n := len(p.LogEvents); n == 0 || n > 10_000 || size > 1_048_576 || p.LogEvents[n-1].Timestamp-p.LogEvents[0].Timestamp >= 24*60*60*1000 {
		c.t.Errorf("%d events of %d bytes in a request", n, size)
	}
	c.puts = append(c.puts, *p)
	if c.after == nil || !c.after(w, "PutLogEvents", p) {
		_, _ = io.WriteString(w, `{"nextSequenceToken":"1"}`)
	}
}

// set changes the service between requests.
func (c *cloud) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// expect holds that these events came, in order.
func (c *cloud) expect(want ...string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var got []string
	for _, p := range c.puts {
		for _, e := range p.LogEvents {
			got = append(got, e.Message)
		}
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("service has %q, want %q", got, want)
	}
}

func setupOf(c *cloud, options ...string) logsink.Setup {
	setup := logsink.Setup{
		Container: logsink.Container{ID: strings.Repeat("ab", 32), Tag: "tag"},
		Options:   map[string]string{"awslogs-region": "eu-test-1", "awslogs-endpoint": c.URL, "awslogs-group": "group"},
	}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		maps.Copy(setup.Options, map[string]string{name: value})
	}
	return setup
}

func openAt(t *testing.T, c *cloud, options ...string) *sender {
	t.Helper()
	opened, err := Open(context.Background(), setupOf(c, options...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened.(*sender)
}

func recordsOf(lines ...string) []logsink.Record {
	records := make([]logsink.Record, 0, len(lines))
	now := time.Now()
	for i, line := range lines {
		at := now.Add(time.Duration(i) * time.Millisecond)
		records = append(records, logsink.Record{At: at, Stream: stdio.Stdout, Text: []byte(line)})
	}
	return records
}

// piecesOf makes one line of pieces; last: they are all.
func piecesOf(id uint64, last bool, pieces ...string) []logsink.Record {
	records := recordsOf(pieces...)
	for i := range records {
		records[i].LineID, records[i].Ordinal, records[i].Last = id, i+1, last && i == len(records)-1
	}
	return records
}

// mustSend sends and holds that this many records are dealt with.
func mustSend(t *testing.T, s *sender, records []logsink.Record, all bool, want int) {
	t.Helper()
	if n, err := s.Send(context.Background(), records, all); n != want || err != nil {
		t.Fatalf("Send = %d, %v, want %d", n, err, want)
	}
}
