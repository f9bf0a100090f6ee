package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/fault"
)

// containers opens views on containers' files. fault.NotFound if there is no such container.
type containers interface {
	// OpenFiles shows what the container sees, or would see if it ran: binds and volumes included.
	OpenFiles(ctx context.Context, ref string) (*container.Files, error)
	// OpenLayer shows the container's own file system alone.
	OpenLayer(ctx context.Context, ref string) (*container.Files, error)
}

// events is told what happened.
type events interface {
	Publish(e event.Event)
}

// Options is what a Service is made of. Both are needed.
type Options struct {
	Containers containers
	Events     events
	FreeOut    int64 // bytes that an archive may unpack to however small it is; 0: 512 MiB. Beyond them a ratio bounds it
}

// Service copies files into and out of containers. It holds no lock: the container goes on meanwhile, and so may its
// removal, which ends a copy with an error.
type Service struct{ opt Options }

// New returns the service.
func New(opt Options) *Service {
	return &Service{opt: opt}
}

// Stat describes a path of a container. A symbolic link at its end is described itself, with its target; with a "/" after
// it, what it leads to. fault.NotFound if there is no such container or path, fault.Invalid for a path that is none or is
// wrongly said to be a folder, and for files of proc, sysfs and their like, which are no data.
func (s *Service) Stat(ctx context.Context, ref, asked string) (Stat, error) {
	p, err := parsePlace(asked)
	if err != nil {
		return Stat{}, err
	}
	files, err := s.opt.Containers.OpenFiles(ctx, ref)
	if err != nil {
		return Stat{}, err
	}
	defer files.Close() //nolint:errcheck // what was asked for is known
	t := tree{root: files.Root, ref: ref}
	f, err := t.openPlace(p, false)
	if err != nil {
		return Stat{}, err
	}
	defer f.Close() //nolint:errcheck // only a handle
	if err := checkSource(p, f); err != nil {
		return Stat{}, err
	}
	return t.statOf(p, f)
}

// checkSource refuses what is no data.
func checkSource(p place, f *os.File) error {
	system, err := systemFS(int(f.Fd()))
	if err != nil {
		return fmt.Errorf("look at %s: %w", p.asked, err)
	}
	if system {
		return fault.Invalid("cannot copy %s: it is not data but a file of the system", p.asked)
	}
	return nil
}

// Open finds what is to be copied out of a container, and tells of it. Symbolic links are followed, also one at the end of
// the path; the entries are named after the path all the same. The caller closes the download. Errors are those of Stat.
func (s *Service) Open(ctx context.Context, ref, asked string) (*Download, error) {
	return s.openDownload(ctx, ref, asked, "archive-path")
}

// OpenCopy is Open for the endpoint that came before the archive ones.
func (s *Service) OpenCopy(ctx context.Context, ref, resource string) (*Download, error) {
	return s.openDownload(ctx, ref, resource, "copy")
}

// openDownload is Open with the action of the event that tells of it.
func (s *Service) openDownload(ctx context.Context, ref, asked, action string) (*Download, error) {
	p, err := parsePlace(asked)
	if err != nil {
		return nil, err
	}
	files, err := s.opt.Containers.OpenFiles(ctx, ref)
	if err != nil {
		return nil, err
	}
	d, err := s.newDownload(files, tree{root: files.Root, ref: ref}, p)
	if err == nil {
		s.publishEvent(action, files.Record)
	}
	return d, err
}

// OpenExport finds the whole of a container's own file system, without what is mounted over it, and tells of the export.
// The caller closes the download.
func (s *Service) OpenExport(ctx context.Context, ref string) (*Download, error) {
	files, err := s.opt.Containers.OpenLayer(ctx, ref)
	if err != nil {
		return nil, err
	}
	d, err := s.newDownload(files, tree{root: files.Root, ref: ref}, place{asked: "/", path: "/", name: "", folder: true})
	if err == nil {
		s.publishEvent("export", files.Record)
	}
	return d, err
}

// publishEvent publishes what was done with a container's files.
func (s *Service) publishEvent(action string, r *container.Record) {
	s.opt.Events.Publish(event.Event{
		Type: event.TypeContainer, Action: action, ID: r.ID, Attributes: r.EventAttributes(), Time: time.Now(),
	})
}

