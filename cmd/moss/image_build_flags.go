package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"moss/api/client"
	"moss/api/types"
	"moss/cmd/moss/arg"
)

// How a build is shown.
const (
	progressAuto  = "auto"
	progressPlain = "plain"
	progressTTY   = "tty"
)

// maxSecrets bounds the secrets of a build, in bytes: they travel in the head of the request.
const maxSecrets = 500 << 10

// imageBuildFlags are the flags of build. What holds for the containers of RUN are those of create, and read as there.
type imageBuildFlags struct {
	file, target, platform, progress, idFile string
	tags, args, labels, cacheFrom, secrets   []string
	noCache, pull, quiet, remove, forceRm    bool
	squash                                   bool
	network                                  string
	run                                      createFlags
}

func (f *imageBuildFlags) registerFlags(set *pflag.FlagSet) {
	set.StringVarP(&f.file, "file", "f", "", "the Dockerfile: a `PATH`, in the folder or elsewhere, or - for stdin")
	set.StringArrayVarP(&f.tags, "tag", "t", nil, "give the image a `NAME[:TAG]`")
	set.StringArrayVar(&f.args, "build-arg", nil, "set a build argument: `NAME=VALUE`, or NAME to pass your variable")
	set.BoolVar(&f.run.httpProxy, "http-proxy", false, "pass your proxies to RUN: http_proxy, https_proxy, …; no image keeps them")
	set.StringVar(&f.target, "target", "", "build a `STAGE` in place of the last one")
	set.BoolVar(&f.noCache, "no-cache", false, "do not use the build cache")
	set.BoolVar(&f.pull, "pull", false, "look for newer base images")
	set.StringArrayVar(&f.secrets, "secret", nil, "show a secret to RUN --mount=type=secret: `id=ID[,src=FILE|,env=VARIABLE]`")
	set.StringArrayVar(&f.labels, "label", nil, "set a label: `KEY=VALUE`")
	set.StringSliceVar(&f.cacheFrom, "cache-from", nil, "take only steps from the cache that these `IMAGES` have too")
	set.StringVar(&f.platform, "platform", "", "get base images for a `PLATFORM`, such as linux/arm64")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "show the image's id only")
	set.StringVar(&f.progress, "progress", progressAuto, "how the build is shown: auto, plain or tty")
	set.StringVar(&f.idFile, "iidfile", "", "write the image's id to a `FILE`")
	set.BoolVar(&f.remove, "rm", true, "remove the containers of steps that succeeded")
	set.BoolVar(&f.forceRm, "force-rm", false, "remove the containers of steps that failed too")
	set.BoolVar(&f.squash, "squash", false, "make one layer of the build's own")
	set.StringVar(&f.network, "network", "", "network of RUN: default, none, container:NAME, or a `NETWORK`")
	r := &f.run
	set.StringArrayVar(&r.addHosts, "add-host", nil, "add a line to the /etc/hosts of RUN: `NAME:IP`; the IP host-gateway is that of the host")
	set.StringArrayVar(&r.ulimits, "ulimit", nil, "set a limit for RUN: `NAME=SOFT[:HARD]`")
	set.StringVar(&r.shmSize, "shm-size", "", "size of /dev/shm for RUN, such as 64m")
	set.StringVarP(&r.memory, "memory", "m", "", "memory limit of RUN, such as 512m")
	set.StringVar(&r.memorySwap, "memory-swap", "", "limit of memory and swap together; -1 for no limit of swap")
	set.Int64VarP(&r.cpuShares, "cpu-shares", "c", 0, "CPU weight of RUN")
	set.Int64Var(&r.cpuPeriod, "cpu-period", 0, "CPU period in microseconds")
	set.Int64Var(&r.cpuQuota, "cpu-quota", 0, "CPU time in microseconds for each period")
	set.StringVar(&r.cpusetCPUs, "cpuset-cpus", "", "CPUs for RUN, such as 0-2,4")
	set.StringVar(&r.cpusetMems, "cpuset-mems", "", "memory nodes for RUN")
	set.StringVar(&r.cgroupParent, "cgroup-parent", "", "control group to run below")
	set.StringVar(&r.isolation, "isolation", "", "isolation technology; default is the only one on Linux")
	set.StringArrayVar(&r.securityOpts, "security-opt", nil, "security `OPTION` for RUN: no-new-privileges, seccomp=FILE, …")
}

