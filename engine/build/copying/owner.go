package copying

import (
	"context"
	"fmt"
	"io"

	"moss/engine/build/source"
	"moss/engine/container"
	"moss/engine/fault"
)

// owner is a --chown. The zero value leaves owners alone.
type owner struct {
	text string // as the instruction has it
	user container.User
}

// ids are whose a file is.
type ids struct{ uid, gid int }

// parseOwner reads user[:group]. fault.Invalid for what no account is called.
func parseOwner(s string) (owner, error) {
	if s == "" {
		return owner{}, nil
	}
	user, err := container.ParseUser(s)
	if err != nil {
		return owner{}, fault.Invalid("invalid chown parameter: %w", err)
	}
	return owner{text: s, user: user}, nil
}

// maxAccounts is how much is read of a file with accounts, in bytes.
const maxAccounts = 1 << 20

// resolveIDs returns the ids that the owner's names stand for in an image. A user that is a number is its own group too,
// unless another one is named. fault.Invalid for a name that is not there.
func (o owner) resolveIDs(ctx context.Context, base source.Source) (ids, error) {
	whose, err := o.findUser(ctx, base)
	if err != nil || o.user.Group == "" {
		return whose, err
	}
	found, err := container.ResolveUser("0:"+o.user.Group, nil, nil, nil)
	if err != nil { // it is a name
		group, err := readAccounts(ctx, base, "etc/group")
		if err != nil {
			return ids{}, err
		}
		if found, err = container.ResolveUser("0:"+o.user.Group, nil, nil, group); err != nil {
			return ids{}, fault.Invalid("unable to convert uid/gid chown string to host mapping: can't find gid for group %[1]s: no "+
				"such group: %[1]s", o.user.Group)
		}
	}
	whose.gid = int(found.GID)
	return whose, nil
}

// findUser returns whom the owner's user stands for, with the group of that user.
func (o owner) findUser(ctx context.Context, base source.Source) (ids, error) {
	if o.user.Name == "" {
		return ids{}, nil
	}
	if found, err := container.ResolveUser(o.user.Name, nil, nil, nil); err == nil { // it is a number
		return ids{int(found.UID), int(found.UID)}, nil
	}
	passwd, err := readAccounts(ctx, base, "etc/passwd")
	if err != nil {
		return ids{}, err
	}
	found, err := container.ResolveUser(o.user.Name, nil, passwd, nil)
	if err != nil {
		return ids{}, fault.Invalid("unable to convert uid/gid chown string to host mapping: can't find uid for user %[1]s: no "+
			"such user: %[1]s", o.user.Name)
	}
	return ids{int(found.UID), int(found.GID)}, nil
}

// orRoot returns whom the owner stands for, root for a name that is not there.
func (o owner) orRoot(ctx context.Context, base source.Source) (ids, error) {
	whose, err := o.resolveIDs(ctx, base)
	if fault.Is(err, fault.Invalid) {
		return ids{}, nil
	}
	return whose, err
}

// readAccounts reads the beginning of a file of an image that lists users or groups, nothing if there is none. Anything else in
// its place, a link too, is not read.
func readAccounts(ctx context.Context, base source.Source, name string) ([]byte, error) {
	if base == nil {
		return nil, nil
	}
	entry, err := base.Stat(ctx, name, false)
	if notThere(err) || fault.Is(err, fault.Invalid) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !entry.Mode.IsRegular() {
		return nil, nil
	}
	f, err := base.Open(ctx, entry)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(f, maxAccounts))
	if err != nil {
		return nil, fmt.Errorf("read /%s of the image: %w", name, err)
	}
	return content, nil
}
