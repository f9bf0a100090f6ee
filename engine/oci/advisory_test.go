package oci

import (
	"slices"
	"testing"
)

func TestAdvisories(t *testing.T) {
	const november, later = "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881", "CVE-2026-41579"
	for _, tc := range []struct {
		name, number string
		want         []string
	}{
		{"runc", "1.1.5+ds1", []string{november, later}},
		{"runc", "1.2.7", []string{november, later}},
		{"runc", "1.2.8", []string{later}},
		{"runc", "1.3.2", []string{november, later}},
		{"runc", "1.3.3", []string{later}},
		{"runc", "1.3.6", nil},
		{"runc", "1.4.0-rc.2", nil},
		{"runc", "2.0", nil},
		{"runc", "unknown", nil},
		{"crun", "1.8.1", nil},
	} {
		if got := (Version{Name: tc.name, Number: tc.number}).Advisories(); !slices.Equal(got, tc.want) {
			t.Errorf("Advisories of %s %s = %q, want %q", tc.name, tc.number, got, tc.want)
		}
	}
}
