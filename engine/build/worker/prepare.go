package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/build/source"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/tree"
)

// maxSecret bounds one secret, in bytes.
const maxSecret = 500 << 10

// heredocs is where a command finds the files of its heredocs.
const heredocs = "/dev/pipes"

// mounts is what one run has beside its image. It is given back with release.
type mounts struct {
	env   []string
	binds []container.Bind
	tmpfs []container.Tmpfs

	secrets string // folder of this run's secrets and heredocs; made at need
	number  int    // of files in there
	back    []func() error
	failed  func(error)
}

// releaseAll gives back what was made for a run, in the reverse order.
func (m *mounts) releaseAll() {
	for _, f := range slices.Backward(m.back) {
		if err := f(); err != nil {
			m.failed(err)
		}
	}
	m.back = nil
}

// prepareMounts prepares the mounts of a step. The caller releases them, with an error too.
func (w *Worker) prepareMounts(ctx context.Context, step *Step) (*mounts, error) {
	m := &mounts{failed: func(err error) { w.opt.Log.Error().Err(err).Msg("mounts of a build not released whole") }}
	var wanted []*cacheMount
	for i := range step.Mounts {
		mount := &step.Mounts[i]
		target, err := targetOf(mount, step.WorkDir)
		if err != nil {
			return m, err
		}
		switch mount.Type {
		case MountBind:
			err = w.bindFiles(ctx, m, mount, target)
		case MountCache:
			wanted = append(wanted, &cacheMount{Mount: mount, target: target})
		case MountTmpfs:
			m.tmpfs = append(m.tmpfs, tmpfsOf(mount, target))
		case MountSecret:
			err = w.addSecret(m, step, mount, target)
		default:
			err = fault.Unsupported("RUN --mount=type=%s is not supported", mount.Type)
		}
		if err != nil {
			return m, fmt.Errorf("RUN --mount=type=%s: %w", mount.Type, err)
		}
	}
	if err := w.addHeredocs(m, step.Files); err != nil {
		return m, err
	}
	if err := w.takeCaches(ctx, m, wanted); err != nil { // last: others wait for what is locked
		return m, fmt.Errorf("RUN --mount=type=cache: %w", err)
	}
	return m, nil
}

// targetOf is where a mount goes: a clean absolute path, empty for a secret that is a variable only.
func targetOf(m *Mount, workDir string) (string, error) {
	if m.Target == "" && m.Type == MountSecret && m.Env != "" {
		return "", nil
	}
	target := m.Target
	if !path.IsAbs(target) {
		target = path.Join("/", workDir, target)
	}
	target = path.Clean(target)
	switch {
	case m.Target == "":
		return "", fault.Invalid("RUN --mount=type=%s: target is required", m.Type)
	case target == "/":
		return "", fault.Invalid("RUN --mount=type=%s: invalid mount target %q", m.Type, m.Target)
	case strings.ContainsRune(target, 0):
		return "", fault.Invalid("RUN --mount=type=%s: invalid mount target %q", m.Type, target)
	}
	return target, nil
}

func tmpfsOf(m *Mount, target string) container.Tmpfs {
	options := []string{"nosuid", "nodev", "mode=1777"}
	if m.ReadOnly {
		options = append(options, "ro")
	}
	if m.Size > 0 {
		options = append(options, "size="+strconv.FormatInt(m.Size, 10))
	}
	return container.Tmpfs{Destination: target, Options: options}
}

// addBind adds a bind mount of a file or folder of the host's.
func (m *mounts) addBind(source, target string, readOnly bool) {
	m.binds = append(m.binds, container.Bind{
		Source: source, Destination: target, ReadOnly: readOnly, Propagation: "rprivate",
		BindTerms: container.BindTerms{MustExist: true},
	})
}

// bindFiles binds files of the context or of an image. What is written there goes with the run.
func (w *Worker) bindFiles(ctx context.Context, m *mounts, mount *Mount, target string) error {
	if mount.Image == "" {
		if mount.Files == nil {
			return fault.Invalid("there is nothing to mount at %s", target)
		}
		at, release, err := w.copyOf(ctx, mount.Files, mount.Path, mount.ReadOnly)
		if err != nil {
			return err
		}
		m.back = append(m.back, release)
		m.addBind(at, target, mount.ReadOnly)
		return nil
	}
	view, err := w.opt.Images.Open(ctx, mount.Image)
	if err != nil {
		return err
	}
	m.back = append(m.back, view.Close)
	if !mount.ReadOnly {
		at, release, err := w.copyOf(ctx, source.Rooted(view.Root), mount.Path, false)
		if err != nil {
			return err
		}
		m.back = append(m.back, release)
		m.addBind(at, target, false)
		return nil
	}
	at, err := pathIn(view.Root, mount.Path)
	if err != nil {
		return err
	}
	m.addBind(at, target, true)
	return nil
}

