package container

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
	"moss/engine/logdriver"
)

// Restart is a checked restart policy (API document 1, 2.3).
type Restart struct {
	Name       string // RestartNo and its siblings
	MaxRetries int    // of on-failure; 0 is unlimited
}

// The restart policies.
const (
	RestartNo            = "no"
	RestartAlways        = "always"
	RestartUnlessStopped = "unless-stopped"
	RestartOnFailure     = "on-failure"
)

// Log is a checked log configuration.
type Log struct {
	Driver   logdriver.Driver
	MaxSize  int64 // bytes of one file before it is rotated; 0 is unlimited
	MaxFiles int   // files kept, the current one included; at least 1
	Compress bool  // older files are packed
	// Buffer is how many bytes of output wait for the log before lines are dropped (mode non-blocking); 0: the container
	// waits for the log.
	Buffer int64
	Attrs  LogAttrs
	// Options are those of a driver with a receiver, and Cache reports whether it keeps a copy here, with the bounds above.
	Options map[string]string
	Cache   bool
}

// checkRestart checks the restart policy. An empty name means no.
func checkRestart(d *draft) error {
	p := d.Host.RestartPolicy
	d.Restart = Restart{Name: p.Name, MaxRetries: p.MaximumRetryCount}
	switch p.Name {
	case "", RestartNo:
		d.Restart.Name = RestartNo
	case RestartAlways, RestartUnlessStopped, RestartOnFailure:
		if d.Host.AutoRemove {
			return fault.Invalid("can't create 'AutoRemove' container with restart policy")
		}
	default:
		return fault.Invalid("invalid restart policy '%s': expected no, always, unless-stopped or on-failure", p.Name)
	}
	if p.MaximumRetryCount < 0 {
		return fault.Invalid("invalid MaximumRetryCount %d: maximum retry count cannot be negative", p.MaximumRetryCount)
	}
	if p.MaximumRetryCount > 0 && p.Name != RestartOnFailure {
		return fault.Invalid("maximum retry count cannot be used with restart policy '%s'", d.Restart.Name)
	}
	return nil
}

// checkLog checks the log driver and its options.
func checkLog(d *draft) (err error) {
	c := &d.Host.LogConfig
	if d.Log, err = newLog(*c); err != nil {
		return err
	}
	c.Type = d.Log.Driver.Name
	return d.Log.Attrs.checkSize(&d.Config)
}

// CheckLogConfig returns why no container can have a log configuration; nil if one can. The error is fault.Invalid and names
// the driver or the option.
func CheckLogConfig(c LogConfig) error {
	_, err := newLog(c)
	return err
}

// WithDefaults returns a log configuration with the engine's default driver, and with its default options where the driver
// is that one.
func (c LogConfig) WithDefaults(defaults LogConfig) LogConfig {
	c.Type = cmp.Or(c.Type, defaults.Type)
	if c.Type == defaults.Type {
		c.Config = mergeMaps(defaults.Config, c.Config)
	}
	return c
}

// newLog returns a checked log configuration.
func newLog(c LogConfig) (Log, error) {
	driver, err := logdriver.Find(c.Type)
	if err != nil {
		return Log{}, err
	}
	l := Log{Driver: driver, MaxFiles: 1}
	if driver.Writes == logdriver.Nowhere {
		return l, nil
	}
	options := mergeMaps(driver.Defaults, c.Config)
	if driver.Writes == logdriver.Remote {
		if err := l.setCache(options); err != nil {
			return l, err
		}
	}
	for key, value := range options {
		known, err := l.Attrs.setOption(key, value)
		switch {
		case driver.SendsOption(key):
			l.Options[key] = value
		case known:
		case slices.Contains(driver.AllOptions(), key):
			err = l.setOption(key, value)
		default:
			all := strings.Join(driver.AllOptions(), ", ")
			err = fault.Invalid("unknown log opt '%s' for %s log driver: it takes %s", key, driver.Name, all)
		}
		if err != nil {
			return l, err
		}
	}
	if l.Compress && (l.MaxFiles < 2 || l.MaxSize == 0) {
		if _, asked := c.Config["compress"]; asked {
			return l, fault.Invalid("invalid log opt 'compress': it cannot be true when max-file is less than 2 or max-size is not set")
		}
		l.Compress = false
	}
	if driver.Check != nil {
		if err := driver.Check(l.Options); err != nil {
			return l, err
		}
	}
	if err := l.setBuffer(options["mode"], options["max-buffer-size"]); err != nil {
		return l, err
	}
	if driver.Buffer != nil && options["mode"] == "" {
		l.Buffer = driver.Buffer(l.Options)
	}
	return l, nil
}

