package handler_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestLaterParameters: what later versions have and moss does not serve is refused by its name, and nothing is done.
func TestLaterParameters(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		method, path, name, value, fine string
	}{
		{"POST", "/images/load", "platform", "{}", ""},
		{"POST", "/build/prune", "reserved-space", "1", "0"},
		{"POST", "/build/prune", "max-used-space", "1", "0"},
		{"POST", "/build/prune", "min-free-space", "1", "0"},
	} {
		join := "?"
		if strings.Contains(tc.path, "?") {
			join = "&"
		}
		status, body := a.ask(tc.method, "/v1.24"+tc.path+join+tc.name+"="+tc.value, "")
		if said := a.containers.said(); status != refusal(tc.path) || !strings.Contains(body, tc.name+" is of API version 1.") || said != "" {
			t.Errorf("%s %s with %s=%s = %d %s with calls %q, want %d naming it and no call", tc.method, tc.path, tc.name, tc.value, status, body, said, refusal(tc.path))
		}
		if status, body = a.ask(tc.method, "/v1.24"+tc.path+join+tc.name+"="+tc.fine, ""); strings.Contains(body, "is of API version") {
			t.Errorf("%s %s with %s=%s = %d %s, want it taken", tc.method, tc.path, tc.name, tc.fine, status, body)
		}
		a.containers.said()
	}
}

// refusal is the status of what is invalid: 500 where the documents list no 400.
func refusal(path string) int {
	if strings.HasPrefix(path, "/images/load") || strings.HasPrefix(path, "/networks/") {
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// TestLaterFields: a warning reaches the client where the answer has a place for it, and is a refusal where there is none.
func TestLaterFields(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		path, body, want string
		status           int
	}{
		{"/v1.18/containers/create", `{"Image":"box","HostConfig":{"Annotations":{"a":"b"}}}`, "HostConfig.Annotations has no effect", 201},
		{"/v1.24/containers/create", `{"Image":"box","HostConfig":{"DeviceRequests":[{"Count":-1}]}}`, "HostConfig.DeviceRequests is of", 400},
		{"/v1.24/containers/create?platform=linux/amd64", `{"Image":"box"}`, `"Warnings":[`, 201},
		{"/v1.24/containers/create?platform=linux/arm64", `{"Image":"box"}`, "box is not for linux/arm64", 404},
		{"/v1.24/containers/web/update", `{"KernelMemoryTCP":1}`, "KernelMemoryTCP has no effect", 200},
		{"/v1.23/containers/web/start", `{"Annotations":{"a":"b"}}`, "Annotations has no effect", 500},
		{"/v1.24/volumes/create", `{"ClusterVolumeSpec":{"Group":"a"}}`, "ClusterVolumeSpec is of", 500},
		{"/v1.24/networks/front/connect", `{"Container":"web","EndpointConfig":{"GwPriority":2}}`, "EndpointConfig.GwPriority is of", 500},
	} {
		status, body := a.ask(http.MethodPost, tc.path, tc.body)
		if status != tc.status || !strings.Contains(body, tc.want) {
			t.Errorf("POST %s %s = %d %s, want %d with %q", tc.path, tc.body, status, body, tc.status, tc.want)
		}
	}
}
