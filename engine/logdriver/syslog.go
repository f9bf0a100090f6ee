package logdriver

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SyslogFormat is the layout of a message to a syslog receiver.
type SyslogFormat string

// The formats.
const (
	SyslogLocal        SyslogFormat = ""             // time and program, as the C library sends to the machine's own daemon
	SyslogRFC3164      SyslogFormat = "rfc3164"      // the same with the machine's name
	SyslogRFC5424      SyslogFormat = "rfc5424"      // time in seconds
	SyslogRFC5424Micro SyslogFormat = "rfc5424micro" // time in microseconds
)

// The ways to a syslog receiver.
const (
	SyslogUDP      = "udp"
	SyslogTCP      = "tcp"
	SyslogTLS      = "tcp+tls"
	SyslogUnix     = "unix"     // a stream
	SyslogUnixgram = "unixgram" // datagrams
)

// Syslog has the options of the driver syslog.
type Syslog struct {
	Network    string // one of the ways; empty: the syslog socket of this machine, and no Address
	Address    string // host:port, or the path of a socket
	Facility   int    // 0 to 23
	Format     SyslogFormat
	CACert     string // absolute path of a file, as the next two; empty: the authorities of the system
	Cert, Key  string // both or none
	SkipVerify bool
}

// syslogOptions are the driver's own.
var syslogOptions = []string{ //nolint:gochecknoglobals // a constant
	"syslog-address", "syslog-facility", "syslog-format",
	"syslog-tls-ca-cert", "syslog-tls-cert", "syslog-tls-key", "syslog-tls-skip-verify",
}

// syslogFacilities are in the order of their numbers. 12 to 15 have no name that programs agree upon.
var syslogFacilities = []string{ //nolint:gochecknoglobals // a constant
	"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "", "", "", "",
	"local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
}

const (
	syslogPort       = "514" // of all ways, TLS included: users of Docker's driver know no other
	syslogDaemon     = 3     // the facility of services
	syslogSocketPath = 107   // bytes that the kernel takes
)

// ParseSyslog returns the options of the driver syslog; it leaves out the options that all drivers take. An absent or empty
// option has its default. The error is fault.Invalid and names the option.
func ParseSyslog(options map[string]string) (Syslog, error) {
	s := Syslog{
		Format: SyslogFormat(options["syslog-format"]),
		CACert: options["syslog-tls-ca-cert"], Cert: options["syslog-tls-cert"], Key: options["syslog-tls-key"],
	}
	var ok bool
	if s.Network, s.Address, ok = parseSyslogAddress(options["syslog-address"]); !ok {
		return Syslog{}, invalidOpt("syslog-address", options["syslog-address"],
			"udp://HOST[:PORT], tcp://HOST[:PORT], tcp+tls://HOST[:PORT], unix:///PATH or unixgram:///PATH")
	}
	if s.Facility, ok = parseSyslogFacility(options["syslog-facility"]); !ok {
		return Syslog{}, invalidOpt("syslog-facility", options["syslog-facility"],
			"a number from 0 to 23, or one of "+strings.Join(slices.DeleteFunc(slices.Clone(syslogFacilities), isEmpty), ", "))
	}
	switch s.Format {
	case SyslogLocal, SyslogRFC3164, SyslogRFC5424, SyslogRFC5424Micro:
	default:
		return Syslog{}, invalidOpt("syslog-format", options["syslog-format"], "rfc3164, rfc5424, rfc5424micro or nothing")
	}
	return s, s.parseTLS(options)
}

// checkSyslog is the driver's Check.
func checkSyslog(options map[string]string) error {
	_, err := ParseSyslog(options)
	return err
}

// parseTLS takes the options that only a connection with TLS has.
func (s *Syslog) parseTLS(options map[string]string) error {
	for _, name := range syslogOptions {
		value, set := options[name]
		if !strings.HasPrefix(name, "syslog-tls-") || !set {
			continue
		}
		var err error
		if name == "syslog-tls-skip-verify" {
			if s.SkipVerify, err = strconv.ParseBool(value); err != nil {
				return invalidOpt(name, options[name], "true or false")
			}
		} else if value == "" {
			continue
		} else if !filepath.IsAbs(value) {
			return invalidOpt(name, options[name], "the absolute path of a file")
		}
		if s.Network != SyslogTLS {
			return invalidOpt(name, options[name], "a 'syslog-address' of tcp+tls:// beside it")
		}
	}
	if s.Cert != "" && s.Key == "" {
		return invalidOpt("syslog-tls-cert", options["syslog-tls-cert"], "a 'syslog-tls-key' beside it")
	}
	if s.Key != "" && s.Cert == "" {
		return invalidOpt("syslog-tls-key", options["syslog-tls-key"], "a 'syslog-tls-cert' beside it")
	}
	return nil
}

// parseSyslogAddress returns the way and where it leads to.
func parseSyslogAddress(text string) (network, address string, ok bool) {
	if text == "" {
		return "", "", true
	}
	network, rest, _ := strings.Cut(text, "://")
	switch network {
	case SyslogUnix, SyslogUnixgram:
		return network, rest, filepath.IsAbs(rest) && len(rest) <= syslogSocketPath && !strings.Contains(rest, "\x00")
	case SyslogUDP, SyslogTCP, SyslogTLS:
		address, ok = parseSyslogHost(strings.TrimSuffix(rest, "/"))
		return network, address, ok
	default:
		return "", "", false
	}
}

// parseSyslogHost returns host:port. No host with a port is this machine.
func parseSyslogHost(text string) (address string, ok bool) {
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("/?#@\\\x7f", r) }) {
		return "", false
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if host, port, err = net.SplitHostPort(text + ":"); err != nil {
			return "", false
		}
	}
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = syslogPort
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return net.JoinHostPort(host, port), err == nil && n > 0
}

// parseSyslogFacility returns the number of a facility.
func parseSyslogFacility(text string) (int, bool) {
	if text == "" {
		return syslogDaemon, true
	}
	if at := slices.Index(syslogFacilities, text); at >= 0 {
		return at, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n < len(syslogFacilities)
}

// isEmpty tells the facilities without a name.
func isEmpty(s string) bool { return s == "" }
