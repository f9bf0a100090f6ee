package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"moss/engine/container"
)

// idMapOf reads a map of ids of this process: what id 0 is outside, and how many ids there are in one piece from 0 on.
func idMapOf(path string) (outside, count uint32, ok bool) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, false
	}
	return parseIDMap(string(raw))
}

// parseIDMap reads lines of three numbers: the first id inside, the first outside, and how many.
func parseIDMap(text string) (outside, count uint32, ok bool) {
	for line := range strings.Lines(text) {
		var n [3]uint32
		fields := strings.Fields(line)
		if len(fields) != len(n) {
			return 0, 0, false
		}
		for i, field := range fields {
			v, err := strconv.ParseUint(field, 10, 32)
			if err != nil {
				return 0, 0, false
			}
			n[i] = uint32(v)
		}
		if n[0] != count { // a gap: what lies behind it is left out
			break
		}
		if count == 0 {
			outside = n[1]
		}
		count += n[2]
	}
	return outside, count, count > 0
}

// allIDs is how many ids images are used to: up to nobody's.
const allIDs = 65535

// fewIDs says how many users and groups this process's user namespace has, if there are several of them and fewer than images
// know; zero otherwise.
func fewIDs(uidMap, gidMap string) (uids, gids int) {
	_, users, okUser := idMapOf(uidMap)
	_, groups, okGroup := idMapOf(gidMap)
	if !okUser || !okGroup || users == 1 || min(users, groups) >= allIDs {
		return 0, 0
	}
	return int(users), int(groups)
}

// fewWarning tells what comes of few ids.
func fewWarning(uids, gids int) string {
	return fmt.Sprintf("Only %d users and %d groups: files of others in images are root's, and nothing runs as them; longer "+
		"ranges in /etc/subuid and "+
		"/etc/subgid, and a restart of mossd, give more", uids, gids)
}

// userIDs is the user as the machine knows it, and the map of ids in which containers know it by the same numbers. Without
// one (this process has no user namespace of its own) all is zero.
func userIDs() (user container.UserIDs, keep container.IDMap) {
	uid, uids, okUser := idMapOf("/proc/self/uid_map")
	gid, gids, okGroup := idMapOf("/proc/self/gid_map")
	if !okUser || !okGroup || uid == 0 {
		return user, keep
	}
	user = container.UserIDs{UID: uid, GID: gid}
	return user, container.KeepID(uid, gid, uids, gids)
}

// userName is the name of a user of the machine. Those that no file knows, of a directory service, have it in the
// environment.
func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
