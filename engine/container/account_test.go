package container

import "testing"

func TestEntries(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/sh\nbob:x:7:7::/home/bob:/bin/sh\n"
	for _, tc := range []struct {
		name string
		id   uint32
		home string
		want string
	}{
		{"alice", 1000, "/srv/me", "alice:*:1000:1000:alice:/srv/me:/bin/sh"},
		{"alice", 7, "/srv/me", ""},
		{"bob", 1000, "", "bob1000:*:1000:1000:bob1000:/home/bob1000:/bin/sh"},
		{"", 1000, "", "user:*:1000:1000:user:/home/user:/bin/sh"},
		{"a:b\n", 1000, "", "user:*:1000:1000:user:/home/user:/bin/sh"},
		{"12", 1000, "", "user:*:1000:1000:user:/home/user:/bin/sh"},
	} {
		if got, _ := PasswdEntry([]byte(passwd), tc.name, UserIDs{UID: tc.id, GID: tc.id, Home: tc.home}); got != tc.want {
			t.Errorf("PasswdEntry(%q, %d) = %q, want %q", tc.name, tc.id, got, tc.want)
		}
	}
	for id, want := range map[uint32]string{0: "", 5: "alice:*:5:"} {
		if got := GroupEntry([]byte("root:x:0:\n"), "alice", id); got != want {
			t.Errorf("GroupEntry(%d) = %q, want %q", id, got, want)
		}
	}
}
