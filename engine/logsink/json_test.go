package logsink

import (
	"encoding/json"
	"strings"
	"testing"
)

// checkJSON holds that the standard library reads back what was appended, with U+FFFD for each byte that is not UTF-8.
func checkJSON(t *testing.T, text string) {
	t.Helper()
	want := string([]rune(text))
	for form, got := range map[string][]byte{
		"string": AppendJSON([]byte("["), text), "bytes": AppendJSON([]byte("["), []byte(text)),
	} {
		var read []string
		if err := json.Unmarshal(append(got, ']'), &read); err != nil || len(read) != 1 || read[0] != want {
			t.Errorf("AppendJSON(%q) as %s = %q, read back as %q, %v", text, form, got, read, err)
		}
	}
}

func TestAppendJSON(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, text := range []string{
		"", "plain", `quote " and \`, "tab\tnewline\nreturn\r", "é€😀", "cut \xf0\x9f\x98", "\xe2\x82", "\xff\xfe", string(every),
		"\u2028\ufffd", strings.Repeat("x", 4096) + "\x00",
	} {
		checkJSON(t, text)
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("a\x00\xff\"é")
	f.Fuzz(checkJSON)
}
