package stdio_test

import (
	"testing"

	"moss/engine/stdio"
)

func TestOutputIndex(t *testing.T) {
	if out, err := stdio.Stdout.OutputIndex(), stdio.Stderr.OutputIndex(); out != 0 || err != 1 {
		t.Errorf("places of the outputs = %d and %d, want 0 and 1", out, err)
	}
}
