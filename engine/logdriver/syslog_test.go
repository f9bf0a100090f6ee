package logdriver

import (
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestParseSyslog(t *testing.T) {
	local := Syslog{Facility: 3}
	over := func(network, address string) Syslog { return Syslog{Facility: 3, Network: network, Address: address} }
	facility := func(n int) Syslog { return Syslog{Facility: n} }
	for text, want := range map[string]Syslog{
		"":                            local,
		"labels=a,b tag=x mode=wrong": local, // somebody else's
		"syslog-address= syslog-facility= syslog-format= syslog-tls-ca-cert=": local,

		"syslog-address=udp://host":                          over("udp", "host:514"),
		"syslog-address=udp://host:":                         over("udp", "host:514"),
		"syslog-address=tcp://host/":                         over("tcp", "host:514"),
		"syslog-address=tcp+tls://host":                      over("tcp+tls", "host:514"),
		"syslog-address=tcp+tls://host:6514":                 over("tcp+tls", "host:6514"),
		"syslog-address=udp://:1":                            over("udp", "localhost:1"),
		"syslog-address=udp://[::1]":                         over("udp", "[::1]:514"),
		"syslog-address=udp://[fe80::1%eth0]:65535":          over("udp", "[fe80::1%eth0]:65535"),
		"syslog-address=unix:///dev/log":                     over("unix", "/dev/log"),
		"syslog-address=unixgram:///a/b:c":                   over("unixgram", "/a/b:c"),
		"syslog-address=unix:///" + strings.Repeat("p", 106): over("unix", "/"+strings.Repeat("p", 106)),

		"syslog-facility=kern":   facility(0),
		"syslog-facility=daemon": facility(3),
		"syslog-facility=ftp":    facility(11),
		"syslog-facility=local0": facility(16),
		"syslog-facility=local7": facility(23),
		"syslog-facility=0":      facility(0),
		"syslog-facility=12":     facility(12),
		"syslog-facility=23":     facility(23),

		"syslog-format=rfc3164":      {Facility: 3, Format: SyslogRFC3164},
		"syslog-format=rfc5424":      {Facility: 3, Format: SyslogRFC5424},
		"syslog-format=rfc5424micro": {Facility: 3, Format: SyslogRFC5424Micro},

		"syslog-address=tcp+tls://h syslog-tls-ca-cert=/ca syslog-tls-cert=/c syslog-tls-key=/k syslog-tls-skip-verify=true": {
			Facility: 3, Network: "tcp+tls", Address: "h:514", CACert: "/ca", Cert: "/c", Key: "/k", SkipVerify: true,
		},
		"syslog-address=tcp+tls://h syslog-tls-skip-verify=0": over("tcp+tls", "h:514"),
	} {
		if got, err := ParseSyslog(parseOptions(text)); err != nil || got != want {
			t.Errorf("ParseSyslog(%s) = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// TestSyslogFacilities has the numbers of the standard (RFC 5424, 6.2.1) by the names of syslog.h.
func TestSyslogFacilities(t *testing.T) {
	for name, number := range map[string]int{
		"kern": 0, "user": 1, "mail": 2, "daemon": 3, "auth": 4, "syslog": 5, "lpr": 6, "news": 7, "uucp": 8, "cron": 9,
		"authpriv": 10, "ftp": 11, "local0": 16, "local1": 17, "local2": 18, "local3": 19, "local4": 20, "local5": 21, "local6": 22,
		"local7": 23,
	} {
		if got, err := ParseSyslog(map[string]string{"syslog-facility": name}); err != nil || got.Facility != number {
			t.Errorf("facility %s = %d, %v, want %d", name, got.Facility, err, number)
		}
	}
}

func TestParseSyslogRefuses(t *testing.T) {
	const tls = "syslog-address=tcp+tls://h "
	for text, name := range map[string]string{
		"syslog-address=host:514":                                     "syslog-address",
		"syslog-address=http://host":                                  "syslog-address",
		"syslog-address=UDP://host":                                   "syslog-address",
		"syslog-address=udp://":                                       "syslog-address",
		"syslog-address=udp:///":                                      "syslog-address",
		"syslog-address=udp://host/path":                              "syslog-address",
		"syslog-address=udp://user@host":                              "syslog-address",
		"syslog-address=udp://host?x":                                 "syslog-address",
		"syslog-address=udp://host:0":                                 "syslog-address",
		"syslog-address=udp://host:65536":                             "syslog-address",
		"syslog-address=udp://host:name":                              "syslog-address",
		"syslog-address=udp://::1":                                    "syslog-address",
		"syslog-address=udp://ho\nst":                                 "syslog-address",
		"syslog-address=unix://dev/log":                               "syslog-address",
		"syslog-address=unix://":                                      "syslog-address",
		"syslog-address=unixgram:///a\x00b":                           "syslog-address",
		"syslog-address=unix:///" + strings.Repeat("p", 107):          "syslog-address",
		"syslog-facility=local8":                                      "syslog-facility",
		"syslog-facility=24":                                          "syslog-facility",
		"syslog-facility=-1":                                          "syslog-facility",
		"syslog-facility=Daemon":                                      "syslog-facility",
		"syslog-format=local":                                         "syslog-format",
		"syslog-format=RFC5424":                                       "syslog-format",
		tls + "syslog-tls-ca-cert=ca.pem":                             "syslog-tls-ca-cert",
		tls + "syslog-tls-cert=/c":                                    "syslog-tls-cert",
		tls + "syslog-tls-key=/k":                                     "syslog-tls-key",
		tls + "syslog-tls-skip-verify=":                               "syslog-tls-skip-verify",
		tls + "syslog-tls-skip-verify=yes":                            "syslog-tls-skip-verify",
		"syslog-tls-skip-verify=true":                                 "syslog-tls-skip-verify",
		"syslog-tls-skip-verify=false":                                "syslog-tls-skip-verify",
		"syslog-address=tcp://h syslog-tls-ca-cert=/ca":               "syslog-tls-ca-cert",
		"syslog-address=udp://h syslog-tls-cert=/c syslog-tls-key=/k": "syslog-tls-cert",
	} {
		options := parseOptions(text)
		_, err := ParseSyslog(options)
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), "invalid value ") ||
			!strings.Contains(err.Error(), " of log opt '"+name+"': want ") {
			t.Errorf("ParseSyslog(%s) = %v, want fault.Invalid about %s", text, err, name)
		}
		driver, missing := Find("syslog")
		if missing != nil || driver.Writes != Remote || driver.Readable {
			t.Fatalf("Find(syslog) = %+v, %v, want one that writes to a receiver", driver, missing)
		}
		if checked := driver.Check(options); checked == nil || checked.Error() != err.Error() {
			t.Errorf("Check(%s) = %v, want %v", text, checked, err)
		}
	}
}

// TestSyslogOptionsAreTaken looks for each option in what the parser refuses.
func TestSyslogOptionsAreTaken(t *testing.T) {
	for _, name := range syslogOptions {
		if got, err := ParseSyslog(map[string]string{name: "wrong"}); err == nil {
			t.Errorf("ParseSyslog with a wrong %s = %+v", name, got)
		}
	}
}

// parseOptions returns options from words.
func parseOptions(text string) map[string]string {
	options := map[string]string{}
	for word := range strings.SplitSeq(text, " ") {
		if key, value, ok := strings.Cut(word, "="); ok {
			options[key] = value
		}
	}
	return options
}
