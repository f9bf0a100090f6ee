package rootless

import (
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/rootless-containers/rootlesskit/v3/pkg/parent"
	"github.com/rootless-containers/rootlesskit/v3/pkg/parent/idtools"
)

func TestOnlyFiles(t *testing.T) {
	for _, tc := range []struct {
		name, conf string
		want       bool
	}{
		{"empty", "", true},
		{"no such line", "passwd: files systemd\nhosts: files dns\n", true},
		{"files", "subid: files\n", true},
		{"other source", "passwd: files\nsubid:  sss\n", false},
		{"other source in front", "subid: sss files", false},
		{"no source at all", "subid:\n", false},
		{"comment", "# subid: sss\nsubid: files # as ever\n", true},
		{"other database", "subidx: sss\n", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := onlyFiles(tc.conf); got != tc.want {
				t.Errorf("onlyFiles(%q) = %t, want %t", tc.conf, got, tc.want)
			}
		})
	}
}

func TestSubIDsAsksGetsubidsWhereTheFilesAreNotAll(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := idtools.GetSubIDRanges(os.Getuid(), me.Username); err != nil {
		t.Skipf("%v: give the user a line in /etc/subuid and /etc/subgid", err)
	}
	for conf, want := range map[string]parent.SubidSource{
		"subid: files\n": parent.SubidSourceStatic, "subid: sss\n": parent.SubidSourceAuto,
	} {
		path := filepath.Join(t.TempDir(), "nsswitch.conf")
		if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		uids, gids, source, err := subIDs(me.Username, path)
		if err != nil || source != want || countIDs(uids) == 0 || countIDs(gids) == 0 {
			t.Errorf("with %q: subIDs = %v, %v, %s, %v; want ranges from %s", conf, uids, gids, source, err, want)
		}
	}
}
