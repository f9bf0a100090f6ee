package handler_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestLaterFields: a warning reaches the client where the answer has a place for it, and is a refusal where there is none.
func TestLaterFields(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		path, body, want string
		status           int
	}{
		{"/v1.18/containers/create", `{"Image":"box","HostConfig":{"KernelMemoryTCP":1}}`, "HostConfig.KernelMemoryTCP has no effect", 201},
		{"/v1.24/containers/create", `{"Image":"box","HostConfig":{"CpuRealtimePeriod":1}}`, "HostConfig.CpuRealtimePeriod is of", 400},
		{"/v1.24/containers/create?platform=linux/amd64", `{"Image":"box"}`, `"Warnings":[`, 201},
		{"/v1.24/containers/create?platform=linux/arm64", `{"Image":"box"}`, "box is not for linux/arm64", 404},
		{"/v1.24/containers/web/update", `{"KernelMemoryTCP":1}`, "KernelMemoryTCP has no effect", 200},
		{"/v1.23/containers/web/start", `{"KernelMemoryTCP":1}`, "KernelMemoryTCP has no effect", 500},
		{"/v1.24/volumes/create", `{"ClusterVolumeSpec":{"Group":"a"}}`, "ClusterVolumeSpec is of", 500},
	} {
		status, body := a.ask(http.MethodPost, tc.path, tc.body)
		if status != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("POST %s %s = %d %s, want %d with %q", tc.path, tc.body, status, body, tc.status, tc.want)
		}
	}
}