// pathIn is where a path leads to in a folder that nobody changes, as a path of the engine's. fault.NotFound if there is
// nothing.
func pathIn(root *os.File, name string) (string, error) {
	fd, err := tree.Openat2(int(root.Fd()), path.Join("/", name), unix.O_PATH, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return "", fault.NotFound("%s: not found", path.Join("/", name))
	}
	if err != nil {
		return "", fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd) //nolint:errcheck // only a handle
	at, err := os.Readlink(tree.PathOf(fd))
	if err != nil {
		return "", fmt.Errorf("open %s: %w", name, err)
	}
	return at, nil
}

// addSecret gives a command what the build was given under a name, as a file in memory, a variable, or both.
func (w *Worker) addSecret(m *mounts, step *Step, mount *Mount, target string) error {
	var content []byte
	found := false
	if step.Secrets != nil {
		content, found = step.Secrets(mount.ID)
	}
	switch {
	case !found && mount.Required:
		return fault.Invalid("secret %s: not found", mount.ID)
	case !found:
		return nil
	case len(content) > maxSecret:
		return fault.Invalid("secret %s has %d bytes, more than %d", mount.ID, len(content), maxSecret)
	}
	if mount.Env != "" {
		if strings.ContainsAny(mount.Env, "=\x00") || slices.Contains(content, 0) {
			return fault.Invalid("secret %s cannot be the variable %q", mount.ID, mount.Env)
		}
		m.env = append(m.env, mount.Env+"="+string(content))
	}
	if target == "" {
		return nil
	}
	mode := uint32(0o400)
	if mount.Mode != nil {
		mode = *mount.Mode
	}
	dir, err := w.memoryDir(m)
	if err != nil {
		return err
	}
	m.number++
	at := filepath.Join(dir, strconv.Itoa(m.number))
	if err := writeOwned(at, content, mode, mount.UID, mount.GID); err != nil {
		return fmt.Errorf("secret %s: %w", mount.ID, err)
	}
	m.addBind(at, target, mount.ReadOnly)
	return nil
}

// memoryDir returns the folder of this run on a file system in memory, and makes it the first time.
func (w *Worker) memoryDir(m *mounts) (string, error) {
	if m.secrets != "" {
		return m.secrets, nil
	}
	dir := filepath.Join(w.secretDir(), id.New())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	m.secrets = dir
	m.back = append(m.back, func() error { return tree.RemovePath(dir) })
	return dir, nil
}

// writeOwned makes a file that is somebody else's.
func writeOwned(at string, content []byte, mode, uid, gid uint32) error {
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, setOwnerAndMode(f, mode, uid, gid), f.Close())
}

// setOwnerAndMode sets the owner and the permissions of a new file or folder.
func setOwnerAndMode(f *os.File, mode, uid, gid uint32) error {
	if uid != 0 || gid != 0 {
		if err := f.Chown(int(uid), int(gid)); err != nil {
			if errors.Is(err, unix.EINVAL) {
				return fault.Invalid("there is no user %d:%d in these user namespaces", uid, gid)
			}
			return err
		}
	}
	return unix.Fchmod(int(f.Fd()), mode&0o7777)
}

// addHeredocs puts the files of heredocs where a command finds them.
func (w *Worker) addHeredocs(m *mounts, files []File) error {
	if len(files) == 0 {
		return nil
	}
	dir, err := w.memoryDir(m)
	if err != nil {
		return err
	}
	pipes := filepath.Join(dir, "pipes")
	if err := os.Mkdir(pipes, 0o755); err != nil { //nolint:gosec // below a folder that is the user's alone
		return err
	}
	for _, f := range files {
		if f.Name != path.Base(f.Name) || !filepath.IsLocal(f.Name) || f.Name == "." || strings.ContainsRune(f.Name, 0) {
			return fault.Invalid("RUN: %q cannot be the name of a heredoc's file", f.Name)
		}
		if err := writeOwned(filepath.Join(pipes, f.Name), []byte(f.Content), f.Mode, 0, 0); err != nil {
			return fmt.Errorf("heredoc %s: %w", f.Name, err)
		}
	}
	m.addBind(pipes, heredocs, true)
	return nil
}
