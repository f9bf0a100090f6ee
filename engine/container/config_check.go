package container

import (
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

const (
	// maxHostname is what a host name may have at most (RFC 1123, 2.1).
	maxHostname = 63
	// maxKernelName is what the kernel takes as one.
	maxKernelName = 64
)

// checkNames checks host name, domain name, user and label-like strings.
func checkNames(d *draft) error {
	c := &d.Config
	if err := CheckHostname(c.Hostname); err != nil {
		return err
	}
	if c.Domainname != "" && !IsHostname(c.Domainname) {
		return fault.Invalid("invalid domainname format: %s", c.Domainname)
	}
	if err := checkUser(d); err != nil {
		return err
	}
	for _, group := range d.Host.GroupAdd {
		if group == "" || strings.ContainsFunc(group, notInAccount) {
			return fault.Invalid("invalid GroupAdd %q: not a group name or number", group)
		}
	}
	if _, empty := d.Host.Annotations[""]; empty {
		return fault.Invalid("invalid Annotations: the empty string is not permitted as an annotation key")
	}
	if adj := d.Host.OomScoreAdj; adj < -1000 || adj > 1000 {
		return fault.Invalid("invalid OomScoreAdj %d: range for oom score adj is [-1000, 1000]", adj)
	} else if adj < 0 {
		d.addWarning("OomScoreAdj %d: an ordinary user cannot go below the engine's own value, which is used if it is higher.", adj)
	}
	return nil
}

// CheckHostname returns why no container can have a host name, nil if one can or the name is empty. The error is fault.Invalid.
func CheckHostname(name string) error {
	if len(name) > maxKernelName || strings.ContainsFunc(name, notInHosts) {
		return fault.Invalid("invalid hostname format: %s", name)
	}
	return nil
}

// checkUser reads who the container runs as.
func checkUser(d *draft) (err error) {
	d.User, err = ParseUser(d.Config.User)
	return err
}

// notInHosts reports whether a host name must not have a sign: kernels would take it, the files that the name is written to
// would not.
func notInHosts(r rune) bool {
	return r > 0x7f || !isAlnum(byte(r)) && r != '-' && r != '_' && r != '.'
}

// IsHostname follows RFC 1123: up to 63 signs in labels of letters, digits and inner hyphens, separated by dots. Clients of
// old have other names for containers, such as a_b.
func IsHostname(s string) bool {
	if len(s) > maxHostname {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxHostname || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isAlnum(label[i]) && label[i] != '-' {
				return false
			}
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// checkCommand needs something to run, and a working folder that is a path of the container.
func checkCommand(d *draft) error {
	if len(d.Args) == 0 {
		return fault.Invalid("No command specified")
	}
	if err := CheckArgs("Cmd or Entrypoint", d.Args); err != nil {
		return err
	}
	if d.Args[0] == "" {
		return fault.Invalid("No command specified: the first argument is empty")
	}
	var err error
	d.Config.WorkingDir, err = ParseWorkingDir(d.Config.WorkingDir)
	return err
}

// ParseWorkingDir returns a working folder in its shortest form; none is empty. Errors are fault.Invalid and name the field.
func ParseWorkingDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if !path.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return "", fault.Invalid("WorkingDir: the working directory '%s' is invalid, it needs to be an absolute path", dir)
	}
	dir = path.Clean(dir)
	if dir == "/proc" || strings.HasPrefix(dir, "/proc/") { // descriptors of the runtime would be reachable there
		return "", fault.Invalid("WorkingDir: the working directory '%s' is invalid, it cannot be under /proc", dir)
	}
	return dir, nil
}

// CheckArgs refuses what cannot be the argument of a program. Errors are fault.Invalid and begin with the field.
func CheckArgs(field string, args []string) error {
	for _, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return fault.Invalid("invalid %s: %q holds a zero byte", field, arg)
		}
		if len(arg) >= maxArg() {
			return fault.Invalid("invalid %s: an argument has %d bytes, the kernel takes fewer than %d", field, len(arg), maxArg())
		}
	}
	return nil
}

// maxArg is what an argument or a variable may have at most in bytes, its final zero included (execve(2)).
func maxArg() int { return 32 * unix.Getpagesize() }

// checkEnv checks the merged environment.
func checkEnv(d *draft) error {
	d.Env = d.Config.Env
	return CheckEnv(d.Env)
}

// CheckEnv refuses entries that cannot be variables. Errors are fault.Invalid and name the field.
func CheckEnv(entries []string) error {
	for _, entry := range entries {
		if entry == "" || entry[0] == '=' {
			return fault.Invalid("Env: invalid environment variable: %s", entry)
		}
		if strings.ContainsRune(entry, 0) {
			return fault.Invalid("Env: invalid environment variable: %q holds a zero byte", entry)
		}
		if len(entry) >= maxArg() {
			return fault.Invalid("Env: invalid environment variable: %.40q has %d bytes, the kernel takes fewer than %d", entry,
				len(entry), maxArg())
		}
	}
	return nil
}

// checkStop parses what a stop needs.
func checkStop(d *draft) error {
	d.StopSignal = int(unix.SIGTERM)
	if s := d.Config.StopSignal; s != "" {
		n, err := ParseSignal(s)
		if err != nil {
			return prefixField("StopSignal", err)
		}
		d.StopSignal = n
	}
	d.StopTimeout = DefaultStopTimeout
	if t := d.Config.StopTimeout; t != nil {
		const longest = 1 << 31 // seconds; keeps the duration within its range
		if *t > longest {
			return fault.Invalid("invalid StopTimeout %d: it can be %d seconds at most", *t, longest)
		}
		d.StopTimeout = time.Duration(max(*t, -1)) * time.Second
	}
	return nil
}
