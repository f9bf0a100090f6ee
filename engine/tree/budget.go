package tree

import (
	"moss/engine/fault"
	"moss/engine/tarfile"
)

// Limits say what one tree may cost whoever writes it. Zero fields take the defaults.
type Limits struct {
	Whole   string // what the tree is in the text of errors, such as "the build context"; empty: "the archive"
	Entries int64  // entries, folders included that none of them tells of; 0: a million
	Free    int64  // bytes that may come out of a compressed archive whatever went in; 0: 512 MiB
	Ratio   int64  // bytes that may come out for each that went in, beyond Free; 0: 500, real files reach ten
	Sparse  int64  // bytes that sparse entries may pretend to together; 0: 16 GiB. They are all read, if not written
}

const (
	// Each entry may imply so many folders, beside impliedFree: archives that name files alone imply three or four for each,
	// and the deepest of names all that it has. Without this bound an entry of 512 bytes, of which a compressed archive needs
	// ten, makes as many folders as a name has parts.
	impliedFree = 8 * tarfile.MaxDepth
	impliedEach = 16

	// MaxLinks is how many links one path may lead through, as the kernel has it.
	MaxLinks = 40

	// maxSteps is how many names may be looked up because of links. What a link says is looked up again for each entry that
	// goes through it, and may be 2,000 names and further links: a few hundred such entries kept an import busy for minutes.
	// Real archives hardly ever unpack through a link, and then it says two names.
	maxSteps = 1 << 20
)

// Budget is what one tree has cost so far. All who read or write the tree share one; they do so in turn. Its errors are
// fault.Invalid.
type Budget struct {
	limits  Limits
	entries int64 // told of
	implied int64 // folders that no entry told of when they were made
	steps   int64
	sparse  int64
}

// NewBudget returns a budget of which nothing is spent.
func NewBudget(limits Limits) *Budget {
	if limits.Whole == "" {
		limits.Whole = "the archive"
	}
	for _, field := range []struct {
		at     *int64
		unless int64
	}{{&limits.Entries, 1 << 20}, {&limits.Free, 512 << 20}, {&limits.Ratio, 500}, {&limits.Sparse, 16 << 30}} {
		if *field.at <= 0 {
			*field.at = field.unless
		}
	}
	return &Budget{limits: limits}
}

// Entry counts an entry.
func (b *Budget) Entry() error {
	b.entries++
	return b.checkCount()
}

// Folder counts a folder that is made because an entry is in it.
func (b *Budget) Folder() error {
	b.implied++
	if b.implied > impliedFree+impliedEach*b.entries {
		return fault.Invalid("the %d entries of %s are in more than %d folders that it does not list",
			b.entries, b.limits.Whole, b.implied-1)
	}
	return b.checkCount()
}

func (b *Budget) checkCount() error {
	if b.entries+b.implied > b.limits.Entries {
		return fault.Invalid("%s has more than %d entries", b.limits.Whole, b.limits.Entries)
	}
	return nil
}

// Step counts names that are looked up because of a link.
func (b *Budget) Step(names int) error {
	if b.steps += int64(names); b.steps > maxSteps {
		return fault.Invalid("the entries of %s lead through too many symbolic links", b.limits.Whole)
	}
	return nil
}

// Bytes compares what came out of a compressed archive with what went in.
func (b *Budget) Bytes(out, in int64) error {
	if out > b.limits.Free && (out-b.limits.Free)/b.limits.Ratio > in {
		return fault.Invalid("%s unpacks to more than %d times its size", b.limits.Whole, b.limits.Ratio)
	}
	return nil
}

// Sparse counts the bytes that a sparse entry pretends to.
func (b *Budget) Sparse(name string, size int64) error {
	if size > b.limits.Sparse-b.sparse {
		return fault.Invalid("sparse entry %.64q: the sparse entries pretend to more than %d bytes in all", name, b.limits.Sparse)
	}
	b.sparse += size
	return nil
}

// Depth bounds how deep a folder really is, whatever links led there.
func (b *Budget) Depth(depth int) error {
	if depth > tarfile.MaxDepth {
		return fault.Invalid("an entry of %s is more than %d folders deep", b.limits.Whole, tarfile.MaxDepth)
	}
	return nil
}

// Looped is the one wording for a path that leads through too many links.
func Looped(name string) error {
	return fault.Invalid("%.64q leads through more than %d symbolic links", name, MaxLinks)
}
