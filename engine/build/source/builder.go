package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"
	"time"

	"moss/engine/fault"
	"moss/engine/tarfile"
	trees "moss/engine/tree"
)

// What a tree may hold, unless Options say otherwise.
const (
	maxEntries = 1_000_000
	maxText    = 64 << 20 // bytes of names, links and attributes together
	maxXattr   = 64 << 10 // bytes of a value: the kernel's bound
)

// builder fills a tree.
type builder struct {
	tree    *Tree
	spool   *spool
	limit   int           // entries
	budget  *trees.Budget // of entries made so far, also those that were replaced
	text    int           // bytes of names, links and attributes so far
	numbers uint64
	folders []*folder

	last       string // the folder that the last entry went to, and what it is; links may lead there
	lastFolder *folder
}

// newBuilder begins a tree. Its finish or abandon ends it.
func newBuilder(ctx context.Context, opt Options) (*builder, error) {
	spool, err := newSpool(ctx, opt)
	if err != nil {
		return nil, err
	}
	b := &builder{tree: &Tree{}, spool: spool, limit: opt.MaxEntries}
	if b.limit <= 0 {
		b.limit = maxEntries
	}
	b.budget = trees.NewBudget(trees.Limits{Whole: "the build context", Entries: int64(b.limit), Free: opt.FreeOut})
	b.tree.root = b.newFolder()
	return b, nil
}

// finishTree returns the tree.
func (b *builder) finishTree() (*Tree, error) {
	for _, f := range b.folders {
		f.sortChildren()
	}
	file, err := b.spool.finishFile()
	if err != nil {
		return nil, err
	}
	b.tree.content, b.tree.file = file, file
	b.tree.entries, b.tree.bytes = b.tree.root.countBelow()
	return b.tree, nil
}

// abandonTree throws everything away.
func (b *builder) abandonTree() { b.spool.abandonFile() }

// newFolder returns an empty folder as those are that no entry describes: of root, and as old as can be.
func (b *builder) newFolder() *inode {
	n := &inode{mode: fs.ModeDir | 0o755, kids: &folder{}}
	b.folders = append(b.folders, n.kids)
	return n
}

// setOwnerAndTime sets an inode's owner and time. Impossible ids become root's.
func (n *inode) setOwnerAndTime(uid, gid int, at time.Time) {
	n.uid, n.gid = idOrRoot(uid), idOrRoot(gid)
	n.sec, n.nsec = at.Unix(), uint32(at.Nanosecond())
}

// idOrRoot returns an id, root's for one that is impossible.
func idOrRoot(id int) uint32 {
	if id < 0 || id >= math.MaxUint32 {
		return 0
	}
	return uint32(id)
}

// chargeText counts bytes of names, links and attributes, and fails beyond maxText.
func (b *builder) chargeText(text int) error {
	if b.text += text; b.text > maxText {
		return fault.Invalid("the names and links of the build context have more than %d bytes", maxText)
	}
	return nil
}

// makeParent returns the folder of an entry. Folders on the way that no entry has told of are made; links are followed inside
// the tree.
func (b *builder) makeParent(name string) (*folder, error) {
	dir := path.Dir(name)
	if b.lastFolder != nil && dir == b.last {
		return b.lastFolder, nil
	}
	at := b.tree.root
	for rest, done := dir, 0; rest != "." && rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		next := at.kids.findInode(part)
		if next == nil {
			if err := errors.Join(b.budget.Folder(), b.chargeText(len(part))); err != nil {
				return nil, err
			}
			next = b.newFolder()
			at.kids.addInode(strings.Clone(part), next)
		}
		done += len(part)
		if next.mode&fs.ModeSymlink != 0 {
			var err error
			if next, err = b.followLink(dir[:done], name); err != nil {
				return nil, err
			}
		}
		if next.kids == nil {
			return nil, fault.Invalid("entry %.64q is in %.64q, which is not a folder", name, dir[:done])
		}
		done++ // the slash
		at = next
	}
	b.last, b.lastFolder = dir, at.kids
	return at.kids, nil
}

