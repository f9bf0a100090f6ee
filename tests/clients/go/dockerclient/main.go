// The program dockerclient runs a scenario of github.com/fsouza/go-dockerclient against the engine at the socket
// $MOSS_SOCK, with API version $API_VERSION. It needs the image busybox and an open registry at $REGISTRY.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	docker "github.com/fsouza/go-dockerclient"

	"moss/tests/clients/go/scenario"
)

// run is what the steps share.
type run struct {
	scenario.Scenario
	client  *docker.Client
	minor   int    // of the API's version
	name    string // begins the names of all that the run makes
	events  chan *docker.APIEvents
	web     string // id of the container that serves a page
	network string // id; empty below 1.21
}

func main() {
	r, err := newRun(os.Getenv("API_VERSION"))
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r.testSystem()
	r.testImages()
	r.testPlaces()
	r.testContainers()
	r.testNetworks()
	r.testExecs()
	r.testStreams()
	r.testEnds()
	r.testArchives()
	r.testVerbs()
	r.testEndings()
	r.testRemoval()
	os.Exit(r.End())
}

func newRun(version string) (*run, error) {
	client, err := docker.NewVersionedClient("unix://"+os.Getenv("MOSS_SOCK"), version)
	if err != nil {
		return nil, err
	}
	minor, err := strconv.Atoi(strings.TrimPrefix(version, "1."))
	if err != nil {
		return nil, err
	}
	r := &run{client: client, minor: minor, name: fmt.Sprintf("fsouza-%d-%d", minor, os.Getpid())}
	r.Out = os.Stdout
	return r, nil
}

// stepSince runs a step that the API has from a version on.
func (r *run) stepSince(minor int, what string, do func() error) {
	if r.minor >= minor {
		r.Step(what, do)
	}
}

// createContainer makes one of busybox that runs a command.
func (r *run) createContainer(name string, options docker.CreateContainerOptions, command ...string) (string, error) {
	options.Name = r.name + "-" + name
	if options.Config == nil {
		options.Config = &docker.Config{}
	}
	if options.Config.Image == "" {
		options.Config.Image = "busybox"
	}
	options.Config.Cmd = command
	if options.HostConfig == nil {
		options.HostConfig = &docker.HostConfig{NetworkMode: "none"}
	}
	made, err := r.client.CreateContainer(options)
	if err != nil {
		return "", fmt.Errorf("create %s: %w", name, err)
	}
	return made.ID, nil
}

func (r *run) startContainer(name string, options docker.CreateContainerOptions, command ...string) (string, error) {
	id, err := r.createContainer(name, options, command...)
	if err != nil {
		return "", err
	}
	return id, r.client.StartContainer(id, nil)
}

func (r *run) inspectContainer(id string) (*docker.Container, error) {
	return r.client.InspectContainerWithOptions(docker.InspectContainerOptions{ID: id})
}

func (r *run) removeContainer(id string) error {
	return r.client.RemoveContainer(docker.RemoveContainerOptions{ID: id, Force: true, RemoveVolumes: true})
}

func (r *run) testSystem() {
	r.Step("ping", r.client.Ping)
	r.Step("version", func() error {
		env, err := r.client.Version()
		if err != nil {
			return err
		}
		return scenario.First(
			scenario.Equal("ApiVersion", env.Get("ApiVersion"), "1.51"),
			scenario.Equal("Os", env.Get("Os"), "linux"),
		)
	})
	r.Step("info counts images", func() error {
		info, err := r.client.Info()
		if err != nil {
			return err
		}
		if info.Images < 1 || info.NCPU < 1 || info.Driver == "" {
			return fmt.Errorf("info: %d images, %d CPUs, driver %q", info.Images, info.NCPU, info.Driver)
		}
		return nil
	})
	r.Step("listen to events", func() error {
		r.events = make(chan *docker.APIEvents, 1000)
		return r.client.AddEventListener(r.events)
	})
}
