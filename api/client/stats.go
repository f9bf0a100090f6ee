package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Stats is one sample of what a container uses (API document 1, 2.5).
type Stats struct {
	Read     time.Time               `json:"read"`
	PreRead  time.Time               `json:"preread"`
	Pids     PidsStats               `json:"pids_stats"`
	Network  NetworkStats            `json:"network"`
	Networks map[string]NetworkStats `json:"networks"` // by interface
	Memory   MemoryStats             `json:"memory_stats"`
	Blkio    BlkioStats              `json:"blkio_stats"`
	CPU      CPUStats                `json:"cpu_stats"`
	PreCPU   CPUStats                `json:"precpu_stats"` // of the sample before
}

// PidsStats counts processes.
type PidsStats struct {
	Current uint64 `json:"current"`
}

// NetworkStats counts what one interface moved, in bytes.
type NetworkStats struct {
	RxBytes uint64 `json:"rx_bytes"`
	TxBytes uint64 `json:"tx_bytes"`
}

// MemoryStats is memory in bytes. What Stats holds differs between the versions of cgroups.
type MemoryStats struct {
	Usage uint64            `json:"usage"`
	Limit uint64            `json:"limit"`
	Stats map[string]uint64 `json:"stats"`
}

// BlkioStats counts block I/O.
type BlkioStats struct {
	ServiceBytes []BlkioEntry `json:"io_service_bytes_recursive"`
}

// BlkioEntry is what one device did of one kind of operation, in bytes.
type BlkioEntry struct {
	Op    string `json:"op"`
	Value uint64 `json:"value"`
}

// CPUStats is CPU time in nanoseconds.
type CPUStats struct {
	Usage struct {
		Total  uint64   `json:"total_usage"`
		PerCPU []uint64 `json:"percpu_usage"`
	} `json:"cpu_usage"`
	System uint64 `json:"system_cpu_usage"` // of all CPUs together, idle time counted
	Online uint32 `json:"online_cpus"`
}

// ContainerStats calls each for every sample until the stream ends, each fails or ctx ends. Without stream there is one.
func (c *Client) ContainerStats(ctx context.Context, ref string, stream bool, each func(Stats) error) error {
	path, err := containerPath(ref, "/stats")
	if err != nil {
		return err
	}
	query := url.Values{"stream": {formatBool(stream)}}
	resp, err := c.sendRequest(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.decodeStream(ctx, resp.Body, func(raw json.RawMessage) error {
		var sample Stats
		if err := json.Unmarshal(raw, &sample); err != nil {
			return fmt.Errorf("decode stats: %w", err)
		}
		return each(sample)
	})
}
