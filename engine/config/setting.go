package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moss/engine/fault"
)

// Setting describes one setting for the help text and the manual, and for making the command line's flags.
type Setting struct {
	Key     string // of the file; also the flag's name
	Env     string // the environment variable
	Usage   string
	Allowed string // values, for people
	Many    bool   // takes several values: a repeated flag, a list in the file, commas in the environment
	Switch  bool   // is true or false
}

// Settings lists all settings in a fixed order.
func Settings() []Setting {
	all := allSettings()
	out := make([]Setting, 0, len(all))
	for _, s := range all {
		out = append(out, Setting{
			Key: s.key, Env: s.env, Usage: s.usage, Allowed: s.allowed, Many: s.many, Switch: s.allowed == allowedBool,
		})
	}
	return out
}

// setting is one row of the table that everything here works from.
type setting struct {
	key, env, usage, allowed string
	many                     bool
	// set stores the values (one, unless many) in cfg; the error's text may be empty where allowed says it all.
	set func(cfg *Config, values []string, env func(string) string) error
}

const (
	allowedBool = "true or false"
	allowedPath = "an absolute path"

	// The bounds of MTU: what every IPv4 host must take, and the most that slirp4netns takes (65521) rounded down to a
	// multiple of eight.
	minMTU, maxMTU = 576, 65520
)

// errNotAllowed stands for "see what is allowed".
var errNotAllowed = errors.New("")

// allSettings returns all settings.
func allSettings() []setting {
	return slices.Concat(engineSettings(), hostSettings(), apiSettings(), containerSettings(), registrySettings(), buildSettings(),
		swarmSettings())
}

// engineSettings are about the engine itself.
func engineSettings() []setting {
	return []setting{
		{
			"root", "MOSS_ROOT", "folder of images, containers and volumes", allowedPath, false,
			func(c *Config, v []string, env func(string) string) error { return setPath(&c.Root, v[0], env) },
		},
		{
			"run-dir", "MOSS_RUN_DIR", "folder of the state of this boot: sockets, running containers", allowedPath, false,
			func(c *Config, v []string, env func(string) string) error { return setPath(&c.RunDir, v[0], env) },
		},
		{
			"label", "MOSS_LABELS", "label of the engine, shown by info; may be given several times", "KEY=VALUE, each key once", true,
			func(c *Config, v []string, _ func(string) string) error { return setPairs(&c.Labels, v) },
		},
		{
			"log-level", "MOSS_LOG_LEVEL", "lowest level of the engine's log", "debug, info, warn or error", false,
			func(c *Config, v []string, _ func(string) string) error {
				return setChoice(&c.LogLevel, v[0], "debug", "info", "warn", "error")
			},
		},
		{
			"log-format", "MOSS_LOG_FORMAT", "format of the engine's log", "text or json", false,
			func(c *Config, v []string, _ func(string) string) error {
				return setChoice(&c.LogFormat, v[0], "text", "json")
			},
		},
		{
			"debug-profiles", "MOSS_DEBUG_PROFILES", "serve the engine's profiles and traces to 'moss debug', over the unix " +
				"socket and to you only", allowedBool, false,
			func(c *Config, v []string, _ func(string) string) error { return setBool(&c.DebugProfiles, v[0]) },
		},
	}
}

// containerSettings are about what containers get.
func containerSettings() []setting {
	return []setting{
		{
			"network-driver", "MOSS_NETWORK_DRIVER", "driver of the containers' uplink",
			"slirp4netns, pasta, gvisor-tap-vsock, none, or auto for the fastest that works", false,
			func(c *Config, v []string, _ func(string) string) error {
				return setChoice(&c.NetworkDriver, v[0], NetworkSlirp4netns, NetworkPasta, NetworkGvisor, NetworkNone, NetworkAuto)
			},
		},
		{
			"mtu", "MOSS_MTU", "MTU of the containers' network in bytes", "0 (the driver's own) or 576 to 65520", false,
			func(c *Config, v []string, _ func(string) string) error { return setMTU(&c.MTU, v[0]) },
		},
		{
			"host-loopback", "MOSS_HOST_LOOPBACK", "let containers reach the host's loopback", allowedBool, false,
			func(c *Config, v []string, _ func(string) string) error { return setBool(&c.HostLoopback, v[0]) },
		},
		{
			"http-proxy", "MOSS_HTTP_PROXY", "give containers and builds the proxies of the engine's environment", allowedBool, false,
			func(c *Config, v []string, _ func(string) string) error { return setBool(&c.HTTPProxy, v[0]) },
		},
		{
			"log-driver", "MOSS_LOG_DRIVER", "log driver of containers that name none (default json-file)",
			"the name of a log driver", false,
			func(c *Config, v []string, _ func(string) string) error { return setWord(&c.LogDriver, v[0]) },
		},
		{
			"log-opt", "MOSS_LOG_OPTS", "option of that log driver; may be given several times", "KEY=VALUE, each key once", true,
			func(c *Config, v []string, _ func(string) string) error { return setPairs(&c.LogOptions, v) },
		},
		{
			"runtime", "MOSS_RUNTIME", "OCI runtime", "auto, a program's name or an absolute path", false,
			func(c *Config, v []string, _ func(string) string) error { return setRuntime(&c.Runtime, v[0]) },
		},
		{
			"storage-driver", "MOSS_STORAGE_DRIVER", "storage driver", "auto, overlay, fuse-overlayfs or vfs", false,
			func(c *Config, v []string, _ func(string) string) error {
				return setChoice(&c.StorageDriver, orAuto(v[0]), "", "overlay", "fuse-overlayfs", "vfs")
			},
		},
		{
			"emulate-ids", "MOSS_EMULATE_IDS", "without sub-ids: let chown, setgroups, setuid and the like succeed in containers, " +
				"without effect (default true)", allowedBool, false,
			func(c *Config, v []string, _ func(string) string) error { return setBool(&c.EmulateIDs, v[0]) },
		},
	}
}

