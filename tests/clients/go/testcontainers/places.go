package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"

	"moss/tests/clients/go/scenario"
)

// testNetworks puts two containers into a network, where one finds the other by its alias.
func (r *run) testNetworks() {
	r.Step("make a network", func() error {
		made, err := network.New(r.ctx, network.WithDriver("bridge"), network.WithLabels(map[string]string{"scenario": r.name}))
		r.network = made
		return err
	})
	var server tc.Container
	r.Step("start a container in it, with an alias", func() error {
		made, err := r.startBusybox(network.WithNetwork([]string{"server"}, r.network), tc.WithCmd("httpd", "-f", "-p", "8080", "-h", "/var/www"),
			tc.WithWaitStrategy(wait.ForExec([]string{"wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/"})))
		server = made
		if err != nil {
			return err
		}
		names, err := made.Networks(r.ctx)
		if err != nil {
			return err
		}
		aliases, err := made.NetworkAliases(r.ctx)
		if err != nil {
			return err
		}
		if !slices.Equal(names, []string{r.network.Name}) || !slices.Contains(aliases[r.network.Name], "server") {
			return fmt.Errorf("networks: got %v with aliases %v", names, aliases)
		}
		return nil
	})
	r.Step("its address", func() error {
		address, err := server.ContainerIP(r.ctx)
		return scenario.First(err, scenario.Equal("parts of "+address, len(strings.Split(address, ".")), 4))
	})
	r.Step("another container reaches it by the alias", func() error {
		return r.checkOnce(func(c tc.Container) error {
			return r.checkOutput(c, "hello from busybox\n", "wget", "-q", "-O", "-", "http://server:8080/")
		},
			network.WithNetwork(nil, r.network), withSleep())
	})
	r.Step("a network in use stays, an empty one goes", func() error {
		if err := r.network.Remove(r.ctx); err == nil {
			return errors.New("the network went while a container was in it")
		}
		return scenario.First(tc.TerminateContainer(server, tc.StopTimeout(0)), r.network.Remove(r.ctx))
	})
}

// testPlaces mounts a volume and a tmpfs.
func (r *run) testPlaces() {
	volume := tc.WithMounts(tc.VolumeMount(r.name, "/data"))
	var writer tc.Container
	r.Step("a volume keeps a file", func() error {
		made, err := r.startBusybox(volume, tc.WithCmd("sh", "-c", "echo kept >/data/kept"), tc.WithWaitStrategy(wait.ForExit()))
		writer = made
		return err
	})
	r.Step("another container reads it", func() error {
		return r.checkOnce(func(c tc.Container) error { return r.checkOutput(c, "kept\n", "cat", "/data/kept") }, volume, withSleep())
	})
	r.Step("a container ends with its volume", func() error {
		if err := tc.TerminateContainer(writer, tc.RemoveVolumes(r.name)); err != nil {
			return err
		}
		_, err := r.provider.Client().VolumeInspect(r.ctx, r.name, client.VolumeInspectOptions{})
		return scenario.Contains("error", fmt.Sprint(err), "no such volume")
	})
	r.Step("a tmpfs", func() error {
		return r.checkOnce(func(c tc.Container) error {
			return r.checkOutput(c, "1\n", "grep", "-c", " /fast tmpfs ", "/proc/mounts")
		},
			tc.WithTmpfs(map[string]string{"/fast": "size=1m"}), withSleep())
	})
	r.Step("a command runs at the start", func() error {
		return r.checkOnce(func(c tc.Container) error { return r.checkOutput(c, "", "test", "-e", "/tmp/started") },
			tc.WithStartupCommand(tc.NewRawCommand([]string{"touch", "/tmp/started"})), withSleep())
	})
}

// testRemoval finds a container again by its name, and ends it.
func (r *run) testRemoval() {
	r.Step("a name finds the container that is there", func() error {
		again, err := r.startBusybox(tc.WithReuseByName(r.name+"-web"), tc.WithExposedPorts("8080/tcp"), withSleep())
		if err != nil {
			return err
		}
		return scenario.Equal("id", again.GetContainerID(), r.web.GetContainerID())
	})
	r.Step("end it", func() error {
		if err := r.web.Terminate(r.ctx, tc.StopTimeout(0)); err != nil {
			return err
		}
		_, err := r.web.State(r.ctx)
		return scenario.Contains("error", fmt.Sprint(err), "No such container")
	})
}