// setCache takes the options about the copy that a driver with a receiver keeps. There is none unless cache-disabled is false.
func (l *Log) setCache(options map[string]string) (err error) {
	l.Options, l.MaxSize, l.MaxFiles, l.Compress = map[string]string{}, 20_000_000, 5, true
	for _, key := range logdriver.CacheOptions {
		value, set := options[key]
		if !set {
			continue
		}
		if key == "cache-disabled" {
			disabled, err := strconv.ParseBool(value)
			if err != nil {
				return fault.Invalid("invalid value %q of log opt '%s': want true or false", value, key)
			}
			l.Cache = !disabled
			continue
		}
		if err := l.setFileOption(strings.TrimPrefix(key, "cache-"), key, value); err != nil {
			return err
		}
	}
	return nil
}

// defaultBuffer and mostBuffer are bytes of output that wait for a log in mode non-blocking.
const (
	defaultBuffer = 1 << 20
	mostBuffer    = 1 << 30
)

// setBuffer takes the options about output that the log does not take in time. Units are powers of 1024, as with memory.
func (l *Log) setBuffer(mode, size string) error {
	switch mode {
	case "non-blocking":
		l.Buffer = defaultBuffer
	case "", "blocking":
		if size != "" {
			return fault.Invalid("invalid log opt 'max-buffer-size': it is only supported with 'mode=non-blocking'")
		}
		return nil
	default:
		return fault.Invalid("invalid value %q of log opt 'mode': want blocking or non-blocking", mode)
	}
	if size == "" {
		return nil
	}
	n, err := parseLogSize(size, 1024)
	if err != nil || n < 1 || n > mostBuffer {
		return fault.Invalid("invalid value %q of log opt 'max-buffer-size': want a size up to 1g", size)
	}
	l.Buffer = n
	return nil
}

// LogReadable reports whether the log of a container can be read.
func (r *Record) LogReadable() bool { return r.LogDriver().Readable || r.LogPath != "" }

// LogDriver returns the driver of a container's log. One that this version does not know writes nowhere.
func (r *Record) LogDriver() logdriver.Driver {
	driver, _ := logdriver.Find(r.Host.LogConfig.Type)
	return driver
}

// setOption takes an option that stands alone. Those about the copy were taken before.
func (l *Log) setOption(key, value string) error { return l.setFileOption(key, key, value) }

// setFileOption takes an option about the files of a log, which has another name for a copy.
func (l *Log) setFileOption(option, key, value string) (err error) {
	switch option {
	case "max-size":
		l.MaxSize, err = parseLogSize(value, 1000)
	case "max-file":
		l.MaxFiles, err = strconv.Atoi(value)
		if err == nil && (l.MaxFiles < 1 || l.MaxFiles > 10000) {
			err = strconv.ErrRange
		}
	case "compress":
		l.Compress, err = strconv.ParseBool(value)
	}
	if err != nil {
		return fault.Invalid("invalid value %q of log opt '%s'", value, key)
	}
	return nil
}

// parseLogSize reads a size with a unit: 500, 10k, 10m, 1g, 10MB. Units are powers of base. -1 is unlimited, 0.
func parseLogSize(s string, base float64) (int64, error) {
	if s == "-1" {
		return 0, nil
	}
	number := strings.TrimRight(s, " kKmMgGtTbB")
	unit := strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s[len(number):])), "b")
	power := strings.Index(" kmgt", cmp.Or(unit, " "))
	size, err := strconv.ParseFloat(number, 64)
	size *= math.Pow(base, float64(power))
	if err != nil || len(unit) > 1 || power < 0 || !(size > 0 && size < 1<<62) {
		return 0, fault.Invalid("invalid size %q", s)
	}
	return int64(size), nil
}

