package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"moss/api/client"
	"moss/api/types"
)

// worker asks for one thing after the other. What it makes is its own.
type worker struct {
	model *model
	n     int
	rand  *rand.Rand
	made  int
	drawn int // images of the pool

	own      []*ctr
	networks []string
	tags     []*img
}

// runVerbs runs verbs drawn at random until the engine is gone.
func (w *worker) runVerbs(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil {
		w.model.mu.Lock()
		over := !w.model.over.IsZero()
		w.model.mu.Unlock()
		if over {
			return
		}
		verbs := []func(context.Context, *client.Client) error{
			w.createContainer, w.createContainer, w.renameContainer, w.updateContainer, w.updateContainer, w.startContainer, w.startContainer, w.stopContainer, w.stopContainer, w.killContainer, w.restartContainer,
			w.connectNetwork, w.disconnectNetwork, w.removeContainer, w.createVolume, w.createNetwork, w.loadImage, w.pullImage, w.pullImage, w.tagImage, w.untagImage, w.buildImage, w.commitContainer,
		}
		_ = verbs[w.rand.IntN(len(verbs))](ctx, c) // a refusal, or the end
	}
}

func (w *worker) freshName(what string) string {
	w.made++
	return fmt.Sprintf("%s-%d-%d", what, w.n, w.made)
}

// pickContainer draws one of the worker's containers; nil if it has none.
func (w *worker) pickContainer() *ctr {
	if len(w.own) == 0 {
		return nil
	}
	return w.own[w.rand.IntN(len(w.own))]
}

func (w *worker) createContainer(ctx context.Context, c *client.Client) error {
	name, p := w.freshName("c"), policies[w.rand.IntN(len(policies))]
	body := types.ContainerCreate{
		Config: types.Config{
			Image: baseName, Cmd: types.Strings{"busybox", "sleep", "1000"}, Labels: map[string]string{"made": name},
		},
		HostConfig: &types.HostConfig{RestartPolicy: restartPolicy(p), NetworkMode: "none"},
	}
	ctr := &ctr{name: value{now: name}, policy: value{now: p}, joined: map[string]*value{}}
	if len(w.networks) > 0 && w.rand.IntN(2) == 0 {
		network := w.networks[w.rand.IntN(len(w.networks))]
		body.HostConfig.NetworkMode = network
		ctr.joined[network] = &value{now: "yes"}
	}
	if w.rand.IntN(4) == 0 {
		ctr.volume = w.freshName("cv")
		body.HostConfig.Binds = []string{ctr.volume + ":/data"}
	}
	made, err := c.ContainerCreate(ctx, client.CreateOptions{Name: name}, body)
	if err != nil {
		return err
	}
	w.model.noteAcked(func() {
		ctr.id = made.ID
		w.own = append(w.own, ctr)
		w.model.containers = append(w.model.containers, ctr)
		if ctr.volume != "" {
			w.model.volumes[ctr.volume] = true
		}
	})
	return nil
}

func (w *worker) renameContainer(ctx context.Context, c *client.Client) error {
	ctr := w.pickContainer()
	if ctr == nil {
		return nil
	}
	to := w.freshName("r")
	return w.model.changeValue(&ctr.name, to, func() error { return c.ContainerRename(ctx, ctr.id, to) })
}

func (w *worker) updateContainer(ctx context.Context, c *client.Client) error {
	ctr := w.pickContainer()
	if ctr == nil {
		return nil
	}
	to := policies[w.rand.IntN(len(policies))]
	return w.model.changeValue(&ctr.policy, to, func() error {
		_, err := c.ContainerUpdate(ctx, ctr.id, types.ContainerUpdate{RestartPolicy: restartPolicy(to)})
		return err
	})
}

func (w *worker) startContainer(ctx context.Context, c *client.Client) error {
	ctr := w.pickContainer()
	if ctr == nil {
		return nil
	}
	w.model.noteAsked(func() { ctr.started, ctr.stopped = true, false })
	return c.ContainerStart(ctx, ctr.id, "")
}

func (w *worker) restartContainer(ctx context.Context, c *client.Client) error {
	ctr := w.pickContainer()
	if ctr == nil {
		return nil
	}
	w.model.noteAsked(func() { ctr.started, ctr.stopped = true, false })
	return c.ContainerRestart(ctx, ctr.id, client.StopOptions{Timeout: new(0)})
}

func (w *worker) stopContainer(ctx context.Context, c *client.Client) error {
	return w.endContainer(func(id string) error { return c.ContainerStop(ctx, id, client.StopOptions{Timeout: new(0)}) })
}

func (w *worker) killContainer(ctx context.Context, c *client.Client) error {
	return w.endContainer(func(id string) error { return c.ContainerKill(ctx, id, "") })
}

func (w *worker) endContainer(verb func(id string) error) error {
	ctr := w.pickContainer()
	if ctr == nil {
		return nil
	}
	err := verb(ctr.id)
	if err == nil {
		w.model.noteAcked(func() { ctr.stopped = ctr.started })
	}
	return err
}

func (w *worker) connectNetwork(ctx context.Context, c *client.Client) error {
	return w.changeNetwork(ctx, "yes", func(ctr *ctr, network string) error { return c.NetworkConnect(ctx, network, ctr.id, nil) })
}

func (w *worker) disconnectNetwork(ctx context.Context, c *client.Client) error {
	return w.changeNetwork(ctx, "no", func(ctr *ctr, network string) error { return c.NetworkDisconnect(ctx, network, ctr.id, false) })
}

func (w *worker) changeNetwork(_ context.Context, to string, verb func(*ctr, string) error) error {
	ctr := w.pickContainer()
	if ctr == nil || len(w.networks) == 0 {
		return nil
	}
	network := w.networks[w.rand.IntN(len(w.networks))]
	var v *value
	w.model.noteAsked(func() {
		if ctr.joined[network] == nil {
			ctr.joined[network] = &value{now: "no"}
		}
		v = ctr.joined[network]
	})
	if v == nil {
		return nil
	}
	return w.model.changeValue(v, to, func() error { return verb(ctr, network) })
}

func (w *worker) removeContainer(ctx context.Context, c *client.Client) error {
	if len(w.own) < 4 {
		return nil
	}
	n := w.rand.IntN(len(w.own))
	ctr := w.own[n]
	w.own = append(w.own[:n:n], w.own[n+1:]...)
	w.model.noteAsked(func() { ctr.removing = true })
	return c.ContainerRemove(ctx, ctr.id, client.RemoveOptions{Force: true})
}

func (w *worker) createVolume(ctx context.Context, c *client.Client) error {
	name := w.freshName("v")
	w.model.noteAsked(func() { w.model.volumes[name] = false })
	_, err := c.VolumeCreate(ctx, types.VolumeCreate{Name: name, Labels: map[string]string{"made": name}})
	if err == nil {
		w.model.noteAcked(func() { w.model.volumes[name] = true })
	}
	return err
}

func (w *worker) createNetwork(ctx context.Context, c *client.Client) error {
	if len(w.networks) == 3 {
		return nil
	}
	name := w.freshName("n")
	w.model.noteAsked(func() { w.model.networks[name] = false })
	_, err := c.NetworkCreate(ctx, types.NetworkCreate{Name: name, Labels: map[string]string{"made": name}})
	if err == nil {
		w.model.noteAcked(func() {
			w.model.networks[name] = true
			w.networks = append(w.networks, name)
		})
	}
	return err
}
