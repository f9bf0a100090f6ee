package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The ioctl that shuts a file system down as a power cut does: nothing more reaches the disk, the log is not flushed.
const (
	ioctlShutdown = 0x8004587d // XFS_IOC_GOINGDOWN, EXT4_IOC_SHUTDOWN
	noLogFlush    = 2
)

const (
	diskSize = 1 << 30
	hostSize = 3 << 30 // of the file system in whose files the device of a btrfs lies
)

// disk is a file system on a loop device whose power can be cut.
type disk struct {
	kind  string
	image string // file of the loop device
	loop  string
	at    string // where it is mounted

	host *disk // has the image in it; nil: the machine's own file system
}

// newDisk makes and mounts a file system.
func newDisk(ctx context.Context, kind, dir string) (_ *disk, err error) {
	d := &disk{kind: kind, image: filepath.Join(dir, "disk.img"), at: filepath.Join(dir, "disk")}
	size := int64(diskSize)
	if kind == "host" {
		d.kind, size = "xfs", hostSize
		d.image, d.at = filepath.Join(dir, "host.img"), filepath.Join(dir, "host")
	}
	if kind == "btrfs" {
		if d.host, err = newDisk(ctx, "host", dir); err != nil {
			return nil, err
		}
		d.image = filepath.Join(d.host.at, "disk.img")
	}
	if err := os.MkdirAll(d.at, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Truncate(size), file.Close()); err != nil {
		return nil, err
	}
	if err := runCommand(ctx, append(map[string][]string{
		"xfs":   {"mkfs.xfs", "-q", "-m", "reflink=1"},
		"ext4":  {"mkfs.ext4", "-q", "-E", "lazy_itable_init=1"},
		"btrfs": {"mkfs.btrfs", "-q"},
	}[d.kind], d.image)...); err != nil {
		return nil, err
	}
	return d, d.mount(ctx)
}

func (d *disk) mount(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "losetup", "--find", "--show", d.image).Output()
	if err != nil {
		return fmt.Errorf("losetup: %w", err)
	}
	d.loop = strings.TrimSpace(string(out))
	return runCommand(ctx, "mount", "-t", d.kind, d.loop, d.at)
}

// cutPower takes the power away. Nothing that is written afterwards is there after the next mount.
func (d *disk) cutPower() error {
	if d.host != nil {
		return cloneFile(d.image, d.image+".cut")
	}
	dir, err := os.Open(d.at)
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // only a handle
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), ioctlShutdown, noLogFlush); err != nil {
		return fmt.Errorf("shut %s down: %w", d.at, err)
	}
	return nil
}

// cloneFile makes to a file that shares the blocks of from, all as they are at one moment.
func cloneFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // opened for reading
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	return errors.Join(err, out.Close())
}

// mountAgain mounts the file system as the cut left it.
func (d *disk) mountAgain(ctx context.Context) error {
	if err := d.unmount(ctx); err != nil {
		return err
	}
	if d.host != nil {
		if err := os.Rename(d.image+".cut", d.image); err != nil {
			return err
		}
	}
	return d.mount(ctx)
}

// unmount unmounts the file system. Nobody uses it.
func (d *disk) unmount(ctx context.Context) error {
	if d.loop == "" {
		return nil
	}
	err := errors.Join(runCommand(ctx, "umount", "--lazy", d.at), runCommand(ctx, "losetup", "--detach", d.loop))
	if err != nil {
		return err
	}
	// The device goes with the last use of the file system: by a namespace whose processes are just ending, or by the loop
	// device of another file system, which closes its file here a moment after it has gone.
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for d.isAttached() {
		if ctx.Err() != nil {
			return fmt.Errorf("%s is still in use: %w", d.loop, ctx.Err())
		}
		waitFor(ctx, 10*time.Millisecond)
	}
	d.loop = ""
	return nil
}

// isAttached reports whether the loop device still has its file.
func (d *disk) isAttached() bool {
	_, err := os.Stat(filepath.Join("/sys/block", filepath.Base(d.loop), "loop"))
	return err == nil
}

// close unmounts all.
func (d *disk) close(ctx context.Context) error {
	err := d.unmount(ctx)
	if d.host != nil {
		err = errors.Join(err, d.host.close(ctx))
	}
	return err
}

func runCommand(ctx context.Context, words ...string) error {
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// waitFor lets some time pass, or less if ctx ends.
func waitFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
