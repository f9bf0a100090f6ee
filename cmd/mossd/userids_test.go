package main

import (
	"os"
	"path/filepath"
	"testing"
)

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

func TestFewIDs(t *testing.T) {
	for _, tc := range []struct {
		uids, gids         string
		wantUIDs, wantGIDs int
	}{
		{"0 1000 1\n1 100000 65536\n", "0 1000 1\n1 100000 65536\n", 0, 0},
		{"0 1000 1\n1 100000 65534\n", "0 1000 1\n1 100000 65534\n", 0, 0},
		{"0 1000 1\n", "0 1000 1\n", 0, 0},
		{"0 1000 1\n1 100000 500\n", "0 1000 1\n1 100000 65536\n", 501, 65537},
		{"0 1000 1\n1 100000 500\n501 200000 99\n", "0 1000 1\n1 100000 500\n", 600, 501},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"uid": tc.uids, "gid": tc.gids} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if uids, gids := fewIDs(filepath.Join(dir, "uid"), filepath.Join(dir, "gid")); uids != tc.wantUIDs || gids != tc.wantGIDs {
			t.Errorf("fewIDs(%q, %q) = %d, %d, want %d, %d", tc.uids, tc.gids, uids, gids, tc.wantUIDs, tc.wantGIDs)
		}
	}
}
