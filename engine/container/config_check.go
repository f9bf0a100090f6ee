package container

import (
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// minHealthInterval is the shortest period of a health check that is not "inherit" (API document 3, section 8).
const minHealthInterval = time.Millisecond

// checkHealth refuses health checks, which come later; an image's is harmless to leave out and only warned of.
func checkHealth(d *draft) error {
	asked := d.Config.Healthcheck
	if asked != nil {
		for _, period := range []struct {
			field string
			value time.Duration
		}{{"Interval", asked.Interval}, {"Timeout", asked.Timeout}, {"StartPeriod", asked.StartPeriod}} {
			if period.value != 0 && period.value < minHealthInterval {
				return fault.Invalid("%s in Healthcheck cannot be less than one millisecond: %s", period.field, period.value)
			}
		}
		if asked.Retries < 0 {
			return fault.Invalid("Retries in Healthcheck cannot be negative: %d", asked.Retries)
		}
		if len(asked.Test) > 0 {
			switch asked.Test[0] {
			case "NONE":
				return nil
			case "CMD", "CMD-SHELL":
				return unsupported("Healthcheck", asked.Test)
			default:
				return fault.Invalid("Unknown type %q in Healthcheck.Test, only NONE, CMD and CMD-SHELL are allowed", asked.Test[0])
			}
		}
	}
	if h := d.img.Healthcheck; h != nil && len(h.Test) > 0 && h.Test[0] != "NONE" {
		d.warn("The image's health check is not run: health checks are not supported yet.")
	}
	return nil
}

// maxHostname is what a host name may have at most (RFC 1123, 2.1).
const maxHostname = 63

// checkNames checks host name, domain name, user and label-like strings.
func checkNames(d *draft) error {
	c := &d.Config
	if c.Hostname != "" && (len(c.Hostname) > maxHostname || !isHostname(c.Hostname)) {
		return fault.Invalid("invalid hostname format: %s", c.Hostname)
	}
	if c.Domainname != "" && (len(c.Domainname) > maxHostname || !isHostname(c.Domainname)) {
		return fault.Invalid("invalid domainname format: %s", c.Domainname)
	}
	user, err := ParseUser(c.User)
	if err != nil {
		return err
	}
	d.User = user
	for _, group := range d.Host.GroupAdd {
		if group == "" || strings.ContainsFunc(group, notInAccount) {
			return fault.Invalid("invalid GroupAdd %q: not a group name or number", group)
		}
	}
	if adj := d.Host.OomScoreAdj; adj < -1000 || adj > 1000 {
		return fault.Invalid("Invalid value %d, range for oom score adj is [-1000, 1000]", adj)
	} else if adj < 0 {
		d.warn("OomScoreAdj %d: an ordinary user cannot go below the engine's own value, which is used if it is higher.", adj)
	}
	return nil
}

// isHostname follows RFC 1123: labels of letters, digits and inner hyphens, separated by dots.
func isHostname(s string) bool {
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
	for _, arg := range d.Args {
		if strings.ContainsRune(arg, 0) {
			return fault.Invalid("invalid Cmd or Entrypoint: %q holds a zero byte", arg)
		}
	}
	if d.Args[0] == "" {
		return fault.Invalid("No command specified: the first argument is empty")
	}
	dir := d.Config.WorkingDir
	if dir == "" {
		return nil
	}
	if !path.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return fault.Invalid("the working directory '%s' is invalid, it needs to be an absolute path", dir)
	}
	dir = path.Clean(dir)
	if dir == "/proc" || strings.HasPrefix(dir, "/proc/") { // descriptors of the runtime would be reachable there
		return fault.Invalid("the working directory '%s' is invalid, it cannot be under /proc", dir)
	}
	d.Config.WorkingDir = dir
	return nil
}

// checkEnv checks the merged environment.
func checkEnv(d *draft) error {
	for _, entry := range d.Config.Env {
		if entry[0] == '=' {
			return fault.Invalid("invalid environment variable: %s", entry)
		}
		if strings.ContainsRune(entry, 0) {
			return fault.Invalid("invalid environment variable: %q holds a zero byte", entry)
		}
	}
	d.Env = d.Config.Env
	return nil
}

// checkStop parses what a stop needs.
func checkStop(d *draft) error {
	d.StopSignal = int(unix.SIGTERM)
	if s := d.Config.StopSignal; s != "" {
		n, err := ParseSignal(string(s))
		if err != nil {
			return err
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
