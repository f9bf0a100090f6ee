package logdriver

import (
	"slices"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestFind(t *testing.T) {
	for _, name := range Names() {
		if d, err := Find(name); err != nil || d.Name != name {
			t.Errorf("Find(%s) = %+v, %v", name, d, err)
		}
	}
	if d, err := Find(""); err != nil || d.Name != Default || d.Writes != File || !d.Readable {
		t.Errorf("Find of no name = %+v, %v, want the default, which writes a file", d, err)
	}
	if d, err := Find(None); err != nil || d.Writes != Nowhere || d.Readable {
		t.Errorf("Find(none) = %+v, %v, want one that writes nowhere", d, err)
	}
	if d, err := Find("nosuch"); !fault.Is(err, fault.Invalid) {
		t.Errorf("Find(nosuch) = %+v, %v, want fault.Invalid", d, err)
	}
	for name, want := range map[string]string{
		"etwlogs": "belongs to another operating system", "nosuch": "logger: no log driver named 'nosuch' is registered: there are json-file, local,",
	} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%s): got %v, want %q", name, err, want)
		}
	}
	if names := Names(); !slices.Contains(names, Default) || !slices.Contains(names, "journald") {
		t.Errorf("Names = %v", names)
	}
}
