package container

import (
	"reflect"
	"strings"
	"testing"

	"moss/engine/fault"
)

const (
	passwdFile = "# accounts\nroot:x:0:0:root:/root:/bin/sh\nweb:x:1000:100:Web:/srv/web:/bin/sh\n" +
		"1001:x:5:5:a name of digits:/trap:/bin/sh\nbroken\nbad:x:notanumber:1:::\nhuge:x:4294967295:1::/:/\nodd:x:7:7::relative:/\n"
	groupFile = "root:x:0:\nadm:x:4:web,root\nvideo:x:44:web\nusers:x:100:\n1002:x:9:\nbroken\n"
)

func TestResolveUser(t *testing.T) {
	for _, tc := range []struct {
		user   string
		groups []string
		want   UserIDs
	}{
		{"", nil, UserIDs{0, 0, []uint32{4}, "/root"}},
		{"root", nil, UserIDs{0, 0, []uint32{4}, "/root"}},
		{"web", nil, UserIDs{1000, 100, []uint32{4, 44}, "/srv/web"}},
		{"1000", nil, UserIDs{1000, 100, []uint32{4, 44}, "/srv/web"}},
		{"web:video", nil, UserIDs{1000, 44, nil, "/srv/web"}},
		{"web:0", nil, UserIDs{1000, 0, nil, "/srv/web"}},
		{"1001", nil, UserIDs{1001, 0, nil, "/"}}, // a number, never the name 1001
		{"1001:1002", nil, UserIDs{1001, 1002, nil, "/"}},
		{":video", nil, UserIDs{0, 44, nil, "/root"}},
		{"web", []string{"users", "root", "9", "44"}, UserIDs{1000, 100, []uint32{0, 4, 9, 44}, "/srv/web"}},
		{"4294967294", nil, UserIDs{4294967294, 0, nil, "/"}},
		{"odd", nil, UserIDs{7, 7, nil, "/"}},
	} {
		got, err := ResolveUser(tc.user, tc.groups, []byte(passwdFile), []byte(groupFile))
		if err != nil || got.UID != tc.want.UID || got.GID != tc.want.GID || got.Home != tc.want.Home ||
			len(got.Additional)+len(tc.want.Additional) > 0 && !reflect.DeepEqual(got.Additional, tc.want.Additional) {
			t.Errorf("ResolveUser(%q, %v) = %+v, %v, want %+v", tc.user, tc.groups, got, err, tc.want)
		}
	}
}

func TestResolveUserRefusals(t *testing.T) {
	for _, tc := range []struct {
		user   string
		groups []string
		want   string
	}{
		{"nobody", nil, "unable to find user nobody: no matching entries in passwd file"},
		{"bad", nil, "unable to find user bad: no matching entries in passwd file"},
		{"huge", nil, "unable to find user huge: no matching entries in passwd file"},
		{"web:nogroup", nil, "unable to find group nogroup: no matching entries in group file"},
		{"web", []string{"nogroup"}, "unable to find group nogroup: no matching entries in group file"},
		{"4294967295", nil, "4294967295 is not from 0 to"},
		{"4294967296", nil, "4294967296 is not from 0 to"},
		{"-1", nil, "-1 is not from 0 to"},
		{"0:99999999999999999999", nil, "99999999999999999999 is not from 0 to"},
		{"a:b:c", nil, "expected user[:group]"},
		{"we b", nil, "expected user[:group]"},
		{"web\n", nil, "expected user[:group]"},
		{"../web", nil, "expected user[:group]"},
		{":", nil, "expected user[:group]"},
	} {
		_, err := ResolveUser(tc.user, tc.groups, []byte(passwdFile), []byte(groupFile))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ResolveUser(%q, %v) error = %v, want fault.Invalid with %q", tc.user, tc.groups, err, tc.want)
		}
	}
}

func TestAccountFilesAreBounded(t *testing.T) {
	long := "long:x:1:1:" + strings.Repeat("a", maxAccountLine) + ":/:/\n"
	if _, err := ResolveUser("long", nil, []byte(long), nil); err == nil {
		t.Error("a line beyond the bound was read")
	}
	many := strings.Repeat("a:x:1:1::/:\n", maxAccountLines) + "last:x:2:2::/:\n"
	if _, err := ResolveUser("last", nil, []byte(many), nil); err == nil {
		t.Error("a line after the last allowed one was read")
	}
	big := strings.Repeat("#\n", maxAccountFile/2) + "tail:x:3:3::/:\n"
	if _, err := ResolveUser("tail", nil, []byte(big), nil); err == nil {
		t.Error("a byte after the last allowed one was read")
	}
}

func FuzzResolveUser(f *testing.F) {
	f.Add("web", "video", passwdFile, groupFile)
	f.Add("1000:1000", "", "", "")
	f.Add(":", "0", "::::::", ":::")
	f.Fuzz(func(t *testing.T, user, group, passwd, groups string) {
		ids, err := ResolveUser(user, []string{group}, []byte(passwd), []byte(groups))
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("ResolveUser(%q) error %v is not fault.Invalid", user, err)
			}
			return
		}
		if ids.UID == 1<<32-1 || ids.GID == 1<<32-1 || !strings.HasPrefix(ids.Home, "/") {
			t.Errorf("ResolveUser(%q) = %+v", user, ids)
		}
	})
}
