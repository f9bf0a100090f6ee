package tty_test

import (
	"os"
	"reflect"
	"testing"

	"moss/cmd/moss/tty"
	"moss/cmd/moss/tty/ttytest"
)

func TestRawAndRestore(t *testing.T) {
	_, slave := ttytest.Open(t)
	before := ttytest.Mode(t, slave)
	raw, err := tty.MakeRaw(slave)
	if err != nil {
		t.Fatal(err)
	}
	if !ttytest.IsRaw(t, slave) {
		t.Error("MakeRaw leaves the terminal as it was")
	}
	raw.Restore()
	raw.Restore()
	if after := ttytest.Mode(t, slave); !reflect.DeepEqual(after, before) {
		t.Errorf("mode %+v, want %+v", after, before)
	}
}

func TestSize(t *testing.T) {
	master, slave := ttytest.Open(t)
	ttytest.Resize(t, master, 33, 77)
	if height, width := tty.Size(slave); height != 33 || width != 77 {
		t.Errorf("Size = %d, %d, want 33, 77", height, width)
	}
}

func TestNoTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if tty.Is(null) || tty.Is(nil) {
		t.Error("something else counts as a terminal")
	}
	if height, width := tty.Size(null); height != 0 || width != 0 {
		t.Errorf("Size = %d, %d, want zeros", height, width)
	}
	if _, err := tty.MakeRaw(null); err == nil {
		t.Error("MakeRaw of something else passes, want an error")
	}
}
