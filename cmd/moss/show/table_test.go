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
		if err := (show.View{}).Table(&out, tc.format, columns, nil, []show.Row{row}); err != nil || out.String() != tc.want {
			t.Errorf("Table(%q) = %q, %v, want %q", tc.format, &out, err, tc.want)
		}
	}
}

func TestGrid(t *testing.T) {
	var out bytes.Buffer
	err := (show.View{}).Grid(&out, [][]string{{"PID", "CMD"}, {"12345678901", "a\tb\x07"}, {}, {"1"}})
	if want := "PID           CMD\n12345678901   a b?\n\n1\n"; err != nil || out.String() != want {
		t.Errorf("Grid = %q, %v, want %q", &out, err, want)
	}
}

func TestTableFits(t *testing.T) {
	columns := []show.Column{
		{Field: "ID", Title: "ID", Keep: true}, {Field: "Image", Title: "IMAGE"}, {Field: "Ports", Title: "PORTS"}, {Field: "Name", Title: "NAME", Keep: true},
	}
	row := show.Row{"ID": "0123456789ab", "Image": "registry.example.org/app", "Name": "a-name-that-is-long"}
	row.SetColour("Image", show.Green)
	for _, tc := range []struct {
		view show.View
		want string
	}{
		{show.View{}, "ID             IMAGE                      PORTS     NAME\n0123456789ab   registry.example.org/app             a-name-that-is-long\n"},
		{show.View{Width: 71}, "ID             IMAGE                      PORTS     NAME\n0123456789ab   registry.example.org/app             a-name-that-is-long\n"},
		{show.View{Width: 70}, "ID            IMAGE                     PORTS  NAME\n0123456789ab  registry.example.org/app         a-name-that-is-long\n"},
		{show.View{Width: 59}, "ID            IMAGE                     NAME\n0123456789ab  registry.example.org/app  a-name-that-is-long\n"},
		{show.View{Width: 45}, "ID            IMAGE       NAME\n0123456789ab  registry.…  a-name-that-is-long\n"},
		{show.View{Width: 45, Colour: true}, "ID            IMAGE       NAME\n0123456789ab  \x1b[32mregistry.…\x1b[0m  a-name-that-is-long\n"},
		{show.View{Width: 35}, "ID            IMAGE   NAME\n0123456789ab  regis…  a-name-that-…\n"},
		{show.View{Width: 5}, "ID      IMAGE   NAME\n01234…  regis…  a-nam…\n"},
	} {
		var out bytes.Buffer
		if err := tc.view.Table(&out, "", columns, nil, []show.Row{row}); err != nil || out.String() != tc.want {
			t.Errorf("%+v: %v\n%swant\n%s", tc.view, err, &out, tc.want)
		}
	}
	var out bytes.Buffer
	err := (show.View{Width: 16}).Grid(&out, [][]string{{"PID", "CMD"}, {"12345", "a long command"}, {}})
	if want := "PID    CMD\n12345  a long c…\n\n"; err != nil || out.String() != want {
		t.Errorf("Grid = %q, %v, want %q", &out, err, want)
	}
}
