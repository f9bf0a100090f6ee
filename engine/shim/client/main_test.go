package client_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"moss/engine/shim/client"
	"moss/engine/task"
)

// The tests run real containers as an ordinary user: the test binary runs itself again, first as a user without rights,
// then as root of that user's namespaces, where /sys/fs/cgroup shows what is the user's own: see cgroup_test.go.
const (
	envStage = "MOSS_TEST_STAGE" // user, then inside, or engine (see kill_test.go)
	envLab   = "MOSS_TEST_LAB"   // a folder of the user with bin/moss-shim and rootfs
	envGroup = "MOSS_TEST_GROUP" // the user's own cgroup, the same in each v1 hierarchy; empty without any
	testUID  = 40123             // has no name and owns nothing else
)

// patience is how long the tests wait for anything that comes.
const patience = time.Minute

//go:embed testdata/config.json
var baseConfig []byte

func TestMain(m *testing.M) {
	var code int
	var err error
	switch os.Getenv(envStage) {
	case "":
		code, err = outside()
	case "user":
		code, err = enterNamespaces()
	case "inside":
		if err = showCgroups(); err == nil {
			code = m.Run()
			err = shimRaces()
		}
	case "engine":
		err = playEngine()
	default:
		err = errors.New("unknown " + envStage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test set-up:", err)
		code = 1
	}
	os.Exit(code)
}

// outside makes the lab and gives up root.
func outside() (int, error) {
	for program, pkg := range map[string]string{"crun": "crun", "/bin/busybox": "busybox-static"} {
		if _, err := exec.LookPath(program); err != nil {
			return 1, fmt.Errorf("%s is missing: install it (apt-get install %s)", program, pkg)
		}
	}
	lab, err := os.MkdirTemp("", "moss-shim-test-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(lab) }()
	if err := fillLab(lab); err != nil {
		return 1, err
	}
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		if err := chownAll(lab, testUID); err != nil {
			return 1, err
		}
		undo, err := delegateCgroups(testUID)
		defer undo()
		if err != nil {
			return 1, err
		}
		attr.Credential = &syscall.Credential{Uid: testUID, Gid: testUID}
	}
	return again("user", lab, attr)
}

func fillLab(lab string) error {
	args, cgo := []string{"build", "-trimpath", "-ldflags=-s -w"}, "CGO_ENABLED=0"
	if raceDetector {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	build := exec.Command("go", append(args, "-o", filepath.Join(lab, "bin", "moss-shim"), "moss/cmd/moss-shim")...)
	build.Env = append(os.Environ(), cgo)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build moss-shim: %w: %s", err, out)
	}
	root := filepath.Join(lab, "rootfs")
	for _, dir := range []string{"bin", "proc", "dev", "sys", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(lab, "tmp"), 0o700); err != nil {
		return err
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"busybox": busybox, "badformat": []byte("no program")} {
		if err := os.WriteFile(filepath.Join(root, "bin", name), data, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "plainfile"), []byte("text"), 0o644); err != nil {
		return err
	}
	for _, applet := range []string{"sh", "true", "cat", "sleep", "stty", "echo", "dd", "yes", "head", "seq", "kill", "printf", "setsid", "usleep", "grep", "mkdir"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			return err
		}
	}
	return nil
}

func chownAll(dir string, id int) error {
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, id, id)
	})
}

func enterNamespaces() (int, error) {
	return again("inside", os.Getenv(envLab), &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	})
}

