package splunk

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"moss/engine/logdriver"
	"moss/engine/logsink"
	"moss/engine/stdio"
)

// encoder makes events of records. What all events of a container have in common is made once.
type encoder struct {
	format logdriver.SplunkFormat
	head   string // between the time and the line
	prefix string // of the text of raw events
	text   []byte // room for that text
	out    string // after the line, for the standard output
	err    string // the same for the standard error
	around int    // bytes of an event besides the record's text, about
}

// timeSize is how many bytes the time and the quotes around a text take.
const timeSize = 32

// newEncoder returns an encoder for the container.
func newEncoder(options logdriver.Splunk, setup logsink.Setup) encoder {
	tag := setup.Container.Tag
	if given, ok := setup.Options["tag"]; ok && given == "" {
		tag = "" // the user wants none
	}
	e := encoder{format: options.Format}
	head := []byte(`"`)
	for _, field := range [][2]string{
		{"host", setup.Container.Host}, {"source", options.Source}, {"sourcetype", options.SourceType}, {"index", options.Index},
	} {
		if field[1] != "" {
			head = append(head, `,"`+field[0]+`":`...)
			head = logsink.AppendJSON(head, field[1])
		}
	}
	head = append(head, `,"event":`...)
	names := slices.Sorted(maps.Keys(setup.Container.Attrs))
	if options.Format == logdriver.SplunkRaw {
		if tag != "" {
			e.prefix = tag + " "
		}
		for _, name := range names {
			e.prefix += name + "=" + setup.Container.Attrs[name] + " "
		}
		e.head, e.out, e.err = string(head), "}\n", "}\n"
		e.around = len(e.head) + len(e.prefix) + timeSize
		return e
	}
	var tail []byte
	if tag != "" {
		tail = logsink.AppendJSON(append(tail, `,"tag":`...), tag)
	}
	between := `,"attrs":{`
	for _, name := range names {
		tail = logsink.AppendJSON(append(tail, between...), name)
		tail = logsink.AppendJSON(append(tail, ':'), setup.Container.Attrs[name])
		between = ","
	}
	if len(names) > 0 {
		tail = append(tail, '}')
	}
	e.head = string(head) + `{"line":`
	e.out = `,"source":"stdout"` + string(tail) + "}}\n"
	e.err = `,"source":"stderr"` + string(tail) + "}}\n"
	e.around = len(e.head) + len(e.err) + timeSize
	return e
}

// appendEvent appends the event of a record, and nothing for a raw one without visible text, which a collector would refuse.
func (e *encoder) appendEvent(dst []byte, r *logsink.Record) []byte {
	if e.format == logdriver.SplunkRaw && len(e.prefix) == 0 && len(bytes.TrimSpace(r.Text)) == 0 {
		return dst
	}
	// Seconds with six digits after the point, as text: what the driver's users know.
	dst = append(dst, `{"time":"`...)
	micros := r.At.UnixMicro()
	dst = strconv.AppendInt(dst, micros/1e6, 10)
	point := len(dst)
	dst = strconv.AppendInt(dst, 1e6+micros%1e6, 10) // seven digits, the first of which becomes the point
	dst[point] = '.'
	dst = append(dst, e.head...)
	switch {
	case e.format == logdriver.SplunkRaw:
		e.text = append(append(e.text[:0], e.prefix...), r.Text...)
		dst = logsink.AppendJSON(dst, e.text)
	case e.format == logdriver.SplunkJSON && utf8.Valid(r.Text) && json.Valid(r.Text):
		dst = append(dst, bytes.TrimSpace(r.Text)...)
	default:
		dst = logsink.AppendJSON(dst, r.Text)
	}
	if r.Stream == stdio.Stderr {
		return append(dst, e.err...)
	}
	return append(dst, e.out...)
}
