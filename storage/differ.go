package storage

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	graphdriver "go.podman.io/storage/drivers"
	"go.podman.io/storage/pkg/archive"
	"go.podman.io/storage/pkg/idtools"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/thread"
)

// StagingThreads is how many goroutines of Stage want a processor at the same time.
const StagingThreads = 4

// unpacker unpacks one plain archive into the folder that the library's driver gives it. The driver's own way needs the
// layer below, writes through a helper process and hashes in turn with it.
type unpacker struct {
	src      *watched
	singleID bool
	open     bool // root is held to the modes of files
	owners   owners
	blob     Blob
	sum      *summary // what was learnt; set by ApplyDiff
}

// Close has nothing to end.
func (u *unpacker) Close() error { return nil }

// ApplyDiff unpacks the archive into dest. Three readers share it: one writes the files, on a thread that sees nothing but
// dest; one packs what the files do not hold; one hashes. The source is read on a thread of its own too: what decompresses
// it takes half of the time.
func (u *unpacker) ApplyDiff(dest string, options *archive.TarOptions,
	differ *graphdriver.DifferOptions,
) (graphdriver.DriverWithDifferOutput, error) {
	var out graphdriver.DriverWithDifferOutput
	headers, err := newUnnamedFile(differ.StagingDirectory)
	if err != nil {
		return out, err
	}
	sum, diffID, size, err := u.unpackAndHash(dest, options, headers)
	if err == nil {
		err = u.finishRoot(dest, sum)
	}
	if err != nil {
		headers.Close() //nolint:errcheck // it is of no use
		return out, err
	}
	u.sum = sum
	out.TarSplit = headers
	out.Size = size
	out.UncompressedDigest, out.CompressedDigest = diffID, u.blob.Digest
	out.UIDs, out.GIDs = sortedIDs(sum.uids), sortedIDs(sum.gids)
	if sum.root != nil {
		mode := sum.root.FileInfo().Mode()
		out.RootDirMode = &mode // the driver leaves it as it is then
	}
	return out, nil
}

// unpackAndHash reads the source once: it unpacks it into dest, packs its headers and hashes it.
func (u *unpacker) unpackAndHash(dest string, options *archive.TarOptions, headers *os.File) (*summary, digest.Digest,
	int64, error,
) {
	f := newFeed(3)
	hash := sha256.New()
	var sum *summary
	var done sync.WaitGroup
	work := func(r *feedReader, use func(io.Reader) error) {
		done.Go(func() {
			err := use(r)
			if err == nil {
				_, err = r.WriteTo(io.Discard) // the end mark, padding
			}
			if err != nil {
				f.fail(err)
			}
		})
	}
	work(f.readers[0], func(r io.Reader) error {
		return thread.Heavy(func() error { return u.unpackInChroot(r, dest, *options) })
	})
	work(f.readers[1], func(r io.Reader) (err error) {
		w := bufio.NewWriterSize(headers, headersBuffer)
		if sum, err = packHeaders(r, w); err != nil {
			return err
		}
		return w.Flush()
	})
	work(f.readers[2], func(r io.Reader) error { _, err := io.Copy(hash, r); return err })
	var size int64
	err := thread.Heavy(func() (err error) { size, err = f.shareSource(u.src); return err })
	done.Wait()
	if u.src.err != nil {
		return nil, "", 0, u.src.err
	}
	if err = f.failureOr(err); err != nil {
		return nil, "", 0, err
	}
	return sum, digest.NewDigest(digest.SHA256, hash), size, nil
}

// unpackInChroot runs on a thread of its own. The library's code follows links by path: the kernel keeps it inside dest.
func (u *unpacker) unpackInChroot(r io.Reader, dest string, options archive.TarOptions) error {
	_, _ = time.Now().Zone() // a warning of the library would look for /etc/localtime, which must not be the layer's
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the root folder: %w", err)
	}
	if err := unix.Chroot(dest); err != nil {
		return fmt.Errorf("change the root folder: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("change the root folder: %w", err)
	}
	unix.Umask(0)
	if u.open {
		if err := os.Chmod("/", 0o700); err != nil {
			return fmt.Errorf("open the folder of the layer: %w", err)
		}
	}
	options.InUserNS = true
	if u.singleID {
		// With one id everything belongs to it. Trying the owners first, as the driver's option has it, costs a call and a
		// line on stderr for each file, and fails for whiteouts.
		options.ChownOpts = &idtools.IDPair{}
	}
	if u.open || u.owners.areBounded() {
		var stop func()
		r, stop = rewriteArchive(r, u.adaptHeader)
		defer stop()
	}
	err := archive.Unpack(r, "/", &options)
	if err == nil || errors.Is(err, errStopped) {
		return err
	}
	return badArchive(err)
}

// badArchive gives errors of the unpacker that the archive is to blame for their kind.
func badArchive(err error) error {
	for _, cause := range []error{unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if errors.Is(err, cause) {
			return err
		}
	}
	if errors.Is(err, unix.EINVAL) && strings.Contains(err.Error(), "insufficient UIDs") {
		return fault.Invalid("the layer has files of users or groups beyond those that the user's sub-ids reach: %w", pathErrorOf(err))
	}
	return fault.Invalid("the layer's archive cannot be unpacked: %w", err)
}

// pathErrorOf returns the first path error in the chain, whose words name no other engine's tools.
func pathErrorOf(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return at
	}
	return err
}

// adaptHeader makes an entry what the store can hold of it.
func (u *unpacker) adaptHeader(h *tar.Header) {
	u.owners.adaptOwner(h)
	if u.open {
		openToRoot(h)
	}
}

// finishRoot gives the layer's root folder what the archive says of it; the unpacker leaves that out. Without an entry for
// it, it is like any folder; the driver copies the mode of the layer below, if there is one.
func (u *unpacker) finishRoot(dest string, sum *summary) error {
	h := sum.root
	if h == nil {
		return wrapError(os.Chmod(dest, 0o755), "unpack layer")
	}
	u.adaptHeader(h)
	if !u.singleID {
		if err := os.Lchown(dest, h.Uid, h.Gid); err != nil {
			return badArchive(err)
		}
	}
	mode := h.FileInfo().Mode()
	if err := os.Chmod(dest, mode.Perm()|mode&(os.ModeSetuid|os.ModeSetgid|os.ModeSticky)); err != nil {
		return wrapError(err, "unpack layer")
	}
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, archive.PaxSchilyXattr)
		if !ok || name == "security.selinux" {
			continue
		}
		err := unix.Lsetxattr(dest, name, []byte(value), 0)
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EPERM) {
			return badArchive(fmt.Errorf("set %s: %w", name, err))
		}
	}
	stamp := h.ModTime
	if stamp.Before(time.Unix(0, 0)) {
		stamp = time.Unix(0, 0)
	}
	return wrapError(os.Chtimes(dest, stamp, stamp), "unpack layer")
}
