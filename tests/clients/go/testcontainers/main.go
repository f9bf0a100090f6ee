// The program testcontainers runs a scenario of testcontainers-go against the engine of $DOCKER_HOST, without its reaper,
// whose image is another one than busybox. It needs the image busybox, and $REGISTRY with lib/box:one.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/log"

	"moss/tests/clients/go/scenario"
)

// run is what the steps share.
type run struct {
	scenario.Scenario
	ctx      context.Context //nolint:containedctx // of the whole program
	provider *tc.DockerProvider
	name     string // begins the names of all that the run makes
	web      tc.Container
	network  *tc.DockerNetwork
}

func main() {
	log.SetDefault(quiet{})
	r := &run{ctx: context.Background(), name: fmt.Sprintf("tc-%d", os.Getpid())}
	r.Out = os.Stdout
	r.Step("find the engine, and agree on 1.51", func() error {
		provider, err := tc.NewDockerProvider()
		if err != nil {
			return err
		}
		r.provider = provider
		if err := provider.Health(r.ctx); err != nil {
			return err
		}
		return scenario.Equal("version of the API", provider.Client().ClientVersion(), "1.51")
	})
	r.testImages()
	r.testReadiness()
	r.testServer()
	r.testInside()
	r.testEnds()
	r.testCopies()
	r.testRestart()
	r.testNetworks()
	r.testPlaces()
	r.testRemoval()
	os.Exit(r.End())
}

// quiet drops the library's own log.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// startBusybox starts a container of busybox.
func (r *run) startBusybox(options ...tc.ContainerCustomizer) (tc.Container, error) {
	made, err := tc.Run(r.ctx, "busybox", options...)
	if err != nil {
		return nil, err
	}
	return made, nil
}

// checkOnce starts a container for one check, and ends it after that. Its image is busybox, unless an option names another.
func (r *run) checkOnce(check func(tc.Container) error, options ...tc.ContainerCustomizer) error {
	made, err := r.startBusybox(options...)
	if err != nil {
		return err
	}
	return scenario.First(check(made), tc.TerminateContainer(made, tc.StopTimeout(0)))
}

// withSleep sets the command of a container that others look into.
func withSleep() tc.CustomizeRequestOption { return tc.WithCmd("sleep", "1000") }

// checkOutput returns an error if a command does not print just this and end with 0.
func (r *run) checkOutput(c tc.Container, want string, command ...string) error {
	code, out, err := c.Exec(r.ctx, command, tcexec.Multiplexed())
	if err != nil {
		return err
	}
	text, err := io.ReadAll(out)
	what := strings.Join(command, " ")
	return scenario.First(err, scenario.Equal(what, string(text), want), scenario.Equal("code of "+what, code, 0))
}

func (r *run) killContainer(c tc.Container) error {
	_, err := r.provider.Client().ContainerKill(r.ctx, c.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
	return err
}
