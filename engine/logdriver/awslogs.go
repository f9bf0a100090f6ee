package logdriver

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
)

// AWSLogs has the options of the driver awslogs.
type AWSLogs struct {
	Region       string // empty: the environment's, or the machine's
	Endpoint     string // scheme, host and port of the service; empty: that of the region
	Group        string
	Stream       string // empty: the tag if one is given, otherwise the container's id
	CreateGroup  bool
	CreateStream bool
	Begin        string // regular expression of the first line of an event; empty: each line is one
	Credentials  string // path at the container credentials endpoint; empty: the usual places
	Flush        time.Duration
	Buffered     int    // events that wait at most
	Format       string // of events, as a header says it; empty: text
}

// Defaults and bounds of options.
const (
	awslogsFlush       = 5    // seconds
	awslogsBuffered    = 4096 // events
	awslogsFlushMost   = 24 * 60 * 60
	awslogsMetrics     = "json/emf"
	awslogsNameMost    = 512 // characters of a name
	awslogsNumbersMost = 1_000_000
)

// awslogsOptions are the names of the options of the driver awslogs.
var awslogsOptions = []string{ //nolint:gochecknoglobals // a constant
	"awslogs-region", "awslogs-endpoint", "awslogs-group", "awslogs-stream", "awslogs-create-group", "awslogs-create-stream",
	"awslogs-datetime-format", "awslogs-multiline-pattern", "awslogs-credentials-endpoint",
	"awslogs-force-flush-interval-seconds", "awslogs-max-buffered-events", "awslogs-format",
}

// ParseAWSLogs reads the options of the driver awslogs and passes over others. The error is fault.Invalid.
func ParseAWSLogs(options map[string]string) (AWSLogs, error) {
	a := AWSLogs{
		Region: options["awslogs-region"], Group: options["awslogs-group"], Stream: options["awslogs-stream"],
		Credentials: options["awslogs-credentials-endpoint"], Format: options["awslogs-format"],
	}
	if err := a.checkTexts(); err != nil {
		return AWSLogs{}, err
	}
	var err error
	if a.Endpoint, err = parseEndpoint(options["awslogs-endpoint"]); err != nil {
		return AWSLogs{}, err
	}
	if a.CreateGroup, err = parseSwitch(options, "awslogs-create-group", false); err != nil {
		return AWSLogs{}, err
	}
	if a.CreateStream, err = parseSwitch(options, "awslogs-create-stream", true); err != nil {
		return AWSLogs{}, err
	}
	seconds, err := parseNumber(options, "awslogs-force-flush-interval-seconds", awslogsFlush, 1, awslogsFlushMost)
	if err != nil {
		return AWSLogs{}, err
	}
	a.Flush = time.Duration(seconds) * time.Second
	if a.Buffered, err = parseNumber(options, "awslogs-max-buffered-events", awslogsBuffered, 1, awslogsNumbersMost); err != nil {
		return AWSLogs{}, err
	}
	if a.Begin, err = parseBegin(options); err != nil {
		return AWSLogs{}, err
	}
	if a.Begin != "" && a.Format != "" {
		return AWSLogs{}, fault.Invalid("log opt 'awslogs-format' cannot be combined with 'awslogs-datetime-format' " +
			"or 'awslogs-multiline-pattern'")
	}
	return a, nil
}

// checkTexts looks at the options that are taken as they are.
func (a AWSLogs) checkTexts() error {
	if a.Group == "" {
		return fault.Invalid("log opt 'awslogs-group' is required")
	}
	if len(a.Group) > awslogsNameMost || strings.Trim(a.Group, nameCharacters+"_/#") != "" {
		return invalidOpt("awslogs-group", a.Group, "at most 512 of letters, digits and . - _ / #")
	}
	if err := CheckStream(a.Stream); a.Stream != "" && err != nil {
		return err
	}
	if strings.Trim(a.Region, nameCharacters) != "" {
		return invalidOpt("awslogs-region", a.Region, "a region such as us-east-1")
	}
	if a.Credentials != "" && !strings.HasPrefix(a.Credentials, "/") || strings.ContainsAny(a.Credentials, " \t\r\n#") {
		return invalidOpt("awslogs-credentials-endpoint", a.Credentials, "a path that begins with /")
	}
	if a.Format != "" && a.Format != awslogsMetrics {
		return invalidOpt("awslogs-format", a.Format, awslogsMetrics)
	}
	return nil
}

