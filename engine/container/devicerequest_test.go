package container

import (
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestDeviceRequests(t *testing.T) {
	gpu := [][]string{{"compute"}, {"gpu"}}
	for _, tc := range []struct {
		name string
		r    DeviceRequest
		want error // the kind; nil: taken
	}{
		{"by name", DeviceRequest{Driver: "cdi", DeviceIDs: []string{"example.com/gpu=0", "example.com/net-dev=a:b.c_d-e"}}, nil},
		{"all GPUs", DeviceRequest{Count: -1, Capabilities: gpu}, nil},
		{"GPUs of a driver", DeviceRequest{Driver: "nvidia", DeviceIDs: []string{"0", "GPU-5"}, Capabilities: gpu}, nil},
		{"no name of CDI", DeviceRequest{Driver: "cdi", DeviceIDs: []string{"gpu"}}, fault.Invalid("")},
		{"a path for a name", DeviceRequest{Driver: "cdi", DeviceIDs: []string{"example.com/gpu=../x"}}, fault.Invalid("")},
		{"a number by name", DeviceRequest{Driver: "cdi", Count: 1}, fault.Invalid("")},
		{"a number and names", DeviceRequest{Count: 1, DeviceIDs: []string{"0"}, Capabilities: gpu}, fault.Invalid("")},
		{"less than all", DeviceRequest{Count: -2, Capabilities: gpu}, fault.Invalid("")},
		{"very many", DeviceRequest{Count: 1 << 30, Capabilities: gpu}, fault.Invalid("")},
		{"no id", DeviceRequest{DeviceIDs: []string{"a/b"}, Capabilities: gpu}, fault.Invalid("")},
		{"another capability", DeviceRequest{Capabilities: [][]string{{"tpu"}}}, fault.Unsupported("")},
		{"none", DeviceRequest{Count: -1}, fault.Unsupported("")},
		{"another driver", DeviceRequest{Driver: "amd", Capabilities: gpu}, fault.Unsupported("")},
		{"options", DeviceRequest{Driver: "cdi", Options: map[string]string{"a": "b"}}, fault.Unsupported("")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := NewSpec(Config{Cmd: []string{"sh"}}, HostConfig{DeviceRequests: []DeviceRequest{tc.r}}, nil, image.Config{})
			if tc.want == nil && err != nil || tc.want != nil && fault.KindOf(err) != fault.KindOf(tc.want) {
				t.Errorf("NewSpec = %v, want the kind of %v", err, tc.want)
			}
		})
	}
}
