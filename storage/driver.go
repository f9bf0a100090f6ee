package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	cstorage "go.podman.io/storage"
	"go.podman.io/storage/drivers/overlay"
	"go.podman.io/storage/types"
	"golang.org/x/sys/unix"

	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/tree"
)

// The drivers, in the order in which they are tried.
const (
	driverOverlay = "overlay"
	driverFuse    = "fuse-overlayfs"
	driverVFS     = "vfs"
)

// driverFile holds the name of the driver that a store was made with.
const driverFile = "moss-driver"

// mountProgramFile is where the library notes whether fuse-overlayfs mounts its layers.
const mountProgramFile = ".has-mount-program"

// choice is the driver in use and why.
type choice struct{ driver, reason string }

// openDriver opens the library's store with the driver that the store was made with, that opts ask for, or that works.
func openDriver(ctx context.Context, root, run string, opts Options) (opened, choice, error) {
	switch opts.Driver {
	case "", driverOverlay, driverFuse, driverVFS:
	default:
		return opened{}, choice{}, fault.Invalid("unknown storage driver %q: use overlay, fuse-overlayfs or vfs", opts.Driver)
	}
	made, err := madeWith(root, opts.Damage)
	if err != nil {
		return opened{}, choice{}, err
	}
	if made != "" && opts.Driver != "" && opts.Driver != made {
		return opened{}, choice{}, fault.Conflict("the store was made with driver %s, %s was asked for: use another root or remove it",
			made, opts.Driver)
	}
	var refused []string
	for _, driver := range []string{driverOverlay, driverFuse, driverVFS} {
		var reason string
		switch {
		case made != "":
			if driver != made {
				continue
			}
			reason = "the store was made with it"
		case opts.Driver != "":
			if driver != opts.Driver {
				continue
			}
			reason = "it was asked for"
		default:
			reason = "it works here"
		}
		cs, err := tryDriver(ctx, driver, root, run, opts, made != "")
		if err == nil {
			if len(refused) > 0 {
				reason += "; " + strings.Join(refused, "; ")
			}
			return cs, choice{driver: driver, reason: reason}, rememberDriver(root, driver, made)
		}
		refused = append(refused, driver+" does not: "+firstLine(err.Error()))
	}
	return opened{}, choice{}, fault.Internal("no storage driver works: %s", strings.Join(refused, "; "))
}

// madeWith returns the driver that the store was made with, nothing for a new store. If the file that says so is damaged, the
// store's own files tell.
func madeWith(root string, account *damage.Account) (string, error) {
	path := filepath.Join(root, driverFile)
	raw, err := damage.Read(path, maxPlace)
	if errors.Is(err, fs.ErrNotExist) {
		return guessDriver(root), nil
	}
	if err != nil {
		err := account.SetAside(path, err)
		return guessDriver(root), err
	}
	switch name := strings.TrimSpace(string(raw)); name {
	case driverOverlay, driverFuse, driverVFS:
		return name, nil
	default:
		err := account.SetAside(path, fmt.Errorf("it names the unknown driver %.40q", name))
		return guessDriver(root), err
	}
}

// guessDriver tells by the folders of layers what a store was made with; nothing if there are none.
func guessDriver(root string) string {
	if entries, err := os.ReadDir(filepath.Join(root, driverVFS, "dir")); err == nil && len(entries) > 0 {
		return driverVFS
	}
	home := filepath.Join(root, driverOverlay)
	entries, err := readDir(home)
	if err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return validID(e.Name()) == nil }) {
		return ""
	}
	if flag, err := os.ReadFile(filepath.Join(home, mountProgramFile)); err == nil && string(flag) == "true" {
		return driverFuse
	}
	return driverOverlay
}

func rememberDriver(root, driver, made string) error {
	if made == driver {
		return nil
	}
	return wrapError(replaceFile(filepath.Join(root, driverFile), strings.NewReader(driver+"\n")), "remember the storage driver")
}

// opened is the library's store, and what its indexes were found to be.
type opened struct {
	cstorage.Store
	containers *containerIndex
	lost       bool // an index was damaged: something may be there that none lists any more
}