// nameCharacters are those of regions and, with others, of groups.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."

// CheckStream refuses a name that the service does not take for a stream. The error is fault.Invalid.
func CheckStream(name string) error {
	if name == "" || len(name) > awslogsNameMost || strings.ContainsAny(name, ":*") {
		return invalidOpt("awslogs-stream", name, "at most 512 characters without : and *")
	}
	return nil
}

// parseEndpoint returns the address of the service without its path.
func parseEndpoint(value string) (string, error) {
	if value == "" {
		return "", nil
	}
	const want = "scheme://host:port with http or https"
	address, err := url.Parse(value)
	if err != nil || address.User != nil {
		// The value is not shown: it may hold a password.
		return "", fault.Invalid("invalid value of log opt 'awslogs-endpoint': want %s, without a user", want)
	}
	if address.Scheme != "http" && address.Scheme != "https" || address.Hostname() == "" || strings.Trim(address.Path, "/") != "" ||
		address.RawQuery != "" || address.ForceQuery || address.Fragment != "" {
		return "", invalidOpt("awslogs-endpoint", value, want)
	}
	if port := address.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return "", invalidOpt("awslogs-endpoint", value, want)
		}
	}
	return address.Scheme + "://" + address.Host, nil
}

// parseBegin returns the regular expression of the first line of an event.
func parseBegin(options map[string]string) (string, error) {
	pattern, format := options["awslogs-multiline-pattern"], options["awslogs-datetime-format"]
	if pattern != "" && format != "" {
		return "", fault.Invalid("log opts 'awslogs-datetime-format' and 'awslogs-multiline-pattern' cannot be combined")
	}
	if format != "" {
		return translateTimeFormat(format)
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return "", invalidOpt("awslogs-multiline-pattern", pattern, "a regular expression: "+err.Error())
	}
	return pattern, nil
}

// timePatterns say what the directives of strftime stand for.
var timePatterns = map[byte]string{ //nolint:gochecknoglobals // a constant
	'a': `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)`,
	'A': `(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)`,
	'b': `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`,
	'B': `(?:January|February|March|April|May|June|July|August|September|October|November|December)`,
	'd': `(?:0[1-9]|[12][0-9]|3[01])`,
	'f': `[0-9]{6}`,
	'H': `(?:[01][0-9]|2[0-3])`,
	'I': `(?:0[1-9]|1[0-2])`,
	'j': `(?:[0-2][0-9][0-9]|3[0-5][0-9]|36[0-6])`,
	'L': `[.,]?[0-9]{3}`, // with the point or without
	'm': `(?:0[1-9]|1[0-2])`,
	'M': `[0-5][0-9]`,
	'p': `[AP]M`,
	'S': `(?:[0-5][0-9]|60)`,
	'y': `[0-9]{2}`,
	'Y': `[0-9]{4}`,
	'z': `[+-][0-9]{4}`,
	'Z': `[A-Z]{1,5}`,
	'%': `%`,
}

// translateTimeFormat returns the regular expression of a time in the form that strftime is told. What stands between the
// directives is a regular expression itself, as users of the driver know: brackets come with a backslash.
func translateTimeFormat(format string) (string, error) {
	var pattern strings.Builder
	for rest := format; rest != ""; {
		text, directive, found := strings.Cut(rest, "%")
		pattern.WriteString(text)
		if !found {
			break
		}
		known := false
		if directive != "" {
			var part string
			part, known = timePatterns[directive[0]]
			pattern.WriteString(part)
			rest = directive[1:]
		}
		if !known {
			return "", invalidOpt("awslogs-datetime-format", format, "directives of a A b B d f H I j L m M p S y Y z Z and %%")
		}
	}
	if _, err := regexp.Compile(pattern.String()); err != nil {
		return "", invalidOpt("awslogs-datetime-format", format, "a regular expression between the directives: "+err.Error())
	}
	return pattern.String(), nil
}