// again runs this binary in its next stage and returns its exit code.
func again(stage, lab string, attr *syscall.SysProcAttr) (int, error) {
	// The test log lies in a folder of the first user.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "-test.testlogfile=") })
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = attr
	cmd.Dir = lab
	cmd.Env = append(os.Environ(), envStage+"="+stage, envLab+"="+lab, "TMPDIR="+filepath.Join(lab, "tmp"), "HOME="+lab)
	attr.Pdeathsig = syscall.SIGKILL
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// raceReports is where the shims report data races.
func raceReports() string { return filepath.Join(os.Getenv(envLab), "tmp", "race") }

func shimRaces() error {
	files, err := filepath.Glob(raceReports() + ".*")
	if err != nil || len(files) == 0 {
		return err
	}
	report, err := os.ReadFile(files[0])
	return errors.Join(fmt.Errorf("%d shims reported data races, the first one: %s", len(files), report), err)
}

// bundle describes a container of the tests.
type bundle struct {
	args    []string
	hostPID bool   // no pid namespace of its own
	joinPID int    // a process whose pid namespace it joins; 0 is none
	cgroup  bool   // a cgroup of its own
	runtime string // crun if empty
}

// sh is a bundle that runs a shell script.
func sh(script string) bundle { return bundle{args: []string{"sh", "-c", script}} }

func newRunner(tb testing.TB) *client.Runner {
	tb.Helper()
	r, err := client.New(client.Options{Path: filepath.Join(os.Getenv(envLab), "bin", "moss-shim"), Env: []string{"GORACE=log_path=" + raceReports()}})
	if err != nil {
		tb.Fatal(err)
	}
	r.SetLimits(patience, time.Second, patience)
	return r
}

// newSpec makes a folder with a bundle.
func newSpec(tb testing.TB, b bundle) task.Spec {
	tb.Helper()
	dir := tb.TempDir()
	spec := task.Spec{
		ID: "t" + strconv.FormatInt(time.Now().UnixNano(), 36), Dir: dir, Log: task.Log{Driver: "none", MaxFiles: 1},
	}
	name := b.runtime
	if name == "" {
		name = "crun"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatal(err)
	}
	spec.Runtime = task.Runtime{Path: path, Root: filepath.Join(os.Getenv(envLab), "tmp", name)}
	switch {
	case name == "crun" && b.cgroup:
		spec.Runtime.GlobalArgs = []string{"--cgroup-manager=cgroupfs"}
	case name == "crun":
		spec.Runtime.GlobalArgs = []string{"--cgroup-manager=disabled"}
	}
	writeConfig(tb, spec, b)
	return spec
}

// writeConfig writes the bundle's config.json. It must be called again when the spec gets a terminal.
func writeConfig(tb testing.TB, spec task.Spec, b bundle) {
	tb.Helper()
	var config map[string]any
	if err := json.Unmarshal(baseConfig, &config); err != nil {
		tb.Fatal(err)
	}
	process := config["process"].(map[string]any)
	process["args"] = b.args
	process["terminal"] = spec.Terminal
	if spec.Width > 0 { // as the engine does: the shim's own setting may come after the process has looked
		process["consoleSize"] = map[string]any{"width": spec.Width, "height": spec.Height}
	}
	config["root"].(map[string]any)["path"] = filepath.Join(os.Getenv(envLab), "rootfs")
	if b.cgroup {
		config["linux"].(map[string]any)["cgroupsPath"] = os.Getenv(envGroup) + "/" + spec.ID
	}
	if b.joinPID != 0 {
		config["linux"].(map[string]any)["namespaces"] = []map[string]string{
			{"type": "mount"}, {"type": "pid", "path": fmt.Sprintf("/proc/%d/ns/pid", b.joinPID)},
		}
		delete(config, "hostname")
	}
	if b.hostPID {
		config["linux"].(map[string]any)["namespaces"] = []map[string]string{{"type": "mount"}}
		config["mounts"].([]any)[0] = map[string]any{"destination": "/proc", "type": "bind", "source": "/proc", "options": []string{"rbind"}}
		delete(config, "hostname")
	}
	data, err := json.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(spec.Dir, "config.json"), data, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// process is the process object of an added process.
func process(tb testing.TB, b bundle, terminal bool) json.RawMessage {
	tb.Helper()
	data, err := json.Marshal(map[string]any{
		"terminal": terminal, "user": map[string]int{"uid": 0, "gid": 0}, "args": b.args, "cwd": "/", "noNewPrivileges": true,
		"env": []string{"PATH=/bin", "TERM=xterm"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// prepare makes a task and sees to its end.
func prepare(tb testing.TB, r *client.Runner, spec task.Spec) task.Task {
	tb.Helper()
	tk, err := r.Prepare(tb.Context(), spec)
	if err != nil {
		tb.Fatalf("Prepare = %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
		defer cancel()
		_ = tk.Delete(ctx) // ends one that was never started
		_ = tk.Signal(ctx, int(syscall.SIGKILL))
		_, _ = tk.Wait(ctx)
		_ = tk.Delete(ctx)
	})
	return tk
}

func start(tb testing.TB, tk task.Process) int {
	tb.Helper()
	pid, err := tk.Start(tb.Context())
	if err != nil {
		tb.Fatalf("Start = %v", err)
	}
	return pid
}

func attach(tb testing.TB, tk task.Process, req task.Attach) task.Streams {
	tb.Helper()
	view, _, err := tk.Attach(tb.Context(), req)
	if err != nil {
		tb.Fatalf("Attach = %v", err)
	}
	tb.Cleanup(func() { _ = view.Close() })
	return view
}

func wait(tb testing.TB, tk task.Process, code int) task.Exit {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	exit, err := tk.Wait(ctx)
	if err != nil || exit.Code != code {
		tb.Fatalf("Wait = %+v, %v, want code %d", exit, err, code)
	}
	return exit
}

// eventually waits until something is true.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// quiet waits until nothing comes for a while: what was written before is on its way for as long as the machine likes.
func quiet(tb testing.TB, what string, counts ...*atomic.Int64) {
	tb.Helper()
	eventually(tb, what, func() bool {
		for _, n := range counts {
			n.Store(0)
		}
		time.Sleep(100 * time.Millisecond)
		return !slices.ContainsFunc(counts, func(n *atomic.Int64) bool { return n.Load() > 0 })
	})
}

// processes lists the processes that mention text in their command line.
func processes(tb testing.TB, text string) []string {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		tb.Fatal(err)
	}
	var found []string
	for _, file := range files {
		data, _ := os.ReadFile(file) // it may have ended
		if line := strings.ReplaceAll(string(data), "\x00", " "); strings.Contains(line, text) && file != "/proc/"+strconv.Itoa(os.Getpid())+"/cmdline" {
			found = append(found, line)
		}
	}
	return found
}
