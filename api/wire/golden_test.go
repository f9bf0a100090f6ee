package wire_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"moss/api/apierr"
	"moss/api/apiver"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/archive"
	"moss/engine/container"
	"moss/engine/event"
	"moss/engine/exec"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/network"
	"moss/engine/stats"
	"moss/engine/stats/top"
	"moss/engine/system"
	"moss/engine/volume"
)

// update rewrites the goldens: go test ./api/wire -run Golden -update.
var update = flag.Bool("update", false, "rewrite the golden files")

// described are the versions that the documents describe, and later ones in which much changes.
func described() []apiver.Version {
	v := func(minor uint16) apiver.Version { return apiver.New(1, minor) }
	return []apiver.Version{v(18), v(20), v(21), v(22), v(24), v(25), v(30), v(35), v(40), v(41), v(44), v(47), v(50), v(51)}
}

// TestGolden compares every record that the engine shows, whole, at every described version. The samples have something in
// each of their fields.
func TestGolden(t *testing.T) {
	now := sample().StartedAt.Add(5 * time.Minute)
	entry := wire.NewContainerSummary(sample(), now)
	entry.SizeRw, entry.SizeRootFs = new(int64(4096)), new(int64(8192))
	sized := wire.NewContainerInspect(sample())
	sized.SizeRw, sized.SizeRootFs = new(int64(4096)), new(int64(8192))
	usage := types.DiskUsage{Containers: []*types.ContainerSummary{entry}, BuildCache: []types.BuildCache{filled[types.BuildCache]()}}
	wire.AddImages(&usage, sampleUsage())
	wire.AddVolumes(&usage, []volume.Usage{{Volume: sampleVolume(), Size: 5, Users: 6}})
	halfDone := image.Progress{ID: "1", Status: "Importing", Current: 50, Total: 100, Aux: map[string]string{"ID": "sha256:1"}}
	failed := &types.Progress{Error: "no", ErrorDetail: &types.ErrorDetail{Code: 3, Message: "no"}}
	for name, value := range map[string]any{
		"list":    []*types.ContainerSummary{entry, wire.NewContainerSummary(stopped(), now)},
		"created": filled[types.ContainerCreated](), "updated": filled[types.ContainerUpdated](), "committed": filled[types.ImageCommitted](),
		"inspect":         sized,
		"inspect-stopped": wire.NewContainerInspect(stopped()),
		"inspect-health":  wire.NewContainerInspect(sample()).State,
		"inspect-minimal": wire.NewContainerInspect(&container.Record{}),
		"host":            wire.NewContainerInspect(&container.Record{Host: filled[container.HostConfig]()}).HostConfig,
		"top":             wire.NewTop(&top.Table{Titles: []string{"PID", "CMD"}, Rows: [][]string{{"1", "sh"}, {"2", "sleep"}}}),
		"changes":         wire.NewChanges([]container.Change{{Path: "/a"}, {Path: "/b", Kind: 1}, {Path: "/c", Kind: 2}}),
		"pathstat":        wire.NewPathStat(archive.Stat{Name: "l", Size: 5, Mode: fs.ModeSymlink | 0o777, ModTime: began, LinkTarget: "/etc"}),
		"wait":            filled[types.ContainerWaited](),
		"stats-v1":        wire.NewStats(legacySample()),
		"stats-v2":        wire.NewStats(unifiedSample()),
		"stats-stopped":   wire.NewStats(&stats.Sample{ID: "4fa6", Name: "web"}),
		"images-plain":    []*types.ImageSummary{wire.NewImageSummary(sampleImage(), false)},
		"image":           wire.NewImageInspect(sampleImage(), "overlay"),
		"history":         []types.ImageHistory{filled[types.ImageHistory](), {}},
		"search":          []types.SearchResult{filled[types.SearchResult](), {}},
		"removed":         []types.ImageRemoved{{Untagged: "a:b"}, {Deleted: "sha256:1"}},
		"progress": []*types.Progress{
			wire.NewProgress(halfDone), failed,
			// What tells clients which messages are drawn in the line of a part: a progressDetail, be it empty.
			wire.NewProgress(image.Progress{ID: "0123456789ab", Status: "Pull complete"}),
			wire.NewProgress(image.Progress{ID: "v1", Status: "Pulling from a", Heading: true}),
			wire.NewProgress(image.Progress{Status: "Digest: sha256:1"}),
			wire.NewProgress(image.Progress{Stream: "Loaded image: a:b\n"}),
		},
		"exec":         wire.NewExecInspect(sampleExec(), wire.NewContainerInspect(&container.Record{ID: "4f", Name: "web"})),
		"exec-running": wire.NewExecInspect(exec.Info{ID: "7d", Running: true, Pid: 5, Config: exec.Config{Cmd: []string{"sh"}}}, nil),
		"exec-created": filled[types.ExecCreated](),
		"volume":       wire.NewVolume(sampleVolume()),
		"volumes":      types.VolumeList{Volumes: []*types.Volume{wire.NewVolume(sampleVolume()), wire.NewVolume(&volume.Volume{Name: "plain"})}, Warnings: []string{"w"}},
		"networks":     []*types.Network{wire.NewNetwork(sampleNetwork(), []*container.Record{member()}), wire.NewNetwork(&network.Network{Name: "none"}, nil)},
		"network":      wire.NewNetworkInspect(sampleNetwork(), []*container.Record{member()}), "network-created": filled[types.NetworkCreated](),
		"version":        wire.NewVersion(filled[system.Version](), apiver.Range{Since: apiver.Min, Until: apiver.Max}),
		"login":          wire.NewLogin(filled[image.Login]()),
		"df":             usage,
		"pruned-images":  wire.NewImagesPruned([]image.Removed{{Untagged: "a:b"}, {Deleted: "sha256:1"}}, 7),
		"pruned-nothing": []any{types.ContainersPruned{}, types.VolumesPruned{}, types.NetworksPruned{}, types.BuildsPruned{}, wire.NewImagesPruned(nil, 0)},
	} {
		for _, version := range described() {
			golden(t, name, version, value)
		}
	}
	for _, version := range described() {
		list := []*types.ImageSummary{wire.NewImageSummary(sampleImage(), true), wire.NewImageSummary(&image.Image{ID: "sha256:1"}, true)}
		for _, entry := range list {
			wire.FitImage(entry, version)
		}
		golden(t, "images", version, list)
		info := wire.NewInfo(sampleInfo())
		wire.FitInfo(info, version)
		golden(t, "info", version, info)
	}
	for _, of := range []string{event.TypeContainer, event.TypeImage, event.TypeVolume, event.TypeNetwork, event.TypeDaemon} {
		e := filled[event.Event]()
		e.Type, e.Attributes = of, map[string]string{"image": "busybox", "name": "web", "exitCode": "3"}
		for _, version := range described() {
			golden(t, "event-"+of, version, wire.NewEvent(&e))
		}
	}
}