func tryDriver(ctx context.Context, driver, root, run string, opts Options, known bool) (opened, error) {
	so := types.StoreOptions{
		GraphRoot:       root,
		RunRoot:         run,
		GraphDriverName: driverOverlay,
		DisableVolatile: true, // a container's fsync must mean something
		// Layers may come in parts, if the digest of the whole plain archive comes out of that.
		PullOptions: map[string]string{"enable_partial_images": "true"},
	}
	switch driver {
	case driverOverlay:
		if err := nativeOverlay(root, run); err != nil {
			return opened{}, err
		}
	case driverFuse:
		program, err := fuseOverlay(ctx, root, known)
		if err != nil {
			return opened{}, err
		}
		so.GraphDriverOptions = append(so.GraphDriverOptions, "overlay.mount_program="+program)
	case driverVFS:
		if opts.place.modes != nil && !known { // the library makes a layer's folder before it gives it a mode
			return opened{}, fmt.Errorf("the file system holds root to the modes of files: %w", opts.place.modes)
		}
		so.GraphDriverName = driverVFS
	}
	if so.GraphDriverName == driverOverlay {
		so.GraphDriverOptions = append(so.GraphDriverOptions,
			"overlay.skip_mount_home=true", // the mount namespace is ours and private already
			"overlay.ignore_chown_errors="+strconv.FormatBool(opts.SingleID))
	} else {
		so.GraphDriverOptions = append(so.GraphDriverOptions, "vfs.ignore_chown_errors="+strconv.FormatBool(opts.SingleID))
	}
	containers, err := readContainers(root)
	if err != nil {
		return opened{}, err
	}
	parents, lost, err := mendIndexes(root, so.GraphDriverName, containers, opts.Damage)
	if err != nil {
		return opened{}, fmt.Errorf("mend the indexes: %w", err)
	}
	if so.GraphDriverName == driverOverlay {
		if err := mendPlaces(filepath.Join(root, driverOverlay), parents, opts.Damage); err != nil {
			return opened{}, fmt.Errorf("mend the layers' places: %w", err)
		}
	}
	cs, err := cstorage.GetStore(so)
	if err != nil {
		return opened{}, fmt.Errorf("%s: %w", driver, err)
	}
	return opened{Store: cs, containers: containers, lost: lost}, nil
}

// nativeOverlay says why the kernel's overlay does not work on root, nil if it does. The library tries a real mount once
// per boot and remembers the outcome in the run root.
func nativeOverlay(root, run string) error {
	home, runHome := filepath.Join(root, driverOverlay), filepath.Join(run, driverOverlay)
	for _, dir := range []string{home, runHome} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the overlay folder: %w", err)
		}
	}
	ok, err := overlay.SupportsNativeOverlay(home, runHome)
	if err != nil {
		return fmt.Errorf("try overlay: %w", err)
	}
	if ok {
		return nil
	}
	if err := sweepTrials(root); err != nil {
		return fmt.Errorf("remove the trial of overlay: %w", err)
	}
	why, err := os.ReadFile(filepath.Join(runHome, "overlay-false"))
	if err != nil || len(why) == 0 {
		return errors.New("the kernel's overlay cannot be used on this file system")
	}
	return errors.New(strings.TrimSpace(string(why)))
}

// fuseTrial begins the names of folders in which fuse-overlayfs is tried.
const fuseTrial = "fuse-trial"

// fuseTimeout bounds the trial of fuse-overlayfs; it takes some milliseconds where it works.
const fuseTimeout = 10 * time.Second

// fuseOverlay returns the path of fuse-overlayfs if it can mount. A store that was made with it is not tried again.
func fuseOverlay(ctx context.Context, root string, known bool) (string, error) {
	program, err := exec.LookPath(driverFuse)
	if err != nil {
		return "", errors.New("the program fuse-overlayfs is not installed")
	}
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("fuse: %w", err)
	}
	if err := dev.Close(); err != nil || known {
		return program, err
	}
	dir, err := os.MkdirTemp(root, fuseTrial)
	if err != nil {
		return "", fmt.Errorf("try fuse-overlayfs: %w", err)
	}
	defer tree.RemovePath(dir) //nolint:errcheck // the next start removes it
	for _, sub := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return "", fmt.Errorf("try fuse-overlayfs: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, fuseTimeout)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "-o", "lowerdir=lower,upperdir=upper,workdir=work", "merged")
	cmd.Dir, cmd.Stderr = dir, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("try fuse-overlayfs: %w: %s", err, firstLine(stderr.String()))
	}
	if err := unix.Unmount(filepath.Join(dir, "merged"), unix.MNT_DETACH); err != nil {
		return "", fmt.Errorf("unmount the trial of fuse-overlayfs: %w", err)
	}
	return program, nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