// newDownload opens what is to be copied out. It closes files on error.
func (s *Service) newDownload(files *container.Files, t tree, p place) (_ *Download, err error) {
	d := &Download{files: files, place: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.handle, err = t.openPlace(p, true); err != nil {
		return nil, err
	}
	if err = checkSource(p, d.handle); err != nil {
		return nil, err
	}
	if d.Stat, err = t.statOf(p, d.handle); err != nil {
		return nil, fmt.Errorf("look at %s: %w", p.asked, err)
	}
	if d.Stat.Mode&fs.ModeSocket != 0 {
		return nil, fault.Invalid("cannot copy %s: sockets cannot be archived", p.asked)
	}
	return d, nil
}

// UnpackOptions say how an archive is unpacked.
type UnpackOptions struct {
	NoOverwriteDirNonDir bool // refuse to replace a folder by something else, or something else by a folder
	ToUser               bool // all becomes the user's that the container's configuration names, if it names one
}

// Unpack unpacks an archive, plain or compressed with gzip, bzip2, xz or zstd, into a folder of a container. What it holds
// takes the place of what is there; a folder keeps what else is in it. Names are resolved inside the container's root, so
// that the container's own links in them are followed, and no link of the archive leads out. Owners are those of the
// archive as numbers of the container, unless opt says otherwise; one that the container does not have leaves its root as
// the owner. Devices are left out: a user cannot make them. Names that begin with ".wh." mean nothing here. At its end it
// tells of it.
//
// An error leaves what was unpacked before it. It is fault.NotFound (no such container or folder), fault.Invalid (the path
// is no folder, the archive is broken or a trap, opt forbids it), fault.Forbidden (nothing can be written there) or
// internal. The caller closes src, which is read to its end.
func (s *Service) Unpack(ctx context.Context, ref, asked string, src io.Reader, opt UnpackOptions) error {
	p, err := parsePlace(asked)
	if err != nil {
		return err
	}
	files, err := s.opt.Containers.OpenFiles(ctx, ref)
	if err != nil {
		return err
	}
	defer files.Close() //nolint:errcheck // what was written is written
	t := tree{root: files.Root, ref: ref}
	dest, err := t.openPlace(p, true)
	if err != nil {
		return err
	}
	defer dest.Close() //nolint:errcheck // only a handle
	if err := checkDestination(t, p, int(dest.Fd())); err != nil {
		return err
	}
	to := target{tree: t, place: p, dest: dest, free: s.opt.FreeOut, ids: files.IDs, opt: opt}
	if opt.ToUser && files.Record.Config.User != "" {
		user, err := files.User()
		if err != nil {
			return err
		}
		to.owner = &user
	}
	if err := unpackArchive(ctx, src, to); err != nil {
		return s.failureOf(ctx, ref, err)
	}
	s.publishEvent("extract-to-dir", files.Record)
	return nil
}

// failureOf returns what a copy failed of: the removal of the container, whatever its files were then, or the error itself.
func (s *Service) failureOf(ctx context.Context, ref string, err error) error {
	files, gone := s.opt.Containers.OpenFiles(ctx, ref)
	if gone == nil {
		return errors.Join(err, files.Close())
	}
	if fault.Is(gone, fault.NotFound) {
		return gone
	}
	return err
}

// checkDestination refuses what nothing can be unpacked into.
func checkDestination(t tree, p place, dest int) error {
	var st unix.Stat_t
	if err := unix.Fstat(dest, &st); err != nil {
		return fmt.Errorf("look at %s: %w", p.asked, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fault.Invalid("extraction point is not a directory")
	}
	system, err := systemFS(dest)
	if err != nil {
		return fmt.Errorf("look at %s: %w", p.asked, err)
	}
	if system {
		return fault.Invalid("cannot copy to %s: it does not hold data but files of the system", p.asked)
	}
	var volume unix.Statfs_t
	if err := unix.Fstatfs(dest, &volume); err != nil {
		return fmt.Errorf("look at %s: %w", p.asked, err)
	}
	if volume.Flags&unix.ST_RDONLY == 0 {
		return nil
	}
	return readOnly(sameMount(dest, int(t.root.Fd())))
}

// readOnly is what clients are told of a place that cannot be written to.
func readOnly(root bool) error {
	if root {
		return fault.Forbidden("container rootfs is marked read-only")
	}
	return fault.Forbidden("mounted volume is marked read-only")
}

// sameMount reports whether two files are reached through the same mount.
func sameMount(a, b int) bool {
	var x, y unix.Statx_t
	const self = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW
	if unix.Statx(a, "", self, unix.STATX_MNT_ID, &x) != nil || unix.Statx(b, "", self, unix.STATX_MNT_ID, &y) != nil {
		return true
	}
	return x.Mnt_id == y.Mnt_id
}
