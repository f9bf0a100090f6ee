package ocispec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"moss/engine/container"
)

// probe is a program that makes system calls and prints /proc/self/status and what they returned. It is put together
// here, byte by byte, so that the root filesystem needs no C library, and because no Go program makes 32-bit calls. Its code
// is for amd64.
type probe struct {
	code  []byte
	calls int
}

const (
	probeBase    = 0x400000
	probeData    = probeBase + 0x800 // path, then socketcall's arguments, more paths and a list of groups
	probeResults = probeBase + 0x1000
	probeBuffer  = probeBase + 0x2000
	probeStatus  = 4096 // bytes of /proc/self/status that are printed
)

func (p *probe) emit(code ...byte) { p.code = append(p.code, code...) }

func (p *probe) load(opcode byte, value uint32) {
	p.code = binary.LittleEndian.AppendUint32(append(p.code, opcode), value)
}

// keep stores rax as the next result.
func (p *probe) keep() {
	p.emit(0x48, 0x89, 0x04, 0x25)
	p.code = binary.LittleEndian.AppendUint32(p.code, uint32(probeResults+8*p.calls))
	p.calls++
}

// call64 makes a native call; call32 one of 32-bit x86 by int 0x80.
func (p *probe) call64(number, a, b, c uint32) {
	p.load(0xb8, number)
	p.load(0xbf, a)
	p.load(0xbe, b)
	p.load(0xba, c)
	p.emit(0x0f, 0x05)
}

func (p *probe) call32(number, a, b, c uint32) {
	p.load(0xb8, number)
	p.load(0xbb, a)
	p.load(0xb9, b)
	p.load(0xba, c)
	p.emit(0xcd, 0x80, 0x48, 0x98) // and sign-extend eax
}

// try is a system call of the probe's.
type try struct {
	name            string
	bits            int
	number, a, b, c uint32
}

