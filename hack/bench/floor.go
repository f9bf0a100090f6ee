package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// floor is a bare `crun run` in a user namespace that is there already: what no engine on top of crun can undercut.
type floor struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	stderr  bytes.Buffer
}

// Names of the floor in the report.
const (
	floorName   = "floor"
	floorMetric = "crun"
)

// floorVariants are how the filter of system calls gets in: as rules that crun compiles, compiled beforehand, not at all.
func floorVariants() []string { return []string{"bpf", "rules", "none"} }

// ownNamespace are the words in front of a command that give it a user namespace of the user's ids, and mounts.
func ownNamespace() []string {
	words := []string{"unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"}
	if raw, err := os.ReadFile("/etc/subuid"); err == nil && strings.Contains("\n"+string(raw), "\n"+os.Getenv("USER")+":") {
		words = append(words, "--map-auto")
	}
	return words
}

func startFloor(ctx context.Context, dir, busybox string) (*floor, error) {
	if err := unpackRootfs(busybox, filepath.Join(dir, "rootfs")); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	words := append(ownNamespace(), self)
	f := &floor{cmd: exec.CommandContext(ctx, words[0], words[1:]...)}
	f.cmd.Env = append(os.Environ(), envFloor+"="+dir, "XDG_RUNTIME_DIR="+dir)
	f.cmd.Stderr, f.cmd.WaitDelay = &f.stderr, pipeLimit
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.answers = bufio.NewScanner(out)
	if err := f.cmd.Start(); err != nil {
		return nil, err
	}
	if err := f.readAnswer("its start"); err != nil {
		return nil, errors.Join(fmt.Errorf("floor does not start: %w", err), f.stop())
	}
	return f, nil
}

// readAnswer reads one answer. A helper that gives none is killed.
func (f *floor) readAnswer(to string) error {
	late := time.AfterFunc(callLimit, func() { _ = f.cmd.Process.Kill() }) // it may have ended
	if f.answers.Scan() {
		late.Stop()
		return nil
	}
	if !late.Stop() {
		return noAnswer{limit: callLimit, to: to}
	}
	return fmt.Errorf("floor ended: %s", f.stderr.String())
}

// stop ends the helper and waits for it.
func (f *floor) stop() error {
	late := time.AfterFunc(stopLimit, func() { _ = f.cmd.Process.Kill() })
	defer late.Stop()
	return errors.Join(f.in.Close(), f.cmd.Wait())
}

// runSample runs one container and returns the milliseconds it took.
func (f *floor) runSample(variant string) (float64, error) {
	if _, err := io.WriteString(f.in, variant+"\n"); err != nil {
		return 0, err
	}
	if err := f.readAnswer(variant); err != nil {
		return 0, err
	}
	ms, err := strconv.ParseFloat(f.answers.Text(), 64)
	if err != nil {
		return 0, fmt.Errorf("floor, %s: %s", variant, f.answers.Text())
	}
	return ms, nil
}

// serveFloor is the helper inside the namespace: it runs one container per line and answers with the milliseconds.
func serveFloor(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		// crun refuses the hybrid layout even when it is to leave cgroups alone.
		if out, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "floor", "/sys/fs/cgroup").CombinedOutput(); err != nil {
			return fmt.Errorf("hide cgroups: %w: %s", err, out)
		}
	}
	if err := floorBundles(ctx, dir); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for n := 0; lines.Scan(); n++ {
		cmd := crunCommand(ctx, dir, "run", "--no-new-keyring", "--bundle", filepath.Join(dir, lines.Text()), "floor"+strconv.Itoa(n))
		began := time.Now()
		said, err := cmd.CombinedOutput()
		answer := strconv.FormatFloat(toMilliseconds(time.Since(began)), 'f', 4, 64)
		if err != nil {
			answer = fmt.Sprintf("%v: %s", err, bytes.ReplaceAll(said, []byte("\n"), []byte(" ")))
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

func crunCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "crun",
		append([]string{"--root", filepath.Join(dir, "runtime"), "--cgroup-manager", "disabled"}, args...)...)
}

// floorBundles writes one bundle per variant. crun leaves the filter it compiled beside a container's state.
func floorBundles(ctx context.Context, dir string) error {
	rules, err := floorSpec(dir)
	if err != nil {
		return err
	}
	if err := writeBundle(dir, "rules", rules); err != nil {
		return err
	}
	asleep := *rules
	process := *rules.Process
	process.Args = []string{"/bin/sleep", "100"}
	asleep.Process = &process
	if err := writeBundle(dir, "asleep", &asleep); err != nil {
		return err
	}
	if err := crunCommand(ctx, dir, "run", "--detach", "--bundle", filepath.Join(dir, "asleep"), "asleep").Run(); err != nil {
		return fmt.Errorf("start a container for its filter: %w", err)
	}
	filter, err := os.ReadFile(filepath.Join(dir, "runtime", "asleep", "seccomp.bpf"))
	if err := errors.Join(err, crunCommand(ctx, dir, "delete", "--force", "asleep").Run()); err != nil {
		return fmt.Errorf("take the compiled filter: %w", err)
	}
	linux := *rules.Linux
	linux.Seccomp = nil
	bare := *rules
	bare.Linux = &linux
	if err := writeBundle(dir, "none", &bare); err != nil {
		return err
	}
	bare.Annotations = map[string]string{"run.oci.seccomp_bpf_data": base64.StdEncoding.EncodeToString(filter)}
	return writeBundle(dir, "bpf", &bare)
}

func writeBundle(dir, name string, spec *specs.Spec) error {
	raw, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name, "config.json"), raw, 0o600)
}

// floorSpec is what every engine asks crun for at least, written down here so that the floor does not move with moss.
func floorSpec(dir string) (*specs.Spec, error) {
	caps := []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
		"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
	}
	spec := &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: filepath.Join(dir, "rootfs")},
		Process: &specs.Process{
			Args: []string{"/bin/true"}, Cwd: "/", Env: []string{"PATH=/bin"},
			Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Hostname: "floor",
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
			{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=67108864"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
			},
			MaskedPaths: []string{
				"/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	filter, err := seccomp.GetDefaultProfile(spec)
	if err != nil {
		return nil, fmt.Errorf("default seccomp profile: %w", err)
	}
	spec.Linux.Seccomp = filter
	return spec, nil
}
