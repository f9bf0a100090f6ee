package tarfile

import (
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

func TestFileMode(t *testing.T) {
	for _, tc := range []struct {
		kernel uint32
		want   fs.FileMode
	}{
		{unix.S_IFREG | 0o644, 0o644},
		{unix.S_IFREG | 0o4755, fs.ModeSetuid | 0o755},
		{unix.S_IFDIR | 0o1777, fs.ModeDir | fs.ModeSticky | 0o777},
		{unix.S_IFDIR | 0o2750, fs.ModeDir | fs.ModeSetgid | 0o750},
		{unix.S_IFLNK | 0o777, fs.ModeSymlink | 0o777},
		{unix.S_IFIFO | 0o600, fs.ModeNamedPipe | 0o600},
		{unix.S_IFSOCK | 0o600, fs.ModeSocket | 0o600},
		{unix.S_IFBLK | 0o660, fs.ModeDevice | 0o660},
		{unix.S_IFCHR | 0o620, fs.ModeDevice | fs.ModeCharDevice | 0o620},
	} {
		if got := FileMode(tc.kernel); got != tc.want {
			t.Errorf("FileMode(%o) = %v, want %v", tc.kernel, got, tc.want)
		}
	}
}

func TestCleanName(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"a/b", "a/b"},
		{"/a/./b/", "a/b"},
		{"./", "."},
		{"a/..", "."},
		{"..", ""},
		{"a/../../b", ""},
		{"", ""},
		{"a\x00b", ""},
		{strings.Repeat("x", MaxName+1), ""},
		{strings.Repeat("x/", MaxDepth+1), ""},
	} {
		got, err := CleanName("name", tc.name, "whole")
		if got != tc.want || (err != nil) != (tc.want == "") || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("CleanName(%.20q) = %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
}
