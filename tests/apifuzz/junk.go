package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
)

// junk are values that parameters, names and fields may not expect.
var junk = []string{
	"", "0", "-1", "1", "1e9", "0x10", "1.5", "99999999999999999999", "-99999999999999999999", "NaN", "true", "FALSE", "yes", "none", "\x00", "a\x00b", "%", "%zz", "+", " ",
	"\n", "a\r\nX: y", "..", ".", "/", "//", "../../../../etc/passwd", "/proc/self/root", "a/b/c", "a:b:c", "@", "sha256:", "sha256:" + hex64, hex64, hex64[:12], "ffff",
	"{}", "[]", "null", `"`, `{"a":`, "<b>", "ümläut", "日本語", "\u202egnp", "\U0001f4a9", "\xff\xfe", "'; rm -rf /", "${HOME}", "$(id)", "-rf", "--help", "UPPER", "a..b", "-a",
	"127.0.0.1:1/x", "localhost:1/a/b:t", "container:", "container:nobody", "host", "SIGNOPE", "65", "9223372036854775807", "9223372036854775808", "1h", "2020-01-01T00:00:00Z",
	"ctrl-p,ctrl-q", "ctrl-", strings.Repeat("a", 300), strings.Repeat("é", 2000), strings.Repeat("x/", 500), strings.Repeat("9", 400),
}

const hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// junkFilters are values of filters, right ones among them. None removes anything: they are for lists alone.
var junkFilters = []string{
	"{", "[]", "null", `""`, "7", "{}", `{"a":1}`, `{"label":"x"}`, `{"label":["fuzz"]}`, `{"label":{"fuzz":"x"}}`, `{"label":null}`, `{"status":["nope"]}`, `{"status":["exited"]}`,
	`{"exited":["x"]}`, `{"exited":["99999999999999999999"]}`, `{"name":["["]}`, `{"name":["(a+)+$"]}`, `{"id":[""]}`, `{"nope":["x"]}`, `{"dangling":["maybe"]}`, `{"dangling":["true","false"]}`,
	`{"ancestor":["\u0000"]}`, `{"before":["nobody"]}`, `{"since":["nobody"]}`, `{"volume":["/"]}`, `{"network":["bridge"]}`, `{"label":["` + strings.Repeat("a", 3000) + `"]}`, `{"type":["custom"]}`,
	`{"driver":["bridge"]}`, `{"until":["x"]}`, `{"until":["1h"]}`, `{"event":["die"]}`, `{"image":["a/b:c"]}`, `{"label":["a"],"label":[1]}`, `{"label":["a=b=c","=","!"]}`, "\xff", strings.Repeat("[", 20000),
}

// junkJSON are values for a field of any type.
func junkJSON(rng *rand.Rand) string {
	switch rng.IntN(14) {
	case 0:
		return "null"
	case 1:
		return strconv.Itoa(rng.IntN(1000) - 500)
	case 2:
		return oneOf(rng, []string{"1e400", "-1e400", "1.5", "99999999999999999999999", "-9223372036854775808", "9223372036854775807", "1e3", "-0"})
	case 3:
		return oneOf(rng, []string{"true", "false"})
	case 4:
		return oneOf(rng, []string{"[]", "{}", "[[]]", "[{}]", "[null]", `{"":null}`, `{"a":{"b":{"c":[]}}}`, `[1,"a",null,{}]`})
	case 5:
		n := oneOf(rng, []int{10, 100, 9999, 20000})
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	case 6:
		n := oneOf(rng, []int{10, 100, 5000})
		return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
	case 7:
		return oneOf(rng, []string{`"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, `"\u202e"`, `"\x"`, "\"\xff\"", "\"\n\"", `"\\"`})
	case 8:
		return `"` + strings.Repeat("z", oneOf(rng, []int{100, 5000, 70000})) + `"`
	case 9:
		return "[" + strings.Repeat(`"a",`, oneOf(rng, []int{10, 1000, 20000})) + `"b"]`
	default:
		raw, _ := json.Marshal(oneOf(rng, junk)) // A text can always be written.
		return string(raw)
	}
}

// mutateJSON changes a JSON document: a value, a field more, one twice, or its bytes.
func mutateJSON(rng *rand.Rand, doc []byte) []byte {
	switch rng.IntN(10) {
	case 0: // not whole
		return doc[:rng.IntN(len(doc)+1)]
	case 1: // other bytes
		out := bytes.Clone(doc)
		for range 1 + rng.IntN(4) {
			if len(out) > 0 {
				out[rng.IntN(len(out))] = byte(rng.IntN(256)) //nolint:gosec // below 256
			}
		}
		return out
	case 2: // something behind or before it
		return slicesJoin(rng, doc)
	case 3: // something else altogether
		return []byte(junkJSON(rng))
	case 4: // a field more, or one that is there already, in another case
		return insertField(rng, doc)
	}
	spans := valueRanges(doc)
	if len(spans) == 0 {
		return doc
	}
	s := oneOf(rng, spans)
	return bytes.Join([][]byte{doc[:s[0]], []byte(junkJSON(rng)), doc[s[1]:]}, nil)
}

func slicesJoin(rng *rand.Rand, doc []byte) []byte {
	more := []byte(oneOf(rng, []string{"{}", "]", "}", "\x00", "x", "\ufeff", "  \n", "/* */", "null"}))
	if chance(rng, 50) {
		return append(bytes.Clone(doc), more...)
	}
	return append(more, doc...)
}

// insertField puts a field at the start of the document's object.
func insertField(rng *rand.Rand, doc []byte) []byte {
	at := bytes.IndexByte(doc, '{')
	if at < 0 {
		return doc
	}
	key := oneOf(rng, []string{"Nope", "", "image", "IMAGE", "HostConfig", "\\u0000", "Cmd", "Labels", "NetworkingConfig", strings.Repeat("k", 3000)})
	field := `"` + key + `":` + junkJSON(rng)
	if rest := bytes.TrimSpace(doc[at+1:]); len(rest) > 0 && rest[0] != '}' {
		field += ","
	}
	return bytes.Join([][]byte{doc[:at+1], []byte(field), doc[at+1:]}, nil)
}

// valueRanges returns where the values of a JSON document stand: begin and end of each.
func valueRanges(doc []byte) [][2]int {
	var spans [][2]int
	in := json.NewDecoder(bytes.NewReader(doc))
	type open struct {
		at     int
		object bool
		key    bool // the next token is a key
	}
	var stack []open
	for {
		before := int(in.InputOffset())
		tok, err := in.Token()
		if err != nil {
			return spans
		}
		begin, end := before, int(in.InputOffset())
		for begin < end && strings.IndexByte(" \t\r\n:,", doc[begin]) >= 0 {
			begin++
		}
		top := len(stack) - 1
		if d, is := tok.(json.Delim); is {
			switch d {
			case '{', '[':
				stack = append(stack, open{at: begin, object: d == '{', key: d == '{'})
				continue
			default:
				spans = append(spans, [2]int{stack[top].at, end})
				stack = stack[:top]
				top--
			}
		} else if top >= 0 && stack[top].object && stack[top].key {
			stack[top].key = false
			continue
		} else {
			spans = append(spans, [2]int{begin, end})
		}
		if top >= 0 && stack[top].object {
			stack[top].key = true
		}
	}
}