// followLink follows a link on the way of an entry. What is behind it counts as deep as it really is.
func (b *builder) followLink(link, name string) (*inode, error) {
	to, node, err := b.tree.walkPath(link, true, b.budget.Step)
	if err != nil {
		return nil, fault.Invalid("entry %.64q goes through a link: %w", name, err)
	}
	if rest := name[len(link):]; len(to)+len(rest) > tarfile.MaxName ||
		strings.Count(to, "/")+strings.Count(rest, "/") > tarfile.MaxDepth {
		return nil, fault.Invalid("entry %.64q goes through a link to where it is too deep", name)
	}
	return node, nil
}

// putNode gives an inode a name. The inode that had it before is replaced, unless both are folders: then the old one is kept
// and described anew.
func (b *builder) putNode(name string, node *inode) error {
	if name == "." {
		return b.putRoot(node)
	}
	in, err := b.makeParent(name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	i := in.indexOf(base)
	if i < 0 {
		if err := errors.Join(b.budget.Entry(), b.chargeText(len(base))); err != nil {
			return err
		}
		b.initFolder(node)
		in.addInode(strings.Clone(base), node)
		return nil
	}
	old := in.children[i].node
	if old.kids != nil && node.mode.IsDir() {
		node.kids = old.kids
		*old = *node
		return nil
	}
	b.initFolder(node)
	in.children[i].node = node
	b.lastFolder = nil // it may have been reached through what is replaced
	return nil
}

// initFolder gives an inode that is a folder its list of names, unless it has one.
func (b *builder) initFolder(node *inode) {
	if node.mode.IsDir() && node.kids == nil {
		node.kids = &folder{}
		b.folders = append(b.folders, node.kids)
	}
}

func (b *builder) putRoot(node *inode) error {
	if !node.mode.IsDir() {
		return fault.Invalid("an entry would take the place of the whole build context")
	}
	node.kids = b.tree.root.kids
	*b.tree.root = *node
	return nil
}

// addLink gives the inode with the name target one more name. A symbolic link is linked itself and never followed.
func (b *builder) addLink(name, target string) error {
	if name == target {
		return nil
	}
	_, node, err := b.tree.walkPath(target, false, b.budget.Step)
	if err != nil {
		return fault.Invalid("entry %.64q cannot be a link to %.64q: %w", name, target, err)
	}
	if node.kids != nil {
		return fault.Invalid("entry %q cannot be a link to %q, which is a folder", name, target)
	}
	if node.mode.IsRegular() && (node.more == nil || node.more.number == 0) {
		b.numbers++
		node.ensureMore().number = b.numbers
	}
	return b.putNode(name, node)
}

// readContent reads the content of a regular file from src. Zeros become holes of the spool if sparse is set.
func (b *builder) readContent(node *inode, src io.Reader, sparse bool) error {
	b.spool.beginFile(node)
	for {
		space, err := b.spool.nextBuffer()
		if err != nil {
			return err
		}
		n, err := src.Read(space)
		node.size += int64(n)
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		if sparse && n > 0 && allZero(space[:n]) {
			if err := b.spool.addHole(node, int64(n)); err != nil {
				return err
			}
			n = 0
			if !ended {
				continue
			}
			if _, err := b.spool.nextBuffer(); err != nil {
				return err
			}
		}
		b.spool.commitBytes(node, n, ended)
		if ended {
			return nil
		}
	}
}

func allZero(p []byte) bool {
	for len(p) >= 8 {
		if p[0]|p[1]|p[2]|p[3]|p[4]|p[5]|p[6]|p[7] != 0 {
			return false
		}
		p = p[8:]
	}
	for _, c := range p {
		if c != 0 {
			return false
		}
	}
	return true
}
