package container

import (
	"fmt"
	"strings"
)

// PasswdEntry returns the line that gives a user an account in a passwd file, and its home, which is below /home if ids has
// none; both are empty if the file has a line for that number. The password is none, rather than one in a shadow file that
// has no entry: sudo and login would refuse that. The name gets the number as its end if it is another account's.
func PasswdEntry(passwd []byte, name string, ids UserIDs) (entry, home string) {
	if name = freeName(passwd, name, ids.UID); name == "" {
		return "", ""
	}
	if home = ids.Home; home == "" || strings.ContainsAny(home, ":\n") {
		home = "/home/" + name
	}
	return fmt.Sprintf("%s:*:%d:%d:%s:%s:/bin/sh", name, ids.UID, ids.GID, name, home), home
}

// GroupEntry does for a group file what PasswdEntry does for passwd.
func GroupEntry(group []byte, name string, gid uint32) string {
	if name = freeName(group, name, gid); name == "" {
		return ""
	}
	return fmt.Sprintf("%s:*:%d:", name, gid)
}

// freeName returns the name under which a number can be entered; empty if it has an entry.
func freeName(file []byte, name string, id uint32) string {
	valid := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if name == "" || strings.TrimFunc(name, valid) != "" || strings.ContainsRune("-.0123456789", rune(name[0])) {
		name = "user"
	}
	taken := false
	for _, line := range accountLines(file) {
		fields := strings.Split(line, ":")
		if len(fields) < 3 {
			continue
		}
		if entry, ok := numericID(fields[2]); ok && entry == id {
			return ""
		}
		taken = taken || fields[0] == name
	}
	if taken {
		name = fmt.Sprintf("%s%d", name, id)
	}
	return name
}