// socketTries are what no container may do, and some that each may.
func socketTries() []try {
	return []try{
		{"AF_ALG", 64, unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		{"AF_VSOCK", 64, unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		{"AF_INET", 64, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0},
		{"keyctl", 64, unix.SYS_KEYCTL, 0, 0xfffffffd, 0},
		{"AF_ALG (32 bit)", 32, 359, unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
		{"AF_ALG by socketcall (32 bit)", 32, 102, 1, probeData + 32, 0}, // SYS_SOCKET, {AF_ALG, SOCK_SEQPACKET, 0}
		{"getpid (32 bit)", 32, 20, 0, 0, 0},
	}
}

// idTries change owners and ids: /dev is a folder of root's, /none is not there.
func idTries() []try {
	const dev, none, groups, same = probeData + 64, probeData + 72, probeData + 80, 1<<32 - 1
	return []try{
		{"chown to another", 64, unix.SYS_CHOWN, dev, 33, 33},
		{"chown to another group", 64, unix.SYS_CHOWN, dev, 0, 33},
		{"chown to another user", 64, unix.SYS_LCHOWN, dev, 33, same},
		{"chown to root", 64, unix.SYS_CHOWN, dev, 0, 0},
		{"chown of nothing to root", 64, unix.SYS_CHOWN, none, 0, 0},
		{"setuid", 64, unix.SYS_SETUID, 33, 0, 0},
		{"seteuid", 64, unix.SYS_SETRESUID, same, 33, same},
		{"setregid", 64, unix.SYS_SETREGID, 33, 33, 0},
		{"setgroups", 64, unix.SYS_SETGROUPS, 1, groups, 0},
		{"getuid", 64, unix.SYS_GETUID, 0, 0, 0},
		{"getegid", 64, unix.SYS_GETEGID, 0, 0, 0},
		{"chown to another (32 bit)", 32, 212, dev, 33, 33},
		{"chown of nothing to root (32 bit)", 32, 212, none, 0, 0},
		{"setuid (32 bit)", 32, 213, 33, 0, 0},
		{"setgroups (32 bit)", 32, 206, 1, groups, 0},
	}
}

func newProbe(tries []try) []byte {
	p := &probe{}
	p.call64(unix.SYS_OPEN, probeData, unix.O_RDONLY, 0)
	p.keep()
	p.load(0xb8, unix.SYS_READ)
	p.emit(0x8b, 0x3c, 0x25) // mov edi, [first result]
	p.code = binary.LittleEndian.AppendUint32(p.code, probeResults)
	p.load(0xbe, probeBuffer)
	p.load(0xba, probeStatus)
	p.emit(0x0f, 0x05)
	p.calls = 0
	for _, t := range tries {
		if t.bits == 32 {
			p.call32(t.number, t.a, t.b, t.c)
		} else {
			p.call64(t.number, t.a, t.b, t.c)
		}
		p.keep()
	}
	p.call64(unix.SYS_WRITE, 1, probeBuffer, probeStatus)
	p.call64(unix.SYS_WRITE, 1, probeResults, uint32(8*p.calls))
	p.call64(unix.SYS_EXIT_GROUP, 0, 0, 0)

	file := make([]byte, 0x1000)
	copy(file, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	for at, v := range map[int]uint16{16: 2, 18: 62, 52: 64, 54: 56, 56: 1} { // executable, x86-64, header sizes, one segment
		le.PutUint16(file[at:], v)
	}
	le.PutUint32(file[20:], 1)
	le.PutUint64(file[24:], probeBase+0x100) // entry
	le.PutUint64(file[32:], 64)              // segments
	le.PutUint32(file[64:], 1)               // PT_LOAD
	le.PutUint32(file[68:], 7)               // rwx
	for at, v := range map[int]uint64{80: probeBase, 88: probeBase, 96: 0x1000, 104: 0x4000, 112: 0x1000} {
		le.PutUint64(file[at:], v)
	}
	copy(file[0x100:], p.code)
	copy(file[0x800:], "/proc/self/status\x00")
	le.PutUint32(file[0x820:], unix.AF_ALG)
	le.PutUint32(file[0x824:], unix.SOCK_SEQPACKET)
	copy(file[0x840:], "/dev\x00")
	copy(file[0x848:], "/none\x00")
	le.PutUint32(file[0x850:], 33)
	return file
}

// possibleTries leaves the 32-bit calls out where there are none: such a kernel, or the machine below it, answers int 0x80 with
// SIGSEGV.
func possibleTries(t *testing.T, tries []try) []try {
	t.Helper()
	program := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(program, newProbe([]try{{"getpid (32 bit)", 32, 20, 0, 0, 0}}), 0o700); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	err := cmd.Run()
	if err == nil {
		return tries
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != unix.SIGSEGV {
		t.Fatal(err)
	}
	t.Log("32-bit calls are left out: this machine has none")
	return slices.DeleteFunc(tries, func(t try) bool { return t.bits == 32 })
}

// sandbox runs crun as an ordinary user who is root of a user namespace of their own, with cgroups hidden.
type sandbox struct {
	t     *testing.T
	dir   string
	tries []try // of the probe
}

func newSandbox(t *testing.T) *sandbox {
	for _, tool := range []string{"crun", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: hack/install-deps.sh installs it", tool)
		}
	}
	s := &sandbox{t: t, dir: t.TempDir(), tries: possibleTries(t, socketTries())}
	for dir, mode := range map[string]os.FileMode{
		"": 0o777, "..": 0o755, "rootfs": 0o777, "rootfs/etc": 0o777, "state": 0o777, "bundle": 0o777, "source": 0o777,
	} {
		path := filepath.Join(s.dir, dir)
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	s.write("rootfs/probe", newProbe(s.tries))
	for _, file := range []string{"hostname", "hosts", "resolv.conf", "source/file"} {
		s.write(file, []byte("x\n"))
	}
	return s
}

func (s *sandbox) write(name string, content []byte) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, content, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // the probe has to be executable for the test user
		s.t.Fatal(err)
	}
}

// input is a container of the probe in the sandbox's root filesystem.
func (s *sandbox) input(spec *container.Spec) Input {
	in := newInput(spec)
	in.Rootfs = filepath.Join(s.dir, "rootfs")
	in.HostnamePath, in.HostsPath = filepath.Join(s.dir, "hostname"), filepath.Join(s.dir, "hosts")
	in.ResolvConf = filepath.Join(s.dir, "resolv.conf")
	in.User.Home = "/"
	return in
}

// run writes the bundle and runs script, in which $crun stands for the runtime and $dir for the sandbox's folder.
func (s *sandbox) run(spec *specs.Spec, script string) ([]byte, error) {
	s.t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("bundle/config.json", raw)
	script = `mount -t tmpfs none /sys/fs/cgroup || exit 9
crun="crun --cgroup-manager=disabled --root $dir/state"
` + script
	cmd := exec.CommandContext(s.t.Context(), "unshare", "-Urmpf", "--mount-proc", "sh", "-c", script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "dir=" + s.dir, "XDG_RUNTIME_DIR=" + s.dir}
	cmd.Dir = s.dir
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if stderr.Len() > 0 {
		s.t.Logf("stderr: %s", bytes.TrimSpace(stderr.Bytes()))
	}
	return out, err
}

// probe runs the container and returns the lines of its status file and the results of its calls.
func (s *sandbox) probe(spec *specs.Spec) (status map[string]string, results map[string]int64) {
	s.t.Helper()
	out, err := s.run(spec, `exec $crun run --no-new-keyring -b "$dir/bundle" probe`)
	if err != nil || len(out) != probeStatus+8*len(s.tries) {
		s.t.Fatalf("probe printed %d bytes, %v", len(out), err)
	}
	status, results = map[string]string{}, map[string]int64{}
	for line := range strings.Lines(string(out[:probeStatus])) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.TrimSpace(value)
	}
	for i, try := range s.tries {
		results[try.name] = int64(binary.LittleEndian.Uint64(out[probeStatus+8*i:]))
	}
	return status, results
}

// TestSeccompInCrun proves with the real runtime and kernel that the filter is there and refuses what it must, compiled
// by the runtime and precompiled, and that a runtime that ignores the annotation runs nothing.
func TestSeccompInCrun(t *testing.T) {
	s := newSandbox(t)
	build := func(host string) *specs.Spec {
		spec, err := newBuilder(t, Options{SingleID: true}).Build(s.input(newSpec(t, `{"Cmd":["/probe"]}`, host)))
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	check := func(name string, spec *specs.Spec) {
		t.Helper()
		status, results := s.probe(spec)
		for field, want := range map[string]string{
			"Seccomp": "2", "CapInh": "0000000000000000", "CapAmb": "0000000000000000", "CapBnd": "00000000a80425fb",
			"CapEff": "00000000a80425fb", "CapPrm": "00000000a80425fb", "NoNewPrivs": "0",
		} {
			if status[field] != want {
				t.Errorf("%s: %s = %s, want %s", name, field, status[field], want)
			}
		}
		refused := -int64(unix.EPERM)
		for call, want := range map[string]int64{
			"AF_ALG": refused, "AF_VSOCK": refused, "keyctl": refused, "AF_ALG (32 bit)": refused,
			"AF_ALG by socketcall (32 bit)": -int64(unix.ENOSYS),
		} {
			if got, tried := results[call]; got != want && (tried || !strings.Contains(call, "32 bit")) {
				t.Errorf("%s: %s = %d, want %d", name, call, got, want)
			}
		}
		for _, call := range []string{"AF_INET", "getpid (32 bit)"} {
			if got, tried := results[call]; got <= 0 && (tried || !strings.Contains(call, "32 bit")) {
				t.Errorf("%s: %s = %d, want success", name, call, got)
			}
		}
	}
	const none = `{"NetworkMode":"none"}`
	check("compiled by crun", build(none))

	spec := build(none)
	bpf, err := s.run(spec, `$crun create --no-new-keyring -b "$dir/bundle" probe >/dev/null </dev/null || exit
cat "$dir/state/probe/seccomp.bpf"; $crun delete -f probe`)
	if err != nil || len(bpf) < 8 || len(bpf)%8 != 0 {
		t.Fatalf("crun left %d bytes of filter, %v", len(bpf), err)
	}
	UseCompiledSeccomp(spec, bpf)
	check("precompiled", spec)

	spec.Annotations = nil // a runtime that does not know it
	if out, err := s.run(spec, `exec $crun run --no-new-keyring -b "$dir/bundle" probe`); err == nil || len(out) > 0 {
		t.Errorf("without the annotation the container ran: %d bytes, %v", len(out), err)
	}

	status, results := s.probe(build(`{"NetworkMode":"none","SecurityOpt":["seccomp=unconfined","no-new-privileges"]}`))
	if status["Seccomp"] != "0" || status["NoNewPrivs"] != "1" {
		t.Errorf("unconfined: Seccomp %s, NoNewPrivs %s", status["Seccomp"], status["NoNewPrivs"])
	}
	for call, result := range results { // or what is refused above is refused for another reason
		if result == -int64(unix.EPERM) || result == -int64(unix.ENOSYS) {
			t.Errorf("unconfined: %s = %d", call, result)
		}
	}
}

// TestEmulatedIDs asks the runtime and the kernel what a process without any id but root's sees.
func TestEmulatedIDs(t *testing.T) {
	s := newSandbox(t)
	s.tries = possibleTries(t, idTries())
	s.write("rootfs/probe", newProbe(s.tries))
	for _, tc := range []struct {
		name    string
		emulate bool
		host    string
		fail    []string // what fails beside the chown of nothing
	}{
		{"emulated", true, "", nil},
		{"not emulated", false, "", []string{"chown to another", "set"}},
		{"without CHOWN", true, `,"CapDrop":["CHOWN"]`, []string{"chown to another"}},
		{"without SETUID", true, `,"CapDrop":["SETUID"]`, []string{"setuid", "seteuid"}},
		{"without SETGID", true, `,"CapDrop":["SETGID"]`, []string{"setregid", "setgroups"}},
		{"unconfined", true, `,"SecurityOpt":["seccomp=unconfined"]`, []string{"chown to another", "set"}},
	} {
		spec, err := newBuilder(t, Options{SingleID: true, EmulateIDs: tc.emulate}).
			Build(s.input(newSpec(t, `{"Cmd":["/probe"]}`, `{"NetworkMode":"none"`+tc.host+`}`)))
		if err != nil {
			t.Fatal(err)
		}
		_, results := s.probe(spec)
		for call, got := range results {
			fails := slices.ContainsFunc(tc.fail, func(prefix string) bool { return strings.HasPrefix(call, prefix) })
			if strings.Contains(call, "nothing") {
				if got != -int64(unix.ENOENT) {
					t.Errorf("%s: %s = %d, want -ENOENT", tc.name, call, got)
				}
			} else if fails != (got < 0) || got > 0 {
				t.Errorf("%s: %s = %d, want a failure: %t", tc.name, call, got, fails)
			}
		}
	}
}

// TestSpecsRunInCrun starts what the golden files show.
func TestSpecsRunInCrun(t *testing.T) {
	s := newSandbox(t)
	source := filepath.Join(s.dir, "source")
	for _, tc := range []struct {
		name, config, host string
		opt                Options
	}{
		{name: "none", host: `{"NetworkMode":"none"}`},
		{name: "names", config: `{"Cmd":["/probe"],"Hostname":"web","Domainname":"example"}`, host: `{"NetworkMode":"none"}`},
		{name: "host network", host: `{"NetworkMode":"host"}`},
		{name: "host everything", host: `{"NetworkMode":"host","PidMode":"host","IpcMode":"host","UTSMode":"host"}`},
		{name: "readonly", host: `{"NetworkMode":"none","ReadonlyRootfs":true,"IpcMode":"none"}`},
		{name: "no capabilities", host: `{"NetworkMode":"none","CapDrop":["ALL"],"SecurityOpt":["no-new-privileges"]}`},
		{
			name: "privileged", host: `{"NetworkMode":"none","Privileged":true,"Devices":[{"PathOnHost":"/dev/null","PathInContainer":"/dev/my/null"}]}`,
			opt: Options{HostDevices: []string{"/dev/null", "/dev/zero"}},
		},
		{
			name: "binds", opt: Options{RecursiveReadOnly: true, IsDir: func(path string) bool { return path == source }},
			host: `{"NetworkMode":"none","Binds":["` + source + `:/a/b:ro","` + source + `:/a:rslave","` + source + `/file:/etc/hosts:ro"],
				"Tmpfs":{"/run":"size=64k,mode=755"},"ShmSize":65536}`,
		},
		{name: "sysctls and ulimits", host: `{"NetworkMode":"none","Sysctls":{"net.ipv4.ip_forward":"1","kernel.shmmax":"65536"},
			"Ulimits":[{"Name":"nofile","Soft":64,"Hard":128},{"Name":"core","Soft":0,"Hard":0}],"OomScoreAdj":1000}`},
		{name: "nofile", host: `{"NetworkMode":"none"}`, opt: Options{Nofile: 256}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.config == "" {
				tc.config = `{"Cmd":["/probe"]}`
			}
			tc.opt.SingleID = true
			in := s.input(newSpec(t, tc.config, tc.host))
			in.Spec.Config.WorkingDir = "/etc"
			spec, err := newBuilder(t, tc.opt).Build(in)
			if err != nil {
				t.Fatal(err)
			}
			sub := &sandbox{t: t, dir: s.dir, tries: s.tries}
			status, _ := sub.probe(spec)
			if !strings.Contains(status["Name"], "probe") {
				t.Errorf("status of the container's process: %v", status)
			}
		})
	}
}