// TestGoldenBodies reads bodies with every field that there is, and shows what of them each version has: as the engine is
// asked for it, and as it would be shown again.
func TestGoldenBodies(t *testing.T) {
	for _, version := range described() {
		var create types.ContainerCreate
		decodeFilled(t, version, filled[types.ContainerCreate](), &create)
		golden(t, "create", version, create)
		golden(t, "create-asked", version, map[string]any{
			"config": wire.ToConfig(&create.Config), "host": wire.ToCreateHost(&create), "endpoints": wire.ToEndpoints(&create),
		})
		var update types.ContainerUpdate
		decodeFilled(t, version, filled[types.ContainerUpdate](), &update)
		golden(t, "update-asked", version, wire.ToUpdate(&update))
		var exec types.ExecCreate
		decodeFilled(t, version, filled[types.ExecCreate](), &exec)
		golden(t, "exec-asked", version, wire.ToExec(&exec))
		var start types.ExecStart
		decodeFilled(t, version, filled[types.ExecStart](), &start)
		golden(t, "exec-start", version, start)
		var copied types.CopySource
		decodeFilled(t, version, filled[types.CopySource](), &copied)
		golden(t, "copy", version, copied)
		var volume types.VolumeCreate
		decodeFilled(t, version, filled[types.VolumeCreate](), &volume)
		golden(t, "volume-create", version, volume)
		var connect types.NetworkConnect
		decodeFilled(t, version, filled[types.NetworkConnect](), &connect)
		golden(t, "network-connect", version, map[string]any{"container": connect.Container, "endpoint": wire.ToEndpoint(connect.EndpointConfig)})
		var disconnect types.NetworkDisconnect
		decodeFilled(t, version, filled[types.NetworkDisconnect](), &disconnect)
		golden(t, "network-disconnect", version, disconnect)
		var auth types.AuthConfig
		raw := `{"username":"u","password":"p","email":"e","serveraddress":"s","identitytoken":"i","registrytoken":"r","auth":"eDp5"}`
		if err := wire.Decode([]byte(raw), &auth, version); err != nil {
			t.Fatal(err)
		}
		golden(t, "auth", version, map[string]string{
			"username": auth.Username, "password": string(auth.Password), "email": auth.Email, "serveraddress": auth.ServerAddress,
			"identitytoken": string(auth.IdentityToken), "registrytoken": string(auth.RegistryToken), "auth": string(auth.Auth),
		})

		body := filled[types.NetworkCreate]()
		body.EnableIPv4, body.Scope, body.Ingress = nil, "", false // refused, at every version
		body.IPAM.Config[0].AuxiliaryAddresses = types.AuxAddresses{"other": "192.0.2.9"}
		var network types.NetworkCreate
		decodeFilled(t, version, body, &network)
		asked, err := wire.ToNetwork(&network)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "network-asked", version, asked)
	}
}

