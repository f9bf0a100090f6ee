package show_test

import (
	"bytes"
	"math"
	"testing"

	"moss/cmd/moss/show"
)

func TestBinary(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0B", 1023: "1023B", 1024: "1KiB", 1536: "1.5KiB", 1_405_091: "1.34MiB", 25_276_972_957: "23.54GiB", math.MaxUint64: "16EiB",
	} {
		if got := show.Binary(bytes); got != want {
			t.Errorf("Binary(%d) = %s, want %s", bytes, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	row := show.Row{"Name": "web", "State": "up\x1b[2J\tnow"}
	row.SetLabels(map[string]string{"com.example.the-stage": "test"})
	columns := []show.Column{{Field: "Name", Title: "NAME"}, {Field: "State", Title: "STATE"}}
	for _, tc := range []struct{ format, want string }{
		{"", "NAME      STATE\nweb       up?[2J now\n"},
		{"table", "NAME      STATE\nweb       up?[2J now\n"},
		{`{{.Name}} {{.Label "com.example.the-stage"}}{{.Label "none"}}`, "web test\n"},
		{`table {{.Name}}\t{{.Label "com.example.the-stage"}}`, "NAME      the stage\nweb       test\n"},
		{"json", `{"Name":"web","State":"up\u001b[2J\tnow"}` + "\n"},
		{"{{json .}}", `{"Name":"web","State":"up\u001b[2J\tnow"}` + "\n"},
		{"{{title .Name}} {{upper .Name}} {{len .Name}}", "Web WEB 3\n"},
	} {
		var out bytes.Buffer
		if err := show.Table(&out, tc.format, columns, nil, []show.Row{row}); err != nil || out.String() != tc.want {
			t.Errorf("Table(%q) = %q, %v, want %q", tc.format, &out, err, tc.want)
		}
	}
}

func TestGrid(t *testing.T) {
	var out bytes.Buffer
	err := show.Grid(&out, [][]string{{"PID", "CMD"}, {"12345678901", "a\tb\x07"}, {}, {"1"}})
	if want := "PID           CMD\n12345678901   a b?\n\n1\n"; err != nil || out.String() != want {
		t.Errorf("Grid = %q, %v, want %q", &out, err, want)
	}
}