// sources are the places where a setting may come from, the weakest first.
type sources struct {
	file     map[string][]string
	fileName string
	env      func(string) string
	flags    map[string][]string
}

// applySources stores the setting from each source that has it; the last stands. All are checked, so that a mistake shows
// before the day on which the stronger source is gone.
func (s setting) applySources(cfg *Config, src sources) error {
	if values, ok := src.file[s.key]; ok {
		if err := s.storeValues(cfg, values, src.env, "configuration "+src.fileName+": "+s.key); err != nil {
			return err
		}
	}
	if text := src.env(s.env); text != "" {
		values := []string{text}
		if s.many {
			values = strings.Split(text, ",")
		}
		if err := s.storeValues(cfg, values, src.env, "environment: "+s.env); err != nil {
			return err
		}
	}
	if values := src.flags[s.key]; len(values) > 0 {
		if !s.many {
			values = values[len(values)-1:]
		}
		return s.storeValues(cfg, values, src.env, "command line: --"+s.key)
	}
	return nil
}

// storeValues stores the values of one source, which where names in an error.
func (s setting) storeValues(cfg *Config, values []string, env func(string) string, where string) error {
	err := s.set(cfg, values, env)
	if err == nil {
		return nil
	}
	reason := ""
	if !errors.Is(err, errNotAllowed) {
		reason = ": " + err.Error()
	}
	return fault.Invalid("%s: %q is not allowed%s; want %s", where, strings.Join(values, ","), reason, s.allowed)
}

// findSetting returns the setting with a key.
func findSetting(key string) (setting, bool) {
	all := allSettings()
	i := slices.IndexFunc(all, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return all[i], true
}

func keyList() string {
	all := allSettings()
	keys := make([]string, 0, len(all))
	for _, s := range all {
		keys = append(keys, s.key)
	}
	return strings.Join(keys, ", ")
}

func unknownFlag(flags map[string][]string) error {
	for key := range flags {
		if _, ok := findSetting(key); !ok {
			return fault.Invalid("command line: unknown setting %q", key)
		}
	}
	return nil
}

func setPath(to *string, value string, env func(string) string) error {
	if rest, ok := strings.CutPrefix(value, "~/"); ok && filepath.IsAbs(env("HOME")) {
		value = filepath.Join(env("HOME"), rest)
	}
	if !filepath.IsAbs(value) || strings.ContainsRune(value, 0) {
		return errNotAllowed
	}
	*to = filepath.Clean(value)
	return nil
}

func setBool(to *bool, value string) error {
	switch value {
	case "true", "1":
		*to = true
	case "false", "0":
		*to = false
	default:
		return errNotAllowed
	}
	return nil
}

func setChoice(to *string, value string, choices ...string) error {
	if !slices.Contains(choices, value) {
		return errNotAllowed
	}
	*to = value
	return nil
}

func setMTU(to *int, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n != 0 && (n < minMTU || n > maxMTU) {
		return errNotAllowed
	}
	*to = n
	return nil
}

func setRuntime(to *string, value string) error {
	value = orAuto(value)
	if strings.Contains(value, "/") && !filepath.IsAbs(value) || strings.ContainsRune(value, 0) {
		return errNotAllowed
	}
	*to = value
	return nil
}

// orAuto lets a stronger source go back to the automatic choice.
func orAuto(value string) string {
	if value == "auto" {
		return ""
	}
	return value
}
