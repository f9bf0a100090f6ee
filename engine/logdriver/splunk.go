package logdriver

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// SplunkFormat is the form of a line in an event of the driver splunk.
type SplunkFormat string

// The formats.
const (
	SplunkInline SplunkFormat = "inline" // the line is a string in the event's object
	SplunkJSON   SplunkFormat = "json"   // a line that is a JSON value is that value in the event's object
	SplunkRaw    SplunkFormat = "raw"    // the event is a text: tag, attributes and line
)

// Splunk has the options of the driver splunk.
type Splunk struct {
	Token       Secret
	URL         string // scheme, host and port, without a path
	Source      string // empty: the collector chooses
	SourceType  string // empty: the collector chooses
	Index       string // empty: the collector chooses
	CAPath      string // file with certificates in PEM; empty: the system's
	CAName      string // name in the collector's certificate; empty: the URL's
	Insecure    bool   // the collector's certificate is not checked
	Format      SplunkFormat
	Verify      bool // the collector is asked before the container starts
	Gzip        bool
	GzipLevel   int  // -1, the default of gzip, to 9
	Acknowledge bool // an event counts as sent once the indexer has it
}

// splunkOptions are the names of the options of the driver splunk.
var splunkOptions = []string{ //nolint:gochecknoglobals // a constant
	"splunk-token", "splunk-url", "splunk-source", "splunk-sourcetype", "splunk-index", "splunk-capath", "splunk-caname",
	"splunk-insecureskipverify", "splunk-format", "splunk-verify-connection", "splunk-gzip", "splunk-gzip-level",
	"splunk-index-acknowledgment",
}

// splunkPaths are the paths of an event collector that users copy from its documents: they all mean the collector.
var splunkPaths = []string{ //nolint:gochecknoglobals // a constant
	"", "/services/collector", "/services/collector/event", "/services/collector/event/1.0",
}

// ParseSplunk reads the options of the driver splunk and passes over others. The error is fault.Invalid and has no secret.
func ParseSplunk(options map[string]string) (Splunk, error) {
	s := Splunk{
		Token: Secret(options["splunk-token"]), Source: options["splunk-source"], SourceType: options["splunk-sourcetype"],
		Index: options["splunk-index"], CAPath: options["splunk-capath"], CAName: options["splunk-caname"],
		Format: SplunkFormat(options["splunk-format"]),
	}
	if err := checkToken(string(s.Token)); err != nil {
		return Splunk{}, err
	}
	var err error
	if s.URL, err = parseCollector(options["splunk-url"]); err != nil {
		return Splunk{}, err
	}
	if s.CAPath != "" && !filepath.IsAbs(s.CAPath) {
		return Splunk{}, invalidOpt("splunk-capath", s.CAPath, "an absolute path")
	}
	switch s.Format {
	case SplunkInline, SplunkJSON, SplunkRaw:
	default:
		if _, ok := options["splunk-format"]; ok {
			return Splunk{}, invalidOpt("splunk-format", string(s.Format), "inline, json or raw")
		}
		s.Format = SplunkInline
	}
	for _, option := range []struct {
		name   string
		preset bool
		into   *bool
	}{
		{"splunk-insecureskipverify", false, &s.Insecure},
		{"splunk-verify-connection", true, &s.Verify},
		{"splunk-gzip", false, &s.Gzip},
		{"splunk-index-acknowledgment", false, &s.Acknowledge},
	} {
		if *option.into, err = parseSwitch(options, option.name, option.preset); err != nil {
			return Splunk{}, err
		}
	}
	if s.GzipLevel, err = parseNumber(options, "splunk-gzip-level", -1, -1, 9); err != nil {
		return Splunk{}, err
	}
	return s, nil
}

// checkToken refuses a token that is not there or that no header can carry.
func checkToken(token string) error {
	if token == "" {
		return fault.Invalid("log opt 'splunk-token' is required")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fault.Invalid("invalid value of log opt 'splunk-token': want printable characters without spaces")
	}
	return nil
}

// parseCollector returns the address of an event collector without its path.
func parseCollector(value string) (string, error) {
	if value == "" {
		return "", fault.Invalid("log opt 'splunk-url' is required")
	}
	const want = "scheme://host:port with http or https"
	address, err := url.Parse(value)
	if err != nil || address.User != nil {
		// The value is not shown: it may hold a password.
		return "", fault.Invalid("invalid value of log opt 'splunk-url': want %s, without a user", want)
	}
	port, portErr := strconv.ParseUint(cmp.Or(address.Port(), "1"), 10, 16)
	if address.Scheme != "http" && address.Scheme != "https" || address.Hostname() == "" || portErr != nil || port == 0 ||
		address.RawQuery != "" || address.ForceQuery || address.Fragment != "" ||
		!slices.Contains(splunkPaths, strings.TrimSuffix(address.Path, "/")) {
		return "", invalidOpt("splunk-url", value, want)
	}
	return address.Scheme + "://" + address.Host, nil
}
