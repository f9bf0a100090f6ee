package copying

import (
	"io/fs"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// Bits of a mode as Unix has them.
const (
	bitsUser, bitsGroup, bitsOther  = 0o700, 0o070, 0o007
	bitSetUID, bitSetGID, bitSticky = 0o4000, 0o2000, 0o1000
	bitsRead, bitsWrite, bitsExec   = 0o444, 0o222, 0o111
	bitsAll                         = bitSetUID | bitSetGID | 0o777
)

// chmod is a --chmod. The zero value changes nothing.
type chmod struct {
	text  string // as the instruction has it
	octal bool   // bits are all there is to it
	bits  uint32
	edits []edit
}

// edit is one change of a symbolic mode.
type edit struct {
	op   byte   // '+', '-', '=', or 'X': add what is for executing if the file has any of it, or is a folder
	who  uint32 // the bits that may change
	bits uint32
	from uint32 // for copies: whose bits are taken (bitsUser, bitsGroup, bitsOther); otherwise 0
}

// parseChmod reads an octal or symbolic mode (chmod(1), without a umask). fault.Invalid for what is neither.
func parseChmod(s string) (chmod, error) {
	if s == "" {
		return chmod{}, nil
	}
	c := chmod{text: s}
	if s[0] >= '0' && s[0] <= '9' {
		n, err := strconv.ParseUint(s, 8, 32)
		if err != nil || n > 0o7777 {
			return chmod{}, fault.Invalid("invalid chmod parameter: '%s'. it should be octal string and between 0 and 07777", s)
		}
		c.octal, c.bits = true, uint32(n)
		return c, nil
	}
	for clause := range strings.SplitSeq(s, ",") {
		edits, ok := parseClause(clause)
		if !ok {
			return chmod{}, fault.Invalid("invalid chmod parameter: '%s'. it should be an octal string or like u=rwX,go-w", s)
		}
		c.edits = append(c.edits, edits...)
	}
	return c, nil
}

// parseClause reads what stands between commas: who, then one operator or more, each with what it is about.
func parseClause(s string) ([]edit, bool) {
	who := uint32(0)
	for s != "" && strings.IndexByte("ugoa", s[0]) >= 0 {
		switch s[0] {
		case 'u':
			who |= bitSetUID | bitsUser
		case 'g':
			who |= bitSetGID | bitsGroup
		case 'o':
			who |= bitsOther
		case 'a':
			who |= bitsAll
		}
		s = s[1:]
	}
	if who == 0 {
		who = bitsAll
	}
	var edits []edit
	for s != "" {
		op := s[0]
		if strings.IndexByte("+-=", op) < 0 {
			return nil, false
		}
		n := 1
		for n < len(s) && strings.IndexByte("+-=", s[n]) < 0 {
			n++
		}
		more, ok := parsePerms(op, who, s[1:n])
		if !ok {
			return nil, false
		}
		edits, s = append(edits, more...), s[n:]
	}
	return edits, len(edits) > 0
}

// parsePerms reads what stands behind an operator.
func parsePerms(op byte, who uint32, s string) ([]edit, bool) {
	bits, exec := uint32(0), false
	var copies []edit
	for i := range len(s) {
		switch s[i] {
		case 'r':
			bits |= bitsRead
		case 'w':
			bits |= bitsWrite
		case 'x':
			bits |= bitsExec
		case 'X':
			if op == '-' {
				bits |= bitsExec
			} else {
				exec = true
			}
		case 's':
			bits |= bitSetUID | bitSetGID
		case 't':
			if who&^bitsOther != 0 {
				who |= bitSticky
				bits |= bitSticky
			}
		case 'u':
			copies = append(copies, edit{op: op, who: who, from: bitsUser})
		case 'g':
			copies = append(copies, edit{op: op, who: who, from: bitsGroup})
		case 'o':
			copies = append(copies, edit{op: op, who: who, from: bitsOther})
		default:
			return nil, false
		}
	}
	var edits []edit
	if bits != 0 || len(copies) == 0 && (op == '=' || !exec) {
		edits = append(edits, edit{op: op, who: who, bits: bits & who})
	}
	if exec {
		edits = append(edits, edit{op: 'X', who: who, bits: bitsExec & who})
	}
	return append(edits, copies...), true
}

// applyTo returns the mode that a file gets, as Unix has it. Links keep theirs.
func (c *chmod) applyTo(mode fs.FileMode) uint32 {
	old := unixMode(mode)
	if c.text == "" || mode&fs.ModeSymlink != 0 {
		return old
	}
	if c.octal {
		return c.bits
	}
	now := old
	for _, e := range c.edits {
		switch {
		case e.from != 0:
			now = e.copyBits(now)
		case e.op == '+':
			now |= e.bits
		case e.op == '-':
			now &^= e.bits
		case e.op == '=':
			now = now&^e.who | e.bits
		case e.op == 'X':
			if old&bitsExec != 0 || mode.IsDir() {
				now |= e.bits
			}
		}
	}
	return now
}

// copyBits returns a mode after the bits of one class were copied to others, or taken from them.
func (e edit) copyBits(now uint32) uint32 {
	class := now & e.from
	switch e.from {
	case bitsUser:
		class >>= 6
	case bitsGroup:
		class >>= 3
	}
	mask := e.who & 0o777
	spread := class * bitsExec & mask
	switch e.op {
	case '+':
		return now | spread
	case '-':
		return now &^ spread
	default:
		return now&^mask | spread
	}
}

// folderMode returns the mode of a folder that is made on the way to where files go.
func (c *chmod) folderMode() fs.FileMode {
	if c.octal {
		return fs.ModeDir | fs.FileMode(c.bits&0o777)
	}
	return fs.ModeDir | 0o755
}

// unixMode returns permissions, setuid, setgid and sticky bit as Unix has them.
func unixMode(mode fs.FileMode) uint32 {
	bits := uint32(mode.Perm())
	for _, b := range []struct {
		is   fs.FileMode
		unix uint32
	}{{fs.ModeSetuid, bitSetUID}, {fs.ModeSetgid, bitSetGID}, {fs.ModeSticky, bitSticky}} {
		if mode&b.is != 0 {
			bits |= b.unix
		}
	}
	return bits
}

// goMode is the way back.
func goMode(bits int64) fs.FileMode {
	mode := fs.FileMode(bits) & fs.ModePerm
	if bits&bitSetUID != 0 {
		mode |= fs.ModeSetuid
	}
	if bits&bitSetGID != 0 {
		mode |= fs.ModeSetgid
	}
	if bits&bitSticky != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}
