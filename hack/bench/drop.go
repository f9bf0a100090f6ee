package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	envOut    = "MOSS_BENCH_OUT"    // number of the open file for the results, handed on by root
	envWork   = "MOSS_BENCH_WORK"   // folder that root made and will remove
	envReaped = "MOSS_BENCH_REAPED" // set in the process that measures: its parent adopts orphans
	envFloor  = "MOSS_BENCH_FLOOR"  // makes this program the floor's helper, working in that folder
)

// hideCgroups is run by root in a mount namespace of its own. podman keeps a lock in /dev/shm that belongs to the user,
// not to the store; a private one keeps the user's other podman out of this. What engines keep for as long as the user is
// logged in lies in memory, as everywhere with a login manager.
const hideCgroups = `set -e
mount --make-rshared /
mkdir "$` + envWork + `/` + runName + `"
mount -t tmpfs -o mode=1777 bench "$` + envWork + `/` + runName + `"
[ -e /sys/fs/cgroup/cgroup.controllers ] || mount -t tmpfs -o mode=0755 bench /sys/fs/cgroup
mount -t tmpfs -o mode=1777 bench /dev/shm
exec "$@"`

// asUser runs this program again as the test user.
func asUser(ctx context.Context, opt options, args []string, stdout, stderr io.Writer) (err error) {
	work, err := os.MkdirTemp(opt.state, "moss-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(work)) }()
	if err := os.Chmod(work, 0o1777); err != nil { //nolint:gosec // the test user's engines make their folders in it
		return err
	}
	// The go command builds in a folder that only root may enter; so may be the folder of the programs to measure.
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin, beside := filepath.Join(work, "bin"), ""
	if err := copyPrograms(opt.bin, bin); err != nil {
		return err
	}
	if opt.beside != "" {
		beside = filepath.Join(work, "beside")
		if err := copyPrograms(opt.beside, beside); err != nil {
			return err
		}
	}
	if err := copyProgram(self, filepath.Join(work, "bench")); err != nil {
		return err
	}
	line := append([]string{
		"--mount", "--propagation", "private", "sh", "-c", hideCgroups, "sh",
		filepath.Join("hack", "as-user.sh"), filepath.Join(work, "bench"),
	}, args...)
	line = append(line, "--bin", bin, "--beside", beside)
	cmd := exec.CommandContext(ctx, "unshare", line...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Env = append(os.Environ(), envWork+"="+work)
	if opt.out != "" {
		out, err := os.Create(opt.out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		cmd.ExtraFiles = []*os.File{out}
		cmd.Env = append(cmd.Env, envOut+"="+strconv.Itoa(3))
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("as the test user: %w", err)
	}
	return nil
}

func copyPrograms(from, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, name := range programNames() {
		if err := copyProgram(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	for _, name := range laterPrograms() {
		err := copyProgram(filepath.Join(from, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// workDir makes the folder that everything of this run lives in. The engines' files may belong to sub-ids.
func workDir(ctx context.Context, opt options) (dir string, remove func() error, err error) {
	if dir = os.Getenv(envWork); dir != "" {
		return dir, func() error { return nil }, nil
	}
	if dir, err = os.MkdirTemp(opt.state, "moss-bench-"); err != nil {
		return "", nil, err
	}
	return dir, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		args := append(ownNamespace(), "rm", "-rf", dir)
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("remove %s: %w: %s", dir, err, out)
		}
		return nil
	}, nil
}

// ownPrograms copies the builds to measure into the run's folder, if root has not done so: an engine of the same files that
// runs elsewhere, or the build beside, would share their pages.
func ownPrograms(opt options, dir string) (options, error) {
	if os.Getenv(envWork) != "" {
		return opt, nil
	}
	for name, from := range map[string]*string{"bin": &opt.bin, "beside": &opt.beside} {
		if *from == "" {
			continue
		}
		to := filepath.Join(dir, name)
		if err := copyPrograms(*from, to); err != nil {
			return opt, err
		}
		*from = to
	}
	return opt, nil
}

// removeAll removes the folder of a run; what the engines kept mounted went with their mount namespace, which may take
// a moment longer than they do.
func removeAll(dir string) error {
	var err error
	for range 20 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		<-time.After(100 * time.Millisecond)
	}
	return err
}

func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Chmod(0o755), out.Close())
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
