package container

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// User names the user and group of a process. What looks like a number is a number and never looked up as a name.
type User struct {
	Name  string // empty: root; a name or a decimal uid
	Group string // empty: the user's own group; a name or a decimal gid
}

// UserIDs are a resolved user.
type UserIDs struct {
	UID        uint32
	GID        uint32
	Additional []uint32 // supplementary groups, sorted, without GID
	Home       string   // from the passwd file; "/" when it has no entry
}

// Bounds on what is read of a container's passwd and group files, which are the container's to write.
const (
	maxAccountFile  = 1 << 20 // bytes
	maxAccountLine  = 1 << 16 // bytes; longer lines are skipped
	maxAccountLines = 65536
)

// ParseUser splits "user", "user:group", ":group" and "uid:gid". fault.Invalid for characters no account has, and for
// numbers that are not a uint32 below the reserved 4294967295.
func ParseUser(s string) (User, error) {
	name, group, hasGroup := strings.Cut(s, ":")
	if strings.ContainsFunc(s, func(r rune) bool { return r != ':' && notInAccount(r) }) ||
		strings.Contains(group, ":") || hasGroup && group == "" && name == "" {
		return User{}, fault.Invalid("invalid User %q, expected user[:group]", s)
	}
	for _, part := range []string{name, group} {
		if _, _, err := parseID(part); err != nil {
			return User{}, fault.Invalid("invalid User %q: %s is not from 0 to 4294967294", s, part)
		}
	}
	return User{Name: name, Group: group}, nil
}

// notInAccount reports characters that cannot be part of an account's name.
func notInAccount(r rune) bool {
	return r <= ' ' || r == 0x7f || r == ':' || r == '/' || r == 0xfffd
}

// parseID tells a number from a name. A string of digits that is out of range is an error, not a name.
func parseID(s string) (id uint32, numeric bool, err error) {
	digits := strings.TrimLeft(s, "+-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 1<<32-1 {
		return 0, true, fault.Invalid("%s is not a user or group id", s)
	}
	return uint32(n), true, nil
}

// ResolveUser turns user ("user[:group]", empty for root) and additional groups into numbers by the content of the
// container's passwd and group files, either of which may be missing. A name without an entry is fault.Invalid.
// Supplementary groups of the group file count only when user names no group of its own.
func ResolveUser(user string, groups []string, passwd, group []byte) (UserIDs, error) {
	u, err := ParseUser(user)
	if err != nil {
		return UserIDs{}, err
	}
	ids, login, err := lookupUser(u.Name, passwd)
	if err != nil {
		return UserIDs{}, err
	}
	groupLines := accountLines(group)
	if u.Group != "" {
		if ids.GID, err = lookupGroup(u.Group, groupLines); err != nil {
			return UserIDs{}, err
		}
	} else if login != "" {
		ids.Additional = memberOf(login, groupLines)
	}
	for _, g := range groups {
		gid, err := lookupGroup(g, groupLines)
		if err != nil {
			return UserIDs{}, err
		}
		ids.Additional = append(ids.Additional, gid)
	}
	slices.Sort(ids.Additional)
	ids.Additional = slices.Compact(ids.Additional)
	ids.Additional = slices.DeleteFunc(ids.Additional, func(gid uint32) bool { return gid == ids.GID })
	return ids, nil
}

// lookupUser finds the user's numbers, home and login name. Numeric users need no entry.
func lookupUser(name string, passwd []byte) (ids UserIDs, login string, err error) {
	if name == "" {
		name = "0"
	}
	uid, numeric, err := parseID(name)
	if err != nil {
		return UserIDs{}, "", err
	}
	for _, line := range accountLines(passwd) {
		fields := strings.Split(line, ":")
		if len(fields) < 6 {
			continue
		}
		entry, ok := numericID(fields[2])
		gid, gidOK := numericID(fields[3])
		if !ok || !gidOK || numeric && entry != uid || !numeric && fields[0] != name {
			continue
		}
		return UserIDs{UID: entry, GID: gid, Home: homeOf(fields[5])}, fields[0], nil
	}
	if !numeric {
		return UserIDs{}, "", fault.Invalid("unable to find user %s: no matching entries in passwd file", name)
	}
	return UserIDs{UID: uid, Home: "/"}, "", nil
}

// homeOf keeps only what can be a home folder.
func homeOf(s string) string {
	if !strings.HasPrefix(s, "/") || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "/"
	}
	return s
}

func numericID(s string) (uint32, bool) {
	id, numeric, err := parseID(s)
	return id, numeric && err == nil
}

func lookupGroup(name string, lines []string) (uint32, error) {
	gid, numeric, err := parseID(name)
	if err != nil || numeric {
		return gid, err
	}
	for _, line := range lines {
		fields := strings.Split(line, ":")
		if len(fields) < 3 || fields[0] != name {
			continue
		}
		if gid, ok := numericID(fields[2]); ok {
			return gid, nil
		}
	}
	return 0, fault.Invalid("unable to find group %s: no matching entries in group file", name)
}

// memberOf lists the groups that name login as a member.
func memberOf(login string, lines []string) []uint32 {
	const mostGroups = 65536 // the kernel's NGROUPS_MAX
	var gids []uint32
	for _, line := range lines {
		fields := strings.Split(line, ":")
		if len(fields) < 4 || len(gids) == mostGroups {
			continue
		}
		if gid, ok := numericID(fields[2]); ok && slices.Contains(strings.Split(fields[3], ","), login) {
			gids = append(gids, gid)
		}
	}
	return gids
}

// accountLines splits a passwd or group file within the bounds above; comments and whatever lies beyond are left out.
func accountLines(content []byte) []string {
	content = content[:min(len(content), maxAccountFile)]
	var lines []string
	for line := range bytes.Lines(content) {
		if len(lines) == maxAccountLines {
			break
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 || len(line) > maxAccountLine || line[0] == '#' || bytes.IndexByte(line, 0) >= 0 {
			continue
		}
		lines = append(lines, string(line))
	}
	return lines
}
