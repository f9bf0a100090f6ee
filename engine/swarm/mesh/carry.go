package mesh

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"moss/engine/swarm/table"
	"moss/engine/swarm/tunnel"
)

// carrier holds the tunnel, once there is another node.
type carrier struct {
	mesh *Mesh

	mu     sync.Mutex // guards what follows
	tunnel *tunnel.Tunnel
	peers  []tunnel.Peer
	wait   pauses
	retry  *time.Timer // nil: no try is to come
	told   string
	ended  bool
}

// setView makes the peers of the tunnel those of the view. A tunnel that cannot be opened is no error: it is tried again.
func (c *carrier) setView(node string, view *table.Table) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = false
	c.peers = tunnel.PeersOf(view, node)
	if c.tunnel == nil {
		if len(c.peers) == 0 || c.retry != nil || c.mesh.opt.NetNS == "" {
			return nil
		}
		c.openTunnel()
		return nil
	}
	return c.tunnel.Set(c.peers)
}

// openTunnel opens the tunnel, or says why not and tries again later. c.mu is held.
func (c *carrier) openTunnel() {
	err := c.tryTunnel()
	if err == nil {
		c.wait, c.told = pauses{}, ""
		return
	}
	if text := err.Error(); text != c.told {
		c.told = text
		c.mesh.opt.Log.Error().Err(err).Msg("the swarm's networks end at this node: their tunnel is not open")
	}
	c.retry = time.AfterFunc(c.wait.nextPause(), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.retry = nil
		if !c.ended && c.tunnel == nil && c.mesh.life.Err() == nil {
			c.openTunnel()
		}
	})
}

func (c *carrier) tryTunnel() error {
	key, err := c.mesh.keys.privateKey()
	if err != nil {
		return err
	}
	opt := c.mesh.opt
	t, err := tunnel.Open(tunnel.Options{
		NetNS: opt.NetNS, Device: Device, Key: key, Port: opt.DataPort,
		Report: func(text string) { opt.Log.Debug().Str("error", text).Msg("the tunnel of the swarm's networks") },
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("UDP port %d of this host is in use: the setting swarm-data-port names another one: %w", opt.DataPort, err)
	}
	if err != nil {
		return err
	}
	if err := t.Set(c.peers); err != nil {
		return errors.Join(err, t.Close())
	}
	c.tunnel = t
	opt.Log.Info().Uint16("port", t.Port()).Int("nodes", len(c.peers)).Msg("the tunnel of the swarm's networks is open")
	return nil
}

// closeTunnel ends the tunnel and leaves its device.
func (c *carrier) closeTunnel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endTunnel()
}

// endTunnel is closeTunnel with c.mu held.
func (c *carrier) endTunnel() {
	c.ended = true
	if c.retry != nil {
		c.retry.Stop()
		c.retry = nil
	}
	if c.tunnel != nil {
		_ = c.tunnel.Close()
		c.tunnel = nil
	}
	c.wait, c.told, c.peers = pauses{}, "", nil
}

// removeTunnel ends the tunnel and takes its device away.
func (c *carrier) removeTunnel() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endTunnel()
	if c.mesh.opt.NetNS == "" {
		return nil
	}
	return tunnel.Remove(c.mesh.opt.NetNS, Device)
}
