package wire_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"moss/api/apiver"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/fault"
)

// TestLater: a field of a later version that is not served is named where it has a value, and nowhere else.
func TestLater(t *testing.T) {
	for _, tc := range []struct {
		body     any
		in       string
		refused  string
		warnings []string
	}{
		{body: &types.ContainerCreate{}, in: `{"HostConfig":{"CpuRealtimePeriod":1}}`, refused: "HostConfig.CpuRealtimePeriod is of API version 1.25"},
		{body: &types.ContainerCreate{}, in: `{"HostConfig":{"CpuRealtimeRuntime":1}}`, refused: "HostConfig.CpuRealtimeRuntime"},
		{
			body:     &types.ContainerCreate{},
			in:       `{"HostConfig":{"KernelMemoryTCP":1,"DiskQuota":2}}`,
			warnings: []string{"HostConfig.DiskQuota has no effect", "HostConfig.KernelMemoryTCP has"},
		},
		{body: &types.ContainerCreate{}, in: `{"HostConfig":{"KernelMemoryTCP":0,` +
			`"CpuRealtimePeriod":0}}`},
		{body: &types.ContainerCreate{}, in: `null`},
		{body: &types.ContainerUpdate{}, in: `{"KernelMemoryTCP":9}`, warnings: []string{"KernelMemoryTCP has no effect"}},
		{body: &types.HostConfig{}, in: `{"KernelMemory":5,"DiskQuota":6}`, warnings: []string{"DiskQuota has no effect", "KernelMemory has no effect"}},
		{body: &types.VolumeCreate{}, in: `{"ClusterVolumeSpec":{"Group":"x"}}`, refused: "ClusterVolumeSpec"},
		{body: &types.VolumeCreate{}, in: `{"ClusterVolumeSpec":{}}`},
		{body: &types.ServiceSpec{}, in: `{"TaskTemplate":{"ContainerSpec":{"Secrets":[{}, {"SecretID":"s"}]}}}`, refused: "TaskTemplate.ContainerSpec.Secrets is of API version 1.25"},
		{body: &types.ServiceSpec{}, in: `{"UpdateConfig":{"Monitor":5000000001}}`, refused: "UpdateConfig.Monitor is of API version 1.25"},
		{body: &types.ServiceSpec{}, in: `{"UpdateConfig":{"Monitor":5000000000,"MaxFailureRatio":0,"Order":"stop-first"},"TaskTemplate":{"Runtime":"container"}}`},
		{body: &types.SwarmSpec{}, in: `{"CAConfig":{"ForceRotate":1}}`, refused: "CAConfig.ForceRotate is of API version 1.30"},
		{body: &types.SwarmInit{}, in: `{"DataPathPort":4789}`, refused: "DataPathPort is of API version 1.40"},
		{body: &types.SwarmInit{}, in: `{"DataPathPort":0,"SubnetSize":24,"Spec":{"CAConfig":{"ForceRotate":0}}}`},
	} {
		warnings, err := wire.DecodeWarn([]byte(tc.in), tc.body, apiver.Max)
		if refused := err != nil; refused != (tc.refused != "") || refused && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("DecodeWarn(%s) as %T = %v, want a refusal with %q", tc.in, tc.body, err, tc.refused)
		}
		if !slices.EqualFunc(warnings, tc.warnings, strings.HasPrefix) {
			t.Errorf("DecodeWarn(%s) as %T warns %q, want %q", tc.in, tc.body, warnings, tc.warnings)
		}
	}
}

// TestLostFields: a field that later versions have lost is warned of there, and read before.
func TestLostFields(t *testing.T) {
	for version, want := range map[apiver.Version]int{apiver.New(1, 39): 0, apiver.New(1, 40): 1, apiver.New(1, 41): 1, apiver.New(1, 42): 2} {
		var host types.HostConfig
		warnings, err := wire.DecodeWarn([]byte(`{"KernelMemory":5,"DiskQuota":6}`), &host, version)
		read := 0
		for _, value := range []int64{host.KernelMemory, host.DiskQuota} {
			if value != 0 {
				read++
			}
		}
		if err != nil || len(warnings) != want || read != 2-want {
			t.Errorf("%s: warnings %q, %d fields read, %v; want %d warnings, and the other fields read", version, warnings, read, err, want)
		}
	}
}