// ulimitNames are the limits the kernel has.
func ulimitNames() []string {
	return []string{
		"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
		"rttime", "sigpending", "stack",
	}
}

const (
	// minFileSize is the smallest limit of file sizes in bytes: crun (1.8) writes its state and the compiled seccomp filter when
	// the limit holds already, and the kernel's largest filter has 4096 instructions of 8 bytes.
	minFileSize = 4096 * 8
	// minOpenFiles is the smallest limit of open files beside one for each mount: crun (1.8) keeps up to 29 of its own open when
	// the limit holds already, 9 of them for hierarchies of cgroup v1, of which there can be more, and one for each read-only
	// mount. runc (1.1) is content with 12.
	minOpenFiles = 48
)

// checkUlimits checks names and bounds. -1 is unlimited. The last of several of one name counts.
func checkUlimits(d *draft) error {
	for _, u := range d.Host.Ulimits {
		u.Name = strings.ToLower(strings.TrimPrefix(strings.ToUpper(u.Name), "RLIMIT_"))
		if !slices.Contains(ulimitNames(), u.Name) {
			return fault.Invalid("invalid ulimit type: %s", u.Name)
		}
		if u.Soft < -1 || u.Hard < -1 {
			return fault.Invalid("invalid ulimit %s=%d:%d: a limit is -1 for unlimited or a number", u.Name, u.Soft, u.Hard)
		}
		if u.Hard != -1 && (u.Soft == -1 || u.Soft > u.Hard) {
			return fault.Invalid("invalid ulimit %s: ulimit soft limit must be less than or equal to hard limit: %d > %d", u.Name,
				u.Soft, u.Hard)
		}
		d.raiseUlimit(&u)
		same := func(earlier Ulimit) bool { return earlier.Name == u.Name }
		d.Ulimits = append(slices.DeleteFunc(d.Ulimits, same), u)
	}
	return nil
}

// raiseUlimit raises a limit under which the runtime cannot start the container, and warns of it.
func (d *draft) raiseUlimit(u *Ulimit) {
	var least int64
	var why string
	switch u.Name {
	case "fsize":
		least, why = minFileSize, "writes files under it"
	case "nofile":
		mounts := len(d.Binds) + len(d.Volumes) + len(d.Images) + len(d.Tmpfs)
		least, why = minOpenFiles+int64(mounts), "opens files under it"
	}
	if u.Soft < 0 || u.Soft >= least {
		return
	}
	d.addWarning("Ulimits: %s=%d:%d is too small for the runtime, which %s: %d is used.", u.Name, u.Soft, u.Hard, why, least)
	u.Soft = least
	if u.Hard != -1 {
		u.Hard = max(u.Hard, least)
	}
}

// checkDevices checks device strings. Without a device cgroup only full access can be given: anything less is warned of.
func checkDevices(d *draft) error {
	for _, dev := range d.Host.Devices {
		if dev.PathInContainer == "" {
			dev.PathInContainer = dev.PathOnHost
		}
		if dev.CgroupPermissions == "" {
			dev.CgroupPermissions = "rwm"
		}
		if !isHostPath(dev.PathOnHost) {
			return fault.Invalid("invalid device %q: PathOnHost must be an absolute path", dev.PathOnHost)
		}
		if !isHostPath(dev.PathInContainer) || path.Clean(dev.PathInContainer) == "/" {
			return fault.Invalid("invalid device %q: PathInContainer must be an absolute path", dev.PathInContainer)
		}
		if strings.Trim(dev.CgroupPermissions, "rwm") != "" {
			return fault.Invalid("invalid device mode: %s", dev.CgroupPermissions)
		}
		if strings.Trim("rwm", dev.CgroupPermissions) != "" {
			d.addWarning("CgroupPermissions %s of device %s cannot be enforced: the container has all the access its user has.",
				dev.CgroupPermissions, dev.PathOnHost)
		}
		dev.PathOnHost, dev.PathInContainer = path.Clean(dev.PathOnHost), path.Clean(dev.PathInContainer)
		d.Devices = append(d.Devices, dev)
	}
	return nil
}
