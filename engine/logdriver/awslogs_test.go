package logdriver

import (
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
)

func TestParseAWSLogs(t *testing.T) {
	full := map[string]string{
		"awslogs-region": "eu-west-1", "awslogs-endpoint": "https://h:4566/", "awslogs-group": "/a/g#1", "awslogs-stream": "s",
		"awslogs-create-group": "true", "awslogs-create-stream": "false", "awslogs-multiline-pattern": "^\\[",
		"awslogs-credentials-endpoint": "/v2/x", "awslogs-force-flush-interval-seconds": "9", "awslogs-max-buffered-events": "77",
	}
	if len(full)+2 != len(awslogsOptions) {
		t.Errorf("%d options are tested, there are %d", len(full)+2, len(awslogsOptions))
	}
	want := AWSLogs{
		Region: "eu-west-1", Endpoint: "https://h:4566", Group: "/a/g#1", Stream: "s", CreateGroup: true, Begin: "^\\[",
		Credentials: "/v2/x", Flush: 9 * time.Second, Buffered: 77,
	}
	if got, err := ParseAWSLogs(full); err != nil || got != want {
		t.Errorf("ParseAWSLogs of all = %+v, %v, want %+v", got, err, want)
	}
	want = AWSLogs{Group: "g", CreateStream: true, Flush: 5 * time.Second, Buffered: 4096, Format: "json/emf"}
	got, err := ParseAWSLogs(map[string]string{"awslogs-group": "g", "tag": "x", "awslogs-format": "json/emf"})
	if err != nil || got != want {
		t.Errorf("ParseAWSLogs of the least = %+v, %v, want %+v", got, err, want)
	}
}

func TestParseAWSLogsRefuses(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"awslogs-group", "", "log opt 'awslogs-group' is required"},
		{"awslogs-group", "a b", "at most 512"},
		{"awslogs-group", strings.Repeat("a", 513), "at most 512"},
		{"awslogs-stream", "a:b", "without : and *"},
		{"awslogs-stream", "a*", "without : and *"},
		{"awslogs-stream", strings.Repeat("a", 513), "at most 512"},
		{"awslogs-region", "eu/west", "want a region"},
		{"awslogs-endpoint", "h:8088", "want scheme://host:port"},
		{"awslogs-endpoint", "ftp://h", "want scheme://host:port"},
		{"awslogs-endpoint", "http:///x", "want scheme://host:port"},
		{"awslogs-endpoint", "http://h/x", "want scheme://host:port"},
		{"awslogs-endpoint", "http://h?a", "want scheme://host:port"},
		{"awslogs-endpoint", "http://h?", "want scheme://host:port"},
		{"awslogs-endpoint", "http://h#a", "want scheme://host:port"},
		{"awslogs-endpoint", "http://h:70000", "want scheme://host:port"},
		{"awslogs-endpoint", "http://h:0", "want scheme://host:port"},
		{"awslogs-endpoint", "http://u:secret@h", "without a user"},
		{"awslogs-create-group", "maybe", "want true or false"},
		{"awslogs-create-stream", "", "want true or false"},
		{"awslogs-multiline-pattern", "(", "want a regular expression"},
		{"awslogs-datetime-format", "%Q", "want directives"},
		{"awslogs-datetime-format", "100%", "want directives"},
		{"awslogs-datetime-format", "(%Y", "missing closing )"},
		{"awslogs-credentials-endpoint", "http://other", "want a path"},
		{"awslogs-credentials-endpoint", "/a b", "want a path"},
		{"awslogs-force-flush-interval-seconds", "0", "want a number from 1 to"},
		{"awslogs-max-buffered-events", "0", "want a number from 1 to"},
		{"awslogs-format", "text", "want json/emf"},
	} {
		options := map[string]string{"awslogs-group": "g"}
		maps.Copy(options, map[string]string{tc.name: tc.value})
		checkRefused(t, options, tc.name, tc.want)
	}
	both := map[string]string{"awslogs-group": "g", "awslogs-datetime-format": "%Y", "awslogs-multiline-pattern": "a"}
	checkRefused(t, both, "awslogs-datetime-format", "cannot be combined")
	delete(both, "awslogs-multiline-pattern")
	both["awslogs-format"] = "json/emf"
	checkRefused(t, both, "awslogs-format", "cannot be combined")
}

func checkRefused(t *testing.T, options map[string]string, name, want string) {
	t.Helper()
	driver, err := Find("awslogs")
	if err != nil {
		t.Fatal(err)
	}
	err = driver.Check(options)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "'"+name+"'") {
		t.Errorf("Check of %s=%q: %v, want fault.Invalid with %q", name, options[name], err, want)
	} else if strings.Contains(err.Error(), "secret") {
		t.Errorf("Check of %s=%q shows it: %v", name, options[name], err)
	}
}

func TestTimeFormats(t *testing.T) {
	for _, tc := range []struct{ format, line string }{
		{`^\[%b %d, %Y %H:%M:%S\]`, "[May 01, 2017 19:00:01] message"},
		{"%Y-%m-%d %H:%M:%S.%f", "x 2026-12-31 23:59:60.123456"},
		{"%Y-%m-%dT%H:%M:%S%L", "2026-12-31T00:00:00.123"},
		{"%H:%M:%S,%L", "00:00:00,123"},
		{"%a %A %B %I %p %y %j", "Mon Monday June 12 PM 26 366"},
		{"%z %Z 100%%", "+0100 CEST 100%"},
	} {
		pattern, err := ParseAWSLogs(map[string]string{"awslogs-group": "g", "awslogs-datetime-format": tc.format})
		if err != nil || !regexp.MustCompile(pattern.Begin).MatchString(tc.line) {
			t.Errorf("format %q is %q, %v, which does not match %q", tc.format, pattern.Begin, err, tc.line)
		}
		broken := strings.NewReplacer("2", "x", "1", "x", "M", "x").Replace(tc.line)
		if err == nil && regexp.MustCompile(pattern.Begin).MatchString(broken) {
			t.Errorf("format %q is %q, which matches %q", tc.format, pattern.Begin, broken)
		}
	}
	for directive, lines := range map[string][2]string{
		"%d": {"31", "32"}, "%H": {"23", "24"}, "%I": {"12", "13"}, "%j": {"366", "367"}, "%m": {"12", "13"}, "%M": {"59", "60"},
		"%S": {"60", "61"}, "%y": {"99", "x9"}, "%Y": {"1999", "199x"}, "%z": {"-0930", "0930"}, "%f": {"000001", "00001"},
	} {
		parsed, err := ParseAWSLogs(map[string]string{"awslogs-group": "g", "awslogs-datetime-format": "<" + directive + ">"})
		if err != nil {
			t.Fatal(err)
		}
		begin := regexp.MustCompile(parsed.Begin)
		if !begin.MatchString("<"+lines[0]+">") || begin.MatchString("<"+lines[1]+">") {
			t.Errorf("%s is %q, want it to match %s and not %s", directive, parsed.Begin, lines[0], lines[1])
		}
	}
}
