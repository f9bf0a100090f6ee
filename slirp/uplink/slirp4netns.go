package uplink

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/rootless-containers/rootlesskit/v3/pkg/network/slirp4netns"

	"moss/engine/fault"
)

// newSlirp asks for slirp4netns' seccomp filter and does without where the kernel or the program lacks it. Its own
// sandbox must be off with a detached network namespace (slirp4netns issue 317).
func newSlirp(cfg Config) (program, error) {
	binary, err := findProgram("slirp4netns", "slirp4netns")
	if err != nil {
		return program{}, err
	}
	has, err := slirp4netns.DetectFeatures(binary)
	if err != nil {
		return program{}, fault.Unavailable("examine %s: %w", binary, err)
	}
	if !has.SupportsEnableIPv6 || !has.SupportsCIDR || !has.SupportsDisableHostLoopback {
		return program{}, fault.Unavailable("%s is too old: slirp4netns 0.4.0 or newer is needed", binary)
	}
	options := []string{"--mtu", strconv.Itoa(cfg.MTU), "--ready-fd", "3", "--cidr", cidr}
	if !cfg.HostLoopback {
		options = append(options, "--disable-host-loopback")
	}
	if cfg.ipv6 {
		options = append(options, "--enable-ipv6")
	}
	if has.SupportsEnableSeccomp && has.KernelSupportsEnableSeccomp {
		options = append(options, "--enable-seccomp")
	}
	return program{
		name: Slirp4netns, binary: binary, notify: readyPipe, explain: func(said error) error { return said },
		args: func(at place) []string {
			return append(slices.Clip(options),
				fmt.Sprintf("--userns-path=/proc/%d/ns/user", at.childPID), "--netns-type=path", at.netns, Device)
		},
	}, nil
}

// readyPipe gives cmd the writing end of a pipe as descriptor 3.
func readyPipe(cmd *exec.Cmd) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{w}
	return r, nil
}
