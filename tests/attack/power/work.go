package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"moss/api/client"
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

// work goes on until the engine is gone.
func (w *worker) work(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil {
		w.model.mu.Lock()
		over := !w.model.over.IsZero()
		w.model.mu.Unlock()
		if over {
			return
		}
		verbs := []func(context.Context, *client.Client) error{
			w.create, w.create, w.rename, w.update, w.update, w.start, w.start, w.stop, w.stop, w.kill, w.restart,
			w.connect, w.disconnect, w.remove, w.volume, w.network, w.load, w.pull, w.pull, w.tag, w.untag, w.build, w.commit,
		}
		_ = verbs[w.rand.IntN(len(verbs))](ctx, c) // a refusal, or the end
	}
}

func (w *worker) fresh(what string) string {
	w.made++
	return fmt.Sprintf("%s-%d-%d", what, w.n, w.made)
}

// pick draws one of the worker's containers; nil if it has none.
func (w *worker) pick() *ctr {
	if len(w.own) == 0 {
		return nil
	}
	return w.own[w.rand.IntN(len(w.own))]
}

func (w *worker) create(ctx context.Context, c *client.Client) error {
	name, p := w.fresh("c"), policies[w.rand.IntN(len(policies))]
	body := client.Create{
		Image: baseName, Cmd: []string{"busybox", "sleep", "1000"}, Labels: map[string]string{"made": name},
		HostConfig: client.HostConfig{RestartPolicy: policy(p), NetworkMode: "none"},
	}
	ctr := &ctr{name: value{now: name}, policy: value{now: p}, joined: map[string]*value{}}
	if len(w.networks) > 0 && w.rand.IntN(2) == 0 {
		network := w.networks[w.rand.IntN(len(w.networks))]
		body.HostConfig.NetworkMode = network
		ctr.joined[network] = &value{now: "yes"}
	}
	if w.rand.IntN(4) == 0 {
		ctr.volume = w.fresh("cv")
		body.HostConfig.Binds = []string{ctr.volume + ":/data"}
	}
	made, err := c.ContainerCreate(ctx, name, body)
	if err != nil {
		return err
	}
	w.model.ack(func() {
		ctr.id = made.ID
		w.own = append(w.own, ctr)
		w.model.containers = append(w.model.containers, ctr)
		if ctr.volume != "" {
			w.model.volumes[ctr.volume] = true
		}
	})
	return nil
}

func (w *worker) rename(ctx context.Context, c *client.Client) error {
	ctr := w.pick()
	if ctr == nil {
		return nil
	}
	to := w.fresh("r")
	return w.model.change(&ctr.name, to, func() error { return c.ContainerRename(ctx, ctr.id, to) })
}

func (w *worker) update(ctx context.Context, c *client.Client) error {
	ctr := w.pick()
	if ctr == nil {
		return nil
	}
	to := policies[w.rand.IntN(len(policies))]
	return w.model.change(&ctr.policy, to, func() error {
		_, err := c.ContainerUpdate(ctx, ctr.id, client.Update{RestartPolicy: policy(to)})
		return err
	})
}

func (w *worker) start(ctx context.Context, c *client.Client) error {
	ctr := w.pick()
	if ctr == nil {
		return nil
	}
	w.model.ask(func() { ctr.started, ctr.stopped = true, false })
	return c.ContainerStart(ctx, ctr.id, "")
}

func (w *worker) restart(ctx context.Context, c *client.Client) error {
	ctr := w.pick()
	if ctr == nil {
		return nil
	}
	w.model.ask(func() { ctr.started, ctr.stopped = true, false })
	return c.ContainerRestart(ctx, ctr.id, 0)
}

func (w *worker) stop(ctx context.Context, c *client.Client) error {
	return w.end(func(id string) error { return c.ContainerStop(ctx, id, 0) })
}

func (w *worker) kill(ctx context.Context, c *client.Client) error {
	return w.end(func(id string) error { return c.ContainerKill(ctx, id, "") })
}

func (w *worker) end(verb func(id string) error) error {
	ctr := w.pick()
	if ctr == nil {
		return nil
	}
	err := verb(ctr.id)
	if err == nil {
		w.model.ack(func() { ctr.stopped = ctr.started })
	}
	return err
}

func (w *worker) connect(ctx context.Context, c *client.Client) error {
	return w.join(ctx, "yes", func(ctr *ctr, network string) error { return c.NetworkConnect(ctx, network, ctr.id, nil) })
}

func (w *worker) disconnect(ctx context.Context, c *client.Client) error {
	return w.join(ctx, "no", func(ctr *ctr, network string) error { return c.NetworkDisconnect(ctx, network, ctr.id, false) })
}

func (w *worker) join(_ context.Context, to string, verb func(*ctr, string) error) error {
	ctr := w.pick()
	if ctr == nil || len(w.networks) == 0 {
		return nil
	}
	network := w.networks[w.rand.IntN(len(w.networks))]
	var v *value
	w.model.ask(func() {
		if ctr.joined[network] == nil {
			ctr.joined[network] = &value{now: "no"}
		}
		v = ctr.joined[network]
	})
	if v == nil {
		return nil
	}
	return w.model.change(v, to, func() error { return verb(ctr, network) })
}

func (w *worker) remove(ctx context.Context, c *client.Client) error {
	if len(w.own) < 4 {
		return nil
	}
	n := w.rand.IntN(len(w.own))
	ctr := w.own[n]
	w.own = append(w.own[:n:n], w.own[n+1:]...)
	w.model.ask(func() { ctr.removing = true })
	return c.ContainerRemove(ctx, ctr.id, client.RemoveOptions{Force: true})
}

func (w *worker) volume(ctx context.Context, c *client.Client) error {
	name := w.fresh("v")
	w.model.ask(func() { w.model.volumes[name] = false })
	_, err := c.VolumeCreate(ctx, client.VolumeCreate{Name: name, Labels: map[string]string{"made": name}})
	if err == nil {
		w.model.ack(func() { w.model.volumes[name] = true })
	}
	return err
}

func (w *worker) network(ctx context.Context, c *client.Client) error {
	if len(w.networks) == 3 {
		return nil
	}
	name := w.fresh("n")
	w.model.ask(func() { w.model.networks[name] = false })
	_, err := c.NetworkCreate(ctx, client.NetworkCreate{Name: name, Labels: map[string]string{"made": name}})
	if err == nil {
		w.model.ack(func() {
			w.model.networks[name] = true
			w.networks = append(w.networks, name)
		})
	}
	return err
}