// checkFlags refuses flags that do not go together, or not with where the context is.
func (f *imageBuildFlags) checkFlags(where string, typed, onScreen bool) error {
	switch {
	case where == onStdin && f.file == onStdin:
		return errors.New("stdin cannot be the context and the Dockerfile")
	case (where == onStdin || f.file == onStdin) && typed:
		return errors.New("refusing to read a context or a Dockerfile from a terminal; redirect stdin")
	case f.progress != progressAuto && f.progress != progressPlain && f.progress != progressTTY:
		return fmt.Errorf("--progress %q: want auto, plain or tty", f.progress)
	case f.progress == progressTTY && !f.quiet && !onScreen:
		return errors.New("--progress tty requires a terminal")
	}
	return nil
}

// buildOptions reads the flags but for what is built from.
func (f *imageBuildFlags) buildOptions(given func(flag string) bool, lookup arg.Lookup) (client.BuildOptions, error) {
	opts := client.BuildOptions{
		Tags: f.tags, Target: f.target, Platform: f.platform, Quiet: f.quiet, NoCache: f.noCache, Pull: f.pull,
		Squash:         f.squash,
		KeepContainers: !f.remove, ForceRemove: f.forceRm, CacheFrom: f.cacheFrom, Labels: map[string]string{}, Args: map[string]*string{},
	}
	for _, text := range f.labels {
		if err := arg.Labels(opts.Labels, text); err != nil {
			return opts, err
		}
	}
	if f.run.httpProxy {
		for _, entry := range arg.Proxies(lookup, f.args) {
			name, value, _ := strings.Cut(entry, "=")
			opts.Args[name] = &value
		}
	}
	for _, text := range f.args {
		name, value, found := strings.Cut(text, "=")
		if name == "" {
			return opts, fmt.Errorf("--build-arg %q: want NAME=VALUE or NAME", text)
		}
		if !found {
			value, found = lookup(name)
		}
		opts.Args[name] = nil
		if found {
			opts.Args[name] = &value
		}
	}
	var err error
	if opts.Secrets, err = readSecrets(f.secrets, lookup); err != nil {
		return opts, err
	}
	r, around := &f.run, surroundings{given: given, lookup: lookup}
	body := types.ContainerCreate{HostConfig: &types.HostConfig{
		NetworkMode: f.network, CPUShares: r.cpuShares, CPUPeriod: r.cpuPeriod, CPUQuota: r.cpuQuota, CpusetCpus: r.cpusetCPUs,
		CpusetMems: r.cpusetMems, CgroupParent: r.cgroupParent, Isolation: r.isolation,
	}}
	for _, part := range []func(*types.ContainerCreate, surroundings) error{r.buildNames, r.buildMemory, r.buildLimits, r.buildSecurity} {
		if err := part(&body, around); err != nil {
			return opts, err
		}
	}
	opts.Host = *body.HostConfig
	return opts, setSize(&opts.Host.ShmSize, "shm-size", r.shmSize, arg.Bytes)
}

// readSecrets reads secrets from files and variables.
func readSecrets(texts []string, lookup arg.Lookup) (map[string]client.Secret, error) {
	secrets := map[string]client.Secret{}
	total := 0
	for _, text := range texts {
		secret, err := arg.ParseSecret(text, lookup)
		if err != nil {
			return nil, fmt.Errorf("--secret %q: %w", text, err)
		}
		content, err := readSecret(secret, lookup)
		if err != nil {
			return nil, fmt.Errorf("--secret %q: %w", text, err)
		}
		secrets[secret.ID] = content
		if total += len(content); total > maxSecrets {
			return nil, fmt.Errorf("--secret %q: the secrets have more than %d bytes", text, maxSecrets)
		}
	}
	return secrets, nil
}

func readSecret(secret arg.Secret, lookup arg.Lookup) (client.Secret, error) {
	if secret.Variable != "" {
		value, set := lookup(secret.Variable)
		if !set {
			return nil, fmt.Errorf("the variable %s is not set", secret.Variable)
		}
		return client.Secret(value), nil
	}
	file, err := os.Open(secret.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxSecrets+1))
}
