package storage

import "archive/tar"

// owners says how many users and groups there are, from 0 on; the zero value does not bound them.
type owners struct{ uids, gids int }

// areBounded reports whether archives can have owners that there are not.
func (o owners) areBounded() bool { return o.uids > 0 }

// adaptOwner makes an entry one of the owners there are: of another it belongs to root, without the bits that mean his
// privileges, which would be root's.
func (o owners) adaptOwner(h *tar.Header) {
	if !o.areBounded() || h.Uid < o.uids && h.Gid < o.gids && h.Uid >= 0 && h.Gid >= 0 {
		return
	}
	const setUser, setGroup = 0o4000, 0o2000
	if h.Uid < 0 || h.Uid >= o.uids {
		h.Uid = 0
		h.Mode &^= setUser
		delete(h.PAXRecords, "SCHILY.xattr.security.capability")
	}
	if h.Gid < 0 || h.Gid >= o.gids {
		h.Gid = 0
		if h.Typeflag != tar.TypeDir { // on a folder it only says whose new files are
			h.Mode &^= setGroup
		}
	}
}
