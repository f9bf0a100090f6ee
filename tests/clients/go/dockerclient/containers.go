package main

import (
	"context"
	"fmt"
	"slices"

	docker "github.com/fsouza/go-dockerclient"

	"moss/tests/clients/go/scenario"
)

// testPlaces makes a network and a volume, where the version has them.
func (r *run) testPlaces() {
	r.stepSince(21, "create a network", func() error {
		made, err := r.client.CreateNetwork(docker.CreateNetworkOptions{Name: r.name, Driver: "bridge", CheckDuplicate: true})
		if err != nil {
			return err
		}
		r.network = made.ID
		shown, err := r.client.NetworkInfo(made.ID)
		if err != nil {
			return err
		}
		return scenario.First(scenario.Equal("Name", shown.Name, r.name), scenario.Equal("Driver", shown.Driver, "bridge"))
	})
	r.stepSince(21, "list networks by name", func() error {
		list, err := r.client.FilteredListNetworks(docker.NetworkFilterOpts{"name": {r.name: true}})
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].ID != r.network {
			return fmt.Errorf("networks: got %+v, want %s", list, r.network)
		}
		return nil
	})
	r.stepSince(21, "create a volume", func() error {
		made, err := r.client.CreateVolume(docker.CreateVolumeOptions{Name: r.name})
		if err != nil {
			return err
		}
		list, err := r.client.ListVolumes(docker.ListVolumesOptions{Filters: map[string][]string{"dangling": {"true"}}})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(v docker.Volume) bool { return v.Name == made.Name && v.Mountpoint == made.Mountpoint }) {
			return fmt.Errorf("volumes: got %+v, want %s", list, made.Name)
		}
		return nil
	})
}

// testContainers starts the container that later steps speak to, and looks at it.
func (r *run) testContainers() {
	r.Step("create and start a container that serves a page", func() error {
		host := &docker.HostConfig{
			Binds:        []string{r.name + ":/data"},
			PortBindings: map[docker.Port][]docker.PortBinding{"8080/tcp": {{HostIP: "127.0.0.1"}}},
		}
		if r.minor >= 21 {
			host.NetworkMode = r.name
		}
		id, err := r.startContainer("web", docker.CreateContainerOptions{
			Config: &docker.Config{
				Image: r.builtImage(), Labels: map[string]string{"scenario": r.name},
				ExposedPorts: map[docker.Port]struct{}{"8080/tcp": {}},
			},
			HostConfig: host,
		}, "sh", "-c", "echo up; echo kept >/data/kept; httpd -p 8080 -h /www; sleep 1000")
		r.web = id
		return err
	})
	r.Step("inspect a container", r.checkInspect)
	r.Step("list containers by label", func() error {
		list, err := r.client.ListContainers(docker.ListContainersOptions{Filters: map[string][]string{"label": {"scenario=" + r.name}}})
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].ID != r.web || list[0].Names[0] != "/"+r.name+"-web" {
			return fmt.Errorf("containers: got %+v, want %s", list, r.web)
		}
		return nil
	})
	r.Step("read the page at the published port", r.checkPage)
}

// testNetworks moves between places in a network.
func (r *run) testNetworks() {
	r.stepSince(21, "a second container reaches the first by name", func() error {
		id, err := r.startContainer("asks", docker.CreateContainerOptions{HostConfig: &docker.HostConfig{NetworkMode: r.name}},
			"wget", "-q", "-O", "/dev/null", "http://"+r.name+"-web:8080/")
		if err != nil {
			return err
		}
		code, err := r.client.WaitContainer(id)
		return scenario.First(err, scenario.Equal("exit code", code, 0), r.removeContainer(id))
	})
	r.stepSince(21, "disconnect from the network, and connect with another name", func() error {
		if err := r.client.DisconnectNetwork(r.network, docker.NetworkConnectionOptions{Container: r.web}); err != nil {
			return err
		}
		shown, err := r.client.NetworkInfo(r.network)
		if err != nil {
			return err
		}
		if err := scenario.Equal("containers of the network", len(shown.Containers), 0); err != nil {
			return err
		}
		options := docker.NetworkConnectionOptions{Container: r.web}
		if r.minor >= 22 {
			options.EndpointConfig = &docker.EndpointConfig{Aliases: []string{"other"}}
		}
		if err := r.client.ConnectNetwork(r.network, options); err != nil {
			return err
		}
		record, err := r.inspectContainer(r.web)
		if err != nil {
			return err
		}
		place := record.NetworkSettings.Networks[r.name]
		if place.IPAddress == "" || (r.minor >= 22) != slices.Contains(place.Aliases, "other") {
			return fmt.Errorf("place in the network: got %+v", place)
		}
		return nil
	})
}

func (r *run) checkInspect() error {
	shown, err := r.inspectContainer(r.web)
	if err != nil {
		return err
	}
	// Mounts took the place of Volumes in 1.20, Networks joined in 1.21.
	return scenario.First(
		scenario.Equal("Name", shown.Name, "/"+r.name+"-web"),
		scenario.Equal("State.Running", shown.State.Running, true),
		scenario.Equal("label", shown.Config.Labels["scenario"], r.name),
		scenario.Equal("has Mounts", len(shown.Mounts) == 1, r.minor >= 20),
		scenario.Equal("has Volumes", len(shown.Volumes) == 1, r.minor < 20),
		scenario.Equal("has Networks", len(shown.NetworkSettings.Networks) == 1, r.minor >= 21),
		scenario.Equal("State.Status", shown.State.Status, map[bool]string{true: "running"}[r.minor >= 21]),
	)
}

// checkPage reads the page until the server listens.
func (r *run) checkPage() error {
	shown, err := r.inspectContainer(r.web)
	if err != nil {
		return err
	}
	bound := shown.NetworkSettings.Ports["8080/tcp"]
	if len(bound) != 1 || bound[0].HostIP != "127.0.0.1" {
		return fmt.Errorf("ports: got %+v", shown.NetworkSettings.Ports)
	}
	return scenario.Eventually(context.Background(), func() error {
		text, err := scenario.Page(context.Background(), "http://127.0.0.1:"+bound[0].HostPort+"/")
		return scenario.First(err, scenario.Equal("page", text, "a page\n"))
	})
}
