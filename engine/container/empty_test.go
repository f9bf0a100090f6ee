package container

import (
	"slices"
	"testing"

	"moss/engine/image"
)

// TestTmpfsPropagation takes options of propagation, which have no effect, and no unknown ones.
func TestTmpfsPropagation(t *testing.T) {
	got, err := parseTmpfs("/t", "shared,size=5m,rprivate")
	if want := []string{"noexec", "nosuid", "nodev", "size=5m"}; err != nil || !slices.Equal(got.Options, want) {
		t.Errorf("options = %q, %v, want %q", got.Options, err, want)
	}
	if _, err := parseTmpfs("/t", "sharing"); err == nil {
		t.Error("the option sharing was taken")
	}
}

// TestEmptyCommand: a command without words that the client gave is shown as it was given, and is the image's where that
// has one.
func TestEmptyCommand(t *testing.T) {
	for _, tc := range []struct {
		name  string
		given []string
		image []string
		want  []string
	}{
		{"an empty list", []string{}, nil, []string{}},
		{"nothing", nil, nil, nil},
		{"an empty list over the image's", []string{}, []string{"sh"}, []string{"sh"}},
	} {
		d := &draft{img: image.Config{Cmd: tc.image}}
		d.Config.Cmd = tc.given
		d.mergeCommand()
		if got := d.Config.Cmd; !slices.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%s: command = %#v, want %#v", tc.name, got, tc.want)
		}
	}
}
