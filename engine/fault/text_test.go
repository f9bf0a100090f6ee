package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"moss/engine/fault"
)

func TestTextIsBounded(t *testing.T) {
	for _, part := range []string{"x/", "é"} {
		err := fmt.Errorf("size of container: %s: %w", strings.Repeat(part, 60_000), errors.New("file name too long"))
		got := fault.Text(err)
		if len(got) > 9<<10 || !strings.HasPrefix(got, "size of container: ") || !strings.HasSuffix(got, ": file name too long") {
			t.Errorf("Text has %d bytes: %.40q to %q, want the beginning and the end of at most %d", len(got), got, got[len(got)-40:], 9<<10)
		}
		if strings.ToValidUTF8(got, "?") != got {
			t.Errorf("Text of %q parts is not UTF-8", part)
		}
	}
	if got := fault.Text(errors.New("short")); got != "short" {
		t.Errorf("Text(short) = %q", got)
	}
}
