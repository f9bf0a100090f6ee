package main

import "testing"

func TestParseIDMap(t *testing.T) {
	for _, tc := range []struct {
		text           string
		outside, count uint32
		ok             bool
	}{
		{"         0       1001          1\n         1     165536      65536\n", 1001, 65537, true},
		{"0 1001 1\n", 1001, 1, true},
		{"0 0 4294967295\n", 0, 4294967295, true},
		{"0 1001 1\n5 200 10\n", 1001, 1, true},
		{"1 1001 1\n", 0, 0, false},
		{"", 0, 0, false},
		{"0 x 1\n", 0, 0, false},
		{"0 1\n", 0, 0, false},
	} {
		outside, count, ok := parseIDMap(tc.text)
		if outside != tc.outside || count != tc.count || ok != tc.ok {
			t.Errorf("parseIDMap(%q) = %d, %d, %t, want %d, %d, %t", tc.text, outside, count, ok, tc.outside, tc.count, tc.ok)
		}
	}
}
