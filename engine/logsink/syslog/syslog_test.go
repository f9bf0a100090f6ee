package syslog

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/logsink"
	"moss/engine/stdio"
)

var ways = []string{"udp", "tcp", "tcp+tls", "unix", "unixgram"}

var formats = []string{"", "rfc3164", "rfc5424", "rfc5424micro"}

// TestMain gives the tests a zone that is not UTC.
func TestMain(m *testing.M) {
	time.Local = time.FixedZone("", 90*60)
	m.Run()
}

// TestFormats sends in every way and format to rsyslogd, with both of its drivers of TLS, and looks at each field.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"gtls", "ossl"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, driver)
			for _, way := range ways {
				for _, format := range formats {
					testFormat(t, d, way, format)
				}
			}
		})
	}
}

func testFormat(t *testing.T, d *daemon, way, format string) {
	t.Helper()
	tag := strings.ReplaceAll(way, "+", "-") + "-" + format
	options := map[string]string{"syslog-address": d.address(way), "syslog-format": format}
	if way == "tcp+tls" {
		options["syslog-tls-ca-cert"] = d.dir + "/ca.pem"
	}
	at := time.Date(2026, 2, 3, 4, 5, 6, 789123000, time.Local)
	s := openSenderAt(t, describeContainer(tag, options))
	sendAll(t, s, []logsink.Record{
		{At: at.UTC(), Stream: stdio.Stdout, Text: []byte("out put")},
		{At: at, Stream: stdio.Stderr, Text: []byte("error")},
		{At: at, Stream: stdio.Stdout},
	})
	want := message{Pri: "30", Host: "machine.example", Program: tag, PID: strconv.Itoa(os.Getpid()), MsgID: "-", Data: "-"}
	want.Tag = tag + "[" + want.PID + "]"
	space := ""
	switch format {
	case "rfc5424":
		want.Time, want.MsgID = at.Format("2006-01-02T15:04:05Z07:00"), tag[:min(len(tag), 32)]
	case "rfc5424micro":
		want.Time, want.MsgID = at.Format("2006-01-02T15:04:05.000000Z07:00"), tag[:min(len(tag), 32)]
	default:
		want.Tag += ":"
		space = " " // rsyslog leaves it at the text
		want.Time = at.Format(time.Stamp)
	}
	for i, got := range d.read(tag, 3) {
		want.Pri = []string{"30", "27", "30"}[i]
		want.Text = space + []string{"out put", "error", ""}[i]
		got.Raw = ""
		if space != "" {
			// These formats have neither year nor zone.
			if when, err := time.Parse(time.RFC3339, got.Time); err != nil || when.Format(time.Stamp) != want.Time {
				t.Errorf("%s: time %s, want %s", tag, got.Time, want.Time)
			}
			got.Time = want.Time
		}
		if format == "" {
			got.Host = want.Host // rsyslog has its own
		}
		if got != want {
			t.Errorf("%s: message %d\n got %+v\nwant %+v", tag, i, got, want)
		}
	}
}

// TestClientCertificate opens senders at an rsyslogd that wants a certificate of them.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"gtls", "ossl"} {
		d := startDaemon(t, driver)
		options := map[string]string{
			"syslog-address": "tcp+tls://" + d.host + ":" + mutualPort, "syslog-format": "rfc5424",
			"syslog-tls-ca-cert": d.dir + "/ca.pem",
		}
		_, err := openSender(t.Context(), describeContainer("mutual", options), patient)
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), mutualPort) {
			t.Errorf("%s: Open without a certificate = %v, want fault.Unavailable with the address", driver, err)
		}
		options["syslog-tls-cert"], options["syslog-tls-key"] = d.dir+"/client.pem", d.dir+"/client-key.pem"
		sendAll(t, openSenderAt(t, describeContainer("mutual", options)), makeRecords("text"))
		if got := d.read("mutual", 1)[0]; got.Text != "text" {
			t.Errorf("%s: got %+v, want text", driver, got)
		}
	}
}

// TestFacilities sends with names and numbers.
func TestFacilities(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "gtls")
	for facility, number := range map[string]int{
		"": 3, "kern": 0, "user": 1, "authpriv": 10, "ftp": 11, "local0": 16, "local7": 23, "0": 0, "13": 13, "23": 23,
	} {
		tag := "facility-" + facility
		s := openSenderAt(t, describeContainer(tag, map[string]string{"syslog-address": d.address("tcp"), "syslog-facility": facility}))
		sendAll(t, s, makeRecords("x"))
		if got, want := d.read(tag, 1)[0].Pri, strconv.Itoa(number*8+6); got != want {
			t.Errorf("facility %q: priority %s, want %s", facility, got, want)
		}
	}
}

