package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"moss/api/types"
)

// BuildOptions say how to build an image (API document 2, 4.2: build). The zero values are the engine's own.
type BuildOptions struct {
	Context    io.Reader             // a tar archive, plain or compressed
	Write      func(io.Writer) error // writes the archive, in place of Context; is called once
	Remote     string                // where the engine fetches the context, in place of both
	Dockerfile string                // path in the context
	Tags       []string
	Target     string
	Platform   string

	Quiet, NoCache, Pull bool
	Squash               bool
	KeepContainers       bool // of steps that succeeded
	ForceRemove          bool // containers of steps that failed too
	Steps                bool // messages carry a BuildStep under aux; an extension of moss

	Args      map[string]*string // nil: declared without a value
	Labels    map[string]string
	CacheFrom []string
	Auths     map[string]types.AuthConfig // by registry
	Secrets   map[string]Secret           // by id; an extension of moss

	Host types.HostConfig // only what means something to RUN: limits, network, hosts, security options
}

// Secret is something that shows itself in no print.
type Secret []byte

// Format hides the secret whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[hidden]") }

// BuildStep is what a message of a build tells of one instruction, if it was asked to.
type BuildStep struct {
	Stage       int    // from 0
	StageName   string // may be empty
	Number      int    // of the step, over all stages that are built, from 1
	Total       int    // steps in all
	Instruction string
	State       string // started, cached, done or failed
	Image       string // id of the result; empty while there is none
	Seconds     float64
}

// Built is what the last messages of a build carry under aux.
type Built struct{ ID string }

// ImageBuild makes an image from a Dockerfile and calls each for every message. An error of the context comes back as it
// is; a RUN that fails is an *Error with its exit code.
func (c *Client) ImageBuild(ctx context.Context, opts BuildOptions, each func(Progress) error) error {
	query, err := opts.toQuery()
	if err != nil {
		return err
	}
	header, err := opts.toHeader()
	if err != nil {
		return err
	}
	req := request{method: http.MethodPost, path: "/build", query: query, header: header}
	switch {
	case opts.Write != nil:
		return c.uploadArchive(ctx, req, written(opts.Write), -1, each)
	case opts.Context != nil:
		return c.uploadArchive(ctx, req, opts.Context, -1, each)
	default:
		return c.streamProgress(ctx, req, each)
	}
}

// written is an archive that writes itself.
type written func(io.Writer) error

// Read is there for net/http, which writes such a body and does not read it.
func (written) Read([]byte) (int, error) {
	return 0, errors.New("this archive is not read but written")
}

// WriteTo writes the archive.
func (w written) WriteTo(out io.Writer) (int64, error) {
	counted := &counting{Writer: out}
	err := w(counted)
	return counted.n, err
}

// counting is a writer that counts.
type counting struct {
	io.Writer

	n int64
}

// Write writes.
func (c *counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

func (o *BuildOptions) toQuery() (url.Values, error) {
	query := url.Values{}
	h := &o.Host
	setTexts(query, map[string]string{
		"remote": o.Remote, "dockerfile": o.Dockerfile, "target": o.Target, "platform": o.Platform, "networkmode": h.NetworkMode,
		"cgroupparent": h.CgroupParent, "cpusetcpus": h.CpusetCpus, "cpusetmems": h.CpusetMems, "isolation": h.Isolation,
	})
	for key, on := range map[string]bool{
		"q": o.Quiet, "nocache": o.NoCache, "pull": o.Pull, "forcerm": o.ForceRemove, "steps": o.Steps, "squash": o.Squash,
	} {
		if on {
			query.Set(key, "1")
		}
	}
	if o.KeepContainers {
		query.Set("rm", "0")
	}
	for key, n := range map[string]int64{
		"memory": h.Memory, "memswap": h.MemorySwap, "shmsize": h.ShmSize, "cpushares": h.CPUShares, "cpuperiod": h.CPUPeriod,
		"cpuquota": h.CPUQuota,
	} {
		if n != 0 {
			query.Set(key, strconv.FormatInt(n, 10))
		}
	}
	for key, list := range map[string][]string{"t": o.Tags, "extrahosts": h.ExtraHosts, "securityopt": h.SecurityOpt} {
		if len(list) > 0 {
			query[key] = list
		}
	}
	for _, part := range []struct {
		key   string
		given bool
		value any
	}{
		{"buildargs", len(o.Args) > 0, o.Args},
		{"labels", len(o.Labels) > 0, o.Labels},
		{"cachefrom", len(o.CacheFrom) > 0, o.CacheFrom},
		{"ulimits", len(h.Ulimits) > 0, h.Ulimits},
	} {
		if !part.given {
			continue
		}
		raw, err := json.Marshal(part.value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", part.key, err)
		}
		query.Set(part.key, string(raw))
	}
	return query, nil
}

func (o *BuildOptions) toHeader() (http.Header, error) {
	header := http.Header{}
	if len(o.Auths) > 0 {
		raw, err := json.Marshal(o.Auths)
		if err != nil {
			return nil, fmt.Errorf("encode credentials: %w", err)
		}
		header.Set("X-Registry-Config", base64.URLEncoding.EncodeToString(raw))
	}
	if len(o.Secrets) > 0 {
		raw, err := json.Marshal(o.Secrets) // bytes are base64 in JSON
		if err != nil {
			return nil, fmt.Errorf("encode secrets: %w", err)
		}
		header.Set("X-Build-Secrets", base64.URLEncoding.EncodeToString(raw))
	}
	return header, nil
}

// BuildPruneOptions say what of the build cache is to go.
type BuildPruneOptions struct {
	All     bool                // also what later builds may well use
	Keep    int64               // bytes that may stay
	Filters map[string][]string // until, id
}

// BuildPrune removes what of the build cache nothing needs.
func (c *Client) BuildPrune(ctx context.Context, opts BuildPruneOptions) (types.BuildsPruned, error) {
	query := url.Values{}
	if opts.All {
		query.Set("all", "1")
	}
	if opts.Keep != 0 {
		query.Set("keep-storage", strconv.FormatInt(opts.Keep, 10))
	}
	var out types.BuildsPruned
	if err := encodeFilters(query, opts.Filters); err != nil {
		return out, err
	}
	err := c.call(ctx, request{method: http.MethodPost, path: "/build/prune", query: query}, &out)
	return out, err
}
