package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"moss/api/types"
)

func (a *app) portCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "port CONTAINER [PORT[/PROTOCOL]]",
		Short:             "List the published ports of a container",
		Example:           "  moss port web\n  moss port web 80/tcp",
		Args:              requireArgs(1, 2),
		ValidArgsFunction: a.completeContainers(false, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := ""
			if len(args) == 2 {
				var err error
				if key, err = portKey(args[1]); err != nil {
					return usageError(cmd, err)
				}
			}
			engine, err := a.engineClient()
			if err != nil {
				return err
			}
			ctr, err := engine.ContainerInspect(cmd.Context(), args[0], false)
			if err != nil {
				return err
			}
			ports := ctr.NetworkSettings.Ports
			if key == "" {
				return a.showPorts(ports)
			}
			if len(ports[key]) == 0 {
				return fmt.Errorf("container %s publishes no port %s", args[0], key)
			}
			for _, binding := range ports[key] {
				if err := a.printLine(net.JoinHostPort(binding.HostIP, binding.HostPort)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// portKey writes a port as the API does: 80/tcp.
func portKey(text string) (string, error) {
	number, proto, named := strings.Cut(strings.ToLower(text), "/")
	if !named {
		proto = "tcp"
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 || !slices.Contains([]string{"tcp", "udp", "sctp"}, proto) {
		return "", errors.New("port " + strconv.Quote(text) + ": want a number and maybe /tcp, /udp or /sctp")
	}
	return strconv.FormatUint(n, 10) + "/" + proto, nil
}

func (a *app) showPorts(ports map[string][]types.PortBinding) error {
	keys := sortedKeys(ports)
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(portNumber(a), portNumber(b)) })
	for _, key := range keys {
		for _, binding := range ports[key] {
			if err := a.printLine(key + " -> " + net.JoinHostPort(binding.HostIP, binding.HostPort)); err != nil {
				return err
			}
		}
	}
	return nil
}

// portNumber returns the number in port/protocol, 0 if there is none.
func portNumber(key string) uint64 {
	text, _, _ := strings.Cut(key, "/")
	number, _ := strconv.ParseUint(text, 10, 16)
	return number
}

// portRun is a run of neighbouring ports with the same address, protocol and distance from the host's ports.
type portRun struct {
	ip, proto           string
	first, last, public uint16 // public is the first one's on the host; 0: not published
}

// portText writes the ports of a container, runs of neighbours as one.
func portText(ports []types.Port) string {
	ports = slices.Clone(ports)
	slices.SortFunc(ports, func(a, b types.Port) int {
		return cmp.Or(cmp.Compare(a.PrivatePort, b.PrivatePort), cmp.Compare(a.Type, b.Type), cmp.Compare(a.IP, b.IP),
			cmp.Compare(a.PublicPort, b.PublicPort))
	})
	var runs []portRun
	for _, port := range ports {
		if i := slices.IndexFunc(runs, func(r portRun) bool { return r.goesOnWith(port) }); i >= 0 {
			runs[i].last = port.PrivatePort
			continue
		}
		runs = append(runs, portRun{
			ip: port.IP, proto: port.Type, first: port.PrivatePort, last: port.PrivatePort, public: port.PublicPort,
		})
	}
	shown := make([]string, 0, len(runs))
	for _, run := range runs {
		shown = append(shown, run.String())
	}
	return strings.Join(shown, ", ")
}

func (r portRun) goesOnWith(port types.Port) bool {
	if r.ip != port.IP || r.proto != port.Type || int(port.PrivatePort) != int(r.last)+1 {
		return false
	}
	if r.public == 0 || port.PublicPort == 0 {
		return r.public == port.PublicPort
	}
	return port.PublicPort-r.public == port.PrivatePort-r.first
}

// String writes 0.0.0.0:8080-8082->80-82/tcp.
func (r portRun) String() string {
	count := r.last - r.first
	text := portRangeText(r.first, count) + "/" + r.proto
	if r.public != 0 {
		text = net.JoinHostPort(r.ip, portRangeText(r.public, count)) + "->" + text
	}
	return text
}

func portRangeText(first, more uint16) string {
	text := strconv.Itoa(int(first))
	if more > 0 {
		text += "-" + strconv.Itoa(int(first)+int(more))
	}
	return text
}
