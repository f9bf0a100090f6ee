// Package config holds the settings of one engine and finds them: defaults, then the file, then the environment, then
// the command line, each over the one before. It reads the file and nothing else; the environment comes in as a function,
// and no folder is made or looked at.
package config

import (
	"path/filepath"

	"moss/engine/fault"
)

// Network drivers: what links the containers' network to the host's.
const (
	NetworkSlirp4netns = "slirp4netns"
	NetworkPasta       = "pasta"
	NetworkGvisor      = "gvisor-tap-vsock"
	NetworkNone        = "none"
	NetworkAuto        = "auto" // the fastest that works here
)

// Config is everything a user can set about one engine.
type Config struct {
	// Root is the folder of what survives a boot; absolute, never empty.
	Root string
	// RunDir is the folder of what this boot holds; absolute. Empty if no setting names one: the caller then finds a safe
	// place, XDG_RUNTIME_DIR first (package rootless).
	RunDir string
	// Hosts are the addresses to serve the API on: unix:///PATH, tcp://IP:PORT, or fd:// with nothing, a name or a number
	// (systemd activation). Empty means what was handed over, or the socket moss.sock in RunDir.
	Hosts []string
	// SocketGroup may use the unix sockets beside the user: a name or a number. Empty: nobody.
	SocketGroup string
	// InsecureTCP allows tcp:// hosts on the loopback without client certificates: anyone who can open a connection there
	// then has the user's rights.
	InsecureTCP bool
	// TLS is spoken on tcp:// hosts; TLSVerify asks clients for a certificate of TLSCACert, and implies TLS.
	TLS, TLSVerify bool
	// TLSCACert, TLSCert and TLSKey are files in PEM, absolute. Empty where they are not used.
	TLSCACert, TLSCert, TLSKey string
	// APIMin and APIMax are the first and the last API version that is served, such as 1.24; empty leaves it to the engine.
	APIMin, APIMax string
	// CORS is the origin whose pages may use the engine, such as https://example.com, * for all, or empty for none.
	CORS string
	// Labels describe the engine in /info: KEY=VALUE, each key once.
	Labels []string
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// LogFormat is text or json.
	LogFormat string
	// DebugProfiles lets the user ask the engine for its profiles and traces, over its unix socket.
	DebugProfiles bool
	// NetworkDriver is one of the constants above, or empty for slirp4netns where a tap device can be made and none elsewhere.
	NetworkDriver string
	// MTU of the containers' network in bytes; 0 leaves it to the driver.
	MTU int
	// HostLoopback lets containers reach services on the host's loopback.
	HostLoopback bool
	// HTTPProxy gives containers and builds the proxies of the engine's environment.
	HTTPProxy bool
	// LogDriver and LogOptions, KEY=VALUE, are those of containers that name no log driver; empty leaves it to the engine.
	LogDriver  string
	LogOptions []string
	// Runtime is the OCI runtime: a program's name, an absolute path, or empty for the first that is found.
	Runtime string
	// StorageDriver is overlay, fuse-overlayfs, vfs, or empty for the first that works.
	StorageDriver string
	// EmulateIDs lets containers of an engine without sub-ids change to ids that are not there, without effect.
	EmulateIDs bool
	// RegistryMirrors are asked before docker.io, in this order: HOST[:PORT] or a URL with http or https and no path.
	RegistryMirrors []string
	// InsecureRegistries are HOST[:PORT] or networks in CIDR form, besides loopback.
	InsecureRegistries []string
	// RegistryRedirects are HOST[:PORT] or networks in CIDR form, on this machine or in private networks, to which registries
	// may lead.
	RegistryRedirects []string
	// MaxDownloads and MaxUploads are how many layers are on their way at the same time; 0 leaves it to the engine.
	MaxDownloads, MaxUploads int
	// BuildCacheSize is how many bytes the steps of builds and their cache mounts may each take before the oldest go; 0
	// leaves it to the engine.
	BuildCacheSize int64
	// SwarmDir is the folder of this node's part in a swarm, absolute; empty: swarm in Root.
	SwarmDir string
	// SwarmHostFolders are the folders of this host that services of a swarm may mount, absolute.
	SwarmHostFolders []string
	// SwarmDataAddr is an IP address, an interface or none, for the tunnel between nodes; empty: as managers know this node.
	SwarmDataAddr string
	// SwarmDataPort is the UDP port of that tunnel; 0 leaves it to moss-swarm.
	SwarmDataPort uint16
	// SwarmPool is CIDR or CIDR,BITS, where a swarm that this node makes takes subnets; empty leaves it to moss-swarm.
	SwarmPool string
}

// Options say where Load looks.
type Options struct {
	// File to read. Empty means the one named by MOSS_CONFIG, else moss/moss.toml in XDG_CONFIG_HOME or ~/.config.
	File string
	// FileRequired makes a missing File an error; a file named by MOSS_CONFIG is always required.
	FileRequired bool
	// Environ looks a variable up; an empty result means unset. Nil is an empty environment.
	Environ func(name string) string
	// Flags are the settings of the command line by key (see Settings), with their values in order. A key that takes
	// one value uses its last.
	Flags map[string][]string
}

// Load finds the settings. A wrong one gives fault.Invalid with a text that names its source, its key, its value and
// what is allowed; a file that cannot be read gives a plain error, a missing required one fault.NotFound.
func Load(opts Options) (Config, error) {
	env := opts.Environ
	if env == nil {
		env = func(string) string { return "" }
	}
	cfg := defaultConfig(env)
	fromFile, name, err := readFile(opts, env)
	if err != nil {
		return Config{}, err
	}
	for _, s := range allSettings() {
		if err := s.applySources(&cfg, sources{file: fromFile, fileName: name, env: env, flags: opts.Flags}); err != nil {
			return Config{}, err
		}
	}
	if err := unknownFlag(opts.Flags); err != nil {
		return Config{}, err
	}
	if cfg.Root == "" {
		return Config{}, fault.Invalid("no folder for the engine's data: set root, or HOME or XDG_DATA_HOME to an absolute path")
	}
	if err := cfg.finishHosts(env); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

// defaultConfig returns the settings that hold where no source has another.
func defaultConfig(env func(string) string) Config {
	cfg := Config{LogLevel: "info", LogFormat: "text", EmulateIDs: true}
	if dir := xdgFolder(env, "XDG_DATA_HOME", ".local/share"); dir != "" {
		cfg.Root = filepath.Join(dir, "moss")
	}
	return cfg
}

// xdgFolder returns the folder that the variable names, else the one below HOME, else an empty string. The XDG base directory
// specification says to ignore relative paths.
func xdgFolder(env func(string) string, variable, belowHome string) string {
	if dir := env(variable); filepath.IsAbs(dir) {
		return dir
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, belowHome)
	}
	return ""
}