// decodeFilled writes a body as a client that sends everything, and reads it as of a version.
func decodeFilled(t *testing.T, version apiver.Version, body, into any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Decode(raw, into, version); err != nil {
		t.Fatalf("Decode(%s) at %v = %v", raw, version, err)
	}
}

// TestGoldenErrors has the answer that an error becomes, and the message that ends a stream.
func TestGoldenErrors(t *testing.T) {
	err := fault.NotFound("No such container: %s", `a"<b>`)
	for _, version := range described() {
		answer := httptest.NewRecorder()
		apierr.Write(answer, version, err)
		got := fmt.Sprintf("%d %s\n\n%s", answer.Code, answer.Header().Get("Content-Type"), answer.Body)
		compare(t, filepath.Join("testdata", "golden", "error."+version.String()+".txt"), []byte(got))
	}
	compare(t, filepath.Join("testdata", "golden", "error-in-stream.json"), apierr.StreamMessage(err))
}

// golden compares a value with the file of its version. A version in which nothing has changed has none: there the file of the
// version before counts.
func golden(t *testing.T, name string, version apiver.Version, value any) {
	t.Helper()
	raw, err := wire.Encode(value, version)
	if err != nil {
		t.Errorf("Encode(%s, %v) = %v", name, version, err)
		return
	}
	var got bytes.Buffer
	if err := json.Indent(&got, raw, "", "  "); err != nil {
		t.Errorf("Encode(%s, %v) is no JSON: %v\n%s", name, version, err, raw)
		return
	}
	got.WriteByte('\n')
	path := goldenFile(name, version)
	if *update {
		_ = os.Remove(path) // the present one is not to be compared with; there may be none
		before, err := os.ReadFile(lastGolden(name, version))
		if err == nil && bytes.Equal(before, got.Bytes()) {
			return
		}
	} else {
		path = lastGolden(name, version)
	}
	compare(t, path, got.Bytes())
}

func goldenFile(name string, version apiver.Version) string {
	return filepath.Join("testdata", "golden", name+"."+version.String()+".json")
}

// lastGolden returns the newest file of the versions up to this one, or one that is not there.
func lastGolden(name string, version apiver.Version) string {
	last := goldenFile(name, version)
	for _, v := range described() {
		if _, err := os.Stat(goldenFile(name, v)); v <= version && err == nil {
			last = goldenFile(name, v)
		}
	}
	return last
}

func compare(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // Everybody may read them.
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s", path, got)
	}
}