// TestData sends labels and variables, and a tag that fits no field.
func TestData(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "gtls")
	longTag := strings.Repeat("t", 49)
	for _, c := range []struct {
		name, tag, program, data string
		attrs                    map[string]string
	}{
		{name: "attrs", attrs: map[string]string{"b": "2", "a": "1"}, data: `a="1" b="2" `},
		{name: "escapes", attrs: map[string]string{"a": `"]\`}, data: `a="\"]\\" `},
		{name: "control", attrs: map[string]string{"a": "1\n2\x003"}, data: `a="1#0122#0003" `},
		{name: "utf8", attrs: map[string]string{"a": "ä\xff"}, data: `a="ä` + "\uFFFD" + `" `},
		{name: "long", attrs: map[string]string{strings.Repeat("n", 99): "1"}, data: strings.Repeat("n", 99) + `="1" `},
		{
			name: "odd", attrs: map[string]string{"a b": "1", "ä": "2", `"`: "3", "": "4", "=": "5"},
			data: `attr="=4" attr="\"=3" attr="==5" attr="a b=1" attr="ä=2" `,
		},
		{name: "tag with spaces", tag: "tag with spaces", program: "tag_with_spaces", data: `tag="tag with spaces" `},
		{name: "long tag", tag: longTag, program: longTag[1:], data: `tag="` + longTag + `" `},
	} {
		for _, format := range formats {
			tag, program, data := c.tag, c.program, c.data
			if tag == "" {
				tag = c.name + format
				program = tag
			}
			modern := strings.HasPrefix(format, "rfc5424")
			if c.name == "long tag" && !modern {
				program, data = tag, "" // these formats have no such bound
			}
			if c.tag != "" {
				tag, program, data = format+tag, (format + program), strings.Replace(data, `tag="`, `tag="`+format, 1)
				if modern {
					program = program[:min(len(program), 48)]
				}
			}
			set := describeContainer(tag, map[string]string{"syslog-address": d.address("tcp"), "syslog-format": format})
			set.Container.Attrs = maps.Clone(c.attrs)
			sendAll(t, openSenderAt(t, set), makeRecords("text"))
			got := d.read(program, 1)[0]
			if kind := program[:min(len(program), 32)]; modern && got.MsgID != kind {
				t.Errorf("%s, %s: kind %s, want %s", c.name, format, got.MsgID, kind)
			}
			want := data + "text"
			if !modern {
				want = " " + want // rsyslog leaves it at the text
			}
			if got.Text != want || modern && got.Data != "-" {
				t.Errorf("%s, %q: data %q and text %q, want none and %q", c.name, format, got.Data, got.Text, want)
			}
		}
	}
}

// TestText sends what ends a message, what does not, and what is longer than a message.
func TestText(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "gtls")
	// rsyslogd writes all control characters in octal itself.
	const odd = "a\x00b\nc\x1b[31md\re\tf\xffgäö"
	const shown = "a#000b#012c#033[31md#015e#011f\uFFFDgäö"
	long := strings.Repeat("0123456789abcdeä", 16<<10/17)
	for _, way := range ways {
		for _, format := range formats {
			tag := "text-" + strings.ReplaceAll(way, "+", "-") + format
			options := map[string]string{"syslog-address": d.address(way), "syslog-format": format}
			if way == "tcp+tls" {
				options["syslog-tls-ca-cert"] = d.dir + "/ca.pem"
			}
			s := openSenderAt(t, describeContainer(tag, options))
			sendAll(t, s, makeRecords(odd, "1 <2>3", long, "a\nb", "a\x00b"))
			var got []string
			for _, m := range d.read(tag, 7) {
				text := m.Text
				if !strings.HasPrefix(format, "rfc5424") {
					text = strings.TrimPrefix(text, " ")
				}
				got = append(got, text)
			}
			joined := strings.Join(got[2:5], "")
			if strings.ReplaceAll(got[0], "\xff", "\uFFFD") != shown || got[1] != "1 <2>3" || joined != long ||
				got[5] != "a#012b" || got[6] != "a#000b" {
				t.Errorf("%s: got %.60q %q %d bytes %q, want %.60q and the others as they were, %d bytes the long one",
					tag, got[0], got[1], len(joined), got[5:], shown, len(long))
			}
			if len(got[2]) < mostMessage/2 {
				t.Errorf("%s: a piece has %d bytes only", tag, len(got[2]))
			}
		}
	}
}

// TestLocal finds the machine's socket, whichever kind it is.
func TestLocal(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "gtls")
	for _, socket := range []string{"stream", "datagram", "local"} {
		sockets := []string{d.dir + "/absent", d.dir + "/" + socket, d.dir + "/absent"}
		s, err := openSender(t.Context(), describeContainer("local-"+socket, nil), target{sockets: sockets, wait: connectTime})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // does not fail
		sendAll(t, s, makeRecords("one", "two"))
		if got := d.read("local-"+socket, 2); got[0].Text != " one" || got[1].Text != " two" {
			t.Errorf("%s: got %+v", socket, got)
		}
	}
	none := target{sockets: []string{d.dir + "/absent", d.dir + "/missing"}, wait: connectTime}
	_, err := openSender(t.Context(), describeContainer("local", nil), none)
	if err == nil || !strings.Contains(err.Error(), "/absent: ") || !strings.Contains(err.Error(), "/missing: ") {
		t.Errorf("without a socket: %v, want an error with both paths", err)
	}
}

// TestDaemonBack kills rsyslogd and starts it again, in the way of a stream after it was noticed: all records arrive, in order.
func TestDaemonBack(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "gtls")
	senders := map[string]*sender{}
	for _, way := range ways {
		options := map[string]string{"syslog-address": d.address(way), "syslog-format": "rfc5424"}
		if way == "tcp+tls" {
			options["syslog-tls-ca-cert"] = d.dir + "/ca.pem"
		}
		senders[way] = openSenderAt(t, describeContainer("back-"+strings.ReplaceAll(way, "+", "-"), options))
		sendAll(t, senders[way], makeRecords("0", "1"))
		d.read(senders[way].program(), 2)
	}
	d.stop()
	for way, s := range senders {
		if s.conn.stream {
			<-s.conn.ended
		}
		sendInVain(t, s, []string{"2", "3", "4"}, d.address(way))
	}
	d.start()
	for way, s := range senders {
		sendUntil(t, s, makeRecords("2", "3", "4"))
		var got []string
		for _, m := range d.read(s.program(), 5) {
			got = append(got, m.Text)
		}
		if fmt.Sprint(got) != "[0 1 2 3 4]" {
			t.Errorf("%s: got %v, want 0 to 4", way, got)
		}
	}
}

// program returns the field of the program.
func (s *sender) program() string {
	return strings.Fields(s.layout.rest)[1]
}
