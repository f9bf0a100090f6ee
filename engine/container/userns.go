package container

import (
	"math"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// usernsKeepID is the UsernsMode of a container in whose own user namespace the user has the same numbers as outside, so
// that files on bind mounts belong to them. It is an extension of the API. Behind a colon may stand other numbers, for images
// whose programs run as one user of theirs: keep-id:uid=UID,gid=GID.
const usernsKeepID = "keep-id"

// overflowID is what the kernel shows of an owner who does not exist in a user namespace.
const overflowID = 65534

// KeepsID reports whether the container has a user namespace of its own, mapped by an IDMap.
func (h *HostConfig) KeepsID() bool {
	return h.UsernsMode == usernsKeepID || strings.HasPrefix(h.UsernsMode, usernsKeepID+":")
}

// KeptIDs returns whom the user is in a container that keeps ids: the numbers of UsernsMode or, where it names none, the user's
// own. fault.Invalid if the mode cannot be read.
func (h *HostConfig) KeptIDs(user UserIDs) (UserIDs, error) {
	_, options, given := strings.Cut(h.UsernsMode, ":")
	if !given {
		return user, nil
	}
	seen := map[string]bool{}
	for option := range strings.SplitSeq(options, ",") {
		key, text, _ := strings.Cut(option, "=")
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil || id == math.MaxUint32 || seen[key] || key != "uid" && key != "gid" {
			return user, fault.Invalid("invalid UsernsMode %q: expected keep-id:uid=UID,gid=GID, one of them or both", h.UsernsMode)
		}
		seen[key] = true
		if key == "uid" {
			user.UID = uint32(id)
		} else {
			user.GID = uint32(id)
		}
	}
	return user, nil
}

// IDRange maps Count ids: Inside the container is Outside to the engine.
type IDRange struct{ Inside, Outside, Count uint32 }

// IDMap are the ids of a container's own user namespace. The zero value means that there can be none.
type IDMap struct{ UIDs, GIDs []IDRange }

// KeepID makes the map in which the engine's root, which is the user, is uid and gid inside, and every other id what it
// would be but for that. uids and gids are how many ids the engine has.
func KeepID(uid, gid, uids, gids uint32) IDMap {
	return IDMap{UIDs: keepID(uid, uids), GIDs: keepID(gid, gids)}
}

func keepID(id, count uint32) []IDRange {
	var ranges []IDRange
	if below := min(id, count-1); below > 0 {
		ranges = append(ranges, IDRange{Inside: 0, Outside: 1, Count: below})
	}
	ranges = append(ranges, IDRange{Inside: id, Outside: 0, Count: 1})
	if id+1 < count {
		ranges = append(ranges, IDRange{Inside: id + 1, Outside: id + 1, Count: count - id - 1})
	}
	return ranges
}

// Moved returns the map of as many ids in which the engine's root is another user inside.
func (m *IDMap) Moved(user UserIDs) IDMap {
	return KeepID(user.UID, user.GID, countOf(m.UIDs), countOf(m.GIDs))
}

func countOf(ranges []IDRange) uint32 {
	var count uint32
	for _, r := range ranges {
		count += r.Count
	}
	return count
}

// Single reports whether only one user exists inside. Then all files are theirs, whatever the image says.
func (m *IDMap) Single() bool { return len(m.UIDs) == 1 }

// Outside returns what a user of the container is to the engine. One that is not mapped is fault.Invalid.
func (m *IDMap) Outside(ids UserIDs) (UserIDs, error) {
	uid, known := toOutside(m.UIDs, ids.UID)
	gid, knownGroup := toOutside(m.GIDs, ids.GID)
	if !known || !knownGroup {
		return ids, fault.Invalid("user %d:%d does not exist in the container's user namespace", ids.UID, ids.GID)
	}
	ids.UID, ids.GID = uid, gid
	return ids, nil
}

// Owner returns what a file's owner inside is to the engine. One that does not exist inside is the root of there or, where
// only the user exists, the user.
func (m *IDMap) Owner(uid, gid int) (engineUID, engineGID int) {
	return outsideOwner(m.UIDs, uid), outsideOwner(m.GIDs, gid)
}

// Inside returns what a file's owner to the engine is inside.
func (m *IDMap) Inside(engineUID, engineGID uint32) (uid, gid uint32) {
	return toInside(m.UIDs, engineUID), toInside(m.GIDs, engineGID)
}

// outsideOwner returns whom an owner inside is outside; one that does not exist inside is the root of there.
func outsideOwner(ranges []IDRange, id int) int {
	if id >= 0 && id < math.MaxUint32 {
		if found, known := toOutside(ranges, uint32(id)); known {
			return int(found)
		}
	}
	root, _ := toOutside(ranges, 0) // without one it is the engine's, which is the user
	return int(root)
}

func toInside(ranges []IDRange, id uint32) uint32 {
	for _, r := range ranges {
		if id >= r.Outside && id-r.Outside < r.Count {
			return r.Inside + id - r.Outside
		}
	}
	return overflowID
}

func toOutside(ranges []IDRange, id uint32) (uint32, bool) {
	for _, r := range ranges {
		if id >= r.Inside && id-r.Inside < r.Count {
			return r.Outside + id - r.Inside, true
		}
	}
	return 0, false
}
