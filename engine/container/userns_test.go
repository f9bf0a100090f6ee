package container

import (
	"slices"
	"testing"

	"moss/engine/fault"
)

func TestKeepID(t *testing.T) {
	for _, tc := range []struct {
		name       string
		uid, count uint32
		want       []IDRange
	}{
		{"in the middle", 1000, 65537, []IDRange{{0, 1, 1000}, {1000, 0, 1}, {1001, 1001, 64536}}},
		{"root", 0, 10, []IDRange{{0, 0, 1}, {1, 1, 9}}},
		{"the last", 9, 10, []IDRange{{0, 1, 9}, {9, 0, 1}}},
		{"above all", 200000, 10, []IDRange{{0, 1, 9}, {200000, 0, 1}}},
		{"one id", 1000, 1, []IDRange{{1000, 0, 1}}},
	} {
		m := KeepID(tc.uid, tc.uid, tc.count, tc.count)
		if !slices.Equal(m.UIDs, tc.want) || !slices.Equal(m.GIDs, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, m.UIDs, tc.want)
		}
		if m.Single() != (tc.count == 1) {
			t.Errorf("%s: single = %t", tc.name, m.Single())
		}
		// Every id of the engine is somebody inside, and nobody twice.
		seen := map[uint32]bool{}
		for _, r := range m.UIDs {
			for i := range r.Count {
				if id := r.Outside + i; id >= tc.count || seen[id] {
					t.Fatalf("%s: id %d outside is mapped twice, or not there", tc.name, id)
				}
				seen[r.Outside+i] = true
			}
		}
		if len(seen) != int(tc.count) {
			t.Errorf("%s: %d of %d ids are mapped", tc.name, len(seen), tc.count)
		}
		if got, err := m.Outside(UserIDs{UID: tc.uid, GID: tc.uid, Home: "/x"}); err != nil || got.UID != 0 || got.GID != 0 || got.Home != "/x" {
			t.Errorf("%s: the user is %+v outside, %v, want 0", tc.name, got, err)
		}
		if _, err := m.Outside(UserIDs{UID: 1 << 31}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: an unmapped id: %v, want fault.Invalid", tc.name, err)
		}
		checkOwners(t, tc.name, m, tc.count)
	}
}

// checkOwners looks at the owners of files in both directions.
func checkOwners(t *testing.T, name string, m IDMap, count uint32) {
	t.Helper()
	for id := range count {
		uid, gid := m.Inside(id, id)
		if back, group := m.Owner(int(uid), int(gid)); back != int(id) || group != int(id) {
			t.Fatalf("%s: owner %d of the engine is %d:%d inside, which is %d:%d again", name, id, uid, gid, back, group)
		}
	}
	if uid, gid := m.Inside(count, 1<<31); uid != 65534 || gid != 65534 {
		t.Errorf("%s: ids that the engine does not have are %d:%d inside, want 65534", name, uid, gid)
	}
	root, err := m.Outside(UserIDs{})
	if err != nil {
		root = UserIDs{} // only the user exists
	}
	for _, id := range []int{-1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40} {
		if uid, gid := m.Owner(id, id); uid != int(root.UID) || gid != int(root.GID) {
			t.Errorf("%s: owner %d inside is %d:%d to the engine, want its root %d:%d", name, id, uid, gid, root.UID, root.GID)
		}
	}
}

func TestKeptIDs(t *testing.T) {
	me := UserIDs{UID: 1000, GID: 1001, Home: "/x"}
	for mode, want := range map[string]UserIDs{
		"keep-id": me, "keep-id:uid=5": {UID: 5, GID: 1001, Home: "/x"}, "keep-id:gid=6": {UID: 1000, GID: 6, Home: "/x"},
		"keep-id:uid=5,gid=6": {UID: 5, GID: 6, Home: "/x"}, "keep-id:gid=4294967294,uid=0": {UID: 0, GID: 1<<32 - 2, Home: "/x"},
	} {
		host := HostConfig{UsernsMode: mode}
		if got, err := host.KeptIDs(me); err != nil || got.UID != want.UID || got.GID != want.GID || got.Home != want.Home || !host.KeepsID() {
			t.Errorf("%s: %+v, %v, want %+v", mode, got, err, want)
		}
	}
	for _, mode := range []string{
		"keep-id:", "keep-id:uid", "keep-id:uid=", "keep-id:uid=-1", "keep-id:uid=4294967295", "keep-id:uid=x", "keep-id:uid=1,uid=2", "keep-id:uid=1,",
		"keep-id:size=5", "keep-id:uid=1;gid=2",
	} {
		host := HostConfig{UsernsMode: mode}
		if got, err := host.KeptIDs(me); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %+v, %v, want fault.Invalid", mode, got, err)
		}
	}
	if (&HostConfig{UsernsMode: "keep-idx"}).KeepsID() {
		t.Error("keep-idx keeps ids")
	}
	own := KeepID(1000, 1001, 20, 30)
	if got, want := own.Moved(UserIDs{UID: 3, GID: 40}), KeepID(3, 40, 20, 30); !slices.Equal(got.UIDs, want.UIDs) || !slices.Equal(got.GIDs, want.GIDs) {
		t.Errorf("moved: %+v, want %+v", got, want)
	}
}