// TestNoFieldIsOfALaterVersion: Decode would leave such a field out without a word, whatever its value.
func TestNoFieldIsOfALaterVersion(t *testing.T) {
	for _, body := range []any{
		types.ContainerCreate{},
		types.ContainerUpdate{},
		types.Config{},
		types.HostConfig{},
		types.ExecCreate{},
		types.ExecStart{},
		types.NetworkCreate{},
		types.NetworkConnect{},
		types.NetworkDisconnect{},
		types.VolumeCreate{},
		types.CopySource{},
		types.AuthConfig{},
		types.ServiceSpec{},
		types.NodeSpec{},
		types.SwarmSpec{},
		types.SwarmInit{},
		types.SwarmJoin{},
		types.SwarmUnlock{},
	} {
		for name, versions := range rangesOf(t, reflect.TypeOf(body)) {
			if versions.Since > apiver.Max {
				t.Errorf("%T: %s is of %s: the newest version is %s", body, name, versions.Since, apiver.Max)
			}
		}
	}
}

// rangesOf lists the ranges of the fields of a struct, and of those below.
func rangesOf(t *testing.T, of reflect.Type) map[string]apiver.Range {
	t.Helper()
	all := map[string]apiver.Range{}
	for f := range of.Fields() {
		versions, err := apiver.ParseRange(f.Tag.Get("api"))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name] = versions
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			for name, below := range rangesOf(t, inner) {
				all[f.Name+"."+name] = below
			}
		}
	}
	return all
}

// TestDecodeCreate: settings of the host at the top level are those of a body without a HostConfig; beside one some of them
// count where it leaves them open.
func TestDecodeCreate(t *testing.T) {
	const top = `"Memory":5,"MemorySwap":6,"CpuShares":7,"CpusetCpus":"1","VolumeDriver":"d","Binds":["/a:/b"],` +
		`"PortBindings":{"80/tcp":[{"HostPort":"81"}]},"Privileged":true`
	for _, version := range []apiver.Version{apiver.Min, apiver.Max} {
		for _, tc := range []struct {
			in, binds, cpus string
			memory, shares  int64
		}{
			{`{` + top + `}`, "/a:/b", "1", 5, 7},
			{`{"HostConfig":null,` + top + `}`, "/a:/b", "1", 5, 7},
			{`{"HostConfig":{},` + top + `}`, "", "1", 5, 7},
			{`{"HostConfig":{"Memory":8,"CpusetCpus":"2"},` + top + `}`, "", "2", 8, 7},
			{`{"HostConfig":{},"Cpuset":"3"}`, "", "3", 0, 0},
			{`{"Cpuset":"3"}`, "", "3", 0, 0},
		} {
			body, warnings, err := wire.DecodeCreate([]byte(tc.in), version)
			if err != nil || len(warnings) > 0 {
				t.Errorf("DecodeCreate(%s) at %s = %v, %q", tc.in, version, err, warnings)
				continue
			}
			h := wire.ToCreateHost(body)
			if strings.Join(h.Binds, " ") != tc.binds || h.CpusetCpus != tc.cpus || h.Memory != tc.memory || h.CPUShares != tc.shares ||
				h.Privileged != (tc.binds != "") || (len(h.PortBindings) == 1) != (tc.binds != "") {
				t.Errorf("DecodeCreate(%s) at %s = %+v", tc.in, version, h)
			}
		}
	}
	body, _, err := wire.DecodeCreate([]byte(`{`+top+`}`), apiver.Max)
	if err != nil || wire.ToCreateHost(body).VolumeDriver != "d" || wire.ToCreateHost(body).MemorySwap != 6 {
		t.Errorf("DecodeCreate = %+v, %v, want the volume driver and the swap limit", wire.ToCreateHost(body), err)
	}
	if body, _, err := wire.DecodeCreate([]byte(`null`), apiver.Max); body != nil || err != nil {
		t.Errorf("DecodeCreate(null) = %v, %v, want nothing", body, err)
	}
	if _, _, err := wire.DecodeCreate([]byte(`{"Binds":"/a:/b"}`), apiver.Max); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "Binds") {
		t.Errorf("DecodeCreate of wrong Binds = %v, want fault.Invalid naming them", err)
	}
}
