package handler_test

import (
	"io"
	"net/http"
	"testing"

	"moss/docs"
)

func TestOpenAPI(t *testing.T) {
	a := newAPI(t)
	for _, path := range []string{"/openapi.yaml", "/v1.18/openapi.yaml", "/v1.24/openapi.yaml"} {
		resp := a.open("GET", path, "") //nolint:bodyclose // The cleanup of open does.
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "application/yaml" || string(body) != string(docs.OpenAPI()) {
			t.Errorf("%s = %d %s, %d bytes, want 200 application/yaml with the document", path, resp.StatusCode, got, len(body))
		}
	}
}
