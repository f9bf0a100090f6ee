package handler

import (
	"errors"
	"math"
	"net/http"
	"reflect"
	"time"

	"moss/api/compat"
	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/stdio"
)

func (h *Handler) containerStart(c *route.Call) error {
	if c.Has("checkpoint") || c.Has("checkpoint-dir") {
		return noCheckpoints(c) // A start from the beginning is another one than was asked for.
	}
	if err := h.startBody(c); err != nil {
		return err
	}
	if c.Has("detachKeys") {
		keys, err := stdio.ParseDetachKeys(c.Text("detachKeys"))
		if err != nil {
			return err
		}
		if err := h.viewers.SetDetachKeys(c.Param("id"), keys); err != nil {
			return err
		}
	}
	c.Refuses() // what is wrong from here on is the container, and not the request
	return c.NoContent(h.containers.Start(c.Ctx(), c.Param("id")))
}

// trivialBody is the longest start body in bytes that says nothing: clients send {} or null.
const trivialBody = 7

// startBody takes the HostConfig that clients up to 1.23 may send with start (document 2, 4.1): it replaces that of create.
func (h *Handler) startBody(c *route.Call) error {
	r := c.Request()
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	trivial := r.ContentLength >= 0 && r.ContentLength <= trivialBody
	if c.Version() >= v(24) && !trivial {
		c.Refuses() // clients that try again without a body look for it
		return fault.Invalid("starting container with HostConfig was deprecated since v1.10 and removed in v1.12")
	}
	if trivial && (c.Version() >= v(24) || c.Header("Content-Type") == "") {
		return nil
	}
	var asked *types.HostConfig
	if err := decodeBody(c, &asked); err != nil {
		return err
	}
	if asked == nil || reflect.ValueOf(*asked).IsZero() {
		return nil
	}
	host := wire.ToHost(asked)
	if err := knownHost(c.Version(), &host); err != nil {
		return err
	}
	return h.settings.Reconfigure(c.Ctx(), c.Param("id"), host)
}

func (h *Handler) containerStop(c *route.Call) error {
	opt, err := stopOptions(c)
	if err != nil {
		return err
	}
	return c.NoContent(h.containers.Stop(c.Ctx(), c.Param("id"), opt))
}

func (h *Handler) containerRestart(c *route.Call) error {
	opt, err := stopOptions(c)
	if err != nil {
		return err
	}
	return c.NoContent(h.containers.Restart(c.Ctx(), c.Param("id"), opt))
}

// stopOptions reads how to stop.
func stopOptions(c *route.Call) (container.StopOptions, error) {
	opt := container.StopOptions{Signal: c.Text("signal")}
	if !c.Has("t") {
		return opt, nil
	}
	seconds, err := c.Int("t", 0)
	if err != nil {
		return opt, err
	}
	const most = math.MaxInt64 / int64(time.Second)
	if int64(seconds) > most || int64(seconds) < -most {
		return opt, fault.Invalid("invalid value for t: %d seconds is out of range", seconds)
	}
	opt.Timeout = new(time.Duration(seconds) * time.Second)
	return opt, nil
}

func (h *Handler) containerKill(c *route.Call) error {
	id := c.Param("id")
	err := h.containers.Kill(c.Ctx(), id, c.Text("signal"))
	if c.Version() < v(20) && fault.Is(err, fault.Conflict) {
		// These clients take the killing of what does not run for done. It may have ended so lately that its state does not
		// say so: then the cause is a conflict as well.
		if r, getErr := h.inventory.Get(id); getErr == nil && (!r.State.Running() || fault.Is(errors.Unwrap(err), fault.Conflict)) {
			err = nil
		}
	}
	return c.NoContent(err)
}

func (h *Handler) containerRemove(c *route.Call) error {
	// The answer goes out before the event: a client that runs a container with --rm leaves when it hears that event, and
	// would break off its own request.
	answered := false
	err := h.containers.Remove(c.Ctx(), c.Param("id"), container.RemoveOptions{
		Force: c.Bool("force"), Volumes: c.Bool("v"), Link: c.Bool("link"),
		Gone: func() {
			answered = true
			c.Writer().WriteHeader(http.StatusNoContent)
			_ = http.NewResponseController(c.Writer()).Flush() // The client may have gone.
		},
	})
	if answered {
		return err
	}
	return c.NoContent(err)
}

func (h *Handler) containerPause(c *route.Call) error {
	return c.NoContent(h.settings.Pause(c.Ctx(), c.Param("id")))
}

func (h *Handler) containerUnpause(c *route.Call) error {
	return c.NoContent(h.settings.Unpause(c.Ctx(), c.Param("id")))
}

func (h *Handler) containerUpdate(c *route.Call) error {
	var body types.ContainerUpdate
	warnings, err := decodeWarn(c, &body)
	if err != nil {
		return err
	}
	asked := wire.ToUpdate(&body)
	if limit := asked.PidsLimit; c.Version() >= v(40) && limit != nil && *limit == 0 {
		asked.PidsLimit = new(int64(-1)) // before, clients sent 0 for what they did not ask for
	}
	more, err := h.settings.Update(c.Ctx(), c.Param("id"), asked)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, &types.ContainerUpdated{Warnings: joinWarnings(warnings, more)})
}

func (h *Handler) containerRename(c *route.Call) error {
	name := c.Text("name")
	if name == "" {
		return fault.Invalid("invalid value for name: the new name must not be empty")
	}
	return c.NoContent(h.settings.Rename(c.Ctx(), c.Param("id"), name))
}

func (h *Handler) containerResize(c *route.Call) error {
	height, err := readTerminalSide(c, "h")
	if err != nil {
		return err
	}
	width, err := readTerminalSide(c, "w")
	if err != nil {
		return err
	}
	err = h.settings.Resize(c.Ctx(), c.Param("id"), width, height)
	if fault.Is(err, fault.Conflict) { // the documents know one status for it
		return fault.Internal("cannot resize container %s: %v", c.Param("id"), err)
	}
	return c.Empty(err)
}

// readTerminalSide returns one side of a terminal.
func readTerminalSide(c *route.Call, name string) (uint16, error) {
	if !c.Has(name) {
		return 0, fault.Invalid("missing value for %s: want a number of characters", name)
	}
	n, err := c.Int(name, 0)
	if err != nil {
		return 0, err
	}
	if n < 0 || n > math.MaxUint16 {
		return 0, fault.Invalid("invalid value for %s: %d is not between 0 and %d", name, n, math.MaxUint16)
	}
	return uint16(n), nil
}

func (h *Handler) containerWait(c *route.Call) error {
	condition, err := container.ParseWaitCondition(c.Text("condition"))
	if err != nil {
		return err
	}
	begun := false
	code, err := h.inventory.WaitFor(c.Ctx(), c.Param("id"), condition, func() {
		begun = true
		// Clients of today read the head before they start the container that they wait for, or attach to it.
		c.Writer().Header().Set("Content-Type", compat.JSON)
		c.Writer().WriteHeader(http.StatusOK)
		_ = http.NewResponseController(c.Writer()).Flush() // The client may have gone.
	})
	switch {
	case err != nil && begun: // the status is told: the body says why there is no code, as from 1.30 on
		why := &types.WaitError{Message: fault.Text(c.Reason(err))}
		return replyJSON(c, http.StatusOK, &types.ContainerWaited{StatusCode: -1, Error: why})
	case err != nil:
		return err
	}
	return replyJSON(c, http.StatusOK, &types.ContainerWaited{StatusCode: code})
}
