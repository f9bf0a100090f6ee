package logdriver

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestParseSplunk(t *testing.T) {
	full := map[string]string{
		"splunk-token": "t", "splunk-url": "https://h:8088/services/collector/event/1.0", "splunk-source": "s", "splunk-sourcetype": "st",
		"splunk-index": "i", "splunk-capath": "/ca", "splunk-caname": "n", "splunk-insecureskipverify": "1", "splunk-format": "raw",
		"splunk-verify-connection": "false", "splunk-gzip": "true", "splunk-gzip-level": "9", "splunk-index-acknowledgment": "true",
	}
	if len(full) != len(splunkOptions) {
		t.Errorf("%d options are tested, there are %d", len(full), len(splunkOptions))
	}
	want := Splunk{
		Token: "t", URL: "https://h:8088", Source: "s", SourceType: "st", Index: "i", CAPath: "/ca", CAName: "n", Insecure: true,
		Format: SplunkRaw, Gzip: true, GzipLevel: 9, Acknowledge: true,
	}
	if got, err := ParseSplunk(full); err != nil || got != want {
		t.Errorf("ParseSplunk of all = %+v, %v, want %+v", got, err, want)
	}
	want = Splunk{Token: "t", URL: "http://h", Format: SplunkInline, Verify: true, GzipLevel: -1}
	if got, err := ParseSplunk(map[string]string{"splunk-token": "t", "splunk-url": "http://h/", "tag": "x"}); err != nil || got != want {
		t.Errorf("ParseSplunk of the least = %+v, %v, want %+v", got, err, want)
	}
}

func TestParseSplunkRefuses(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"splunk-token", "", "log opt 'splunk-token' is required"},
		{"splunk-token", "secret\n", "log opt 'splunk-token': want printable"},
		{"splunk-url", "", "log opt 'splunk-url' is required"},
		{"splunk-url", "h:8088", "want scheme://host:port"},
		{"splunk-url", "ftp://h:8088", "want scheme://host:port"},
		{"splunk-url", "http://", "want scheme://host:port"},
		{"splunk-url", "http://h:70000", "want scheme://host:port"},
		{"splunk-url", "http://h:0", "want scheme://host:port"},
		{"splunk-url", "http://h:8088/other", "want scheme://host:port"},
		{"splunk-url", "http://h:8088?a=b", "want scheme://host:port"},
		{"splunk-url", "http://h:8088?", "want scheme://host:port"},
		{"splunk-url", "http://h:8088#a", "want scheme://host:port"},
		{"splunk-url", "http://u:secret@h:8088", "without a user"},
		{"splunk-url", "http://u:secret@h:port", "without a user"},
		{"splunk-capath", "ca.pem", "want an absolute path"},
		{"splunk-insecureskipverify", "maybe", "want true or false"},
		{"splunk-format", "xml", "want inline, json or raw"},
		{"splunk-format", "", "want inline, json or raw"},
		{"splunk-verify-connection", "", "want true or false"},
		{"splunk-gzip", "on", "want true or false"},
		{"splunk-gzip-level", "10", "want a number from -1 to 9"},
		{"splunk-gzip-level", "-2", "want a number from -1 to 9"},
		{"splunk-gzip-level", "x", "want a number from -1 to 9"},
		{"splunk-index-acknowledgment", "2", "want true or false"},
	} {
		options := map[string]string{"splunk-token": "t", "splunk-url": "http://h:8088"}
		maps.Copy(options, map[string]string{tc.name: tc.value})
		driver, err := Find("splunk")
		if err != nil {
			t.Fatal(err)
		}
		err = driver.Check(options)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "'"+tc.name+"'") {
			t.Errorf("Check of %s=%q: %v, want fault.Invalid with %q", tc.name, tc.value, err, tc.want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("Check of %s=%q shows it: %v", tc.name, tc.value, err)
		}
	}
}

func TestSecret(t *testing.T) {
	s := Splunk{Token: "hidden-from-all"}
	text, err := json.Marshal(s)
	said := fmt.Sprintf("%v %+v %#v %s %q %x", s, s, s, s.Token, s.Token, s.Token) + string(text)
	if err != nil || strings.Contains(said, "hidden-from-all") || strings.Contains(said, fmt.Sprintf("%x", "hidden-from-all")) {
		t.Errorf("a secret is printed as %s, %v", said, err)
	}
}
