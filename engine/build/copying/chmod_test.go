package copying

import (
	"io/fs"
	"testing"

	"moss/engine/fault"
)

func TestModes(t *testing.T) {
	cases := []struct {
		chmod string
		mode  fs.FileMode
		want  uint32
	}{
		{"", 0o644, 0o644},
		{"755", 0o644, 0o755},
		{"0", 0o644, 0},
		{"4755", 0o644, 0o4755},
		{"1777", fs.ModeDir | 0o755, 0o1777},
		{"755", fs.ModeSymlink | 0o777, 0o777},
		{"u+x", 0o644, 0o744},
		{"+x", 0o644, 0o755},
		{"a+x", 0o644, 0o755},
		{"go-rwx", 0o755, 0o700},
		{"u=rwX,go=rX", 0o600, 0o644},
		{"u=rwX,go=rX", 0o700, 0o755},
		{"u=rwX,go=rX", fs.ModeDir | 0o600, 0o755},
		{"-X", 0o755, 0o644},
		{"g=u", 0o640, 0o660},
		{"g=u,o-r", 0o744, 0o770},
		{"o=g-w", 0o660, 0o664},
		{"ug+s", 0o755, 0o6755},
		{"u=rw", fs.ModeSetuid | 0o755, 0o655},
		{"a=", 0o755, 0},
		{"+t", fs.ModeDir | 0o777, 0o1777},
		{"o+t", 0o777, 0o777},
		{"=r", 0o777, 0o444},
		{"u-w+x", 0o644, 0o544},
		{"g=u-w", 0o744, 0o754},
	}
	for _, tc := range cases {
		c, err := parseChmod(tc.chmod)
		if err != nil {
			t.Errorf("parseChmod(%q) = %v", tc.chmod, err)
			continue
		}
		if got := c.applyTo(tc.mode); got != tc.want {
			t.Errorf("chmod %q of %v = %o, want %o", tc.chmod, tc.mode, got, tc.want)
		}
	}
	for _, s := range []string{"8", "07778", "u", "rwx", "u+rwz", "u=rw,", ",u=r", "u=rw,,g=r", "o755", "0o755", "-1", "u+x 7"} {
		if c, err := parseChmod(s); !fault.Is(err, fault.Invalid) {
			t.Errorf("parseChmod(%q) = %v, %v, want fault.Invalid", s, c, err)
		}
	}
}
